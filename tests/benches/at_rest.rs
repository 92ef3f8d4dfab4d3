//! What a reconcile that changes nothing costs each controller, and what it writes to get there.
//!
//! All controllers bring a cluster with one of everything to rest, with 10 and with 1,000 pods each. Then
//! each controller alone looks at it through informers of its own, and is asked about each of its keys
//! again; the dearest one is timed. Figures are printed, not judged.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use coxswain::{
    api::ApiClient,
    clock::{Clock, SystemClock},
    contract::{Outcome, SyncState},
    discovery,
    engine::{Engine, EngineConfig, Instance},
    entropy::Entropy,
    informer::Informers,
    key::{Cause, Key, Wake},
    manager::options,
    registry::{Registry, is_wildcard},
    store::{ModuleView, Snapshot, Store},
};
use coxswain_tests::{
    Bed, LIMIT,
    asking::{Silence, request},
    measured::bench,
    modules,
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Pods of each workload.
const SIZES: [usize; 2] = [10, 1_000];
/// How long the dearest key of a controller is timed.
const TIMED: Duration = Duration::from_millis(300);
const NAMESPACE: &str = "default";

/// Collects the keys that a first look at the cluster makes due.
#[derive(Default)]
struct Due(Mutex<BTreeSet<Key>>);

impl Wake for Due {
    fn wake(&self, key: &Key, _: Cause) {
        self.0.lock().insert(key.clone());
    }
}

fn main() -> anyhow::Result<()> {
    bench(run())
}

async fn run() -> anyhow::Result<()> {
    let modules = modules()?;
    let engine = Engine::new(EngineConfig::default())?;
    let mut costs: BTreeMap<&str, Vec<Cost>> = BTreeMap::new();
    for size in SIZES {
        let all = modules.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
        let bed = Bed::start_with(all, |_| {}).await?;
        let made = fill(&bed, size).await?;
        println!("{size} pods each: {made}");
        // The manager has had its say; what is timed is asked without it.
        bed.manager.shutdown().await;
        for (name, bytes) in &modules {
            costs.entry(name).or_default().push(measure(&engine, &bed, bytes).await.context(name.clone())?);
        }
        bed.stop().await;
    }
    println!(
        "\nreconcile that changes nothing, with {} and with {} pods of each workload:",
        SIZES[0], SIZES[1]
    );
    for (name, costs) in costs {
        let costs: Vec<String> = costs.iter().map(Cost::to_string).collect();
        println!("  {name:<50} {}", costs.join("   "));
    }
    Ok(())
}

/// One of each workload, and what selects its pods. Says what it took to make them.
async fn fill(bed: &Bed, size: usize) -> anyhow::Result<String> {
    // A DaemonSet has as many pods as there are nodes.
    let more = size.saturating_sub(3);
    bed.nodes.add_count("more-", more).await.map_err(|status| anyhow::anyhow!(status.message))?;
    let before = writes(bed);
    let workload = |api_version: &str, kind: &str, spec: Value| {
        let name = kind.to_lowercase();
        let mut spec = spec;
        let labels = json!({"app": name});
        spec["selector"] =
            if api_version == "v1" { labels.clone() } else { json!({"matchLabels": labels.clone()}) };
        let mut pod = json!({"containers": [{"name": "c", "image": "i:1"}]});
        if kind == "Job" {
            pod["restartPolicy"] = "Never".into();
            if let Some(spec) = spec.as_object_mut() {
                spec.remove("selector");
            }
        }
        spec["template"] = json!({"metadata": {"labels": labels}, "spec": pod});
        json!({"apiVersion": api_version, "kind": kind,
            "metadata": {"name": name, "namespace": NAMESPACE}, "spec": spec})
    };
    let scaled = json!({"replicas": size});
    let of_deployment = json!({"app": "deployment"});
    let objects = [
        ("deployments", workload("apps/v1", "Deployment", scaled.clone())),
        ("replicationcontrollers", workload("v1", "ReplicationController", scaled.clone())),
        (
            "statefulsets",
            workload(
                "apps/v1",
                "StatefulSet",
                json!({"replicas": size, "podManagementPolicy": "Parallel", "serviceName": "web"}),
            ),
        ),
        ("daemonsets", workload("apps/v1", "DaemonSet", json!({}))),
        ("jobs", workload("batch/v1", "Job", json!({"parallelism": size, "completions": size}))),
        (
            "cronjobs",
            json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "yearly", "namespace": NAMESPACE},
                "spec": {"schedule": "0 0 1 1 *", "jobTemplate": {"spec": {"template": {"spec":
                    {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i:1"}]}}}}}}),
        ),
        (
            "services",
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web", "namespace": NAMESPACE},
                "spec": {"selector": of_deployment, "ports": [{"port": 80}]}}),
        ),
        (
            "poddisruptionbudgets",
            json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "web", "namespace": NAMESPACE},
                "spec": {"maxUnavailable": 1, "selector": {"matchLabels": of_deployment}}}),
        ),
        (
            "resourcequotas",
            json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "web", "namespace": NAMESPACE},
                "spec": {"hard": {"pods": "100000"}}}),
        ),
    ];
    let begun = Instant::now();
    for (plural, object) in &objects {
        bed.create(plural, object)?;
    }
    bed.until("all pods are there and ready, and written down", LIMIT, async |bed| {
        let is = |api_version: &str, plural: &str, field: &str| {
            let name = plural.trim_end_matches('s');
            bed.get(api_version, plural, NAMESPACE, name).is_some_and(|o| o["status"][field] == size)
        };
        Ok(is("apps/v1", "deployments", "readyReplicas")
            && is("v1", "replicationcontrollers", "readyReplicas")
            && is("apps/v1", "statefulsets", "readyReplicas")
            && is("apps/v1", "daemonsets", "numberReady")
            && is("batch/v1", "jobs", "ready"))
    })
    .await?;
    let took = begun.elapsed();
    // At rest once nobody writes any more.
    let mut last = BTreeMap::new();
    loop {
        tokio::time::sleep(Duration::from_secs(2)).await;
        let now = writes(bed);
        if now == last {
            break;
        }
        last = now;
    }
    let made: Vec<String> = last
        .iter()
        .filter_map(|(name, now)| {
            let writes = now - before.get(name).copied().unwrap_or_default();
            (writes > 0)
                .then(|| format!("  {name:<50} {writes} writes, {:.2} a pod", writes as f64 / size as f64))
        })
        .collect();
    Ok(format!("all ready after {took:.1?}\n{}", made.join("\n")))
}

fn writes(bed: &Bed) -> BTreeMap<String, u64> {
    bed.manager.status().controllers.iter().map(|c| (c.name.clone(), c.writes)).collect()
}

/// What asking a controller cost.
struct Cost {
    keys: usize,
    /// Of the dearest key; none where there is none that needs nothing.
    dearest: Option<(Key, Duration)>,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.dearest {
            Some((key, time)) => {
                let micros = time.as_secs_f64() * 1e6;
                write!(f, "{micros:>9.1} µs ({} keys, this is {key})", self.keys)
            }
            None => write!(f, "        -    ({} keys)", self.keys),
        }
    }
}

/// Asks a controller about all of its keys, through informers of its own.
async fn measure(engine: &Arc<Engine>, bed: &Bed, bytes: &[u8]) -> anyhow::Result<Cost> {
    let module = engine.load(bytes.to_vec()).await?;
    let registry = Registry::new();
    let store = Store::new(registry.clone());
    let due = Arc::new(Due::default());
    let view = store.attach(module.manifest(), due.clone())?;
    let cancel = CancellationToken::new();
    let file = kube::config::Kubeconfig::read_from(bed.cluster.kubeconfig_path())?;
    let kube = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
    let api = ApiClient::new(kube::Client::try_from(kube)?, "bench");
    let (status, mut found) = watch::channel(discovery::DiscoveryStatus::default());
    let asking =
        discovery::run(api.clone(), registry.clone(), discovery::DEFAULT_INTERVAL, status, cancel.clone());
    let asking = tokio::spawn(asking);
    found.wait_for(|status| status.complete).await?;
    let (_informers, following) = Informers::start(
        api,
        registry.clone(),
        store.clone(),
        Arc::new(SystemClock),
        Entropy::from_seed(1),
        cancel.clone(),
    );
    let synced = || {
        let reads = module.manifest().reads.iter();
        let mut named = reads.filter(|read| !is_wildcard(&read.resource));
        named.all(|read| match registry.resolve(&read.resource) {
            Some(number) => registry.state(number) == SyncState::Synced,
            None => read.optional,
        })
    };
    let begun = Instant::now();
    while !synced() {
        ensure!(begun.elapsed() < LIMIT, "its caches do not fill");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Keys of the last list come with it; a wildcard's lists have no end to wait for.
    tokio::time::sleep(Duration::from_millis(300)).await;
    let keys: Vec<Key> = due.0.lock().iter().cloned().collect();
    let options = options::resolve(module.manifest(), &options::Given::new())?;
    let mut instance = module.instantiate().map_err(|fault| anyhow::anyhow!("{fault}"))?;
    let mut dearest: Option<(Key, Duration)> = None;
    for key in &keys {
        // The first time it reads the key's objects, the second time it knows them, as in a manager that runs.
        if ask(&view, &mut instance, &options, key).is_none() {
            continue;
        }
        let Some(time) = ask(&view, &mut instance, &options, key) else { continue };
        if dearest.as_ref().is_none_or(|(_, most)| time > *most) {
            dearest = Some((key.clone(), time));
        }
    }
    if let Some((key, time)) = &mut dearest {
        let (mut times, mut sum) = (0, Duration::ZERO);
        while sum < TIMED {
            sum += ask(&view, &mut instance, &options, key).context("it found something to do after all")?;
            times += 1;
        }
        *time = sum / times;
    }
    cancel.cancel();
    asking.await?;
    following.await?;
    Ok(Cost { keys: keys.len(), dearest })
}

/// One reconcile, snapshot and subscriptions included; none if there is something to do or to ask.
fn ask(view: &Arc<ModuleView>, instance: &mut Instance, options: &[String], key: &Key) -> Option<Duration> {
    let begun = Instant::now();
    let snapshot = view.snapshot(key);
    let now = SystemClock.now().as_second().try_into().unwrap_or_default();
    let request = request(view, &snapshot, key, now, options);
    let (outcome, snapshot) = instance.reconcile(&request, Box::new(snapshot), Arc::new(Silence));
    if let Ok(snapshot) = snapshot.into_any().downcast::<Snapshot>() {
        view.commit(key, snapshot.into_reads(), true);
    }
    let time = begun.elapsed();
    match outcome {
        Ok(Outcome::Plan(plan)) if plan.steps.is_empty() => Some(time),
        _ => None,
    }
}
