//! The command line.
//!
//! Without a subcommand it runs the manager, so that a command line written for
//! kube-controller-manager works with the program's name changed.

/// Prints a line. A pipe that was closed or a disk that is full is no reason to fail, let alone to panic.
macro_rules! say {
    ($($part:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($part)*);
    }};
}

mod cluster;
mod control;
mod demo;
mod election;
mod flags;
mod inspect;
mod limits;
mod list_flags;
mod logging;
mod oversight;
mod plan;
mod rbac;
mod replay;
mod rollout;
mod run;
mod serving;
mod shadow;
mod startup;
mod status;
mod test;

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::{Parser, Subcommand};
use coxswain::engine;
use logging::LogArgs;

/// A Kubernetes controller manager whose controllers are WebAssembly components.
#[derive(Parser)]
#[command(name = "coxswain", version, propagate_version = true, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run controllers against a cluster (the default command).
    Run(run::Args),
    /// What the controllers would do to a cluster, without doing it.
    Plan(plan::Args),
    /// An embedded cluster and the manager in one process.
    Demo(demo::Args),
    /// An embedded cluster without the manager.
    Cluster(cluster::Args),
    /// What a running manager is doing.
    Status(status::Args),
    /// How a candidate in the shadow of a controller differs from it.
    Shadow(shadow::Args),
    /// Have a controller go back to the version of its module that ran before, or call a new one off.
    Rollback(control::ControllerArgs),
    /// Let a new version through that is held, compared or a canary.
    Promote(control::ControllerArgs),
    /// What a module says about itself, and whether this host can run it.
    Inspect(inspect::Args),
    /// Print the ClusterRoles and bindings that modules need.
    Rbac(rbac::Args),
    /// Decide recorded reconciles anew, and show what differs.
    Replay(replay::Args),
    /// Play scenarios with a module, and compare what it plans.
    Test(test::Args),
    /// Which flags the controllers bring, and what becomes of kube-controller-manager's.
    Flags(list_flags::Args),
}

/// Runs the program.
pub fn main() -> ExitCode {
    let mut args: Vec<String> = std::env::args().collect();
    if args.get(1).is_some_and(|arg| arg == engine::COMPILE_ARGUMENT) {
        return engine::compile_child_main();
    }
    let _ = coxswain::install_crypto();
    if runs_without_saying(args.get(1).map(String::as_str)) {
        args.insert(args.len().min(1), "run".into());
    }
    let (cli, rest) = match flags::read(args) {
        Ok(read) => read,
        Err(flags::Error::Ours(error)) => {
            eprintln!("error: {error}");
            return ExitCode::FAILURE;
        }
        Err(flags::Error::Clap(error)) => {
            let _ = error.print();
            // As kube-controller-manager has it: there is no other failure than 1.
            return if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
        }
    };
    let result = match cli.command {
        Command::Run(args) => run::main(args, rest),
        Command::Plan(args) => plan::main(args, rest),
        Command::Demo(args) => demo::main(args, rest),
        Command::Cluster(args) => cluster::main(args),
        Command::Status(args) => status::main(args),
        Command::Shadow(args) => shadow::main(args),
        Command::Rollback(args) => control::rollback(args),
        Command::Promote(args) => control::promote(args),
        Command::Inspect(args) => inspect::main(args),
        Command::Rbac(args) => rbac::main(args),
        Command::Replay(args) => replay::main(args),
        Command::Test(args) => test::main(args),
        Command::Flags(args) => list_flags::main(args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Whether the first word makes it the command that runs the manager: flags alone are for that, and so is nothing.
fn runs_without_saying(first: Option<&str>) -> bool {
    first.is_none_or(|arg| arg.starts_with('-') && !["--help", "-h", "--version", "-V"].contains(&arg))
}

/// The directory of modules that was built beside this program.
fn default_controllers_dir() -> PathBuf {
    let beside = std::env::current_exe().ok().and_then(|exe| {
        let dir = exe.parent()?;
        [dir.join("controllers"), dir.parent()?.join("controllers")].into_iter().find(|d| d.is_dir())
    });
    beside.unwrap_or_else(|| PathBuf::from("controllers"))
}

/// The directory of modules that was named, or else the one beside this program. It must be there at the start:
/// a process without it would lead and do nothing. What becomes of it later is followed.
fn controllers_dir(named: Option<&Path>) -> anyhow::Result<PathBuf> {
    let dir = named.map_or_else(default_controllers_dir, Path::to_owned);
    anyhow::ensure!(
        dir.is_dir(),
        "there are no controllers at {}; build them with `make build`, or say where they are with --controllers-dir",
        dir.display()
    );
    Ok(dir)
}

fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}

/// Runs something to its end, and waits for nothing that is still computing: a
/// module that spins does so until its deadline.
fn to_its_end<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = runtime()?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    done
}

/// Waits for SIGINT or SIGTERM.
async fn interrupted() -> anyhow::Result<()> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        done = tokio::signal::ctrl_c() => done?,
        _ = terminate.recv() => {}
    }
    Ok(())
}
