//! What manifests amount to.

use super::*;
use crate::contract::{Read, ResourceRule, WriteRule};

fn resource(text: &str) -> GroupResource {
    let (name, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource { group: group.into(), version: "v1".into(), resource: name.into() }
}

fn manifest(writes: &[(&str, &str, &[&str])], lookups: Vec<LookupRule>) -> Manifest {
    let write = |(name, subresource, verbs): &(&str, &str, &[&str])| WriteRule {
        resource: resource(name),
        subresource: (*subresource).into(),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
    };
    Manifest {
        version: "1".into(),
        state_format: 1,
        reads: vec![Read {
            resource: resource("things.example"),
            optional: false,
            fields: vec![],
            whole: true,
            sensitive: vec![],
            indexes: vec![],
        }],
        writes: writes.iter().map(write).collect(),
        lookups,
        ..Manifest::blank("thing-controller")
    }
}

fn show(rules: &[PolicyRule]) -> Vec<String> {
    let list = |list: &Option<Vec<String>>| list.as_deref().unwrap_or_default().join(",");
    rules
        .iter()
        .map(|rule| {
            if let Some(urls) = &rule.non_resource_urls {
                return format!("{} {}", rule.verbs.join(","), urls.join(","));
            }
            let (groups, names) = (list(&rule.api_groups), list(&rule.resource_names));
            format!("{} {:?} {} {names}", rule.verbs.join(","), groups, list(&rule.resources))
                .trim_end()
                .to_owned()
        })
        .collect()
}

#[test]
fn manifests_become_rules() {
    let writes: &[(&str, &str, &[&str])] = &[
        ("things.example", "status", &["patch"]),
        ("pods", "", &["create", "delete"]),
        ("things.example", "finalizers", &["update"]),
        ("roles.example", "", &["patch", "escalate"]),
        ("signers.example", "", &["approve:example.com/a", "approve:example.com/b"]),
    ];
    let lookups = vec![
        LookupRule::Get(ResourceRule { resource: resource("pods"), subresource: "log".into() }),
        LookupRule::List(resource("nodes")),
        LookupRule::Review(resource("reviews.example")),
        LookupRule::Sign("ca".into()),
        LookupRule::Raw("/apis/metrics.example/".into()),
        LookupRule::Raw("/apis/".into()),
        LookupRule::Raw("/api/v1/namespaces/kube-system/configmaps/one".into()),
    ];
    assert_eq!(
        show(&rules(&manifest(writes, lookups))),
        [
            "get \"\" configmaps one",
            "create,patch \"\" events",
            "list \"\" nodes",
            "get,create,delete \"\" pods",
            "get \"\" pods/log",
            "create \"example\" reviews",
            "get,patch,escalate \"example\" roles",
            "approve \"example\" signers example.com/a",
            "approve \"example\" signers example.com/b",
            "get,list,watch \"example\" things",
            "update \"example\" things/finalizers",
            "patch \"example\" things/status",
            "get,list \"metrics.example\" *",
            "get /apis/*,/apis/metrics.example/*",
        ]
    );
}

#[test]
fn a_policy_narrows_what_is_needed_as_far_as_rbac_can_say_it() {
    let writes: &[(&str, &str, &[&str])] = &[
        ("pods", "", &["create", "delete"]),
        ("things.example", "status", &["patch"]),
        ("nodes", "", &["patch"]),
    ];
    let manifest = manifest(writes, vec![LookupRule::List(resource("secrets"))]);
    let within = |text: &str| {
        let head = "apiVersion: coxswain.dev/v1alpha1\nkind: Policy\ncontrollers:\n";
        let policy = Policy::parse(&format!("{head}{text}")).unwrap();
        let (cluster, namespaces) = rules_within(&manifest, &policy.entries("thing-controller", &[]));
        let namespaces: Vec<_> =
            namespaces.iter().map(|(name, rules)| format!("{name}: {}", show(rules).join("; "))).collect();
        (show(&cluster), namespaces)
    };
    let (cluster, namespaces) = within(
        "- name: thing-controller\n  allow:\n  - namespaces: [a, b]\n  deny:\n  - resources: [secrets]\n",
    );
    // Nodes are in no namespace; of things nobody knows.
    assert_eq!(
        cluster,
        ["get,patch \"\" nodes", "get,list,watch \"example\" things", "patch \"example\" things/status"]
    );
    assert_eq!(
        namespaces,
        ["a", "b"].map(|n| format!("{n}: create,patch \"\" events; get,create,delete \"\" pods"))
    );
    // Neither patterns nor exceptions can be said.
    for wide in ["  allow:\n  - namespaces: [team-*]\n", "  deny:\n  - namespaces: [a]\n"] {
        let (cluster, namespaces) = within(&format!("- name: \"*\"\n{wide}"));
        assert_eq!((cluster, namespaces), (show(&rules(&manifest)), vec![]), "{wide}");
    }
    let (cluster, namespaces) = within("- name: \"*\"\n  allow: []\n");
    assert_eq!((cluster.len(), namespaces.len()), (0, 0));
}

#[test]
fn roles_are_bound_to_the_service_account() {
    let holder = Holder { prefix: "x:".into(), namespace: "ns".into(), service_account: "sa".into() };
    let (role, binding) = holder.for_module(&manifest(&[], vec![]));
    assert_eq!(role.metadata.name.as_deref(), Some("x:thing-controller"));
    assert_eq!(
        (binding.role_ref.kind.as_str(), binding.role_ref.name.as_str()),
        ("ClusterRole", "x:thing-controller")
    );
    let subject = &binding.subjects.unwrap()[0];
    assert_eq!(
        (subject.kind.as_str(), subject.name.as_str(), subject.namespace.as_deref()),
        ("ServiceAccount", "sa", Some("ns"))
    );
    let (role, _) =
        holder.for_leases(&Leases { namespace: "kube-system".into(), names: vec!["lock".into()] });
    assert_eq!(
        show(&role.rules.unwrap()),
        [
            "create \"coordination.k8s.io\" leases",
            "get,list,watch,update \"coordination.k8s.io\" leases lock"
        ]
    );
}
