//! What travels to the writer.

use std::sync::Arc;

use super::{format::Ended, text::Reads};
use crate::{
    contract::{ActionResult, Answer, Manifest, ObjectRef, Query, ResourceInfo, Timestamp},
    key::Key,
};

/// One thing to write.
pub(super) enum Message {
    /// A version of a module is at work. Written to each file that needs it.
    Module { module: u32, hash: String, manifest: Arc<Manifest>, options: Vec<String> },
    /// The list of resources. Written to each file that needs it.
    Resources { version: u32, list: Arc<[ResourceInfo]> },
    /// Content of objects.
    Objects { file: u64, module: u32, objects: Vec<Seen> },
    /// A reconcile.
    Reconcile(Box<Taken>),
    /// Nothing follows.
    Stop,
}

/// An object as a module sees it.
pub(super) struct Seen {
    pub(super) object: ObjectRef,
    pub(super) json: String,
}

/// What a reconcile began with.
pub(super) struct Asked {
    pub(super) now: Timestamp,
    pub(super) seed: (u32, u32),
    pub(super) state: Option<String>,
    pub(super) state_format: u32,
    pub(super) results: Vec<ActionResult>,
}

/// A whole reconcile.
pub(super) struct Taken {
    pub(super) file: u64,
    pub(super) module: u32,
    pub(super) key: Key,
    pub(super) asked: Asked,
    pub(super) rounds: Vec<Round>,
}

/// One round of it.
pub(super) struct Round {
    pub(super) primary: Option<ObjectRef>,
    pub(super) numbers: Arc<[u32]>,
    pub(super) resources: u32,
    /// Answers that came with this round.
    pub(super) answers: Vec<Answer>,
    pub(super) reads: Reads,
    pub(super) ended: Option<Ended>,
}

/// A long list that was read.
pub(super) struct Long {
    pub(super) query: Query,
    pub(super) found: Vec<ObjectRef>,
}

impl Message {
    /// Bytes it takes, roughly: what bounds the memory of messages that wait.
    pub(super) fn size(&self) -> usize {
        const FIXED: usize = 256;
        FIXED
            + match self {
                Self::Module { .. } | Self::Resources { .. } | Self::Stop => 0,
                Self::Objects { objects, .. } => objects.iter().map(|seen| seen.json.len() + 48).sum(),
                Self::Reconcile(taken) => {
                    let state = taken.asked.state.as_ref().map_or(0, String::len);
                    state + taken.rounds.iter().map(Round::size).sum::<usize>()
                }
            }
    }
}

impl Round {
    fn size(&self) -> usize {
        let answers = self.answers.iter().map(|answer| answer.result.as_ref().map_or(256, String::len));
        256 + answers.sum::<usize>() + self.reads.size() + self.ended.as_ref().map_or(0, ended_size)
    }
}

/// Plans can be large: bodies are most of them.
fn ended_size(ended: &Ended) -> usize {
    use crate::contract::{Outcome, Verb};
    let Ended::Outcome(Outcome::Plan(plan)) = ended else { return 128 };
    let actions = plan.steps.iter().flat_map(|step| &step.actions);
    let bodies = actions.map(|action| match &action.verb {
        Verb::Create(body) | Verb::Replace(body) => body.len(),
        Verb::Patch(patch) => patch.body.len(),
        Verb::Delete(_) | Verb::DeleteCollection(_) => 0,
    });
    bodies.map(|body| body + 512).sum()
}
