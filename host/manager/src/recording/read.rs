//! Reading recordings.
//!
//! In: a directory, or one file. Out: reconciles in the order they were written,
//! each with the content of all that it saw. Invariant: a file that was cut off
//! yields all that stands before the cut.

use std::{
    collections::HashMap,
    fs::File,
    io::{BufRead, BufReader, ErrorKind, Read},
    ops::ControlFlow,
    path::{Path, PathBuf},
    sync::Arc,
};

use zstd::stream::read::Decoder;

use super::{
    files,
    format::{
        Ended, Header, Line, ListLine, ModuleLine, ReadLine, ReconcileLine, Ref, RoundLine, VERSION, from_ref,
    },
};
use crate::contract::{ActionResult, Answer, ObjectRef, Query, ResourceInfo, Timestamp, WireKey};

/// Bytes of a file that are decoded together.
const PORTION: usize = 512;

/// Bytes at which a first line is none of a recording.
const LONGEST_HEADER: u64 = 1 << 16;

/// Why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// It cannot be opened.
    #[error("cannot read {path}: {error}")]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// There is nothing to read.
    #[error(
        "there are no recordings in {0}: no file is called recording-*.jsonl.zst; record with `--record DIR`"
    )]
    Nothing(PathBuf),
    /// It is no recording.
    #[error("{0} is not a recording: it does not begin with a header")]
    NoHeader(PathBuf),
    /// It was written by a newer host.
    #[error("{path} is a recording of format {format}; this host reads up to {VERSION}: use a newer release")]
    TooNew {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: u32,
    },
}

/// The content of an object as a module saw it.
#[derive(Debug)]
pub struct Content {
    /// JSON, byte for byte unless something was left out.
    pub json: String,
    /// Paths whose values were left out.
    pub redacted: Vec<String>,
}

/// A read and what came of it.
#[derive(Debug, Default)]
pub struct Reads {
    /// By resource, namespace and name.
    pub gets: HashMap<(u32, String, String), Result<Option<ObjectRef>, String>>,
    /// By query.
    pub lists: Vec<(Query, Result<Arc<[ObjectRef]>, String>)>,
    /// Why a `read` was refused.
    pub refused: Option<String>,
}

/// A recorded round.
#[derive(Debug)]
pub struct Round {
    /// The key's own object.
    pub primary: Option<ObjectRef>,
    /// Numbers of the resources of reads and writes.
    pub numbers: Vec<u32>,
    /// Version of the list of resources.
    pub resources_version: u32,
    /// The list; empty if it is missing.
    pub resources: Arc<[ResourceInfo]>,
    /// Answers that came with it.
    pub answers: Vec<Answer>,
    /// Ids of answers that were left out.
    pub redacted: Vec<String>,
    /// What was read.
    pub reads: Reads,
    /// How it ended.
    pub ended: Option<Ended>,
}

/// A recorded reconcile.
#[derive(Debug)]
pub struct Recorded {
    /// The module that was asked.
    pub module: Arc<ModuleLine>,
    /// Whether what its manifest calls sensitive was left out.
    pub redacted: bool,
    /// What was reconciled.
    pub key: WireKey,
    /// The time it was told.
    pub now: Timestamp,
    /// The randomness it was given.
    pub seed: (u32, u32),
    /// State of the key.
    pub state: Option<String>,
    /// Its format.
    pub state_format: u32,
    /// What became of the last plan.
    pub results: Vec<ActionResult>,
    /// Rounds, at least one.
    pub rounds: Vec<Round>,
    /// Content of all objects that were seen, but for those that are missing.
    pub contents: HashMap<Ref, Arc<Content>>,
}

/// What was found in a recording besides reconciles.
#[derive(Clone, Debug, Default)]
pub struct Facts {
    /// Files that were cut off, and after how many lines.
    pub cut: Vec<(PathBuf, u64)>,
    /// Files that are damaged, and after how many lines. What stands behind is lost.
    pub damaged: Vec<(PathBuf, u64)>,
    /// Reconciles that were not recorded.
    pub dropped: u64,
    /// Whether anything may have been left out.
    pub redacted: bool,
    /// Controllers that were recorded, and how many reconciles of each.
    pub controllers: std::collections::BTreeMap<String, u64>,
}

/// A recording on disk.
#[derive(Clone, Debug)]
pub struct Recording {
    files: Vec<PathBuf>,
}

impl Recording {
    /// Finds the files of a directory, oldest first; or takes one file.
    pub fn open(path: &Path) -> Result<Self, ReadError> {
        let failed = |error| ReadError::Io { path: path.to_owned(), error };
        if std::fs::metadata(path).map_err(failed)?.is_file() {
            return Ok(Self { files: vec![path.to_owned()] });
        }
        let files = files::list(path).map_err(failed)?;
        if files.is_empty() { Err(ReadError::Nothing(path.to_owned())) } else { Ok(Self { files }) }
    }

    /// Shows each reconcile of the controllers that `wanted` picks by name, until
    /// told to stop.
    pub fn each(
        &self,
        wanted: impl Fn(&str) -> bool,
        mut visit: impl FnMut(Recorded) -> ControlFlow<()>,
    ) -> Result<Facts, ReadError> {
        let mut facts = Facts::default();
        for path in &self.files {
            if each_of(path, &mut facts, &wanted, &mut visit)?.is_break() {
                break;
            }
        }
        Ok(facts)
    }
}

/// What the lines of a file have said so far.
#[derive(Default)]
struct Told {
    redacted: bool,
    modules: HashMap<u32, Arc<ModuleLine>>,
    resources: HashMap<u32, Arc<[ResourceInfo]>>,
    objects: HashMap<(u32, Ref), Arc<Content>>,
    lists: HashMap<u32, Arc<[ObjectRef]>>,
    numbers: HashMap<u32, Vec<u32>>,
}

fn each_of(
    path: &Path,
    facts: &mut Facts,
    wanted: &impl Fn(&str) -> bool,
    visit: &mut impl FnMut(Recorded) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, ReadError> {
    let (header, mut rest) = begin(path)?;
    facts.redacted |= header.redacted;
    let (mut told, mut text, mut lines) = (Told::default(), Vec::new(), 1);
    told.redacted = header.redacted;
    let failed = |error| ReadError::Io { path: path.to_owned(), error };
    if rest.fill_buf().map_err(failed)?.is_empty() {
        facts.cut.push((path.to_owned(), lines));
        return Ok(ControlFlow::Continue(()));
    }
    let mut reader = BufReader::new(Decoder::with_buffer(rest).map_err(failed)?);
    loop {
        text.clear();
        let read = reader.read_until(b'\n', &mut text);
        let whole = matches!(read, Ok(n) if n > 0) && text.ends_with(b"\n");
        if !whole && text.is_empty() && reader.fill_buf().is_ok_and(<[u8]>::is_empty) {
            return Ok(ControlFlow::Continue(()));
        }
        let Some(line) = whole.then(|| serde_json::from_slice::<Line>(&text).ok()).flatten() else {
            // A file that is being written, or whose process was killed, ends within a line or a block.
            let ends = read.as_ref().map_or_else(|e| e.kind() == ErrorKind::UnexpectedEof, |_| !whole);
            let of = if ends { &mut facts.cut } else { &mut facts.damaged };
            of.push((path.to_owned(), lines));
            return Ok(ControlFlow::Continue(()));
        };
        lines += 1;
        if let Line::Dropped(dropped) = line {
            facts.dropped += dropped;
        } else if let Some(reconcile) = told.take(line) {
            let Some(module) = told.modules.get(&reconcile.module).cloned() else { continue };
            *facts.controllers.entry(module.manifest.name.clone()).or_default() += 1;
            if wanted(&module.manifest.name) && visit(told.resolve(module, reconcile)).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
    }
}

/// Reads what a file is. The rest comes back.
fn begin(path: &Path) -> Result<(Header, BufReader<File>), ReadError> {
    let failed = |error| ReadError::Io { path: path.to_owned(), error };
    let file = File::open(path).map_err(failed)?;
    // Where damage is met, what was decoded of the same portion is lost.
    let portions = BufReader::with_capacity(PORTION, file);
    let mut frame = Decoder::with_buffer(portions).map_err(failed)?.single_frame();
    let mut text = Vec::new();
    let read = frame.by_ref().take(LONGEST_HEADER).read_to_end(&mut text);
    match serde_json::from_slice(&text) {
        Ok(Line::Header(header)) if header.format <= VERSION && read.is_ok() => Ok((header, frame.finish())),
        // A newer header may have other fields.
        _ => Err(match newer_format(&text) {
            Some(format) => ReadError::TooNew { path: path.to_owned(), format },
            None => ReadError::NoHeader(path.to_owned()),
        }),
    }
}

fn newer_format(text: &[u8]) -> Option<u32> {
    let line: serde_json::Value = serde_json::from_slice(text).ok()?;
    let format = u32::try_from(line.pointer("/header/format")?.as_u64()?).ok()?;
    (format > VERSION).then_some(format)
}

impl Told {
    /// Notes a line. A reconcile comes back.
    fn take(&mut self, line: Line) -> Option<ReconcileLine> {
        match line {
            Line::Header(_) | Line::Dropped(_) => {}
            Line::Module(module) => {
                self.modules.insert(module.module, Arc::new(*module));
            }
            Line::Resources(resources) => {
                self.resources.insert(resources.version, resources.list.into());
            }
            Line::Object(object) => {
                let content = Content { json: object.json.get().to_owned(), redacted: object.redacted };
                self.objects.insert((object.module, object.object), Arc::new(content));
            }
            Line::List(list) => self.list(list),
            Line::Reconcile(mut reconcile) => {
                for round in &mut reconcile.rounds {
                    match &round.numbers {
                        Some(numbers) => {
                            self.numbers.insert(reconcile.module, numbers.clone());
                        }
                        None => round.numbers = self.numbers.get(&reconcile.module).cloned(),
                    }
                }
                return Some(*reconcile);
            }
        }
        None
    }

    fn list(&mut self, line: ListLine) {
        let refs = line.refs.into_iter().map(from_ref);
        let base = line.from.and_then(|from| self.lists.remove(&from));
        let refs: Arc<[ObjectRef]> = match (base, line.keep) {
            (Some(base), Some((head, tail))) => {
                let (head, tail) = (head.min(base.len()), tail.min(base.len()));
                let tail = &base[base.len() - tail..];
                base[..head].iter().copied().chain(refs).chain(tail.iter().copied()).collect()
            }
            _ => refs.collect(),
        };
        self.lists.insert(line.list, refs);
    }

    fn resolve(&self, module: Arc<ModuleLine>, line: ReconcileLine) -> Recorded {
        let number = line.module;
        let rounds: Vec<Round> = line.rounds.into_iter().map(|round| self.round(round)).collect();
        let mut contents = HashMap::new();
        for round in &rounds {
            let gets = round.reads.gets.values().filter_map(|got| got.as_ref().ok()?.as_ref());
            let lists = round.reads.lists.iter().filter_map(|(_, found)| found.as_ref().ok());
            for object in round.primary.iter().chain(gets).chain(lists.flat_map(|found| found.iter())) {
                let name = (object.resource, object.id, object.version);
                if let Some(content) = self.objects.get(&(number, name)) {
                    contents.entry(name).or_insert_with(|| content.clone());
                }
            }
        }
        Recorded {
            module,
            redacted: self.redacted,
            key: line.key,
            now: line.now,
            seed: line.seed,
            state: line.state,
            state_format: line.state_format,
            results: line.results,
            rounds,
            contents,
        }
    }

    fn round(&self, line: RoundLine) -> Round {
        let mut reads = Reads::default();
        for read in line.reads {
            match read {
                ReadLine::Get(resource, namespace, name, found) => {
                    reads.gets.insert((resource, namespace, name), Ok(found.map(from_ref)));
                }
                ReadLine::GetRefused(resource, namespace, name, reason) => {
                    reads.gets.insert((resource, namespace, name), Err(reason));
                }
                ReadLine::List(query, list) => {
                    let found = self.lists.get(&list).cloned();
                    let missing = || format!("list {list} is missing from the recording");
                    reads.lists.push((query, found.ok_or_else(missing)));
                }
                ReadLine::Short(query, refs) => {
                    reads.lists.push((query, Ok(refs.into_iter().map(from_ref).collect())));
                }
                ReadLine::ListRefused(query, reason) => reads.lists.push((query, Err(reason))),
                ReadLine::ReadRefused(reason) => reads.refused = Some(reason),
            }
        }
        Round {
            primary: line.primary.map(from_ref),
            numbers: line.numbers.unwrap_or_default(),
            resources_version: line.resources,
            resources: self.resources.get(&line.resources).cloned().unwrap_or_else(|| Arc::from([])),
            answers: line.answers,
            redacted: line.redacted,
            reads,
            ended: line.ended,
        }
    }
}
