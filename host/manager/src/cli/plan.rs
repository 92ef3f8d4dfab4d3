//! `coxswain plan`.

use std::{process::ExitCode, sync::Arc, time::Duration};

use coxswain::{manager::Manager, preview::Preview};

use super::{flags::Rest, run, startup};

/// What the exit code means, for `--help`.
const EXIT_CODES: &str = "\
Exit code: 0 nothing would be done; 2 something would; 1 not everything could be found out (what was found is printed \
all the same).";

/// Flags of `plan`: those of `run`, and these.
#[derive(clap::Args)]
#[command(after_help = EXIT_CODES)]
pub struct Args {
    #[command(flatten)]
    run: run::Args,
    /// Only what would be done to objects of this namespace.
    #[arg(long, short = 'n')]
    namespace: Option<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    /// Show the events that would be recorded as well.
    #[arg(long)]
    events: bool,
    /// How long finding out may take, compiling modules included, such as 90s.
    #[arg(long, default_value = "2m", value_parser = duration)]
    timeout: Duration,
    /// How many writes are tried at most.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    max_writes: u64,
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    let duration = coxswain::goflag::duration(text)?;
    if duration.is_zero() { Err("expected more than 0") } else { Ok(duration) }
}

/// Finds out what would be done, and prints it.
pub fn main(args: Args, rest: Rest) -> anyhow::Result<ExitCode> {
    args.run.init_log("error")?;
    super::to_its_end(plan(args, rest))
}

async fn plan(args: Args, rest: Rest) -> anyhow::Result<ExitCode> {
    let preview = Arc::new(Preview::new(args.max_writes));
    let gates = args.run.manager.startup.gates()?;
    // Held until the end: modules may look at it again.
    let (mut config, _authority) = args.run.config(&gates, &rest).await?;
    config.preview = Some(preview.clone());
    let dir = config.controllers_dir.clone();
    let manager = Manager::start(config).await?;
    let found = async {
        if !startup::admit(&manager, &dir, &args.run.manager, &gates, &rest).await {
            anyhow::bail!("nothing was looked at");
        }
        let mut report = manager.preview(&preview, args.timeout).await.map_err(anyhow::Error::msg)?;
        if let Some(namespace) = &args.namespace {
            report.retain_namespace(namespace);
            let is_there = !report.actions.is_empty() || manager.has_namespace(namespace).await;
            anyhow::ensure!(is_there, "--namespace: there is no namespace {namespace:?} in the cluster");
        }
        Ok(report)
    };
    let found = tokio::select! {
        found = found => found,
        done = super::interrupted() => Err(done.err().unwrap_or_else(|| anyhow::anyhow!("interrupted"))),
    };
    manager.shutdown().await;
    let report = found?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!("{}", report.to_text(args.events).trim_end());
    }
    Ok(ExitCode::from(report.exit_code()))
}
