//! What people are told of an election: log and events.

use std::time::Duration;

use tokio::time::Instant;

use super::{
    elector::Shared,
    group::Group,
    record::{Lease, Record},
};
use crate::{
    api::ApiError,
    contract::EventKind,
    events::{Involved, Occurrence},
};

/// Source component of the events, as kube-controller-manager's.
const COMPONENT: &str = "kube-controller-manager";
/// The same trouble is logged so often.
const REPEAT: Duration = Duration::from_secs(60);

pub(super) fn became_leader(shared: &Shared, group: &Group, lease: Option<&Lease>) {
    tracing::info!(lease = group.lease, identity = shared.identity, "leading");
    event(shared, lease, "became leader");
}

pub(super) fn stopped_leading(shared: &Shared, lease: Option<&Lease>) {
    event(shared, lease, "stopped leading");
}

pub(super) fn other_holder(name: &str, record: &Record) {
    if record.holder_identity.is_empty() {
        tracing::info!(lease = name, "the lease was released");
        return;
    }
    tracing::info!(
        lease = name,
        holder = record.holder_identity,
        since = record.acquire_time,
        transitions = record.lease_transitions,
        duration_seconds = record.lease_duration_seconds,
        "standing by: the lease is held by another process"
    );
}

pub(super) fn still_waiting(name: &str, record: &Record) {
    tracing::info!(
        lease = name,
        holder = record.holder_identity,
        since = record.acquire_time,
        renewed = record.renew_time,
        "still standing by"
    );
}

fn event(shared: &Shared, lease: Option<&Lease>, what: &str) {
    let Some(lease) = lease else { return };
    shared.events.record(Occurrence {
        component: COMPONENT.into(),
        controller: "leader-election".into(),
        involved: Involved {
            api_version: "coordination.k8s.io/v1".into(),
            kind: "Lease".into(),
            namespace: shared.client.namespace.clone(),
            name: lease.name().into(),
            uid: lease.uid().into(),
            resource_version: lease.resource_version().into(),
        },
        kind: EventKind::Normal,
        reason: "LeaderElection".into(),
        message: format!("{} {what}", shared.identity),
    });
}

/// What goes wrong with a lease, told once and then once a minute.
#[derive(Default)]
pub(super) struct Troubles {
    told: Option<(u32, Instant)>,
    last: Option<String>,
}

impl Troubles {
    pub(super) fn happened(&mut self, group: &Group, what: &str, error: &ApiError) {
        let status = error.failure.status;
        let text = format!("cannot {what}: {error}{}", advice(status));
        if self.told.is_none_or(|(before, at)| before != status || at.elapsed() >= REPEAT) {
            self.told = Some((status, Instant::now()));
            tracing::warn!(lease = group.lease, "{text}");
        }
        group.status.lock().trouble = Some(text.clone());
        self.last = Some(text);
    }

    pub(super) fn over(&mut self, group: &Group) {
        if self.told.take().is_some() {
            tracing::info!(lease = group.lease, "the lease can be reached again");
        }
        if self.last.take().is_some() {
            group.status.lock().trouble = None;
        }
    }

    pub(super) fn last(&self) -> &str {
        self.last.as_deref().unwrap_or("no answer")
    }
}

/// What to do about an answer.
fn advice(status: u32) -> &'static str {
    match status {
        401 => "; the API server does not accept our credentials: renew them",
        403 => {
            "; grant get, create and update of leases.coordination.k8s.io (and list and watch, for quick handovers)"
        }
        404 => "; does the namespace of --leader-elect-resource-namespace exist?",
        429 => "; the API server is overloaded, or its priority and fairness settings hold us back",
        _ => "",
    }
}
