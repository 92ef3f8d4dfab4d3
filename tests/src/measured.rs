//! Benchmarks: running them, and what the manager costs as a process of its own.

use std::{
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail};

use crate::{built_controllers, built_program, program::Killed};

/// How long a benchmark waits for what must come.
const PATIENCE: Duration = Duration::from_secs(300);

/// The manager's process.
#[derive(Debug)]
pub struct Manager(Killed);

impl Manager {
    /// With all controllers, or those that a `--controllers` names.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub fn start(kubeconfig: &Path, controllers: &str) -> anyhow::Result<Self> {
        let program = built_program();
        let child = Command::new(&program)
            .args(["run", "--kube-api-qps=0", "--status-address=off", "--kubeconfig"])
            .arg(kubeconfig)
            .arg("--controllers-dir")
            .arg(built_controllers())
            .arg(format!("--controllers={controllers}"))
            .env("RUST_LOG", "warn")
            .stdout(Stdio::null())
            .spawn()
            .with_context(|| format!("{} does not start; build it with `make build`", program.display()))?;
        Ok(Self(Killed(child)))
    }

    /// CPU seconds so far, of the process alone.
    ///
    /// # Errors
    ///
    /// The process is gone, or this is no Linux.
    pub fn cpu(&self) -> anyhow::Result<f64> {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let after_name = stat.rsplit_once(") ").context("/proc/PID/stat")?.1;
        let fields: Vec<&str> = after_name.split(' ').collect();
        let ticks: f64 = fields[11].parse::<f64>()? + fields[12].parse::<f64>()?;
        Ok(ticks / 100.0)
    }

    /// A line of `/proc/PID/status`, in MB.
    ///
    /// # Errors
    ///
    /// The process is gone, or this is no Linux.
    pub fn memory(&self, what: &str) -> anyhow::Result<f64> {
        Ok(self.0.memory(what)? as f64 / 1024.0)
    }
}

/// Waits until something holds; for how long that took.
///
/// # Errors
///
/// It never comes.
pub async fn until(
    what: &str,
    mut holds: impl AsyncFnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<Duration> {
    let start = Instant::now();
    while !holds().await? {
        if start.elapsed() > PATIENCE {
            bail!("after {PATIENCE:?} still not: {what}");
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(start.elapsed())
}

/// Runs a benchmark, unless this is `cargo test --benches`, which only wants to know that it builds and starts.
///
/// # Errors
///
/// Those of the benchmark.
pub fn bench(run: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(run)
}
