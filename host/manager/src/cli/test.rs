//! `coxswain test`.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, anyhow};
use coxswain::{
    engine::{Engine, EngineConfig, Module},
    scenario::ModuleReconciler,
};
use coxswain_sdk::testing;

/// Flags of `test`.
#[derive(clap::Args)]
pub struct Args {
    /// The module.
    module: PathBuf,
    /// Scenario files, or directories of them. Beside each lies the plan that it
    /// must come to: `NAME.yaml` and `NAME.plan.yaml`.
    #[arg(required = true)]
    scenarios: Vec<PathBuf>,
    /// Record the plans instead of comparing. Read them before you keep them.
    #[arg(long)]
    bless: bool,
}

/// Plays scenarios with a module, whatever language it was written in. Fails if
/// one of them fails.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let bytes =
        std::fs::read(&args.module).with_context(|| format!("cannot read {}", args.module.display()))?;
    let engine = Engine::new(EngineConfig::default())?;
    let module = super::runtime()?
        .block_on(engine.load(bytes))
        .with_context(|| format!("{} cannot be run", args.module.display()))?;
    let mut files = Vec::new();
    for path in &args.scenarios {
        if path.is_dir() {
            files.extend(testing::files(path).map_err(|e| anyhow!(e))?);
        } else {
            files.push(path.clone());
        }
    }
    let mut failed = 0;
    for file in &files {
        match play(&module, file, args.bless)? {
            Ok(()) => say!("ok      {}", file.display()),
            Err(why) => {
                failed += 1;
                say!("FAILED  {why}");
            }
        }
    }
    say!(
        "{} of {} scenarios {}",
        files.len() - failed,
        files.len(),
        if args.bless { "recorded" } else { "pass" }
    );
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Plays one scenario; the inner error says why it fails.
fn play(module: &Module, file: &Path, bless: bool) -> anyhow::Result<Result<(), String>> {
    let mut reconciler = ModuleReconciler::new(module.clone())?;
    let judge = if bless { testing::bless_file } else { testing::check_file };
    Ok(judge(file, &mut reconciler).map_err(|mut why| {
        for line in reconciler.take_log() {
            why.push_str("\n  log: ");
            why.push_str(&line);
        }
        why
    }))
}
