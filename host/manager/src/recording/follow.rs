//! Taking notes while a controller reconciles.
//!
//! In: what an observer is told. Out: messages for the writer. Everything here
//! happens on the reconcile's own time: reads are written down at once, which is
//! cheaper than to copy them, and the rest is left to the writer. Invariants: the
//! content of an object is sent before any reconcile that saw it; nothing here
//! waits for the writer.

use std::{
    any::Any,
    sync::{Arc, Weak, atomic::Ordering},
};

use parking_lot::Mutex;

use super::{
    Shared,
    format::Ended,
    message::{Asked, Message, Round, Seen, Taken},
    text::Reads,
};
use crate::{
    contract::{ObjectRef, Outcome, Query, Request, ResourceInfo},
    controller::{Follower, Loaded, Observer},
    engine::{Fault, SnapshotHost},
    key::Key,
    store::Snapshot,
};

/// What the file being written knows of what one module sees.
#[derive(Default)]
pub(super) struct Known {
    /// The file.
    file: u64,
    /// Versions by slot; 0 for those that are not there, and one more than the
    /// version for those that are.
    versions: Vec<u32>,
}

impl Known {
    fn begin(&mut self, file: u64) {
        if self.file != file {
            *self = Self { file, versions: Vec::new() };
        }
    }

    /// Notes an object. True if it is new.
    fn note(&mut self, object: &ObjectRef) -> bool {
        let at = object.id as usize;
        if at >= self.versions.len() {
            self.versions.resize((at + 1).next_power_of_two(), 0);
        }
        let mark = object.version.wrapping_add(1);
        std::mem::replace(&mut self.versions[at], mark) != mark
    }

    fn forget(&mut self, object: &ObjectRef) {
        if let Some(mark) = self.versions.get_mut(object.id as usize) {
            *mark = 0;
        }
    }
}

/// A version of a module at work, as recordings know it.
pub(super) struct Stream {
    pub(super) number: u32,
    known: Mutex<Known>,
    /// Numbers of the manifest's resources, as of the last request.
    numbers: Mutex<Arc<[u32]>>,
}

impl Stream {
    pub(super) fn new(number: u32) -> Self {
        Self { number, known: Mutex::default(), numbers: Mutex::new(Arc::new([])) }
    }

    /// The same list for all requests that have it.
    fn numbers(&self, of: &[u32]) -> Arc<[u32]> {
        let mut last = self.numbers.lock();
        if **last != *of {
            *last = of.into();
        }
        last.clone()
    }
}

/// Records the reconciles of one controller.
pub(super) struct Recorder {
    pub(super) shared: Arc<Shared>,
    /// The versions at work: one, or two while a candidate has a share of the keys.
    pub(super) versions: Mutex<Vec<(Weak<Loaded>, Arc<Stream>)>>,
}

impl Recorder {
    fn stream(&self, loaded: &Arc<Loaded>) -> Arc<Stream> {
        let mut versions = self.versions.lock();
        let known = versions.iter().find(|(known, _)| std::ptr::eq(known.as_ptr(), Arc::as_ptr(loaded)));
        if let Some((_, stream)) = known {
            return stream.clone();
        }
        versions.retain(|(known, _)| known.strong_count() > 0);
        let stream = Arc::new(Stream::new(self.shared.streams.fetch_add(1, Ordering::Relaxed) + 1));
        versions.push((Arc::downgrade(loaded), stream.clone()));
        self.shared.send(Message::Module {
            module: stream.number,
            hash: loaded.module.hash().to_owned(),
            manifest: loaded.module.manifest().clone(),
            options: loaded.options.clone(),
        });
        stream
    }
}

impl Observer for Recorder {
    fn begin(&self, loaded: &Arc<Loaded>, key: &Key) -> Option<Box<dyn Follower>> {
        if !self.shared.has_room() {
            let dropped = self.shared.counters.dropped.fetch_add(1, Ordering::Relaxed) + 1;
            // One line for the first and for each ten thousandth.
            if dropped % 10_000 == 1 {
                tracing::warn!(dropped, "not recorded: the disk does not keep up");
            }
            return None;
        }
        Some(Box::new(Following {
            shared: self.shared.clone(),
            stream: self.stream(loaded),
            file: self.shared.file.load(Ordering::Acquire),
            key: key.clone(),
            asked: None,
            answers: 0,
            rounds: Vec::with_capacity(1),
            notes: Arc::default(),
        }))
    }
}

/// What was read in the round under way.
#[derive(Default)]
struct Notes {
    reads: Reads,
    /// Version of the list of resources that was shown.
    resources: Option<u32>,
}

struct Following {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    file: u64,
    key: Key,
    asked: Option<Asked>,
    /// Answers noted so far.
    answers: usize,
    rounds: Vec<Round>,
    notes: Arc<Mutex<Notes>>,
}

impl Follower for Following {
    fn asked(&mut self, request: &Request, snapshot: &Snapshot) {
        if self.asked.is_none() {
            self.asked = Some(Asked {
                now: request.now,
                seed: request.seed,
                state: request.state.clone(),
                state_format: request.state_format,
                results: request.results.clone(),
            });
        }
        let registry = &self.shared.registry;
        let resources = registry.version();
        self.shared.note_resources(resources, || registry.all());
        self.rounds.push(Round {
            primary: snapshot.primary(),
            numbers: self.stream.numbers(&request.resources),
            resources,
            answers: request.answers.get(self.answers..).unwrap_or_default().to_vec(),
            reads: Reads::default(),
            ended: None,
        });
        self.answers = request.answers.len();
    }

    fn around(&mut self, snapshot: Box<dyn SnapshotHost>) -> Box<dyn SnapshotHost> {
        Box::new(Watched {
            shared: self.shared.clone(),
            stream: self.stream.clone(),
            file: self.file,
            primary: self.rounds.last().and_then(|round| round.primary),
            notes: self.notes.clone(),
            taken: Notes { reads: Reads::with_room(), resources: None },
            seen: Vec::with_capacity(16),
            inner: snapshot,
        })
    }

    fn answered(&mut self, _: &Request, result: &Result<Outcome, Fault>) {
        let notes = std::mem::take(&mut *self.notes.lock());
        let Some(round) = self.rounds.last_mut() else { return };
        round.reads = notes.reads;
        round.resources = notes.resources.unwrap_or(round.resources);
        round.ended = Some(match result {
            Ok(outcome) => Ended::Outcome(outcome.clone()),
            Err(fault) => Ended::from(fault),
        });
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let Some(asked) = self.asked.take() else { return };
        self.shared.send(Message::Reconcile(Box::new(Taken {
            file: self.file,
            module: self.stream.number,
            key: self.key.clone(),
            asked,
            rounds: std::mem::take(&mut self.rounds),
        })));
    }
}

/// A snapshot whose reads are noted.
struct Watched {
    shared: Arc<Shared>,
    stream: Arc<Stream>,
    file: u64,
    primary: Option<ObjectRef>,
    notes: Arc<Mutex<Notes>>,
    taken: Notes,
    /// What was shown, but for long lists.
    seen: Vec<ObjectRef>,
    inner: Box<dyn SnapshotHost>,
}

impl Watched {
    fn note_resources(&mut self) -> u32 {
        let version = self.inner.resources_version();
        self.taken.resources = Some(version);
        let inner = &mut self.inner;
        self.shared.note_resources(version, || inner.resources().into());
        version
    }

    /// Sends the content of what was seen here for the first time. The snapshot
    /// is still pinned, so it is the content that the guest could read.
    fn send_contents(&mut self) {
        let mut known = self.stream.known.lock();
        // A reconcile that outlasts its file tells all it sees once more.
        let outlasted = known.file > self.file;
        let mut own = Known { file: self.file, versions: Vec::new() };
        let known = if outlasted { &mut own } else { &mut *known };
        known.begin(self.file);
        let listed = self.taken.reads.long().flat_map(|long| &long.found);
        let shown = self.primary.iter().chain(&self.seen).chain(listed);
        let new: Vec<ObjectRef> = shown.filter(|object| known.note(object)).copied().collect();
        if new.is_empty() {
            return;
        }
        match self.inner.read(&new) {
            Ok(contents) => {
                let objects = new.into_iter().zip(contents).map(|(object, json)| Seen { object, json });
                // Sent under the lock: whoever finds these known is behind them in the queue.
                self.shared.send(Message::Objects {
                    file: self.file,
                    module: self.stream.number,
                    objects: objects.collect(),
                });
            }
            // A replay will say that it lacks them.
            Err(reason) => {
                new.iter().for_each(|object| known.forget(object));
                tracing::debug!(reason, "objects are missing from the recording");
            }
        }
    }
}

impl SnapshotHost for Watched {
    fn resources(&mut self) -> Vec<ResourceInfo> {
        self.note_resources();
        self.inner.resources()
    }

    fn resources_version(&mut self) -> u32 {
        self.note_resources()
    }

    fn get(&mut self, resource: u32, namespace: &str, name: &str) -> Result<Option<ObjectRef>, String> {
        let found = self.inner.get(resource, namespace, name);
        self.taken.reads.get(resource, namespace, name, &found);
        self.seen.extend(found.iter().flatten());
        found
    }

    fn list(&mut self, query: &Query) -> Result<Vec<ObjectRef>, String> {
        let found = self.inner.list(query);
        if !self.taken.reads.list(query, &found) {
            self.seen.extend(found.iter().flatten());
        }
        found
    }

    fn read(&mut self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        let found = self.inner.read(refs);
        if let Err(reason) = &found {
            self.taken.reads.refused(reason);
        }
        found
    }

    fn into_any(mut self: Box<Self>) -> Box<dyn Any + Send> {
        self.send_contents();
        *self.notes.lock() = std::mem::take(&mut self.taken);
        self.inner.into_any()
    }
}
