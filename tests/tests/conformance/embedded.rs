//! The manager in this process.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use coxswain::{
    clock::SystemClock,
    engine::EngineConfig,
    entropy::Entropy,
    manager::{AlwaysWrite, Config, Given, Manager, Selection},
};
use coxswain_tests::parity::manager::{Launch, Launcher, Running, Signal, at_rest};
use futures::future::BoxFuture;

/// A first start compiles every module.
const READY: Duration = Duration::from_secs(120);

/// Starts managers with the controllers of a directory.
pub struct Embedded {
    controllers_dir: PathBuf,
    controllers: BTreeSet<String>,
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
        Ok(Self { controllers_dir, controllers })
    }

    async fn start(&self, with: &Launch) -> anyhow::Result<Arc<Manager>> {
        let _ = coxswain::install_crypto();
        let file = kube::config::Kubeconfig::read_from(&with.kubeconfig)?;
        let mut kube = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
        kube.read_timeout = None;
        let mut options = files(with);
        for flag in &with.flags {
            let flag = flag.trim_start_matches('-');
            let (name, value) = flag.split_once('=').unwrap_or((flag, "true"));
            options.insert(name.into(), value.into());
        }
        let selection =
            options.remove("controllers").map_or_else(Selection::default, |names| Selection::parse(&names));
        let config = Config {
            kube,
            controllers_dir: self.controllers_dir.clone(),
            selection,
            options,
            qps: 0.0,
            burst: 0,
            engine: EngineConfig::default(),
            discovery_interval: Duration::from_millis(500),
            clock: Arc::new(SystemClock),
            entropy: Entropy::from_os(),
            gate: Arc::new(AlwaysWrite),
        };
        let manager = Manager::start(config).await?;
        let ready = tokio::time::timeout(READY, manager.ready()).await;
        ready.with_context(|| format!("not ready after {READY:?}:\n{}", manager.status().to_text()))?;
        Ok(manager)
    }
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
            let manager = self.start(&with).await?;
            at_rest(&with.proxy).await;
            Ok(Box::new(InProcess { manager }) as Box<dyn Running>)
        })
    }
}

struct InProcess {
    manager: Arc<Manager>,
}

impl Running for InProcess {
    /// A manager in this process cannot be killed: the proxy has cut it off
    /// from the server when it is asked to go at once.
    fn stop(self: Box<Self>, _: Signal) -> BoxFuture<'static, ()> {
        Box::pin(async move { self.manager.shutdown().await })
    }

    /// It ends only with the tests.
    fn ended(&mut self) -> Option<String> {
        None
    }
}
