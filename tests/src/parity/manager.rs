//! The manager under test, whoever it is: a process, or something in this one.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::Stdio,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use futures::future::BoxFuture;
use tokio::process::{Child, Command};

use super::proxy::Proxy;

/// How long a manager may take to be ready.
const READY: Duration = Duration::from_secs(60);
/// How long it may take to stop when asked to.
const STOP: Duration = Duration::from_secs(15);
/// A manager that opens no further watch for this long is ready.
const QUIET: Duration = Duration::from_secs(1);

/// What a manager is started with.
#[derive(Clone)]
pub struct Launch {
    /// Its kubeconfig, which leads to the proxy.
    pub kubeconfig: PathBuf,
    /// Flags, as kube-controller-manager spells them.
    pub flags: Vec<String>,
    /// PEM of the certificate it may sign with and publish.
    pub ca_crt: PathBuf,
    /// Its key.
    pub ca_key: PathBuf,
    /// Key of ServiceAccount tokens.
    pub sa_key: PathBuf,
    /// A directory for its log.
    pub work: PathBuf,
    /// What it talks to.
    pub proxy: Arc<Proxy>,
}

/// How a manager is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// It may finish its work.
    Terminate,
    /// It may not.
    Kill,
}

/// Starts managers.
pub trait Launcher: Send + Sync {
    /// The controllers it has; none if it has all.
    fn controllers(&self) -> Option<BTreeSet<String>>;
    /// Starts one and returns when it is ready.
    fn launch(&self, with: Launch) -> BoxFuture<'_, anyhow::Result<Box<dyn Running>>>;
}

/// A running manager.
pub trait Running: Send + Sync {
    /// Stops it.
    fn stop(self: Box<Self>, signal: Signal) -> BoxFuture<'static, ()>;
    /// Why it ended by itself, if it did.
    fn ended(&mut self) -> Option<String>;
}

/// A manager that is a program: a command line with placeholders
/// `{kubeconfig}`, `{flags}`, `{ca_crt}`, `{ca_key}`, `{sa_key}` and `{work}`.
pub struct ProcessLauncher {
    template: Vec<String>,
    controllers: Option<BTreeSet<String>>,
}

impl ProcessLauncher {
    /// From a command line; words are separated by blanks.
    pub fn new(template: &str, controllers: Option<BTreeSet<String>>) -> anyhow::Result<Self> {
        let template: Vec<String> = template.split_whitespace().map(str::to_owned).collect();
        if !template.iter().any(|word| word.contains("{kubeconfig}")) {
            bail!("the command line of the manager needs {{kubeconfig}}");
        }
        Ok(Self { template, controllers })
    }

    fn command(&self, with: &Launch) -> anyhow::Result<Command> {
        let mut words: Vec<String> = Vec::new();
        for word in &self.template {
            if word == "{flags}" {
                words.extend(with.flags.iter().cloned());
                continue;
            }
            let path = |path: &Path| path.display().to_string();
            let values = [
                ("{kubeconfig}", path(&with.kubeconfig)),
                ("{ca_crt}", path(&with.ca_crt)),
                ("{ca_key}", path(&with.ca_key)),
                ("{sa_key}", path(&with.sa_key)),
                ("{work}", path(&with.work)),
            ];
            words.push(values.iter().fold(word.clone(), |word, (from, to)| word.replace(from, to)));
        }
        let (program, arguments) = words.split_first().context("the command line of the manager is empty")?;
        let log =
            std::fs::OpenOptions::new().create(true).append(true).open(with.work.join("manager.log"))?;
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).kill_on_drop(true);
        Ok(command)
    }
}

impl Launcher for ProcessLauncher {
    fn controllers(&self) -> Option<BTreeSet<String>> {
        self.controllers.clone()
    }

    fn launch(&self, with: Launch) -> BoxFuture<'_, anyhow::Result<Box<dyn Running>>> {
        Box::pin(async move {
            let mut command = self.command(&with)?;
            let before = with.proxy.counts().get("watches").copied().unwrap_or_default();
            let child = command.spawn().with_context(|| format!("cannot start {}", self.template[0]))?;
            let mut running = Process { child, log: with.work.join("manager.log") };
            at_rest(&with.proxy, before + 1, || running.ended())
                .await
                .with_context(|| format!("see {}", with.work.join("manager.log").display()))?;
            Ok(Box::new(running) as Box<dyn Running>)
        })
    }
}

/// Waits until so many watches were opened in all, and no further one is being opened: what a manager does at its start
/// is not to be taken for what a scenario makes it do.
pub async fn at_rest(
    proxy: &Proxy,
    opened: u64,
    mut ended: impl FnMut() -> Option<String>,
) -> anyhow::Result<()> {
    let watches = || proxy.counts().get("watches").copied().unwrap_or_default();
    let end = tokio::time::Instant::now() + READY;
    let mut last = (watches(), tokio::time::Instant::now());
    while last.0 < opened || last.1.elapsed() < QUIET {
        if let Some(reason) = ended() {
            bail!("{reason}");
        }
        if tokio::time::Instant::now() > end {
            bail!("the manager still opens watches after {READY:?}, or opened none");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = watches();
        if now != last.0 {
            last = (now, tokio::time::Instant::now());
        }
    }
    Ok(())
}

struct Process {
    child: Child,
    log: PathBuf,
}

impl Running for Process {
    fn stop(mut self: Box<Self>, signal: Signal) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            if signal == Signal::Terminate && terminate(&self.child).await {
                let ended = tokio::time::timeout(STOP, self.child.wait()).await;
                if ended.is_ok() {
                    return;
                }
            }
            if let Err(error) = self.child.kill().await {
                tracing::warn!(%error, "cannot kill the manager");
            }
        })
    }

    fn ended(&mut self) -> Option<String> {
        let status = self.child.try_wait().ok().flatten()?;
        Some(format!("the manager ended by itself ({status}); see {}", self.log.display()))
    }
}

/// Sends SIGTERM; whether that worked.
async fn terminate(child: &Child) -> bool {
    let Some(id) = child.id() else { return false };
    let sent = Command::new("kill").args(["-TERM", &id.to_string()]).status().await;
    sent.is_ok_and(|status| status.success())
}
