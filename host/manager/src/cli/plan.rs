//! `coxswain plan`.

use std::{process::ExitCode, sync::Arc, time::Duration};

use coxswain::{
    manager::{Given, Manager},
    preview::{Preview, Watcher},
};

use super::{flags, run};

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
}

fn duration(text: &str) -> Result<Duration, String> {
    let parsed: Option<jiff::SignedDuration> = text.parse().ok();
    let parsed = parsed.and_then(|duration| Duration::try_from(duration).ok());
    parsed.filter(|d| !d.is_zero()).ok_or_else(|| "expected a duration such as 30s, 5m or 1h30m".to_owned())
}

/// Finds out what would be done, and prints it.
pub fn main(args: Args, options: Given) -> anyhow::Result<ExitCode> {
    args.run.init_log("error");
    super::runtime()?.block_on(plan(args, options))
}

async fn plan(args: Args, options: Given) -> anyhow::Result<ExitCode> {
    let preview = Arc::new(Preview::default());
    let given = options.clone();
    // Held until the end: modules may look at it again.
    let (mut config, _authority) = args.run.config(options).await?;
    config.gate = preview.clone();
    config.observers = vec![Arc::new(Watcher(preview.clone()))];
    let manager = Manager::start(config).await?;
    let found = tokio::select! {
        found = manager.preview(&preview, args.timeout) => found.map_err(anyhow::Error::msg),
        done = super::interrupted() => Err(done.err().unwrap_or_else(|| anyhow::anyhow!("interrupted"))),
    };
    flags::report_unused(&given, &manager.known_flags());
    let selection = args.run.check_selection(&manager);
    manager.shutdown().await;
    let mut report = found?;
    selection?;
    if let Some(namespace) = &args.namespace {
        report.retain_namespace(namespace);
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!("{}", report.to_text(args.events).trim_end());
        if !report.complete {
            say!("Time ran out after {:?}; give more with --timeout.", args.timeout);
        }
    }
    Ok(ExitCode::from(report.exit_code()))
}
