//! What the manager tells about itself: `coxswain status`.

use serde::{Deserialize, Serialize};

use crate::controller::ControllerStatus;

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
    /// Files that are not loaded, or whose new content is not, and why.
    pub refused: Vec<Refusal>,
    /// What is cached, by name.
    pub resources: Vec<ResourceStatus>,
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
        let _ = writeln!(text, "coxswain {} at {}, since {}", self.version, self.server, self.started);
        let _ = writeln!(
            text,
            "\n{:<34} {:<10} {:<13} {:>6} {:>9} {:>7} {:>8}  FILE",
            "CONTROLLER", "VERSION", "HASH", "QUEUE", "RECONCILES", "FAULTS", "WRITES"
        );
        for c in &self.controllers {
            let hash = c.hash.get(..12).unwrap_or(&c.hash);
            let _ = writeln!(
                text,
                "{:<34} {:<10} {:<13} {:>6} {:>9} {:>7} {:>8}  {}",
                c.name, c.version, hash, c.queue_length, c.reconciles, c.faults, c.writes, c.file
            );
            let _ = writeln!(text, "    since {}, swapped {} times", c.since, c.swaps);
            if !c.waiting_for.is_empty() {
                let _ = writeln!(text, "    waits for {}", c.waiting_for.join(", "));
            }
            if let Some(error) = &c.last_error {
                let _ = writeln!(text, "    last error, {} at {}: {}", error.key, error.at, error.reason);
            }
        }
        if let Some(trouble) = &self.trouble {
            let _ = writeln!(text, "\nthe API server does not answer: {trouble}");
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
        for refusal in &self.refused {
            let _ = writeln!(text, "\nnot loaded: {}: {}", refusal.file, refusal.reason);
        }
        text
    }
}
