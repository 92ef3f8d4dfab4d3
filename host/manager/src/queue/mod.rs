//! The work queue of one controller.
//!
//! In: wakes from the store, times at which a plan wants to be asked again.
//! Out: the next key to reconcile. Kept: a key is in the queue at most once, is
//! reconciled by one at a time, and no wake is lost: what comes while a key is
//! taken makes it due again when it is given back. Memory is a set of dirty
//! keys, never a log of events.
//!
//! Two priorities: wakes in bulk (a first list, a swap) come after all others.

pub mod backoff;
mod keys;
mod measure;
mod renumber;
mod rests;
mod schedule;

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

pub use keys::{Held, KeyState};

use crate::{
    key::{Cause, Key, Wake},
    traces::{self, Origin},
};
use measure::Measure;
use rests::Rests;

/// How soon a queued key is taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Priority {
    Normal,
    Low,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// Nowhere; the entry is only kept for what it remembers.
    Idle,
    /// In one of the ready lists.
    Ready(Priority),
    /// Taken, or held by a barrier.
    Taken,
}

/// What came while a key was taken.
#[derive(Default, Clone, Copy)]
struct Dirty {
    /// The own object changed; its resourceVersion.
    primary: Option<u64>,
    gone: bool,
    read: bool,
    bulk: bool,
}

struct Entry {
    place: Place,
    dirty: Dirty,
    /// When it is due without a wake.
    due: Option<Instant>,
    /// Whether it was woken, and waits for `due` because of a backoff, quiet or rest.
    held: bool,
    /// Until when it waits after a failure (or is slowed); `due` is never later.
    backoff_until: Option<Instant>,
    /// Until when it waits because it never comes to rest, at least.
    slowed_until: Option<Instant>,
    /// Until when wakes that do not come from the own object are held back.
    quiet_until: Option<Instant>,
    /// Until when all wakes wait that tell of no foreign change to the own object.
    rest_until: Option<Instant>,
    failures: u32,
    writing_plans: u32,
    own_writes: Vec<u64>,
    queued_at: Instant,
    /// What woke it first.
    origin: Option<Origin>,
}

impl Dirty {
    fn is_clean(self) -> bool {
        self.primary.is_none() && !self.gone && !self.read && !self.bulk
    }
}

impl Entry {
    fn new() -> Self {
        Self {
            place: Place::Idle,
            dirty: Dirty::default(),
            due: None,
            held: false,
            backoff_until: None,
            slowed_until: None,
            quiet_until: None,
            rest_until: None,
            failures: 0,
            writing_plans: 0,
            own_writes: Vec::new(),
            queued_at: Instant::now(),
            origin: None,
        }
    }

    fn is_blank(&self, now: Instant) -> bool {
        self.place == Place::Idle
            && self.due.is_none()
            && self.failures == 0
            && self.writing_plans == 0
            && self.quiet_until.is_none_or(|t| t <= now)
            && self.rest_until.is_none_or(|t| t <= now)
    }
}

/// What the queue tells about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Keys that are ready.
    pub ready: usize,
    /// Keys taken or held by a barrier.
    pub taken: usize,
    /// Keys that wait for a time.
    pub delayed: usize,
    /// Keys that were woken, and are held back for a while without having failed.
    pub held: usize,
    /// Keys that failed and wait for their backoff.
    pub backing_off: usize,
    /// Wakes since the start.
    pub adds: u64,
    /// Repeats after failures since the start.
    pub retries: u64,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Key, Entry>,
    normal: VecDeque<Key>,
    low: VecDeque<Key>,
    due: BTreeSet<(Instant, Key)>,
    serial_taken: HashSet<u32>,
    closed: bool,
    paused: bool,
    /// No key is handed out until those taken have come back.
    draining: bool,
    standing_by: bool,
    adds: u64,
    retries: u64,
    measure: Measure,
    rests: Rests,
}

/// How a reconcile ended, for the queue.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// It failed: wait for the backoff.
    pub failed: bool,
    /// It came closer to what it wants before it failed, so it is not the same failure as before.
    pub advanced: bool,
    /// Conflicts are all that it failed of: what it read was behind.
    pub conflict: bool,
    /// The plan wrote something.
    pub wrote: bool,
    /// resourceVersions that our own writes gave to the key's own object.
    pub own_writes: Vec<u64>,
    /// Come back then at the latest.
    pub again_in: Option<Duration>,
    /// Hold back wakes that do not come from the own object.
    pub quiet: Duration,
    /// What it took to compute.
    pub spent: Duration,
    /// Reconcile again at once (a swap came in between).
    pub at_once: bool,
    /// Nothing is to be remembered of the key.
    pub forget: bool,
}

/// The work queue of one controller.
pub struct Queue {
    inner: Mutex<Inner>,
    notify: Notify,
    serial_sources: Mutex<HashSet<u32>>,
}

impl Default for Queue {
    fn default() -> Self {
        Self::new()
    }
}

impl Queue {
    /// An empty queue, paused until [`Queue::resume`].
    pub fn new() -> Self {
        Self {
            inner: Mutex::new(Inner { paused: true, ..Inner::default() }),
            notify: Notify::new(),
            serial_sources: Mutex::default(),
        }
    }

    /// Sets the key sources of which only one key may be taken at a time.
    pub fn set_serial_sources(&self, sources: impl IntoIterator<Item = u32>) {
        *self.serial_sources.lock() = sources.into_iter().collect();
    }

    /// Hands out no keys until resumed. Wakes are still taken in.
    pub fn pause(&self) {
        self.inner.lock().paused = true;
    }

    /// Forgets all keys that are not taken, and takes no wakes in until resumed:
    /// whoever resumes wakes all keys there are.
    pub fn stand_by(&self) {
        let mut inner = self.inner.lock();
        (inner.paused, inner.standing_by) = (true, true);
        inner.move_depth(-1);
        inner.entries.retain(|_, entry| entry.place == Place::Taken);
        inner.normal.clear();
        inner.low.clear();
        inner.due.clear();
    }

    /// Hands out keys again.
    pub fn resume(&self) {
        let mut inner = self.inner.lock();
        (inner.paused, inner.standing_by) = (false, false);
        drop(inner);
        self.notify.notify_one();
    }

    /// Takes the next key; `None` once the queue is closed.
    pub async fn take(&self) -> Option<Key> {
        loop {
            let next_due = {
                let mut inner = self.inner.lock();
                if inner.closed {
                    return None;
                }
                let now = Instant::now();
                inner.promote(now);
                if !inner.paused && !inner.draining {
                    if let Some(key) = inner.pop(&self.serial_sources.lock()) {
                        if inner.has_ready() {
                            self.notify.notify_one();
                        }
                        return Some(key);
                    }
                }
                inner.due.first().map(|(at, _)| *at)
            };
            match next_due {
                Some(at) => tokio::select! {
                    () = self.notify.notified() => {}
                    () = tokio::time::sleep_until(at) => {}
                },
                None => self.notify.notified().await,
            }
        }
    }

    /// What woke a key that was taken; for whoever took it, once.
    pub fn origin(&self, key: &Key) -> Option<Origin> {
        traces::is_on().then(|| self.inner.lock().entries.get_mut(key)?.origin.take()).flatten()
    }

    /// Gives a key back after its reconcile, and after its barrier has passed.
    pub fn give_back(&self, key: &Key, finished: Finished) {
        let now = Instant::now();
        let mut inner = self.inner.lock();
        inner.serial_taken.remove(&key.source);
        inner.measure.done(key, now);
        let Some(mut entry) = inner.entries.remove(key) else { return };
        if inner.standing_by {
            return;
        }
        let dirty = std::mem::take(&mut entry.dirty);
        entry.place = Place::Idle;
        entry.due = None;
        entry.held = false;
        entry.backoff_until = None;
        entry.own_writes = finished.own_writes;
        let foreign_primary = dirty.gone || dirty.primary.is_some_and(|rv| !entry.own_writes.contains(&rv));
        if foreign_primary {
            entry.writing_plans = 0;
        }
        entry.quiet_until = (!finished.quiet.is_zero()).then(|| now + finished.quiet);
        let rest = inner.rests.after(key, finished.spent, now);
        entry.rest_until = (!rest.is_zero()).then(|| now + rest);
        if finished.failed {
            let most = match finished {
                Finished { advanced: true, .. } => backoff::AFTER_PROGRESS,
                Finished { conflict: true, .. } => backoff::AFTER_CONFLICTS,
                _ => u32::MAX,
            };
            entry.failures = entry.failures.saturating_add(1).min(most);
            inner.retries += 1;
            inner.measure.retried(key);
        } else {
            entry.failures = 0;
        }
        if finished.wrote {
            entry.writing_plans = entry.writing_plans.saturating_add(1);
        } else if !finished.failed {
            entry.writing_plans = 0;
        }
        let slowing = backoff::after_writes(entry.writing_plans);
        let wait = backoff::after_failures(entry.failures).max(slowing);
        entry.slowed_until = (!slowing.is_zero()).then(|| now + slowing);
        entry.backoff_until = (!wait.is_zero()).then(|| now + wait);
        if finished.failed {
            entry.due = entry.backoff_until;
        }
        if let Some(again) = finished.again_in {
            let at = now + again;
            entry.due = Some(entry.due.map_or(at, |due| due.min(at)));
        }
        if finished.forget && !dirty.read && !dirty.bulk && dirty.primary.is_none() && !dirty.gone {
            drop(inner);
            self.notify.notify_one();
            return;
        }
        if let Some(at) = entry.due {
            inner.due.insert((at, key.clone()));
        }
        inner.entries.insert(key.clone(), entry);
        if finished.at_once {
            inner.enqueue(key, Priority::Normal, now);
        }
        if dirty.gone {
            inner.wake(key, Cause::PrimaryGone, now);
        }
        if let Some(resource_version) = dirty.primary {
            inner.wake(key, Cause::Primary { resource_version }, now);
        }
        if dirty.read {
            inner.wake(key, Cause::Read, now);
        }
        if dirty.bulk {
            inner.wake(key, Cause::Bulk, now);
        }
        inner.drop_if_blank(key, now);
        drop(inner);
        self.notify.notify_one();
    }

    /// Hands out no more keys and lets `take` end.
    pub fn close(&self) {
        self.inner.lock().closed = true;
        self.notify.notify_waiters();
        self.notify.notify_one();
    }

    /// Figures for status and metrics.
    pub fn stats(&self) -> Stats {
        let inner = self.inner.lock();
        let taken = inner.entries.values().filter(|e| e.place == Place::Taken).count();
        Stats {
            ready: inner.normal.len() + inner.low.len(),
            taken,
            delayed: inner.due.len(),
            held: inner.entries.values().filter(|e| e.held && e.failures == 0).count(),
            backing_off: inner.entries.values().filter(|e| e.failures > 0).count(),
            adds: inner.adds,
            retries: inner.retries,
        }
    }

    /// How long the key that waits longest has been ready.
    pub fn oldest_ready(&self) -> Option<Duration> {
        let inner = self.inner.lock();
        [inner.normal.front(), inner.low.front()]
            .into_iter()
            .flatten()
            .filter_map(|key| inner.entries.get(key))
            .map(|entry| entry.queued_at.elapsed())
            .max()
    }
}

impl Wake for Queue {
    fn wake(&self, key: &Key, cause: Cause) {
        let mut inner = self.inner.lock();
        if inner.standing_by {
            return;
        }
        inner.adds += 1;
        inner.add(key, cause, Instant::now());
        if let Some(origin) = traces::origin()
            && let Some(entry) = inner.entries.get_mut(key)
        {
            entry.origin.get_or_insert(origin);
        }
        let ready = inner.has_ready() || !inner.due.is_empty();
        drop(inner);
        if ready {
            self.notify.notify_one();
        }
    }
}

#[cfg(test)]
mod tests;
