//! `coxswain flags`: which flags the controllers bring, and what becomes of
//! kube-controller-manager's.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::Context;
use clap::CommandFactory;
use coxswain::{
    contract::{LookupRule, Manifest, OptionKind},
    engine::{Engine, EngineConfig, LoadError},
    executor::signing,
};

use super::flags::{judge, known};

/// Flags of `flags`.
#[derive(clap::Args)]
pub struct Args {
    /// Directory of controller modules (*.wasm).
    #[arg(long, env = "COXSWAIN_CONTROLLERS_DIR")]
    controllers_dir: Option<PathBuf>,
    /// What becomes of each flag of kube-controller-manager, as a table in Markdown.
    #[arg(long)]
    markdown: bool,
}

/// Prints.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let dir = args.controllers_dir.unwrap_or_else(super::default_controllers_dir);
    let manifests = all(&dir)?;
    if args.markdown {
        print_table(&manifests);
    } else {
        print_options(&manifests);
    }
    Ok(ExitCode::SUCCESS)
}

/// Prints the options of all modules in a directory.
pub fn help_controllers(dir: &Path) -> anyhow::Result<ExitCode> {
    print_options(&all(dir)?);
    Ok(ExitCode::SUCCESS)
}

fn all(dir: &Path) -> anyhow::Result<Vec<Arc<Manifest>>> {
    let (found, unloaded) = super::runtime()?.block_on(manifests(dir, EngineConfig::default()))?;
    for (path, error) in unloaded {
        eprintln!("{} is left out: {error}", path.display());
    }
    Ok(found)
}

/// What the modules in a directory say of themselves, and files that cannot be loaded.
///
/// # Errors
///
/// The directory or a file cannot be read, or there is no engine.
pub async fn manifests(
    dir: &Path,
    engine: EngineConfig,
) -> anyhow::Result<(Vec<Arc<Manifest>>, Vec<(PathBuf, LoadError)>)> {
    let entries = std::fs::read_dir(dir)
        .with_context(|| format!("cannot read {}; give the modules with --controllers-dir", dir.display()))?;
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "wasm"));
    paths.sort();
    let engine = Engine::new(engine)?;
    let (mut found, mut unloaded) = (Vec::new(), Vec::new());
    for path in paths {
        let bytes = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        match engine.load(bytes).await {
            Ok(module) => found.push(module.manifest().clone()),
            Err(error) => unloaded.push((path, error)),
        }
    }
    Ok((found, unloaded))
}

/// One flag of a module: its name, its default, what it is.
fn flags_of(manifest: &Manifest) -> Vec<(String, String, String)> {
    let kind = |kind| match kind {
        OptionKind::Text => "text",
        OptionKind::Boolean => "true or false",
        OptionKind::Integer => "a whole number",
        OptionKind::Decimal => "a number",
        OptionKind::Duration => "a duration",
        OptionKind::File => "a file",
        OptionKind::TextList => "a list",
    };
    let manager = manager_flags();
    let own = manifest.options.iter().filter(|option| !manager.contains(&option.name));
    let mut flags: Vec<_> = own
        .map(|option| {
            let help = option.help.trim_end_matches('.');
            (option.name.clone(), option.default.clone(), format!("{help} ({})", kind(option.kind)))
        })
        .collect();
    if !manifest.concurrency_flag.is_empty() {
        let keys = if manifest.concurrency == 0 { 5 } else { manifest.concurrency };
        flags.push((
            manifest.concurrency_flag.clone(),
            keys.to_string(),
            "keys at once (a whole number)".into(),
        ));
    }
    for rule in &manifest.lookups {
        let LookupRule::Sign(key) = rule else { continue };
        for (flag, what) in signing::flags(key).into_iter().zip(["key", "certificate"]) {
            if !flags.iter().any(|(name, ..)| *name == flag) {
                flags.push((flag, String::new(), format!("{what} to sign with (a file)")));
            }
        }
    }
    flags.sort();
    flags
}

/// Names of the flags of `run` that the program itself knows.
fn manager_flags() -> Vec<String> {
    let mut command = super::Cli::command();
    command.build();
    let run = command.find_subcommand("run").into_iter().flat_map(clap::Command::get_arguments);
    run.filter_map(|arg| arg.get_long().map(str::to_owned)).collect()
}

fn print_options(manifests: &[Arc<Manifest>]) {
    for manifest in manifests {
        let flags = flags_of(manifest);
        if flags.is_empty() {
            continue;
        }
        say!("{}", manifest.name);
        for (name, default, help) in flags {
            say!("  --{name}={default}\n        {help}");
        }
        say!("");
    }
    let without = manifests.iter().filter(|manifest| flags_of(manifest).is_empty());
    let without: Vec<_> = without.map(|manifest| manifest.name.as_str()).collect();
    if !without.is_empty() {
        say!("without options: {}", without.join(", "));
    }
}

fn print_table(manifests: &[Arc<Manifest>]) {
    let manager = manager_flags();
    let mut owners: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for manifest in manifests {
        for flag in judge::flags_of(manifest) {
            let of = owners.entry(flag).or_default();
            if !of.contains(&manifest.name.as_str()) {
                of.push(&manifest.name);
            }
        }
    }
    say!("| flag | default there | here |");
    say!("|---|---|---|");
    for flag in known::all() {
        let becomes = match owners.get(flag.name) {
            _ if manager.iter().any(|name| name == flag.name) => "the manager's".to_owned(),
            Some(owners) => owners.join(", "),
            None => {
                format!("without effect: {}", known::without_effect(flag.name).unwrap_or("no module has it"))
            }
        };
        let default = if flag.default.is_empty() { String::new() } else { format!("`{}`", flag.default) };
        say!("| `--{}` | {default} | {becomes} |", flag.name);
    }
}
