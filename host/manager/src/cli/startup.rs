//! From a started manager to running controllers: flags are judged, then the
//! controllers are let go.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use clap::CommandFactory;
use coxswain::{
    clock::SystemClock,
    contract::Manifest,
    entropy::Entropy,
    executor::signing::KeyFiles,
    goflag,
    grants::Policy,
    manager::{Given, Manager, Operating, Selection, nearest},
};

use super::{
    flags::{
        Rest,
        gates::{self, Gate},
        judge::{self, Modules, Verdict},
        known,
    },
    list_flags,
    run::ManagerArgs,
};

/// How long the first loading of modules may take before controllers start
/// with those that are loaded. A first start compiles every module.
const FIRST_LOAD: Duration = Duration::from_secs(120);

/// How often a loading that takes its time is mentioned.
const STILL_LOADING: Duration = Duration::from_secs(10);

/// Flags about how controllers start and end.
#[derive(clap::Args)]
#[command(next_help_heading = "Controllers")]
pub struct StartupArgs {
    /// YAML file of flags; what the command line says wins.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Features to switch on or off: NAME=true or NAME=false, with commas
    /// between.
    #[arg(long, value_name = "GATES")]
    feature_gates: Vec<String>,
    /// Pause before a controller starts: at least this, at most twice as much.
    #[arg(long, value_parser = goflag::duration, default_value = "0s", value_name = "DURATION")]
    controller_start_interval: Duration,
    /// How long writes under way may take on shutdown; 0 is without end.
    #[arg(long, value_parser = goflag::duration, default_value = "10s", value_name = "DURATION")]
    controller_shutdown_timeout: Duration,
    /// Each controller writes as a service account of its own in kube-system,
    /// which is created if it is absent, instead of as the manager.
    #[arg(long, help_heading = "API server")]
    use_service_account_credentials: bool,
    /// Name that the API server notes as the manager of fields that controllers
    /// write, such as kube-controller-manager. Default: each controller's name.
    #[arg(long, value_name = "NAME", help_heading = "API server")]
    field_manager: Option<String>,
}

impl StartupArgs {
    /// How the manager is operated.
    pub fn operating(&self, authority: Option<PathBuf>) -> Operating {
        Operating {
            hold: true,
            start_interval: self.controller_start_interval,
            shutdown_timeout: self.controller_shutdown_timeout,
            service_accounts: self.use_service_account_credentials,
            field_manager: self.field_manager.clone().filter(|name| !name.is_empty()),
            authority,
            ..Operating::default()
        }
    }

    /// The features that were given.
    ///
    /// # Errors
    ///
    /// A gate cannot be read, or is locked.
    pub fn gates(&self) -> anyhow::Result<Vec<Gate>> {
        gates::parse(&self.feature_gates).map_err(anyhow::Error::msg)
    }
}

/// Judges flags once the modules are loaded, and lets the controllers start if
/// nothing is wrong. Else says what is wrong; none has started then.
pub async fn admit(
    manager: &Arc<Manager>,
    dir: &Path,
    flags: &ManagerArgs,
    gates: &[Gate],
    rest: &Rest,
) -> bool {
    let loaded = loaded(manager).await;
    let unloaded = manager.unloaded().iter().map(|path| file_name(path)).collect();
    let keys = |manifest: &Manifest| manager.key_troubles(manifest);
    if !are_good(&manager.manifests(), unloaded, dir, flags, gates, rest, keys) {
        return false;
    }
    if !loaded {
        tracing::warn!("not all modules are loaded after {FIRST_LOAD:?}; the others start");
    }
    manager.admit().await;
    true
}

/// Judges flags where there is no cluster to start with, so that they are told first all the same: what is wrong is
/// logged.
pub async fn judge_alone(dir: &Path, flags: &ManagerArgs, gates: &[Gate], rest: &Rest) -> anyhow::Result<()> {
    let (manifests, unloaded) = list_flags::manifests(dir, flags.engine()).await?;
    let unloaded = unloaded.iter().map(|(path, _)| file_name(path)).collect();
    let keys = KeyFiles::new(rest.given.last_values(), Arc::new(SystemClock), Entropy::from_os());
    are_good(&manifests, unloaded, dir, flags, gates, rest, |manifest| keys.troubles(manifest));
    if let Some(policy) = flags.policy()
        && let Err(error) = Policy::read(policy)
    {
        tracing::error!("{error}");
    }
    Ok(())
}

/// Whether all flags are good; what is wrong, or has no effect, is logged.
fn are_good(
    manifests: &[Arc<Manifest>],
    unloaded: Vec<String>,
    dir: &Path,
    flags: &ManagerArgs,
    gates: &[Gate],
    rest: &Rest,
    key_troubles: impl Fn(&Manifest) -> Vec<String>,
) -> bool {
    let selection = &flags.selection();
    let modules = Modules { dir, manifests: manifests.iter().map(|m| &**m).collect(), unloaded };
    let mut verdict = verdict(&rest.given, selection, gates, rest, &modules);
    let (errors, warnings) = single(&flags.named(), &modules);
    verdict.errors.extend(errors);
    verdict.warnings.extend(warnings);
    for manifest in manifests.iter().filter(|manifest| selection.selects_module(manifest)) {
        let troubles = coxswain::manager::options::troubles(manifest, &rest.given, true);
        let files = troubles.iter().map(ToString::to_string).chain(key_troubles(manifest));
        for trouble in files.collect::<Vec<_>>() {
            if !verdict.errors.contains(&trouble) {
                verdict.errors.push(trouble);
            }
        }
    }
    for warning in &verdict.warnings {
        tracing::warn!("{warning}");
    }
    for error in &verdict.errors {
        tracing::error!("{error}");
    }
    verdict.errors.is_empty()
}

async fn loaded(manager: &Manager) -> bool {
    let loading = async {
        let mut soon = tokio::time::interval(STILL_LOADING);
        soon.tick().await;
        tokio::pin! {
            let first = manager.first_load();
        }
        loop {
            tokio::select! {
                () = &mut first => return,
                _ = soon.tick() => {
                    let files: Vec<_> = manager.unloaded().iter().map(|path| file_name(path)).collect();
                    tracing::info!(files = files.join(", "), "modules are being compiled");
                }
            }
        }
    };
    tokio::time::timeout(FIRST_LOAD, loading).await.is_ok()
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

fn verdict(
    given: &Given,
    selection: &Selection,
    gates: &[Gate],
    rest: &Rest,
    modules: &Modules<'_>,
) -> Verdict {
    let mut command = super::Cli::command();
    command.build();
    let own = command.find_subcommand("run").into_iter().flat_map(clap::Command::get_arguments);
    let own: Vec<String> = own.filter_map(|arg| arg.get_long().map(str::to_owned)).collect();
    let mut verdict = judge::judge(given, rest.file.as_ref(), modules, &own);
    let manifests = modules.manifests.iter().copied();
    let (errors, warnings) = gates::judge(gates, manifests, &modules.unloaded, modules.dir);
    verdict.errors.extend(errors);
    verdict.warnings.extend(warnings);
    let (errors, warnings) = names(selection, modules);
    verdict.errors.extend(errors);
    verdict.warnings.extend(warnings);
    verdict
}

/// Judges the names in `--controllers`.
fn names(selection: &Selection, modules: &Modules<'_>) -> (Vec<String>, Vec<String>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let have = names_of(modules);
    let dir = modules.dir.display();
    for name in selection.unknown(&have) {
        if known::is_controller(name) {
            // Whoever forbids it need not be told that it is not there.
            if !selection.forbids(name) {
                warnings.push(format!("--controllers: no module in {dir} is called {name}; it does not run"));
            }
        } else if !modules.unloaded.is_empty() {
            warnings.push(format!(
                "--controllers: no module that is loaded is called {name}; one that could not be loaded may be ({})",
                modules.unloaded.join(", ")
            ));
        } else {
            let hint = hint(name, &have, modules);
            errors.push(format!("--controllers: no module in {dir} is called {name}; {hint}"));
        }
    }
    let any = modules.manifests.iter().any(|manifest| selection.selects_module(manifest));
    if errors.is_empty() && !any && !modules.manifests.is_empty() {
        errors.push(format!("--controllers={selection} selects no module in {dir}: nothing to run"));
    }
    (errors, warnings)
}

/// Judges flags about single controllers: each flag with the name in it.
fn single(named: &[(&str, String)], modules: &Modules<'_>) -> (Vec<String>, Vec<String>) {
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    let have = names_of(modules);
    let dir = modules.dir.display();
    for (flag, name) in named.iter().filter(|(_, name)| !have.contains(name)) {
        let file = format!("{name}.wasm");
        if modules.unloaded.contains(&file) {
            warnings.push(format!("{flag}: {name} has no effect until {file} can be loaded"));
        } else if known::is_controller(name) {
            warnings.push(format!("{flag}: no module in {dir} is called {name}; it has no effect"));
        } else if !modules.unloaded.is_empty() {
            warnings.push(format!(
                "{flag}: no module that is loaded is called {name}; one that could not be loaded may be ({})",
                modules.unloaded.join(", ")
            ));
        } else {
            let hint = hint(name, &have, modules);
            errors.push(format!("{flag}: no module in {dir} is called {name}; {hint}"));
        }
    }
    (errors, warnings)
}

/// Names and aliases of the modules that could be loaded.
fn names_of(modules: &Modules<'_>) -> Vec<String> {
    let of = |m: &&Manifest| std::iter::once(m.name.clone()).chain(m.aliases.clone()).collect::<Vec<_>>();
    modules.manifests.iter().flat_map(of).collect()
}

/// What may be meant by a name that no module has.
fn hint(name: &str, have: &[String], modules: &Modules<'_>) -> String {
    match nearest(name, have.iter().map(String::as_str)) {
        Some(near) => format!("did you mean {near}?"),
        None => format!("it has {}", or_none(&modules.manifests)),
    }
}

fn or_none(manifests: &[&Manifest]) -> String {
    let mut names: Vec<&str> = manifests.iter().map(|manifest| manifest.name.as_str()).collect();
    names.sort_unstable();
    if names.is_empty() { "none".into() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flag_about_a_controller_that_is_not_there_is_an_error() {
        let web = Manifest { aliases: vec!["web".into()], ..Manifest::blank("web-controller") };
        let judged = |name: &str, unloaded: &[&str]| {
            let unloaded = unloaded.iter().map(|&file| file.to_owned()).collect();
            let modules = Modules { dir: Path::new("/m"), manifests: vec![&web], unloaded };
            single(&[("--limit", name.to_owned())], &modules)
        };
        assert_eq!(judged("web", &[]), Default::default());
        assert_eq!(judged("web-controller", &[]), Default::default());
        let error = |text: &str| (vec![text.to_owned()], Vec::new());
        let unlike = "--limit: no module in /m is called nope; it has web-controller";
        assert_eq!(judged("nope", &[]), error(unlike));
        let alike = "--limit: no module in /m is called web-controler; did you mean web-controller?";
        assert_eq!(judged("web-controler", &[]), error(alike));
        // Only a warning where it may be one that is broken, or is one of Kubernetes that is left out.
        for (name, unloaded, wanted) in [
            ("nope", &["nope.wasm"][..], "has no effect until nope.wasm can be loaded"),
            ("nope", &["other.wasm"], "may be (other.wasm)"),
            ("job-controller", &[], "no module in /m is called job-controller"),
        ] {
            let (errors, warnings) = judged(name, unloaded);
            assert!(errors.is_empty() && warnings.len() == 1, "{name}: {errors:?} {warnings:?}");
            assert!(warnings[0].contains(wanted), "{warnings:?}");
        }
    }
}
