//! The health of one node: when it last gave a sign of life, and what is to be
//! said of it once it gives none any more.
//!
//! Signs of life are a changed heartbeat in the condition `Ready`, and a renewed
//! lease. They count from when we saw them, by our own clock.

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::NODES;
use coxswain_sdk::{About, Action, Object, Time};
use serde_json::json;

use crate::settings::Settings;
use crate::view::{Lease, Node, READY, UNKNOWN};

/// What kubelets tell about, apart from the network, which others tell about.
const TOLD: [&str; 4] = [READY, "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What was last seen of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Health {
    /// When it last gave a sign of life.
    pub alive: Time,
    /// Heartbeat of its condition `Ready`, if it has that condition. One without
    /// a time counts as the beginning of time.
    pub heartbeat: Option<Time>,
    /// When its lease was renewed, if it has one.
    pub renewed: Option<Time>,
}

/// Tag of the write that says that nothing is known of a node any more.
pub const REPORT: &str = "health";

const BEGINNING: Time = Time::from_unix(0);

impl Health {
    /// What is seen now, given what was last seen.
    pub fn observe(before: Option<Self>, node: &Node, lease: Option<&Lease>, now: Time) -> Self {
        let heartbeat = node.ready().map(|ready| ready.last_heartbeat_time.unwrap_or(BEGINNING));
        let renewed = lease.map(|lease| lease.spec.renew_time.unwrap_or(BEGINNING));
        let alive = match (before, heartbeat) {
            // It never told about itself; its grace began when it was made.
            (None, None) => node.metadata.creation_timestamp.unwrap_or(now),
            (None, Some(_)) => now,
            (Some(before), None) => before.alive,
            (Some(before), Some(_)) if before.heartbeat != heartbeat => now,
            (Some(before), Some(_)) => before.alive,
        };
        // A lease that goes back in time is no sign of life.
        let seen = before.and_then(|before| before.renewed);
        let alive =
            if renewed.is_some() && seen.is_none_or(|seen| renewed > Some(seen)) { now } else { alive };
        Self { alive, heartbeat, renewed: renewed.max(seen) }
    }

    /// The last moment at which it need not have given another sign of life.
    pub fn deadline(&self, settings: &Settings) -> Time {
        let grace = if self.heartbeat.is_some() { settings.grace } else { settings.startup_grace };
        self.alive + grace
    }
}

/// Says that nothing is known of a node any more. None if that is said already.
pub fn report(node: &Object<Node>, now: Time) -> Option<Action> {
    if node.is_unknown() {
        return None;
    }
    let meta = &node.metadata;
    let now = now.whole_seconds();
    let mut conditions = Vec::new();
    for kind in TOLD {
        conditions.push(match node.condition(kind) {
            None => json!({
                "type": kind,
                "status": UNKNOWN,
                "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": meta.creation_timestamp,
                "lastTransitionTime": now,
            }),
            Some(condition) if condition.status == UNKNOWN => continue,
            Some(_) => json!({
                "type": kind,
                "status": UNKNOWN,
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": now,
            }),
        });
    }
    let body = json!({ "status": { "conditions": conditions } });
    let write = Action::patch(NODES, "", &meta.name, PatchKind::Strategic, &body)
        .subresource("status")
        .as_seen(node)
        .tag(REPORT);
    let was_ready = node.ready().is_some_and(|ready| ready.status == "True");
    Some(if was_ready { write.on_success(not_ready(node)) } else { write })
}

fn not_ready(node: &Node) -> coxswain_sdk::Event {
    let message = format!("Node {} status is now: NodeNotReady", node.metadata.name);
    About::of::<Node, _>(&node.metadata).normal("NodeNotReady", message)
}
