//! Discovery: which groups, versions and resources there are, one document at a time or all at once.
//!
//! In: the kinds served. Out: documents. Invariant: the aggregated documents are made once per change of the kinds, and
//! their tag is the hash of their content.

mod openapi;

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

pub use openapi::{document as openapi_document, index as openapi_index};

use crate::rest::registry::Kinds;
use crate::rest::strategy::{Kind, Subresource};
use crate::rest::to_yaml;

/// The version that is played.
pub const GIT_VERSION: &str = "v1.36.2";

/// Built-in groups in the real server's order; others follow by name.
const GROUP_ORDER: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// Keeps the aggregated documents.
#[derive(Default)]
pub struct Discovery {
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    generation: u64,
    core: Option<(Bytes, String)>,
    groups: Option<(Bytes, String)>,
}

impl Discovery {
    /// The aggregated document of `/api` or `/apis` and its tag.
    pub fn aggregated(
        &self,
        kinds: &Kinds,
        remote: &[(String, Vec<String>)],
        core: bool,
        yaml: bool,
    ) -> (Bytes, String) {
        if !core && !remote.is_empty() {
            let text = aggregated(kinds, remote, core).to_string();
            let etag = hash(text.as_bytes());
            return (if yaml { to_yaml(text.as_bytes()) } else { text.into() }, etag);
        }
        let mut kept = self.kept.lock();
        if kept.generation != kinds.generation() {
            *kept = Kept { generation: kinds.generation(), ..Kept::default() };
        }
        let place = if core { &mut kept.core } else { &mut kept.groups };
        let (bytes, etag) = place.get_or_insert_with(|| {
            let text = aggregated(kinds, &[], core).to_string();
            let etag = hash(text.as_bytes());
            (Bytes::from(text), etag)
        });
        if yaml {
            return (to_yaml(bytes), etag.clone());
        }
        (bytes.clone(), etag.clone())
    }
}

/// SHA-256 in upper-case hex, as the tags of the real server look.
pub fn hash(data: &[u8]) -> String {
    Sha256::digest(data).iter().map(|byte| format!("{byte:02X}")).collect()
}

fn group_names(kinds: &Kinds) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for kind in kinds.all() {
        if !kind.group.is_empty() && !names.contains(&kind.group) {
            names.push(kind.group.clone());
        }
    }
    let rank =
        |name: &String| GROUP_ORDER.iter().position(|known| known == name).unwrap_or(GROUP_ORDER.len());
    names.sort_by(|a, b| rank(a).cmp(&rank(b)).then_with(|| a.cmp(b)));
    names
}

/// Versions of a group, the preferred one first: stable before beta before alpha, newer before older.
fn versions(kinds: &Kinds, group: &str) -> Vec<String> {
    let mut versions = kinds.versions(group).unwrap_or_default().to_vec();
    versions.sort_by(|a, b| priority(b).cmp(&priority(a)).then_with(|| a.cmp(b)));
    versions
}

/// How a version ranks: stability, major, minor; all zero for names that follow no pattern.
fn priority(version: &str) -> (u8, u32, u32) {
    let parse = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major = rest[..digits].parse().ok()?;
        let rank = match &rest[digits..] {
            "" => (3, major, 0),
            tail if tail.starts_with("beta") => (2, major, tail[4..].parse().ok()?),
            tail if tail.starts_with("alpha") => (1, major, tail[5..].parse().ok()?),
            _ => return None,
        };
        Some(rank)
    };
    parse().unwrap_or_default()
}

fn sorted<'a>(kinds: &'a Kinds, group: &str, version: &str) -> Vec<&'a Arc<Kind>> {
    let mut found: Vec<_> = kinds.all().iter().filter(|k| k.group == group && k.version == version).collect();
    found.sort_by(|a, b| a.plural.cmp(&b.plural));
    found
}

/// `GET /api`.
pub fn core_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1"}],
    })
}

/// `GET /apis`.
pub fn groups(kinds: &Kinds, remote: &[(String, Vec<String>)]) -> Value {
    let mut groups: Vec<_> = group_names(kinds).iter().map(|name| group_entry(kinds, name)).collect();
    groups.extend(remote.iter().map(|(name, versions)| entry(name, versions)));
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// `GET /apis/GROUP`, be it served here or announced for another server.
pub fn group(kinds: &Kinds, remote: &[(String, Vec<String>)], name: &str) -> Value {
    let elsewhere = remote.iter().find(|(group, _)| group == name).map(|(_, versions)| versions.clone());
    let mut entry = entry(name, &elsewhere.unwrap_or_else(|| versions(kinds, name)));
    entry["kind"] = "APIGroup".into();
    entry["apiVersion"] = "v1".into();
    entry
}

fn group_entry(kinds: &Kinds, name: &str) -> Value {
    entry(name, &versions(kinds, name))
}

fn entry(name: &str, versions: &[String]) -> Value {
    let versions: Vec<_> = versions
        .iter()
        .map(|version| json!({"groupVersion": format!("{name}/{version}"), "version": version}))
        .collect();
    let preferred = versions.first().cloned().unwrap_or(Value::Null);
    json!({"name": name, "versions": versions, "preferredVersion": preferred})
}

/// `GET /api/v1` and `GET /apis/GROUP/VERSION`.
pub fn resources(kinds: &Kinds, group: &str, version: &str) -> Value {
    let mut all = Vec::new();
    for kind in sorted(kinds, group, version) {
        all.push(resource(kind));
        let mut subs: Vec<_> = kind.subresources.iter().collect();
        if !kind.custom {
            subs.sort_by(|a, b| a.name.cmp(&b.name));
        }
        all.extend(subs.into_iter().map(|sub| subresource(kind, sub)));
    }
    let mut document = Map::new();
    document.insert("kind".into(), "APIResourceList".into());
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    if !group.is_empty() {
        document.insert("apiVersion".into(), "v1".into());
    }
    document.insert("groupVersion".into(), api_version.into());
    document.insert("resources".into(), Value::Array(all));
    Value::Object(document)
}

fn resource(kind: &Kind) -> Value {
    let mut entry = Map::new();
    entry.insert("name".into(), kind.plural.clone().into());
    entry.insert("singularName".into(), kind.singular.clone().into());
    entry.insert("namespaced".into(), kind.namespaced.into());
    entry.insert("kind".into(), kind.kind.clone().into());
    // Custom kinds list their verbs as they come.
    let listed = if kind.custom { json!(kind.verbs) } else { verbs(&kind.verbs) };
    entry.insert("verbs".into(), listed);
    put_list(&mut entry, "shortNames", &kind.short_names);
    put_list(&mut entry, "categories", &kind.categories);
    if !kind.storage_version_hash.is_empty() {
        entry.insert("storageVersionHash".into(), kind.storage_version_hash.clone().into());
    }
    Value::Object(entry)
}

fn subresource(kind: &Kind, sub: &Subresource) -> Value {
    let mut entry = Map::new();
    entry.insert("name".into(), format!("{}/{}", kind.plural, sub.name).into());
    entry.insert("singularName".into(), "".into());
    entry.insert("namespaced".into(), kind.namespaced.into());
    if !sub.version.is_empty() {
        entry.insert("group".into(), sub.group.clone().into());
        entry.insert("version".into(), sub.version.clone().into());
    }
    entry.insert("kind".into(), sub.kind.clone().into());
    entry.insert("verbs".into(), verbs(&sub.verbs));
    Value::Object(entry)
}

fn put_list(entry: &mut Map<String, Value>, key: &str, list: &[String]) {
    if !list.is_empty() {
        entry.insert(key.into(), json!(list));
    }
}

fn verbs(verbs: &[&'static str]) -> Value {
    let mut sorted = verbs.to_vec();
    sorted.sort_unstable();
    json!(sorted)
}

fn aggregated(kinds: &Kinds, remote: &[(String, Vec<String>)], core: bool) -> Value {
    let names = if core { vec![String::new()] } else { group_names(kinds) };
    let mut items: Vec<_> = names.iter().map(|name| aggregated_group(kinds, name)).collect();
    items.extend(remote.iter().map(|(name, versions)| {
        let versions: Vec<_> =
            versions.iter().map(|version| json!({"version": version, "freshness": "Stale"})).collect();
        json!({"metadata": {"name": name}, "versions": versions})
    }));
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {}, "items": items,
    })
}

fn aggregated_group(kinds: &Kinds, name: &str) -> Value {
    let versions: Vec<_> = versions(kinds, name)
        .into_iter()
        .map(|version| {
            let resources: Vec<_> =
                sorted(kinds, name, &version).into_iter().map(|k| aggregated_resource(k)).collect();
            json!({"version": version, "freshness": "Current", "resources": resources})
        })
        .collect();
    let metadata = if name.is_empty() { json!({}) } else { json!({ "name": name }) };
    json!({"metadata": metadata, "versions": versions})
}

fn aggregated_resource(kind: &Kind) -> Value {
    let mut entry = Map::new();
    entry.insert("resource".into(), kind.plural.clone().into());
    // Custom kinds are announced with their group and version, built-in ones without.
    let (group, version) = if kind.custom { (kind.group.as_str(), kind.version.as_str()) } else { ("", "") };
    entry.insert("responseKind".into(), json!({"group": group, "version": version, "kind": kind.kind}));
    entry.insert("scope".into(), if kind.namespaced { "Namespaced" } else { "Cluster" }.into());
    entry.insert("singularResource".into(), kind.singular.clone().into());
    entry.insert("verbs".into(), verbs(&kind.verbs));
    put_list(&mut entry, "shortNames", &kind.short_names);
    put_list(&mut entry, "categories", &kind.categories);
    if !kind.subresources.is_empty() {
        let mut subs: Vec<_> = kind.subresources.iter().collect();
        subs.sort_by(|a, b| a.name.cmp(&b.name));
        let subs: Vec<_> = subs
            .into_iter()
            .map(|sub| {
                let own = sub.version.is_empty();
                let (group, version) =
                    if own { (group, version) } else { (sub.group.as_str(), sub.version.as_str()) };
                json!({
                    "subresource": sub.name, "verbs": verbs(&sub.verbs),
                    "responseKind": {"group": group, "version": version, "kind": sub.kind},
                })
            })
            .collect();
        entry.insert("subresources".into(), Value::Array(subs));
    }
    Value::Object(entry)
}

/// `GET /version`.
pub fn version() -> Value {
    json!({
        "major": "1", "minor": "36", "emulationMajor": "1", "emulationMinor": "36",
        "minCompatibilityMajor": "1", "minCompatibilityMinor": "35",
        "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "",
        "buildDate": "1970-01-01T00:00:00Z", "goVersion": "",
        "compiler": "gc", "platform": "linux/amd64",
    })
}

#[cfg(test)]
mod tests {
    use super::priority;

    #[test]
    fn stable_versions_come_before_betas_and_newer_before_older() {
        let mut versions = ["v1beta1", "v2", "v1", "v1alpha1", "v10", "foo", "v2beta3"];
        versions.sort_by_key(|version| std::cmp::Reverse(priority(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta3", "v1beta1", "v1alpha1", "foo"]);
    }
}
