//! What the integration tests stand on: a cluster and a manager in one process.

pub mod apiconf;
pub mod asking;
pub mod client;
pub mod conformance;
pub mod measured;
pub mod ordered;
pub mod parity;
pub mod program;
pub mod settled;

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use coxswain::{
    clock::SystemClock,
    engine::EngineConfig,
    entropy::Entropy,
    limits::LimitRules,
    manager::{AlwaysWrite, Config, Given, Manager, Rollout, Selection},
};
use coxswain_localcluster::{
    Cluster, ClusterConfig, InProcess, Target,
    nodes::{Nodes, NodesConfig},
};
use serde_json::Value;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// How long a test waits for what must come before it fails. Only what is broken
/// takes so long, on a busy machine too; nothing is measured by it.
pub const LIMIT: Duration = Duration::from_secs(180);

/// Root of the checkout.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where `make` leaves what it builds.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// Where the controllers are: where `COXSWAIN_CONTROLLERS_DIR` says, else where `make` leaves them.
pub fn built_controllers() -> PathBuf {
    let elsewhere = std::env::var_os("COXSWAIN_CONTROLLERS_DIR").map(PathBuf::from);
    elsewhere.unwrap_or_else(|| target().join("controllers"))
}

/// The program, where `make` leaves it.
pub fn built_program() -> PathBuf {
    target().join("release/coxswain")
}

/// The bytes of a controller that was built.
pub fn module(name: &str) -> anyhow::Result<Vec<u8>> {
    let path = built_controllers().join(format!("{name}.wasm"));
    std::fs::read(&path)
        .with_context(|| format!("{} is not there; build it with `make guests`", path.display()))
}

/// The bytes of all controllers that were built, by name.
pub fn modules() -> anyhow::Result<BTreeMap<String, Vec<u8>>> {
    let dir = built_controllers();
    let mut modules = BTreeMap::new();
    for entry in std::fs::read_dir(&dir).with_context(|| dir.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "wasm") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            modules.insert(name, std::fs::read(&path)?);
        }
    }
    anyhow::ensure!(
        !modules.is_empty(),
        "there are none in {}; build them with `make guests`",
        dir.display()
    );
    Ok(modules)
}

/// The bytes of a guest that misbehaves.
pub fn test_guest(name: &str) -> anyhow::Result<Vec<u8>> {
    let path = target().join("test-guests").join(format!("{name}.wasm"));
    std::fs::read(&path).with_context(|| {
        format!("{} is not there; build it with `cargo xtask guests --test-guests`", path.display())
    })
}

/// A CustomResourceDefinition of `test.example/v1`, namespaced, with any fields
/// and a status.
pub fn crd(plural: &str, kind: &str) -> Value {
    serde_json::json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.test.example")},
        "spec": {"group": "test.example", "scope": "Namespaced",
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}})
}

/// Another build of a module: the same code under another hash. A custom
/// section at the end is what a compiler's version stamp would be.
pub fn rebuilt(bytes: &[u8], stamp: &str) -> Vec<u8> {
    let name = b"build";
    let mut payload = vec![name.len() as u8];
    payload.extend_from_slice(name);
    payload.extend_from_slice(stamp.as_bytes());
    assert!(payload.len() < 128, "a stamp is short");
    let mut built = bytes.to_vec();
    built.push(0);
    built.push(payload.len() as u8);
    built.extend(payload);
    built
}

/// A cluster with simulated nodes, and a manager with some controllers.
pub struct Bed {
    /// The cluster.
    pub cluster: Cluster,
    /// Its nodes.
    pub nodes: Nodes,
    /// The manager.
    pub manager: Arc<Manager>,
    /// The manager's modules.
    pub controllers_dir: PathBuf,
    dir: TempDir,
    cancel: CancellationToken,
}

impl Bed {
    /// Starts a cluster of three nodes and a manager with these controllers,
    /// and waits until they are ready.
    pub async fn start(controllers: &[&str]) -> anyhow::Result<Self> {
        let modules: anyhow::Result<Vec<_>> =
            controllers.iter().map(|name| Ok((*name, module(name)?))).collect();
        Self::start_with(modules?, |_| {}).await
    }

    /// The same with these modules, and with settings that are changed first.
    pub async fn start_with(
        modules: Vec<(&str, Vec<u8>)>,
        change: impl FnOnce(&mut Config),
    ) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let controllers_dir = dir.path().join("controllers");
        std::fs::create_dir(&controllers_dir)?;
        for (name, bytes) in modules {
            std::fs::write(controllers_dir.join(format!("{name}.wasm")), bytes)?;
        }
        let cluster = Cluster::start(ClusterConfig::new(dir.path().join("cluster"))).await?;
        let cancel = CancellationToken::new();
        let nodes = Nodes::start(
            InProcess::new(cluster.rest().clone(), "kubelet"),
            NodesConfig::default(),
            cancel.clone(),
        );
        nodes.add_count("node-", 3).await.map_err(|s| anyhow::anyhow!("no nodes: {}", s.message))?;
        let manager = start_manager_with(cluster.kubeconfig_path(), &controllers_dir, change).await?;
        tokio::time::timeout(Duration::from_secs(60), manager.ready())
            .await
            .with_context(|| format!("not ready: {:#?}", manager.status()))?;
        Ok(Self { cluster, nodes, manager, controllers_dir, dir, cancel })
    }

    /// A directory of the bed's own.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// The API, without HTTP.
    pub fn api(&self) -> InProcess {
        self.cluster.api()
    }

    /// Puts a module into the manager's directory, by rename.
    pub fn install(&self, name: &str, bytes: &[u8]) -> anyhow::Result<()> {
        let half = self.controllers_dir.join(format!(".{name}.half"));
        std::fs::write(&half, bytes)?;
        std::fs::rename(half, self.controllers_dir.join(format!("{name}.wasm")))?;
        Ok(())
    }

    /// Creates an object; its apiVersion and namespace say where.
    pub fn create(&self, plural: &str, object: &Value) -> anyhow::Result<Value> {
        let target = Target::new(text(&object["apiVersion"]), plural)
            .in_namespace(text(&object["metadata"]["namespace"]));
        self.api().create(&target, object).map_err(|s| anyhow::anyhow!("{plural}: {}", s.message))
    }

    /// Reads an object; none if it is not there.
    pub fn get(&self, api_version: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        self.api().get(&Target::new(api_version, plural).in_namespace(namespace).named(name)).ok()
    }

    /// Lists objects.
    pub async fn list(&self, api_version: &str, plural: &str, namespace: &str) -> anyhow::Result<Vec<Value>> {
        let target = Target::new(api_version, plural).in_namespace(namespace);
        let (items, _) =
            self.api().list(&target, "", "").await.map_err(|s| anyhow::anyhow!("{plural}: {}", s.message))?;
        Ok(items)
    }

    /// Waits until something holds.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        mut holds: impl AsyncFnMut(&Self) -> anyhow::Result<bool>,
    ) -> anyhow::Result<()> {
        let end = tokio::time::Instant::now() + limit;
        while !holds(self).await? {
            if tokio::time::Instant::now() > end {
                bail!("after {limit:?} still not: {what}\n{}", self.manager.status().to_text());
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// Stops all.
    pub async fn stop(self) {
        self.manager.shutdown().await;
        self.cancel.cancel();
        self.cluster.shutdown().await;
    }
}

/// Starts a manager with no client limits.
pub async fn start_manager(kubeconfig: &Path, controllers_dir: &Path) -> anyhow::Result<Arc<Manager>> {
    start_manager_with(kubeconfig, controllers_dir, |_| {}).await
}

/// Starts a manager whose settings are changed first.
pub async fn start_manager_with(
    kubeconfig: &Path,
    controllers_dir: &Path,
    change: impl FnOnce(&mut Config),
) -> anyhow::Result<Arc<Manager>> {
    let _ = coxswain::install_crypto();
    let file = kube::config::Kubeconfig::read_from(kubeconfig)?;
    let mut kube = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
    kube.read_timeout = None;
    let mut config = manager_config(kube, controllers_dir);
    change(&mut config);
    Ok(Manager::start(config).await?)
}

/// Settings of a manager with all controllers of a directory and no client limits.
pub fn manager_config(kube: kube::Config, controllers_dir: &Path) -> Config {
    Config {
        kube,
        controllers_dir: controllers_dir.to_owned(),
        selection: Selection::default(),
        options: Given::new(),
        qps: 0.0,
        burst: 0,
        engine: EngineConfig::default(),
        discovery_interval: Duration::from_millis(500),
        clock: Arc::new(SystemClock),
        entropy: Entropy::from_os(),
        gate: Arc::new(AlwaysWrite),
        limits: LimitRules::default(),
        rollout: Rollout::default(),
        observers: Vec::new(),
        preview: None,
        oversight: Default::default(),
        election: None,
        operating: Default::default(),
        serving: coxswain::serving::Serving::default(),
    }
}

/// A Deployment whose pods are ready at once.
pub fn deployment(namespace: &str, name: &str, replicas: u32) -> Value {
    serde_json::json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": namespace, "name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "image:1"}]}}}})
}

/// Text of a JSON string; empty for anything else.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
