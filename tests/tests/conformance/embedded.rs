//! The manager in this process.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use coxswain::manager::{Config, Given, Manager, Selection};
use coxswain_tests::{
    manager_config,
    parity::manager::{Launch, Launcher, Running, Signal, at_rest},
    rebuilt,
};
use futures::future::BoxFuture;
use tokio::runtime::Runtime;

/// Milliseconds between two swaps of all modules while scenarios are played; no swaps if it is not set.
const SWAP: &str = "PARITY_SWAP_MS";
/// A first start compiles every module.
const READY: Duration = Duration::from_secs(120);

/// Starts managers with the controllers of a directory.
pub struct Embedded {
    controllers_dir: PathBuf,
    controllers: BTreeSet<String>,
    swap_every: Option<Duration>,
}

impl Embedded {
    /// Looks which controllers are there.
    pub fn new(controllers_dir: PathBuf) -> anyhow::Result<Self> {
        let missing =
            || format!("no controllers at {}; build them with `make guests`", controllers_dir.display());
        let mut controllers = BTreeSet::new();
        for entry in std::fs::read_dir(&controllers_dir).with_context(missing)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "wasm") {
                controllers.extend(path.file_stem().map(|name| name.to_string_lossy().into_owned()));
            }
        }
        let swap_every = match std::env::var(SWAP) {
            Ok(millis) => Some(Duration::from_millis(
                millis.parse().with_context(|| format!("{SWAP}={millis}: expected a number"))?,
            )),
            Err(_) => None,
        };
        Ok(Self { controllers_dir, controllers, swap_every })
    }

    /// A directory of one manager's own, and a task that swaps every module in it again and again.
    fn swapped(&self, every: Duration) -> anyhow::Result<Swapper> {
        let dir = tempfile::tempdir()?;
        let mut modules = Vec::new();
        for name in &self.controllers {
            let file = format!("{name}.wasm");
            let bytes = std::fs::read(self.controllers_dir.join(&file))?;
            std::fs::write(dir.path().join(&file), &bytes)?;
            modules.push((dir.path().join(&file), dir.path().join(format!(".{name}.half")), bytes));
        }
        let task = tokio::spawn(async move {
            for round in 0u64.. {
                tokio::time::sleep(every).await;
                for (path, half, bytes) in &modules {
                    // Two builds in turn, so that each is compiled once only.
                    let built = rebuilt(bytes, if round % 2 == 0 { "b" } else { "a" });
                    if std::fs::write(half, built).and_then(|()| std::fs::rename(half, path)).is_err() {
                        return;
                    }
                }
            }
        });
        Ok(Swapper { dir, task })
    }
}

async fn start(with: Launch, controllers_dir: PathBuf) -> anyhow::Result<Arc<Manager>> {
    let _ = coxswain::install_crypto();
    let file = kube::config::Kubeconfig::read_from(&with.kubeconfig)?;
    let mut kube = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
    kube.read_timeout = None;
    let (mut options, mut selection) = (files(&with), Selection::default());
    for flag in &with.flags {
        let flag = flag.trim_start_matches('-');
        match flag.split_once('=').unwrap_or((flag, "true")) {
            ("controllers", names) => selection = Selection::parse(names),
            (name, value) => options.add(name, value),
        }
    }
    let config = Config { selection, options, ..manager_config(kube, &controllers_dir) };
    let manager = Manager::start(config).await?;
    let ready = tokio::time::timeout(READY, manager.ready()).await;
    ready.with_context(|| format!("not ready after {READY:?}:\n{}", manager.status().to_text()))?;
    Ok(manager)
}

/// Files that kube-controller-manager is given by flags.
fn files(with: &Launch) -> Given {
    let flag = |name: &str, path: &Path| (name.to_owned(), path.display().to_string());
    Given::from([
        flag("root-ca-file", &with.ca_crt),
        flag("cluster-signing-cert-file", &with.ca_crt),
        flag("cluster-signing-key-file", &with.ca_key),
        flag("service-account-private-key-file", &with.sa_key),
    ])
}

impl Launcher for Embedded {
    fn controllers(&self) -> Option<BTreeSet<String>> {
        Some(self.controllers.clone())
    }

    fn launch(&self, with: Launch) -> BoxFuture<'_, anyhow::Result<Box<dyn Running>>> {
        Box::pin(async move {
            let swapper = self.swap_every.map(|every| self.swapped(every)).transpose()?;
            let dir = swapper.as_ref().map_or(self.controllers_dir.clone(), |own| own.dir.path().to_owned());
            // It has a runtime to itself, which is dropped with all that goes on in it when the manager is killed.
            let mut running = InProcess { manager: None, runtime: Some(runtime()?), _swapper: swapper };
            running.manager = Some(running.run(start(with.clone(), dir)).await??);
            at_rest(&with.proxy, 0, || None).await?;
            Ok(Box::new(running) as Box<dyn Running>)
        })
    }
}

/// Ends its swaps when dropped.
struct Swapper {
    dir: tempfile::TempDir,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Swapper {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Room for one manager.
fn runtime() -> anyhow::Result<Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?)
}

struct InProcess {
    manager: Option<Arc<Manager>>,
    /// There until it is dropped.
    runtime: Option<Runtime>,
    _swapper: Option<Swapper>,
}

impl InProcess {
    /// Does something where the manager runs.
    async fn run<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let runtime = self.runtime.as_ref().context("the manager was stopped")?;
        Ok(runtime.spawn(work).await?)
    }
}

impl Drop for InProcess {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Running for InProcess {
    fn stop(self: Box<Self>, signal: Signal) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            let manager = self.manager.clone().filter(|_| signal == Signal::Terminate);
            if let Some(manager) = manager {
                let stopped = self.run(async move { manager.shutdown().await }).await;
                stopped.expect("it stops without a panic");
            }
        })
    }

    /// It ends only with the tests.
    fn ended(&mut self) -> Option<String> {
        None
    }
}
