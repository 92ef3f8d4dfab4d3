//! The controllers under one lease.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{
    state::{ElectionCounters, LeaseStatus, Role},
    term::Term,
};
use crate::{clock::SharedClock, executor::WriteGate};

/// A lease and what it stands for in this process.
pub(super) struct Group {
    pub(super) lease: String,
    pub(super) term: watch::Sender<Option<Arc<Term>>>,
    pub(super) status: Mutex<LeaseStatus>,
    pub(super) counters: ElectionCounters,
    /// Fires when the lease is to be given up for good.
    pub(super) stop: CancellationToken,
    /// How many there are who want the lease; it is given up while there are none.
    pub(super) members: watch::Sender<usize>,
}

impl Group {
    pub(super) fn new(namespace: &str, lease: &str) -> Arc<Self> {
        let status = LeaseStatus { lease: format!("{namespace}/{lease}"), ..LeaseStatus::default() };
        Arc::new(Self {
            lease: lease.to_owned(),
            term: watch::Sender::new(None),
            status: Mutex::new(status),
            counters: ElectionCounters::default(),
            stop: CancellationToken::new(),
            members: watch::Sender::new(0),
        })
    }

    pub(super) fn join(&self) {
        self.members.send_modify(|members| *members += 1);
    }

    pub(super) fn leave(&self) {
        self.members.send_modify(|members| *members = members.saturating_sub(1));
    }

    pub(super) fn is_unwanted(&self) -> bool {
        self.stop.is_cancelled() || *self.members.borrow() == 0
    }

    /// Waits until nobody wants the lease.
    pub(super) async fn unwanted(&self) {
        let mut members = self.members.subscribe();
        tokio::select! {
            () = self.stop.cancelled() => {}
            _ = members.wait_for(|members| *members == 0) => {}
        }
    }

    /// Waits until somebody wants it; false once that will not be.
    pub(super) async fn wanted(&self) -> bool {
        let mut members = self.members.subscribe();
        tokio::select! {
            () = self.stop.cancelled() => false,
            _ = members.wait_for(|members| *members > 0) => true,
        }
    }

    pub(super) fn leadership(&self) -> Leadership {
        Leadership { terms: self.term.subscribe() }
    }

    pub(super) fn set_role(&self, role: Role) {
        self.status.lock().role = role;
    }

    /// Since when the lease that is held has not been renewed; none if it is not
    /// held.
    pub(super) fn age(&self) -> Option<Duration> {
        self.term.borrow().as_ref().map(|term| term.age())
    }
}

/// A controller's view of its lease: when it may work.
#[derive(Clone)]
pub struct Leadership {
    terms: watch::Receiver<Option<Arc<Term>>>,
}

impl Leadership {
    /// That of a manager which elects no leader. `gate` decides about writes.
    pub fn without_election(gate: Arc<dyn WriteGate>, clock: SharedClock) -> Self {
        let (_, terms) = watch::channel(Some(Term::unbounded(gate, clock)));
        Self { terms }
    }

    /// That of who never leads.
    pub(super) fn never() -> Self {
        let (_, terms) = watch::channel(None);
        Self { terms }
    }

    /// Waits for a term. Whoever waits for the next one has seen the end of the
    /// last.
    pub async fn begin(&mut self) -> Arc<Term> {
        loop {
            let term = self.terms.borrow_and_update().clone();
            if let Some(term) = term.filter(|term| !term.is_over()) {
                return term;
            }
            if self.terms.changed().await.is_err() {
                // Nobody is left who could begin one.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether a term is under way.
    pub fn is_leader(&self) -> bool {
        self.terms.borrow().as_ref().is_some_and(|term| !term.is_over())
    }
}
