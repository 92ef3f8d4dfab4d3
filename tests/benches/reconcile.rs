//! What a whole reconcile costs: snapshot, the component, and what it read taken note of.
//!
//! The component is the replicaset controller as it is shipped; nothing is to
//! be done, as in almost all reconciles of a cluster at rest.

use std::{hint::black_box, sync::Arc};

use coxswain::{
    clock::SystemClock,
    contract::Outcome,
    controller::{
        Loaded, Observer,
        shadow::{Deaf, Shadow, Surroundings},
    },
    engine::{Engine, EngineConfig, Instance},
    key::{Cause, Key, Wake},
    store::Snapshot,
};
use coxswain_tests::{
    asking::{Silence, request},
    module,
    settled::{CONTROLLER, Settled},
};
use criterion::{BatchSize, Criterion};
use tokio::runtime::Runtime;

struct Nobody;

impl Wake for Nobody {
    fn wake(&self, _: &Key, _: Cause) {}
}

struct Bench {
    settled: Settled,
    loaded: Arc<Loaded>,
    shadow: Option<Arc<Shadow>>,
    instance: Instance,
    key: Key,
}

impl Bench {
    /// A ReplicaSet at rest with so many pods.
    fn new(engine: &Arc<Engine>, runtime: &Runtime, size: usize) -> anyhow::Result<Self> {
        let _in_runtime = runtime.enter();
        let module = runtime.block_on(engine.load(module(CONTROLLER)?))?;
        let settled = Settled::default();
        let loaded = Arc::new(settled.version(&module, settled.view(&module, Arc::new(Nobody))?)?);
        settled.fill(1, size)?;
        let key =
            Key { source: 0, resource: settled.sets, namespace: "default".into(), name: "web-0".into() };
        let instance = module.instantiate().map_err(|fault| anyhow::anyhow!("{fault}"))?;
        Ok(Self { settled, loaded, shadow: None, instance, key })
    }

    /// One reconcile; it must find nothing to do.
    fn reconcile(&mut self) {
        let snapshot = self.loaded.view.snapshot(&self.key);
        let request = request(&self.loaded.view, &snapshot, &self.key, 1_800_000_000, &[]);
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
            self.loaded.view.commit(&self.key, snapshot.into_reads(), true);
        }
    }

    /// From now on notes are taken for a version in the shadow, as fast as they can be.
    fn shadowed(&mut self, runtime: &Runtime) -> anyhow::Result<()> {
        let _in_runtime = runtime.enter();
        let module = &self.loaded.module;
        let candidate = self.settled.version(module, self.settled.view(module, Arc::new(Deaf))?)?;
        let around = Surroundings {
            clock: Arc::new(SystemClock),
            registry: self.settled.registry.clone(),
            log: Arc::new(Silence),
        };
        self.shadow = Some(Shadow::new(Arc::new(candidate), around, None));
        Ok(())
    }
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
                    bench.settled.restart(restarts.get()).expect("a pod is a pod");
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
