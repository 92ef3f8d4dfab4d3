//! Parity scenarios: what kube-controller-manager does, played against a manager and compared.
//!
//! In: scenario files, golden files, a manager. Out: a verdict on each. Kept:
//! scenarios with equal needs share a control plane, each in its namespace; a
//! scenario whose controllers are not there waits, and does not pass.

pub mod api;
pub mod expr;
pub mod families;
pub mod golden;
pub mod make;
pub mod manager;
pub mod metrics;
pub mod normalise;
pub mod object;
pub mod plane;
pub mod proxy;
pub mod recorder;
pub mod restarts;
pub mod run;
pub mod scenario;

use std::{collections::HashMap, path::Path, sync::Arc};

use anyhow::Context;
use parking_lot::Mutex;
use rand::Rng;
use tokio::sync::{OnceCell, Semaphore};

use golden::{Golden, Verdict};
use manager::Launcher;
use plane::{Plane, Server};
use restarts::Restarts;
use run::Run;
use scenario::Scenario;

/// Control planes that run at once.
const PLANES: usize = 4;

/// All scenarios of a directory, by name.
pub fn read(directory: &Path) -> anyhow::Result<Vec<Scenario>> {
    let mut paths = Vec::new();
    for entry in
        std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?
    {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    paths.iter().map(|path| Scenario::read(path)).collect()
}

/// A shared control plane and how many scenarios are still to use it.
struct Shared {
    plane: Arc<OnceCell<Plane>>,
    users: usize,
}

/// Plays scenarios.
pub struct Player {
    server: Server,
    launcher: Arc<dyn Launcher>,
    golden: std::path::PathBuf,
    planes: Mutex<HashMap<String, Shared>>,
    room: Semaphore,
    restarts: Option<Restarts>,
}

impl Player {
    /// For these scenarios; each may be played once.
    pub fn new(server: Server, launcher: Arc<dyn Launcher>, golden: &Path, scenarios: &[Scenario]) -> Self {
        let mut planes: HashMap<String, Shared> = HashMap::new();
        for scenario in scenarios {
            let new = || Shared { plane: Arc::new(OnceCell::new()), users: 0 };
            planes.entry(scenario.plane_key()).or_insert_with(new).users += 1;
        }
        Self {
            server,
            launcher,
            golden: golden.to_owned(),
            planes: Mutex::new(planes),
            room: Semaphore::new(PLANES),
            restarts: None,
        }
    }

    /// Restarts managers while scenarios are played.
    pub fn restarting(self, restarts: Option<Restarts>) -> Self {
        Self { restarts, ..self }
    }

    /// Plays a scenario and judges it.
    pub async fn play(&self, scenario: &Scenario) -> anyhow::Result<Verdict> {
        let golden = Golden::read(&self.golden.join(format!("{}.json", scenario.name)))?;
        let key = scenario.plane_key();
        let cell = self.planes.lock().get(&key).map(|shared| shared.plane.clone());
        let cell = cell.context("the scenario is not one of the player's")?;
        let played = self.play_in(scenario, &cell).await;
        drop(cell);
        self.leave(&key).await;
        Ok(golden::judge(&golden, &played?, scenario.fault_present()))
    }

    async fn play_in(&self, scenario: &Scenario, cell: &OnceCell<Plane>) -> anyhow::Result<run::Outcome> {
        let start = || async {
            // Held as long as the plane: given back in `leave`.
            self.room.acquire().await?.forget();
            let plane = Plane::start(&self.server, self.launcher.clone(), self.restarts, scenario).await;
            if plane.is_err() {
                self.room.add_permits(1);
            }
            plane
        };
        let plane = cell.get_or_try_init(start).await?;
        Run::play(scenario, plane, &namespace()).await
    }

    /// The last one to use a control plane stops it.
    async fn leave(&self, key: &str) {
        let last = {
            let mut planes = self.planes.lock();
            match planes.get_mut(key) {
                Some(shared) if shared.users > 1 => {
                    shared.users -= 1;
                    None
                }
                Some(_) => planes.remove(key),
                None => None,
            }
        };
        let plane = last.and_then(|shared| Arc::into_inner(shared.plane)).and_then(OnceCell::into_inner);
        if let Some(plane) = plane {
            plane.stop().await;
            self.room.add_permits(1);
        }
    }
}

/// A random name; never one that could be taken for a hash or a number.
fn namespace() -> String {
    let mut rng = rand::rng();
    let letters = "abcdefghjkmnpqrs".as_bytes();
    let word: String = (0..8).map(|_| char::from(letters[rng.random_range(0..letters.len())])).collect();
    format!("p-{word}")
}
