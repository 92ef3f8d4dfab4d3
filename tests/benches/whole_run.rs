//! Whole runs: what the manager process costs for a real job.
//!
//! The cluster runs in this process, the manager in one of its own, so that its
//! CPU time and memory are its alone. Figures are printed, not judged.

use std::time::{Duration, Instant};

use anyhow::ensure;
use coxswain_localcluster::{
    Cluster, ClusterConfig, InProcess, Target,
    nodes::{Nodes, NodesConfig},
};
use coxswain_tests::{
    deployment,
    measured::{Manager, bench, until},
    text,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const PODS: usize = 5_000;
const OBJECTS: usize = 100_000;
/// Of the objects, those whose owner is deleted.
const DEPENDENTS: usize = 5_000;
/// What the figures of pods and of the garbage collector are about.
const THREE: &str = "deployment-controller,replicaset-controller,garbage-collector-controller";
/// After this, the manager has let go of what only its start needs.
const IDLE: Duration = Duration::from_secs(8);

fn main() -> anyhow::Result<()> {
    bench(run())
}

async fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::start(ClusterConfig::new(dir.path())).await?;
    let cancel = CancellationToken::new();
    let nodes = Nodes::start(
        InProcess::new(cluster.rest().clone(), "kubelet"),
        NodesConfig::default(),
        cancel.clone(),
    );
    nodes.add_count("node-", 50).await.map_err(|s| anyhow::anyhow!(s.message))?;
    idle(&cluster).await?;
    scale_up(&cluster).await?;
    collect(&cluster).await?;
    cancel.cancel();
    cluster.shutdown().await;
    Ok(())
}

/// All controllers, and nothing to do.
async fn idle(cluster: &Cluster) -> anyhow::Result<()> {
    let manager = Manager::start(cluster.kubeconfig_path(), "*")?;
    tokio::time::sleep(IDLE).await;
    println!(
        "manager, idle with all controllers: {:.1} MB resident, of it {:.1} MB not shared with files",
        manager.memory("VmRSS")?,
        manager.memory("RssAnon")?
    );
    Ok(())
}

/// A Deployment from nothing to all of its pods ready.
async fn scale_up(cluster: &Cluster) -> anyhow::Result<()> {
    let api = cluster.api();
    let target = Target::new("apps/v1", "deployments").in_namespace("default");
    let create = |name: &str, replicas: usize| -> anyhow::Result<()> {
        api.create(&target, &deployment("default", name, replicas as u32))
            .map(drop)
            .map_err(|s| anyhow::anyhow!(s.message))
    };
    let ready = |name: &str, replicas: usize| {
        api.get(&target.named(name)).is_ok_and(|d| d["status"]["readyReplicas"] == replicas)
    };
    create("first", 1)?;
    let start = Instant::now();
    let manager = Manager::start(cluster.kubeconfig_path(), THREE)?;
    until("the first pod is ready", async || Ok(ready("first", 1))).await?;
    println!("manager: process start to the first pod ready: {:.2} s", start.elapsed().as_secs_f64());
    tokio::time::sleep(IDLE).await;
    println!("manager, idle with three controllers: {:.1} MB resident", manager.memory("VmRSS")?);
    let before = manager.cpu()?;
    create("web", PODS)?;
    let wall = until("all pods are ready", async || Ok(ready("web", PODS))).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    println!(
        "Deployment of {PODS} pods: {:.2} s of the manager's CPU, {:.1} s in all, {:.1} MB resident at most",
        manager.cpu()? - before,
        wall.as_secs_f64(),
        manager.memory("VmHWM")?
    );
    Ok(())
}

/// Many objects, of which some lose their owner.
async fn collect(cluster: &Cluster) -> anyhow::Result<()> {
    let api = cluster.api();
    let target = Target::new("v1", "configmaps").in_namespace("default");
    let make = |name: String, owners: Value| -> anyhow::Result<Value> {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owners}});
        api.create(&target, &object).map_err(|s| anyhow::anyhow!(s.message))
    };
    let owner = |object: &Value| json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": object["metadata"]["name"], "uid": object["metadata"]["uid"]}]);
    let doomed = make("doomed".into(), json!([]))?;
    let kept = make("kept".into(), json!([]))?;
    ensure!(text(&doomed["metadata"]["uid"]) != text(&kept["metadata"]["uid"]));
    for n in 0..OBJECTS {
        make(format!("object-{n}"), owner(if n < DEPENDENTS { &doomed } else { &kept }))?;
    }
    let manager = Manager::start(cluster.kubeconfig_path(), THREE)?;
    // All have been looked at once the process has come to rest.
    let mut last = -1.0;
    let start = Instant::now();
    loop {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = manager.cpu()?;
        if (now - last).abs() < 0.03 && start.elapsed() > Duration::from_secs(4) {
            break;
        }
        last = now;
    }
    println!(
        "garbage collector over {OBJECTS} objects: {:.1} MB resident, {:.2} s of CPU to look at all of them",
        manager.memory("VmRSS")?,
        manager.cpu()?
    );
    let before = manager.cpu()?;
    let options = coxswain_localcluster::rest::options::DeleteOptions::default();
    api.delete(&target.named("doomed"), &options).map_err(|s| anyhow::anyhow!(s.message))?;
    let mut left = DEPENDENTS;
    let wall = until("all dependents are gone", async || {
        while left > 0 && api.get(&target.named(&format!("object-{}", left - 1))).is_err() {
            left -= 1;
        }
        Ok(left == 0)
    })
    .await?;
    println!(
        "a deleted owner of {DEPENDENTS}: its last dependent is gone after {:.1} s, {:.2} s of the manager's CPU",
        wall.as_secs_f64(),
        manager.cpu()? - before
    );
    Ok(())
}
