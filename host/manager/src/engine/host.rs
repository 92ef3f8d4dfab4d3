//! What one instance holds on the host's side, and what it may import.
//!
//! In: calls of `snapshot` and `log` from a module. Out: what the snapshot
//! answers, lines for the log. Invariant: between two calls nothing of a
//! request stays behind but the module's own memory.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;
use wasmtime::{ResourceLimiter, component::ResourceTable};
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use super::{
    LogSink, SnapshotHost,
    pace::Pace,
    wasi::{self, OutputLines, VirtualWorld},
};
use crate::contract::{
    Level, ObjectRef, Query, ResourceInfo,
    generated::coxswain::controller::{log, snapshot},
};

/// Longest line taken from a module, in bytes.
const LINE_LIMIT: usize = 16 << 10;
/// Lines a module may log at once, as a multiple of those per second.
const LOG_BURST: f64 = 5.0;

/// The data of a store.
pub(super) struct HostState {
    pub(super) snapshot: Option<Box<dyn SnapshotHost>>,
    pub(super) log: SharedLog,
    /// The first read of this call that was refused.
    pub(super) refused: Option<String>,
    pub(super) memory: MemoryLimiter,
    pub(super) world: VirtualWorld,
    pub(super) pace: Pace,
    wasi: WasiCtx,
    pub(super) table: ResourceTable,
}

impl HostState {
    pub(super) fn new(memory_limit: usize, rate: Arc<LogRate>, pace: Pace) -> Self {
        let log = SharedLog { sink: Arc::new(Mutex::new(None)), rate };
        let world = VirtualWorld::default();
        let wasi = wasi::closed_context(
            &world,
            OutputLines::new(log.clone(), Level::Info),
            OutputLines::new(log.clone(), Level::Warn),
        );
        Self {
            snapshot: None,
            log,
            refused: None,
            memory: MemoryLimiter { limit: memory_limit, used: 0, refused: false },
            world,
            pace,
            wasi,
            table: ResourceTable::new(),
        }
    }

    fn look<T>(
        &mut self,
        read: impl FnOnce(&mut dyn SnapshotHost) -> Result<T, String>,
    ) -> Result<T, String> {
        let answer = match &mut self.snapshot {
            Some(snapshot) => read(snapshot.as_mut()),
            None => Err("there is nothing to read outside a reconcile".to_owned()),
        };
        if let Err(reason) = &answer {
            self.refused.get_or_insert_with(|| reason.clone());
        }
        answer
    }
}

impl WasiView for HostState {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl snapshot::Host for HostState {
    fn resources(&mut self) -> Vec<ResourceInfo> {
        self.snapshot.as_mut().map(|s| s.resources()).unwrap_or_default()
    }

    fn resources_version(&mut self) -> u32 {
        self.snapshot.as_mut().map(|s| s.resources_version()).unwrap_or_default()
    }

    fn get(&mut self, resource: u32, namespace: String, name: String) -> Result<Option<ObjectRef>, String> {
        self.look(|s| s.get(resource, &namespace, &name))
    }

    fn list(&mut self, query: Query) -> Result<Vec<ObjectRef>, String> {
        self.look(|s| s.list(&query))
    }

    fn read(&mut self, refs: Vec<ObjectRef>) -> Result<Vec<String>, String> {
        self.look(|s| s.read(&refs))
    }
}

impl log::Host for HostState {
    fn log(&mut self, level: Level, message: String) {
        self.log.line(level, &message);
    }
}

/// Where the lines of one instance go during a call. Shared with its stdout and
/// stderr.
#[derive(Clone)]
pub(super) struct SharedLog {
    sink: Arc<Mutex<Option<Arc<dyn LogSink>>>>,
    rate: Arc<LogRate>,
}

impl SharedLog {
    /// Sends lines to this sink, or to none.
    pub(super) fn direct(&self, sink: Option<Arc<dyn LogSink>>) {
        *self.sink.lock() = sink;
    }

    /// Takes a line, unless there have been too many.
    pub(super) fn line(&self, level: Level, message: &str) {
        let Some(sink) = self.sink.lock().clone() else { return };
        if !self.rate.allow(Instant::now()) {
            return;
        }
        match self.rate.take_dropped() {
            0 => {}
            dropped => sink.log(
                Level::Warn,
                &format!(
                    "{dropped} lines of this controller were dropped: it logs more than {} lines a second",
                    self.rate.per_second
                ),
            ),
        }
        if message.len() > LINE_LIMIT {
            let mut end = LINE_LIMIT;
            while !message.is_char_boundary(end) {
                end -= 1;
            }
            sink.log(level, &format!("{}… ({} bytes in all)", &message[..end], message.len()));
        } else {
            sink.log(level, message);
        }
    }
}

/// How many lines a module may log. Outlives its instances, so that trapping
/// does not buy lines.
#[derive(Debug)]
pub(super) struct LogRate {
    per_second: u32,
    bucket: Mutex<Bucket>,
}

#[derive(Debug)]
struct Bucket {
    tokens: f64,
    filled: Instant,
    /// Dropped since that was last said in the log.
    dropped: u64,
    /// Dropped since they were last counted.
    uncounted: u64,
}

impl LogRate {
    pub(super) fn new(per_second: u32) -> Self {
        let tokens = f64::from(per_second) * LOG_BURST;
        let bucket = Bucket { tokens, filled: Instant::now(), dropped: 0, uncounted: 0 };
        Self { per_second, bucket: Mutex::new(bucket) }
    }

    fn allow(&self, now: Instant) -> bool {
        let mut bucket = self.bucket.lock();
        let passed = now.saturating_duration_since(bucket.filled).as_secs_f64();
        let rate = f64::from(self.per_second);
        bucket.tokens = (bucket.tokens + passed * rate).min(rate * LOG_BURST);
        bucket.filled = now;
        if bucket.tokens < 1.0 {
            bucket.dropped += 1;
            bucket.uncounted += 1;
            return false;
        }
        bucket.tokens -= 1.0;
        true
    }

    fn take_dropped(&self) -> u64 {
        std::mem::take(&mut self.bucket.lock().dropped)
    }

    pub(super) fn take_uncounted(&self) -> u64 {
        std::mem::take(&mut self.bucket.lock().uncounted)
    }
}

/// Bounds the linear memories of an instance, taken together.
#[derive(Debug)]
pub(super) struct MemoryLimiter {
    pub(super) limit: usize,
    used: usize,
    /// Whether a memory was ever refused room.
    pub(super) refused: bool,
}

impl MemoryLimiter {
    /// Bytes of all memories.
    pub(super) fn used(&self) -> usize {
        self.used
    }
}

/// Table elements an instance may have per table; far more than any toolchain
/// emits, and little memory.
const TABLE_LIMIT: usize = 1 << 20;

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        let used = self.used.saturating_add(desired.saturating_sub(current));
        if used > self.limit {
            self.refused = true;
            return Ok(false);
        }
        self.used = used;
        Ok(true)
    }

    fn table_growing(
        &mut self,
        _current: usize,
        desired: usize,
        _maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        Ok(desired <= TABLE_LIMIT)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn memories_are_bounded_together() {
        let mut limiter = MemoryLimiter { limit: 100, used: 0, refused: false };
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert!(!limiter.refused);
        assert!(!limiter.memory_growing(60, 61, None).unwrap());
        assert!(limiter.refused);
    }

    #[test]
    fn lines_past_the_rate_are_counted() {
        let rate = LogRate::new(20);
        let start = rate.bucket.lock().filled;
        assert_eq!((0..150).filter(|_| rate.allow(start)).count(), 100);
        assert!(rate.allow(start + Duration::from_millis(60)));
        assert_eq!(rate.take_dropped(), 50);
        assert_eq!(rate.take_dropped(), 0);
        assert_eq!(rate.take_uncounted(), 50);
        assert!(!LogRate::new(0).allow(start), "0 is silence");
    }
}
