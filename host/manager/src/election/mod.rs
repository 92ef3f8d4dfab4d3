//! Leader election: who of several processes works.
//!
//! In: Leases of coordination.k8s.io. Out: terms, each of which is the gate of
//! the writes made under it. Invariant: at no time do two processes hold the
//! same lease and write; a process that cannot renew stops before anybody else
//! may begin. Controllers are spread over leases by [`Grouping`]: all under one,
//! some under another, or each under its own.

mod catch_up;
mod client;
mod config;
mod elector;
mod feed;
mod group;
mod grouping;
mod identity;
mod local;
mod migration;
mod record;
mod state;
mod tell;
mod term;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    sync::{Arc, atomic::AtomicUsize},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

pub use config::{ConfigError, ElectionConfig, JITTER, OnLoss, Timing};
pub use group::Leadership;
pub use grouping::{Grouping, Place};
pub use identity::identity;
pub use local::default_runtime_dir;
pub use migration::{Migration, MigrationError};
pub use state::{ElectionCounters, LeaseStatus, Role};
pub use term::Term;

use crate::{
    api::ApiClient, clock::SharedClock, entropy::Entropy, events::EventRecorder, executor::WriteGate,
};
use client::LeaseClient;
use elector::{Elector, End, Shared};
use feed::Feed;
use group::Group;

/// How long after the end of a lease its holder still counts as healthy:
/// kube-controller-manager's number.
const HEALTHY_FOR: Duration = Duration::from_secs(20);

/// The elections of a process.
pub struct Election {
    kind: Kind,
}

enum Kind {
    /// No leader is elected.
    None(Leadership),
    Elected(Box<Elected>),
}

struct Elected {
    shared: Arc<Shared>,
    grouping: Grouping,
    on_loss: OnLoss,
    feed: Arc<Feed>,
    groups: Mutex<BTreeMap<String, Running>>,
    lost: watch::Sender<Option<String>>,
    watching: CancellationToken,
}

struct Running {
    group: Arc<Group>,
    task: JoinHandle<()>,
}

impl Election {
    /// None: this process works as soon as it can. `gate` decides about writes.
    pub fn none(gate: Arc<dyn WriteGate>, clock: SharedClock) -> Self {
        Self { kind: Kind::None(Leadership::without_election(gate, clock)) }
    }

    /// Prepares to run for the leases of a configuration that has been checked;
    /// [`Election::stand`] and [`Election::join`] do.
    pub fn start(
        config: ElectionConfig,
        identity: String,
        api: ApiClient,
        clock: SharedClock,
        entropy: Entropy,
        events: EventRecorder,
    ) -> Self {
        let runtime_dir = config.runtime_dir.filter(|dir| match local::prepare(dir) {
            Ok(()) => true,
            Err(error) => {
                tracing::info!(dir = %dir.display(), %error, "no runtime directory, so a restart waits for the lease of a process that was killed; see --leader-elect-runtime-dir");
                false
            }
        });
        let client = LeaseClient::new(api, &config.namespace);
        let shared = Arc::new(Shared {
            client: client.clone(),
            timing: config.timing,
            identity,
            clock,
            entropy: entropy.clone(),
            events,
            runtime_dir,
            held: AtomicUsize::new(0),
            spread: matches!(config.grouping, Grouping::PerController(_)),
        });
        let feed = Arc::new(Feed::default());
        let watching = CancellationToken::new();
        let only = config.grouping.main().filter(|_| config.grouping.is_single()).map(str::to_owned);
        let watch = feed.clone().run(client, only, config.timing, entropy);
        tokio::spawn(watching.clone().run_until_cancelled_owned(watch));
        let elected = Elected {
            shared,
            grouping: config.grouping,
            on_loss: config.on_loss,
            feed,
            groups: Mutex::default(),
            lost: watch::Sender::new(None),
            watching,
        };
        Self { kind: Kind::Elected(Box::new(elected)) }
    }

    /// Runs for the lease that is wanted whatever is loaded. To be called once,
    /// when this process could work: one that has yet to find out whether its
    /// flags are good, or compiles modules, leaves the lease to others.
    pub fn stand(&self) {
        if let Some(elected) = self.elected()
            && let Some(main) = elected.grouping.main()
        {
            elected.group(main).join();
        }
    }

    /// Who we are in leases; none without an election.
    pub fn identity(&self) -> Option<&str> {
        self.elected().map(|elected| &*elected.shared.identity)
    }

    /// The component that a controller is left to; none if it may run here.
    pub fn left_to(&self, name: &str, aliases: &[String]) -> Option<String> {
        match self.elected()?.grouping.place(name, aliases) {
            Place::Elsewhere { component } => Some(component),
            Place::Lease(_) => None,
        }
    }

    /// The leadership a controller works under, from now on until it leaves.
    /// One that is left to another component never leads.
    pub fn join(&self, name: &str, aliases: &[String]) -> Leadership {
        let elected = match &self.kind {
            Kind::None(leadership) => return leadership.clone(),
            Kind::Elected(elected) => elected,
        };
        match elected.grouping.place(name, aliases) {
            Place::Lease(lease) => {
                let group = elected.group(&lease);
                group.join();
                group.leadership()
            }
            Place::Elsewhere { .. } => Leadership::never(),
        }
    }

    /// Notes that a controller has ended. A lease of its own is given up.
    pub fn leave(&self, name: &str, aliases: &[String]) {
        let Some(elected) = self.elected() else { return };
        let Place::Lease(lease) = elected.grouping.place(name, aliases) else { return };
        if let Some(running) = elected.groups.lock().get(&lease) {
            running.group.leave();
        }
    }

    /// Waits until a lease is lost whose loss ends the process; says which and
    /// why.
    pub async fn lost(&self) -> String {
        let Some(elected) = self.elected() else { return std::future::pending().await };
        let mut lost = elected.lost.subscribe();
        match lost.wait_for(Option::is_some).await {
            Ok(reason) => reason.clone().unwrap_or_default(),
            Err(_) => std::future::pending().await,
        }
    }

    /// Gives all leases up, once the writes under them have ended. Takes as long
    /// as those do, and as one request.
    pub async fn release(&self) {
        let Some(elected) = self.elected() else { return };
        let running: Vec<_> = std::mem::take(&mut *elected.groups.lock()).into_values().collect();
        for one in &running {
            one.group.stop.cancel();
        }
        futures::future::join_all(running.into_iter().map(|one| one.task)).await;
        elected.watching.cancel();
    }

    /// All leases, by name.
    pub fn status(&self) -> Vec<LeaseStatus> {
        self.groups().iter().map(|group| group.status.lock().clone()).collect()
    }

    /// For each lease whether this process leads: the values of
    /// `leader_election_master_status`.
    pub fn master_status(&self) -> Vec<(String, bool)> {
        let leads = |group: &Arc<Group>| (group.lease.clone(), group.leadership().is_leader());
        self.groups().iter().map(leads).collect()
    }

    /// Reads the counters of each lease.
    pub fn counters(&self, mut each: impl FnMut(&str, &ElectionCounters)) {
        for group in self.groups() {
            each(&group.lease, &group.counters);
        }
    }

    /// How much longer the process counts as healthy if no lease is renewed;
    /// zero if one that it holds ran out more than 20 seconds ago, none if it
    /// holds none. kube-controller-manager's check `leaderElection`.
    pub fn healthy_for(&self) -> Option<Duration> {
        let elected = self.elected()?;
        let limit = elected.shared.timing.lease + HEALTHY_FOR;
        self.groups().iter().filter_map(|group| Some(limit.saturating_sub(group.age()?))).min()
    }

    fn groups(&self) -> Vec<Arc<Group>> {
        let Some(elected) = self.elected() else { return Vec::new() };
        elected.groups.lock().values().map(|running| running.group.clone()).collect()
    }

    fn elected(&self) -> Option<&Elected> {
        match &self.kind {
            Kind::None(_) => None,
            Kind::Elected(elected) => Some(elected),
        }
    }
}

impl Elected {
    /// The group of a lease; its election begins with the first who asks.
    fn group(&self, lease: &str) -> Arc<Group> {
        let mut groups = self.groups.lock();
        if let Some(running) = groups.get(lease) {
            return running.group.clone();
        }
        let group = Group::new(&self.shared.client.namespace, lease);
        // Whoever has the main lease is to have that of the controllers that migrate as well.
        let main = self.grouping.main().filter(|main| *main != lease);
        let after = main.and_then(|main| groups.get(main)).map(|main| main.group.leadership());
        let elector = Elector::new(self.shared.clone(), group.clone(), self.feed.follow(lease), after);
        let task = tokio::spawn(run(elector, self.on_loss, self.lost.clone()));
        groups.insert(lease.to_owned(), Running { group: group.clone(), task });
        group
    }
}

/// Term after term.
async fn run(mut elector: Elector, on_loss: OnLoss, lost: watch::Sender<Option<String>>) {
    let group = elector.group.clone();
    while group.wanted().await {
        match elector.term().await {
            End::Stopped => {}
            End::Lost(reason) => {
                let lease = &elector.group.lease;
                let text = format!("lost the lease {}/{lease}: {reason}", elector.shared.client.namespace);
                match on_loss {
                    OnLoss::Standby => tracing::error!("{text}; standing by"),
                    OnLoss::Exit => {
                        lost.send_replace(Some(text));
                        return;
                    }
                }
            }
        }
    }
}
