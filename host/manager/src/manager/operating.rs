//! How a manager starts and ends its controllers.
//!
//! A manager that is *held* loads its modules and starts none of them until it
//! is told to go on: flags that belong to modules can be judged only then, and
//! nothing may have been written if one of them is wrong.

use std::{path::PathBuf, sync::Arc, time::Duration};

use serde_json::{Map, Value, json};
use tokio::{sync::watch, task::JoinHandle};

use super::{Manager, options};
use crate::{
    clock::SharedClock, connect::Reload, contract::Manifest, controller::Controller, entropy::Entropy,
};

/// How a manager is operated.
#[derive(Clone, Debug)]
pub struct Operating {
    /// Load modules, and start none before [`Manager::admit`].
    pub hold: bool,
    /// Pause before a controller starts: at least this, at most twice as much.
    /// kube-controller-manager's `--controller-start-interval`.
    pub start_interval: Duration,
    /// How long writes under way may take when the manager is stopped; 0: as
    /// long as they need. kube-controller-manager's
    /// `--controller-shutdown-timeout`.
    pub shutdown_timeout: Duration,
    /// Each controller writes as a service account of its own.
    /// kube-controller-manager's `--use-service-account-credentials`.
    pub service_accounts: bool,
    /// Field manager of all writes, instead of each controller's name.
    pub field_manager: Option<String>,
    /// File of the authority in the API server's configuration, to be read
    /// again when it changes.
    pub authority: Option<PathBuf>,
    /// Features that there are, for the metrics.
    pub features: Vec<Feature>,
    /// The manager's own flags with the values they have, for
    /// [`Manager::configuration`].
    pub flags: Map<String, Value>,
}

/// A feature of Kubernetes, as `--feature-gates` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Feature {
    /// Its name.
    pub name: String,
    /// How far it has come, as metrics tell it: `ALPHA`, `BETA`, `DEPRECATED`, or
    /// nothing once it is there for all.
    pub stage: String,
    /// Whether it is on.
    pub on: bool,
}

impl Default for Operating {
    fn default() -> Self {
        Self {
            hold: false,
            start_interval: Duration::ZERO,
            shutdown_timeout: Duration::from_secs(10),
            service_accounts: false,
            field_manager: None,
            authority: None,
            features: Vec::new(),
            flags: Map::new(),
        }
    }
}

impl Operating {
    /// What of the API server's configuration is read again.
    pub(super) fn reload(&self, clock: SharedClock) -> Reload {
        Reload { authority: self.authority.clone(), clock, ..Reload::default() }
    }

    /// How long a controller waits before it starts.
    pub(super) fn pause(&self, entropy: &Entropy) -> Duration {
        match self.start_interval.is_zero() {
            true => Duration::ZERO,
            false => self.start_interval.mul_f64(1.0 + entropy.next_fraction()),
        }
    }
}

/// Whether controllers may start, and whether those that were there have.
pub(super) struct Admission {
    admitted: watch::Sender<bool>,
    placed: watch::Sender<bool>,
}

impl Admission {
    pub(super) fn new(admitted: bool) -> Self {
        Self { admitted: watch::Sender::new(admitted), placed: watch::Sender::new(admitted) }
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<bool> {
        self.admitted.subscribe()
    }

    pub(super) fn is_placed(&self) -> bool {
        *self.placed.borrow()
    }

    pub(super) fn set_placed(&self) {
        self.placed.send_replace(true);
    }

    /// Waits until the controllers that waited were started.
    pub(super) async fn placed(&self) {
        let _ = self.placed.subscribe().wait_for(|placed| *placed).await;
    }
}

impl Manager {
    /// Lets the controllers of a manager that is held start, and waits until
    /// they are placed.
    pub async fn admit(&self) {
        if !*self.admission.admitted.borrow() {
            self.election.stand();
        }
        self.admission.admitted.send_replace(true);
        tokio::select! {
            () = self.admission.placed() => {}
            () = self.cancel.cancelled() => {}
        }
    }

    /// What the modules in the directory say of themselves, as far as they are
    /// loaded; those that do not run included.
    pub fn manifests(&self) -> Vec<Arc<Manifest>> {
        self.files.lock().modules().map(|module| module.manifest().clone()).collect()
    }

    /// Files in the directory that could not be loaded, or are not yet; such as
    /// are only half there included.
    pub fn unloaded(&self) -> Vec<PathBuf> {
        let loaded = self.files.lock().loaded();
        let entries = std::fs::read_dir(&self.config.controllers_dir).into_iter().flatten();
        let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
        paths
            .retain(|path| path.extension().is_some_and(|ending| ending == "wasm") && !loaded.contains(path));
        paths.sort();
        paths
    }

    /// What the manager runs with: its flags, and the options of each module
    /// that runs, defaults included.
    pub fn configuration(&self) -> Value {
        let own = &self.config.operating.flags;
        let running = self.running_controllers();
        let of_controller = |controller: Arc<Controller>| {
            let manifest = controller.current().module.manifest().clone();
            let options = options::effective(&manifest, &self.config.options).into_iter();
            let options = options.filter(|(name, _)| !own.contains_key(name));
            let options: Map<String, Value> = options.map(|(name, value)| (name, value.into())).collect();
            (controller.name().to_owned(), Value::Object(options))
        };
        let controllers: Map<String, Value> = running.into_iter().map(of_controller).collect();
        json!({"flags": own, "controllers": controllers})
    }

    /// What is wrong with the files that hold the keys of a module, where flags
    /// name some.
    pub fn key_troubles(&self, manifest: &Manifest) -> Vec<String> {
        self.signing.troubles(manifest)
    }
}

/// Waits for controllers to end, and says now and then which are still at it.
pub(super) async fn wait_for(names: Vec<String>, tasks: Vec<JoinHandle<()>>, timeout: Duration) {
    let started = tokio::time::Instant::now();
    let period = if timeout.is_zero() { Duration::from_secs(5) } else { timeout / 3 };
    let mut tasks: Vec<_> = names.into_iter().zip(tasks).collect();
    loop {
        let all = futures::future::join_all(tasks.iter_mut().map(|(_, task)| task));
        if tokio::time::timeout(period, all).await.is_ok() {
            return;
        }
        tasks.retain(|(_, task)| !task.is_finished());
        let still: Vec<_> = tasks.iter().map(|(name, _)| name.as_str()).collect();
        if !timeout.is_zero() && started.elapsed() >= timeout {
            if !still.is_empty() {
                tracing::warn!(
                    controllers = still.join(", "),
                    "some writes were still under way after {timeout:?} and are given up"
                );
            }
            return;
        }
        if still.is_empty() {
            return;
        }
        tracing::info!(controllers = still.join(", "), "waiting for writes under way");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controllers_start_between_one_interval_and_two() {
        let entropy = Entropy::from_seed(1);
        assert_eq!(Operating::default().pause(&entropy), Duration::ZERO);
        let operating = Operating { start_interval: Duration::from_secs(10), ..Operating::default() };
        for _ in 0..100 {
            assert!((10.0..20.0).contains(&operating.pause(&entropy).as_secs_f64()));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn those_that_end_are_waited_for_and_others_given_up() {
        let start = tokio::time::Instant::now();
        let sleep = |seconds| tokio::spawn(tokio::time::sleep(Duration::from_secs(seconds)));
        let names = || vec!["a".to_owned(), "b".to_owned()];
        wait_for(names(), vec![sleep(1), sleep(4)], Duration::from_secs(10)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(4));
        wait_for(names(), vec![sleep(1), sleep(400)], Duration::from_secs(9)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(13));
        wait_for(names(), vec![sleep(1), sleep(400)], Duration::ZERO).await;
        assert_eq!(start.elapsed(), Duration::from_secs(413));
        wait_for(Vec::new(), Vec::new(), Duration::from_secs(9)).await;
        assert_eq!(start.elapsed(), Duration::from_secs(413));
    }
}
