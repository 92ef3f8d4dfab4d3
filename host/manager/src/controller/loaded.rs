//! One version of a module, at work.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use super::{compute::Compute, probation::Probation};
use crate::{
    contract::{Outcome, Request},
    engine::{Fault, Instance, LogSink, Module, SnapshotHost},
    executor::Executor,
    store::{ModuleView, Reads, Snapshot},
};

/// A module with all that it needs to reconcile: its view of the store, its
/// instance, its executor, the values of its options. A swap replaces it whole,
/// and whoever still works with the old one finishes with it.
pub struct Loaded {
    /// The compiled module.
    pub module: Module,
    /// When it was put together.
    pub since: jiff::Timestamp,
    /// Its view of the store.
    pub view: Arc<ModuleView>,
    /// The writer of its plans.
    pub executor: Arc<Executor>,
    /// Values of its options, in the manifest's order.
    pub options: Vec<String>,
    /// How it does.
    pub probation: Arc<Probation>,
    /// The file it is in; that may be renamed.
    path: Mutex<PathBuf>,
    generation: AtomicU64,
    instance: Mutex<Option<Instance>>,
    /// One call at a time, in order, and only the one whose turn it is takes a
    /// place on a processor.
    turn: Arc<tokio::sync::Mutex<()>>,
    memory: AtomicUsize,
}

/// What a call of the guest came to.
pub struct Called {
    /// The outcome, or why there is none.
    pub result: Result<Outcome, Fault>,
    /// How long the guest computed.
    pub spent: Duration,
    /// What was read; none if the call never began.
    pub reads: Option<Reads>,
    /// The request, to be asked again with more answers.
    pub request: Arc<Request>,
}

impl Loaded {
    /// Puts a version together.
    pub fn new(
        module: Module,
        path: PathBuf,
        since: jiff::Timestamp,
        generation: u64,
        view: Arc<ModuleView>,
        executor: Arc<Executor>,
        options: Vec<String>,
    ) -> Self {
        let (instance, turn, probation) = (Mutex::default(), Arc::default(), Arc::<Probation>::default());
        let (generation, memory) = (AtomicU64::new(generation), AtomicUsize::new(0));
        let path = Mutex::new(path);
        Self { module, path, since, generation, view, executor, options, probation, instance, turn, memory }
    }

    /// The file it is in.
    pub fn path(&self) -> PathBuf {
        self.path.lock().clone()
    }

    /// Notes that its file has another name.
    pub fn set_path(&self, path: PathBuf) {
        *self.path.lock() = path;
    }

    /// Bytes of linear memory of its instance, as of its last call.
    pub fn memory(&self) -> usize {
        self.memory.load(Ordering::Relaxed)
    }

    /// Counts the swaps of its controller up to it.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Sets what [`Loaded::generation`] is, before it becomes the one that runs.
    pub fn set_generation(&self, generation: u64) {
        self.generation.store(generation, Ordering::Relaxed);
    }

    /// Calls the guest on a compute thread, one call at a time. `spent` is what
    /// earlier rounds of the same reconcile took of its deadline. None, and the
    /// guest is not called, if it is not `wanted` any more when its turn comes.
    pub async fn call(
        self: &Arc<Self>,
        request: Request,
        snapshot: Box<dyn SnapshotHost>,
        spent: Duration,
        log: Arc<dyn LogSink>,
        compute: &Compute,
        wanted: impl FnOnce() -> bool,
    ) -> Option<Called> {
        let turn = self.turn.clone().lock_owned().await;
        if !wanted() {
            return None;
        }
        let loaded = self.clone();
        let request = Arc::new(request);
        let kept = request.clone();
        let call = move || {
            let called = loaded.call_blocking(request, snapshot, spent, log);
            drop(turn);
            called
        };
        Some(match compute.run(call).await {
            Ok(called) => called,
            Err(error) => {
                let text = format!("the host failed while it served the guest: {error}");
                Called { result: Err(Fault::Trap(text)), spent: Duration::ZERO, reads: None, request: kept }
            }
        })
    }

    fn call_blocking(
        &self,
        request: Arc<Request>,
        snapshot: Box<dyn SnapshotHost>,
        spent: Duration,
        log: Arc<dyn LogSink>,
    ) -> Called {
        let mut slot = self.instance.lock();
        let mut instance = match slot.take().map_or_else(|| self.module.instantiate(), Ok) {
            Ok(instance) => instance,
            Err(fault) => {
                let reads = into_reads(snapshot);
                return Called { result: Err(fault), spent: Duration::ZERO, reads, request };
            }
        };
        instance.has_spent(spent);
        let begun = Instant::now();
        let (result, snapshot) = instance.reconcile(&request, snapshot, log);
        let spent = begun.elapsed().saturating_sub(instance.paused());
        self.memory.store(instance.memory(), Ordering::Relaxed);
        // After a fault the instance is in no known state: it is dropped, and the next call makes another.
        if result.is_ok() {
            *slot = Some(instance);
        }
        drop(slot);
        let reads = into_reads(snapshot);
        Called { result, spent, reads, request }
    }
}

/// What was read, from the snapshot itself or from what an observer put around it.
fn into_reads(snapshot: Box<dyn SnapshotHost>) -> Option<Reads> {
    snapshot.into_any().downcast::<Snapshot>().ok().map(|snapshot| snapshot.into_reads())
}

impl Drop for Loaded {
    fn drop(&mut self) {
        self.view.detach();
    }
}
