//! One candidate for one lease: client-go's algorithm.
//!
//! In: the Lease, as reads and a watch show it. Out: terms. Invariant: a lease
//! is taken only from nobody, from a dead process of this machine, or after its
//! duration has passed on our own clock since we last saw it change; every write
//! of a Lease carries its resourceVersion; no term outlives the lease by our own
//! clock, from the moment the last renewal was sent. Wall clocks are written for
//! people and read by nobody.

mod lead;

use std::{
    path::PathBuf,
    sync::{Arc, atomic::AtomicUsize, atomic::Ordering},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    client::LeaseClient,
    config::{JITTER, Timing},
    feed::Sight,
    group::{Group, Leadership},
    local::{Left, LocalLock},
    record::{Lease, Record, micro_time},
    state::{Role, add},
    tell,
    term::{Moment, Term},
};
use crate::{api::ApiError, clock::SharedClock, entropy::Entropy, events::EventRecorder};

/// A server may still carry out what a dead process sent before its connections
/// were closed. A write that is under way to etcd ends within this.
const AFTER_DEATH: Duration = Duration::from_secs(1);
/// How often a standby says that it is one.
const REMIND: Duration = Duration::from_secs(600);

/// What the electors of a process share.
pub(super) struct Shared {
    pub(super) client: LeaseClient,
    pub(super) timing: Timing,
    pub(super) identity: String,
    pub(super) clock: SharedClock,
    pub(super) entropy: Entropy,
    pub(super) events: EventRecorder,
    pub(super) runtime_dir: Option<PathBuf>,
    /// Leases held or being taken.
    pub(super) held: AtomicUsize,
    /// Whether a lease is taken the later the more are held.
    pub(super) spread: bool,
}

/// A candidate.
pub(super) struct Elector {
    pub(super) shared: Arc<Shared>,
    pub(super) group: Arc<Group>,
    pub(super) sight: watch::Receiver<Sight>,
    /// A lease that has to be held first.
    pub(super) after: Option<Leadership>,
    observed: Option<Observed>,
    /// Since when it is nobody's.
    free_since: Option<Instant>,
    trouble: tell::Troubles,
    reminded: Instant,
}

/// A Lease, and when it was first seen like this.
struct Observed {
    lease: Lease,
    at: Moment,
}

/// A lease that is held or being taken, counted for as long as this lives.
struct Claim(Arc<Shared>);

impl Claim {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.held.fetch_add(1, Ordering::Relaxed);
        Self(shared.clone())
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.0.held.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What came of an attempt to take the lease.
enum Attempt {
    Won(Won),
    /// It may be had, and is left to others for this long.
    Later(Duration),
    Failed,
}

/// A lease that was won.
struct Won {
    claim: Claim,
    sent: Moment,
    local: Option<LocalLock>,
    pause: Duration,
}

/// How a term ended.
pub(super) enum End {
    /// We were asked to stop.
    Stopped,
    /// The lease was lost, and why.
    Lost(String),
}

impl Elector {
    pub(super) fn new(
        shared: Arc<Shared>,
        group: Arc<Group>,
        sight: watch::Receiver<Sight>,
        after: Option<Leadership>,
    ) -> Self {
        Self {
            shared,
            group,
            sight,
            after,
            observed: None,
            free_since: None,
            trouble: tell::Troubles::default(),
            reminded: Instant::now(),
        }
    }

    /// One term, from waiting for it to its end. All its writes have ended when
    /// this returns; the lease has been given up if we were asked to stop.
    pub(super) async fn term(&mut self) -> End {
        let group = self.group.clone();
        if let Some(after) = &mut self.after {
            tokio::select! {
                _ = after.begin() => {}
                () = group.unwanted() => return End::Stopped,
            }
        }
        let Some(won) = self.acquire().await else { return End::Stopped };
        let shared = self.shared.clone();
        let local = won.local.map(Arc::new);
        let term = Term::begin(shared.timing, shared.clock.clone(), won.sent, local.clone(), won.pause);
        self.group.set_role(Role::Leader);
        add(&self.group.counters.terms);
        tell::became_leader(&shared, &self.group, self.lease());
        self.group.term.send_replace(Some(term.clone()));
        let end = self.lead(&term).await;
        term.end();
        self.group.term.send_replace(None);
        self.group.set_role(Role::Standby);
        drop(won.claim);
        tell::stopped_leading(&shared, self.lease());
        // A lost term waits as well: its lock says that we may still be writing.
        term.drained().await;
        match &end {
            End::Stopped => self.release().await,
            End::Lost(_) => add(&self.group.counters.losses),
        }
        if let Some(local) = local {
            local.remove();
        }
        self.free_since = None;
        end
    }

    /// Waits until the lease is ours; none if we are to stop.
    async fn acquire(&mut self) -> Option<Won> {
        let group = self.group.clone();
        let mut look = true;
        while !group.is_unwanted() {
            self.take_in_sight();
            let wait = match self.not_yet().filter(|_| !look) {
                Some(wait) => wait,
                // An attempt is never given up half-way: it may have been granted.
                None => match self.attempt().await {
                    Attempt::Won(won) => return Some(won),
                    Attempt::Later(wait) => wait,
                    Attempt::Failed => self.jittered(),
                },
            };
            self.remind();
            tokio::select! {
                () = group.unwanted() => {}
                Ok(()) = self.sight.changed() => look = false,
                // Without a watch only a read tells what has changed.
                () = sleep(wait) => look = !self.sight.borrow().live,
            }
        }
        None
    }

    /// How long there is nothing to try, as far as we have seen; none if the
    /// lease may be had.
    fn not_yet(&mut self) -> Option<Duration> {
        // Nothing was seen: a read tells more.
        let Observed { lease, at } = self.observed.as_ref()?;
        let record = &lease.record;
        let left = record.duration().saturating_sub(at.elapsed(&self.shared.clock));
        let ours = record.holder_identity == self.shared.identity;
        let here = self.may_be_of_this_machine();
        let free = ours || left.is_zero() || record.holder_identity.is_empty() || here && self.holder_died();
        if !free {
            self.free_since = None;
            return Some(if here { left.min(self.jittered()) } else { left });
        }
        self.left_to_others()
    }

    /// How much longer a lease that may be had is left to those who hold fewer;
    /// none if it is our turn.
    fn left_to_others(&mut self) -> Option<Duration> {
        let since = *self.free_since.get_or_insert_with(Instant::now);
        Some(self.pace().saturating_sub(since.elapsed())).filter(|wait| !wait.is_zero())
    }

    /// Whether the holder was a process of this machine, and is dead.
    fn holder_died(&self) -> bool {
        let Some(lease) = self.lease() else { return false };
        let (_, left) = self.lock_local(lease.uid());
        !left.identity.is_empty() && left.identity == lease.record.holder_identity
    }

    /// How long a lease is left to those who hold fewer. Not the same time for
    /// any two processes, so that they do not all want the same one.
    fn pace(&self) -> Duration {
        if !self.shared.spread {
            return Duration::ZERO;
        }
        let retry = self.shared.timing.retry;
        let held = u32::try_from(self.shared.held.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
        (retry / 20).saturating_mul(held).min(retry).mul_f64(0.5 + self.shared.entropy.next_fraction())
    }

    /// One attempt to take the lease.
    async fn attempt(&mut self) -> Attempt {
        let shared = self.shared.clone();
        let timeout = shared.timing.request();
        let lease = match shared.client.get(&self.group.lease, timeout).await {
            Ok(Some(lease)) => lease,
            Ok(None) => {
                self.observed = None;
                if let Some(wait) = self.left_to_others() {
                    return Attempt::Later(wait);
                }
                let record = self.record(None);
                let sent = Moment::now(&shared.clock);
                let _claim = Claim::new(&shared);
                let made = shared.client.create(&self.group.lease, &record, timeout).await;
                return self.settle(made, sent, None, Duration::ZERO);
            }
            Err(error) => {
                self.failed("read the lease", &error);
                return Attempt::Failed;
            }
        };
        self.observe(lease);
        let Some(Observed { lease, at }) = &self.observed else { return Attempt::Failed };
        let record = &lease.record;
        let free = record.holder_identity.is_empty()
            || record.holder_identity == shared.identity
            || at.elapsed(&shared.clock) >= record.duration();
        let (local, left) = self.lock_local(lease.uid());
        let died = !free && !left.identity.is_empty() && left.identity == record.holder_identity;
        if !free && !died {
            // Only now: that it can be read says nothing of whether it can be taken.
            self.trouble.over(&self.group);
            self.group.set_role(Role::Standby);
            return Attempt::Failed;
        }
        if died {
            tracing::info!(
                lease = self.group.lease,
                holder = left.identity,
                "the holder was a process of this machine and is dead: taking its lease over at once"
            );
        }
        let pause = if died && left.writing { AFTER_DEATH } else { Duration::ZERO };
        let (lease, next) = (lease.clone(), self.record(Some(record)));
        if let Some(wait) = self.left_to_others() {
            return Attempt::Later(wait);
        }
        let sent = Moment::now(&shared.clock);
        let _claim = Claim::new(&shared);
        let written = shared.client.update(&lease, &next, timeout).await;
        self.settle(written, sent, local, pause)
    }

    fn settle(
        &mut self,
        answer: Result<Lease, ApiError>,
        sent: Moment,
        local: Option<LocalLock>,
        pause: Duration,
    ) -> Attempt {
        match answer {
            Ok(lease) => {
                self.trouble.over(&self.group);
                let local = local.or_else(|| self.lock_local(lease.uid()).0);
                self.observe(lease);
                let local = local.filter(|local| match local.sign(&self.shared.identity) {
                    Ok(()) => true,
                    Err(error) => {
                        tracing::debug!(%error, "cannot sign the lock file");
                        local.remove();
                        false
                    }
                });
                Attempt::Won(Won { claim: Claim::new(&self.shared), sent, local, pause })
            }
            // Somebody else was quicker.
            Err(error) if error.failure.status == 409 => {
                tracing::debug!(lease = self.group.lease, %error, "another candidate was quicker");
                Attempt::Failed
            }
            Err(error) => {
                self.failed("take the lease", &error);
                Attempt::Failed
            }
        }
    }

    /// What the Lease is to say of us. `before` is what it says now.
    fn record(&self, before: Option<&Record>) -> Record {
        let now = micro_time(self.shared.clock.now());
        let seconds = self.shared.timing.lease.as_secs();
        let ours = before.filter(|record| record.holder_identity == self.shared.identity);
        Record {
            holder_identity: self.shared.identity.clone(),
            lease_duration_seconds: i64::try_from(seconds).unwrap_or(i64::MAX),
            acquire_time: ours.map_or(now.clone(), |record| record.acquire_time.clone()),
            renew_time: now,
            lease_transitions: match (before, ours) {
                (_, Some(record)) => record.lease_transitions,
                (Some(record), None) => record.lease_transitions.saturating_add(1),
                (None, None) => 0,
            },
        }
    }

    fn renewed(&self, before: &Record) -> Record {
        self.record(Some(before))
    }

    /// Takes in what the watch has told.
    fn take_in_sight(&mut self) {
        let sight = self.sight.borrow_and_update().clone();
        if sight.gone {
            // Told once: a read says the rest.
            self.observed = None;
            self.free_since = None;
        } else if let Some(lease) = sight.lease {
            let version = |lease: &Lease| lease.resource_version().parse::<u64>().unwrap_or(0);
            let newer = self.observed.as_ref().is_none_or(|seen| version(&lease) > version(&seen.lease));
            if newer {
                self.observe(Lease::clone(&lease));
            }
        }
    }

    /// Notes a Lease; the time only if what it says is new.
    fn observe(&mut self, lease: Lease) {
        let at = match &self.observed {
            Some(seen) if seen.lease.record == lease.record => seen.at,
            _ => Moment::now(&self.shared.clock),
        };
        let changed = self.group.status.lock().saw(&lease.record);
        if changed && lease.record.holder_identity != self.shared.identity {
            tell::other_holder(&self.group.lease, &lease.record);
            self.reminded = Instant::now();
        }
        self.observed = Some(Observed { lease, at });
    }

    fn lease(&self) -> Option<&Lease> {
        self.observed.as_ref().map(|observed| &observed.lease)
    }

    fn remind(&mut self) {
        if self.reminded.elapsed() >= REMIND {
            self.reminded = Instant::now();
            if let Some(lease) = self.lease() {
                tell::still_waiting(&self.group.lease, &lease.record);
            }
        }
    }

    /// Whether the holder could be a process of this machine.
    fn may_be_of_this_machine(&self) -> bool {
        let host = |identity: &str| identity.rsplit_once('_').map(|(host, _)| host.to_owned());
        self.shared.runtime_dir.is_some()
            && self
                .lease()
                .is_some_and(|lease| host(&lease.record.holder_identity) == host(&self.shared.identity))
    }

    fn lock_local(&self, uid: &str) -> (Option<LocalLock>, Left) {
        let Some(dir) = &self.shared.runtime_dir else { return (None, Left::default()) };
        match LocalLock::take(dir, uid) {
            Ok(Some((lock, left))) => (Some(lock), left),
            Ok(None) => (None, Left::default()),
            Err(error) => {
                tracing::debug!(dir = %dir.display(), %error, "cannot lock the file of a lease");
                (None, Left::default())
            }
        }
    }

    fn jittered(&self) -> Duration {
        let retry = self.shared.timing.retry;
        retry + retry.mul_f64(JITTER * self.shared.entropy.next_fraction())
    }

    fn failed(&mut self, what: &str, error: &ApiError) {
        self.group.counters.failed(error.failure.status);
        self.trouble.happened(&self.group, what, error);
    }
}
