//! Restarts of the manager at any time while scenarios are played.
//!
//! In: how often, a seed. Out: a manager that is stopped or killed and started again, again and again. Kept: none
//! happens while a scenario takes its last look; a manager that a scenario has stopped itself is left so.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use rand::{Rng, SeedableRng, rngs::StdRng};
use serde_json::Value;
use tokio::sync::{Mutex, RwLock, RwLockReadGuard};

use super::{
    manager::{Launch, Launcher, Running, Signal},
    scenario::{Scenario, step},
};

/// Milliseconds between two restarts of the manager, about; none if it is not set.
const EVERY: &str = "PARITY_RESTART_MS";

/// Where a manager runs, and how one is started there.
pub struct Seat {
    /// Starts managers.
    pub launcher: Arc<dyn Launcher>,
    /// With what the last one was started.
    launch: Mutex<Launch>,
    running: Mutex<Option<Box<dyn Running>>>,
    /// Held while the manager is replaced; shared by those who must not see that.
    still: RwLock<()>,
}

impl Seat {
    /// An empty one.
    pub fn new(launcher: Arc<dyn Launcher>, launch: Launch) -> Self {
        Self { launcher, launch: Mutex::new(launch), running: Mutex::default(), still: RwLock::default() }
    }

    /// Starts a manager, with what one that takes its place will be started with too.
    pub async fn start(&self, launch: Launch) -> anyhow::Result<()> {
        let running = self.launcher.launch(launch.clone()).await.context("the manager did not start")?;
        *self.launch.lock().await = launch;
        *self.running.lock().await = Some(running);
        Ok(())
    }

    /// Stops the manager, if it runs.
    pub async fn stop(&self, signal: Signal) {
        let Some(running) = self.running.lock().await.take() else { return };
        self.end(running, signal).await;
    }

    /// Why the manager ended by itself, if it did.
    pub async fn ended(&self) -> Option<String> {
        self.running.lock().await.as_mut()?.ended()
    }

    /// While this is held the manager is not replaced.
    pub async fn still(&self) -> RwLockReadGuard<'_, ()> {
        self.still.read().await
    }

    async fn end(&self, running: Box<dyn Running>, signal: Signal) {
        let proxy = self.launch.lock().await.proxy.clone();
        if signal == Signal::Kill {
            // What is under way is answered to nobody.
            proxy.sever();
        }
        running.stop(signal).await;
        if signal == Signal::Kill {
            proxy.mend();
        }
    }

    /// Another manager in the place of the one that runs.
    async fn replace(&self, signal: Signal) -> anyhow::Result<()> {
        let _alone = self.still.write().await;
        // Held all the time: to look for the manager is to wait for it.
        let mut seat = self.running.lock().await;
        let Some(running) = seat.take() else { return Ok(()) };
        self.end(running, signal).await;
        let launch = self.launch.lock().await.clone();
        *seat = Some(self.launcher.launch(launch).await.context("the manager did not start again")?);
        Ok(())
    }
}

/// How often the manager is restarted.
#[derive(Clone, Copy, Debug)]
pub struct Restarts {
    every: Duration,
    seed: u64,
}

impl Restarts {
    /// As the environment says.
    pub fn from_environment(seed: u64) -> anyhow::Result<Option<Self>> {
        let Ok(text) = std::env::var(EVERY) else { return Ok(None) };
        let every = text.parse().with_context(|| format!("{EVERY}={text}: expected a number"))?;
        Ok(Some(Self { every: Duration::from_millis(every), seed }))
    }

    /// Restarts the manager of a plane until the task is aborted. A manager that does not start again ends the play:
    /// nothing more comes true.
    pub fn begin(self, seat: Arc<Seat>, plane: &str) -> tokio::task::AbortHandle {
        // Each plane has times of its own, the same in every run.
        let salt = plane.bytes().fold(self.seed, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let mut rng = StdRng::seed_from_u64(salt);
        let task = tokio::spawn(async move {
            loop {
                let pause = self.every.mul_f64(rng.random_range(0.4..1.6));
                let signal = if rng.random_bool(0.7) { Signal::Kill } else { Signal::Terminate };
                tokio::time::sleep(pause).await;
                if let Err(error) = seat.replace(signal).await {
                    eprintln!("{error:#}");
                    return;
                }
            }
        });
        task.abort_handle()
    }
}

/// Whether restarts mean nothing to a scenario: it starts and stops the manager itself, or has an outage, which a manager
/// that starts would end.
pub fn are_pointless(scenario: &Scenario) -> bool {
    !scenario.start_manager
        || takes(&scenario.steps, &|verb, argument| {
            verb.ends_with("-manager") || (verb == "chaos" && !argument["outage"].is_null())
        })
}

/// Whether one of the steps is such a one.
fn takes(steps: &[Value], wanted: &dyn Fn(&str, &Value) -> bool) -> bool {
    steps.iter().any(|one| {
        step(one).is_ok_and(|(verb, argument)| {
            let inner = argument["steps"].as_array();
            wanted(verb, argument) || inner.is_some_and(|inner| takes(inner, wanted))
        })
    })
}
