//! Runs controller modules: WebAssembly components in, outcomes out.
//!
//! In: the bytes of a component, then requests and the snapshots they may look
//! at. Out: a checked manifest, then outcomes or a [`Fault`]. Invariant: a
//! module reaches nothing but its snapshot and its log, within its memory limit
//! and its deadline; whatever it does costs one reconcile and one instance.
//!
//! ```text
//! bytes ─► inspect ─► compile (child process) ─► cache (mmap) ─► describe ─► Module
//!                                                                              │
//!                     request, snapshot ─► Instance ─► outcome        instantiate
//! ```

mod cache;
mod compile;
mod epoch;
mod error;
mod host;
mod inspect;
mod instance;
mod manifest;
mod measures;
mod pace;
mod wasi;

#[cfg(test)]
mod tests;

use std::{any::Any, path::PathBuf, sync::Arc};

use sha2::{Digest, Sha256};
use tokio::sync::Semaphore;
use wasmtime::component::{Component, HasSelf, Linker};

use crate::contract::{
    ControllerWorld, Level, ObjectRef, Query, ResourceInfo,
    generated::{ControllerPre, coxswain::controller},
};

pub use compile::{COMPILE_ARGUMENT, Compiler, compile_child_main};
pub use error::{EngineError, Fault, LoadError};
pub use inspect::check as check_module;
pub use instance::{Instance, Module};
pub use manifest::validate as validate_manifest;

use cache::ArtifactCache;
use epoch::Ticker;
use host::HostState;
use pace::Turns;

/// What a module may look at during one round of a reconcile.
///
/// An `Err` means a read that is not allowed or not yet possible; it ends the
/// reconcile as [`Fault::Snapshot`], whatever the module makes of it.
pub trait SnapshotHost: Send + 'static {
    /// All resources of the cluster.
    fn resources(&mut self) -> Vec<ResourceInfo>;
    /// A number that moves whenever [`resources`](Self::resources) would differ.
    fn resources_version(&mut self) -> u32;
    /// The object of this name.
    fn get(&mut self, resource: u32, namespace: &str, name: &str) -> Result<Option<ObjectRef>, String>;
    /// What a query finds.
    fn list(&mut self, query: &Query) -> Result<Vec<ObjectRef>, String>;
    /// The content of objects, as JSON.
    fn read(&mut self, refs: &[ObjectRef]) -> Result<Vec<String>, String>;
    /// Back to the concrete type, once the reconcile is over.
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
}

/// Where a module's log lines go.
pub trait LogSink: Send + Sync {
    /// Takes one line.
    fn log(&self, level: Level, message: &str);
}

pub use crate::limits::Limits;

/// What happens to a module on its way in, for whoever shows progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadStep {
    /// It is not in the cache and waits for a compiler.
    Waits,
    /// It is being compiled.
    Compiling,
}

/// How an engine works.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Where compiled modules are kept; none: nowhere, each start compiles.
    pub cache_dir: Option<PathBuf>,
    /// Who compiles.
    pub compiler: Compiler,
    /// Limits of instances, unless [`Module::with_limits`] gives others.
    pub limits: Limits,
}

impl Default for EngineConfig {
    fn default() -> Self {
        Self { cache_dir: cache::default_dir(), compiler: Compiler::detect(), limits: Limits::default() }
    }
}

/// Loads modules. One per process is enough.
pub struct Engine {
    wasm: wasmtime::Engine,
    linker: Linker<HostState>,
    cache: Option<ArtifactCache>,
    compiler: Compiler,
    /// Compilers at work at once: each takes a processor and much memory.
    compilers: Semaphore,
    limits: Limits,
    ticker: Ticker,
    /// Turns of calls that take long.
    turns: Arc<Turns>,
}

impl Engine {
    /// Sets an engine up. A cache directory that cannot be used is reported in
    /// the log and done without.
    pub fn new(config: EngineConfig) -> Result<Arc<Self>, EngineError> {
        let wasm = compile::wasm_engine().map_err(EngineError::Setup)?;
        let linker = link(&wasm).map_err(EngineError::Setup)?;
        let cache = config.cache_dir.and_then(|dir| match ArtifactCache::open(&dir, &wasm) {
            Ok(cache) => Some(cache),
            Err(error) => {
                tracing::warn!(dir = %dir.display(), %error, "no cache of compiled modules: every start will compile them");
                None
            }
        });
        let ticker = Ticker::start(&wasm).map_err(EngineError::Ticker)?;
        let processors = std::thread::available_parallelism().map_or(2, usize::from);
        let (compilers, turns) = (Semaphore::new(processors), Turns::of(processors));
        let (compiler, limits) = (config.compiler, config.limits);
        Ok(Arc::new(Self { wasm, linker, cache, compiler, compilers, limits, ticker, turns }))
    }

    /// Has calls that take long go on without pauses for others' sake: the
    /// process is about to end, and waits for them.
    pub fn hurry(&self) {
        self.turns.hurry();
    }

    /// Checks, compiles and describes a module. What it costs is time, not
    /// memory: compiling is done elsewhere and the result mapped from disk.
    pub async fn load(self: &Arc<Self>, bytes: Vec<u8>) -> Result<Module, LoadError> {
        self.load_observed(bytes, |_| {}).await
    }

    /// The same, and tells what it is at if that takes long.
    pub async fn load_observed(
        self: &Arc<Self>,
        bytes: Vec<u8>,
        observe: impl Fn(LoadStep),
    ) -> Result<Module, LoadError> {
        inspect::check(&bytes)?;
        let hash: Arc<str> = hex(&Sha256::digest(&bytes)).into();
        let component = self.compiled(bytes, &hash, observe).await?;
        self.describe(component, hash).await
    }

    async fn describe(self: &Arc<Self>, component: Component, hash: Arc<str>) -> Result<Module, LoadError> {
        let engine = self.clone();
        let work = tokio::task::spawn_blocking(move || {
            let pre =
                engine.linker.instantiate_pre(&component).map_err(|e| LoadError::Contract(one_line(&e)))?;
            let pre = ControllerPre::new(pre).map_err(|e| LoadError::Contract(one_line(&e)))?;
            let limits = engine.limits;
            Module::describe(engine, pre, hash, limits)
        });
        work.await.map_err(|e| LoadError::Compile(format!("the loading thread failed: {e}")))?
    }

    /// A module that was loaded before, by the hash of its content.
    ///
    /// # Errors
    ///
    /// Its compiled form is not in the cache any more.
    pub async fn load_kept(self: &Arc<Self>, hash: &str) -> Result<Module, LoadError> {
        let cached = self.cache.as_ref().and_then(|cache| cache.get(&self.wasm, hash));
        let component = cached.ok_or_else(|| LoadError::NotKept(hash.to_owned()))?;
        self.describe(component, hash.into()).await
    }

    async fn compiled(
        &self,
        bytes: Vec<u8>,
        hash: &str,
        observe: impl Fn(LoadStep),
    ) -> Result<Component, LoadError> {
        let cached = || self.cache.as_ref()?.get(&self.wasm, hash);
        if let Some(component) = cached() {
            return Ok(component);
        }
        observe(LoadStep::Waits);
        let _compiler = self.compilers.acquire().await;
        observe(LoadStep::Compiling);
        let Some(cache) = &self.cache else {
            let artifact = self.compiler.to_bytes(&self.wasm, bytes).await?;
            return cache::from_own_bytes(&self.wasm, &artifact)
                .map_err(|e| LoadError::Compile(one_line(&e)));
        };
        // Another file of the same content may have been compiled meanwhile.
        if let Some(component) = cached() {
            return Ok(component);
        }
        let artifact = self.compiler.to_bytes(&self.wasm, bytes).await?;
        match cache.put(&self.wasm, hash, &artifact) {
            Ok(component) => Ok(component),
            Err(error) => {
                tracing::warn!(%error, "a compiled module could not be cached");
                cache::from_own_bytes(&self.wasm, &artifact).map_err(|e| LoadError::Compile(one_line(&e)))
            }
        }
    }
}

/// Everything a module may import.
fn link(engine: &wasmtime::Engine) -> wasmtime::Result<Linker<HostState>> {
    let mut linker = Linker::new(engine);
    ControllerWorld::add_to_linker::<_, HasSelf<_>>(&mut linker, |state: &mut HostState| state)?;
    wasi::add_to_linker(&mut linker)?;
    Ok(linker)
}

/// The first digits of a module's hash, for people.
pub fn short(hash: &str) -> &str {
    hash.get(..12).unwrap_or(hash)
}

/// An error and its causes, in one line.
fn one_line(error: &wasmtime::Error) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// The smallest component that passes [`check_module`]; its last byte is `mark`.
#[cfg(test)]
pub(crate) fn minimal_module(mark: u8) -> Vec<u8> {
    inspect::tests::minimal_module(mark)
}

// The world imports these for their types alone.
impl controller::types::Host for HostState {}
impl controller::manifest::Host for HostState {}
impl controller::reconcile::Host for HostState {}
