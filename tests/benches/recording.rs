//! What recording costs a controller's throughput.
//!
//! The replicaset controller as it is shipped, as the manager runs it, with many
//! keys that are all to be looked at and nothing to do for any: from the queue
//! through the component to what is counted; with and without somebody who records
//! it. Nothing is written, which would take longer than all the rest.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use coxswain::{
    clock::SystemClock,
    controller::Observer,
    engine::{Engine, EngineConfig},
    recording::{RecordConfig, RecordingWriter},
};
use coxswain_tests::{
    measured::bench,
    module,
    settled::{AtWork, CONTROLLER},
};
use rustix::time::{ClockId, clock_gettime};

/// How long each measurement takes.
const SPAN: Duration = Duration::from_millis(500);
/// Pairs of measurements; the median pair counts.
const PAIRS: usize = 21;
/// Pods altogether: as many as the guest remembers.
const PODS: usize = 20_000;

/// What reconciles took, each.
#[derive(Clone, Copy)]
struct Cost {
    micros: f64,
    /// Of all threads.
    cpu_micros: f64,
}

impl Cost {
    async fn of(at_work: &AtWork) -> anyhow::Result<Self> {
        let (begun, cpu, before) = (Instant::now(), cpu(), at_work.reconciles());
        while begun.elapsed() < SPAN {
            at_work.look_at_all().await?;
        }
        let each = |time: Duration| time.as_secs_f64() * 1e6 / (at_work.reconciles() - before) as f64;
        Ok(Self { micros: each(begun.elapsed()), cpu_micros: each(self::cpu() - cpu) })
    }
}

/// Processor time of this process.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

async fn measure() -> anyhow::Result<()> {
    let engine = Engine::new(EngineConfig::default())?;
    for size in [5, 50, 500] {
        let sets = PODS / size;
        let at_work = AtWork::start(engine.load(module(CONTROLLER)?).await?, sets, size).await?;
        let dir = tempfile::tempdir()?;
        let config = RecordConfig { dir: dir.path().to_owned(), max_bytes: 256 << 20, sensitive: false };
        let recording =
            RecordingWriter::start(config, at_work.settled.registry.clone(), Arc::new(SystemClock))?;
        let observer: Arc<dyn Observer> = recording.observer();
        let recorded = async || {
            at_work.controller.observe(observer.clone());
            let cost = Cost::of(&at_work).await;
            at_work.controller.stop_observing(&observer);
            cost
        };
        recorded().await?;
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            pairs.push((Cost::of(&at_work).await?, recorded().await?));
        }
        at_work.stop().await?;
        recording.finish();
        let status = recording.status();
        println!(
            "{sets} ReplicaSets of {size} pods, nothing to do: {:.0} reconciles a second, {:.1} us of CPU each; recorded: {:.1} % fewer, {:.1} % more CPU ({} recorded, {} not)",
            1e6 / median(pairs.iter().map(|(without, _)| without.micros)),
            median(pairs.iter().map(|(without, _)| without.cpu_micros)),
            median(pairs.iter().map(|(without, with)| (1.0 - without.micros / with.micros) * 100.0)),
            median(pairs.iter().map(|(without, with)| (with.cpu_micros / without.cpu_micros - 1.0) * 100.0)),
            status.reconciles,
            status.dropped
        );
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    bench(measure())
}
