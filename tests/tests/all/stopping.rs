//! A manager that stops.

use anyhow::Context;
use coxswain_localcluster::{Target, faults::Rule};
use coxswain_tests::{Bed, LIMIT, deployment};
use serde_json::json;

/// Each would be decided upon with a chance of one half.
const SETS: u64 = 12;

/// What holds a key back is that its cache does not show its own writes yet. Stopping ends the wait, and must not
/// have the key decided upon with that cache: it would make the same pods again.
#[tokio::test(flavor = "multi_thread")]
async fn keys_whose_writes_are_not_seen_yet_are_left_to_the_next_one() -> anyhow::Result<()> {
    let bed = Bed::start(&["replicaset-controller"]).await?;
    let late = json!({"on": {"group": "", "resource": "pods"}, "action": {"type": "delayWatches", "milliseconds": 600_000}});
    bed.cluster.rest().faults().add(Rule::parse(late.to_string().as_bytes())?);
    for n in 0..SETS {
        let mut set = deployment("default", &format!("web-{n}"), 1);
        set["kind"] = "ReplicaSet".into();
        bed.create("replicasets", &set)?;
    }
    let pods = async |bed: &Bed| anyhow::Ok(bed.list("v1", "pods", "default").await?.len() as u64);
    bed.until("each has its pod", LIMIT, async |bed| Ok(pods(bed).await? == SETS)).await?;
    let controller = bed.manager.controller("replicaset-controller").context("it does not run")?;
    let woken = controller.queue().stats().adds;
    for n in 0..SETS {
        let name = format!("web-{n}");
        let set = Target::new("apps/v1", "replicasets").in_namespace("default").named(&name);
        let mut wanted = bed.api().get(&set).map_err(|status| anyhow::anyhow!(status.message))?;
        wanted["spec"]["replicas"] = 2.into();
        bed.api().update(&set, &wanted).map_err(|status| anyhow::anyhow!(status.message))?;
    }
    bed.until("all are due", LIMIT, async |_| Ok(controller.queue().stats().adds >= woken + SETS)).await?;
    bed.manager.shutdown().await;
    assert_eq!(pods(&bed).await?, SETS);
    bed.stop().await;
    Ok(())
}
