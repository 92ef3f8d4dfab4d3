//! The program as a process.

use std::{
    io::{BufRead, BufReader},
    ops::{Deref, DerefMut},
    process::Child,
};

use anyhow::Context;
use serde_json::Value;

/// A process that is killed when this goes.
#[derive(Debug)]
pub struct Killed(pub Child);

impl Deref for Killed {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.0
    }
}

impl DerefMut for Killed {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.0
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Killed {
    /// A line of `/proc/PID/status` that is an amount of memory, in KiB.
    ///
    /// # Errors
    ///
    /// The process is gone, or this is no Linux.
    pub fn memory(&self, what: &str) -> anyhow::Result<u64> {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.id()))?;
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix(what)?.strip_prefix(':'))
            .context("no such line")?;
        Ok(line.trim().trim_end_matches(" kB").parse()?)
    }
}

/// The line of JSON that `--json` has the program begin with.
///
/// # Errors
///
/// It says something else, or its output goes elsewhere.
pub fn said(child: &mut Child) -> anyhow::Result<Value> {
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("stdout")?).read_line(&mut line)?;
    serde_json::from_str(&line).with_context(|| format!("no JSON: {line:?}"))
}

/// A client of the cluster that such a line leads to.
///
/// # Errors
///
/// It leads to none.
pub async fn client(said: &Value) -> anyhow::Result<kube::Client> {
    let _ = coxswain::install_crypto();
    let file = kube::config::Kubeconfig::read_from(said["kubeconfig"].as_str().context("kubeconfig")?)?;
    let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
    Ok(kube::Client::try_from(config)?)
}
