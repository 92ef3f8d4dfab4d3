//! The thread that writes.
//!
//! In: messages. Out: files. Invariants: whatever a line refers to stands before
//! it in the same file; what was handed to the system at any moment is a file
//! that can be read up to there. A disk that is full or gone costs recordings,
//! never reconciles.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{
        Arc,
        atomic::Ordering,
        mpsc::{Receiver, TryRecvError},
    },
    time::Duration,
};

use serde_json::value::RawValue;
use tokio::time::Instant;

use super::{
    Shared, files,
    format::{Ended, Line, ModuleLine, ObjectLine, ResourcesLine, to_ref},
    message::{Long, Message, Seen, Taken},
    redact::Sensitive,
    segment::Segment,
    text::{RoundText, put_reconcile},
};
use crate::contract::{Manifest, Outcome, ResourceInfo};

/// How long at most what was written may wait for that, and at least while more comes. A block for each reconcile
/// would cost more than all else.
const HANDED_OVER: Duration = Duration::from_millis(50);
/// How long the writer sleeps before it looks for more, and how long what comes alone waits. The longer, the more
/// memory is on its way from those who record, and the less of it is in their processors' caches.
const LOOKED_AGAIN: Duration = Duration::from_millis(2);
/// Lists of resources that are kept, since reconciles under way may name them.
const KEPT_LISTS: usize = 16;
/// How long after trouble with the disk the next file is tried.
const AGAIN: Duration = Duration::from_secs(30);

struct ModuleFacts {
    hash: String,
    manifest: Arc<Manifest>,
    options: Vec<String>,
    sensitive: Sensitive,
}

impl ModuleFacts {
    fn line(&self, module: u32) -> ModuleLine {
        let (hash, manifest, options) = (self.hash.clone(), (*self.manifest).clone(), self.options.clone());
        ModuleLine { module, hash, manifest, options }
    }
}

/// The writer.
pub(super) struct Writer {
    shared: Arc<Shared>,
    modules: HashMap<u32, ModuleFacts>,
    resources: BTreeMap<u32, Arc<[ResourceInfo]>>,
    current: Option<Segment>,
    /// The file before, for reconciles that began in its time.
    before: Option<Segment>,
    /// When to try again after trouble.
    again: Option<Instant>,
    dropped_told: u64,
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            modules: HashMap::new(),
            resources: BTreeMap::new(),
            current: None,
            before: None,
            again: None,
            dropped_told: 0,
        }
    }

    /// Opens the first file.
    pub(super) fn open(&mut self) -> std::io::Result<()> {
        let number = self.shared.file.load(Ordering::Acquire);
        self.current = Some(self.segment(number)?);
        self.tidy();
        Ok(())
    }

    /// Writes until told to stop.
    pub(super) fn run(mut self, messages: Receiver<(usize, Message)>) {
        // Whoever sends wakes a writer that waits, which costs a reconcile more than its notes do. So it waits only
        // while nothing is to be written at all, and else looks again after a while.
        let mut handed_over = Instant::now();
        while let Ok(first) = messages.recv() {
            let due = (Instant::now() + LOOKED_AGAIN).max(handed_over + HANDED_OVER);
            let mut next = Some(first);
            let ended = loop {
                match next.take().map_or_else(|| messages.try_recv(), Ok) {
                    Ok((_, Message::Stop)) | Err(TryRecvError::Disconnected) => break true,
                    Ok((size, message)) => {
                        self.take(message);
                        self.shared.pending.fetch_sub(size, Ordering::AcqRel);
                    }
                    Err(TryRecvError::Empty) => {
                        let left = due.saturating_duration_since(Instant::now());
                        std::thread::sleep(left.min(LOOKED_AGAIN));
                    }
                }
                if Instant::now() >= due {
                    break false;
                }
            };
            self.flush();
            handed_over = Instant::now();
            if ended {
                break;
            }
        }
        self.drop_line();
        for segment in [self.before.take(), self.current.take()].into_iter().flatten() {
            segment.finish();
        }
    }

    fn take(&mut self, message: Message) {
        if self.again.is_some_and(|at| Instant::now() < at) {
            return self.lost(&message);
        }
        if self.current.is_none() && !self.rotate() {
            return self.lost(&message);
        }
        let written = match message {
            Message::Module { module, hash, manifest, options } => {
                let sensitive = if self.shared.config.sensitive {
                    Sensitive::default()
                } else {
                    Sensitive::of(&manifest)
                };
                self.modules.insert(module, ModuleFacts { hash, manifest, options, sensitive });
                Ok(())
            }
            Message::Resources { version, list } => {
                self.resources.insert(version, list);
                while self.resources.len() > KEPT_LISTS {
                    self.resources.pop_first();
                }
                Ok(())
            }
            Message::Objects { file, module, objects } => self.objects(file, module, objects),
            Message::Reconcile(taken) => {
                self.drop_line();
                self.reconcile(*taken)
            }
            Message::Stop => Ok(()),
        };
        if let Err(error) = written {
            self.trouble(&error);
        }
        let full = |segment: &Segment| segment.bytes() >= files::file_size(self.shared.config.max_bytes);
        if self.current.as_ref().is_some_and(full) {
            self.rotate();
        }
    }

    fn lost(&mut self, message: &Message) {
        match message {
            Message::Reconcile(_) => {
                self.shared.counters.dropped.fetch_add(1, Ordering::Relaxed);
            }
            // Facts are needed by files to come.
            Message::Module { module, hash, manifest, options } => {
                let sensitive =
                    if self.shared.config.sensitive { Sensitive::default() } else { Sensitive::of(manifest) };
                let (hash, manifest, options) = (hash.clone(), manifest.clone(), options.clone());
                self.modules.insert(*module, ModuleFacts { hash, manifest, options, sensitive });
            }
            Message::Resources { version, list } => {
                self.resources.insert(*version, list.clone());
            }
            Message::Objects { .. } | Message::Stop => {}
        }
    }

    /// Begins the next file. From now on everything is said again.
    fn rotate(&mut self) -> bool {
        let number = self.shared.file.load(Ordering::Acquire) + 1;
        match self.segment(number) {
            Ok(segment) => {
                if let Some(old) = std::mem::replace(&mut self.before, self.current.replace(segment)) {
                    old.finish();
                }
                self.again = None;
                *self.shared.trouble.lock() = None;
                self.shared.file.store(number, Ordering::Release);
                self.tidy();
                true
            }
            Err(error) => {
                self.trouble(&error);
                false
            }
        }
    }

    fn trouble(&mut self, error: &std::io::Error) {
        let dir = self.shared.config.dir.display();
        tracing::error!(%dir, %error, "recording stands still; the controllers go on, and the next file is tried in {AGAIN:?}");
        *self.shared.trouble.lock() = Some(error.to_string());
        self.current = None;
        self.before = None;
        self.again = Some(Instant::now() + AGAIN);
    }

    fn segment(&self, number: u64) -> std::io::Result<Segment> {
        let config = &self.shared.config;
        Segment::create(&config.dir, self.shared.clock.now(), number, !config.sensitive)
    }

    fn tidy(&self) {
        let keep = [&self.current, &self.before].into_iter().flatten().map(|segment| segment.path.as_path());
        let keep: Vec<_> = keep.collect();
        match files::tidy(&self.shared.config.dir, self.shared.config.max_bytes, &keep) {
            Ok(kept) => self.shared.counters.files.store(kept as u64, Ordering::Relaxed),
            Err(error) => tracing::warn!(%error, "old recordings could not be removed"),
        }
    }

    fn flush(&mut self) {
        let flushed: std::io::Result<()> =
            [&mut self.before, &mut self.current].into_iter().flatten().try_for_each(Segment::flush);
        if let Err(error) = flushed {
            self.trouble(&error);
        }
        let bytes = self.current.as_ref().map_or(0, Segment::bytes);
        self.shared.counters.bytes.store(bytes, Ordering::Relaxed);
    }

    fn drop_line(&mut self) {
        let dropped = self.shared.counters.dropped.load(Ordering::Relaxed);
        if dropped == self.dropped_told {
            return;
        }
        if let Some(segment) = &mut self.current
            && segment.line(&Line::Dropped(dropped - self.dropped_told)).is_ok()
        {
            self.dropped_told = dropped;
        }
    }

    fn segment_of<'a>(
        current: &'a mut Option<Segment>,
        before: &'a mut Option<Segment>,
        file: u64,
    ) -> Option<&'a mut Segment> {
        [current, before].into_iter().flatten().find(|segment| segment.number == file)
    }

    fn objects(&mut self, file: u64, module: u32, objects: Vec<Seen>) -> std::io::Result<()> {
        let Some(segment) = Self::segment_of(&mut self.current, &mut self.before, file) else {
            return Ok(());
        };
        let Some(facts) = self.modules.get(&module) else { return Ok(()) };
        segment.introduce(module, || facts.line(module))?;
        for Seen { object, json } in objects {
            let name = self.shared.registry.name(object.resource);
            let left = name.and_then(|name| facts.sensitive.object(&name, &json));
            let (json, redacted) = left.unwrap_or((json, Vec::new()));
            let json = RawValue::from_string(json)?;
            segment.line(&Line::Object(ObjectLine { module, object: to_ref(&object), redacted, json }))?;
        }
        Ok(())
    }

    fn reconcile(&mut self, taken: Taken) -> std::io::Result<()> {
        let Taken { file, module, key, asked, rounds } = taken;
        let found = Self::segment_of(&mut self.current, &mut self.before, file);
        let (Some(segment), Some(facts)) = (found, self.modules.get(&module)) else {
            // It took longer than two files.
            self.shared.counters.dropped.fetch_add(1, Ordering::Relaxed);
            return Ok(());
        };
        segment.introduce(module, || facts.line(module))?;
        let registry = &self.shared.registry;
        let name = |number: u32| registry.name(number);
        let mut lines: Vec<RoundText> = Vec::with_capacity(rounds.len());
        for mut round in rounds {
            if !segment.resources.contains(&round.resources)
                && let Some(list) = self.resources.get(&round.resources)
            {
                segment.resources.insert(round.resources);
                let version = round.resources;
                segment.line(&Line::Resources(ResourcesLine { version, list: list.to_vec() }))?;
            }
            let asks = match lines.last().and_then(|before| before.round.ended.as_ref()) {
                Some(Ended::Outcome(Outcome::Lookups(asks))) => asks.as_slice(),
                _ => &[],
            };
            let mut redacted = Vec::new();
            for answer in &mut round.answers {
                let ask = asks.iter().find(|lookup| lookup.id == answer.id).map(|lookup| &lookup.ask);
                if !self.shared.config.sensitive && facts.sensitive.answer(ask, answer, name) {
                    redacted.push(answer.id.clone());
                }
            }
            if let Some(Ended::Outcome(outcome)) = &mut round.ended {
                facts.sensitive.outcome(outcome, name);
            }
            let reads = std::mem::take(&mut round.reads).numbered(|Long { query, found }| {
                let list = segment.list(module, &query, found)?;
                Ok((query, list))
            })?;
            let same = segment.numbers.get(&module) == Some(&round.numbers);
            if !same {
                segment.numbers.insert(module, round.numbers.clone());
            }
            lines.push(RoundText { round, redacted, reads, same_numbers: same });
        }
        segment.put(|text| put_reconcile(text, module, &key, &asked, &lines))?;
        self.shared.counters.reconciles.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}
