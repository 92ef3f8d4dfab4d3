//! The loop of one controller: from its queue through the guest to the executor.
//!
//! In: woken keys. Out: plans carried out. Kept: one reconcile a key at a time,
//! and no reconcile of a key before the cache shows what its last plan wrote.
//! A fault of the guest costs the reconcile it happened in, nothing else.

mod about;
mod canary;
mod compute;
mod loaded;
mod observe;
mod probation;
mod recent;
mod reconcile;
mod record;
pub mod shadow;
mod status;
mod struck;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use parking_lot::{Mutex, RwLock};
use tokio::{
    sync::{Notify, Semaphore},
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

pub use about::{Deed, KeyAbout};
pub use canary::{Canary, CanaryStatus};
pub use compute::Compute;
pub use loaded::{Called, Loaded};
pub use observe::{Follower, Observer};
pub use probation::Probation;
pub use recent::Recent;
pub use record::Record;
use shadow::Shadow;
pub use status::{ControllerStatus, KeyError};

use crate::{
    clock::SharedClock,
    contract::Manifest,
    election::{Leadership, Term},
    engine::LogSink,
    entropy::Entropy,
    executor::{Barrier, Barriers},
    informer::Informers,
    key::{Cause, Key},
    limits::LimitHits,
    metrics::{ControllerSeries, Meter, Metrics},
    queue::{Finished, Queue},
    store::Store,
    traces::{Span, attribute},
};

/// What all controllers of a manager share.
pub struct Shared {
    /// Time.
    pub clock: SharedClock,
    /// Randomness.
    pub entropy: Entropy,
    /// The cache.
    pub store: Arc<Store>,
    /// What keeps the cache up to date.
    pub informers: Informers,
    /// Bounds how many guests compute at once.
    pub compute: Compute,
    /// Measurements.
    pub metrics: Arc<Metrics>,
}

/// Counts since the start of the controller, over all its versions.
#[derive(Default)]
pub struct Counters {
    /// Reconciles that ended, however they did.
    pub reconciles: AtomicU64,
    /// Traps, deadlines, full memories.
    pub faults: AtomicU64,
    /// Reconciles that failed.
    pub failures: AtomicU64,
    /// Writes that succeeded.
    pub writes: AtomicU64,
    /// Writes that changed nothing.
    pub no_op_writes: AtomicU64,
    /// Swaps.
    pub swaps: AtomicU64,
    /// Microseconds that the longest swap kept the controller.
    pub longest_swap_micros: AtomicU64,
    /// How often it went back to an earlier version.
    pub rollbacks: AtomicU64,
    /// Plans refused as a whole, those past a limit among them.
    pub invalid_plans: AtomicU64,
    /// What went past a limit.
    pub limit_hits: LimitHits,
}

/// The versions at work. One lock for both: whoever looks a key's version up sees both as they are at one moment, and
/// waits for nobody who waits for it.
struct Versions {
    current: Arc<Loaded>,
    /// The one that has a share of the keys.
    canary: Option<Arc<Canary>>,
}

/// One controller, whichever version of its module is loaded.
pub struct Controller {
    name: String,
    queue: Arc<Queue>,
    shared: Arc<Shared>,
    versions: RwLock<Versions>,
    /// Since when that one runs.
    since: Mutex<jiff::Timestamp>,
    records: Mutex<HashMap<Key, Record>>,
    permits: Arc<Semaphore>,
    concurrency: usize,
    counters: Counters,
    series: ControllerSeries,
    meter: Meter,
    recent: recent::RecentList,
    doings: about::Doings,
    last_error: Mutex<Option<KeyError>>,
    struck: struck::Struck,
    log: Arc<dyn LogSink>,
    observers: RwLock<Arc<[Arc<dyn Observer>]>>,
    shadows: RwLock<Vec<Arc<Shadow>>>,
    leadership: Leadership,
    stop: CancellationToken,
    swapped: Notify,
}

/// How a reconcile ended, for the loop.
struct Settled {
    finished: Finished,
    barriers: Vec<Barrier>,
}

impl Controller {
    /// A controller that does nothing yet. `concurrency` bounds the keys whose
    /// plans are carried out at once; it works while it leads.
    pub fn new(
        loaded: Loaded,
        queue: Arc<Queue>,
        shared: Arc<Shared>,
        concurrency: usize,
        log: Arc<dyn LogSink>,
        leadership: Leadership,
    ) -> Arc<Self> {
        let name = loaded.module.manifest().name.clone();
        queue.set_serial_sources(serial_sources(&loaded));
        let (series, meter) = (shared.metrics.controller(&name), shared.metrics.meter(&name));
        measure(&shared.metrics, &queue, &meter, &loaded);
        Arc::new(Self {
            name,
            queue,
            shared,
            since: Mutex::new(loaded.since),
            versions: RwLock::new(Versions { current: Arc::new(loaded), canary: None }),
            records: Mutex::default(),
            permits: Arc::new(Semaphore::new(concurrency.max(1))),
            concurrency: concurrency.max(1),
            counters: Counters::default(),
            series,
            meter,
            recent: recent::RecentList::default(),
            doings: about::Doings::default(),
            last_error: Mutex::default(),
            struck: struck::Struck::default(),
            log,
            observers: RwLock::new(Arc::default()),
            shadows: RwLock::default(),
            leadership,
            stop: CancellationToken::new(),
            swapped: Notify::new(),
        })
    }

    /// Whether it works, rather than stand by.
    pub fn leads(&self) -> bool {
        self.leadership.is_leader()
    }

    /// Name of the controller.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The version that runs.
    pub fn current(&self) -> Arc<Loaded> {
        self.versions.read().current.clone()
    }

    /// What it counts.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Its queue.
    pub fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// What its last reconciles came to, the newest first.
    pub fn recent(&self) -> Vec<Recent> {
        self.recent.all()
    }

    /// Puts another version in the place of the one that runs. Keys under way
    /// finish with the old one (lookups under way are dropped); queue, state,
    /// barriers and subscriptions stay; all keys are looked at anew, after
    /// whatever is due.
    pub fn swap(&self, loaded: impl Into<Arc<Loaded>>) {
        self.replace(loaded.into());
        self.counters.swaps.fetch_add(1, Ordering::Relaxed);
    }

    /// The same for a version that is not new: one to go back to, or the one that runs with other options. It counts as
    /// no swap.
    pub fn replace(&self, loaded: Arc<Loaded>) {
        loaded.probation.excuse(self.struck.excuses(self.current().probation.struck_before()));
        let begun = Instant::now();
        self.queue.set_serial_sources(serial_sources(&loaded));
        if let Some(numbers) = renumbering(self.current().module.manifest(), loaded.module.manifest()) {
            self.renumber(&numbers);
        }
        measure(&self.shared.metrics, &self.queue, &self.meter, &loaded);
        // What keys under way read from here on is no loss: all keys are woken below.
        loaded.view.adopt(&self.current().view);
        let old = {
            let mut versions = self.versions.write();
            // A canary that gets all keys is none any more.
            versions.canary.take_if(|canary| canary.is_of(&loaded));
            std::mem::replace(&mut versions.current, loaded.clone())
        };
        *self.since.lock() = self.shared.clock.now();
        loaded.view.rekey(Cause::Bulk);
        self.swapped.notify_waiters();
        let took = u64::try_from(begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counters.longest_swap_micros.fetch_max(took, Ordering::Relaxed);
        drop(old);
    }

    /// Whether a swap to this version must wait until no key is under way, since
    /// keys would have other names in it.
    pub fn must_drain(&self, next: &Manifest) -> bool {
        renumbering(self.current().module.manifest(), next).is_some() && !self.queue.is_drained()
    }

    fn renumber(&self, numbers: &[Option<u32>]) {
        let number = |source: u32| numbers.get(source as usize).copied().flatten();
        let renamed = |key: Key| Some(Key { source: number(key.source)?, ..key });
        self.queue.renumber(number);
        let mut records = self.records.lock();
        *records = records.drain().filter_map(|(key, record)| Some((renamed(key)?, record))).collect();
        self.struck.rename(renamed);
    }

    /// Runs until [`Controller::stop`], then lets plans that are under way
    /// finish. Between terms it stands by: its cache is kept warm, its keys are
    /// not even gathered, for each term begins with all of them.
    pub async fn run(self: Arc<Self>) {
        let mut leadership = self.leadership.clone();
        loop {
            self.queue.stand_by();
            let term = tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                term = leadership.begin() => term,
            };
            let reads = self.current().view.reads();
            tokio::select! {
                biased;
                () = self.stop.cancelled() => break,
                () = term.over() => continue,
                () = term.catch_up(reads, &self.shared.informers) => {}
            }
            if term.is_elected() {
                tracing::debug!(controller = %self.name, "leads, and its cache has caught up");
            }
            // What is remembered of a key is of the last term, or of none.
            self.records.lock().clear();
            self.queue.resume();
            self.current().view.rekey(Cause::Bulk);
            self.work(&term).await;
        }
        self.queue.close();
    }

    /// Takes keys until the term is over or the controller is stopped; returns
    /// once what is under way has ended.
    async fn work(self: &Arc<Self>, term: &Arc<Term>) {
        let tasks = TaskTracker::new();
        let ended = async || {
            tokio::select! {
                () = self.stop.cancelled() => {}
                () = term.over() => {}
            }
        };
        // The end comes first: it frees keys from their barriers, whose cache is behind their own writes.
        loop {
            let permit = tokio::select! {
                biased;
                () = ended() => break,
                permit = self.permits.clone().acquire_owned() => permit,
            };
            let Ok(permit) = permit else { break };
            let go_on = tokio::select! {
                biased;
                () = ended() => false,
                go_on = self.pause() => go_on,
            };
            if !go_on {
                break;
            }
            let key = tokio::select! {
                biased;
                () = ended() => break,
                key = self.queue.take() => key,
            };
            let Some(key) = key else { break };
            let (controller, term) = (self.clone(), term.clone());
            tasks.spawn(async move {
                let span = Span::begin("reconcile", controller.queue.origin(&key), || {
                    vec![attribute("controller", controller.name.clone()), attribute("key", key.to_string())]
                });
                let settled = span.within(controller.reconcile(&key, &term)).await;
                span.set("failed", settled.finished.failed);
                // The barrier holds the key, not one of the controller's places.
                drop(permit);
                span.within(controller.settle(key, settled, &term)).await;
            });
        }
        tasks.close();
        tasks.wait().await;
        self.meter.clear();
    }

    /// Waits while faults are all that comes of the version that runs; a swap
    /// ends it. False once the controller is stopped.
    async fn pause(&self) -> bool {
        loop {
            let swapped = self.swapped.notified();
            tokio::pin!(swapped);
            // From here on a swap is not missed.
            swapped.as_mut().enable();
            let pause = self.current().probation.pause();
            if pause.is_zero() {
                return true;
            }
            tokio::select! {
                () = tokio::time::sleep(pause) => return true,
                () = swapped => {}
                () = self.stop.cancelled() => return false,
            }
        }
    }

    /// Ends [`Controller::run`].
    pub fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits for [`Controller::stop`].
    pub async fn stopping(&self) {
        self.stop.cancelled().await;
    }

    async fn settle(&self, key: Key, settled: Settled, term: &Term) {
        self.queue.done(&key);
        if !settled.barriers.is_empty() {
            let mut barriers = Barriers::default();
            barriers.merge(settled.barriers);
            let executor = self.current().executor.clone();
            let held = tokio::time::Instant::now();
            let _span = Span::part("cache", Vec::new);
            let _phase = self.doings.waits_for_cache(&key, &barriers);
            tokio::select! {
                () = executor.wait_passed(&key, &mut barriers) => {}
                () = self.stop.cancelled() => {}
                () = term.over() => {}
            }
            self.series.held(held.elapsed());
        }
        self.queue.give_back(&key, settled.finished);
    }
}

/// The numbers that key sources have in another version, found by their names;
/// none if they are the same.
fn renumbering(old: &Manifest, new: &Manifest) -> Option<Vec<Option<u32>>> {
    let number = |name: &str| new.sources.iter().position(|source| source.name == name).map(|n| n as u32);
    let numbers: Vec<_> = old.sources.iter().map(|source| number(&source.name)).collect();
    let same = (0u32..).zip(&numbers).all(|(before, now)| *now == Some(before));
    (!same).then_some(numbers)
}

/// Measures a version's keys under the names its manifest gives their queues.
fn measure(metrics: &Metrics, queue: &Queue, meter: &Meter, loaded: &Loaded) {
    let manifest = loaded.module.manifest();
    let named = |queue: &String| metrics.queue(if queue.is_empty() { &manifest.name } else { queue });
    queue.measure(manifest.sources.iter().map(|source| named(&source.queue)).collect());
    meter.declare(manifest);
}

fn serial_sources(loaded: &Loaded) -> Vec<u32> {
    let sources = &loaded.module.manifest().sources;
    sources.iter().enumerate().filter(|(_, s)| s.serial).map(|(n, _)| n as u32).collect()
}
