//! `coxswain demo`.

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::Context;
use coxswain::{manager::Manager, residence, serve, serving, traces};
use tokio_util::sync::CancellationToken;

use super::{
    LogArgs, cluster::ClusterArgs, control, election::ElectionArgs, flags::Rest, flags::gates,
    run::ManagerArgs, startup,
};

/// How long the controllers may take to be loaded and ready. A first start
/// compiles every module.
const READY: Duration = Duration::from_secs(120);

/// Flags of `demo`.
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Directory of controller modules (*.wasm), followed while running.
    #[arg(long, env = "COXSWAIN_CONTROLLERS_DIR")]
    controllers_dir: Option<PathBuf>,
    #[command(flatten)]
    manager: ManagerArgs,
    #[command(flatten)]
    election: ElectionArgs,
    /// Print one line of JSON on stdout once all is ready.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// Runs a cluster and the manager until interrupted.
pub fn main(args: Args, rest: Rest) -> anyhow::Result<ExitCode> {
    args.log.init()?;
    super::to_its_end(run(args, rest))
}

async fn run(args: Args, rest: Rest) -> anyhow::Result<ExitCode> {
    let gates = args.manager.startup.gates()?;
    let election = args.election.config()?;
    let controllers_dir = super::controllers_dir(args.controllers_dir.as_deref())?;
    let controllers_dir = controllers_dir.canonicalize()?;
    let status_address = args.manager.status_address("127.0.0.1:0")?;
    let mut endpoints = args.manager.serving.shown(&rest.effective)?;
    // A demo is for this machine, and does not keep a port from anybody.
    if endpoints.bind_address.is_unspecified() {
        endpoints.bind_address = std::net::Ipv4Addr::LOCALHOST.into();
    }
    endpoints.default_port = 0;
    serving::judge(&endpoints).await?;
    let running = args.cluster.start().await?;
    let kubeconfig = running.cluster.kubeconfig_path().to_owned();
    // The cluster's own authority and key are what its controllers sign with and publish.
    let mut options = rest.given.clone();
    gates::hand_over(&gates, &mut options);
    let pki = kubeconfig.with_file_name("pki");
    for (flag, file) in [
        ("root-ca-file", "ca.crt"),
        ("cluster-signing-cert-file", "ca.crt"),
        ("cluster-signing-key-file", "ca.key"),
        ("service-account-private-key-file", "sa.key"),
    ] {
        if !options.contains(flag) {
            options.set(flag, pki.join(file).display().to_string());
        }
    }
    // The administrator's certificate, which the cluster has made, opens the endpoints.
    endpoints.client_ca_file.get_or_insert_with(|| pki.join("ca.crt"));
    endpoints.skip_lookup = true;
    let file = kube::config::Kubeconfig::read_from(&kubeconfig)?;
    let mut kube = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
    kube.read_timeout = None;
    // Nobody else uses this API server: it needs no protection from us.
    let mut config = args.manager.config(kube, controllers_dir.clone(), options, 0.0, 0)?;
    config.operating.flags = rest.effective.clone();
    config.operating.features = gates::features(&gates);
    // Another manager may be run against this cluster, to see how they hand over.
    config.election = election;
    let traces = traces::start(config.entropy.clone())?;
    let manager = Manager::start(config).await?;
    let cancel = CancellationToken::new();
    let status = match status_address {
        None => None,
        Some(address) => {
            let bound = serve::start(address, manager.clone(), cancel.clone()).await;
            let bound = bound.with_context(|| format!("no status endpoint at {address}"))?;
            Some(format!("http://{bound}/status"))
        }
    };
    let endpoints = match serving::start(manager.clone(), endpoints, Vec::new(), cancel.clone()).await {
        Ok(bound) => bound.map(|address| format!("https://{address}")),
        Err(error) => {
            manager.shutdown().await;
            running.shutdown().await;
            return Err(error.into());
        }
    };
    let socket = kubeconfig.with_file_name("control.sock");
    let control = args.manager.control.start(Some(socket), &manager, &cancel).await;
    control::reload_on_hangup(&manager)?;
    let ready = async {
        let admitted = startup::admit(&manager, &controllers_dir, &args.manager, &gates, &rest).await;
        let ready = admitted && tokio::time::timeout(READY, manager.ready()).await.is_ok();
        (admitted, ready)
    };
    let (admitted, ready) = tokio::select! {
        answer = ready => answer,
        done = super::interrupted() => {
            done?;
            manager.shutdown().await;
            running.shutdown().await;
            return Ok(ExitCode::SUCCESS);
        }
    };
    if !admitted {
        manager.shutdown().await;
        running.shutdown().await;
        return Ok(ExitCode::FAILURE);
    }
    if !ready {
        tracing::warn!("not all controllers are ready after {READY:?}; `coxswain status` says why");
    }
    let kubeconfig = kubeconfig.display().to_string();
    let socket = control.as_ref().map(|(path, _)| path.display().to_string());
    if args.json {
        let line = serde_json::json!({"kubeconfig": kubeconfig, "controllersDir": controllers_dir, "status": status, "controlSocket": socket, "endpoints": endpoints});
        say!("{line}");
    } else {
        let dir = controllers_dir.display().to_string();
        print_guide(&args, &kubeconfig, &dir, status.as_deref(), socket.as_deref());
        if let Some(endpoints) = &endpoints {
            let pki = pki.display();
            say!("\nMetrics and health are served to whom the cluster lets:\n");
            say!("  curl -k --cert {pki}/admin.crt --key {pki}/admin.key {endpoints}/metrics");
        }
        say!("\nStop with Ctrl-C.");
    }
    let lost = tokio::select! {
        done = super::interrupted() => { done?; None }
        reason = manager.election().lost() => Some(reason),
        never = residence::keep_small(|| manager.modules()) => never,
    };
    manager.shutdown().await;
    cancel.cancel();
    if let Some(traces) = traces {
        traces.finish().await;
    }
    running.shutdown().await;
    match lost {
        None => Ok(ExitCode::SUCCESS),
        Some(reason) => {
            tracing::error!("{reason}; ending, as --leader-elect-on-loss=exit asks");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn print_guide(
    args: &Args,
    kubeconfig: &str,
    controllers_dir: &str,
    status: Option<&str>,
    socket: Option<&str>,
) {
    say!(
        "\nA cluster of {} simulated nodes and its controllers are running in this process.",
        args.cluster.nodes
    );
    say!("In another terminal:\n");
    say!("  export KUBECONFIG={kubeconfig}");
    say!("  kubectl create deployment web --image=web:1 --replicas=3");
    say!("  kubectl get pods -w");
    say!("  kubectl scale deployment web --replicas=20");
    say!("  kubectl set image deployment web web=web:2 && kubectl rollout status deployment web");
    say!("  kubectl rollout undo deployment web");
    say!("  kubectl delete deployment web --cascade=foreground");
    say!("\nControllers are loaded from {controllers_dir}:");
    say!("copy another build of one over its file, and it is swapped while all goes on.");
    if let Some(status) = status {
        say!("\n  coxswain status --server {status}");
    }
    if let Some(socket) = socket {
        say!("  coxswain rollback NAME --control-socket {socket}");
    }
}
