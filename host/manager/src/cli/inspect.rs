//! `coxswain inspect FILE`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::Context;
use coxswain::{
    contract::{GroupResource, KeyKind, LookupRule, Manifest, display_name},
    engine::{Engine, EngineConfig, LoadError},
};
use serde::Serialize;

/// Flags of `inspect`.
#[derive(clap::Args)]
pub struct Args {
    /// The module.
    file: PathBuf,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    file: String,
    bytes: usize,
    runnable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    /// What it said while it described itself, if that failed.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    said: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    manifest: Option<&'a Manifest>,
}

/// Loads a module as the manager would, and prints what it says.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let bytes = std::fs::read(&args.file).with_context(|| format!("cannot read {}", args.file.display()))?;
    let size = bytes.len();
    let engine = Engine::new(EngineConfig::default())?;
    let loaded = super::runtime()?.block_on(engine.load(bytes));
    let report = Report {
        file: args.file.display().to_string(),
        bytes: size,
        runnable: loaded.is_ok(),
        reason: loaded.as_ref().err().map(ToString::to_string),
        said: match &loaded {
            Err(LoadError::Describe { lines, .. }) => lines,
            _ => &[],
        },
        hash: loaded.as_ref().ok().map(|m| m.hash()),
        manifest: loaded.as_ref().ok().map(|m| &**m.manifest()),
    };
    if args.json {
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        print_text(&report);
    }
    Ok(if report.runnable { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn print_text(report: &Report<'_>) {
    say!("{} ({} KB)", report.file, report.bytes.div_ceil(1024));
    if let Some(reason) = &report.reason {
        say!("this host cannot run it: {reason}");
        report.said.iter().for_each(|line| say!("    {line}"));
    }
    let (Some(manifest), Some(hash)) = (report.manifest, report.hash) else { return };
    say!("this host can run it\n");
    say!("name      {}", manifest.name);
    say!("aliases   {}", or_none(&manifest.aliases));
    say!("version   {}", manifest.version);
    say!("sha256    {hash}");
    say!("state     format {}", manifest.state_format);
    say!("\nkeys");
    for source in &manifest.sources {
        let keys = match &source.keys {
            KeyKind::Objects(resources) => format!("each of {}", names(resources)),
            KeyKind::IndexedObjects(i) => {
                format!("each of {} with a value in {}", names(&i.resources), i.indexes.join(" or "))
            }
            KeyKind::IndexValues(i) => format!("each value of {} of {}", i.index, display_name(&i.resource)),
            KeyKind::Single(name) => format!("one, {name}"),
        };
        say!("  {}: {keys}{}", source.name, if source.serial { ", one at a time" } else { "" });
    }
    say!("\nreads");
    for read in &manifest.reads {
        let optional = if read.optional { " (optional)" } else { "" };
        let fields = if read.whole { "the whole object".to_owned() } else { or_none(&read.fields) };
        say!("  {}{optional}: {fields}", display_name(&read.resource));
        for index in &read.indexes {
            say!("    index {}: {}", index.name, index.paths.join(" + "));
        }
    }
    say!("\nwrites");
    for write in &manifest.writes {
        let sub =
            if write.subresource.is_empty() { String::new() } else { format!("/{}", write.subresource) };
        say!("  {}{sub}: {}", display_name(&write.resource), write.verbs.join(", "));
    }
    say!("\nlookups");
    for rule in &manifest.lookups {
        say!("  {}", lookup(rule));
    }
    say!("\noptions");
    for option in &manifest.options {
        say!("  --{}={} ({:?}): {}", option.name, option.default, option.kind, option.help);
    }
    if !manifest.concurrency_flag.is_empty() {
        say!("  --{}={}: keys at once", manifest.concurrency_flag, manifest.concurrency);
    }
}

fn lookup(rule: &LookupRule) -> String {
    match rule {
        LookupRule::Get(r) if r.subresource.is_empty() => format!("get {}", display_name(&r.resource)),
        LookupRule::Get(r) => format!("get {}/{}", display_name(&r.resource), r.subresource),
        LookupRule::List(r) => format!("list {}", display_name(r)),
        LookupRule::Raw(prefix) => format!("GET {prefix}…"),
        LookupRule::Review(r) => format!("review {}", display_name(r)),
        LookupRule::Sign(key) => {
            let [key_flag, certificate_flag] = coxswain::executor::signing::flags(key);
            format!("sign with {key} (--{key_flag}, --{certificate_flag})")
        }
    }
}

fn names(resources: &[GroupResource]) -> String {
    resources.iter().map(display_name).collect::<Vec<_>>().join(", ")
}

fn or_none(list: &[String]) -> String {
    if list.is_empty() { "none".into() } else { list.join(", ") }
}
