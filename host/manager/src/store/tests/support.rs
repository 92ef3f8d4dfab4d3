//! A store with a few resources, modules that record their wakes, objects.

use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::{
    contract::{
        ClientLimits, GroupResource, Index, IndexMatch, KeyKind, KeySource, Manifest, ObjectRef, Query, Read,
        ResourceSet, Scope, SyncState,
    },
    engine::SnapshotHost,
    key::{Cause, Key, Wake},
    registry::{Discovered, Registry},
    store::{ModuleView, Snapshot, Store},
};

pub(super) fn resource(name: &str) -> GroupResource {
    GroupResource { group: String::new(), version: "v1".into(), resource: name.into() }
}

pub(super) fn every_resource() -> GroupResource {
    GroupResource { group: "*".into(), version: "*".into(), resource: "*".into() }
}

pub(super) fn read(name: &str, fields: &[&str]) -> Read {
    Read {
        resource: resource(name),
        optional: false,
        fields: fields.iter().map(|field| (*field).to_owned()).collect(),
        whole: false,
        sensitive: Vec::new(),
        indexes: Vec::new(),
    }
}

pub(super) fn indexed(mut read: Read, name: &str, paths: &[&str]) -> Read {
    read.indexes
        .push(Index { name: name.into(), paths: paths.iter().map(|path| (*path).to_owned()).collect() });
    read
}

pub(super) fn manifest(reads: Vec<Read>, sources: Vec<KeyKind>) -> Manifest {
    let source =
        |(n, keys)| KeySource { name: format!("source-{n}"), keys, serial: false, queue: String::new() };
    Manifest {
        name: "test-controller".into(),
        aliases: Vec::new(),
        version: "1".into(),
        state_format: 1,
        accepts_state_formats: Vec::new(),
        sources: sources.into_iter().enumerate().map(source).collect(),
        reads,
        writes: Vec::new(),
        lookups: Vec::new(),
        options: Vec::new(),
        event_component: String::new(),
        concurrency: 0,
        concurrency_flag: String::new(),
        client_limits: ClientLimits { qps: 0, burst: 0 },
        metrics: Vec::new(),
    }
}

#[derive(Default)]
pub(super) struct Woken(Mutex<Vec<(Key, Cause)>>);

impl Wake for Woken {
    fn wake(&self, key: &Key, cause: Cause) {
        self.0.lock().push((key.clone(), cause));
    }
}

/// A module at work.
pub(super) struct Worker {
    pub(super) view: Arc<ModuleView>,
    pub(super) woken: Arc<Woken>,
}

/// Keys that were woken, each once, as text.
impl Worker {
    pub(super) fn woken(&self) -> Vec<String> {
        let mut keys: Vec<String> = self.woken.0.lock().drain(..).map(|(key, _)| key.to_string()).collect();
        keys.sort();
        keys.dedup();
        keys
    }

    pub(super) fn causes(&self) -> Vec<(String, Cause)> {
        self.woken.0.lock().drain(..).map(|(key, cause)| (key.to_string(), cause)).collect()
    }

    /// Reconciles a key: reads, and commits what was read.
    pub(super) fn reads<T>(&self, key: &Key, with: impl FnOnce(&mut Snapshot) -> T) -> T {
        let mut snapshot = self.view.snapshot(key);
        let result = with(&mut snapshot);
        self.view.commit(key, snapshot.into_reads(), true);
        result
    }

    /// What a query finds now, as JSON of each.
    pub(super) fn shows(&self, query: &Query) -> Vec<Value> {
        let mut snapshot = self.view.snapshot(&single("x"));
        let refs = snapshot.list(query).unwrap();
        snapshot.read(&refs).unwrap().iter().map(|json| serde_json::from_str(json).unwrap()).collect()
    }
}

/// A store over `pods`, `sets` and `nodes`.
pub(super) struct Bench {
    pub(super) store: Arc<Store>,
    pub(super) registry: Arc<Registry>,
    version: Mutex<u64>,
}

pub(super) const PODS: u32 = 1;
pub(super) const SETS: u32 = 2;
pub(super) const NODES: u32 = 3;

impl Bench {
    pub(super) fn new() -> Self {
        let registry = Registry::new();
        let found = |name: &str, kind: &str, scope| Discovered {
            name: resource(name),
            kind: kind.into(),
            scope,
            verbs: vec!["list".into(), "watch".into()],
            preferred: true,
        };
        for (number, name) in [(PODS, "pods"), (SETS, "sets"), (NODES, "nodes")] {
            assert_eq!(registry.declare(&resource(name)), number);
        }
        registry.update(vec![
            found("pods", "Pod", Scope::Namespaced),
            found("sets", "Set", Scope::Namespaced),
            found("nodes", "Node", Scope::Cluster),
        ]);
        Self { store: Store::new(registry.clone()), registry, version: Mutex::new(100) }
    }

    pub(super) fn attach(&self, manifest: &Manifest) -> Worker {
        let woken = Arc::new(Woken::default());
        let view = self.store.attach(manifest, woken.clone()).unwrap();
        Worker { view, woken }
    }

    pub(super) fn synced(&self, number: u32, objects: &[Value]) {
        self.relist(number, objects);
        self.registry.set_state(number, SyncState::Synced);
        self.store.sync_changed(number);
    }

    pub(super) fn all_synced(&self) {
        [PODS, SETS, NODES].iter().for_each(|number| self.synced(*number, &[]));
    }

    /// Bytes as the server sends them, under the next resourceVersion.
    fn raw(&self, object: &Value) -> Vec<u8> {
        let mut version = self.version.lock();
        *version += 1;
        let mut object = object.clone();
        object["metadata"]["resourceVersion"] = version.to_string().into();
        object.to_string().into_bytes()
    }

    pub(super) fn relist(&self, number: u32, objects: &[Value]) {
        let spec = self.store.prune_spec(number);
        let objects = objects.iter().map(|object| spec.prune(&self.raw(object)).unwrap()).collect();
        let version = self.version.lock().to_string();
        self.store.replace(number, objects, &version);
    }

    pub(super) fn put(&self, number: u32, object: &Value) {
        let object = self.store.prune_spec(number).prune(&self.raw(object)).unwrap();
        self.store.upsert(number, object);
    }

    pub(super) fn delete(&self, number: u32, object: &Value) {
        let object = self.store.prune_spec(number).prune(&self.raw(object)).unwrap();
        self.store.remove(number, &object);
    }
}

/// A pod `ns/name` whose uid follows from its name.
pub(super) fn pod(name: &str, labels: Value) -> Value {
    let (namespace, name) = name.split_once('/').unwrap();
    json!({
        "metadata": {"name": name, "namespace": namespace, "uid": format!("uid-{namespace}-{name}"), "labels": labels},
        "spec": {"nodeName": "n1"},
        "status": {"phase": "Running"},
    })
}

/// The same, of a controlling owner.
pub(super) fn owned(name: &str, owner: &str) -> Value {
    let mut pod = pod(name, json!({}));
    pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "v1", "kind": "Set", "name": owner, "uid": format!("uid-{owner}"), "controller": true}]);
    pod
}

pub(super) fn with(mut object: Value, pointer: &str, value: Value) -> Value {
    let (parent, last) = pointer.rsplit_once('/').unwrap();
    object.pointer_mut(parent).unwrap()[last] = value;
    object
}

pub(super) fn single(name: &str) -> Key {
    Key { source: 0, resource: 0, namespace: "".into(), name: name.into() }
}

pub(super) fn key(resource: u32, name: &str) -> Key {
    let (namespace, name) = name.split_once('/').unwrap_or(("", name));
    Key { source: 0, resource, namespace: namespace.into(), name: name.into() }
}

pub(super) fn all(resource: u32) -> Query {
    Query { resources: ResourceSet::One(resource), namespace: None, index: None, labels: None }
}

pub(super) fn everywhere(index: &str, value: &str) -> Query {
    Query { resources: ResourceSet::All, ..by(ANY, index, &[value]) }
}

const ANY: u32 = 0;

pub(super) fn by(resource: u32, index: &str, value: &[&str]) -> Query {
    let value = value.iter().map(|part| (*part).to_owned()).collect();
    Query { index: Some(IndexMatch { index: index.into(), value }), ..all(resource) }
}

pub(super) fn selecting(resource: u32, namespace: Option<&str>, labels: &str) -> Query {
    Query { namespace: namespace.map(str::to_owned), labels: Some(labels.into()), ..all(resource) }
}

pub(super) fn names(objects: &[Value]) -> Vec<String> {
    let name = |object: &Value| {
        let metadata = &object["metadata"];
        let namespace = metadata["namespace"].as_str().unwrap_or("");
        format!("{namespace}/{}", metadata["name"].as_str().unwrap())
    };
    objects.iter().map(name).collect()
}

pub(super) fn versions(refs: &[ObjectRef]) -> Vec<(u32, u32)> {
    refs.iter().map(|object| (object.id, object.version)).collect()
}
