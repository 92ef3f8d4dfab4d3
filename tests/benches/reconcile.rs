//! What a whole reconcile costs: snapshot, the component, and what it read taken note of.
//!
//! The component is the replicaset controller as it is shipped; nothing is to
//! be done, as in almost all reconciles of a cluster at rest.

use std::{hint::black_box, sync::Arc};

use coxswain::{
    api::ApiClient,
    clock::{Clock, SystemClock},
    contract::{GroupResource, Outcome, Scope, SyncState},
    controller::{
        Loaded, Observer,
        shadow::{Deaf, Shadow, Surroundings},
    },
    engine::{Engine, EngineConfig, Instance, Module},
    entropy::Entropy,
    events::EventRecorder,
    executor::{Executor, ExecutorConfig, SharedCache},
    key::{Cause, Key, Wake},
    registry::{Discovered, Registry},
    store::{ModuleView, Snapshot, Store},
};
use coxswain_tests::{
    asking::{Silence, request},
    module,
};
use criterion::{BatchSize, Criterion};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

struct Nobody;

impl Wake for Nobody {
    fn wake(&self, _: &Key, _: Cause) {}
}

fn pod(n: usize, restarts: usize) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{n:05}"), "namespace": "default", "uid": format!("pod-{n}"),
            "resourceVersion": (1000 + n + restarts).to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-web",
                                 "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {"nodeName": format!("node-{}", n % 100), "containers": [{"name": "c", "image": "i:1"}]},
        "status": {"phase": "Running", "conditions": [condition("Ready"), condition("PodScheduled")],
                   "containerStatuses": [{"name": "c", "restartCount": restarts}]},
    })
}

fn replica_set(pods: usize) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "rs-web", "resourceVersion": "7", "generation": 1},
        "spec": {"replicas": pods, "selector": {"matchLabels": {"app": "web"}},
                 "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
        "status": {"replicas": pods, "fullyLabeledReplicas": pods, "readyReplicas": pods, "availableReplicas": pods,
                   "terminatingReplicas": 0, "observedGeneration": 1},
    })
}

struct Bench {
    store: Arc<Store>,
    loaded: Arc<Loaded>,
    shadow: Option<Arc<Shadow>>,
    view: Arc<ModuleView>,
    instance: Instance,
    pods: u32,
    key: Key,
}

impl Bench {
    /// A ReplicaSet at rest with so many pods.
    fn new(engine: &Arc<Engine>, runtime: &tokio::runtime::Runtime, size: usize) -> anyhow::Result<Self> {
        let module = runtime.block_on(engine.load(module("replicaset-controller")?))?;
        let registry = Registry::new();
        let store = Store::new(registry.clone());
        let view = store.attach(module.manifest(), Arc::new(Nobody))?;
        let named = |group: &str, resource: &str| GroupResource {
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
        };
        let kinds = [(named("apps", "replicasets"), "ReplicaSet"), (named("", "pods"), "Pod")];
        registry.update(
            kinds
                .iter()
                .map(|(name, kind)| Discovered {
                    name: name.clone(),
                    kind: (*kind).into(),
                    scope: Scope::Namespaced,
                    verbs: vec!["list".into(), "watch".into()],
                    preferred: true,
                })
                .collect(),
        );
        let [sets, pods] = kinds.each_ref().map(|(name, _)| registry.declare(name));
        let objects = |number: u32, all: Vec<Value>| -> anyhow::Result<()> {
            let spec = store.prune_spec(number);
            let pruned: Result<Vec<_>, _> =
                all.iter().map(|o| spec.prune(o.to_string().as_bytes())).collect();
            store.replace(number, pruned?, "900000");
            registry.set_state(number, SyncState::Synced);
            store.sync_changed(number);
            Ok(())
        };
        objects(sets, vec![replica_set(size)])?;
        objects(pods, (0..size).map(|n| pod(n, 0)).collect())?;
        let key = Key { source: 0, resource: sets, namespace: "default".into(), name: "web".into() };
        let instance = module.instantiate().map_err(|fault| anyhow::anyhow!("{fault}"))?;
        let loaded = loaded(&module, &store, view.clone(), runtime)?;
        Ok(Self { store: store.clone(), loaded, shadow: None, view, instance, pods, key })
    }

    /// One reconcile; it must find nothing to do.
    fn reconcile(&mut self) {
        let snapshot = self.view.snapshot(&self.key);
        let request = request(&self.view, &snapshot, &self.key, 1_800_000_000, &[]);
        let mut notes = self.shadow.as_ref().and_then(|shadow| shadow.begin(&self.loaded, &self.key));
        if let Some(notes) = &mut notes {
            notes.asked(&request, &snapshot);
        }
        let (outcome, snapshot) = self.instance.reconcile(&request, Box::new(snapshot), Arc::new(Silence));
        if let Some(notes) = &mut notes {
            notes.answered(&request, &outcome);
        }
        match outcome {
            Ok(Outcome::Plan(plan)) => assert!(plan.steps.is_empty(), "it found something to do: {plan:?}"),
            other => panic!("no plan: {other:?}"),
        }
        if let Ok(snapshot) = snapshot.into_any().downcast::<Snapshot>() {
            self.view.commit(&self.key, snapshot.into_reads(), true);
        }
    }

    /// From now on notes are taken for a version in the shadow, as fast as they can be.
    fn shadowed(&mut self, runtime: &tokio::runtime::Runtime) -> anyhow::Result<()> {
        let module = &self.loaded.module;
        let view = self.store.attach(module.manifest(), Arc::new(Deaf))?;
        let candidate = loaded(module, &self.store, view, runtime)?;
        let around = Surroundings {
            clock: Arc::new(SystemClock),
            registry: self.store.registry().clone(),
            log: Arc::new(Silence),
        };
        self.shadow = Some(Shadow::new(candidate, around, None));
        Ok(())
    }

    /// One pod restarts.
    fn change(&self, restarts: usize) {
        let raw = pod(0, restarts).to_string();
        if let Ok(object) = self.store.prune_spec(self.pods).prune(raw.as_bytes()) {
            self.store.upsert(self.pods, object);
        }
    }
}

/// A version with an executor that reaches no server, and sends nothing.
fn loaded(
    module: &Module,
    store: &Arc<Store>,
    view: Arc<ModuleView>,
    runtime: &tokio::runtime::Runtime,
) -> anyhow::Result<Arc<Loaded>> {
    let _in_runtime = runtime.enter();
    let _ = coxswain::install_crypto();
    let (clock, entropy) = (Arc::new(SystemClock), Entropy::from_seed(1));
    let api =
        ApiClient::new(kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse()?))?, "bench");
    let (events, _) =
        EventRecorder::start(api.clone(), clock.clone(), entropy.clone(), CancellationToken::new());
    let cache = Arc::new(SharedCache::new(store.clone(), store.registry().clone()));
    let config = ExecutorConfig::new(module.manifest().clone());
    let executor =
        Executor::new(config, api, store.registry().clone(), cache, events, entropy, clock.clone());
    let now = clock.now();
    Ok(Arc::new(Loaded::new(module.clone(), "bench".into(), now, 0, view, executor, Vec::new())))
}

fn main() -> anyhow::Result<()> {
    // `cargo test --benches` only wants to know that it builds and starts.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let engine = Engine::new(EngineConfig::default())?;
    let mut criterion = Criterion::default().configure_from_args();
    for size in [5, 1_000, 5_000] {
        let mut bench = Bench::new(&engine, &runtime, size)?;
        bench.reconcile();
        criterion.bench_function(&format!("reconcile that changes nothing, {size} pods"), |b| {
            b.iter(|| bench.reconcile());
        });
        let restarts = std::cell::Cell::new(0);
        criterion.bench_function(&format!("the same with one of {size} pods changed"), |b| {
            b.iter_batched(
                || restarts.set(restarts.get() + 1),
                |()| {
                    bench.change(restarts.get());
                    bench.reconcile();
                },
                BatchSize::PerIteration,
            );
        });
        bench.shadowed(&runtime)?;
        bench.reconcile();
        criterion.bench_function(
            &format!("reconcile that changes nothing, {size} pods, with notes for a shadow"),
            |b| {
                b.iter(|| bench.reconcile());
            },
        );
        black_box(&bench.instance);
    }
    criterion.final_summary();
    Ok(())
}
