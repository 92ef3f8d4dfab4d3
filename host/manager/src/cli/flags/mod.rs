//! The command line, as kube-controller-manager takes it.
//!
//! In: arguments and, with `--config`, a file. Out: what clap parses, and what
//! only the loaded modules can explain, since each option of a controller is a
//! flag, whichever module brings it.
//!
//! ```text
//! arguments ─► line (Go's syntax) ─┬─► flags of the manager ─► clap
//!      file ─► file (YAML) ────────┘└► the rest: Given ─► judge, once the modules are loaded
//! ```
//!
//! Invariant: no controller starts before [`judge`] has found nothing wrong.

pub mod file;
pub mod gates;
pub mod judge;
pub mod known;
pub mod line;

use std::{collections::BTreeMap, ffi::OsString, path::PathBuf};

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use coxswain::manager::Given;
use serde_json::{Map, Value};

use super::Cli;

/// What a command line says that clap does not know.
#[derive(Debug, Default)]
pub struct Rest {
    /// Flags that the command does not know.
    pub given: Given,
    /// Those of them that come from the configuration file.
    pub file: Option<file::Origin>,
    /// The manager's own flags with the values they have, defaults included.
    pub effective: Map<String, Value>,
}

/// Why a command line cannot be used.
#[derive(Debug)]
pub enum Error {
    /// Clap says so, or was asked for help.
    Clap(clap::Error),
    /// We do.
    Ours(String),
}

/// Reads a command line whose second word is a command.
pub(in crate::cli) fn read(args: Vec<String>) -> Result<(Cli, Rest), Error> {
    let command = Cli::command();
    let mut built = command.clone();
    built.build();
    let sub = args.get(1).and_then(|name| built.find_subcommand(name));
    let mut rest = Rest::default();
    let mut args = args;
    // The other commands have no flags but their own.
    if let Some(sub) = sub.filter(|sub| matches!(sub.get_name(), "run" | "plan" | "demo")) {
        let head: Vec<String> = args.drain(..2).collect();
        let mut split = line::split(sub, args).map_err(Error::Ours)?;
        if let Some(path) = split.value("config").filter(|path| !path.is_empty()) {
            let path = PathBuf::from(path);
            let entries = file::read(&path).map_err(Error::Ours)?;
            rest.file = Some(split.add_file(sub, path, entries).map_err(Error::Ours)?);
        }
        args = head;
        let (kept, given) = split.finish();
        args.extend(kept);
        rest.given = given;
    }
    let matches = command.try_get_matches_from(args).map_err(|error| match &rest.file {
        Some(file) if error.use_stderr() => {
            Error::Ours(format!("{}\n(flags of {} included)", plain(&error), file.path.display()))
        }
        _ => Error::Clap(error),
    })?;
    if let Some((_, of_sub)) = matches.subcommand() {
        rest.effective = effective(of_sub);
    }
    let cli = Cli::from_arg_matches(&matches).map_err(Error::Clap)?;
    Ok((cli, rest))
}

fn plain(error: &clap::Error) -> String {
    let text = error.render().to_string();
    text.trim().strip_prefix("error: ").unwrap_or(text.trim()).to_owned()
}

/// What clap found, by flag.
fn effective(matches: &ArgMatches) -> Map<String, Value> {
    let command = Cli::command();
    let arguments = command.get_subcommands().flat_map(clap::Command::get_arguments);
    let longs: BTreeMap<&str, &str> =
        arguments.filter_map(|arg| Some((arg.get_id().as_str(), arg.get_long()?))).collect();
    let mut found = Map::new();
    for id in matches.ids() {
        let Some(long) = longs.get(id.as_str()) else { continue };
        let Some(values) = matches.try_get_raw(id.as_str()).ok().flatten() else { continue };
        let values: Vec<_> =
            values.map(|value| OsString::from(value).to_string_lossy().into_owned()).collect();
        found.insert((*long).to_owned(), values.join(",").into());
    }
    found
}
