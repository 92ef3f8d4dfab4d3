//! The format of a scenario file.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::contract::{Cause, Failure, ResourceInfo, Scope, SyncState};

/// A scenario: what is there, and what happens.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Scenario {
    /// One line: what it shows.
    pub about: String,
    /// The time at which it begins.
    #[serde(default = "new_year")]
    pub now: String,
    /// Only these keys, as `namespace/name` or `name`; none given: all.
    #[serde(default)]
    pub keys: Vec<String>,
    /// Options, besides their defaults.
    #[serde(default)]
    pub options: BTreeMap<String, String>,
    /// State that keys begin with.
    #[serde(default)]
    pub state: BTreeMap<String, String>,
    /// Resources besides the well-known ones, or in another state.
    #[serde(default)]
    pub resources: Vec<ResourceLine>,
    /// The objects of the cluster.
    #[serde(default)]
    pub objects: Vec<Value>,
    /// Answers to lookups; others are answered from the objects.
    #[serde(default)]
    pub lookups: Vec<LookupLine>,
    /// Writes that fail.
    #[serde(default)]
    pub refuse: Vec<RefuseLine>,
    /// Whether deleted pods stay, marked as deleting, until something removes
    /// them.
    #[serde(default)]
    pub pods_linger: bool,
    /// Whether keys are reconciled also once their object has vanished, until
    /// they ask for nothing more, as the host does.
    #[serde(default)]
    pub gone_keys: bool,
    /// What happens once there is nothing more to do, one after the other.
    #[serde(default)]
    pub then: Vec<Happening>,
    /// How far the clock is advanced for plans that want to come back, in
    /// seconds after the beginning.
    #[serde(default = "an_hour")]
    pub horizon: u64,
    /// At most so many rounds of writes until there is nothing to do.
    #[serde(default = "thirty")]
    pub rounds: u32,
}

fn new_year() -> String {
    "2026-01-01T00:00:00Z".to_owned()
}

fn an_hour() -> u64 {
    3600
}

fn thirty() -> u32 {
    30
}

/// A resource.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceLine {
    /// API version.
    pub api_version: String,
    /// Kind.
    pub kind: String,
    /// Lower-case plural.
    pub plural: String,
    /// Whether it is namespaced.
    #[serde(default = "yes")]
    pub namespaced: bool,
    /// `synced`, `syncing`, `failed`, `absent` or `uncached`.
    #[serde(default)]
    pub state: State,
    /// Verbs, if not all.
    #[serde(default)]
    pub verbs: Option<Vec<String>>,
}

fn yes() -> bool {
    true
}

/// State of a resource's cache.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The cache follows it.
    #[default]
    Synced,
    /// The first list is under way.
    Syncing,
    /// It cannot be listed.
    Failed,
    /// The cluster lacks it.
    Absent,
    /// Nobody reads it.
    Uncached,
}

impl ResourceLine {
    pub(super) fn group_version(&self) -> (&str, &str) {
        self.api_version.rsplit_once('/').unwrap_or(("", &self.api_version))
    }

    pub(super) fn info(&self, number: u32) -> ResourceInfo {
        const VERBS: [&str; 8] =
            ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
        let (group, version) = self.group_version();
        ResourceInfo {
            number,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: self.plural.clone(),
            kind: self.kind.clone(),
            scope: if self.namespaced { Scope::Namespaced } else { Scope::Cluster },
            verbs: self.verbs.clone().unwrap_or_else(|| VERBS.map(str::to_owned).to_vec()),
            state: match self.state {
                State::Synced => SyncState::Synced,
                State::Syncing => SyncState::Syncing,
                State::Failed => SyncState::Failed,
                State::Absent => SyncState::Absent,
                State::Uncached => SyncState::Uncached,
            },
        }
    }
}

/// The answer to a lookup.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupLine {
    /// What is asked: `get replicasets default/web`, `list pods default`,
    /// `raw /path`, `review subjectaccessreviews`, `sign KEY`; of subresources
    /// `get deployments/scale default/web`.
    pub ask: String,
    /// The answer.
    #[serde(default)]
    pub answer: Option<Value>,
    /// Or how it fails.
    #[serde(default)]
    pub fail: Option<FailLine>,
    /// Only so many times.
    #[serde(default = "always")]
    pub times: u32,
}

fn always() -> u32 {
    u32::MAX
}

/// A failure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FailLine {
    /// HTTP status; 0 for no answer.
    pub status: u32,
    /// Reason.
    #[serde(default)]
    pub reason: String,
    /// Text.
    #[serde(default)]
    pub message: String,
    /// Reasons of the causes.
    #[serde(default)]
    pub causes: Vec<String>,
}

impl FailLine {
    pub(super) fn failure(&self) -> Failure {
        let cause =
            |reason: &String| Cause { reason: reason.clone(), message: String::new(), field: String::new() };
        Failure {
            status: self.status,
            reason: self.reason.clone(),
            message: self.message.clone(),
            causes: self.causes.iter().map(cause).collect(),
        }
    }
}

/// Writes that fail.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RefuseLine {
    /// `create`, `patch`, `replace`, `delete` or `delete-collection`.
    pub verb: String,
    /// Plural, with the subresource: `replicasets/status`.
    pub resource: String,
    /// Only this object.
    #[serde(default)]
    pub name: Option<String>,
    /// So many pass first.
    #[serde(default)]
    pub skip: u32,
    /// So many are refused.
    #[serde(default = "one")]
    pub times: u32,
    /// How; without it nobody can tell what became of the write.
    #[serde(default)]
    pub fail: Option<FailLine>,
}

fn one() -> u32 {
    1
}

/// Something that happens.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Happening {
    /// Seconds that pass.
    #[serde(default)]
    pub after: u64,
    /// Resources that come to be served, or whose caches change state. They
    /// must be known, be it as absent.
    #[serde(default)]
    pub resources: Vec<ResourceLine>,
    /// Objects created, or merged into those there are. Where the name ends in
    /// `*`, into each that begins so.
    #[serde(default)]
    pub apply: Vec<Value>,
    /// Objects that vanish, as `pods default/web-1`; a name may end in `*`.
    #[serde(default)]
    pub remove: Vec<String>,
}

impl Scenario {
    /// Reads a scenario.
    pub fn load(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        serde_yaml::from_str(&text).map_err(|e| format!("{}: {e}", path.display()))
    }
}
