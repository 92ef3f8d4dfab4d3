//! A control plane that scenarios run in: server, nodes, recorder, proxy, manager.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::Context;
use coxswain_localcluster::{
    Cluster, ClusterConfig, InProcess,
    nodes::{Nodes, NodesConfig},
};
use rcgen::KeyPair;
use tempfile::TempDir;
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use super::{
    api::Api,
    manager::{Launch, Launcher, Running, Signal},
    metrics::Metrics,
    object::duration_or,
    proxy::{Authority, Proxy},
    recorder::Recorder,
    scenario::Scenario,
};
use crate::client::{Access, Client};

/// Where the server is.
#[derive(Clone, Debug)]
pub enum Server {
    /// One of our own, with simulated nodes.
    Embedded,
    /// One that runs, by its kubeconfig. Nodes are its own.
    Running(PathBuf),
}

/// A running control plane.
pub struct Plane {
    /// The API.
    pub api: Arc<Api>,
    /// What happened.
    pub recorder: Arc<Recorder>,
    /// Between manager and server.
    pub proxy: Arc<Proxy>,
    /// Simulated nodes; none where the server has its own.
    pub nodes: Option<Nodes>,
    /// Metrics APIs; none unless the scenario wants them.
    pub metrics: Option<Arc<Metrics>>,
    launcher: Arc<dyn Launcher>,
    manager: Mutex<Option<Box<dyn Running>>>,
    flags: Vec<String>,
    cluster: Option<Cluster>,
    cancel: CancellationToken,
    starts: AtomicU64,
    dir: TempDir,
}

impl Plane {
    /// Starts one for the needs of a scenario.
    pub async fn start(
        server: &Server,
        launcher: Arc<dyn Launcher>,
        scenario: &Scenario,
    ) -> anyhow::Result<Self> {
        let dir = tempfile::Builder::new().prefix("parity-").tempdir()?;
        let cancel = CancellationToken::new();
        let (cluster, kubeconfig) = match server {
            Server::Embedded => {
                let config = ClusterConfig { admin: true, ..ClusterConfig::new(dir.path().join("cluster")) };
                let cluster = Cluster::start(config).await?;
                let kubeconfig = cluster.kubeconfig_path().to_owned();
                (Some(cluster), kubeconfig)
            }
            Server::Running(kubeconfig) => (None, kubeconfig.clone()),
        };
        let access = Access::read(&kubeconfig)?;
        let api = Arc::new(Api::new(Client::new(&access)?));
        let recorder = Recorder::start(api.clone()).await?;
        let nodes = match &cluster {
            Some(cluster) => Some(start_nodes(cluster, scenario, &cancel).await?),
            None => None,
        };
        let authority = Authority::generate()?;
        let kcm = scenario.manager_identity.as_deref() == Some("kcm");
        let identity = kcm.then(|| "system:kube-controller-manager".to_owned());
        let metrics = scenario.cluster.metrics.then(|| Metrics::new(recorder.clone()));
        let proxy = Proxy::start(&access, &authority, identity, metrics.clone(), scenario.seed).await?;
        write_files(dir.path(), &authority, &proxy)?;
        let plane = Self {
            api,
            recorder,
            proxy,
            metrics,
            nodes,
            launcher,
            manager: Mutex::default(),
            flags: scenario.manager_flags.clone(),
            cluster,
            cancel,
            starts: AtomicU64::new(0),
            dir,
        };
        if scenario.start_manager {
            plane.start_manager(None).await?;
        }
        Ok(plane)
    }

    /// Whether the manager has a controller.
    pub fn has_controller(&self, name: &str) -> bool {
        self.launcher.controllers().is_none_or(|there| there.contains(name))
    }

    /// Starts the manager, with other flags if they are given.
    pub async fn start_manager(&self, flags: Option<Vec<String>>) -> anyhow::Result<()> {
        self.starts.fetch_add(1, Ordering::Relaxed);
        let file = |name: &str| self.dir.path().join(name);
        let launch = Launch {
            kubeconfig: file("manager.kubeconfig"),
            flags: flags.unwrap_or_else(|| self.flags.clone()),
            ca_crt: file("ca.crt"),
            ca_key: file("ca.key"),
            sa_key: file("sa.key"),
            work: self.dir.path().to_owned(),
            proxy: self.proxy.clone(),
        };
        let running = self.launcher.launch(launch).await.context("the manager did not start")?;
        *self.manager.lock().await = Some(running);
        Ok(())
    }

    /// Stops the manager, if it runs.
    pub async fn stop_manager(&self, signal: Signal) {
        let Some(running) = self.manager.lock().await.take() else { return };
        if signal == Signal::Kill {
            // What is under way is answered to nobody.
            self.proxy.sever();
        }
        running.stop(signal).await;
        if signal == Signal::Kill {
            self.proxy.mend();
        }
    }

    /// Why the manager ended by itself, if it did.
    pub async fn manager_ended(&self) -> Option<String> {
        self.manager.lock().await.as_mut()?.ended()
    }

    /// Stops everything.
    pub async fn stop(self) {
        self.stop_manager(Signal::Terminate).await;
        self.cancel.cancel();
        drop(self.recorder);
        if let Some(cluster) = self.cluster {
            cluster.shutdown().await;
        }
    }
}

async fn start_nodes(
    cluster: &Cluster,
    scenario: &Scenario,
    cancel: &CancellationToken,
) -> anyhow::Result<Nodes> {
    let heartbeat = duration_or(&scenario.heartbeat, Duration::from_secs(10))?;
    let api = InProcess::new(cluster.rest().clone(), "kubelet");
    let nodes = Nodes::start(api, NodesConfig { heartbeat, ..NodesConfig::default() }, cancel.clone());
    let made = nodes.add_count("node-", scenario.nodes).await;
    made.map_err(|status| anyhow::anyhow!("no simulated nodes: {}", status.message))?;
    Ok(nodes)
}

fn write_files(dir: &Path, authority: &Authority, proxy: &Proxy) -> anyhow::Result<()> {
    let write = |name: &str, text: &str| std::fs::write(dir.join(name), text);
    write("ca.crt", authority.certificate())?;
    write("ca.key", authority.key())?;
    write("sa.key", &KeyPair::generate()?.serialize_pem())?;
    write("manager.kubeconfig", &proxy.kubeconfig(authority))?;
    Ok(())
}
