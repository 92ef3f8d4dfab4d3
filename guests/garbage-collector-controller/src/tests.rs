//! What scenarios do not show: which reads subscribe to what, what is
//! remembered, and the small decisions one by one.

use std::cell::Cell;

use coxswain_sdk::contract::{
    Key, Level, ObjectRef, Outcome, Propagation, Query, Request, ResourceInfo, ResourceSet, Scope, SyncState,
    Timestamp, Verb,
};
use coxswain_sdk::snapshot::Snapshot;
use coxswain_sdk::{Ctx, Declaration, declaration, forget_parsed, from_json, run};
use serde_json::{Value, json};

use crate::kinds::{Kind, Kinds, forget, group_of};
use crate::owners::is_in_place;
use crate::reconcile::{honoured, unblocked};
use crate::{GarbageCollector, Node, dependents};

/// Objects, and what was asked.
#[derive(Default)]
struct Cache {
    objects: Vec<Value>,
    resources: Vec<ResourceInfo>,
    version: u32,
    resources_read: Cell<u32>,
    versions_read: Cell<u32>,
}

impl Snapshot for Cache {
    fn resources(&self) -> Vec<ResourceInfo> {
        self.resources_read.set(self.resources_read.get() + 1);
        self.resources.clone()
    }

    fn resources_version(&self) -> u32 {
        self.versions_read.set(self.versions_read.get() + 1);
        self.version
    }

    fn get(&self, _: u32, _: &str, _: &str) -> Result<Option<ObjectRef>, String> {
        Err("the garbage collector gets nothing by name".to_owned())
    }

    fn list(&self, query: &Query) -> Result<Vec<ObjectRef>, String> {
        assert!(
            matches!(query.resources, ResourceSet::All)
                && query.namespace.is_none()
                && query.labels.is_none()
        );
        let index = query.index.as_ref().ok_or("a list of everything")?;
        let uid = json!(index.value[0]);
        let fits = |object: &Value| match index.index.as_str() {
            "uid" => object["metadata"]["uid"] == uid,
            "owner" => object["metadata"]["ownerReferences"]
                .as_array()
                .is_some_and(|owners| owners.iter().any(|owner| owner["uid"] == uid)),
            other => panic!("index {other}"),
        };
        let ids = self.objects.iter().zip(0..).filter(|(object, _)| fits(object)).map(|(_, id)| id);
        Ok(ids.map(|id| ObjectRef { resource: 1, id, version: 1 }).collect())
    }

    fn read(&self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        Ok(refs.iter().map(|reference| self.objects[reference.id as usize].to_string()).collect())
    }

    fn log(&self, _: Level, _: &str) {}
}

fn resource(number: u32, group: &str, version: &str, kind: &str) -> ResourceInfo {
    ResourceInfo {
        number,
        group: group.to_owned(),
        version: version.to_owned(),
        resource: format!("{}s", kind.to_lowercase()),
        kind: kind.to_owned(),
        scope: Scope::Namespaced,
        verbs: ["delete", "get", "list", "patch", "watch"].map(str::to_owned).to_vec(),
        state: SyncState::Synced,
    }
}

/// A request about the first object.
fn request() -> Request {
    let options = declaration::<GarbageCollector>().manifest().options.clone();
    Request {
        key: Key { source: 0, resource: 1, namespace: "default".to_owned(), name: "child".to_owned() },
        primary: Some(ObjectRef { resource: 1, id: 0, version: 1 }),
        resources: vec![0, 0],
        now: Timestamp { seconds: 0, millis: 0 },
        seed: (0, 0),
        state: None,
        state_format: 0,
        results: Vec::new(),
        answers: Vec::new(),
        options: options.into_iter().map(|option| option.default).collect(),
    }
}

fn reconciled(cache: &Cache) -> Outcome {
    forget_parsed();
    forget();
    run::<GarbageCollector>(&request(), cache)
}

fn with_ctx<T>(cache: &Cache, test: impl FnOnce(&Ctx<'_>) -> T) -> T {
    let declared: &Declaration = &declaration::<GarbageCollector>();
    test(&Ctx::new(&request(), cache, declared))
}

fn owner_reference(block: Option<bool>) -> Value {
    let mut reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "owner"});
    if let Some(block) = block {
        reference["blockOwnerDeletion"] = json!(block);
    }
    reference
}

fn config_map(name: &str, metadata: Value) -> Value {
    let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata});
    object["metadata"]["name"] = json!(name);
    object["metadata"]["uid"] = json!(name);
    object["metadata"]["namespace"] = json!("default");
    object
}

fn node(object: Value) -> Node {
    from_json(&object.to_string()).unwrap()
}

#[test]
fn who_sees_all_owners_does_not_subscribe_to_the_list_of_resources() {
    let child = config_map("child", json!({"ownerReferences": [owner_reference(None)]}));
    let seen = Cache { objects: vec![child.clone(), config_map("owner", json!({}))], ..Cache::default() };
    assert!(matches!(reconciled(&seen), Outcome::Plan(plan) if plan.steps.is_empty()));
    assert_eq!((seen.resources_read.get(), seen.versions_read.get()), (0, 0));

    let unseen = Cache {
        objects: vec![child],
        resources: vec![resource(1, "", "v1", "ConfigMap")],
        ..Cache::default()
    };
    assert!(matches!(reconciled(&unseen), Outcome::Lookups(lookups) if lookups.len() == 1));
    assert_eq!((unseen.resources_read.get(), unseen.versions_read.get()), (1, 1));
}

#[test]
fn an_owner_that_two_groups_show_is_found_in_the_one_named() {
    let child = config_map("child", json!({"ownerReferences": [owner_reference(None)]}));
    let owner = config_map("owner", json!({}));
    let mut twin = owner.clone();
    twin["apiVersion"] = json!("example.com/v1");
    for owners in [[owner.clone(), twin.clone()], [twin, owner]] {
        let cache =
            Cache { objects: [child.clone()].into_iter().chain(owners).collect(), ..Cache::default() };
        assert!(matches!(reconciled(&cache), Outcome::Plan(plan) if plan.steps.is_empty()));
    }
}

#[test]
fn the_kinds_are_read_again_only_where_they_differ() {
    forget();
    let mut cache = Cache { version: 7, resources: vec![resource(3, "", "v1", "Pod")], ..Cache::default() };
    let pods =
        |cache: &Cache| with_ctx(cache, |ctx| Kinds::of(ctx).find("v1", "Pod").map(|kind| kind.resource));
    assert_eq!([pods(&cache), pods(&cache)], [Some(3), Some(3)]);
    assert_eq!((cache.resources_read.get(), cache.versions_read.get()), (1, 2), "each use subscribes");
    cache.resources.clear();
    assert_eq!(pods(&cache), Some(3));
    cache.version = 8;
    assert_eq!(pods(&cache), None);
}

#[test]
fn kinds_are_told_apart_by_group_and_not_by_version() {
    forget();
    let cluster = ResourceInfo { scope: Scope::Cluster, ..resource(4, "", "v1", "Node") };
    let write_only = ResourceInfo { verbs: vec!["create".to_owned()], ..resource(5, "", "v1", "Binding") };
    let absent = ResourceInfo { state: SyncState::Absent, ..resource(6, "a.b", "v1", "Gone") };
    let uncached = ResourceInfo { state: SyncState::Uncached, ..resource(7, "a.b", "v1", "Uncached") };
    let cache = Cache {
        resources: vec![
            resource(1, "apps", "v1", "Deployment"),
            resource(2, "apps", "v1beta1", "Deployment"),
            resource(3, "a.b", "v1", "Deployment"),
            cluster,
            write_only,
            absent,
            uncached,
        ],
        ..Cache::default()
    };
    let kind = |resource, namespaced| Some(Kind { resource, namespaced });
    with_ctx(&cache, |ctx| {
        let kinds = Kinds::of(ctx);
        for (api_version, name, expected) in [
            ("apps/v1", "Deployment", kind(1, true)),
            ("apps/v1beta2", "Deployment", kind(1, true)),
            ("a.b/v1", "Deployment", kind(3, true)),
            ("v1", "Deployment", None),
            ("apps/v1", "deployment", None),
            ("v1", "Node", kind(4, false)),
            ("v1", "Binding", None),
            ("a.b/v1", "Gone", None),
            ("a.b/v1", "Uncached", kind(7, true)),
            ("", "", None),
        ] {
            assert_eq!(kinds.find(api_version, name), expected, "{api_version} {name}");
        }
        assert!(!kinds.syncing);
    });
    assert_eq!(["v1", "apps/v1", ""].map(group_of), ["", "apps", ""]);
}

#[test]
fn one_resource_under_way_is_enough_to_wait_for() {
    for (state, syncing) in [
        (SyncState::Synced, false),
        (SyncState::Syncing, true),
        (SyncState::Failed, false),
        (SyncState::Absent, false),
        (SyncState::Uncached, false),
    ] {
        forget();
        let resources =
            vec![ResourceInfo { state, ..resource(1, "a.b", "v1", "Widget") }, resource(2, "", "v1", "Pod")];
        let cache = Cache { resources, ..Cache::default() };
        assert_eq!(with_ctx(&cache, |ctx| Kinds::of(ctx).syncing), syncing, "{state:?}");
    }
}

#[test]
fn an_owner_is_where_its_dependent_is_or_nowhere() {
    let object = |api_version: &str, kind: &str, namespace: &str, name: &str| {
        node(json!({"apiVersion": api_version, "kind": kind, "metadata": {
            "name": name, "namespace": namespace, "uid": "u",
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "u"}],
        }}))
    };
    let (child, of_the_cluster) = (object("v1", "Pod", "a", "p"), object("v1", "Node", "", "n"));
    for (child, owner, expected) in [
        (&child, object("apps/v1", "Deployment", "a", "web"), true),
        (&child, object("apps/v2", "Deployment", "a", "web"), true),
        (&child, object("apps/v1", "Deployment", "", "web"), true),
        (&child, object("apps/v1", "Deployment", "b", "web"), false),
        (&child, object("v1", "Deployment", "a", "web"), false),
        (&child, object("apps/v1", "ReplicaSet", "a", "web"), false),
        (&child, object("apps/v1", "Deployment", "a", "www"), false),
        (&of_the_cluster, object("apps/v1", "Deployment", "", "web"), true),
        (&of_the_cluster, object("apps/v1", "Deployment", "a", "web"), false),
    ] {
        assert_eq!(
            is_in_place(child, &child.metadata.owner_references[0], &owner),
            expected,
            "{child:?} {owner:?}"
        );
    }
}

#[test]
fn only_a_blocking_reference_to_the_owner_itself_blocks() {
    let owner = node(config_map("owner", json!({})));
    let mut to_another = owner_reference(Some(true));
    to_another["uid"] = json!("another");
    for (references, blocks) in [
        (json!([owner_reference(Some(true))]), true),
        (json!([owner_reference(Some(false))]), false),
        (json!([owner_reference(None)]), false),
        (json!([to_another.clone(), owner_reference(None)]), false),
        (json!([to_another, owner_reference(Some(true))]), true),
        (json!(null), false),
    ] {
        let dependent = node(config_map("child", json!({"ownerReferences": references})));
        assert_eq!(dependents::blocks(&dependent, &owner), blocks, "{dependent:?}");
    }
}

#[test]
fn unblocking_changes_only_what_blocks() {
    let node = node(config_map(
        "child",
        json!({"ownerReferences": [owner_reference(Some(true)), owner_reference(Some(false)), owner_reference(None)]}),
    ));
    let freed: Vec<_> =
        unblocked(&node).into_iter().map(|reference| reference.block_owner_deletion).collect();
    assert_eq!(freed, [Some(false), Some(false), None]);
}

#[test]
fn finalizers_say_how_an_object_wants_to_go() {
    for (finalizers, expected) in [
        (json!([]), Propagation::Background),
        (json!(null), Propagation::Background),
        (json!(["example.com/orphan"]), Propagation::Background),
        (json!(["x", "foregroundDeletion"]), Propagation::Foreground),
        (json!(["x", "orphan"]), Propagation::Orphan),
        (json!(["foregroundDeletion", "orphan"]), Propagation::Orphan),
    ] {
        let node = node(config_map("child", json!({"finalizers": finalizers})));
        assert_eq!(honoured(&node), expected, "{finalizers}");
    }
}

#[test]
fn an_owner_waits_only_while_it_is_being_deleted() {
    let deleted = "2026-01-01T00:00:00Z";
    for (metadata, deletes) in [
        (json!({}), false),
        (json!({"finalizers": ["foregroundDeletion"]}), false),
        (json!({"deletionTimestamp": deleted, "finalizers": ["orphan", "x"]}), false),
        (json!({"deletionTimestamp": deleted, "finalizers": ["x", "foregroundDeletion"]}), true),
    ] {
        let child = config_map("child", json!({"ownerReferences": [owner_reference(Some(true))]}));
        let cache = Cache { objects: vec![child, config_map("owner", metadata.clone())], ..Cache::default() };
        let Outcome::Plan(plan) = reconciled(&cache) else { panic!("{metadata}") };
        let verbs = plan.steps.iter().flat_map(|step| &step.actions).map(|action| &action.verb);
        assert_eq!(
            verbs.filter(|verb| matches!(verb, Verb::Delete(_))).count(),
            usize::from(deletes),
            "{metadata}"
        );
        assert_eq!(plan.steps.len(), usize::from(deletes), "{metadata}");
    }
}
