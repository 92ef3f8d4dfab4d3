//! The stages of a module on its way from a file to being at work.
//!
//! ```text
//! noticed ─► compiling ─► checked ─► warming ─► warmed ─► shadowing, held, canary ─► live
//!    │           │           │                                │                       │
//!    └───────────┴───────────┴──────────► refused ◄───────────┘                  rolled back
//! ```
//!
//! Whatever happens before `live`, the version that runs goes on.

use std::{
    collections::BTreeMap,
    sync::atomic::{AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};

/// How far the content of a file has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Stage {
    /// It was found.
    #[default]
    Noticed,
    /// It is not in the cache of compiled modules, and is being compiled.
    Compiling,
    /// Contract and manifest are in order.
    Checked,
    /// It waits for the cache to hold what it reads.
    Warming,
    /// All that it reads is there.
    Warmed,
    /// It computes beside the version that runs, and its plans are compared.
    Shadowing,
    /// It decides otherwise than the version that runs, and waits to be let
    /// through.
    Held,
    /// It has a share of the keys.
    Canary,
    /// It is at work.
    Live,
    /// `--controllers` leaves it out.
    Unselected,
    /// It cannot be used.
    Refused,
    /// It was at work and is no more: an earlier version is. It is refused until
    /// the file changes.
    RolledBack,
}

impl Stage {
    const ALL: [Self; 12] = [
        Self::Noticed,
        Self::Compiling,
        Self::Checked,
        Self::Warming,
        Self::Warmed,
        Self::Shadowing,
        Self::Held,
        Self::Canary,
        Self::Live,
        Self::Unselected,
        Self::Refused,
        Self::RolledBack,
    ];

    /// Its name, for people and metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Noticed => "noticed",
            Self::Compiling => "compiling",
            Self::Checked => "checked",
            Self::Warming => "warming",
            Self::Warmed => "warmed",
            Self::Shadowing => "shadowing",
            Self::Held => "held",
            Self::Canary => "canary",
            Self::Live => "live",
            Self::Unselected => "not selected",
            Self::Refused => "refused",
            Self::RolledBack => "rolled back",
        }
    }

    /// Whether it stays so until somebody does something.
    pub fn is_settled(self) -> bool {
        matches!(self, Self::Live | Self::Unselected | Self::Refused | Self::RolledBack)
    }
}

/// How many modules came to each stage since the start.
#[derive(Debug, Default)]
pub struct StageCounts([AtomicU64; Stage::ALL.len()]);

impl StageCounts {
    /// Counts one.
    pub fn add(&self, stage: Stage) {
        self.0[stage as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// How many so far.
    pub fn of(&self, stage: Stage) -> u64 {
        self.0[stage as usize].load(Ordering::Relaxed)
    }

    /// By name; stages that no module came to are left out.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let all = Stage::ALL.into_iter().map(|stage| (stage.name().to_owned(), self.of(stage)));
        all.filter(|(_, times)| *times > 0).collect()
    }
}

/// Modules being compiled: `compiling 3 of 41`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compiling {
    /// Those that were begun.
    pub begun: usize,
    /// Those that were not in the cache.
    pub of: usize,
}

/// One file, for `coxswain status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleStatus {
    /// The file.
    pub file: String,
    /// sha256 of its content.
    pub hash: String,
    /// The controller in it, once it was loaded.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Its version, as the module calls itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// How far it has come.
    pub stage: Stage,
    /// Since when.
    pub since: jiff::Timestamp,
    /// Why it is refused or was rolled back, or what is wrong with it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
