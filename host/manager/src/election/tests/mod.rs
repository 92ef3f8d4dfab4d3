//! Elections against a server that does what a test says, in virtual time.

mod answers;
mod groups;
mod server;
mod terms;

use std::{sync::Arc, time::Duration};

use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{
    clock::{SharedClock, VirtualClock},
    executor::WriteGate,
};
use server::Server;

const LEASE: &str = "kube-controller-manager";

/// A process that takes part.
struct Candidate {
    election: Arc<Election>,
    leadership: Leadership,
    name: String,
    _cancel: CancellationToken,
}

impl Candidate {
    /// One with the default settings.
    fn start(server: &Server, name: &str) -> Self {
        Self::with(server, name, ElectionConfig::default())
    }

    fn with(server: &Server, name: &str, config: ElectionConfig) -> Self {
        // Years off: nobody's wall clock may matter.
        let years = i64::from(name.as_bytes().last().copied().unwrap_or(0)) * 31_536_000;
        let origin = jiff::Timestamp::from_second(years).unwrap();
        let clock: SharedClock = Arc::new(VirtualClock::starting_at(origin));
        Self::on(server, name, config, clock)
    }

    fn on(server: &Server, name: &str, config: ElectionConfig, clock: SharedClock) -> Self {
        config.check().unwrap();
        let cancel = CancellationToken::new();
        let entropy = Entropy::from_seed(name.bytes().map(u64::from).sum());
        let api = server.client(name);
        let (events, _) = EventRecorder::start(api.clone(), clock.clone(), entropy.clone(), cancel.clone());
        let identity = format!("host-{name}_{name}");
        let election = Arc::new(Election::start(config, identity, api, clock, entropy, events));
        election.stand();
        let leadership = election.join("web-controller", &[]);
        Self { election, leadership, name: name.to_owned(), _cancel: cancel }
    }

    fn leads(&self) -> bool {
        self.leadership.is_leader()
    }

    async fn term(&self) -> Arc<Term> {
        soon(self.leadership.clone().begin()).await
    }

    /// Why a process that ends with its lease ended.
    async fn lost(&self) -> String {
        soon(self.election.lost()).await
    }

    fn identity(&self) -> String {
        format!("host-{0}_{0}", self.name)
    }

    fn status(&self) -> LeaseStatus {
        self.election.status().remove(0)
    }
}

async fn seconds(n: u64) {
    sleep(Duration::from_secs(n)).await;
}

/// What happens within an hour. In virtual time, a wait for what never happens
/// would not end.
async fn soon<T>(event: impl Future<Output = T>) -> T {
    timeout(Duration::from_secs(3600), event).await.expect("it does not happen")
}

/// How long it takes until a candidate leads.
async fn until_leads(candidate: &Candidate) -> Duration {
    let begun = tokio::time::Instant::now();
    candidate.term().await;
    begun.elapsed()
}
