//! What a reconcile costs the store, and what a cached pod takes.
//!
//! The store's side of a reconcile that changes nothing: a snapshot, one list by
//! owner, a commit that finds the same reads as before.

use std::{hint::black_box, sync::Arc};

use coxswain::{
    contract::{
        ClientLimits, GroupResource, IndexMatch, KeyKind, KeySource, Manifest, Query, Read, ResourceSet,
        Scope, SyncState,
    },
    engine::SnapshotHost,
    key::{Cause, Key, Wake},
    registry::{Discovered, Registry},
    store::{ModuleView, Store},
};
use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

struct Nobody;

impl Wake for Nobody {
    fn wake(&self, _: &Key, _: Cause) {}
}

/// Counts what is allocated, so that a pod's bytes are measured, not estimated.
struct Counting;

static ALLOCATED: std::sync::atomic::AtomicIsize = std::sync::atomic::AtomicIsize::new(0);

/// What a malloc of this size takes with its header and rounding.
fn taken(layout: std::alloc::Layout) -> isize {
    ((layout.size() + 8).next_multiple_of(16)).max(32) as isize
}

// SAFETY: every call is handed on to the system's allocator as it came.
unsafe impl std::alloc::GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        ALLOCATED.fetch_add(taken(layout), std::sync::atomic::Ordering::Relaxed);
        // SAFETY: the caller's promises are the system allocator's.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: std::alloc::Layout) {
        ALLOCATED.fetch_sub(taken(layout), std::sync::atomic::Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { std::alloc::System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const PODS: u32 = 1;
const FIELDS: [&str; 6] = [
    "spec.nodeName",
    "spec.restartPolicy",
    "status.phase",
    "status.conditions[*].{type,status,lastTransitionTime}",
    "status.containerStatuses[*].restartCount",
    "metadata.annotations.\"controller.kubernetes.io/pod-deletion-cost\"",
];

fn resource(name: &str) -> GroupResource {
    GroupResource { group: String::new(), version: "v1".into(), resource: name.into() }
}

fn manifest() -> Manifest {
    let fields = FIELDS.iter().map(|field| (*field).to_owned()).collect();
    let pods = Read {
        resource: resource("pods"),
        optional: false,
        fields,
        whole: false,
        sensitive: vec![],
        indexes: vec![],
    };
    Manifest {
        name: "bench-controller".into(),
        aliases: vec![],
        version: "1".into(),
        state_format: 1,
        accepts_state_formats: vec![],
        sources: vec![KeySource {
            name: "pods".into(),
            keys: KeyKind::Objects(vec![resource("pods")]),
            serial: false,
            queue: String::new(),
        }],
        reads: vec![pods],
        writes: vec![],
        lookups: vec![],
        options: vec![],
        event_component: String::new(),
        concurrency: 0,
        concurrency_flag: String::new(),
        client_limits: ClientLimits { qps: 0, burst: 0 },
        metrics: Vec::new(),
    }
}

/// A pod as a kubelet leaves it, managedFields and all.
fn pod(set: usize, n: usize, restarts: usize) -> String {
    let condition = |kind: &str| {
        format!(
            r#"{{"type":"{kind}","status":"True","observedGeneration":1,"lastProbeTime":null,"lastTransitionTime":"2026-11-29T10:00:{:02}Z"}}"#,
            n % 60
        )
    };
    let conditions = ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
        .map(condition)
        .join(",");
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"web-{set:x}-7d4b9c6f5d-{n:05x}","generateName":"web-7d4b9c6f5d-","namespace":"default","uid":"6f1f9f0e-7a53-4a0e-{set:04x}-{n:012x}","resourceVersion":"{}","generation":1,"creationTimestamp":"2026-11-29T10:00:00Z","labels":{{"app":"web","pod-template-hash":"7d4b9c6f5d","set":"{set}"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"ReplicaSet","name":"web-7d4b9c6f5d","uid":"owner-{set}","controller":true,"blockOwnerDeletion":true}}],"managedFields":[{{"manager":"kubelet","operation":"Update","fieldsType":"FieldsV1","fieldsV1":{{"f:status":{{"f:conditions":{{}},"f:phase":{{}}}}}}}}]}},"spec":{{"volumes":[{{"name":"kube-api-access","projected":{{"sources":[{{"serviceAccountToken":{{"expirationSeconds":3607,"path":"token"}}}}]}}}}],"containers":[{{"name":"web","image":"registry.example/web:1.27","ports":[{{"containerPort":80}}],"resources":{{"requests":{{"cpu":"100m"}}}},"terminationMessagePath":"/dev/termination-log","imagePullPolicy":"IfNotPresent"}}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","nodeName":"node-{:04}","schedulerName":"default-scheduler"}},"status":{{"phase":"Running","conditions":[{conditions}],"hostIP":"10.0.0.1","podIP":"10.1.2.3","startTime":"2026-11-29T10:00:00Z","containerStatuses":[{{"name":"web","state":{{"running":{{"startedAt":"2026-11-29T10:00:01Z"}}}},"ready":true,"restartCount":{restarts},"image":"registry.example/web:1.27","imageID":"sha256:0","containerID":"containerd://0"}}],"qosClass":"Burstable"}}}}"#,
        1000 + n + restarts,
        n % 1000,
    )
}

struct Setup {
    store: Arc<Store>,
    view: Arc<ModuleView>,
    bytes_per_pod: usize,
}

/// `sets` owners with `size` pods each.
fn setup(sets: usize, size: usize) -> Setup {
    let registry = Registry::new();
    assert_eq!(registry.declare(&resource("pods")), PODS);
    registry.update(vec![Discovered {
        name: resource("pods"),
        kind: "Pod".into(),
        scope: Scope::Namespaced,
        verbs: vec!["list".into(), "watch".into()],
        preferred: true,
    }]);
    let store = Store::new(registry.clone());
    let view = store.attach(&manifest(), Arc::new(Nobody)).expect("the manifest is valid");
    let spec = store.prune_spec(PODS);
    let before = ALLOCATED.load(std::sync::atomic::Ordering::Relaxed);
    let pods: Vec<_> = (0..sets)
        .flat_map(|set| (0..size).map(move |n| (set, n)))
        .map(|(set, n)| spec.prune(pod(set, n, 0).as_bytes()).expect("a pod"))
        .collect();
    store.replace(PODS, pods, "900");
    let taken = ALLOCATED.load(std::sync::atomic::Ordering::Relaxed) - before;
    registry.set_state(PODS, SyncState::Synced);
    store.sync_changed(PODS);
    Setup { store, view, bytes_per_pod: taken.unsigned_abs() / (sets * size) }
}

fn key(set: usize) -> Key {
    Key {
        source: 0,
        resource: PODS,
        namespace: "default".into(),
        name: format!("web-{set:x}-7d4b9c6f5d-00000").into(),
    }
}

fn query(set: usize) -> Query {
    Query {
        resources: ResourceSet::One(PODS),
        namespace: Some("default".into()),
        index: Some(IndexMatch { index: "owner".into(), value: vec![format!("owner-{set}")] }),
        labels: None,
    }
}

fn no_op(view: &Arc<ModuleView>, key: &Key, query: &Query) -> usize {
    let mut snapshot = view.snapshot(key);
    let found = snapshot.list(query).expect("a list").len();
    view.commit(key, snapshot.into_reads(), true);
    found
}

fn benches(c: &mut Criterion) {
    let small = setup(4000, 5);
    println!("bytes a cached pod: {}", small.bytes_per_pod);
    c.bench_function("no-op reconcile, 5 of 20,000 objects", |b| {
        let (key, query) = (key(7), query(7));
        b.iter(|| black_box(no_op(&small.view, &key, &query)));
    });
    let large = setup(4, 5000);
    let (key, query) = (key(2), query(2));
    c.bench_function("no-op reconcile, 5,000 of 20,000 objects", |b| {
        b.iter(|| black_box(no_op(&large.view, &key, &query)));
    });
    let spec = large.store.prune_spec(PODS);
    let mut restarts = 0;
    c.bench_function("5,000 objects, one changed: take it in, list, read it", |b| {
        b.iter_batched(
            || {
                restarts += 1;
                pod(2, 2500, restarts)
            },
            |raw| {
                large.store.upsert(PODS, spec.prune(raw.as_bytes()).expect("a pod"));
                let mut snapshot = large.view.snapshot(&key);
                let found = snapshot.list(&query).expect("a list");
                black_box(snapshot.read(&found[2500..2501]).expect("its content"));
                large.view.commit(&key, snapshot.into_reads(), true);
            },
            BatchSize::SmallInput,
        );
    });
    let raw = pod(2, 2500, 0);
    c.bench_function("prune a pod", |b| b.iter(|| black_box(spec.prune(raw.as_bytes()).expect("a pod"))));
}

criterion_group!(store, benches);
criterion_main!(store);
