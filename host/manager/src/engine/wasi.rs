//! WASI 0.2 with nothing behind it, for languages that cannot do without.
//!
//! In: calls of WASI from a module. Out: the time and the seed of the request,
//! and lines for the log. Invariant: no file, no network, no environment, and no
//! call that waits: time passes at once for whoever sleeps.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use wasmtime::component::{HasSelf, Linker, Resource};
use wasmtime_wasi::{
    HostWallClock, WasiCtx, WasiCtxBuilder, async_trait,
    cli::{IsTerminal, StdoutStream},
    p2::{
        DynPollable, OutputStream, Pollable, StreamResult,
        bindings::{clocks::monotonic_clock, random},
        subscribe,
    },
};

use super::host::{HostState, SharedLog};
use crate::contract::{Level, Timestamp};

/// What a read of the monotonic clock adds to it, in nanoseconds.
const TICK: u64 = 1_000;
/// Longest run of random bytes handed out at once.
const RANDOM_LIMIT: u64 = 16 << 20;

/// Adds WASI to what modules may import.
pub(super) fn add_to_linker(linker: &mut Linker<HostState>) -> wasmtime::Result<()> {
    wasmtime_wasi::p2::add_to_linker_sync(linker)?;
    // The stock versions of these sleep on the machine's clock and draw from its
    // randomness.
    linker.allow_shadowing(true);
    monotonic_clock::add_to_linker::<_, HasSelf<_>>(linker, |state: &mut HostState| state)?;
    random::random::add_to_linker::<_, HasSelf<_>>(linker, |state: &mut HostState| state)?;
    random::insecure::add_to_linker::<_, HasSelf<_>>(linker, |state: &mut HostState| state)?;
    random::insecure_seed::add_to_linker::<_, HasSelf<_>>(linker, |state: &mut HostState| state)?;
    linker.allow_shadowing(false);
    Ok(())
}

/// A context that opens nothing.
pub(super) fn closed_context(world: &VirtualWorld, stdout: OutputLines, stderr: OutputLines) -> WasiCtx {
    WasiCtxBuilder::new()
        .wall_clock(world.clone())
        .stdout(stdout)
        .stderr(stderr)
        .allow_tcp(false)
        .allow_udp(false)
        .allow_ip_name_lookup(false)
        .build()
}

/// Time and randomness of one instance: functions of the requests it was given.
#[derive(Clone, Default)]
pub(super) struct VirtualWorld(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    wall_millis: u64,
    monotonic: u64,
    random: u64,
}

impl VirtualWorld {
    /// Sets time and seed to those of a request. The monotonic clock never goes
    /// back.
    pub(super) fn set(&self, now: Timestamp, seed: (u32, u32)) {
        let mut world = self.0.lock();
        world.wall_millis = u64::from(now.seconds) * 1000 + u64::from(now.millis);
        world.monotonic = world.monotonic.max(world.wall_millis * 1_000_000);
        world.random = u64::from(seed.0) << 32 | u64::from(seed.1);
    }

    fn tick(&self) -> u64 {
        let mut world = self.0.lock();
        world.monotonic = world.monotonic.saturating_add(TICK);
        world.monotonic
    }

    fn pass_to(&self, instant: u64) {
        let mut world = self.0.lock();
        world.monotonic = world.monotonic.max(instant);
    }

    /// SplitMix64. Recordings depend on it, so it must never be another.
    fn next(&self) -> u64 {
        let mut world = self.0.lock();
        world.random = world.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = world.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn bytes(&self, len: u64) -> wasmtime::Result<Vec<u8>> {
        if len > RANDOM_LIMIT {
            return Err(wasmtime::format_err!(
                "asked for {len} random bytes at once; {RANDOM_LIMIT} is the most"
            ));
        }
        let len = len as usize;
        let mut bytes = Vec::with_capacity(len + 7);
        while bytes.len() < len {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(len);
        Ok(bytes)
    }
}

impl HostWallClock for VirtualWorld {
    fn resolution(&self) -> std::time::Duration {
        std::time::Duration::from_millis(1)
    }

    fn now(&self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0.lock().wall_millis)
    }
}

impl monotonic_clock::Host for HostState {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.world.tick())
    }

    fn resolution(&mut self) -> wasmtime::Result<u64> {
        Ok(TICK)
    }

    fn subscribe_instant(&mut self, when: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let alarm = self.table.push(Alarm { world: self.world.clone(), when })?;
        subscribe(&mut self.table, alarm)
    }

    fn subscribe_duration(&mut self, duration: u64) -> wasmtime::Result<Resource<DynPollable>> {
        let when = self.world.tick().saturating_add(duration);
        self.subscribe_instant(when)
    }
}

/// Goes off at once, and time has passed.
struct Alarm {
    world: VirtualWorld,
    when: u64,
}

#[async_trait]
impl Pollable for Alarm {
    async fn ready(&mut self) {
        self.world.pass_to(self.when);
    }
}

impl random::random::Host for HostState {
    fn get_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.world.bytes(len)
    }

    fn get_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.world.next())
    }
}

impl random::insecure::Host for HostState {
    fn get_insecure_random_bytes(&mut self, len: u64) -> wasmtime::Result<Vec<u8>> {
        self.world.bytes(len)
    }

    fn get_insecure_random_u64(&mut self) -> wasmtime::Result<u64> {
        Ok(self.world.next())
    }
}

impl random::insecure_seed::Host for HostState {
    fn insecure_seed(&mut self) -> wasmtime::Result<(u64, u64)> {
        Ok((self.world.next(), self.world.next()))
    }
}

/// Turns what a module prints into lines of its log.
#[derive(Clone)]
pub(super) struct OutputLines {
    log: SharedLog,
    level: Level,
    partial: Arc<Mutex<Vec<u8>>>,
}

/// A line without an end is cut here.
const PARTIAL_LIMIT: usize = 8 << 10;

impl OutputLines {
    pub(super) fn new(log: SharedLog, level: Level) -> Self {
        Self { log, level, partial: Arc::default() }
    }

    fn take(&self, bytes: &[u8]) {
        let mut partial = self.partial.lock();
        for &byte in bytes {
            if byte != b'\n' {
                partial.push(byte);
            }
            if byte == b'\n' || partial.len() >= PARTIAL_LIMIT {
                let line = String::from_utf8_lossy(&partial);
                let line = line.trim_end();
                if !line.is_empty() {
                    self.log.line(self.level, line);
                }
                partial.clear();
            }
        }
    }
}

impl IsTerminal for OutputLines {
    fn is_terminal(&self) -> bool {
        false
    }
}

impl StdoutStream for OutputLines {
    fn async_stream(&self) -> Box<dyn tokio::io::AsyncWrite + Send + Sync> {
        Box::new(self.clone())
    }

    fn p2_stream(&self) -> Box<dyn OutputStream> {
        Box::new(self.clone())
    }
}

impl tokio::io::AsyncWrite for OutputLines {
    fn poll_write(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
        bytes: &[u8],
    ) -> std::task::Poll<std::io::Result<usize>> {
        self.take(bytes);
        std::task::Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }

    fn poll_shutdown(
        self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<std::io::Result<()>> {
        std::task::Poll::Ready(Ok(()))
    }
}

#[async_trait]
impl Pollable for OutputLines {
    async fn ready(&mut self) {}
}

impl OutputStream for OutputLines {
    fn write(&mut self, bytes: Bytes) -> StreamResult<()> {
        self.take(&bytes);
        Ok(())
    }

    fn flush(&mut self) -> StreamResult<()> {
        Ok(())
    }

    fn check_write(&mut self) -> StreamResult<usize> {
        Ok(64 << 10)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn randomness_is_a_function_of_the_seed() {
        let (one, other) = (VirtualWorld::default(), VirtualWorld::default());
        let now = Timestamp { seconds: 1, millis: 2 };
        one.set(now, (3, 4));
        other.set(now, (3, 4));
        assert_eq!(one.bytes(19).unwrap(), other.bytes(19).unwrap());
        other.set(now, (3, 5));
        one.set(now, (3, 4));
        assert_ne!(one.bytes(19).unwrap(), other.bytes(19).unwrap());
        assert!(one.bytes(RANDOM_LIMIT + 1).is_err());
        // The first outputs of SplitMix64 for the seed 0, as published.
        one.set(now, (0, 0));
        assert_eq!((one.next(), one.next()), (0xe220_a839_7b1d_cdaf, 0x6e78_9e6a_a1b9_65f4));
    }

    #[test]
    fn monotonic_time_moves_with_reads_and_never_back() {
        let world = VirtualWorld::default();
        world.set(Timestamp { seconds: 100, millis: 0 }, (0, 0));
        let first = world.tick();
        assert_eq!(first, 100_000_000_000 + TICK);
        world.pass_to(first + 5);
        world.set(Timestamp { seconds: 50, millis: 0 }, (0, 0));
        assert_eq!(world.tick(), first + 5 + TICK);
        assert_eq!(HostWallClock::now(&world).as_secs(), 50);
    }
}
