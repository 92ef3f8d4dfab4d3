//! The manager: everything put together.
//!
//! In: a kubeconfig, a directory of modules, flags. Out: running controllers.
//! Kept: a module that cannot be used costs nobody else anything; a file whose
//! new content cannot be used leaves the version that runs in place, and says
//! why in the log and in the status.

mod figures;
mod files;
mod install;
mod jumps;
mod operating;
pub mod options;
mod oversight;
mod preview;
mod rehearsal;
mod rollbacks;
mod rollout;
mod selection;
mod shadows;
mod stage;
mod status;
mod table;

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, atomic::AtomicU64},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::{mpsc, watch},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;

pub use operating::{Feature, Operating};
pub use options::Given;
pub use oversight::Oversight;
pub use rehearsal::{CanaryRule, Rollout};
pub use selection::{Selection, nearest, not_running};
pub use shadows::as_shadow;
pub use stage::{Compiling, ModuleStatus, Stage, StageCounts};
pub use status::{Refusal, ResourceStatus, Status, Unloaded};

use crate::{
    api::ApiClient,
    clock::SharedClock,
    connect,
    contract::{self, SyncState},
    controller::{Compute, Controller, Observer, Shared},
    credentials::ServiceAccounts,
    discovery::{self, DiscoveryStatus},
    election::{self, Election, ElectionConfig},
    engine::{Engine, EngineConfig, Module},
    entropy::Entropy,
    events::EventRecorder,
    executor::{Pass, WriteGate, signing::KeyFiles},
    grants::Policies,
    informer::Informers,
    limits::LimitRules,
    metrics::Metrics,
    preview::{Preview, Sandbox, Watcher},
    recording::RecordingWriter,
    registry::Registry,
    serving::Serving,
    store::Store,
};
use files::Files;
use install::Work;
use rollbacks::Rollbacks;

/// How long events may take to be written before leases are given up.
const FLUSH_BEFORE_RELEASE: Duration = Duration::from_millis(300);

/// What a manager is started with.
pub struct Config {
    /// The API server and our credentials.
    pub kube: kube::Config,
    /// Where modules are.
    pub controllers_dir: PathBuf,
    /// Which controllers run.
    pub selection: Selection,
    /// Values of the controllers' options.
    pub options: Given,
    /// Requests a second for each controller; 0 or less: no limit.
    pub qps: f64,
    /// Requests at once after a quiet time, for each controller.
    pub burst: u32,
    /// How modules are compiled, kept and limited.
    pub engine: EngineConfig,
    /// Pause between two looks at what the API server serves.
    pub discovery_interval: Duration,
    /// Time.
    pub clock: SharedClock,
    /// Randomness.
    pub entropy: Entropy,
    /// If it is given, controllers work on a copy of the cluster, and this gathers
    /// what they do; it takes the place of `gate`.
    pub preview: Option<Arc<Preview>>,
    /// Whether writes may be made, where no leader is elected.
    pub gate: Arc<dyn WriteGate>,
    /// What each controller may use.
    pub limits: LimitRules,
    /// What a new version goes through before it is live.
    pub rollout: Rollout,
    /// Who looks on while controllers reconcile.
    pub observers: Vec<Arc<dyn Observer>>,
    /// Recordings and the policy.
    pub oversight: Oversight,
    /// How leaders are elected; none: this process works as soon as it can.
    pub election: Option<ElectionConfig>,
    /// How it is operated.
    pub operating: Operating,
    /// The endpoints.
    pub serving: Serving,
}

/// Writes are always allowed.
pub struct AlwaysWrite;

impl WriteGate for AlwaysWrite {
    fn admit(&self) -> Option<Pass> {
        Some(Pass::default())
    }

    fn may_write(&self) -> bool {
        true
    }
}

/// Why a manager does not start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The client cannot be made.
    #[error("cannot make a client for {server}")]
    Client {
        /// The API server.
        server: String,
        /// Why not.
        #[source]
        source: Box<connect::Error>,
    },
    /// The policy cannot be used.
    #[error(transparent)]
    Policy(#[from] crate::grants::PolicyError),
    /// Nothing can be recorded.
    #[error("--record={}: cannot write there", dir.display())]
    Record {
        /// The directory.
        dir: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The engine cannot be made.
    #[error(transparent)]
    Engine(#[from] crate::engine::EngineError),
}

struct Running {
    controller: Arc<Controller>,
    task: JoinHandle<()>,
    /// Versions that can be gone back to, the newest last.
    history: Vec<Module>,
}

/// A running manager.
pub struct Manager {
    config: Config,
    server: String,
    started: jiff::Timestamp,
    api: ApiClient,
    /// The copy of the cluster that `api` reaches, if it is one.
    sandbox: Option<Arc<Sandbox>>,
    /// Whom controllers write as, if not as we.
    accounts: Option<ServiceAccounts>,
    registry: Arc<Registry>,
    store: Arc<Store>,
    events: EventRecorder,
    election: Arc<Election>,
    user_agent_end: String,
    informers: Informers,
    discovery: watch::Receiver<DiscoveryStatus>,
    engine: Arc<Engine>,
    shared: Arc<Shared>,
    signing: Arc<KeyFiles>,
    recording: Option<RecordingWriter>,
    policies: Policies,
    controllers: Mutex<BTreeMap<String, Running>>,
    files: Mutex<Files>,
    rollbacks: Rollbacks,
    stages: StageCounts,
    /// Why files of shadows cannot be used, by the controller's name as it was given.
    shadow_troubles: Mutex<BTreeMap<(String, PathBuf), String>>,
    work: mpsc::UnboundedSender<Work>,
    first_load: watch::Sender<bool>,
    admission: operating::Admission,
    /// How often the clock was set under us.
    clock_jumps: AtomicU64,
    cancel: CancellationToken,
    background: Mutex<Vec<JoinHandle<()>>>,
}

impl Manager {
    /// Starts a manager. It goes on in the background until
    /// [`Manager::shutdown`].
    pub async fn start(mut config: Config) -> Result<Arc<Self>, Error> {
        let server = config.kube.cluster_url.to_string();
        let connect = |kube: kube::Config| {
            let reload = config.operating.reload(config.clock.clone());
            connect::client(kube, reload)
                .map_err(|source| Error::Client { server: server.clone(), source: Box::new(source) })
        };
        let client = connect(config.kube.clone())?;
        // Who wrote what is to be seen in the API server's audit log.
        let identity = config.election.as_ref().map(|_| election::identity(&config.entropy));
        let user_agent_end = identity.as_ref().map(|identity| format!(" {identity}")).unwrap_or_default();
        let serving = &config.serving;
        let metrics =
            Metrics::with_labels(&server, serving.disabled_metrics.clone(), serving.allowed_labels.clone());
        for Feature { name, stage, on } in &config.operating.features {
            metrics.feature(name, stage, *on);
        }
        let api =
            ApiClient::new(client, &user_agent("manager", &user_agent_end)).measured(metrics.client.clone());
        let sandbox = config.preview.clone().map(|preview| {
            let sandbox = Sandbox::new(api.clone(), &config.clock);
            config.gate = preview.clone();
            config.observers.push(Arc::new(Watcher::new(preview, sandbox.clone())));
            sandbox
        });
        let api = match &sandbox {
            Some(sandbox) => ApiClient::new(sandbox.client(), &user_agent("plan", &user_agent_end)),
            None => api,
        };
        let accounts = if config.operating.service_accounts && sandbox.is_none() {
            let mut anonymous = config.kube.clone();
            anonymous.auth_info = kube::config::AuthInfo::default();
            let anonymous = ApiClient::new(connect(anonymous)?, &user_agent("manager", &user_agent_end));
            Some(ServiceAccounts::new(api.clone(), anonymous, config.clock.clone()))
        } else {
            None
        };
        let registry = Registry::new();
        let store = Store::new(registry.clone());
        let record = config.oversight.record.clone().map(|record| {
            let dir = record.dir.clone();
            RecordingWriter::start(record, registry.clone(), config.clock.clone())
                .map_err(|source| Error::Record { dir, source })
        });
        let recorder = record.transpose()?;
        let policies = Policies::open(config.oversight.policy.as_deref())?;
        let cancel = CancellationToken::new();
        let engine = Engine::new(config.engine.clone())?;
        let (events, recording) =
            EventRecorder::start(api.clone(), config.clock.clone(), config.entropy.clone(), cancel.clone());
        let (informers, informing) = Informers::start(
            api.clone(),
            registry.clone(),
            store.clone(),
            config.clock.clone(),
            config.entropy.clone(),
            cancel.clone(),
        );
        let election = match (&config.election, identity) {
            (Some(settings), Some(identity)) => Election::start(
                settings.clone(),
                identity,
                api.with_user_agent(&user_agent("leader-election", &user_agent_end)),
                config.clock.clone(),
                config.entropy.clone(),
                events.clone(),
            ),
            _ => Election::none(config.gate.clone(), config.clock.clone()),
        };
        let (discovery_status, discovery) = watch::channel(DiscoveryStatus::default());
        let discovering = tokio::spawn(discovery::run(
            api.clone(),
            registry.clone(),
            config.discovery_interval,
            discovery_status,
            cancel.clone(),
        ));
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let shared = Arc::new(Shared {
            clock: config.clock.clone(),
            entropy: config.entropy.clone(),
            store: store.clone(),
            informers: informers.clone(),
            compute: Compute::new(threads),
            metrics,
        });
        let (work, to_do) = mpsc::unbounded_channel();
        let signing =
            KeyFiles::new(config.options.last_values(), config.clock.clone(), config.entropy.clone());
        let manager = Arc::new(Self {
            server,
            signing: Arc::new(signing),
            recording: recorder,
            policies,
            started: config.clock.now(),
            api,
            sandbox,
            accounts,
            registry,
            store,
            events,
            election: Arc::new(election),
            user_agent_end,
            engine,
            shared,
            controllers: Mutex::default(),
            files: Mutex::default(),
            rollbacks: Rollbacks::beside(config.engine.cache_dir.as_deref()),
            stages: StageCounts::default(),
            shadow_troubles: Mutex::default(),
            work,
            first_load: watch::Sender::new(false),
            admission: operating::Admission::new(!config.operating.hold),
            clock_jumps: AtomicU64::new(0),
            cancel,
            background: Mutex::new(vec![recording, informing, discovering]),
            informers,
            discovery,
            config,
        });
        if !manager.config.operating.hold {
            manager.election.stand();
        }
        let follower = tokio::spawn(manager.clone().follow_directory(to_do));
        let following = tokio::spawn(manager.clone().follow_clock());
        manager.background.lock().extend([follower, following]);
        manager.follow_shadows();
        if manager.config.oversight.policy.is_some() {
            let following = tokio::spawn(manager.clone().follow_policy());
            manager.background.lock().push(following);
        }
        Ok(manager)
    }

    /// Stops all controllers, lets plans under way finish, and ends.
    pub async fn shutdown(&self) {
        let running: Vec<_> = std::mem::take(&mut *self.controllers.lock()).into_values().collect();
        for one in &running {
            one.controller.stop();
        }
        self.engine.hurry();
        let names: Vec<_> = running.iter().map(|one| one.controller.name().to_owned()).collect();
        let tasks = running.into_iter().map(|one| one.task).collect();
        operating::wait_for(names, tasks, self.config.operating.shutdown_timeout).await;
        // Others wait for our leases: events have a moment to be written under them, no more.
        let _ = tokio::time::timeout(FLUSH_BEFORE_RELEASE, self.events.flushed()).await;
        // Writes of whoever did not finish in time are waited for, for as long as they may take.
        self.election.release().await;
        if let Some(recording) = &self.recording {
            recording.finish();
        }
        self.cancel.cancel();
        let background = std::mem::take(&mut *self.background.lock());
        // Events that are still queued are worth a moment; nothing else is.
        let _ = tokio::time::timeout(Duration::from_secs(2), futures::future::join_all(background)).await;
    }

    /// The manager as it is now.
    pub fn status(&self) -> Status {
        let controllers = self.running_controllers().iter().map(|one| one.status()).collect();
        let troubles: BTreeMap<u32, String> =
            self.informers.status().into_iter().filter_map(|one| Some((one.number, one.trouble?))).collect();
        let discovery = self.discovery.borrow().clone();
        let mut resources: Vec<ResourceStatus> = self
            .store
            .stats()
            .into_iter()
            .map(|stats| ResourceStatus {
                resource: self
                    .registry
                    .name(stats.resource)
                    .map(|n| contract::display_name(&n))
                    .unwrap_or_default(),
                state: state_name(self.registry.state(stats.resource)).to_owned(),
                objects: stats.objects,
                bytes: stats.bytes,
                trouble: troubles.get(&stats.resource).cloned(),
            })
            .collect();
        resources.sort_by(|a, b| a.resource.cmp(&b.resource));
        let (mut refused, unloaded, modules, compiling) = {
            let files = self.files.lock();
            let compiling = Some(files.compiling).filter(|compiling| compiling.of > 0);
            (files.refusals(&self.config.controllers_dir), files.all_unloaded(), files.statuses(), compiling)
        };
        refused.extend(self.shadow_refusals());
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: self.started,
            server: self.server.clone(),
            connected: discovery.complete && discovery.error.is_none(),
            trouble: discovery.error,
            unanswered: discovery.unanswered,
            controllers,
            refused,
            unloaded,
            modules,
            compiling,
            stages: self.stages.by_name(),
            leases: self.election.status(),
            resources,
            recording: self.recording.as_ref().map(RecordingWriter::status),
            policy_trouble: self.policies.trouble(),
        }
    }

    /// Waits until all modules that were there at the start are loaded or
    /// refused.
    pub async fn first_load(&self) {
        let mut loaded = self.first_load.subscribe();
        // An error means that the manager is gone, and nobody waits any more.
        let _ = loaded.wait_for(|done| *done).await;
    }

    /// Waits until all modules that were there at the start are loaded, and
    /// have in the cache what they read.
    pub async fn ready(&self) {
        self.first_load().await;
        self.admission.placed().await;
        let mut progress = self.store.progress();
        let waits = |one: &Arc<Controller>| !one.current().view.is_ready();
        while self.running_controllers().iter().any(waits) {
            // Not every step to being ready ticks the store.
            let _ = tokio::time::timeout(Duration::from_millis(50), progress.changed()).await;
        }
    }

    /// The modules in the files, whether or not they are selected.
    pub fn modules(&self) -> Vec<Module> {
        self.files.lock().modules().cloned().collect()
    }

    /// Names and aliases of all modules in the directory.
    pub fn known_names(&self) -> Vec<String> {
        self.files.lock().known_names()
    }

    /// A controller that runs.
    pub fn controller(&self, name: &str) -> Option<Arc<Controller>> {
        self.controllers.lock().get(name).map(|one| one.controller.clone())
    }

    /// A controller that runs, by its name or an alias.
    pub fn called(&self, name: &str) -> Option<Arc<Controller>> {
        let has_alias =
            |one: &Arc<Controller>| one.current().module.manifest().aliases.iter().any(|alias| alias == name);
        self.controller(name).or_else(|| self.running_controllers().into_iter().find(has_alias))
    }

    /// All controllers that run. Nothing is asked of them under the lock of the manager.
    fn running_controllers(&self) -> Vec<Arc<Controller>> {
        self.controllers.lock().values().map(|one| one.controller.clone()).collect()
    }

    /// How many modules came to each stage.
    pub fn stages(&self) -> &StageCounts {
        &self.stages
    }

    /// The elections it takes part in.
    pub fn election(&self) -> &Arc<Election> {
        &self.election
    }

    /// The cache.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

fn user_agent(part: &str, end: &str) -> String {
    format!("coxswain/{} ({part}){end}", env!("CARGO_PKG_VERSION"))
}

fn state_name(state: SyncState) -> &'static str {
    match state {
        SyncState::Synced => "synced",
        SyncState::Syncing => "syncing",
        SyncState::Failed => "failed",
        SyncState::Absent => "absent",
        SyncState::Uncached => "uncached",
    }
}
