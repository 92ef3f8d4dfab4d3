//! The conformance tests as one list: `parity::FAMILY::NAME` and `apiconf::FAMILY::NAME`.
//!
//! In: the arguments of a test binary, the environment. Out: a report that ends
//! with `N passed, M failed`. Kept: what waits for something that is not built
//! yet is listed as ignored, with what it waits for.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use libtest_mimic::{Arguments, Failed, Trial};

use crate::{
    apiconf,
    parity::{
        self, Player, families,
        golden::report,
        manager::{Launcher, ProcessLauncher},
        plane::Server,
        restarts::{self, Restarts},
        scenario::Scenario,
    },
};

/// Tests at once, unless told otherwise. They mostly wait.
const THREADS: usize = 8;
/// Kubeconfig of an API server to play scenarios against, in the place of embedded ones.
const KUBECONFIG: &str = "PARITY_KUBECONFIG";
/// Command line of the manager, in the place of the one in this process.
const MANAGER: &str = "PARITY_MANAGER_CMD";
/// Controllers that the manager of [`MANAGER`] has, joined by commas; all if not set.
const CONTROLLERS: &str = "PARITY_CONTROLLERS";

/// How many scenarios and cases may be played a second time after a failure; none if it is not set. They run in real
/// time beside each other, and the reference itself does not end every one of them the same each time. The second time
/// nothing else runs. Which are played twice, and why, is said when it happens.
const AGAIN: &str = "PARITY_AGAIN";

/// How many scenarios are played, chosen by [`SEED`] from those that take no longer than [`QUICK`]; all if it is not set.
const SAMPLE: &str = "PARITY_SAMPLE";
/// Which are chosen, and at what times managers are restarted.
const SEED: &str = "PARITY_SEED";
/// Seconds.
const QUICK: u64 = 10;

/// What scenarios wait for, and how many of them.
type Waiting = BTreeMap<&'static str, usize>;

/// Runs the conformance tests. `data` has `parity` and `apiconf`; `embedded`
/// makes the manager that is used unless the environment names another.
pub fn main(data: &Path, embedded: impl FnOnce() -> anyhow::Result<Arc<dyn Launcher>>) -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(THREADS);
    match run(&arguments, data, embedded) {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(
    arguments: &Arguments,
    data: &Path,
    embedded: impl FnOnce() -> anyhow::Result<Arc<dyn Launcher>>,
) -> anyhow::Result<ExitCode> {
    let runtime = Arc::new(tokio::runtime::Builder::new_multi_thread().enable_all().build()?);
    let launcher = match std::env::var(MANAGER) {
        Ok(command) => Arc::new(ProcessLauncher::new(&command, named_controllers())?),
        Err(_) => embedded()?,
    };
    let server =
        std::env::var(KUBECONFIG).map_or(Server::Embedded, |path| Server::Running(PathBuf::from(path)));
    let again = Arc::new(Again::from_environment()?);
    let (mut trials, waiting) = parity_trials(arguments, data, server, launcher, &runtime, &again)?;
    trials.extend(apiconf_trials(data, &runtime, &again)?);
    let conclusion = libtest_mimic::run(arguments, trials);
    if !arguments.list {
        if conclusion.num_ignored > 0 {
            let what: Vec<String> =
                waiting.iter().map(|(what, number)| format!("{what} ({number})")).collect();
            let what = if what.is_empty() { String::new() } else { format!(", for {}", what.join(", ")) };
            println!("{} waiting{what}", conclusion.num_ignored);
        }
        println!("{} passed, {} failed", conclusion.num_passed, conclusion.num_failed);
    }
    Ok(conclusion.exit_code())
}

fn named_controllers() -> Option<BTreeSet<String>> {
    let names = std::env::var(CONTROLLERS).ok()?;
    Some(names.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect())
}

/// Scenarios that share a control plane come one after another, the longest
/// first: so none waits for a control plane whose users have not begun.
fn in_order(mut scenarios: Vec<Scenario>) -> Vec<Scenario> {
    let mut weights: BTreeMap<String, u64> = BTreeMap::new();
    for scenario in &scenarios {
        let weight = weights.entry(scenario.plane_key()).or_default();
        *weight = (*weight).max(scenario.weight) + 1;
    }
    scenarios.sort_by_cached_key(|scenario| {
        let key = scenario.plane_key();
        (std::cmp::Reverse(weights[&key]), key, std::cmp::Reverse(scenario.weight), scenario.name.clone())
    });
    scenarios
}

fn parity_trials(
    arguments: &Arguments,
    data: &Path,
    server: Server,
    launcher: Arc<dyn Launcher>,
    runtime: &Arc<tokio::runtime::Runtime>,
    again: &Arc<Again>,
) -> anyhow::Result<(Vec<Trial>, Waiting)> {
    let there = launcher.controllers();
    let embedded = matches!(server, Server::Embedded);
    let lacks = |scenario: &Scenario| -> Vec<&'static str> {
        let mut missing = there.as_ref().map(|there| families::missing(scenario, there)).unwrap_or_default();
        missing.extend((!embedded && families::needs_simulation(scenario)).then_some("simulated nodes"));
        missing
    };
    let scenarios = in_order(parity::read(&data.join("parity/scenarios"))?);
    let name = |scenario: &Scenario| format!("parity::{}::{}", scenario.family, scenario.name);
    let empty = |scenario: &Scenario| Trial::test(name(scenario), || Ok(()));
    let without = read_listed(&data.join("parity/without-restarts.txt"), &scenarios)?;
    let differing = read_listed(&data.join("parity/differing.txt"), &scenarios)?;
    let mut shown: Vec<Scenario> =
        scenarios.into_iter().filter(|s| !arguments.is_filtered_out(&empty(s))).collect();
    let seed = number(SEED)?.unwrap_or(1);
    let restarts = Restarts::from_environment(seed)?;
    if restarts.is_some() {
        let whole = shown.len();
        shown.retain(|s| !restarts::are_pointless(s) && !without.contains_key(&s.name));
        println!("{} scenarios of {whole} are played with restarts", shown.len());
    }
    if let Some(many) = number(SAMPLE)? {
        shown = sample(shown, many as usize, seed);
    }
    let (waiting, played): (Vec<_>, Vec<_>) = shown.into_iter().partition(|s| !lacks(s).is_empty());
    let alone = {
        let (server, launcher, golden) = (server.clone(), launcher.clone(), data.join("parity/golden"));
        Arc::new(move |scenario: &Scenario| {
            Player::new(server.clone(), launcher.clone(), &golden, std::slice::from_ref(scenario))
                .restarting(restarts)
        })
    };
    let player = Player::new(server, launcher, &data.join("parity/golden"), &played).restarting(restarts);
    let player = Arc::new(player);
    let mut reasons = Waiting::new();
    let mut trials: Vec<Trial> = Vec::new();
    for scenario in &waiting {
        let missing = lacks(scenario);
        missing.iter().for_each(|what| *reasons.entry(what).or_default() += 1);
        let failure = format!("waiting for {}", missing.join(" and "));
        let trial = Trial::test(name(scenario), move || Err(failure.into()));
        trials.push(trial.with_kind("waiting").with_ignored_flag(true));
    }
    trials.extend(played.into_iter().map(|scenario| {
        let (player, runtime) = (player.clone(), runtime.clone());
        let (again, alone) = (again.clone(), alone.clone());
        let mut expected = differing.get(&scenario.name).cloned();
        if restarts.is_some() {
            // Events that wait to be written go with the process.
            expected.get_or_insert_default().push("event missing: ".to_owned());
        }
        Trial::ignorable_test(name(&scenario), move || {
            // Only the difference that is listed is forgiven; any other fails.
            let told = |line: &String| {
                line.starts_with("note: ")
                    || expected.iter().flatten().any(|start| line.starts_with(start.as_str()))
            };
            let judge = |played: anyhow::Result<parity::golden::Verdict>| match played {
                Ok(verdict) if verdict.passed => Ok(libtest_mimic::Completion::Completed),
                Ok(verdict) if expected.is_some() && verdict.lines.iter().all(told) => {
                    Ok(libtest_mimic::Completion::ignored_with("differs as differing.txt says"))
                }
                Ok(verdict) => Err(report(&verdict.lines)),
                Err(error) => Err(format!("{error:#}")),
            };
            let beside_others = async {
                let _shared = again.turns.read().await;
                player.play(&scenario).await
            };
            let first = match judge(runtime.block_on(beside_others)) {
                Ok(done) => return Ok(done),
                Err(why) => why,
            };
            if !again.may(&scenario.name, &first) {
                return Err(first.into());
            }
            let player = alone(&scenario);
            let by_itself = async {
                let _all = again.turns.write().await;
                player.play(&scenario).await
            };
            judge(runtime.block_on(by_itself))
                .map_err(|second| Failed::from(format!("twice; first:\n{first}\nthen:\n{second}")))
        })
    }));
    Ok((trials, reasons))
}

/// A number from the environment.
fn number(variable: &str) -> anyhow::Result<Option<u64>> {
    let Ok(text) = std::env::var(variable) else { return Ok(None) };
    Ok(Some(text.parse().with_context(|| format!("{variable}={text}: expected a number"))?))
}

/// Some of the quick ones: the same for the same seed, and few others for one scenario more.
fn sample(scenarios: Vec<Scenario>, many: usize, seed: u64) -> Vec<Scenario> {
    use sha2::{Digest, Sha256};
    let rank = |scenario: &Scenario| Sha256::digest(format!("{seed} {}", scenario.name));
    let quick = scenarios.iter().filter(|s| s.weight <= QUICK);
    let mut ranks: Vec<_> = quick.map(rank).collect();
    ranks.sort();
    ranks.truncate(many);
    scenarios.into_iter().filter(|s| s.weight <= QUICK && ranks.contains(&rank(s))).collect()
}

/// Who may be played again, and who was.
struct Again {
    left: std::sync::atomic::AtomicUsize,
    /// Shared by those that play the first time; a second time needs it alone.
    turns: tokio::sync::RwLock<()>,
}

impl Again {
    fn from_environment() -> anyhow::Result<Self> {
        let left = number(AGAIN)?.unwrap_or(0) as usize;
        Ok(Self { left: left.into(), turns: tokio::sync::RwLock::new(()) })
    }

    /// Takes one of the plays that are left, and says so.
    fn may(&self, name: &str, why: &str) -> bool {
        use std::sync::atomic::Ordering::Relaxed;
        let taken = self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(1)).is_ok();
        if taken {
            eprintln!("{name} is played a second time; the first time:\n{why}");
        }
        taken
    }
}

/// Scenarios that a file lists, each with what it says of it: `NAME: ONE | ANOTHER`, and a comment after `#`.
fn read_listed(path: &Path, scenarios: &[Scenario]) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let file = path.display();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    lines
        .filter(|line| !line.is_empty())
        .map(|line| {
            let (name, said) =
                line.split_once(':').with_context(|| format!("{file}: expected NAME: TEXT, got {line:?}"))?;
            let known = scenarios.iter().any(|scenario| scenario.name == name.trim());
            anyhow::ensure!(known, "{file} names {name:?}, and there is no such scenario");
            let said = said.split('|').map(|one| one.trim().to_owned()).collect();
            Ok((name.trim().to_owned(), said))
        })
        .collect()
}

fn apiconf_trials(
    data: &Path,
    runtime: &Arc<tokio::runtime::Runtime>,
    again: &Arc<Again>,
) -> anyhow::Result<Vec<Trial>> {
    let directory = data.join("apiconf");
    let waiting = apiconf::read_waiting(&directory.join("waiting.txt"))?;
    let cases = apiconf::read(&directory.join("cases"))?;
    for name in &waiting {
        let known = cases.iter().any(|case| case.name == *name);
        anyhow::ensure!(known, "waiting.txt names {name:?}, and there is no such case");
    }
    let trial = |case: apiconf::Case| {
        let golden = directory.join("golden").join(format!("{}.json", case.name));
        let (name, runtime) = (format!("apiconf::{}::{}", case.family, case.name), runtime.clone());
        let (waits, again) = (waiting.contains(&case.name), again.clone());
        Trial::ignorable_test(name, move || {
            let beside_others = async {
                let _shared = again.turns.read().await;
                apiconf::check(&case, &golden).await.context(case.about.clone())
            };
            let mut checked = runtime.block_on(beside_others);
            // Some of what an answer shows is written by the server a moment after what asked for it.
            let differs = checked.as_ref().ok().filter(|differences| !differences.is_empty());
            if let Some(why) = differs.filter(|_| !waits).map(|differences| apiconf::report(differences))
                && again.may(&case.name, &why)
            {
                let by_itself = async {
                    let _all = again.turns.write().await;
                    apiconf::check(&case, &golden).await.context(case.about.clone())
                };
                checked = runtime.block_on(by_itself);
            }
            match (checked, waits) {
                (Ok(differences), false) if differences.is_empty() => {
                    Ok(libtest_mimic::Completion::Completed)
                }
                (Ok(differences), true) if differences.is_empty() => {
                    Err("passes: take it out of waiting.txt".into())
                }
                (Ok(_) | Err(_), true) => Ok(libtest_mimic::Completion::ignored_with("waiting")),
                (Ok(differences), false) => Err(apiconf::report(&differences).into()),
                (Err(error), false) => Err(format!("{error:#}").into()),
            }
        })
    };
    Ok(cases.into_iter().map(trial).collect())
}
