//! The registry's tables.

use super::*;

fn name(group: &str, version: &str, resource: &str) -> GroupResource {
    GroupResource { group: group.into(), version: version.into(), resource: resource.into() }
}

fn found(group: &str, version: &str, resource: &str, preferred: bool) -> Discovered {
    Discovered {
        name: name(group, version, resource),
        kind: format!("Kind-of-{resource}"),
        scope: Scope::Namespaced,
        verbs: vec!["list".into(), "watch".into()],
        preferred,
    }
}

fn listed(registry: &Registry) -> Vec<(u32, String, SyncState)> {
    registry
        .all()
        .iter()
        .map(|r| (r.number, format!("{}/{}/{}", r.group, r.version, r.resource), r.state))
        .collect()
}

#[test]
fn a_declared_resource_has_its_number_before_the_cluster_serves_it() {
    let registry = Registry::new();
    let number = registry.declare(&name("apps", "v1", "deployments"));
    assert_eq!(registry.declare(&name("apps", "v1", "deployments")), number);
    assert_eq!(registry.resolve(&name("apps", "v1", "deployments")), None);
    assert_eq!(registry.kind_of(number), None);
    assert_eq!(listed(&registry), [(number, "apps/v1/deployments".into(), SyncState::Absent)]);

    let diff = registry.update(vec![found("apps", "v1", "deployments", true)]);
    assert_eq!(diff, DiscoveryDiff { appeared: vec![number], vanished: vec![] });
    assert_eq!(registry.resolve(&name("apps", "v1", "deployments")), Some(number));
    assert_eq!(registry.kind_of(number), Some(("apps/v1".into(), "Kind-of-deployments".into())));
    assert!(registry.namespaced(number));
    assert_eq!(registry.state(number), SyncState::Uncached);
}

#[test]
fn the_wildcard_and_unknown_numbers_name_nothing() {
    let registry = Registry::new();
    assert_eq!(registry.declare(&name("*", "*", "*")), 0);
    for number in [0, 1, u32::MAX] {
        assert!(registry.info(number).is_none());
        assert!(registry.name(number).is_none());
        assert_eq!(registry.state(number), SyncState::Absent);
        registry.set_state(number, SyncState::Synced);
    }
    assert_eq!(registry.version(), 0);
}

#[test]
fn a_declared_version_is_served_exactly_or_not_at_all() {
    let registry = Registry::new();
    registry.update(vec![found("x.io", "v1", "things", true), found("x.io", "v1beta1", "things", false)]);
    assert_eq!(registry.all().len(), 1, "a wildcard reads the preferred version only");
    assert_eq!(registry.resolve(&name("x.io", "v2", "things")), None);
    // Not listed, but served: a declaration finds it at once.
    let old = registry.declare(&name("x.io", "v1beta1", "things"));
    assert_eq!(registry.resolve(&name("x.io", "v1beta1", "things")), Some(old));
    assert!(registry.watchable(old) && !registry.in_wildcard(old));
    assert_eq!(registry.all().len(), 2);
}

#[test]
fn numbers_outlive_their_resources() {
    let registry = Registry::new();
    registry.update(vec![found("", "v1", "pods", true), found("x.io", "v1", "things", true)]);
    let things = registry.resolve(&name("x.io", "v1", "things")).unwrap();
    let diff = registry.update(vec![found("", "v1", "pods", true)]);
    assert_eq!(diff, DiscoveryDiff { appeared: vec![], vanished: vec![things] });
    assert_eq!(registry.all().len(), 1, "absent and undeclared");
    assert_eq!(registry.info(things).unwrap().state, SyncState::Absent);
    assert_eq!(registry.info(things).unwrap().kind, "Kind-of-things");
    registry.update(vec![found("", "v1", "pods", true), found("a.io", "v1", "others", true)]);
    assert_ne!(registry.resolve(&name("a.io", "v1", "others")), Some(things));
    registry.update(vec![found("x.io", "v1", "things", true)]);
    assert_eq!(registry.resolve(&name("x.io", "v1", "things")), Some(things));
}

#[test]
fn another_kind_or_scope_is_another_resource() {
    let registry = Registry::new();
    registry.update(vec![found("x.io", "v1", "things", true)]);
    registry.set_state(1, SyncState::Synced);
    let diff =
        registry.update(vec![Discovered { scope: Scope::Cluster, ..found("x.io", "v1", "things", true) }]);
    assert_eq!(diff, DiscoveryDiff { appeared: vec![1], vanished: vec![1] });
    assert_eq!(registry.state(1), SyncState::Uncached);
    assert!(!registry.namespaced(1));
}

#[test]
fn a_group_version_that_does_not_answer_keeps_what_it_had() {
    let registry = Registry::new();
    registry.update(vec![found("x.io", "v1", "things", true), found("x.io", "v1beta1", "things", false)]);
    let v1 = GroupVersion { group: "x.io".into(), version: "v1".into() };
    // Of the rest the server now says that it prefers v1beta1.
    let diff = registry.update_except(vec![found("x.io", "v1beta1", "things", true)], &[v1]);
    assert_eq!(diff, DiscoveryDiff::default());
    assert_eq!(registry.all().len(), 1);
    assert!(registry.resolve(&name("x.io", "v1", "things")).is_some());
    let diff = registry.update(vec![found("x.io", "v1beta1", "things", true)]);
    assert_eq!((diff.appeared.len(), diff.vanished.len()), (1, 1));
}

#[test]
fn only_discovery_says_what_is_served() {
    let registry = Registry::new();
    let number = registry.declare(&name("", "v1", "pods"));
    registry.set_state(number, SyncState::Synced);
    assert_eq!(registry.state(number), SyncState::Absent, "a late informer of a vanished resource");
    registry.update(vec![found("", "v1", "pods", true)]);
    registry.set_state(number, SyncState::Absent);
    assert_eq!(registry.state(number), SyncState::Uncached);
}

#[test]
fn the_version_moves_exactly_when_the_list_does() {
    let registry = Registry::new();
    let changes = registry.changes();
    let mut last = (registry.version(), listed(&registry));
    let mut step = |what: &str, moves: bool| {
        let now = (registry.version(), listed(&registry));
        assert_eq!(now.0 != last.0, moves, "{what}");
        assert_eq!(now.1 != last.1, moves, "{what}");
        assert_eq!(*changes.borrow(), now.0);
        last = now;
    };
    let both = || vec![found("", "v1", "pods", true), found("", "v1beta1", "pods", false)];
    registry.update(both());
    step("something is served", true);
    registry.update(both());
    step("the same is served", false);
    registry.declare(&name("", "v1", "pods"));
    step("what is listed is declared", false);
    registry.set_state(1, SyncState::Syncing);
    step("a state changes", true);
    registry.set_state(1, SyncState::Syncing);
    step("a state stays", false);
    registry.declare(&name("", "v1beta1", "pods"));
    step("what is served and not listed is declared", true);
    registry.declare(&name("", "v9", "pods"));
    step("what is absent is declared", true);
    registry.update(vec![]);
    step("nothing is served", true);
}
