//! Stable names for what a server makes up: uids, versions, times, generated names, addresses.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::LazyLock,
};

use regex::{Captures, Regex};
use serde_json::{Map, Value, json};

use super::template::pattern;

static UUID: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"));
static TIME: LazyLock<Regex> =
    LazyLock::new(|| pattern(r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)"));
static AGE: LazyLock<Regex> = LazyLock::new(|| pattern(r"^(\d+[ywdhms])+$"));
static SUFFIX: LazyLock<Regex> = LazyLock::new(|| pattern("^[bcdfghjklmnpqrstvwxz2456789]{5}$"));
/// Where versions occur in texts: what comes before, the version, what comes after.
static VERSIONS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
    [
        r"(ResourceVersion in (?:precondition|object meta): )(\d+)()",
        r"(too old resource version: )(\d+)()",
        r"(too old resource version: \S+ \()(\d+)(\))",
        r"(Too large resource version: )(\d+)()",
        r"(resourceVersion=)(\d+)()",
        r"(ResourceVersion in (?:the precondition|record) \()(\d+)(\))",
        r#"("resourceVersion":")(\d+)(")"#,
        r#"(\\"resourceVersion\\":\\")(\d+)(\\")"#,
        r"(Too large resource version: \S+, current: )(\d+)()",
    ]
    .map(pattern)
    .into()
});
const AGE_COLUMNS: [&str; 4] = ["Age", "Last Seen", "First Seen", "Last Schedule"];
const NODE_PORTS: [&str; 2] = ["nodePort", "healthCheckNodePort"];

/// Names of one case.
pub(super) struct Normaliser<'a> {
    /// The case as it is written: its own values are left alone.
    literal: &'a str,
    namespace: &'a str,
    run: &'a str,
    keep_managed: bool,
    uids: HashMap<String, String>,
    words: BTreeMap<String, String>,
    /// Words, the longest first.
    by_length: Vec<(String, String)>,
    versions: BTreeSet<u64>,
    ranks: HashMap<u64, usize>,
    last_columns: Vec<Value>,
}

fn is_version(value: &Value) -> Option<u64> {
    let text = value.as_str().filter(|text| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit()))?;
    text.parse().ok()
}

/// A list or table: its version is that of the moment.
fn is_collective(object: &Map<String, Value>) -> bool {
    object.contains_key("items") || object.contains_key("rows")
}

fn is_word(c: Option<char>, also: char) -> bool {
    c.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == also)
}

/// Whether a word stands by itself at a place.
fn stands_alone(text: &str, at: usize, length: usize, also: char) -> bool {
    !is_word(text[..at].chars().next_back(), also) && !is_word(text[at + length..].chars().next(), also)
}

impl<'a> Normaliser<'a> {
    pub fn new(literal: &'a str, namespace: &'a str, run: &'a str, keep_managed: bool) -> Self {
        Self {
            literal,
            namespace,
            run,
            keep_managed,
            uids: HashMap::new(),
            words: BTreeMap::new(),
            by_length: Vec::new(),
            versions: BTreeSet::new(),
            ranks: HashMap::new(),
            last_columns: Vec::new(),
        }
    }

    /// Looks at what the server said. All exchanges come before any is renamed.
    pub fn learn(&mut self, exchange: &Value) {
        let response = &exchange["response"];
        self.look(None, &response["body"]);
        for event in response["events"].as_array().into_iter().flatten() {
            if event.is_object() && event["type"] != "BOOKMARK" {
                self.look(None, &event["object"]);
            }
        }
    }

    fn look(&mut self, key: Option<&str>, value: &Value) {
        match value {
            Value::Object(fields) => {
                self.learn_object(fields);
                let mut keys: Vec<&String> = fields.keys().collect();
                keys.sort();
                keys.into_iter().for_each(|key| self.look(Some(key), &fields[key]));
            }
            Value::Array(items) => items.iter().for_each(|item| self.look(key, item)),
            Value::String(text) => match key {
                Some("clusterIP") if !text.is_empty() && text != "None" => self.word(text, "<clusterIP>"),
                Some("token") if text.matches('.').count() == 2 => self.word(text, "<token>"),
                Some("continue") if !text.is_empty() => self.word(text, "<continue>"),
                _ => {}
            },
            Value::Number(number)
                if key.is_some_and(|key| NODE_PORTS.contains(&key))
                    && number.as_u64().is_some_and(|n| n > 0) =>
            {
                self.word(&number.to_string(), "<nodePort>");
            }
            _ => {}
        }
    }

    fn learn_object(&mut self, fields: &Map<String, Value>) {
        let Some(meta) = fields.get("metadata").filter(|meta| meta.is_object()) else { return };
        if let Some(version) =
            is_version(&meta["resourceVersion"]).filter(|v| *v != 0 && !is_collective(fields))
        {
            self.versions.insert(version);
        }
        if let (Some(prefix), Some(name)) = (meta["generateName"].as_str(), meta["name"].as_str()) {
            let suffix = name.strip_prefix(prefix).filter(|suffix| SUFFIX.is_match(suffix));
            if !prefix.is_empty() && suffix.is_some() {
                self.words.insert(name.into(), format!("{prefix}<suffix>"));
            }
        }
    }

    fn word(&mut self, value: &str, name: &str) {
        let written = self.literal.match_indices(value);
        if !written.into_iter().any(|(at, _)| stands_alone(self.literal, at, value.len(), '.')) {
            self.words.insert(value.into(), name.into());
        }
    }

    /// Numbers versions by size.
    pub fn settle(&mut self) {
        self.ranks = self.versions.iter().enumerate().map(|(i, version)| (*version, i + 1)).collect();
        self.by_length = self.words.iter().map(|(word, name)| (word.clone(), name.clone())).collect();
        self.by_length.sort_by_key(|(word, _)| std::cmp::Reverse(word.len()));
    }

    fn version(&self, digits: &str) -> String {
        let number: u64 = digits.parse().unwrap_or_default();
        if number == 0 {
            return "0".into();
        }
        if let Some(rank) = self.ranks.get(&number) {
            return format!("rv{rank}");
        }
        let mut written = self.literal.match_indices(digits);
        // '_' is part of a word already.
        if written.any(|(at, _)| stands_alone(self.literal, at, digits.len(), '_')) {
            return digits.to_owned();
        }
        self.at_least(number)
    }

    /// The newest object that a collection or bookmark covers.
    fn at_least(&self, number: u64) -> String {
        let covered = self.versions.range(..=number).next_back();
        format!("rv>={}", covered.and_then(|version| self.ranks.get(version)).copied().unwrap_or_default())
    }

    fn text(&mut self, raw: &str) -> String {
        let literal = self.literal;
        let uids = &mut self.uids;
        let mut s = UUID
            .replace_all(raw, |found: &Captures<'_>| {
                let uid = &found[0];
                if literal.contains(uid) {
                    return uid.to_owned();
                }
                let next = format!("<uid-{}>", uids.len() + 1);
                uids.entry(uid.to_owned()).or_insert(next).clone()
            })
            .into_owned();
        s = TIME
            .replace_all(&s, |found: &Captures<'_>| {
                let micro = found.get(1).is_some_and(|fraction| fraction.len() == 7);
                match literal.contains(&found[0]) {
                    true => found[0].to_owned(),
                    false if micro => "<microtime>".into(),
                    false => "<time>".into(),
                }
            })
            .into_owned();
        s = self.words_in(&s);
        for version in VERSIONS.iter() {
            s = version
                .replace_all(&s, |found: &Captures<'_>| {
                    format!("{}{}{}", &found[1], self.version(&found[2]), &found[3])
                })
                .into_owned();
        }
        if !self.namespace.is_empty() {
            s = s.replace(self.namespace, "<ns>");
        }
        s.replace(self.run, "<run>")
    }

    /// Replaces learnt words where they stand by themselves.
    fn words_in(&self, text: &str) -> String {
        if self.by_length.is_empty() {
            return text.to_owned();
        }
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        while let Some(c) = text[at..].chars().next() {
            let found = self.by_length.iter().find(|(word, _)| {
                text[at..].starts_with(word.as_str()) && stands_alone(text, at, word.len(), '-')
            });
            match found {
                Some((word, name)) => {
                    out.push_str(name);
                    at += word.len();
                }
                None => {
                    out.push(c);
                    at += c.len_utf8();
                }
            }
        }
        out
    }

    fn value(&mut self, value: &Value, key: Option<&str>, floating: bool) -> Value {
        match value {
            Value::Object(fields) => self.object(fields, floating),
            Value::Array(items) => items.iter().map(|item| self.value(item, key, false)).collect(),
            Value::Number(number)
                if key.is_some_and(|key| NODE_PORTS.contains(&key))
                    && self.words.contains_key(&number.to_string()) =>
            {
                "<nodePort>".into()
            }
            Value::String(text) => match is_version(value).filter(|_| key == Some("resourceVersion")) {
                Some(number) if floating && number != 0 => self.at_least(number).into(),
                Some(_) => self.version(text).into(),
                None => self.text(text).into(),
            },
            other => other.clone(),
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, floating: bool) -> Value {
        let table = fields.get("columnDefinitions").is_some_and(Value::is_array)
            || fields.get("kind").is_some_and(|kind| kind == "Table");
        let aged;
        let fields = if table {
            aged = self.without_ages(fields);
            &aged
        } else {
            fields
        };
        let collective = is_collective(fields);
        let mut keys: Vec<&String> = fields.keys().collect();
        keys.sort();
        let mut out = Map::new();
        for key in keys {
            if key == "managedFields" && !self.keep_managed {
                continue;
            }
            let name = self.text(key);
            let value = match &fields[key] {
                Value::Object(meta) if key == "metadata" => self.metadata(meta, collective || floating),
                other => self.value(other, Some(key), false),
            };
            out.insert(name, value);
        }
        Value::Object(out)
    }

    fn metadata(&mut self, meta: &Map<String, Value>, floating: bool) -> Value {
        let mut keys: Vec<&String> =
            meta.keys().filter(|key| *key != "managedFields" || self.keep_managed).collect();
        keys.sort();
        let mut out = Map::new();
        for key in keys {
            let name = self.text(key);
            out.insert(name, self.value(&meta[key], Some(key), floating));
        }
        Value::Object(out)
    }

    /// A table without ages and without descriptions of columns. Only the
    /// first of a stream has columns.
    fn without_ages(&mut self, table: &Map<String, Value>) -> Map<String, Value> {
        let own =
            table.get("columnDefinitions").and_then(Value::as_array).filter(|columns| !columns.is_empty());
        if let Some(columns) = own {
            self.last_columns.clone_from(columns);
        }
        let is_age = |column: &Value| column["name"].as_str().is_some_and(|name| AGE_COLUMNS.contains(&name));
        let ages: Vec<bool> = self.last_columns.iter().map(is_age).collect();
        let mut rows = table.get("rows").and_then(Value::as_array).cloned().unwrap_or_default();
        for row in &mut rows {
            for (cell, is_age) in row["cells"].as_array_mut().into_iter().flatten().zip(&ages) {
                if *is_age && cell.as_str().is_some_and(|text| AGE.is_match(text)) {
                    *cell = "<age>".into();
                }
            }
        }
        let mut shaped = table.clone();
        shaped.insert("rows".into(), rows.into());
        if let Some(columns) = own {
            let mut columns = columns.clone();
            for column in columns.iter_mut().filter_map(Value::as_object_mut) {
                column.remove("description");
            }
            shaped.insert("columnDefinitions".into(), columns.into());
        }
        shaped
    }

    /// A bookmark's object is a zero value of the kind: only its metadata says
    /// anything.
    fn event(&mut self, event: &Value) -> Value {
        if !event.is_object() {
            return self.value(event, None, false);
        }
        let bookmark = event["type"] == "BOOKMARK";
        let mut object = event["object"].clone();
        if let Some(fields) = object.as_object_mut().filter(|_| bookmark) {
            fields.retain(|key, _| matches!(key.as_str(), "apiVersion" | "kind" | "metadata"));
        }
        json!({"type": event["type"], "object": self.value(&object, None, bookmark)})
    }

    /// An exchange with names. The request is gone through for its uids, which
    /// are numbered in order of appearance.
    pub fn exchange(&mut self, exchange: &Value) -> Value {
        for part in ["method", "path", "headers", "body"] {
            if let Some(value) = exchange["request"].get(part) {
                self.value(value, Some(part), false);
            }
        }
        let mut response = Map::new();
        for part in ["status", "headers", "body", "of", "events", "ended"] {
            let Some(value) = exchange["response"].get(part) else { continue };
            let value = match value {
                Value::Array(events) if part == "events" => {
                    events.iter().map(|event| self.event(event)).collect()
                }
                other => self.value(other, Some(part), false),
            };
            response.insert(part.into(), value);
        }
        json!({"step": exchange["step"], "response": response})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn normal(literal: &str, bodies: &[Value]) -> Vec<Value> {
        let mut n = Normaliser::new(literal, "conf-abc", "abc", false);
        let exchanges: Vec<Value> = bodies
            .iter()
            .map(|body| json!({"step": "s", "response": {"status": 200, "body": body}}))
            .collect();
        exchanges.iter().for_each(|e| n.learn(e));
        n.settle();
        exchanges.iter().map(|e| n.exchange(e)["response"]["body"].take()).collect()
    }

    #[test]
    fn versions_are_ranked_and_lists_float() {
        let object = |rv: &str| json!({"metadata": {"resourceVersion": rv, "managedFields": []}});
        let list = |rv: &str| json!({"items": [], "metadata": {"resourceVersion": rv}});
        assert_eq!(
            normal("", &[object("12"), object("7"), list("9"), list("3"), list("0"), object("12")]),
            [
                json!({"metadata": {"resourceVersion": "rv2"}}),
                json!({"metadata": {"resourceVersion": "rv1"}}),
                json!({"items": [], "metadata": {"resourceVersion": "rv>=1"}}),
                json!({"items": [], "metadata": {"resourceVersion": "rv>=0"}}),
                json!({"items": [], "metadata": {"resourceVersion": "0"}}),
                json!({"metadata": {"resourceVersion": "rv2"}}),
            ]
        );
    }

    #[test]
    fn made_up_values_have_names_and_written_ones_stay() {
        let body = json!({"metadata": {"name": "a-bcdfg", "generateName": "a-", "uid": "12345678-1234-1234-1234-123456789abc",
            "namespace": "conf-abc"}, "spec": {"clusterIP": "10.0.0.7", "ports": [{"nodePort": 30001}, {"nodePort": 30002}]},
            "message": "a-bcdfg at 2026-01-01T00:00:00.123456Z and 2026-01-01T00:00:00Z; x-a-bcdfg; 10.0.0.7"});
        assert_eq!(
            normal("nodePort: 30002", &[body])[0],
            json!({"metadata": {"name": "a-<suffix>", "generateName": "a-", "uid": "<uid-1>", "namespace": "<ns>"},
                "spec": {"clusterIP": "<clusterIP>", "ports": [{"nodePort": "<nodePort>"}, {"nodePort": 30002}]},
                "message": "a-<suffix> at <microtime> and <time>; x-a-bcdfg; <clusterIP>"})
        );
    }

    #[test]
    fn tables_have_no_ages() {
        let first = json!({"kind": "Table", "columnDefinitions": [{"name": "Name", "description": "d"}, {"name": "Age"}],
            "rows": [{"cells": ["3d", "5m12s"]}]});
        let later = json!({"kind": "Table", "columnDefinitions": null, "rows": [{"cells": ["a", "7s"]}]});
        let found = normal("", &[first, later]);
        assert_eq!(found[0]["columnDefinitions"][0], json!({"name": "Name"}));
        assert_eq!(found[0]["rows"][0]["cells"], json!(["3d", "<age>"]));
        assert_eq!(found[1]["rows"][0]["cells"], json!(["a", "<age>"]));
    }
}
