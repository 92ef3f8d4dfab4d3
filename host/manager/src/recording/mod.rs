//! Recordings: what controllers were asked, shown, and answered; and replays.
//!
//! ```text
//! reconcile ─► Recorder (notes) ─► queue, bounded in bytes ─► writer thread ─► files
//!                                                                               │
//! module, another version ─► replay ◄── snapshot answered from the recording ◄──┘
//! ```
//!
//! In: reconciles, as an observer of controllers sees them. Out: files that hold
//! all that the reconciles depended on, so that any machine can come to the same
//! decisions. Invariants: recording never waits (what there is no room for is
//! dropped, counted and said so), and what manifests call sensitive is left out
//! unless the operator asks for it.

mod files;
mod follow;
pub mod format;
mod message;
mod read;
mod redact;
pub mod replay;
mod segment;
#[cfg(test)]
mod tests;
mod text;
mod writer;

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering},
        mpsc,
    },
    thread::JoinHandle,
};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use read::{ReadError, Recorded, Recording};

use crate::{clock::SharedClock, contract::ResourceInfo, controller::Observer, registry::Registry};
use follow::Recorder;
use message::Message;
use writer::Writer;

/// Bytes of notes that may wait for the writer.
const PENDING: usize = 64 << 20;

/// How to record.
#[derive(Clone, Debug)]
pub struct RecordConfig {
    /// Where to.
    pub dir: PathBuf,
    /// Bytes that the recordings in the directory may take together, those of
    /// earlier runs included. The oldest files go first.
    pub max_bytes: u64,
    /// Whether what manifests call sensitive is recorded as well.
    pub sensitive: bool,
}

/// Counts of a recording.
#[derive(Default)]
pub struct RecordCounters {
    /// Reconciles written.
    pub reconciles: AtomicU64,
    /// Reconciles that were not recorded: the writer did not keep up, or the
    /// disk was full.
    pub dropped: AtomicU64,
    /// Bytes of the file being written.
    pub bytes: AtomicU64,
    /// Files in the directory.
    pub files: AtomicU64,
}

/// A recording, for `coxswain status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordStatus {
    /// The directory.
    pub dir: String,
    /// Whether what manifests call sensitive is recorded.
    pub sensitive: bool,
    /// Files in the directory.
    pub files: u64,
    /// Reconciles recorded since the start.
    pub reconciles: u64,
    /// Reconciles not recorded since the start.
    pub dropped: u64,
    /// Why recording stands still.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// What the writer and those who take notes share.
struct Shared {
    config: RecordConfig,
    clock: SharedClock,
    registry: Arc<Registry>,
    /// Messages, each with the bytes it takes.
    queue: mpsc::Sender<(usize, Message)>,
    /// Bytes in the queue.
    pending: AtomicUsize,
    /// Number of the file being written.
    file: AtomicU64,
    /// Modules that were numbered.
    streams: AtomicU32,
    /// Newest version of the list of resources that was sent.
    resources: Mutex<Option<u32>>,
    counters: RecordCounters,
    trouble: Mutex<Option<String>>,
}

impl Shared {
    fn has_room(&self) -> bool {
        self.pending.load(Ordering::Acquire) < PENDING
    }

    fn send(&self, message: Message) {
        let size = message.size();
        self.pending.fetch_add(size, Ordering::AcqRel);
        // An error means that the recording has ended.
        if self.queue.send((size, message)).is_err() {
            self.pending.fetch_sub(size, Ordering::AcqRel);
        }
    }

    fn note_resources(&self, version: u32, list: impl FnOnce() -> Arc<[ResourceInfo]>) {
        let mut last = self.resources.lock();
        if last.is_none_or(|last| last != version) {
            *last = Some(version);
            self.send(Message::Resources { version, list: list() });
        }
    }
}

/// Records what controllers do, until it is dropped.
pub struct RecordingWriter {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl RecordingWriter {
    /// Begins a recording. An error says what is wrong with the directory.
    pub fn start(config: RecordConfig, registry: Arc<Registry>, clock: SharedClock) -> std::io::Result<Self> {
        files::prepare(&config.dir)?;
        let (queue, messages) = mpsc::channel();
        let shared = Arc::new(Shared {
            config,
            clock,
            registry,
            queue,
            pending: AtomicUsize::new(0),
            file: AtomicU64::new(1),
            streams: AtomicU32::new(0),
            resources: Mutex::default(),
            counters: RecordCounters::default(),
            trouble: Mutex::default(),
        });
        let mut writer = Writer::new(shared.clone());
        writer.open()?;
        let thread =
            std::thread::Builder::new().name("recording".into()).spawn(move || writer.run(messages))?;
        Ok(Self { shared, thread: Mutex::new(Some(thread)) })
    }

    /// Who takes notes of one controller.
    pub fn observer(&self) -> Arc<dyn Observer> {
        Arc::new(Recorder { shared: self.shared.clone(), versions: Mutex::default() })
    }

    /// Its counters.
    pub fn counters(&self) -> &RecordCounters {
        &self.shared.counters
    }

    /// Its status.
    pub fn status(&self) -> RecordStatus {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.shared.counters;
        RecordStatus {
            dir: self.shared.config.dir.display().to_string(),
            sensitive: self.shared.config.sensitive,
            files: count(&counters.files),
            reconciles: count(&counters.reconciles),
            dropped: count(&counters.dropped),
            trouble: self.shared.trouble.lock().clone(),
        }
    }

    /// Writes what waits and ends.
    pub fn finish(&self) {
        let Some(thread) = self.thread.lock().take() else { return };
        self.shared.send(Message::Stop);
        if thread.join().is_err() {
            tracing::error!("the recording's writer failed; its last file may be cut off");
        }
        let dropped = self.shared.counters.dropped.load(Ordering::Relaxed);
        if dropped > 0 {
            tracing::warn!(dropped, "reconciles were not recorded: the writer could not keep up");
        }
    }
}

impl Drop for RecordingWriter {
    fn drop(&mut self) {
        self.finish();
    }
}
