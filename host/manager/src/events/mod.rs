//! Events: what controllers have to tell people, written to the cluster.
//!
//! In: what happened to which object, from the executor. Out: core/v1 Events,
//! combined and rate limited as users know them from other controllers.
//! Invariant: recording never waits; what there is no room for is dropped and
//! counted. Each controller's events are written in their order, and one
//! controller's never wait for another's.

mod correlate;
mod writer;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use tokio::{
    sync::mpsc,
    task::{JoinHandle, JoinSet},
};
use tokio_util::{
    sync::CancellationToken,
    task::{TaskTracker, task_tracker::TaskTrackerToken},
};

use crate::{api::ApiClient, clock::SharedClock, contract::EventKind, entropy::Entropy, executor::WriteGate};
use correlate::Names;
use writer::Writer;

/// Events of one controller that wait to be written, at most; and those that
/// wait to be handed to its writer.
const QUEUE: usize = 1000;

/// The object an event is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Involved {
    /// Its apiVersion.
    pub api_version: String,
    /// Its kind.
    pub kind: String,
    /// Its namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Its resourceVersion, if known.
    pub resource_version: String,
}

/// Something that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Occurrence {
    /// Source component, such as `replicaset-controller`.
    pub component: String,
    /// The controller, for the log.
    pub controller: String,
    /// What it is about.
    pub involved: Involved,
    /// Normal or Warning.
    pub kind: EventKind,
    /// Short CamelCase reason.
    pub reason: String,
    /// Text.
    pub message: String,
}

/// An event on its way.
struct Queued {
    occurrence: Occurrence,
    at: jiff::Timestamp,
    /// Asked before each request about it; none: it may always be written.
    gate: Option<Arc<dyn WriteGate>>,
    _pending: TaskTrackerToken,
}

/// Takes events and writes them in the background.
#[derive(Clone)]
pub struct EventRecorder {
    queue: mpsc::Sender<Queued>,
    clock: SharedClock,
    dropped: Dropped,
    pending: TaskTracker,
}

impl EventRecorder {
    /// Starts writing. It ends when `cancel` fires or the last recorder is
    /// gone, after one more try of what waits.
    pub fn start(
        api: ApiClient,
        clock: SharedClock,
        entropy: Entropy,
        cancel: CancellationToken,
    ) -> (Self, JoinHandle<()>) {
        let (queue, waiting) = mpsc::channel(QUEUE);
        let dropped = Dropped::default();
        let writers = Writers { api, entropy, cancel, dropped: dropped.clone(), names: Names::default() };
        let task = tokio::spawn(writers.run(waiting));
        (Self { queue, clock, dropped, pending: TaskTracker::new() }, task)
    }

    /// Takes an event, or drops it if too many wait.
    pub fn record(&self, occurrence: Occurrence) {
        self.take(occurrence, None);
    }

    /// The same for an event that is dropped once `gate` is closed: whoever may
    /// not write any more has nothing to tell either.
    pub fn record_through(&self, occurrence: Occurrence, gate: Arc<dyn WriteGate>) {
        self.take(occurrence, Some(gate));
    }

    fn take(&self, occurrence: Occurrence, gate: Option<Arc<dyn WriteGate>>) {
        let queued = Queued { occurrence, at: self.clock.now(), gate, _pending: self.pending.token() };
        self.dropped.unless_taken(self.queue.try_send(queued));
    }

    /// Waits until all events taken so far are written or given up.
    pub async fn flushed(&self) {
        self.pending.close();
        self.pending.wait().await;
    }

    /// Events dropped for want of room.
    pub fn dropped(&self) -> u64 {
        self.dropped.0.load(Ordering::Relaxed)
    }
}

/// Counts the events for which there was no room.
#[derive(Clone, Debug, Default)]
struct Dropped(Arc<AtomicU64>);

impl Dropped {
    fn unless_taken(&self, sent: Result<(), mpsc::error::TrySendError<Queued>>) {
        let Err(mpsc::error::TrySendError::Full(Queued { occurrence: lost, .. })) = sent else { return };
        let dropped = self.0.fetch_add(1, Ordering::Relaxed) + 1;
        // One line for the first and for each thousandth.
        if dropped % 1000 == 1 {
            tracing::warn!(
                controller = lost.controller,
                reason = lost.reason,
                dropped,
                "dropped an event: too many wait to be written"
            );
        }
    }
}

/// The writers, one a controller: each begins with its controller's first event.
struct Writers {
    api: ApiClient,
    entropy: Entropy,
    cancel: CancellationToken,
    dropped: Dropped,
    names: Names,
}

impl Writers {
    /// Hands events to their writers until it is cancelled or the queue closes,
    /// and waits for the writers.
    async fn run(self, mut waiting: mpsc::Receiver<Queued>) {
        let cancel = self.cancel.clone();
        let mut queues: HashMap<String, mpsc::Sender<Queued>> = HashMap::new();
        let mut tasks = JoinSet::new();
        loop {
            let next = tokio::select! {
                biased;
                () = cancel.cancelled() => waiting.try_recv().ok(),
                next = waiting.recv() => next,
            };
            let Some(event) = next else { break };
            let queue = match queues.get(&event.occurrence.controller) {
                Some(queue) => queue,
                None => {
                    let (queue, waiting) = mpsc::channel(QUEUE);
                    tasks.spawn(self.writer().run(waiting));
                    queues.entry(event.occurrence.controller.clone()).or_insert(queue)
                }
            };
            self.dropped.unless_taken(queue.try_send(event));
        }
        drop(queues);
        tasks.join_all().await;
    }

    fn writer(&self) -> Writer {
        Writer::new(self.api.clone(), self.entropy.clone(), self.cancel.clone(), self.names.clone())
    }
}
