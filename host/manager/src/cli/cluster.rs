//! `coxswain cluster`, and what `demo` shares with it.

use std::{
    fs::{File, TryLockError},
    net::IpAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, bail};
use coxswain_localcluster::{
    AuthorizationMode, Cluster, ClusterConfig, InProcess,
    nodes::{Nodes, NodesConfig},
};
use tokio_util::sync::CancellationToken;

use super::LogArgs;

/// Flags of `cluster`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub cluster: ClusterArgs,
    /// Print one line of JSON on stdout once the cluster is ready.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// Flags of an embedded cluster. It is for demos and tests: one process, no
/// etcd, no kubelets.
#[derive(clap::Args)]
pub struct ClusterArgs {
    /// Directory for the kubeconfig and certificates. Default: one in the
    /// temporary directory, removed at the end.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Simulated nodes.
    #[arg(long, default_value_t = 3)]
    pub nodes: usize,
    /// Port of the API server; 0 takes a free one.
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Address to listen on. Anything but loopback opens the cluster to others.
    #[arg(long, default_value = "127.0.0.1")]
    pub bind: IpAddr,
    /// Keep the cluster's objects in this directory over restarts.
    #[arg(long)]
    pub data_dir: Option<PathBuf>,
    /// Serve the admin endpoint, /localcluster/ on the API server: nodes that
    /// stop, vanish and return, and faults (latency, 409, 410, 429, 500,
    /// connections cut, answers lost, watches closed or delayed) on command.
    ///
    ///   POST localcluster/nodes/NAME/{stop,vanish,return}   GET localcluster/nodes
    ///   POST localcluster/faults {"on": {"resource": "pods"}, "count": 3,
    ///                             "action": {"type": "conflict"}}
    ///
    /// host/docs/cluster.md lists them all, with curl.
    #[arg(long, verbatim_doc_comment)]
    pub admin: bool,
    /// Who may do what: AlwaysAllow lets in whoever holds the kubeconfig or a
    /// token, RBAC asks the roles and bindings. In both, the kubeconfig's user
    /// may do everything.
    #[arg(long, default_value_t)]
    pub authorization_mode: AuthorizationMode,
    /// Pause between two heartbeats of a node, in seconds.
    #[arg(long, default_value_t = 10)]
    pub heartbeat: u64,
    /// Simulate no scheduler: pods stay unbound until something binds them.
    #[arg(long)]
    pub no_scheduler: bool,
}

/// A cluster that runs.
pub struct Running {
    pub cluster: Cluster,
    cancel: CancellationToken,
    /// Goes with the cluster.
    _temporary: Option<tempfile::TempDir>,
    /// Keeps others out of the directory.
    _lock: File,
}

/// Takes a directory for one cluster: another that was given the same would put its
/// kubeconfig in the place of ours.
fn take(dir: &Path) -> anyhow::Result<File> {
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    let path = dir.join("lock");
    let file = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => bail!(
            "another cluster runs in {}: stop it, or give this one a directory of its own with --dir",
            dir.display()
        ),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

impl ClusterArgs {
    /// Starts the cluster and its nodes.
    pub async fn start(&self) -> anyhow::Result<Running> {
        let (dir, temporary) = match &self.dir {
            // What is printed is used elsewhere.
            Some(dir) => (std::path::absolute(dir)?, None),
            None => {
                let made = tempfile::Builder::new().prefix("coxswain-").tempdir();
                let made = made.context("cannot make a temporary directory; name one with --dir")?;
                (made.path().to_owned(), Some(made))
            }
        };
        let lock = take(&dir)?;
        let config = ClusterConfig {
            address: self.bind,
            port: self.port,
            nodes: self.nodes,
            data_dir: self.data_dir.clone(),
            admin: self.admin,
            authorization: self.authorization_mode,
            ..ClusterConfig::new(dir)
        };
        let cluster = Cluster::start(config).await.context("the embedded cluster did not start")?;
        let cancel = CancellationToken::new();
        let config = NodesConfig {
            heartbeat: Duration::from_secs(self.heartbeat.max(1)),
            scheduler: !self.no_scheduler,
        };
        let api = InProcess::new(cluster.rest().clone(), "kubelet");
        let nodes = Nodes::start(api, config, cancel.clone());
        nodes.serve_commands(cluster.rest());
        nodes
            .add_count("node-", self.nodes)
            .await
            .map_err(|status| anyhow::anyhow!("the simulated nodes did not come up: {}", status.message))?;
        Ok(Running { cluster, cancel, _temporary: temporary, _lock: lock })
    }
}

impl Running {
    /// Stops nodes and server.
    pub async fn shutdown(self) {
        self.cancel.cancel();
        self.cluster.shutdown().await;
    }
}

/// Runs a cluster until it is interrupted.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    args.log.init()?;
    super::runtime()?.block_on(async {
        let running = args.cluster.start().await?;
        let kubeconfig = running.cluster.kubeconfig_path().display().to_string();
        if args.json {
            say!("{}", serde_json::json!({"kubeconfig": kubeconfig}));
        } else {
            say!(
                "An embedded cluster with {} simulated nodes, for demos and tests only.\n",
                args.cluster.nodes
            );
            say!("  export KUBECONFIG={kubeconfig}");
            say!("  kubectl get nodes\n");
            say!("Stop it with Ctrl-C.");
        }
        super::interrupted().await?;
        running.shutdown().await;
        Ok(ExitCode::SUCCESS)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_for_one_cluster_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("made");
        let first = take(&dir).unwrap();
        let refused = take(&dir).unwrap_err().to_string();
        assert!(refused.starts_with("another cluster runs in ") && refused.contains("--dir"), "{refused}");
        drop(first);
        take(&dir).unwrap();
    }
}
