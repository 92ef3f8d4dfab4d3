//! A control plane that scenarios run in: server, nodes, recorder, proxy, manager.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use coxswain_localcluster::{
    Cluster, ClusterConfig, InProcess,
    nodes::{Nodes, NodesConfig},
};
use rcgen::KeyPair;
use tempfile::TempDir;
use tokio::{sync::RwLockReadGuard, task::AbortHandle};
use tokio_util::sync::CancellationToken;

use super::{
    api::Api,
    manager::{Launch, Launcher, Signal},
    metrics::Metrics,
    object::duration_or,
    proxy::{Authority, Proxy},
    recorder::Recorder,
    restarts::{Restarts, Seat},
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
    seat: Arc<Seat>,
    launch: Launch,
    restarting: Option<AbortHandle>,
    cluster: Option<Cluster>,
    cancel: CancellationToken,
    _dir: TempDir,
}

impl Plane {
    /// Starts one for the needs of a scenario.
    pub async fn start(
        server: &Server,
        launcher: Arc<dyn Launcher>,
        restarts: Option<Restarts>,
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
        let file = |name: &str| dir.path().join(name);
        let launch = Launch {
            kubeconfig: file("manager.kubeconfig"),
            flags: scenario.manager_flags.clone(),
            ca_crt: file("ca.crt"),
            ca_key: file("ca.key"),
            sa_key: file("sa.key"),
            work: dir.path().to_owned(),
            proxy: proxy.clone(),
        };
        let seat = Arc::new(Seat::new(launcher, launch.clone()));
        if scenario.start_manager {
            seat.start(launch.clone()).await?;
        }
        let restarting = restarts.map(|restarts| restarts.begin(seat.clone(), &scenario.plane_key()));
        Ok(Self {
            api,
            recorder,
            proxy,
            metrics,
            nodes,
            seat,
            launch,
            restarting,
            cluster,
            cancel,
            _dir: dir,
        })
    }

    /// Whether the manager has a controller.
    pub fn has_controller(&self, name: &str) -> bool {
        self.seat.launcher.controllers().is_none_or(|there| there.contains(name))
    }

    /// Starts the manager, with other flags if they are given.
    pub async fn start_manager(&self, flags: Option<Vec<String>>) -> anyhow::Result<()> {
        let flags = flags.unwrap_or_else(|| self.launch.flags.clone());
        self.seat.start(Launch { flags, ..self.launch.clone() }).await
    }

    /// Stops the manager, if it runs.
    pub async fn stop_manager(&self, signal: Signal) {
        self.seat.stop(signal).await;
    }

    /// Why the manager ended by itself, if it did.
    pub async fn manager_ended(&self) -> Option<String> {
        self.seat.ended().await
    }

    /// Whether the manager is restarted again and again.
    pub fn is_restarting(&self) -> bool {
        self.restarting.is_some()
    }

    /// How many times as long as a scenario says things may take.
    pub fn patience(&self) -> u32 {
        if self.is_restarting() { 4 } else { 1 }
    }

    /// While this is held the manager is not restarted but by the scenario.
    pub async fn still(&self) -> RwLockReadGuard<'_, ()> {
        self.seat.still().await
    }

    /// Stops everything.
    pub async fn stop(self) {
        if let Some(restarting) = &self.restarting {
            let _still = self.still().await;
            restarting.abort();
        }
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
