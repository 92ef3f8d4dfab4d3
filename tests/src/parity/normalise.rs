//! Objects in a form that two correct runs agree on.
//!
//! In: live objects and their history. Out: objects without what differs from
//! run to run: uids, versions, times, hashes, generated names, addresses.

mod prune;

use std::{collections::HashMap, sync::LazyLock};

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use super::{
    object::{self, canonical, list, text},
    recorder::{Change, Known},
};

fn pattern(text: &str) -> Regex {
    Regex::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static IPV4: LazyLock<Regex> = LazyLock::new(|| pattern(r"\b10\.\d{1,3}\.\d{1,3}\.\d{1,3}\b"));
static RANDOM: LazyLock<Regex> = LazyLock::new(|| pattern("^[bcdfghjklmnpqrstvwxz2456789]{5}$"));
static CSI: LazyLock<Regex> = LazyLock::new(|| pattern("csi-[0-9a-f]{64}"));
static DIGITS: LazyLock<Regex> = LazyLock::new(|| pattern(r"-\d+"));
static NAME: LazyLock<Regex> = LazyLock::new(|| pattern("[a-z0-9][a-z0-9.-]*"));

/// Which labels carry a hash, by resource.
const HASHES: [(&str, &[&str]); 2] = [
    ("replicasets", &["pod-template-hash"]),
    ("controllerrevisions", &["controller-revision-hash", "controller.kubernetes.io/hash"]),
];

/// Placeholders of one scenario.
pub struct Normaliser<'a> {
    namespace: &'a str,
    keep_nodes: bool,
    keep_ips: bool,
    names: HashMap<String, String>,
    /// In order of creation: an earlier one is replaced first.
    hashes: Vec<(String, String)>,
}

impl<'a> Normaliser<'a> {
    /// Learns hashes and generated names from the history.
    pub fn new(namespace: &'a str, known: &Known, keep_nodes: bool, keep_ips: bool) -> Self {
        let mut new = Self { namespace, keep_nodes, keep_ips, names: HashMap::new(), hashes: Vec::new() };
        for (resource, labels) in HASHES {
            new.learn_hashes(known, resource, labels);
        }
        for resource in known.resources(namespace) {
            if !matches!(resource.as_str(), "events" | "leases") {
                new.learn_names(known, &resource, namespace);
            }
        }
        new.learn_names(known, "certificatesigningrequests", "");
        new
    }

    /// Hashes are numbered per owner.
    fn learn_hashes(&mut self, known: &Known, resource: &str, labels: &[&str]) {
        let past = known.past(resource, self.namespace).iter();
        let mut made: Vec<&Value> = past.filter(|h| h.change == Change::Added).map(|h| &*h.object).collect();
        made.sort_by_key(|o| object::version(o));
        let mut numbers: HashMap<String, usize> = HashMap::new();
        for o in made {
            let owner = text(&o["metadata"]["ownerReferences"][0]["name"]).to_owned();
            let name = object::name(o);
            let tail = name
                .strip_prefix(&format!("{owner}-"))
                .filter(|tail| !owner.is_empty() && !tail.contains('-'));
            let labelled = labels.iter().map(|label| text(&o["metadata"]["labels"][label]));
            for hash in labelled.chain(tail) {
                if hash.len() < 5 || self.hashes.iter().any(|(known, _)| known == hash) {
                    continue;
                }
                let number = numbers.entry(owner.clone()).or_default();
                *number += 1;
                self.hashes.push((hash.to_owned(), format!("<hash{number}>")));
            }
        }
    }

    fn learn_names(&mut self, known: &Known, resource: &str, namespace: &str) {
        for happened in known.past(resource, namespace) {
            let name = object::name(&happened.object);
            let prefix = text(&happened.object["metadata"]["generateName"]);
            let tail = name.strip_prefix(prefix).filter(|tail| !prefix.is_empty() && RANDOM.is_match(tail));
            if tail.is_some() {
                self.names.insert(name.to_owned(), format!("{prefix}<r>"));
            }
        }
    }

    /// A text with placeholders.
    pub fn text(&self, raw: &str) -> String {
        let mut s = match self.names.get(raw) {
            Some(known) => known.clone(),
            None => {
                let found = NAME.find_iter(raw).filter_map(|m| self.names.get_key_value(m.as_str()));
                found.fold(raw.to_owned(), |s, (name, mark)| s.replace(name, mark))
            }
        };
        for (hash, mark) in &self.hashes {
            if s.contains(hash.as_str()) {
                s = s.replace(hash, mark);
            }
        }
        s = s.replace(self.namespace, "<ns>");
        s = UUID.replace_all(&s, "<uid>").into_owned();
        s = TIME.replace_all(&s, "<time>").into_owned();
        s = CSI.replace_all(&s, "csi-<sha>").into_owned();
        s = DIGITS.replace_all(&s, minute).into_owned();
        if !self.keep_ips {
            s = replace_unless_followed(&IPV4, &s, '/', "<ip>");
        }
        s
    }

    /// A value with placeholders, without versions.
    pub fn walk(&self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => Value::Object(
                fields
                    .iter()
                    .filter(|(key, value)| *key != "resourceVersion" || value.is_object())
                    .map(|(key, value)| (self.text(key), self.walk(value)))
                    .collect(),
            ),
            Value::Array(items) => items.iter().map(|item| self.walk(item)).collect(),
            Value::String(s) => self.text(s).into(),
            other => other.clone(),
        }
    }

    /// An object in comparable form, without the fields at `drop`.
    pub fn object(&self, object: &Value, drop: &[String]) -> Value {
        let mut o = object.clone();
        prune::prune(&mut o, self.keep_nodes);
        let mut o = self.walk(&o);
        prune::sort(&mut o);
        for path in drop {
            remove(&mut o, &path.split('.').collect::<Vec<_>>());
        }
        o
    }

    /// Objects in comparable form; equal ones become one entry with a count.
    pub fn collapse<'o>(&self, objects: impl Iterator<Item = &'o Value>, drop: &[String]) -> Value {
        let mut table: std::collections::BTreeMap<String, (u64, Value)> = Default::default();
        for object in objects {
            let normal = self.object(object, drop);
            table.entry(canonical(&normal)).or_insert((0, normal)).0 += 1;
        }
        table.into_values().map(|(count, object)| json!({"count": count, "object": object})).collect()
    }
}

/// Eight digits after a dash are the minute of a CronJob's run.
fn minute(found: &Captures<'_>) -> String {
    let digits = &found[0];
    if digits.len() == 9 { "-<minute>".into() } else { digits.into() }
}

fn replace_unless_followed(regex: &Regex, s: &str, by: char, with: &str) -> String {
    let mut out = String::with_capacity(s.len());
    let mut done = 0;
    for found in regex.find_iter(s) {
        out.push_str(&s[done..found.start()]);
        let kept = s[found.end()..].starts_with(by);
        out.push_str(if kept { found.as_str() } else { with });
        done = found.end();
    }
    out.push_str(&s[done..]);
    out
}

/// Takes away what is at a path: `*` is any key, `~` in a key stands for a dot.
fn remove(value: &mut Value, path: &[&str]) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| remove(item, path)),
        Value::Object(fields) => match path {
            ["*", rest @ ..] => fields.values_mut().for_each(|below| remove(below, rest)),
            [last] => drop_key(fields, &last.replace('~', ".")),
            [head, rest @ ..] => {
                if let Some(below) = fields.get_mut(&head.replace('~', ".")) {
                    remove(below, rest);
                }
            }
            [] => {}
        },
        _ => {}
    }
}

fn drop_key(fields: &mut Map<String, Value>, key: &str) {
    fields.remove(key);
}

/// Sorts a list by its entries' canonical text.
fn sort_list(value: &mut Value) {
    if let Some(items) = value.as_array_mut() {
        items.sort_by_cached_key(canonical);
    }
}

/// Sorts a list of texts, or by a field.
fn sort_by_field(value: &mut Value, field: &str) {
    if let Some(items) = value.as_array_mut() {
        items.sort_by_cached_key(|item| text(&item[field]).to_owned());
    }
}

fn is_owned_by(object: &Value, kind: &str) -> bool {
    list(&object["metadata"]["ownerReferences"]).iter().any(|owner| owner["kind"] == kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normaliser(keep_ips: bool) -> Normaliser<'static> {
        Normaliser {
            namespace: "p-x",
            keep_nodes: false,
            keep_ips,
            names: [("web-7fc9-bcdfg".to_owned(), "web-7fc9-<r>".to_owned())].into(),
            hashes: vec![("7fc9".to_owned(), "<hash1>".to_owned())],
        }
    }

    #[test]
    fn texts() {
        for (raw, normal) in [
            ("web-7fc9-bcdfg", "web-<hash1>-<r>"),
            ("pod web-7fc9-bcdfg, made", "pod web-<hash1>-<r>, made"),
            ("p-x/web", "<ns>/web"),
            ("10.1.2.3 and 10.1.0.0/16", "<ip> and 10.1.0.0/16"),
            ("cj-29012345 cj-290123456", "cj-<minute> cj-290123456"),
            ("at 2026-01-02T03:04:05Z by 12345678-1234-1234-1234-123456789abc", "at <time> by <uid>"),
        ] {
            assert_eq!(normaliser(false).text(raw), normal);
        }
        assert_eq!(normaliser(true).text("10.1.2.3"), "10.1.2.3");
    }

    #[test]
    fn dropped_paths() {
        let mut o = json!({"a": [{"b": 1, "c": 2}, {"b": 3}], "d": {"x.y": {"e": 1, "f": 2}}});
        remove(&mut o, &["a", "b"]);
        remove(&mut o, &["d", "*", "e"]);
        assert_eq!(o, json!({"a": [{"c": 2}, {}], "d": {"x.y": {"f": 2}}}));
        remove(&mut o, &["d", "x~y"]);
        assert_eq!(o["d"], json!({}));
    }

    #[test]
    fn a_pod_keeps_what_its_controller_decided() {
        let pod = json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "a", "uid": "u", "resourceVersion": "5", "generation": 2, "annotations": {"sim.coxswain.dev/ready": "never"},
                "labels": {"app": "a", "topology.kubernetes.io/zone": "z"},
                "ownerReferences": [{"kind": "ReplicaSet", "name": "r", "uid": "u"}]},
            "spec": {"nodeName": "node-1", "dnsPolicy": "x", "containers": [{"name": "c", "resources": {}}],
                "tolerations": [{"key": "node.kubernetes.io/not-ready", "tolerationSeconds": 300}]},
            "status": {"podIP": "10.0.0.1", "observedGeneration": 2, "conditions": [
                {"type": "Ready", "status": "False", "reason": "ContainersNotReady", "lastTransitionTime": null},
                {"type": "Initialized", "status": "True", "reason": null}]}});
        assert_eq!(
            normaliser(false).object(&pod, &[]),
            json!({"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "a", "labels": {"app": "a"}, "ownerReferences": [{"kind": "ReplicaSet", "name": "r"}]},
                "spec": {"nodeName": "<node>", "containers": [{"name": "c"}]},
                "status": {"conditions": [{"type": "Initialized", "status": "True"},
                    {"type": "Ready", "status": "False", "reason": "ContainersNotReady"}]}})
        );
    }
}
