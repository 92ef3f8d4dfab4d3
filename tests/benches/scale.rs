//! Large clusters: what the manager process costs with all controllers, where there are many nodes, many pods behind
//! one service, many autoscalers, and many namespaces that go at once.
//!
//! The cluster runs in this process, the manager in one of its own. Figures are printed, not judged.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use coxswain_localcluster::{
    Cluster, ClusterConfig, InProcess, Target,
    nodes::{Nodes, NodesConfig},
    patch::PatchType,
    rest::options::DeleteOptions,
};
use coxswain_tests::{
    deployment,
    measured::{Manager, bench, until},
    text,
};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

const NODES: usize = 5_000;
const PODS: usize = 10_000;
const AUTOSCALERS: usize = 1_000;
const NAMESPACES: usize = 1_000;
/// How long something is watched that goes on for ever.
const WATCHED: Duration = Duration::from_secs(30);

fn main() -> anyhow::Result<()> {
    bench(run())
}

async fn run() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::start(ClusterConfig::new(dir.path())).await?;
    let cancel = CancellationToken::new();
    let kubelets = InProcess::new(cluster.rest().clone(), "kubelet");
    let nodes = Nodes::start(kubelets, NodesConfig::default(), cancel.clone());
    nodes.add_count("node-", NODES).await.map_err(|s| anyhow::anyhow!(s.message))?;
    let manager = Manager::start(cluster.kubeconfig_path(), "*")?;
    let api = cluster.api();
    heartbeats(&manager).await?;
    service(&manager, &api).await?;
    autoscalers(&manager, &api).await?;
    namespaces(&manager, &api).await?;
    cancel.cancel();
    drop(manager);
    cluster.shutdown().await;
    Ok(())
}

fn create(api: &InProcess, target: &Target<'_>, object: &Value) -> anyhow::Result<()> {
    api.create(target, object).map(drop).map_err(|s| anyhow::anyhow!(s.message))
}

async fn list(api: &InProcess, target: &Target<'_>) -> anyhow::Result<Vec<Value>> {
    Ok(api.list(target, "", "").await.map_err(|s| anyhow::anyhow!(s.message))?.0)
}

/// Waits until the manager does little more than before each second.
async fn rest(manager: &Manager) -> anyhow::Result<()> {
    let mut before = manager.cpu()?;
    loop {
        tokio::time::sleep(Duration::from_secs(3)).await;
        let now = manager.cpu()?;
        if now - before < 0.3 {
            return Ok(());
        }
        before = now;
    }
}

async fn share_of_a_core(manager: &Manager) -> anyhow::Result<f64> {
    let before = manager.cpu()?;
    tokio::time::sleep(WATCHED).await;
    Ok((manager.cpu()? - before) / WATCHED.as_secs_f64() * 100.0)
}

/// Nodes whose leases are renewed every ten seconds, and nothing else.
async fn heartbeats(manager: &Manager) -> anyhow::Result<()> {
    tokio::time::sleep(Duration::from_secs(10)).await;
    rest(manager).await?;
    println!(
        "{NODES} nodes that renew their leases every 10 s: {:.1} % of a core, {:.1} MB resident",
        share_of_a_core(manager).await?,
        manager.memory("VmRSS")?
    );
    Ok(())
}

/// Pods behind one service, one of which becomes unready.
async fn service(manager: &Manager, api: &InProcess) -> anyhow::Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
    create(api, &Target::new("v1", "services").in_namespace("default"), &object)?;
    let deployments = Target::new("apps/v1", "deployments").in_namespace("default");
    let before = manager.cpu()?;
    create(api, &deployments, &deployment("default", "web", PODS as u32))?;
    let slices = Target::new("discovery.k8s.io/v1", "endpointslices").in_namespace("default");
    let wall = until("all endpoints are ready", async || {
        // To look at all of them takes the cluster's time.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let slices = list(api, &slices).await?;
        let endpoints = slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten();
        Ok(endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count() >= PODS)
    })
    .await?;
    println!(
        "a Deployment of {PODS} pods behind one service: all endpoints ready after {:.1} s, {:.1} s of the manager's CPU",
        wall.as_secs_f64(),
        manager.cpu()? - before
    );
    rest(manager).await?;
    let versions = |slices: Vec<Value>| -> BTreeMap<String, String> {
        let named = slices.iter();
        named
            .map(|s| {
                (text(&s["metadata"]["name"]).to_owned(), text(&s["metadata"]["resourceVersion"]).to_owned())
            })
            .collect()
    };
    let pods = Target::new("v1", "pods").in_namespace("default");
    let pod = list(api, &pods).await?.swap_remove(0);
    let (old, before) = (versions(list(api, &slices).await?), manager.cpu()?);
    let patch = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}});
    api.patch(&pods.named(text(&pod["metadata"]["name"])).sub("status"), PatchType::Strategic, &patch)
        .map_err(|s| anyhow::anyhow!(s.message))?;
    tokio::time::sleep(Duration::from_secs(3)).await;
    let new = versions(list(api, &slices).await?);
    let written = new.iter().filter(|(name, version)| old.get(*name) != Some(version)).count();
    println!(
        "one of them becomes unready: {written} of {} slices written, {:.0} ms of the manager's CPU in 3 s",
        new.len(),
        (manager.cpu()? - before) * 1000.0
    );
    Ok(())
}

/// Autoscalers of a Deployment each, in a cluster that measures nothing: each has to ask, and to say that nobody knows.
async fn autoscalers(manager: &Manager, api: &InProcess) -> anyhow::Result<()> {
    let deployments = Target::new("apps/v1", "deployments").in_namespace("default");
    let autoscalers = Target::new("autoscaling/v2", "horizontalpodautoscalers").in_namespace("default");
    for n in 0..AUTOSCALERS {
        create(api, &deployments, &deployment("default", &format!("scaled-{n}"), 1))?;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    rest(manager).await?;
    let before = manager.cpu()?;
    let start = Instant::now();
    for n in 0..AUTOSCALERS {
        let name = format!("scaled-{n}");
        let object = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": name},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}, "maxReplicas": 5}});
        create(api, &autoscalers, &object)?;
    }
    until("all autoscalers have a status", async || {
        let answered =
            |one: &Value| one["status"]["conditions"].as_array().is_some_and(|all| !all.is_empty());
        Ok(list(api, &autoscalers).await?.iter().filter(|one| answered(one)).count() == AUTOSCALERS)
    })
    .await?;
    println!(
        "{AUTOSCALERS} autoscalers: all have a status after {:.1} s, {:.1} s of the manager's CPU",
        start.elapsed().as_secs_f64(),
        manager.cpu()? - before
    );
    println!("the same from then on, synced every 15 s: {:.1} % of a core", share_of_a_core(manager).await?);
    Ok(())
}

/// Namespaces with something in each, deleted at once.
async fn namespaces(manager: &Manager, api: &InProcess) -> anyhow::Result<()> {
    let namespaces = Target::new("v1", "namespaces");
    let names: Vec<String> = (0..NAMESPACES).map(|n| format!("doomed-{n}")).collect();
    for name in &names {
        create(
            api,
            &namespaces,
            &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}),
        )?;
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "content"}});
        create(api, &Target::new("v1", "configmaps").in_namespace(name), &object)?;
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    rest(manager).await?;
    let before = manager.cpu()?;
    for name in &names {
        api.delete(&namespaces.named(name), &DeleteOptions::default())
            .map_err(|s| anyhow::anyhow!(s.message))?;
    }
    let wall = until("all namespaces are gone", async || {
        Ok(names.iter().all(|name| api.get(&namespaces.named(name)).is_err()))
    })
    .await?;
    println!(
        "{NAMESPACES} namespaces deleted at once: gone after {:.1} s, {:.1} s of the manager's CPU",
        wall.as_secs_f64(),
        manager.cpu()? - before
    );
    Ok(())
}
