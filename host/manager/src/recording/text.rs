//! Lines put together from parts that are text already.
//!
//! Whoever is asked to read writes down at once what the line will say of it: to
//! copy it for the writer, who copies it again and frees what another thread
//! allocated, costs a reconcile several times as much.

use std::io;

use serde::Serialize;

use super::{
    format::{ReadText, Refs, to_ref},
    message::{Asked, Long, Round},
};
use crate::{
    contract::{ObjectRef, Query},
    key::Key,
};

/// A list shorter than this stands where it was read.
const SHORT_LIST: usize = 8;

/// What was read in one round.
#[derive(Default)]
pub(super) struct Reads {
    /// Parts of the line, separated by commas, except at long lists.
    text: Vec<u8>,
    /// Long lists, which the writer tells by how they differ from the last answer.
    long: Vec<(usize, Long)>,
}

impl Reads {
    /// Nothing yet, with room for what most rounds read.
    pub(super) fn with_room() -> Self {
        Self { text: Vec::with_capacity(512), long: Vec::new() }
    }

    pub(super) fn get(
        &mut self,
        resource: u32,
        namespace: &str,
        name: &str,
        found: &Result<Option<ObjectRef>, String>,
    ) {
        self.put(&match found {
            Ok(found) => ReadText::Get(resource, namespace, name, found.as_ref().map(to_ref)),
            Err(reason) => ReadText::GetRefused(resource, namespace, name, reason),
        });
    }

    /// Whether what was found is kept as a long list.
    pub(super) fn list(&mut self, query: &Query, found: &Result<Vec<ObjectRef>, String>) -> bool {
        match found {
            Ok(found) if found.len() < SHORT_LIST => self.put(&ReadText::Short(query, Refs(found))),
            Ok(found) => {
                self.long.push((self.text.len(), Long { query: query.clone(), found: found.clone() }));
                return true;
            }
            Err(reason) => self.put(&ReadText::ListRefused(query, reason)),
        }
        false
    }

    pub(super) fn refused(&mut self, reason: &str) {
        self.put(&ReadText::ReadRefused(reason));
    }

    fn put(&mut self, read: &ReadText<'_>) {
        if self.text.len() > self.long.last().map_or(0, |(at, _)| *at) {
            self.text.push(b',');
        }
        // Nothing in it can fail to be written.
        let _ = serde_json::to_writer(&mut self.text, read);
    }

    /// The long lists.
    pub(super) fn long(&self) -> impl Iterator<Item = &Long> {
        self.long.iter().map(|(_, long)| long)
    }

    /// Bytes it takes.
    pub(super) fn size(&self) -> usize {
        self.text.capacity() + self.long().map(|long| 128 + size_of_val(long.found.as_slice())).sum::<usize>()
    }

    /// The text, once each long list has its number.
    pub(super) fn numbered(
        self,
        mut number: impl FnMut(Long) -> io::Result<(Query, u32)>,
    ) -> io::Result<Vec<u8>> {
        if self.long.is_empty() {
            return Ok(self.text);
        }
        let mut out = Vec::with_capacity(self.text.len() + 256 * self.long.len());
        let mut put = |part: &[u8]| {
            if !out.is_empty() && !part.is_empty() {
                out.push(b',');
            }
            out.extend_from_slice(part);
        };
        let mut begin = 0;
        for (at, long) in self.long {
            put(&self.text[begin..at]);
            begin = at;
            let (query, list) = number(long)?;
            put(&serde_json::to_vec(&ReadText::List(&query, list))?);
        }
        put(&self.text[begin..]);
        Ok(out)
    }
}

/// A JSON object, written member by member.
struct Members<'a> {
    out: &'a mut Vec<u8>,
    begun: bool,
}

impl<'a> Members<'a> {
    fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, begun: false }
    }

    fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
        self.name(name);
        Ok(serde_json::to_writer(&mut *self.out, value)?)
    }

    /// A member whose value is written by the caller.
    fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if std::mem::replace(&mut self.begun, true) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    fn end(self) {
        self.out.push(b'}');
    }
}

/// The line of a reconcile (`ReconcileLine`).
pub(super) fn put_reconcile(
    out: &mut Vec<u8>,
    module: u32,
    key: &Key,
    asked: &Asked,
    rounds: &[RoundText],
) -> io::Result<()> {
    let mut whole = Members::begin(out);
    let mut line = Members::begin(whole.name("reconcile"));
    put_asked(&mut line, module, key, asked)?;
    let list = line.name("rounds");
    list.push(b'[');
    for (at, round) in rounds.iter().enumerate() {
        if at > 0 {
            list.push(b',');
        }
        round.put(list)?;
    }
    list.push(b']');
    line.end();
    whole.end();
    Ok(())
}

/// What it began with.
fn put_asked(line: &mut Members<'_>, module: u32, key: &Key, asked: &Asked) -> io::Result<()> {
    // All of it: what is not named here would be missing from recordings.
    let Asked { now, seed, state, state_format, results } = asked;
    line.put("module", &module)?;
    let mut members = Members::begin(line.name("key"));
    members.put("source", &key.source)?;
    members.put("resource", &key.resource)?;
    members.put("namespace", &*key.namespace)?;
    members.put("name", &*key.name)?;
    members.end();
    line.put("now", now)?;
    line.put("seed", seed)?;
    if let Some(state) = state {
        line.put("state", state)?;
    }
    line.put("stateFormat", state_format)?;
    if !results.is_empty() {
        line.put("results", results)?;
    }
    Ok(())
}

/// One round of it (`RoundLine`).
pub(super) struct RoundText {
    pub(super) round: Round,
    /// Ids of the answers that were left out.
    pub(super) redacted: Vec<String>,
    pub(super) reads: Vec<u8>,
    /// Whether the numbers are those of the round before.
    pub(super) same_numbers: bool,
}

impl RoundText {
    fn put(&self, out: &mut Vec<u8>) -> io::Result<()> {
        let Self { round, redacted, reads, same_numbers } = self;
        // Its reads were taken out, for their long lists to be numbered.
        let Round { primary, numbers, resources, answers, reads: _, ended } = round;
        let mut line = Members::begin(out);
        if let Some(primary) = primary {
            line.put("primary", &to_ref(primary))?;
        }
        if !same_numbers {
            line.put("numbers", &**numbers)?;
        }
        line.put("resources", resources)?;
        if !answers.is_empty() {
            line.put("answers", answers)?;
        }
        if !redacted.is_empty() {
            line.put("redacted", redacted)?;
        }
        if !reads.is_empty() {
            let list = line.name("reads");
            list.push(b'[');
            list.extend_from_slice(reads);
            list.push(b']');
        }
        line.put("ended", ended)?;
        line.end();
        Ok(())
    }
}
