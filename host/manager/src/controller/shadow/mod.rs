//! A candidate that computes beside the version that runs, and writes nothing.
//!
//! ```text
//! live reconcile ── notes (request, pin, answers, outcome) ──► queue ──► candidate ──► compared
//! ```
//!
//! In: the reconciles of the live version, as an observer sees them. Out: how
//! many agreed, and the differences. Kept: the candidate is asked what the live
//! version was asked, of the same state of the store, after the live version
//! has answered. It has its own instance, thread, state and queue; a queue that
//! is full or a job that has waited too long is dropped and counted, so whatever
//! the candidate does costs the live version the taking of notes and no more.

mod compare;
mod notes;
mod rehearse;
mod status;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};
use tokio_util::sync::CancellationToken;

pub use status::{Difference, ShadowStatus};

use super::{Controller, Loaded, Observer, Record, compute::Compute};
use crate::{
    clock::SharedClock,
    engine::LogSink,
    key::{Key, Wake},
    plans::Sensitive,
    registry::Registry,
};
use notes::Job;

/// Jobs that wait at most. Each pins a state of the store.
const QUEUE: usize = 256;
/// How long a job may wait before it is dropped: what it pins is kept as long.
const STALE: Duration = Duration::from_secs(5);
/// Faults in a row after which a candidate is not asked any more.
const FAULTS: u64 = 3;
/// Keys whose differences are kept.
const DIFFERENCES: usize = 20;

/// Figures of a shadow.
#[derive(Debug, Default)]
pub struct ShadowCounters {
    /// Reconciles in which both decided the same.
    pub agreed: AtomicU64,
    /// Those in which they did not.
    pub differed: AtomicU64,
    /// Those in which the candidate faulted, or its plan could not be carried out.
    pub faults: AtomicU64,
    /// Reconciles that were not compared for want of time.
    pub dropped: AtomicU64,
    /// Reconciles that nothing can be compared with: the live version faulted,
    /// or the candidate does not have such keys.
    pub skipped: AtomicU64,
    /// Lookups that only the candidate asked for, and that were sent.
    pub lookups: AtomicU64,
}

/// What a shadow needs of its surroundings.
pub struct Surroundings {
    /// Time.
    pub clock: SharedClock,
    /// Names of resources.
    pub registry: Arc<Registry>,
    /// Where the candidate's log lines go.
    pub log: Arc<dyn LogSink>,
}

/// A candidate in the shadow of the version that runs.
pub struct Shadow {
    me: Weak<Self>,
    candidate: Arc<Loaded>,
    around: Surroundings,
    sensitive: Sensitive,
    since: jiff::Timestamp,
    /// Agreements after which it goes live, if it is to.
    wanted: Option<u64>,
    counters: ShadowCounters,
    faults_in_a_row: AtomicU64,
    jobs: Mutex<VecDeque<Job>>,
    news: Notify,
    records: Mutex<HashMap<Key, Record>>,
    differences: Mutex<VecDeque<Difference>>,
    ended: Mutex<Option<String>>,
    through: AtomicBool,
    off: AtomicBool,
    /// A place on the processors of its own.
    compute: Compute,
    stop: CancellationToken,
}

impl Shadow {
    /// A candidate that will be asked once it is [`watched`](Controller::watch).
    /// Its view must be ready. `wanted` is for the status only.
    pub fn new(candidate: Arc<Loaded>, around: Surroundings, wanted: Option<u64>) -> Arc<Self> {
        let sensitive = Sensitive::of(&candidate.module.manifest().reads);
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            sensitive,
            since: around.clock.now(),
            wanted,
            candidate,
            around,
            counters: ShadowCounters::default(),
            faults_in_a_row: AtomicU64::new(0),
            jobs: Mutex::default(),
            news: Notify::new(),
            records: Mutex::default(),
            differences: Mutex::default(),
            ended: Mutex::default(),
            through: AtomicBool::new(false),
            off: AtomicBool::new(false),
            compute: Compute::new(1),
            stop: CancellationToken::new(),
        })
    }

    /// The version in the shadow.
    pub fn candidate(&self) -> &Arc<Loaded> {
        &self.candidate
    }

    /// What it counts.
    pub fn counters(&self) -> &ShadowCounters {
        &self.counters
    }

    /// Lets the candidate through, whatever it differed in.
    pub fn let_through(&self) {
        self.through.store(true, Ordering::Relaxed);
    }

    /// Keeps the candidate from going live.
    pub fn call_off(&self) {
        self.off.store(true, Ordering::Relaxed);
    }

    /// Whether [`Shadow::call_off`] was called.
    pub fn is_called_off(&self) -> bool {
        self.off.load(Ordering::Relaxed)
    }

    /// Whether [`Shadow::let_through`] was called.
    pub fn is_through(&self) -> bool {
        self.through.load(Ordering::Relaxed)
    }

    /// Why the candidate is asked no more, if so.
    pub fn ended(&self) -> Option<String> {
        self.ended.lock().clone()
    }

    /// Whether all that was taken note of has been looked at.
    pub fn is_idle(&self) -> bool {
        self.jobs.lock().is_empty()
    }

    /// The key as the candidate's manifest numbers its sources; none if it has
    /// no source of that name.
    fn translate(&self, live: &Loaded, key: &Key) -> Option<Key> {
        let name = &live.module.manifest().sources.get(key.source as usize)?.name;
        let sources = &self.candidate.module.manifest().sources;
        let source = sources.iter().position(|source| source.name == *name)?;
        Some(Key { source: u32::try_from(source).ok()?, ..key.clone() })
    }

    /// Takes a job in, or drops it.
    fn push(&self, job: Job) {
        let mut jobs = self.jobs.lock();
        while jobs.front().is_some_and(|oldest| oldest.taken.elapsed() > STALE) {
            if let Some(oldest) = jobs.pop_front() {
                self.drop_job(oldest);
            }
        }
        if jobs.len() >= QUEUE {
            drop(jobs);
            return self.drop_job(job);
        }
        jobs.push_back(job);
        drop(jobs);
        self.news.notify_one();
    }

    fn drop_job(&self, job: Job) {
        self.counters.dropped.fetch_add(1, Ordering::Relaxed);
        // What the candidate would have kept is unknown now: it starts again from what the live version keeps.
        self.records.lock().remove(&job.key);
    }

    /// Lets go of all that waits, and of the states of the store that it shows.
    fn forget_jobs(&self) {
        let jobs = std::mem::take(&mut *self.jobs.lock());
        drop(jobs);
    }

    fn pop(&self) -> Option<Job> {
        loop {
            let job = self.jobs.lock().pop_front()?;
            if job.taken.elapsed() <= STALE {
                return Some(job);
            }
            self.drop_job(job);
        }
    }

    /// Asks the candidate until stopped.
    async fn run(self: Arc<Self>) {
        loop {
            while let Some(job) = self.pop() {
                tokio::select! {
                    () = self.rehearse(job) => {}
                    () = self.stop.cancelled() => {}
                }
                if self.stop.is_cancelled() || self.ended.lock().is_some() {
                    self.forget_jobs();
                    return;
                }
            }
            tokio::select! {
                () = self.news.notified() => {}
                () = self.stop.cancelled() => return,
            }
        }
    }

    fn agreed(&self) {
        self.faults_in_a_row.store(0, Ordering::Relaxed);
        self.counters.agreed.fetch_add(1, Ordering::Relaxed);
    }

    fn differed(&self, key: &Key, diff: String) {
        self.faults_in_a_row.store(0, Ordering::Relaxed);
        self.counters.differed.fetch_add(1, Ordering::Relaxed);
        self.keep(key, diff);
    }

    fn faulted(&self, key: &Key, reason: String) {
        self.counters.faults.fetch_add(1, Ordering::Relaxed);
        let in_a_row = self.faults_in_a_row.fetch_add(1, Ordering::Relaxed) + 1;
        if in_a_row >= FAULTS {
            let told = format!(
                "{in_a_row} reconciles in a row failed in the shadow, the last one of {key}: {reason}"
            );
            *self.ended.lock() = Some(told);
        }
        self.keep(key, reason);
    }

    fn keep(&self, key: &Key, diff: String) {
        let key = key.to_string();
        let mut differences = self.differences.lock();
        let before = differences.iter().position(|known| known.key == key);
        let times = before.and_then(|at| differences.remove(at)).map_or(0, |known| known.times) + 1;
        while differences.len() >= DIFFERENCES {
            differences.pop_front();
        }
        differences.push_back(Difference { key, at: self.around.clock.now(), times, diff });
    }
}

/// Hears of changes and does nothing: a candidate is asked when the live
/// version is.
pub struct Deaf;

impl Wake for Deaf {
    fn wake(&self, _: &Key, _: crate::key::Cause) {}
}

impl Controller {
    /// Puts a candidate in the shadow of whichever version runs, until
    /// [`Controller::unwatch`].
    pub fn watch(&self, shadow: &Arc<Shadow>) {
        self.shadows.write().push(shadow.clone());
        self.observe(shadow.clone());
        tokio::spawn(shadow.clone().run());
    }

    /// The candidate that goes live once it has agreed often enough.
    pub fn rehearsed(&self) -> Option<Arc<Shadow>> {
        self.shadows.read().iter().find(|shadow| shadow.wanted.is_some()).cloned()
    }

    /// Ends a shadow.
    pub fn unwatch(&self, shadow: &Arc<Shadow>) {
        shadow.stop.cancel();
        let observer: Arc<dyn Observer> = shadow.clone();
        self.stop_observing(&observer);
        self.shadows.write().retain(|other| !Arc::ptr_eq(other, shadow));
        shadow.forget_jobs();
    }
}

/// When a job was made, for [`STALE`].
fn now() -> Instant {
    Instant::now()
}
