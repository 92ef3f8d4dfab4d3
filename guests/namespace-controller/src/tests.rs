//! The scenarios, what the controller declares, and what conditions say.

use coxswain_sdk::condition::Condition;
use coxswain_sdk::contract::{KeyKind, OptionKind};
use coxswain_sdk::{Time, manifest_of};

use crate::NamespaceController;
use crate::conditions::Findings;
use crate::content::Rest;
use crate::discovery;
use crate::kinds::Kind;

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<NamespaceController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_is_known_by_the_names_flags_and_limits_of_kubernetes() {
    let manifest = manifest_of::<NamespaceController>();
    let options: Vec<_> =
        manifest.options.iter().map(|o| (o.name.as_str(), o.kind, o.default.as_str())).collect();
    assert_eq!(manifest.aliases, ["namespace"]);
    assert_eq!((manifest.concurrency, &*manifest.concurrency_flag), (10, "concurrent-namespace-syncs"));
    assert_eq!((manifest.client_limits.qps, manifest.client_limits.burst), (20, 100));
    assert_eq!(options, [("namespace-sync-period", OptionKind::Duration, "5m")]);
}

#[test]
fn only_namespaces_that_are_being_deleted_are_keys_and_only_they_are_read_whole() {
    let manifest = manifest_of::<NamespaceController>();
    let [source] = manifest.sources.as_slice() else { panic!("{:?}", manifest.sources) };
    let KeyKind::IndexedObjects(keys) = &source.keys else { panic!("{:?}", source.keys) };
    assert_eq!(keys.indexes, ["deleting"]);
    for read in &manifest.reads {
        assert_eq!(read.whole, read.resource.resource == "namespaces", "{:?}", read.resource);
    }
}

#[test]
fn it_changes_nothing_but_deletes_everything() {
    let manifest = manifest_of::<NamespaceController>();
    let writes: Vec<_> = manifest
        .writes
        .iter()
        .map(|write| (&*write.resource.resource, &*write.subresource, write.verbs.join(" ")))
        .collect();
    let wanted = [
        ("*", "", "delete deletecollection".to_owned()),
        ("namespaces", "status", "patch".to_owned()),
        ("namespaces", "finalize", "update".to_owned()),
    ];
    assert_eq!(writes, wanted);
}

fn told(findings: Findings, conditions: &mut Vec<Condition>, at: i64) -> Vec<String> {
    findings.apply(conditions, Time::from_unix(at));
    conditions
        .iter()
        .map(|c| {
            format!(
                "{} {} {} {}: {}",
                c.last_transition_time.unwrap().unix(),
                c.kind,
                c.status,
                c.reason,
                c.message
            )
        })
        .collect()
}

#[test]
fn conditions_are_those_of_kubernetes_to_the_letter() {
    let kind = |group: &str, resource: &str| Kind {
        number: 1,
        resource: resource.to_owned(),
        group: group.to_owned(),
        version: "v1".to_owned(),
        is_cached: true,
        has_collection: true,
        is_listable: true,
    };
    let (maps, deployments) = (kind("", "configmaps"), kind("apps", "deployments"));
    let rest = |kind, count, finalizers: &[(&str, u64)]| Rest {
        kind,
        count,
        finalizers: finalizers.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect(),
        fresh: Vec::new(),
    };
    let failing = ["b.example.com/v1".to_owned(), "c.example.com/v1".to_owned()];
    let mut findings = Findings::new(discovery::failure(&failing), vec!["two".to_owned(), "one".to_owned()]);
    findings.add(&rest(&deployments, 2, &[("x/y", 1)]));
    findings.add(&rest(&maps, 12, &[("x/y", 2), ("a/b", 1)]));
    let mut conditions = Vec::new();
    let bad = told(findings, &mut conditions, 100);
    let wanted = [
        "100 NamespaceDeletionDiscoveryFailure True DiscoveryFailed: Discovery failed for some groups, 2 failing: unable to retrieve the complete list of server APIs: b.example.com/v1: stale GroupVersion discovery: b.example.com/v1, c.example.com/v1: stale GroupVersion discovery: c.example.com/v1",
        "100 NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
        "100 NamespaceDeletionContentFailure True ContentDeletionFailed: Failed to delete all resource types, 2 remaining: one, two",
        "100 NamespaceContentRemaining True SomeResourcesRemain: Some resources are remaining: configmaps. has 12 resource instances, deployments.apps has 2 resource instances",
        "100 NamespaceFinalizersRemaining True SomeFinalizersRemain: Some content in the namespace has finalizers remaining: a/b in 1 resource instances, x/y in 3 resource instances",
    ];
    assert_eq!(bad, wanted);
    let good = told(Findings::default(), &mut conditions, 200);
    let wanted = [
        "200 NamespaceDeletionDiscoveryFailure False ResourcesDiscovered: All resources successfully discovered",
        "100 NamespaceDeletionGroupVersionParsingFailure False ParsedGroupVersions: All legacy kube types successfully parsed",
        "200 NamespaceDeletionContentFailure False ContentDeleted: All content successfully deleted, may be waiting on finalization",
        "200 NamespaceContentRemaining False ContentRemoved: All content successfully removed",
        "200 NamespaceFinalizersRemaining False ContentHasNoFinalizers: All content-preserving finalizers finished",
    ];
    assert_eq!(good, wanted);
    assert!(
        !Findings::default().apply(&mut conditions, Time::from_unix(300)),
        "nothing new, nothing to write"
    );
}
