//! The lines of a recording (`host/docs/recording-format.md` is their reference).
//!
//! A file holds JSON lines in one zstd stream. Invariant: a line refers only to
//! lines before it in the same file, so that each file can be replayed alone and
//! a file that was cut off can be replayed up to the cut.

use serde::{Deserialize, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::{
    contract::{ActionResult, Answer, Manifest, ObjectRef, Outcome, Query, ResourceInfo, Timestamp, WireKey},
    engine::Fault,
};

/// The version of the format that is written, and the newest that is read.
pub const VERSION: u32 = 1;

/// How the names of files begin and end.
pub(super) const PREFIX: &str = "recording-";
pub(super) const SUFFIX: &str = ".jsonl.zst";

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Line {
    /// The first line of a file.
    Header(Header),
    /// A version of a controller's module comes to be spoken of.
    Module(Box<ModuleLine>),
    /// The list of resources, at one of its versions.
    Resources(ResourcesLine),
    /// An object as a module sees it.
    Object(ObjectLine),
    /// The answer of a list, where it is long.
    List(ListLine),
    /// A reconcile. Written by `text`, member by member.
    Reconcile(Box<ReconcileLine>),
    /// Reconciles that were not recorded since the last such line.
    Dropped(u64),
}

/// What a file is.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Header {
    /// [`VERSION`] of who wrote it.
    pub format: u32,
    /// Version of the host.
    pub host: String,
    /// When the file was begun.
    pub started: jiff::Timestamp,
    /// Whether what manifests call sensitive was left out.
    pub redacted: bool,
}

/// A module, as it was loaded.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModuleLine {
    /// Number by which other lines of the file name it.
    pub module: u32,
    /// SHA-256 of the module, in hexadecimal.
    pub hash: String,
    /// What it says about itself.
    pub manifest: Manifest,
    /// Values of its options, in the manifest's order.
    pub options: Vec<String>,
}

/// The answer of `resources`.
#[derive(Debug, Serialize, Deserialize)]
pub struct ResourcesLine {
    /// The answer of `resources-version`.
    pub version: u32,
    /// The resources.
    pub list: Vec<ResourceInfo>,
}

/// A resource, a slot, and a version, as [`ObjectRef`] has them.
pub type Ref = (u32, u32, u32);

pub(super) fn to_ref(object: &ObjectRef) -> Ref {
    (object.resource, object.id, object.version)
}

pub(super) fn from_ref((resource, id, version): Ref) -> ObjectRef {
    ObjectRef { resource, id, version }
}

/// Content of an object.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ObjectLine {
    /// The module that sees it so.
    pub module: u32,
    /// What names it.
    #[serde(rename = "ref")]
    pub object: Ref,
    /// Paths whose values were left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redacted: Vec<String>,
    /// The content, byte for byte unless something was left out.
    pub json: Box<RawValue>,
}

/// A list of refs under a number.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ListLine {
    /// Number by which reads name it.
    pub list: u32,
    /// The list it differs from, which no later line names any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u32>,
    /// How many refs of that list stand before and after the refs below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<(usize, usize)>,
    /// The refs.
    pub refs: Vec<Ref>,
}

/// One reconcile of one key.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReconcileLine {
    /// The module that was asked.
    pub module: u32,
    /// What was reconciled.
    pub key: WireKey,
    /// The time it was told.
    pub now: Timestamp,
    /// The randomness it was given.
    pub seed: (u32, u32),
    /// State of the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
    /// Format number of that.
    pub state_format: u32,
    /// What became of the last plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub results: Vec<ActionResult>,
    /// Its rounds.
    pub rounds: Vec<RoundLine>,
}

/// One round: what it was told, what it read, what it answered.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RoundLine {
    /// The key's own object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub primary: Option<Ref>,
    /// Numbers of the resources of the manifest's reads and writes. None: as in
    /// the round before, or in the reconcile of this module before that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numbers: Option<Vec<u32>>,
    /// Version of the list of resources.
    pub resources: u32,
    /// Answers to the lookups of the round before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub answers: Vec<Answer>,
    /// Answers among them that were left out, by id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub redacted: Vec<String>,
    /// What was read, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<ReadLine>,
    /// How it ended; none if it was given up.
    pub ended: Option<Ended>,
}

/// How a round ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Ended {
    /// With an outcome.
    Outcome(Outcome),
    /// With a trap.
    Trap(String),
    /// At its deadline.
    Deadline,
    /// For want of memory.
    Memory,
    /// With a read that was refused.
    Refused(String),
}

impl From<&Fault> for Ended {
    fn from(fault: &Fault) -> Self {
        match fault {
            Fault::Trap(text) => Self::Trap(text.clone()),
            Fault::Deadline(_) => Self::Deadline,
            Fault::Memory { .. } => Self::Memory,
            Fault::Snapshot(reason) => Self::Refused(reason.clone()),
        }
    }
}

/// [`ReadLine`] of what stands elsewhere.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum ReadText<'a> {
    Get(u32, &'a str, &'a str, Option<Ref>),
    List(&'a Query, u32),
    Short(&'a Query, Refs<'a>),
    GetRefused(u32, &'a str, &'a str, &'a str),
    ListRefused(&'a Query, &'a str),
    ReadRefused(&'a str),
}

/// Refs as lines have them.
pub(super) struct Refs<'a>(pub(super) &'a [ObjectRef]);

impl Serialize for Refs<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(to_ref))
    }
}

/// One read.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ReadLine {
    /// `get`: resource, namespace, name, and what was found.
    Get(u32, String, String, Option<Ref>),
    /// `list`, and the number of a list line.
    List(Query, u32),
    /// `list`, and what was found.
    Short(Query, Vec<Ref>),
    /// `get`, and why it was refused.
    GetRefused(u32, String, String, String),
    /// `list`, and why it was refused.
    ListRefused(Query, String),
    /// `read`, and why it was refused.
    ReadRefused(String),
}
