//! Lines put together from parts that are text already.
//!
//! Whoever is asked to read writes down at once what the line will say of it: to
//! copy it for the writer, who copies it again and frees what another thread
//! allocated, costs a reconcile several times as much.

use std::io::Result;

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
    /// With room for what most rounds read.
    pub(super) fn new() -> Self {
        Self { text: Vec::with_capacity(512), long: Vec::new() }
    }

    pub(super) fn get(
        &mut self,
        resource: u32,
        namespace: &str,
        name: &str,
        found: &std::result::Result<Option<ObjectRef>, String>,
    ) {
        self.put(&match found {
            Ok(found) => ReadText::Get(resource, namespace, name, found.as_ref().map(to_ref)),
            Err(reason) => ReadText::GetRefused(resource, namespace, name, reason),
        });
    }

    /// Whether what was found is kept as a long list.
    pub(super) fn list(
        &mut self,
        query: &Query,
        found: &std::result::Result<Vec<ObjectRef>, String>,
    ) -> bool {
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
        self.text.len() + self.long().map(|long| 128 + size_of_val(long.found.as_slice())).sum::<usize>()
    }

    /// The text, once each long list has its number.
    pub(super) fn numbered(self, mut number: impl FnMut(Long) -> Result<(Query, u32)>) -> Result<Vec<u8>> {
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
pub(super) struct Members<'a> {
    out: &'a mut Vec<u8>,
    begun: bool,
}

impl<'a> Members<'a> {
    pub(super) fn begin(out: &'a mut Vec<u8>) -> Self {
        out.push(b'{');
        Self { out, begun: false }
    }

    pub(super) fn put(&mut self, name: &str, value: &(impl Serialize + ?Sized)) -> Result<()> {
        self.name(name);
        Ok(serde_json::to_writer(&mut *self.out, value)?)
    }

    /// A member whose value is written by the caller.
    pub(super) fn name(&mut self, name: &str) -> &mut Vec<u8> {
        if std::mem::replace(&mut self.begun, true) {
            self.out.push(b',');
        }
        self.out.push(b'"');
        self.out.extend_from_slice(name.as_bytes());
        self.out.extend_from_slice(b"\":");
        self.out
    }

    pub(super) fn end(self) {
        self.out.push(b'}');
    }
}

/// What a reconcile began with, as its line has it (`ReconcileLine`).
pub(super) fn put_asked(line: &mut Members<'_>, module: u32, key: &Key, asked: &Asked) -> Result<()> {
    line.put("module", &module)?;
    let mut members = Members::begin(line.name("key"));
    members.put("source", &key.source)?;
    members.put("resource", &key.resource)?;
    members.put("namespace", &*key.namespace)?;
    members.put("name", &*key.name)?;
    members.end();
    line.put("now", &asked.now)?;
    line.put("seed", &asked.seed)?;
    if let Some(state) = &asked.state {
        line.put("state", state)?;
    }
    line.put("stateFormat", &asked.state_format)?;
    if !asked.results.is_empty() {
        line.put("results", &asked.results)?;
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
    pub(super) fn put(&self, out: &mut Vec<u8>) -> Result<()> {
        let Self { round, redacted, reads, same_numbers } = self;
        let mut line = Members::begin(out);
        if let Some(primary) = &round.primary {
            line.put("primary", &to_ref(primary))?;
        }
        if !same_numbers {
            line.put("numbers", &*round.numbers)?;
        }
        line.put("resources", &round.resources)?;
        if !round.answers.is_empty() {
            line.put("answers", &round.answers)?;
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
        line.put("ended", &round.ended)?;
        line.end();
        Ok(())
    }
}
