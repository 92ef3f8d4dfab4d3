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

/// How long each measurement takes.
const SPAN: Duration = Duration::from_millis(500);
/// Pairs of measurements; the median pair counts.
const PAIRS: usize = 21;
/// Pods altogether: as many as the guest remembers.
const PODS: usize = 20_000;

/// Reconciles a second.
async fn rate(at_work: &AtWork) -> anyhow::Result<f64> {
    let (begun, before) = (Instant::now(), at_work.reconciles());
    while begun.elapsed() < SPAN {
        at_work.look_at_all().await?;
    }
    Ok((at_work.reconciles() - before) as f64 / begun.elapsed().as_secs_f64())
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
            let rate = rate(&at_work).await;
            at_work.controller.stop_observing(&observer);
            rate
        };
        recorded().await?;
        let mut pairs = Vec::new();
        for _ in 0..PAIRS {
            let without = rate(&at_work).await?;
            pairs.push((recorded().await? / without, without));
        }
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (ratio, without) = pairs[PAIRS / 2];
        at_work.stop().await?;
        recording.finish();
        let status = recording.status();
        println!(
            "{sets} ReplicaSets of {size} pods, nothing to do: {without:.0} reconciles a second; recorded: {:.1} % less ({} recorded, {} not)",
            (1.0 - ratio) * 100.0,
            status.reconciles,
            status.dropped
        );
    }
    Ok(())
}

fn main() -> anyhow::Result<()> {
    bench(measure())
}
