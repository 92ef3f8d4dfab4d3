//! A loaded module, and a running copy of it.
//!
//! In: requests, each with the snapshot it may look at. Out: outcomes, or the
//! [`Fault`] that kept the module from one. Invariant: an instance that faulted
//! is never called again.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use parking_lot::Mutex;
use wasmtime::{Store, Trap, UpdateDeadline, WasmBacktrace};
use wasmtime_wasi::I32Exit;

use super::{
    Engine, Fault, Limits, LoadError, LogSink, SnapshotHost,
    host::{HostState, LogRate},
    manifest, one_line,
    pace::Pace,
};
use crate::contract::{
    ControllerWorld, Level, Manifest, ObjectRef, Outcome, Query, Request, ResourceInfo, Timestamp,
    generated::ControllerPre,
};

/// A checked module, ready to be instantiated. Cheap to clone.
#[derive(Clone)]
pub struct Module {
    engine: Arc<Engine>,
    pre: ControllerPre<HostState>,
    manifest: Arc<Manifest>,
    hash: Arc<str>,
    limits: Limits,
    log_rate: Arc<LogRate>,
}

impl Module {
    /// Where its compiled code is, mapped for as long as the module is.
    pub(crate) fn image(&self) -> std::ops::Range<usize> {
        let image = self.pre.instance_pre().component().image_range();
        image.start.addr()..image.end.addr()
    }

    /// Asks a compiled module what it is. Blocking.
    pub(super) fn describe(
        engine: Arc<Engine>,
        pre: ControllerPre<HostState>,
        hash: Arc<str>,
        limits: Limits,
    ) -> Result<Self, LoadError> {
        let nothing = Manifest::blank("");
        let log_rate = Arc::new(LogRate::new(limits.log_lines));
        let module = Self { engine, pre, manifest: Arc::new(nothing), hash, limits, log_rate };
        let log = Arc::new(DescribeLog::default());
        let failed = |fault| LoadError::Describe { fault, lines: log.last() };
        let mut instance = module.start(Some(log.clone())).map_err(|(error, fault)| {
            // Whatever is no trap is a mismatch of types.
            let ran = error.is::<Trap>() || error.is::<I32Exit>() || !matches!(fault, Fault::Trap(_));
            if ran { failed(fault) } else { LoadError::Contract(one_line(&error)) }
        })?;
        let answer = instance.call(
            Timestamp { seconds: 0, millis: 0 },
            (0, 0),
            Box::new(NoCluster),
            log.clone(),
            |world, store| world.call_describe(store),
        );
        let described = answer.0.map_err(failed)?;
        manifest::validate(&described).map_err(LoadError::Manifest)?;
        Ok(Self { manifest: Arc::new(described), ..module })
    }

    /// What the module says about itself.
    pub fn manifest(&self) -> &Arc<Manifest> {
        &self.manifest
    }

    /// SHA-256 of the module's bytes, in hexadecimal.
    pub fn hash(&self) -> &str {
        &self.hash
    }

    /// Limits of its instances.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The same module under other limits.
    #[must_use]
    pub fn with_limits(self, limits: Limits) -> Self {
        let log_rate = Arc::new(LogRate::new(limits.log_lines));
        Self { limits, log_rate, ..self }
    }

    /// Log lines dropped since this was last asked, over all instances.
    pub fn take_dropped_lines(&self) -> u64 {
        self.log_rate.take_uncounted()
    }

    /// A fresh instance; takes microseconds. A module that runs code of its own
    /// when instantiated does so here.
    pub fn instantiate(&self) -> Result<Instance, Fault> {
        self.start(None).map_err(|(_, fault)| fault)
    }

    fn start(&self, log: Option<Arc<dyn LogSink>>) -> Result<Instance, (wasmtime::Error, Fault)> {
        let pace = Pace::new(self.engine.ticker.ticks(), self.engine.turns.clone());
        let state = HostState::new(self.limits.memory, self.log_rate.clone(), pace);
        let mut store = Store::new(&self.engine.wasm, state);
        store.limiter(|state| &mut state.memory);
        // What a module hands over in one call is bounded like what it may hold.
        store.set_hostcall_fuel(self.limits.memory);
        let deadline = self.limits.deadline + self.limits.first_call;
        store.epoch_deadline_callback(|mut context| match context.data_mut().pace.may_go_on() {
            true => Ok(UpdateDeadline::Continue(1)),
            false => Err(Trap::Interrupt.into()),
        });
        store.data().log.direct(log);
        let running = self.engine.ticker.running();
        let first = store.data_mut().pace.begin(deadline);
        store.set_epoch_deadline(first);
        let world = self.pre.instantiate(&mut store);
        store.data_mut().pace.end();
        store.data().log.direct(None);
        drop(running);
        match world {
            Ok(world) => {
                let (engine, limits) = (self.engine.clone(), self.limits);
                Ok(Instance {
                    engine,
                    store,
                    world,
                    limits,
                    spent: Duration::ZERO,
                    paused: Duration::ZERO,
                    called: false,
                })
            }
            Err(error) => {
                let fault = classify(&error, store.data(), deadline);
                Err((error, fault))
            }
        }
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Module")
            .field("name", &self.manifest.name)
            .field("hash", &self.hash)
            .finish_non_exhaustive()
    }
}

/// One running copy of a module.
pub struct Instance {
    engine: Arc<Engine>,
    store: Store<HostState>,
    world: ControllerWorld,
    limits: Limits,
    spent: Duration,
    paused: Duration,
    called: bool,
}

impl Instance {
    /// Says how much of its deadline earlier rounds of the same reconcile took.
    pub fn has_spent(&mut self, spent: Duration) {
        self.spent = spent;
    }

    /// Asks the module what is to be done. Blocking, for up to the deadline: to be
    /// called on a compute thread. The snapshot comes back whatever happens. After
    /// a fault the instance must be discarded.
    pub fn reconcile(
        &mut self,
        request: &Request,
        snapshot: Box<dyn SnapshotHost>,
        log: Arc<dyn LogSink>,
    ) -> (Result<Outcome, Fault>, Box<dyn SnapshotHost>) {
        let (answer, snapshot) = self.call(request.now, request.seed, snapshot, log, |world, store| {
            world.call_reconcile(store, request)
        });
        (answer.map(|outcome| outcome.unwrap_or_else(Outcome::Retry)), snapshot)
    }

    fn call<T>(
        &mut self,
        now: Timestamp,
        seed: (u32, u32),
        snapshot: Box<dyn SnapshotHost>,
        log: Arc<dyn LogSink>,
        function: impl FnOnce(&ControllerWorld, &mut Store<HostState>) -> wasmtime::Result<T>,
    ) -> (Result<T, Fault>, Box<dyn SnapshotHost>) {
        let mut deadline = self.limits.deadline;
        if !std::mem::replace(&mut self.called, true) {
            deadline += self.limits.first_call;
        }
        let state = self.store.data_mut();
        state.refused = None;
        state.memory.refused = false;
        state.snapshot = Some(snapshot);
        state.log.direct(Some(log));
        state.world.set(now, seed);
        let left = deadline.saturating_sub(std::mem::take(&mut self.spent));

        let running = self.engine.ticker.running();
        let first = self.store.data_mut().pace.begin(left);
        self.store.set_epoch_deadline(first);
        let answer = function(&self.world, &mut self.store);
        drop(running);

        let state = self.store.data_mut();
        self.paused = state.pace.end();
        state.log.direct(None);
        let answer = match (state.refused.take(), answer) {
            (Some(reason), _) => Err(Fault::Snapshot(reason)),
            (None, Ok(answer)) => Ok(answer),
            (None, Err(error)) => Err(classify(&error, state, deadline)),
        };
        // Only `call` puts a snapshot in or takes it out.
        let snapshot = state.snapshot.take().unwrap_or_else(|| Box::new(NoCluster));
        (answer, snapshot)
    }

    /// How long the last call was kept from computing, for others' sake.
    pub fn paused(&self) -> Duration {
        self.paused
    }

    /// Bytes of linear memory in use.
    pub fn memory(&self) -> usize {
        self.store.data().memory.used()
    }
}

/// Tells faults apart by the type of what wasmtime raised.
fn classify(error: &wasmtime::Error, state: &HostState, deadline: Duration) -> Fault {
    match error.downcast_ref::<Trap>() {
        Some(Trap::Interrupt) => return Fault::Deadline(deadline),
        // A module whose memory was refused room ends itself in its own way.
        _ if state.memory.refused => return Fault::Memory { limit: state.memory.limit },
        Some(trap) => {
            let mut text = trap.to_string();
            if let Some(place) = error.downcast_ref::<WasmBacktrace>().and_then(where_it_happened) {
                text.push_str(" in ");
                text.push_str(&place);
            }
            return Fault::Trap(text);
        }
        None => {}
    }
    match error.downcast_ref::<I32Exit>() {
        Some(exit) => Fault::Trap(format!("it called exit({})", exit.0)),
        None => Fault::Trap(one_line(error)),
    }
}

/// The innermost named functions of a backtrace.
fn where_it_happened(backtrace: &WasmBacktrace) -> Option<String> {
    let names: Vec<_> = backtrace.frames().iter().filter_map(|frame| frame.func_name()).take(4).collect();
    (!names.is_empty()).then(|| names.join(" < "))
}

/// What `describe` sees: no cluster.
struct NoCluster;

impl SnapshotHost for NoCluster {
    fn resources(&mut self) -> Vec<ResourceInfo> {
        Vec::new()
    }

    fn resources_version(&mut self) -> u32 {
        0
    }

    fn get(&mut self, _: u32, _: &str, _: &str) -> Result<Option<ObjectRef>, String> {
        Err("nothing can be read while a module describes itself".to_owned())
    }

    fn list(&mut self, _: &Query) -> Result<Vec<ObjectRef>, String> {
        Err("nothing can be read while a module describes itself".to_owned())
    }

    fn read(&mut self, _: &[ObjectRef]) -> Result<Vec<String>, String> {
        Err("nothing can be read while a module describes itself".to_owned())
    }

    fn into_any(self: Box<Self>) -> Box<dyn std::any::Any + Send> {
        self
    }
}

/// Where lines go that a module writes while it describes itself. The last ones
/// are kept, since they may say why it fails.
#[derive(Default)]
struct DescribeLog(Mutex<VecDeque<String>>);

/// Lines that are kept.
const LAST_WORDS: usize = 20;

impl DescribeLog {
    fn last(&self) -> Vec<String> {
        self.0.lock().iter().cloned().collect()
    }
}

impl LogSink for DescribeLog {
    fn log(&self, level: Level, message: &str) {
        for line in message.lines().filter(|line| !line.trim().is_empty()) {
            let mut lines = self.0.lock();
            if lines.len() == LAST_WORDS {
                lines.pop_front();
            }
            lines.push_back(line.trim_end().to_owned());
        }
        match level {
            Level::Debug | Level::Info => tracing::debug!("while describing itself: {message}"),
            Level::Warn | Level::Error => tracing::warn!("while describing itself: {message}"),
        }
    }
}
