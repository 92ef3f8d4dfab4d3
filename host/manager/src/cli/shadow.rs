//! `coxswain shadow NAME`.

use std::process::ExitCode;

use anyhow::bail;
use coxswain::{
    controller::ControllerStatus,
    engine::short,
    manager::{ModuleStatus, Refusal, Status, as_shadow, not_running},
};

use super::status;

/// What the exit code means, for `--help`.
const EXIT_CODES: &str = "Exit code: 0 the candidate agrees so far; 2 it differs or fails; 1 there is none.";

/// Flags of `shadow`.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    /// Name of the controller, or a short name.
    name: String,
    #[command(flatten)]
    status: status::Args,
}

/// Shows how a candidate differs from the version that runs.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let status = args.status.ask()?;
    let named = |c: &&ControllerStatus| c.name == args.name || c.aliases.contains(&args.name);
    let Some(controller) = status.controllers.iter().find(named) else {
        let names: Vec<_> = status.controllers.iter().map(|c| c.name.as_str()).collect();
        bail!("{}", not_running(&args.name, &names));
    };
    if controller.shadows.is_empty() {
        bail!("{}", none(controller, &status));
    }
    if args.status.json {
        say!("{}", serde_json::to_string_pretty(&controller.shadows)?);
    }
    let mut differs = false;
    for shadow in &controller.shadows {
        differs |= shadow.differed + shadow.faults > 0;
        if args.status.json {
            continue;
        }
        say!(
            "{} {} beside {}, since {:.0}",
            controller.name,
            shadow.version,
            controller.version,
            shadow.since
        );
        say!("{}: {}", shadow.file, shadow.summary());
        if let Some(reason) = &shadow.ended {
            say!("not asked any more: {reason}");
        }
        for difference in &shadow.differences {
            say!("\n{} ({} times, last at {:.0})", difference.key, difference.times, difference.at);
            say!("{}", difference.diff.trim_end());
        }
    }
    Ok(ExitCode::from(if differs { 2 } else { 0 }))
}

/// Why nothing is compared with a controller: its candidate has another part, or is refused, or there is none.
fn none(controller: &ControllerStatus, status: &Status) -> String {
    let name = &controller.name;
    if let Some(canary) = &controller.canary {
        return format!("{name} has no shadow, but a canary: {}", canary.summary());
    }
    let as_shadow = std::iter::once(name).chain(&controller.aliases).map(|name| as_shadow(name) + ":");
    let as_shadow: Vec<String> = as_shadow.collect();
    let refused = |one: &&Refusal| as_shadow.iter().any(|begin| one.reason.starts_with(begin));
    if let Some(Refusal { file, reason }) = status.refused.iter().find(refused) {
        return format!("{name} has no shadow; {file} is not loaded: {reason}");
    }
    let its = |module: &&ModuleStatus| module.file == controller.file && module.hash != controller.hash;
    match status.modules.iter().find(its) {
        Some(ModuleStatus { file, hash, stage, reason, .. }) => {
            let stage = stage.name();
            // A reason may begin with what the stage is called.
            let said = |reason: &String| {
                reason.strip_prefix(stage).map_or_else(|| format!(": {reason}"), str::to_owned)
            };
            let why = reason.as_ref().map(said).unwrap_or_default();
            format!("{name} has no shadow; {file} ({}) is {stage}{why}", short(hash))
        }
        None => format!(
            "{name} has no shadow; start the manager with --shadow {name}=FILE or --swap-through-shadow"
        ),
    }
}
