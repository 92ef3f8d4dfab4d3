//! A running cluster: the API server, its certificates and kubeconfig, and what it starts with.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use jiff::Timestamp;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::authorization::AuthorizationMode;
use crate::rest::clock::Clock;
use crate::rest::{InProcess, Rest, RestConfig};
use crate::server::pki::{Pki, PkiError, write_private};
use crate::server::{self, kubeconfig};
use crate::storage::{HistoryLimits, PersistError, Store};
use crate::{bootstrap, maintenance};

/// How a cluster is to be.
#[derive(Clone, Debug)]
pub struct ClusterConfig {
    /// Where certificates and the kubeconfig go.
    pub dir: PathBuf,
    /// Address to listen on. Anything but loopback lets others in who hold the kubeconfig.
    pub address: IpAddr,
    /// Port; 0 for a free one.
    pub port: u16,
    /// Simulated nodes.
    pub nodes: usize,
    /// Where objects are kept over a restart; none for memory only.
    pub data_dir: Option<PathBuf>,
    /// Serve `/localcluster/`, where faults are asked for.
    pub admin: bool,
    /// Seed of everything that is random; none for real randomness.
    pub seed: Option<u64>,
    /// The time at the start; none for the real one.
    pub time: Option<Timestamp>,
    /// Bearer token that makes an administrator; none for certificates only.
    pub admin_token: Option<String>,
    /// Who may do what.
    pub authorization: AuthorizationMode,
    /// How much past is kept of each resource.
    pub history: HistoryLimits,
}

impl ClusterConfig {
    /// On a free port of the loopback interface, without nodes, in memory.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            nodes: 0,
            data_dir: None,
            admin: false,
            seed: None,
            time: None,
            admin_token: None,
            authorization: AuthorizationMode::default(),
            history: HistoryLimits::default(),
        }
    }
}

/// Why a cluster did not start.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// Certificates.
    #[error(transparent)]
    Pki(#[from] PkiError),
    /// The data directory.
    #[error(transparent)]
    Persist(#[from] PersistError),
    /// The port.
    #[error("cannot listen on {address}: {source}; is another cluster running there? Choose another --port")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The kubeconfig.
    #[error("cannot write {path}: {source}")]
    Kubeconfig {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The objects every cluster has.
    #[error("cannot create what every cluster starts with: {0}")]
    Bootstrap(crate::status::Status),
}

/// A running cluster. It stops when this is dropped, though gracefully only by [`Cluster::shutdown`].
pub struct Cluster {
    rest: Arc<Rest>,
    address: SocketAddr,
    kubeconfig: String,
    kubeconfig_path: PathBuf,
    cancel: CancellationToken,
    tasks: TaskTracker,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

impl Cluster {
    /// Starts one and returns once it answers.
    pub async fn start(config: ClusterConfig) -> Result<Self, ClusterError> {
        let pki = Pki::load_or_generate(&config.dir.join("pki"), config.address)?;
        let tls = pki.acceptor()?;
        let store = match &config.data_dir {
            Some(dir) => Store::open(config.history, dir)?,
            None => Store::new(config.history),
        };
        let rest = Rest::new(RestConfig {
            store,
            clock: config.time.map_or_else(Clock::system, Clock::starting_at),
            seed: config.seed,
            admin_token: config.admin_token.unwrap_or_default(),
            service_account_key: server::pki::service_account_key(&config.dir.join("pki"))?,
            admin_endpoint: config.admin,
            authorization: config.authorization,
        });
        let wanted = SocketAddr::new(config.address, config.port);
        let fail = |source| ClusterError::Listen { address: wanted, source };
        let listener = TcpListener::bind(wanted).await.map_err(fail)?;
        let address = listener.local_addr().map_err(fail)?;
        if !config.address.is_loopback() {
            tracing::warn!(%address, "listening beyond loopback: this API server is for demos and tests");
        }
        bootstrap::run(&InProcess::new(rest.clone(), "kube-apiserver"), address, pki.authority())
            .map_err(ClusterError::Bootstrap)?;
        let cancel = CancellationToken::new();
        let tasks = TaskTracker::new();
        tasks.spawn(crate::crd::run(rest.clone(), cancel.clone()));
        let api = InProcess::new(rest.clone(), "kube-apiserver");
        tasks.spawn(crate::addresses::run(api.clone(), cancel.clone()));
        tasks.spawn(crate::aggregation::run(api.clone(), cancel.clone()));
        tasks.spawn(maintenance::run(api, address, cancel.clone()));
        tasks.spawn(server::serve(listener, tls, rest.clone(), cancel.clone()));

        let reachable = if address.ip().is_unspecified() {
            SocketAddr::new(Ipv4Addr::LOCALHOST.into(), address.port())
        } else {
            address
        };
        let kubeconfig = kubeconfig::render(&format!("https://{reachable}"), &pki);
        let kubeconfig_path = config.dir.join("kubeconfig");
        write_private(&kubeconfig_path, &kubeconfig)
            .map_err(|source| ClusterError::Kubeconfig { path: kubeconfig_path.clone(), source })?;
        Ok(Self { rest, address, kubeconfig, kubeconfig_path, cancel, tasks })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The kubeconfig file.
    pub fn kubeconfig_path(&self) -> &Path {
        &self.kubeconfig_path
    }

    /// The text of the kubeconfig.
    pub fn kubeconfig(&self) -> String {
        self.kubeconfig.clone()
    }

    /// The API without HTTP.
    pub fn api(&self) -> InProcess {
        InProcess::new(self.rest.clone(), "localcluster")
    }

    /// The REST layer: registry, store and faults.
    pub fn rest(&self) -> &Arc<Rest> {
        &self.rest
    }

    /// Runs a task that ends with the cluster; it is given the token that says when.
    pub fn spawn<F, Task>(&self, task: F)
    where
        F: FnOnce(CancellationToken) -> Task,
        Task: Future<Output = ()> + Send + 'static,
    {
        self.tasks.spawn(task(self.cancel.child_token()));
    }

    /// Ends watches, lets requests finish, and writes what is not yet on disk.
    pub async fn shutdown(self) {
        self.cancel.cancel();
        self.tasks.close();
        self.tasks.wait().await;
        let store = self.rest.store().clone();
        // Waiting for a disk belongs on a thread that may wait.
        if let Err(error) = tokio::task::spawn_blocking(move || store.flush()).await {
            tracing::error!(%error, "the last writes may not be on disk");
        }
    }
}
