//! The official Python client as a judge of the embedded cluster.
//!
//! Skipped, and said so, where `COXSWAIN_PYTHON` (else `python3`) has no package `kubernetes`:
//! `python3 -m venv V && V/bin/pip install kubernetes` and `COXSWAIN_PYTHON=V/bin/python` make it run.

use std::process::{Command, Stdio};

use anyhow::{Context, ensure};
use coxswain_tests::{Bed, root};

#[tokio::test(flavor = "multi_thread")]
async fn the_python_client_finds_a_kubernetes_api() -> anyhow::Result<()> {
    let python = std::env::var("COXSWAIN_PYTHON").unwrap_or_else(|_| "python3".into());
    let found = Command::new(&python).args(["-c", "import kubernetes"]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        eprintln!("skipped: {python} has no package kubernetes");
        return Ok(());
    }
    let bed = Bed::start(&["deployment-controller", "replicaset-controller", "garbage-collector-controller"])
        .await?;
    let mut command = Command::new(python);
    command.arg(root().join("tests/clients/client.py")).arg(bed.cluster.kubeconfig_path());
    let output = tokio::task::spawn_blocking(move || command.output()).await?.context("python")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    bed.stop().await;
    Ok(())
}
