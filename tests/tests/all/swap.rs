//! A controller is swapped while it works.

use std::{
    collections::HashSet,
    sync::{Arc, atomic::Ordering, mpsc},
    time::{Duration, Instant},
};

use coxswain::{
    controller::Canary,
    engine::{Engine, EngineConfig},
};
use coxswain_localcluster::{Target, WatchEvent, rest::options::ListOptions};
use coxswain_tests::{
    Bed, deployment, module, rebuilt,
    settled::{AtWork, CONTROLLER},
    text,
};

const CONTROLLERS: &[&str] =
    &["deployment-controller", "replicaset-controller", "garbage-collector-controller"];

/// Counts pods that come and go, until asked.
struct Counter {
    stop: tokio::sync::oneshot::Sender<()>,
    counted: tokio::task::JoinHandle<(usize, usize)>,
}

impl Counter {
    fn start(bed: &Bed) -> anyhow::Result<Self> {
        let pods = Target::new("v1", "pods").in_namespace("default");
        let options = ListOptions { watch: true, ..ListOptions::default() };
        let mut watch = bed.api().watch(&pods, &options).map_err(|s| anyhow::anyhow!(s.message))?;
        let (stop, mut stopped) = tokio::sync::oneshot::channel();
        let counted = tokio::spawn(async move {
            let (mut created, mut deleted) = (HashSet::new(), 0);
            loop {
                let event = tokio::select! {
                    // What has come already counts.
                    biased;
                    event = watch.next() => event,
                    _ = &mut stopped => break,
                };
                match event {
                    Some(WatchEvent::Added(pod)) => {
                        created.insert(text(&pod["metadata"]["uid"]).to_owned());
                    }
                    Some(WatchEvent::Deleted(_)) => deleted += 1,
                    Some(_) => {}
                    None => break,
                }
            }
            (created.len(), deleted)
        });
        Ok(Self { stop, counted })
    }

    /// Pods created and deleted.
    async fn stop(self) -> anyhow::Result<(usize, usize)> {
        // Whoever creates one too many may do so late.
        tokio::time::sleep(Duration::from_secs(2)).await;
        let _ = self.stop.send(());
        Ok(self.counted.await?)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hundred_swaps_under_a_scale_up_lose_and_double_nothing() -> anyhow::Result<()> {
    const PODS: usize = 2_000;
    const SWAPS: u64 = 100;
    let modules: anyhow::Result<Vec<_>> = CONTROLLERS.iter().map(|name| Ok((*name, module(name)?))).collect();
    // Some fifty pods a second, so that the scale-up lasts as long as the swaps.
    let bed = Bed::start_with(modules?, |config| (config.qps, config.burst) = (50.0, 50)).await?;
    let original = module("replicaset-controller")?;
    // Few builds, each another than the one before: compiled once, and then from the cache.
    let builds: Vec<_> = (0..4).map(|n| rebuilt(&original, &n.to_string())).collect();
    let counter = Counter::start(&bed)?;
    bed.create("deployments", &deployment("default", "web", PODS as u32))?;
    let start = Instant::now();
    let mut pods = 0;
    for round in 1..=SWAPS {
        bed.install("replicaset-controller", &builds[round as usize % builds.len()])?;
        bed.until("swapped", Duration::from_secs(60), async |bed| {
            Ok(bed.manager.controller("replicaset-controller").is_some_and(|c| c.status().swaps >= round))
        })
        .await?;
        if round == SWAPS / 2 {
            pods = bed.list("v1", "pods", "default").await?.len();
        }
    }
    let took = start.elapsed();
    println!("{SWAPS} swaps in {took:?}; {pods} of {PODS} pods after half of them");
    assert!(0 < pods && pods < PODS, "the swaps came while pods were created: {pods}");
    assert!(
        took < Duration::from_secs(120),
        "a hundred swaps in a minute, on a machine that is not busy: {took:?}"
    );
    bed.until("all ready", Duration::from_secs(120), async |bed| {
        Ok(bed
            .get("apps/v1", "deployments", "default", "web")
            .is_some_and(|d| d["status"]["readyReplicas"] == PODS))
    })
    .await?;
    assert_eq!(counter.stop().await?, (PODS, 0), "pods created and deleted");
    let status = bed.manager.controller("replicaset-controller").unwrap().status();
    assert_eq!((status.faults, status.swaps, status.rollbacks), (0, SWAPS, 0), "{status:?}");
    // And down again, with one more swap in the middle.
    let counter = Counter::start(&bed)?;
    let target = Target::new("apps/v1", "deployments").in_namespace("default").named("web");
    let mut web = bed.api().get(&target).map_err(|s| anyhow::anyhow!(s.message))?;
    web["spec"]["replicas"] = (PODS - 200).into();
    bed.api().update(&target, &web).map_err(|s| anyhow::anyhow!(s.message))?;
    bed.install("replicaset-controller", &builds[3])?;
    bed.until("scaled down", Duration::from_secs(60), async |bed| {
        Ok(bed.list("v1", "pods", "default").await?.len() == PODS - 200)
    })
    .await?;
    let (_, deleted) = counter.stop().await?;
    assert_eq!(deleted, 200, "pods deleted");
    bed.stop().await;
    Ok(())
}

/// How long it may take; a lock that is waited for in a circle is waited for without an end.
const ENDS: Duration = Duration::from_secs(60);

#[test]
fn keys_find_their_version_while_versions_change() -> anyhow::Result<()> {
    const SWAPS: u32 = 300;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let engine = Engine::new(EngineConfig::default())?;
    let at_work =
        runtime.block_on(async { AtWork::start(engine.load(module(CONTROLLER)?).await?, 500, 2).await })?;
    let (done, swapped) = mpsc::channel();
    let work = runtime.spawn(async move {
        let change = async {
            for n in 0..SWAPS {
                let next = Arc::new(at_work.version()?);
                if n % 3 == 0 {
                    let now = jiff::Timestamp::now();
                    at_work.controller.start_canary(&Canary::new(next.clone(), 50, now, now));
                }
                if n % 6 == 0 {
                    at_work.controller.end_canary();
                }
                at_work.controller.swap(next);
                tokio::task::yield_now().await;
            }
            anyhow::Ok(())
        };
        let looked_at = async {
            for _ in 0..20 {
                at_work.look_at_all().await?;
            }
            anyhow::Ok(())
        };
        tokio::try_join!(change, looked_at)?;
        at_work.look_at_all().await?;
        let counters = at_work.controller.counters();
        assert_eq!(counters.swaps.load(Ordering::Relaxed), u64::from(SWAPS));
        assert!(at_work.controller.canary().is_none());
        done.send(())?;
        at_work.stop().await
    });
    // Not in the runtime, whose threads may be the ones that wait.
    let ended = swapped.recv_timeout(ENDS);
    if ended.is_err() && !work.is_finished() {
        runtime.shutdown_background();
        anyhow::bail!("the controller stands still");
    }
    runtime.block_on(work)?
}
