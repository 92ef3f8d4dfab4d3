//! `coxswain replay DIR --module FILE`.

use std::{collections::BTreeSet, ops::ControlFlow, path::PathBuf, process::ExitCode};

use anyhow::{Context, bail};
use coxswain::{
    contract::WireKey,
    engine::{Engine, EngineConfig, short},
    recording::{
        Recording,
        replay::{self, ReplayOptions, Report},
    },
};

use super::LogArgs;

/// Nothing was decided otherwise, and nothing was missing.
const SAME: u8 = 0;
/// Something is missing, so that nobody can tell.
const INCOMPLETE: u8 = 1;
/// Something was decided otherwise.
const DIFFERENT: u8 = 2;

/// Flags of `replay`.
#[derive(clap::Args)]
#[command(
    after_help = "Exit code: 0 all decisions are the same; 2 some are different; 1 nothing is known to be \
                        different, but the recording lacks something, or the replay could not run."
)]
pub struct Args {
    /// A directory that was recorded into with `--record`, or one of its files.
    recording: PathBuf,
    /// The module that decides anew, most often another version of the one
    /// that was recorded.
    #[arg(long, value_name = "FILE")]
    module: PathBuf,
    /// Only this key: `namespace/name`, or `name`.
    #[arg(long)]
    key: Option<String>,
    /// Differences and gaps shown one by one; the rest is counted.
    #[arg(long, default_value_t = 20)]
    show: usize,
    /// Print JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// Replays and says what differs.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    args.log.init()?;
    let bytes =
        std::fs::read(&args.module).with_context(|| format!("cannot read {}", args.module.display()))?;
    let recording = Recording::open(&args.recording)?;
    let engine = Engine::new(EngineConfig::default())?;
    let module = super::runtime()?
        .block_on(engine.load(bytes))
        .with_context(|| format!("{} cannot be run", args.module.display()))?;
    let options = ReplayOptions { key: args.key.clone(), shown: args.show };
    let report = replay::replay(&recording, &module, &options)?;
    if report.reconciles == 0 {
        bail!("{}", nothing(&recording, &report.controller, &args)?);
    }
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_text(&report);
    }
    Ok(ExitCode::from(code(&report)))
}

fn code(report: &Report) -> u8 {
    match report {
        report if report.different > 0 => DIFFERENT,
        report if report.incomplete > 0 || !report.damaged.is_empty() => INCOMPLETE,
        _ => SAME,
    }
}

/// Says what a recording holds, where it holds nothing of what was asked for.
fn nothing(recording: &Recording, controller: &str, args: &Args) -> anyhow::Result<String> {
    let keys = args.key.as_ref().map(|_| keys(recording, controller)).transpose()?.unwrap_or_default();
    if let Some(key) = args.key.as_ref().filter(|_| !keys.is_empty()) {
        let shown: Vec<&str> = keys.iter().take(args.show.max(1)).map(String::as_str).collect();
        let more = match keys.len() - shown.len() {
            0 => String::new(),
            more => format!(" and of {more} more (--show)"),
        };
        let shown = shown.join(", ");
        return Ok(format!(
            "the recording holds no reconcile of {controller} of key {key}; it holds those of {shown}{more}"
        ));
    }
    let facts = replay::survey(recording)?;
    let has: Vec<String> =
        facts.controllers.iter().map(|(name, count)| format!("{name} ({count})")).collect();
    let has = if has.is_empty() { "none at all".to_owned() } else { has.join(", ") };
    Ok(format!("the recording holds no reconcile of {controller}; it holds {has}"))
}

/// The keys of a controller in a recording, as `--key` takes them.
fn keys(recording: &Recording, controller: &str) -> anyhow::Result<BTreeSet<String>> {
    let mut keys = BTreeSet::new();
    recording.each(
        |name| name == controller,
        |recorded| {
            let WireKey { namespace, name, .. } = recorded.key;
            keys.insert(if namespace.is_empty() { name } else { format!("{namespace}/{name}") });
            ControlFlow::Continue(())
        },
    )?;
    Ok(keys)
}

fn print_text(report: &Report) {
    for one in &report.differences {
        say!("{} at {} decided otherwise than {}:", one.key, one.at, short(&one.recorded));
        say!("{}", one.diff.trim_end());
        say!("");
    }
    for gap in &report.gaps {
        say!("{} at {} cannot be told, not recorded:", gap.key, gap.at);
        for what in &gap.not_recorded {
            say!("  {what}");
        }
        say!("");
    }
    let hidden =
        report.different + report.incomplete - report.differences.len() as u64 - report.gaps.len() as u64;
    if hidden > 0 {
        say!("{hidden} more are not shown; see --show\n");
    }
    say!(
        "{}: {} reconciles replayed: {} the same, {} different, {} incomplete",
        report.controller,
        report.reconciles,
        report.same,
        report.different,
        report.incomplete
    );
    if report.unfinished > 0 {
        say!("{} had not come to an end when they were recorded", report.unfinished);
    }
    if report.dropped > 0 {
        say!("{} reconciles were not recorded, because the disk was too slow or full", report.dropped);
    }
    if report.recorded.len() > 1 {
        let all: Vec<_> = report.recorded.iter().map(|hash| short(hash)).collect();
        say!("recorded of {} builds: {}; replayed with {}", all.len(), all.join(", "), short(&report.hash));
    }
    for cut in &report.cut {
        say!("note: a file has no end, since it is being written or its process was killed: {cut}");
    }
    for damaged in &report.damaged {
        say!("a file is damaged, and what stands behind that is lost: {damaged}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lost_leaves_it_open_whether_all_is_the_same() {
        let damaged = vec!["a file after line 3".to_owned()];
        for (report, wanted) in [
            (Report { same: 1, ..Report::default() }, SAME),
            (Report { same: 1, cut: damaged.clone(), ..Report::default() }, SAME),
            (Report { same: 1, incomplete: 1, ..Report::default() }, INCOMPLETE),
            (Report { same: 1, damaged: damaged.clone(), ..Report::default() }, INCOMPLETE),
            (Report { different: 1, incomplete: 1, damaged, ..Report::default() }, DIFFERENT),
        ] {
            assert_eq!(code(&report), wanted, "{report:?}");
        }
    }
}
