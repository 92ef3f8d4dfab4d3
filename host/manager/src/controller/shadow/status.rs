//! What a shadow tells about itself.

use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::Shadow;

/// A key about which two versions disagree.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The key.
    pub key: String,
    /// When they last did.
    pub at: jiff::Timestamp,
    /// How often, as far as is remembered.
    pub times: u64,
    /// What differs: `-` the live version, `+` the candidate.
    pub diff: String,
}

/// A candidate in the shadow of the version that runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowStatus {
    /// Version, as the module calls itself.
    pub version: String,
    /// File of the module.
    pub file: String,
    /// sha256 of the file.
    pub hash: String,
    /// Since when it is compared.
    pub since: jiff::Timestamp,
    /// Agreements after which it goes live; none: it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wanted: Option<u64>,
    /// Reconciles in which both decided the same.
    pub agreed: u64,
    /// Those in which they did not.
    pub differed: u64,
    /// Those in which the candidate faulted, or its plan could not be carried out.
    pub faults: u64,
    /// Reconciles that were not compared for want of time.
    pub dropped: u64,
    /// Reconciles that nothing can be compared with.
    pub skipped: u64,
    /// Lookups that only the candidate asked for, and that were sent.
    pub lookups: u64,
    /// Why the candidate is asked no more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<String>,
    /// The last differences, one a key.
    #[serde(default)]
    pub differences: Vec<Difference>,
}

impl Shadow {
    /// The shadow as it is now.
    pub fn status(&self) -> ShadowStatus {
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let manifest = self.candidate.module.manifest();
        ShadowStatus {
            version: manifest.version.clone(),
            file: self.candidate.path().display().to_string(),
            hash: self.candidate.module.hash().to_owned(),
            since: self.since,
            wanted: self.wanted,
            agreed: count(&self.counters.agreed),
            differed: count(&self.counters.differed),
            faults: count(&self.counters.faults),
            dropped: count(&self.counters.dropped),
            skipped: count(&self.counters.skipped),
            lookups: count(&self.counters.lookups),
            ended: self.ended(),
            differences: self.differences.lock().iter().cloned().collect(),
        }
    }
}

impl ShadowStatus {
    /// One line, for people.
    pub fn summary(&self) -> String {
        let of = self.wanted.map(|wanted| format!(" of {wanted}")).unwrap_or_default();
        let mut line =
            format!("agreed {}{of}, differed {}, failed {}", self.agreed, self.differed, self.faults);
        for (figure, what) in
            [(self.dropped, "dropped"), (self.skipped, "not compared"), (self.lookups, "lookups of its own")]
        {
            if figure > 0 {
                line.push_str(&format!(", {what} {figure}"));
            }
        }
        line
    }
}
