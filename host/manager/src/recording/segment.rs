//! A file being written.
//!
//! In: lines, lists. Out: a compressed stream that can be read up to its last flush. Kept: what it has said already, so
//! that it is referred to and not said again; a list is told by how it differs from the last answer to its query.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use jiff::Timestamp;
use serde::Serialize;
use zstd::stream::write::Encoder;

use super::{
    files,
    format::{Header, Line, ListLine, ModuleLine, Ref, VERSION, to_ref},
};
use crate::contract::{ObjectRef, Query};

/// Uncompressed bytes that may gather before they are handed to the system.
const BATCH: usize = 256 << 10;
/// How hard zstd tries.
const LEVEL: i32 = 1;
/// Refs of lists that are remembered for later ones to refer to.
const LIST_REFS: usize = 1 << 20;

/// Hands over what it writes, and counts it.
struct Counted {
    file: File,
    bytes: Arc<AtomicU64>,
}

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes.fetch_add(written as u64, Ordering::Relaxed);
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

/// Begins a compressed frame, by whose checksum damage is told.
fn frame(out: Counted) -> std::io::Result<Encoder<'static, Counted>> {
    let mut frame = Encoder::new(out, LEVEL)?;
    frame.include_checksum(true)?;
    Ok(frame)
}

/// A file being written.
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) path: PathBuf,
    out: Encoder<'static, Counted>,
    bytes: Arc<AtomicU64>,
    unflushed: usize,
    /// The line being written; its room serves for the next one.
    text: Vec<u8>,
    modules: HashSet<u32>,
    pub(super) resources: HashSet<u32>,
    pub(super) numbers: HashMap<u32, Arc<[u32]>>,
    lists: HashMap<(u32, String), (u32, Vec<ObjectRef>)>,
    list_refs: usize,
    last_list: u32,
}

impl Segment {
    /// Opens one. `redacted`: whether what manifests call sensitive is left out.
    pub(super) fn create(dir: &Path, now: Timestamp, number: u64, redacted: bool) -> std::io::Result<Self> {
        let (path, file) = files::create(dir, now, number)?;
        let bytes = Arc::new(AtomicU64::new(0));
        let header = Line::Header(Header {
            format: VERSION,
            host: env!("CARGO_PKG_VERSION").to_owned(),
            started: now,
            redacted,
        });
        // In a frame of its own: nothing that is damaged behind it hides what the file is.
        let mut frame = frame(Counted { file, bytes: bytes.clone() })?;
        serde_json::to_writer(&mut frame, &header)?;
        frame.write_all(b"\n")?;
        let out = self::frame(frame.finish()?)?;
        Ok(Self {
            number,
            path,
            out,
            bytes,
            unflushed: 0,
            text: Vec::new(),
            modules: HashSet::new(),
            resources: HashSet::new(),
            numbers: HashMap::new(),
            lists: HashMap::new(),
            list_refs: 0,
            last_list: 0,
        })
    }

    /// Bytes that were handed to the system.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Ends it. Trouble with that is only told of: all but the end is there.
    pub(super) fn finish(self) {
        if let Err(error) = self.out.finish() {
            tracing::warn!(file = %self.path.display(), %error, "the end of a recording could not be written");
        }
    }

    /// Writes a line.
    pub(super) fn line(&mut self, line: &impl Serialize) -> std::io::Result<()> {
        self.put(|text| Ok(serde_json::to_writer(text, line)?))
    }

    /// Writes a line that is put together by hand.
    pub(super) fn put(
        &mut self,
        line: impl FnOnce(&mut Vec<u8>) -> std::io::Result<()>,
    ) -> std::io::Result<()> {
        self.text.clear();
        line(&mut self.text)?;
        self.text.push(b'\n');
        self.unflushed += self.text.len();
        self.out.write_all(&self.text)?;
        if self.unflushed > BATCH { self.flush() } else { Ok(()) }
    }

    /// Ends a block of the compressed stream, so that all before it can be read.
    pub(super) fn flush(&mut self) -> std::io::Result<()> {
        if self.unflushed > 0 {
            self.unflushed = 0;
            self.out.flush()?;
        }
        Ok(())
    }

    /// Says what a module is, the first time.
    pub(super) fn introduce(
        &mut self,
        module: u32,
        line: impl FnOnce() -> ModuleLine,
    ) -> std::io::Result<()> {
        if !self.modules.insert(module) {
            return Ok(());
        }
        self.line(&Line::Module(Box::new(line())))
    }

    /// Number of a list, written if it is new: in full, or as what differs from
    /// the last answer to the same query.
    pub(super) fn list(&mut self, module: u32, query: &Query, found: Vec<ObjectRef>) -> std::io::Result<u32> {
        let name = (module, serde_json::to_string(query)?);
        let last = self.lists.remove(&name);
        if let Some((number, refs)) = &last {
            self.list_refs -= refs.len();
            if *refs == found {
                let number = *number;
                self.remember(name, number, found);
                return Ok(number);
            }
        }
        self.last_list += 1;
        let (list, refs) =
            (self.last_list, |refs: &[ObjectRef]| refs.iter().map(to_ref).collect::<Vec<Ref>>());
        let line = match last {
            None => ListLine { list, from: None, keep: None, refs: refs(&found) },
            Some((from, old)) => {
                let head = old.iter().zip(&found).take_while(|(a, b)| a == b).count();
                let most = old.len().min(found.len()) - head;
                let tail =
                    old.iter().rev().zip(found.iter().rev()).take(most).take_while(|(a, b)| a == b).count();
                let new = &found[head..found.len() - tail];
                ListLine { list, from: Some(from), keep: Some((head, tail)), refs: refs(new) }
            }
        };
        self.line(&Line::List(line))?;
        self.remember(name, list, found);
        Ok(list)
    }

    fn remember(&mut self, name: (u32, String), number: u32, refs: Vec<ObjectRef>) {
        if self.list_refs + refs.len() > LIST_REFS {
            self.lists.clear();
            self.list_refs = 0;
        }
        self.list_refs += refs.len();
        self.lists.insert(name, (number, refs));
    }
}
