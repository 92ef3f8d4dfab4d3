//! What the manager tells about itself: `coxswain status`.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    stage::{Compiling, ModuleStatus, Stage},
    table::{Align, Table},
};
use crate::{
    controller::ControllerStatus,
    election::{LeaseStatus, Role},
    engine::short,
    recording::RecordStatus,
};

/// The manager as it is now.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// Version of the host.
    pub version: String,
    /// Since when it runs.
    pub started: jiff::Timestamp,
    /// The API server.
    pub server: String,
    /// Whether the API server answered when last asked what it serves.
    pub connected: bool,
    /// Why it did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// Group versions that do not answer.
    pub unanswered: Vec<String>,
    /// Controllers that are loaded, by name.
    pub controllers: Vec<ControllerStatus>,
    /// Leases that decide who works; none without an election.
    #[serde(default)]
    pub leases: Vec<LeaseStatus>,
    /// Files that are not loaded, or whose new content is not, and why.
    pub refused: Vec<Refusal>,
    /// Controllers that ran and were stopped, since their files are gone or hold
    /// something else.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unloaded: Vec<Unloaded>,
    /// What is cached, by name.
    pub resources: Vec<ResourceStatus>,
    /// All files, and how far each has come.
    #[serde(default)]
    pub modules: Vec<ModuleStatus>,
    /// Modules being compiled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compiling: Option<Compiling>,
    /// How many modules came to each stage since the start.
    #[serde(default)]
    pub stages: BTreeMap<String, u64>,
    /// What is recorded, if anything is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording: Option<RecordStatus>,
    /// Why the newest policy is not in force.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy_trouble: Option<String>,
}

/// A file that could not be used.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Refusal {
    /// The file.
    pub file: String,
    /// Why.
    pub reason: String,
}

/// A controller that ran, and has no file any more.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Unloaded {
    /// The controller.
    pub controller: String,
    /// The file it ran from.
    pub file: String,
    /// Why it does not run any more.
    pub reason: String,
    /// Since when.
    pub at: jiff::Timestamp,
}

/// One resource of the cache.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ResourceStatus {
    /// Its name, such as `deployments.apps/v1`.
    pub resource: String,
    /// How far its cache has come.
    pub state: String,
    /// Objects in the cache.
    pub objects: usize,
    /// Bytes they take.
    pub bytes: usize,
    /// Why it is not synced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

impl Status {
    /// The status as text, for people.
    pub fn to_text(&self) -> String {
        use std::fmt::Write;
        let mut text = String::new();
        let _ = writeln!(text, "coxswain {} at {}, since {:.0}", self.version, self.server, self.started);
        for lease in &self.leases {
            let role = match lease.role {
                Role::Candidate => "has not seen the lease yet",
                Role::Standby => "stands by",
                Role::Leader => "leads",
            };
            let holder = if lease.holder.is_empty() { "nobody" } else { &lease.holder };
            let (name, since, transitions) = (&lease.lease, &lease.since, lease.transitions);
            let _ = writeln!(
                text,
                "lease {name}: this process {role}; held by {holder} since {since}, transitions {transitions}"
            );
            if let Some(trouble) = &lease.trouble {
                let _ = writeln!(text, "    {trouble}");
            }
        }
        if let Some(Compiling { begun, of }) = self.compiling {
            let _ = writeln!(text, "compiling modules: {begun} of {of}");
        }
        let mut table = Table::new(&[
            ("CONTROLLER", Align::Left),
            ("VERSION", Align::Left),
            ("HASH", Align::Left),
            ("QUEUE", Align::Right),
            ("RECONCILES", Align::Right),
            ("FAULTS", Align::Right),
            ("WRITES", Align::Right),
            ("FILE", Align::Left),
        ]);
        for c in &self.controllers {
            let hash = short(&c.hash);
            let figures = [c.queue_length as u64, c.reconciles, c.faults, c.writes].map(|n| n.to_string());
            let [queue, reconciles, faults, writes] = figures;
            table.row([
                c.name.clone(),
                c.version.clone(),
                hash.to_owned(),
                queue,
                reconciles,
                faults,
                writes,
                c.file.clone(),
            ]);
        }
        let mut rows = table.lines().into_iter();
        let _ = writeln!(text, "\n{}", rows.next().unwrap_or_default());
        for (c, row) in self.controllers.iter().zip(rows) {
            let _ = writeln!(text, "{row}");
            let _ = writeln!(
                text,
                "    since {:.0}, after {} and {}",
                c.since,
                counted(c.swaps, "swap"),
                counted(c.rollbacks, "rollback")
            );
            if !c.leads {
                let _ = writeln!(text, "    stands by");
            }
            if let Some(slowed) = &c.slowed {
                let _ = writeln!(text, "    slowed: {slowed}");
            }
            for shadow in &c.shadows {
                let hash = short(&shadow.hash);
                let _ = writeln!(text, "    shadow {} ({hash}): {}", shadow.version, shadow.summary());
                if let Some(reason) = &shadow.ended {
                    let _ = writeln!(text, "        not asked any more: {reason}");
                }
                if !shadow.differences.is_empty() {
                    let _ = writeln!(text, "        `coxswain shadow {}` shows what differs", c.name);
                }
            }
            if let Some(canary) = &c.canary {
                let _ = writeln!(text, "    canary {}", canary.summary());
            }
            if !c.limit_hits.is_empty() {
                let hits: Vec<_> =
                    c.limit_hits.iter().map(|(kind, times)| format!("{kind} {times}")).collect();
                let _ = writeln!(text, "    past its limits: {}", hits.join(", "));
            }
            if let Some(refused) = c.refusals.summary() {
                let _ = writeln!(text, "    not declared or not granted, and refused: {refused}");
            }
            if !c.waiting_for.is_empty() {
                let _ = writeln!(text, "    waits for {}", c.waiting_for.join(", "));
            }
            if let Some(error) = &c.last_error {
                let _ = writeln!(text, "    last error, {} at {:.0}: {}", error.key, error.at, error.reason);
            }
        }
        if let Some(trouble) = &self.trouble {
            let why = trouble.strip_prefix("no answer: ").unwrap_or(trouble);
            let _ = writeln!(text, "\nthe API server does not answer: {why}");
        }
        if let Some(trouble) = &self.policy_trouble {
            let _ = writeln!(text, "\nthe policy read before stays in force: {trouble}");
        }
        if let Some(recording) = &self.recording {
            let _ = writeln!(
                text,
                "\nrecording into {}: {} reconciles, {} not recorded, {} files",
                recording.dir, recording.reconciles, recording.dropped, recording.files
            );
            if let Some(trouble) = &recording.trouble {
                let _ = writeln!(text, "    stands still: {trouble}");
            }
        }
        for group in &self.unanswered {
            let _ = writeln!(text, "\ndoes not answer: {group}");
        }
        for resource in self.resources.iter().filter(|r| r.trouble.is_some()) {
            let _ = writeln!(
                text,
                "\n{}: {}",
                resource.resource,
                resource.trouble.as_deref().unwrap_or_default()
            );
        }
        for module in self.modules.iter().filter(|module| !module.stage.is_settled()) {
            let hash = short(&module.hash);
            let _ = writeln!(
                text,
                "\n{}: {} ({hash}), since {:.0}",
                module.stage.name(),
                module.file,
                module.since
            );
        }
        for module in self.modules.iter().filter(|module| module.stage == Stage::Live) {
            if let Some(reason) = &module.reason {
                let _ = writeln!(text, "\n{}: {reason}", module.file);
            }
        }
        for one in &self.unloaded {
            let _ = writeln!(
                text,
                "\nnot running: {}, since {:.0}: {} ({})",
                one.controller, one.at, one.reason, one.file
            );
        }
        for refusal in &self.refused {
            let _ = writeln!(text, "\nnot loaded: {}: {}", refusal.file, refusal.reason);
        }
        text
    }
}

/// A number of things: `1 swap`, `2 swaps`.
fn counted(number: u64, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}
