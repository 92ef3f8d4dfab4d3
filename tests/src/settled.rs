//! ReplicaSets that have all their pods, in a store that no server fills, and the replicaset controller at work on them
//! as the manager runs it: there is nothing to be done, and nothing is ever written.

use std::{
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use anyhow::ensure;
use coxswain::{
    api::ApiClient,
    clock::{Clock, SystemClock},
    contract::{GroupResource, Scope, SyncState},
    controller::{Compute, Controller, Loaded, Shared},
    election::Election,
    engine::Module,
    entropy::Entropy,
    events::EventRecorder,
    executor::{Executor, ExecutorConfig, SharedCache},
    informer::Informers,
    key::{Cause, Wake},
    manager::AlwaysWrite,
    metrics::Metrics,
    queue::Queue,
    registry::{Discovered, Registry},
    store::{ModuleView, Store},
};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::{LIMIT, asking::Silence};

/// Name of the module that has them as keys.
pub const CONTROLLER: &str = "replicaset-controller";
/// Keys at once, as the controller has it by default.
const CONCURRENCY: usize = 5;

/// A pod of a set, whose container restarted so many times.
fn pod(set: usize, n: usize, restarts: usize) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{set}-{n:05}"), "namespace": "default", "uid": format!("pod-{set}-{n}"),
            "resourceVersion": (1000 + n + restarts).to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": format!("web-{set}")},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("web-{set}"),
                                 "uid": format!("rs-{set}"), "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {"nodeName": format!("node-{}", n % 100), "containers": [{"name": "c", "image": "i:1"}]},
        "status": {"phase": "Running", "conditions": [condition("Ready"), condition("PodScheduled")],
                   "containerStatuses": [{"name": "c", "restartCount": restarts}]},
    })
}

fn replica_set(set: usize, pods: usize) -> Value {
    let labels = json!({"app": format!("web-{set}")});
    json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": format!("web-{set}"), "namespace": "default", "uid": format!("rs-{set}"),
                     "resourceVersion": "7", "generation": 1},
        "spec": {"replicas": pods, "selector": {"matchLabels": labels},
                 "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}}},
        "status": {"replicas": pods, "fullyLabeledReplicas": pods, "readyReplicas": pods, "availableReplicas": pods,
                   "terminatingReplicas": 0, "observedGeneration": 1},
    })
}

/// The store.
pub struct Settled {
    /// What is served.
    pub registry: Arc<Registry>,
    /// The cache.
    pub store: Arc<Store>,
    /// Number of ReplicaSets as a resource.
    pub sets: u32,
    pods: u32,
}

impl Default for Settled {
    fn default() -> Self {
        let registry = Registry::new();
        let named = |group: &str, resource: &str| GroupResource {
            group: group.into(),
            version: "v1".into(),
            resource: resource.into(),
        };
        let kinds = [(named("apps", "replicasets"), "ReplicaSet"), (named("", "pods"), "Pod")];
        let found = kinds.iter().map(|(name, kind)| Discovered {
            name: name.clone(),
            kind: (*kind).into(),
            scope: Scope::Namespaced,
            verbs: vec!["list".into(), "watch".into()],
            preferred: true,
        });
        registry.update(found.collect());
        let [sets, pods] = kinds.each_ref().map(|(name, _)| registry.declare(name));
        Self { store: Store::new(registry.clone()), registry, sets, pods }
    }
}

impl Settled {
    /// Puts so many sets in, each with so many pods. Whoever reads them has said so before.
    pub fn fill(&self, sets: usize, pods: usize) -> anyhow::Result<()> {
        self.put(self.sets, (0..sets).map(|set| replica_set(set, pods)))?;
        self.put(self.pods, (0..sets).flat_map(|set| (0..pods).map(move |n| pod(set, n, 0))))
    }

    fn put(&self, number: u32, objects: impl Iterator<Item = Value>) -> anyhow::Result<()> {
        let spec = self.store.prune_spec(number);
        let pruned: Result<Vec<_>, _> = objects.map(|o| spec.prune(o.to_string().as_bytes())).collect();
        self.store.replace(number, pruned?, "900000");
        self.registry.set_state(number, SyncState::Synced);
        self.store.sync_changed(number);
        Ok(())
    }

    /// The first pod restarts for the so manieth time.
    pub fn restart(&self, restarts: usize) -> anyhow::Result<()> {
        let raw = pod(0, 0, restarts).to_string();
        self.store.upsert(self.pods, self.store.prune_spec(self.pods).prune(raw.as_bytes())?);
        Ok(())
    }

    /// A view of a module.
    pub fn view(&self, module: &Module, wake: Arc<dyn Wake>) -> anyhow::Result<Arc<ModuleView>> {
        Ok(self.store.attach(module.manifest(), wake)?)
    }

    /// A version with an executor that reaches no server. To be called in a runtime.
    pub fn version(&self, module: &Module, view: Arc<ModuleView>) -> anyhow::Result<Loaded> {
        let (clock, entropy) = (Arc::new(SystemClock), Entropy::from_seed(1));
        let api = nowhere()?;
        let (events, _) =
            EventRecorder::start(api.clone(), clock.clone(), entropy.clone(), CancellationToken::new());
        let cache = Arc::new(SharedCache::new(self.store.clone(), self.registry.clone()));
        let config = ExecutorConfig::new(module.manifest().clone());
        let executor =
            Executor::new(config, api, self.registry.clone(), cache, events, entropy, clock.clone());
        Ok(Loaded::new(module.clone(), "bench".into(), clock.now(), 0, view, executor, Vec::new()))
    }
}

fn nowhere() -> anyhow::Result<ApiClient> {
    let _ = coxswain::install_crypto();
    Ok(ApiClient::new(kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse()?))?, "bench"))
}

/// The controller at work.
pub struct AtWork {
    /// What it works on.
    pub settled: Settled,
    /// The controller.
    pub controller: Arc<Controller>,
    module: Module,
    sets: u64,
    running: JoinHandle<()>,
}

impl AtWork {
    /// Starts it on so many sets of so many pods, and waits until it has looked at all.
    pub async fn start(module: Module, sets: usize, pods: usize) -> anyhow::Result<Self> {
        let (settled, queue) = (Settled::default(), Arc::new(Queue::new()));
        let loaded = settled.version(&module, settled.view(&module, queue.clone())?)?;
        settled.fill(sets, pods)?;
        let (clock, entropy) = (Arc::new(SystemClock), Entropy::from_seed(1));
        // Informers of nothing: what there is to know is in the store.
        let nothing = Registry::new();
        let (informers, _) = Informers::start(
            nowhere()?,
            nothing.clone(),
            Store::new(nothing),
            clock.clone(),
            entropy.clone(),
            CancellationToken::new(),
        );
        let compute = Compute::new(std::thread::available_parallelism()?.get());
        let metrics = Metrics::new("bench", []);
        let leadership = Election::none(Arc::new(AlwaysWrite), clock.clone()).join(CONTROLLER, &[]);
        let store = settled.store.clone();
        let shared = Arc::new(Shared { clock, entropy, store, informers, compute, metrics });
        let controller = Controller::new(loaded, queue, shared, CONCURRENCY, Arc::new(Silence), leadership);
        let running = tokio::spawn(controller.clone().run());
        let at_work = Self { settled, controller, module, sets: sets as u64, running };
        // It begins with all of them.
        at_work.reach(at_work.sets).await?;
        Ok(at_work)
    }

    /// Another version of the same module, for the same controller.
    pub fn version(&self) -> anyhow::Result<Loaded> {
        let view = self.settled.view(&self.module, self.controller.queue().clone())?;
        self.settled.version(&self.module, view)
    }

    /// Reconciles so far.
    pub fn reconciles(&self) -> u64 {
        self.controller.counters().reconciles.load(Ordering::Relaxed)
    }

    /// Has all keys looked at, and waits until they are.
    pub async fn look_at_all(&self) -> anyhow::Result<()> {
        let want = self.reconciles() + self.sets;
        self.controller.current().view.rekey(Cause::Bulk);
        self.reach(want).await
    }

    async fn reach(&self, want: u64) -> anyhow::Result<()> {
        let begun = Instant::now();
        while self.reconciles() < want {
            let stats = || self.controller.queue().stats();
            ensure!(begun.elapsed() < LIMIT, "keys that were woken are not reconciled: {:?}", stats());
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        Ok(())
    }

    /// Ends it. An error says that it found something to do.
    pub async fn stop(self) -> anyhow::Result<()> {
        self.controller.stop();
        self.running.await?;
        let counters = self.controller.counters();
        let idle = counters.failures.load(Ordering::Relaxed) + counters.writes.load(Ordering::Relaxed) == 0;
        ensure!(idle, "it found something to do: {:?}", self.controller.recent().first());
        Ok(())
    }
}
