//! How commands that change a running manager find it: a unix socket.

use std::{path::PathBuf, process::ExitCode, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use coxswain::{
    control::{self, Socket},
    manager::Manager,
};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use tokio_util::sync::CancellationToken;

/// A rollback waits until the cache has what the version before reads.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the manager listens for commands.
#[derive(clap::Args)]
pub struct ControlArgs {
    /// Unix socket at which the manager takes commands that change it, such as `coxswain rollback`. Only
    /// the user who runs it (and root) can use it. `off`: none. Default: control.sock in
    /// $XDG_RUNTIME_DIR/coxswain, for root in /run/coxswain, else in $TMPDIR/coxswain-UID; the demo has it
    /// in the directory of its cluster.
    #[arg(long, env = "COXSWAIN_CONTROL_SOCKET", value_name = "PATH")]
    control_socket: Option<PathBuf>,
}

impl ControlArgs {
    /// Listens, unless it is off. Trouble is no reason not to run.
    pub async fn start(
        &self,
        default: Option<PathBuf>,
        manager: &Arc<Manager>,
        cancel: &CancellationToken,
    ) -> Option<(PathBuf, Socket)> {
        let path = self.control_socket.clone().or(default).unwrap_or_else(control::default_path);
        if path.as_os_str() == "off" {
            return None;
        }
        match control::start(&path, manager.clone(), cancel.clone()).await {
            Ok(socket) => {
                tracing::info!("control socket at {}", path.display());
                Some((path, socket))
            }
            Err(error) => {
                tracing::warn!("`coxswain rollback` cannot reach this manager: {error}");
                None
            }
        }
    }
}

/// Flags of `rollback` and `promote`.
#[derive(clap::Args)]
pub struct ControllerArgs {
    /// The controller, by its name or short name.
    name: String,
    #[command(flatten)]
    control: ControlArgs,
}

/// Has a controller go back to the version before.
pub fn rollback(args: ControllerArgs) -> anyhow::Result<ExitCode> {
    command(args, "rollback")
}

/// Lets a new version through that is held, compared or a canary.
pub fn promote(args: ControllerArgs) -> anyhow::Result<ExitCode> {
    command(args, "promote")
}

fn command(args: ControllerArgs, command: &str) -> anyhow::Result<ExitCode> {
    let path = args.control.control_socket.unwrap_or_else(control::default_path);
    let said = super::runtime()?.block_on(async {
        let command = format!("/controllers/{}/{command}", args.name);
        tokio::time::timeout(PATIENCE, ask(&path, &command))
            .await
            .context("no answer within 60 s; see the manager's log")?
    })?;
    say!("{said}");
    Ok(ExitCode::SUCCESS)
}

/// Posts a command; what the manager says.
async fn ask(socket: &std::path::Path, command: &str) -> anyhow::Result<String> {
    let stream = tokio::net::UnixStream::connect(socket).await.with_context(|| {
        format!(
            "no manager takes commands at {}; is one running, as this user? its log names its control socket: give it with --control-socket",
            socket.display()
        )
    })?;
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    let request = http::Request::post(command)
        .header(http::header::HOST, "coxswain")
        .body(Empty::<bytes::Bytes>::new());
    let request = request.context("that is no name of a controller")?;
    let response = sender.send_request(request).await?;
    let status = response.status();
    let said = String::from_utf8_lossy(&response.into_body().collect().await?.to_bytes()).trim().to_owned();
    if !status.is_success() {
        bail!("{}", if said.is_empty() { status.to_string() } else { said });
    }
    Ok(said)
}

/// Has the manager look at all its files on SIGHUP, which would otherwise end it.
pub fn reload_on_hangup(manager: &Arc<Manager>) -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut hangup = signal(SignalKind::hangup())?;
    let manager = manager.clone();
    tokio::spawn(async move {
        while hangup.recv().await.is_some() {
            tracing::info!("SIGHUP: reloading");
            manager.reload();
        }
    });
    Ok(())
}
