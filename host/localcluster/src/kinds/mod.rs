//! The built-in kinds.
//!
//! In: the published discovery documents for names, verbs and subresources; one `Spec` a kind for behaviour. Out: the
//! kinds that the server serves. Invariant: every resource of the documents is served, with or without a `Spec` of its
//! own.

mod admission_rules;
mod admissionregistration;
mod apiextensions;
mod apiregistration;
mod apps;
mod autoscaling;
mod autoscaling_metrics;
mod autoscaling_v1;
mod batch;
mod certificates;
mod config;
mod cron;
mod daemon;
mod difference;
mod dra;
mod dra_rules;
mod events;
mod flowcontrol;
mod flowcontrol_rules;
mod internal;
mod ip_text;
mod job_policy;
mod job_status;
mod limits;
pub mod meta;
mod misc;
pub mod names;
mod namespace;
mod network;
mod network_policy;
mod node;
pub mod pod;
mod pod_annotations;
mod pod_changes;
pub(crate) mod pod_containers;
mod pod_defaults;
mod pod_dns;
mod pod_downward;
mod pod_env;
mod pod_mounts;
mod pod_probes;
mod pod_scheduling;
mod pod_security;
mod pod_status;
pub mod pod_validation;
mod pod_warnings;
mod policy;
mod rbac;
mod replication;
pub mod resources;
pub mod scale;
mod service;
pub mod service_family;
mod service_ip;
mod service_validation;
mod spec;
mod stateful;
mod storage;
pub mod value;
mod volume_claims;
mod volume_files;
mod volume_remote;
mod volume_sources;
mod volumes;
mod warnings;
pub(crate) mod webhooks;

use std::sync::{Arc, LazyLock};

use serde_json::Value;

use crate::rest::strategy::{Kind, StorageId, Subresource};
use crate::schema::types::unpack;
use spec::{Builtin, Spec};
use value::{flag, items, text};

/// Discovery documents of the served group versions, in the order in which they are listed.
static RESOURCES: LazyLock<Value> = LazyLock::new(|| unpack(include_bytes!("../../data/resources.json.gz")));

/// Every built-in kind.
pub fn builtin() -> Vec<Arc<Kind>> {
    let mut out = Vec::new();
    for list in RESOURCES.as_array().into_iter().flatten() {
        let group_version = text(list, "groupVersion");
        let (group, version) = group_version.split_once('/').unwrap_or(("", group_version));
        let resources = items(list, "resources");
        for resource in resources.iter().filter(|r| !text(r, "name").contains('/')) {
            out.push(Arc::new(kind(group, version, resource, resources)));
        }
    }
    out
}

fn kind(group: &str, version: &str, resource: &Value, all: &[Value]) -> Kind {
    let plural = text(resource, "name");
    let namespaced = flag(resource, "namespaced");
    let subresources: Vec<Subresource> = all
        .iter()
        .filter_map(|r| {
            let name = text(r, "name").strip_prefix(plural)?.strip_prefix('/')?;
            Some(Subresource {
                name: name.to_owned(),
                group: text(r, "group").to_owned(),
                version: text(r, "version").to_owned(),
                kind: text(r, "kind").to_owned(),
                verbs: verbs(r),
            })
        })
        .collect();
    let has_status = subresources.iter().any(|s| s.name == "status");
    let strings = |key: &str| -> Vec<String> {
        items(resource, key).iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
    };
    let kind = text(resource, "kind");
    Kind {
        group: group.to_owned(),
        version: version.to_owned(),
        plural: plural.to_owned(),
        singular: text(resource, "singularName").to_owned(),
        kind: kind.to_owned(),
        list_kind: format!("{kind}List"),
        short_names: strings("shortNames"),
        categories: strings("categories"),
        namespaced,
        verbs: verbs(resource),
        subresources,
        storage: storage_of(group, plural),
        storage_version_hash: text(resource, "storageVersionHash").to_owned(),
        custom: false,
        strategy: Arc::new(Builtin::new(spec_of(group, version, plural), namespaced, has_status)),
    }
}

/// Events are one resource under two groups.
fn storage_of(group: &str, plural: &str) -> StorageId {
    let group = if group == "events.k8s.io" { "" } else { group };
    StorageId { group: group.to_owned(), plural: plural.to_owned() }
}

fn verbs(resource: &Value) -> Vec<&'static str> {
    const KNOWN: [&str; 8] =
        ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
    let given = items(resource, "verbs");
    KNOWN.into_iter().filter(|verb| given.iter().any(|v| v == verb)).collect()
}

fn spec_of(group: &str, version: &str, plural: &str) -> Spec {
    let found = match group {
        "" => match plural {
            "pods" => Some(pod::spec()),
            "podtemplates" => Some(pod::template_spec()),
            "nodes" => Some(node::spec()),
            "namespaces" => Some(namespace::spec()),
            "services" => Some(service::spec()),
            "replicationcontrollers" => Some(replication::spec()),
            "persistentvolumes" => Some(volumes::volume()),
            "persistentvolumeclaims" => Some(volume_claims::claim()),
            "events" => Some(events::core()),
            _ => config::spec(plural),
        },
        "apps" => apps::spec(plural),
        "autoscaling" => Some(autoscaling::spec(version)),
        "batch" => batch::spec(plural),
        "policy" => Some(policy::spec()),
        "rbac.authorization.k8s.io" => Some(rbac::spec(plural)),
        "events.k8s.io" => Some(events::grouped()),
        "certificates.k8s.io" => certificates::spec(plural),
        "networking.k8s.io" => network::spec(plural),
        "storage.k8s.io" => storage::spec(plural),
        "admissionregistration.k8s.io" => Some(admissionregistration::spec(plural)),
        "apiextensions.k8s.io" => Some(apiextensions::spec()),
        _ => misc::spec(group, plural),
    };
    found.unwrap_or_else(|| {
        // Nothing sets the kind apart; its names are those of the discovery document.
        Spec::new()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_groups_of_the_controllers_are_served() {
        let kinds = builtin();
        let find = |group: &str, plural: &str| {
            kinds.iter().find(|k| k.group == group && k.plural == plural).expect(plural)
        };
        assert!(kinds.len() > 60, "{}", kinds.len());
        let deployment = find("apps", "deployments");
        assert_eq!(deployment.short_names, ["deploy"]);
        assert!(deployment.subresource("scale").is_some());
        assert_eq!(find("events.k8s.io", "events").storage, find("", "events").storage);
        assert!(find("networking.k8s.io", "servicecidrs").subresource("status").is_some());
    }
}
