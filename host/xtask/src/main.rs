//! Build tasks: `cargo run --release -p xtask -- guests`.
//!
//! In: the workspace. Out: `target/controllers/*.wasm`, each a component.
//! Invariant: what is there is whole and built by the workspace's own compiler.

mod apt;
mod go;
mod guests;
mod standard_library;
mod toolchain;

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, Result, bail};

const USAGE: &str = "\
Build tasks of Coxswain.

usage: cargo run --release -p xtask -- guests [--test-guests] [--check-sizes] [--std WHERE] [NAME...]

  guests         builds controllers to target/controllers/NAME.wasm
    --test-guests  builds the guests of tests/guests as well, to target/test-guests
    --check-sizes  fails where a controller is larger than any should be
    --std WHERE    takes Rust's standard library for WebAssembly from
                   installed, rustup, source, debian or debian-web; without it the first
                   of these that works
    NAME           only these crates; examples are built only so, to target/examples

       cargo run --release -p xtask -- go FILE DIRECTORY

  go             builds the example in Go to FILE; DIRECTORY is for what comes in between";

fn main() -> ExitCode {
    match run(std::env::args().skip(1).collect()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Vec<String>) -> Result<()> {
    let Some((task, rest)) = arguments.split_first() else { bail!("no task given\n\n{USAGE}") };
    match task.as_str() {
        "go" => go::run(rest, &workspace_root()?),
        "guests" => guests::run(&guests::Arguments::parse(rest)?, &workspace_root()?),
        "help" | "--help" | "-h" => {
            println!("{USAGE}");
            Ok(())
        }
        other => bail!("unknown task `{other}`\n\n{USAGE}"),
    }
}

/// The root of the workspace that this program was built from.
fn workspace_root() -> Result<PathBuf> {
    let here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    let root = here.ancestors().nth(2).context("xtask is not where it belongs: host/xtask")?;
    Ok(root.to_path_buf())
}
