//! Swapping: how long a swap keeps its own controller, and whether others notice.
//!
//! Everything runs in this process. Figures are printed, not judged.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use anyhow::ensure;
use coxswain_tests::{Bed, deployment, measured::bench, module, modules, rebuilt, start_manager, text};

const SWAPS: u64 = 30;
const CONTROLLERS: &[&str] =
    &["deployment-controller", "replicaset-controller", "garbage-collector-controller"];

fn main() -> anyhow::Result<()> {
    bench(async {
        start().await?;
        swap().await
    })
}

/// All modules from the cache.
async fn start() -> anyhow::Result<()> {
    let modules = modules()?;
    let all = modules.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let bed = Bed::start_with(all, |_| {}).await?;
    let begun = Instant::now();
    let again = start_manager(bed.cluster.kubeconfig_path(), &bed.controllers_dir).await?;
    again.first_load().await;
    let loaded = begun.elapsed();
    again.ready().await;
    println!(
        "{} modules, compiled before: loaded after {loaded:.0?}, ready after {:.0?}",
        modules.len(),
        begun.elapsed()
    );
    again.shutdown().await;
    bed.stop().await;
    Ok(())
}

/// Reconciles of one controller, again and again: the longest time between a
/// change and its effect.
async fn latencies(bed: &Bed, prefix: &str, stop: &AtomicBool) -> anyhow::Result<Vec<Duration>> {
    let mut all = Vec::new();
    // A namespace of their own, so that the looking takes no longer from one measurement to the next.
    bed.create(
        "namespaces",
        &serde_json::json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": prefix}}),
    )?;
    while !stop.load(Ordering::Relaxed) {
        let name = format!("{prefix}-{}", all.len());
        let begun = Instant::now();
        bed.create("deployments", &deployment(prefix, &name, 0))?;
        // The first thing that its controller does is to make a ReplicaSet.
        while !bed
            .list("apps/v1", "replicasets", prefix)
            .await?
            .iter()
            .any(|set| text(&set["metadata"]["labels"]["app"]) == name)
        {
            ensure!(begun.elapsed() < Duration::from_secs(60), "{name}: nothing happens");
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        all.push(begun.elapsed());
    }
    all.sort();
    Ok(all)
}

async fn swap() -> anyhow::Result<()> {
    let bed = Arc::new(Bed::start(CONTROLLERS).await?);
    // Two builds of each, compiled before they count.
    let builds = |name: &str| -> anyhow::Result<Vec<Vec<u8>>> {
        let original = module(name)?;
        Ok((0..2).map(|n| rebuilt(&original, &n.to_string())).collect())
    };
    let many = builds("replicaset-controller")?;
    let quiet = {
        let (stop, bed) = (Arc::new(AtomicBool::new(false)), bed.clone());
        let stopping = stop.clone();
        let task = tokio::spawn(async move { latencies(&bed, "quiet", &stopping).await });
        tokio::time::sleep(Duration::from_secs(5)).await;
        stop.store(true, Ordering::Relaxed);
        task.await??
    };
    let stop = Arc::new(AtomicBool::new(false));
    let (stopping, other) = (stop.clone(), bed.clone());
    let beside = tokio::spawn(async move { latencies(&other, "beside", &stopping).await });
    for round in 0..SWAPS {
        let before = swaps(&bed);
        bed.install("replicaset-controller", &many[round as usize % 2])?;
        bed.until("swapped", Duration::from_secs(60), async |bed| Ok(swaps(bed) > before)).await?;
    }
    stop.store(true, Ordering::Relaxed);
    let beside = beside.await??;
    let longest = bed.manager.controller("replicaset-controller").map(|c| c.status().longest_swap_micros);
    println!(
        "{SWAPS} swaps of a controller: the longest kept it for {:.2} ms",
        longest.unwrap_or_default() as f64 / 1000.0
    );
    let show = |all: &[Duration]| {
        format!("median {:.1?}, worst {:.1?} of {}", all[all.len() / 2], all[all.len() - 1], all.len())
    };
    println!("another controller meanwhile: {}; without swaps: {}", show(&beside), show(&quiet));
    if let Ok(bed) = Arc::try_unwrap(bed) {
        bed.stop().await;
    }
    Ok(())
}

fn swaps(bed: &Bed) -> u64 {
    bed.manager.controller("replicaset-controller").map_or(0, |c| c.status().swaps)
}
