//! What recording costs a reconcile.
//!
//! The replicaset controller as it is shipped, with nothing to do, by the path
//! that the manager takes: a compute thread, the component, what it read taken
//! note of; with and without somebody who records it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use coxswain::{
    api::ApiClient,
    clock::SystemClock,
    contract::{GroupResource, Outcome, Scope, SyncState},
    controller::{Compute, Loaded, Observer},
    engine::{Engine, EngineConfig},
    entropy::Entropy,
    events::EventRecorder,
    executor::{Executor, ExecutorConfig, SharedCache},
    key::{Cause, Key, Wake},
    recording::{RecordConfig, RecordingWriter},
    registry::{Discovered, Registry},
    store::Store,
};
use coxswain_tests::{
    asking::{Silence, request},
    measured::bench,
    module,
};
use serde_json::{Value, json};

/// How long each measurement takes.
const SPAN: Duration = Duration::from_millis(500);
/// Pairs of measurements; the median pair counts.
const PAIRS: usize = 21;

struct Nobody;

impl Wake for Nobody {
    fn wake(&self, _: &Key, _: Cause) {}
}

fn pod(n: usize) -> Value {
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": format!("web-{n:05}"), "namespace": "default", "uid": format!("pod-{n}"),
            "resourceVersion": (1000 + n).to_string(), "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": "web"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs-web",
                                 "controller": true, "blockOwnerDeletion": true}],
        },
        "spec": {"nodeName": format!("node-{}", n % 100), "containers": [{"name": "c", "image": "i:1"}]},
        "status": {"phase": "Running", "conditions": [condition("Ready"), condition("PodScheduled")]},
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
    registry: Arc<Registry>,
    loaded: Arc<Loaded>,
    key: Key,
    compute: Compute,
}

impl Bench {
    async fn new(engine: &Arc<Engine>, size: usize) -> anyhow::Result<Self> {
        let module = engine.load(module("replicaset-controller")?).await?;
        let registry = Registry::new();
        let store = Store::new(registry.clone());
        let view = store.attach(module.manifest(), Arc::new(Nobody))?;
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
        for (number, all) in [(sets, vec![replica_set(size)]), (pods, (0..size).map(pod).collect())] {
            let spec = store.prune_spec(number);
            let pruned: Result<Vec<_>, _> =
                all.iter().map(|o| spec.prune(o.to_string().as_bytes())).collect();
            store.replace(number, pruned?, "900000");
            registry.set_state(number, SyncState::Synced);
            store.sync_changed(number);
        }
        let key = Key { source: 0, resource: sets, namespace: "default".into(), name: "web".into() };
        // Nothing is written, so nobody is there to write to.
        let client = kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse()?))?;
        let api = ApiClient::new(client, "bench");
        let (clock, entropy) = (Arc::new(SystemClock), Entropy::from_seed(1));
        let (events, _) =
            EventRecorder::start(api.clone(), clock.clone(), entropy.clone(), Default::default());
        let executor = Executor::new(
            ExecutorConfig::new(module.manifest().clone()),
            api,
            registry.clone(),
            Arc::new(SharedCache::new(store.clone(), registry.clone())),
            events,
            entropy,
            clock,
        );
        let since = jiff::Timestamp::UNIX_EPOCH;
        let loaded = Loaded::new(module, "bench".into(), since, 0, view, executor, Vec::new());
        Ok(Self { registry, loaded: Arc::new(loaded), key, compute: Compute::new(2) })
    }

    async fn reconcile(&self, observer: Option<&Arc<dyn Observer>>) -> anyhow::Result<()> {
        let mut follower = observer.and_then(|observer| observer.begin(&self.loaded, &self.key));
        let snapshot = self.loaded.view.snapshot(&self.key);
        let request = request(&self.loaded.view, &snapshot, &self.key, 1_800_000_000, &[]);
        let shown: Box<dyn coxswain::engine::SnapshotHost> = match &mut follower {
            None => Box::new(snapshot),
            Some(follower) => {
                follower.asked(&request, &snapshot);
                follower.around(Box::new(snapshot))
            }
        };
        let log = Arc::new(Silence);
        let called = self.loaded.call(request, shown, Duration::ZERO, log, &self.compute, || true).await;
        let called = called.context("it was not asked")?;
        if let Some(follower) = &mut follower {
            follower.answered(&called.request, &called.result);
        }
        let reads = called.reads.context("it read nothing")?;
        self.loaded.view.commit(&self.key, reads, true);
        match called.result {
            Ok(Outcome::Plan(plan)) if plan.steps.is_empty() => Ok(()),
            other => anyhow::bail!("it found something to do: {other:?}"),
        }
    }

    /// Reconciles a second.
    async fn rate(&self, observer: Option<&Arc<dyn Observer>>) -> anyhow::Result<f64> {
        let (begun, mut count) = (Instant::now(), 0u32);
        while begun.elapsed() < SPAN {
            for _ in 0..16 {
                self.reconcile(observer).await?;
            }
            count += 16;
        }
        Ok(f64::from(count) / begun.elapsed().as_secs_f64())
    }
}

async fn measure() -> anyhow::Result<()> {
    let _ = coxswain::install_crypto();
    let engine = Engine::new(EngineConfig::default())?;
    for size in [5, 500, 5_000] {
        let bench = Bench::new(&engine, size).await?;
        let dir = tempfile::tempdir()?;
        let config = RecordConfig { dir: dir.path().to_owned(), max_bytes: 256 << 20, sensitive: false };
        let recording = RecordingWriter::start(config, bench.registry.clone(), Arc::new(SystemClock))?;
        let observer = recording.observer();
        bench.rate(Some(&observer)).await?;
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let without = bench.rate(None).await?;
            pairs.push((bench.rate(Some(&observer)).await? / without, without));
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, without) = pairs[PAIRS / 2];
        let status = recording.status();
        recording.finish();
        println!(
            "reconcile that changes nothing, {size} pods: {without:.0} a second; recorded: {:.1} % less ({} recorded, {} not)",
            (1.0 - ratio) * 100.0,
            status.reconciles,
            status.dropped
        );
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    bench(measure())
}
