//! A controller is swapped while it works.

use std::{collections::HashSet, time::Duration};

use coxswain_localcluster::{Target, WatchEvent, rest::options::ListOptions};
use coxswain_tests::{Bed, deployment, module, rebuilt, text};

const CONTROLLERS: &[&str] =
    &["deployment-controller", "replicaset-controller", "garbage-collector-controller"];

#[tokio::test(flavor = "multi_thread")]
async fn a_swap_in_the_middle_of_a_scale_up_loses_and_doubles_no_pod() -> anyhow::Result<()> {
    const PODS: usize = 500;
    let bed = Bed::start(CONTROLLERS).await?;
    let original = module("replicaset-controller")?;
    let pods = Target::new("v1", "pods").in_namespace("default");
    let options = ListOptions { watch: true, ..ListOptions::default() };
    let mut watch = bed.api().watch(&pods, &options).map_err(|s| anyhow::anyhow!(s.message))?;
    let counted = tokio::spawn(async move {
        let (mut created, mut deleted) = (HashSet::new(), 0);
        while let Ok(Some(event)) = tokio::time::timeout(Duration::from_secs(3), watch.next()).await {
            match event {
                WatchEvent::Added(pod) => {
                    created.insert(text(&pod["metadata"]["uid"]).to_owned());
                }
                WatchEvent::Deleted(_) => deleted += 1,
                _ => {}
            }
        }
        (created.len(), deleted)
    });

    bed.create("deployments", &deployment("default", "web", PODS as u32))?;
    for round in 1..=5 {
        let far = PODS * round / 6;
        bed.until("more pods", Duration::from_secs(60), async |bed| {
            Ok(bed.list("v1", "pods", "default").await?.len() >= far)
        })
        .await?;
        bed.install("replicaset-controller", &rebuilt(&original, &round.to_string()))?;
        let swapped = |bed: &Bed| {
            bed.manager.controller("replicaset-controller").is_some_and(|c| c.status().swaps >= round as u64)
        };
        bed.until("swapped", Duration::from_secs(30), async |bed| Ok(swapped(bed))).await?;
    }
    bed.until("all ready", Duration::from_secs(60), async |bed| {
        Ok(bed
            .get("apps/v1", "deployments", "default", "web")
            .is_some_and(|d| d["status"]["readyReplicas"] == PODS))
    })
    .await?;
    let (created, deleted) = counted.await?;
    assert_eq!((created, deleted), (PODS, 0), "pods created and deleted");
    let status = bed.manager.controller("replicaset-controller").unwrap().status();
    assert_eq!(status.faults, 0, "{status:?}");
    assert_eq!(status.no_op_writes, 0, "{status:?}");
    bed.stop().await;
    Ok(())
}
