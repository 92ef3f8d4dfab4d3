//! Alerts and dashboards for kube-controller-manager, evaluated by promtool on
//! what a manager really serves.
//!
//! promtool is part of Prometheus (Debian package `prometheus`); without it, on
//! the PATH or named by `PROMTOOL`, there is nothing to ask and the test says so.

use std::{
    io::Write,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use coxswain_tests::root;
use serde_json::{Value, json};

use crate::serving::Endpoints;

fn promtool() -> Option<PathBuf> {
    let named = std::env::var_os("PROMTOOL").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).map(|dir| dir.join("promtool")).find(|file| file.is_file());
    named.or(found)
}

/// Runs promtool; its output if it is content.
fn run(tool: &Path, arguments: &[&str], input: &str) -> anyhow::Result<String> {
    let mut child = Command::new(tool)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    child.stdin.take().context("stdin")?.write_all(input.as_bytes())?;
    let output = child.wait_with_output()?;
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "promtool {arguments:?}: {said}");
    Ok(said)
}

/// The samples of a scrape as promtool takes series: counts are 0 for ten
/// minutes, as before the process began, and then what they are; the rest is
/// what it is.
fn series(scrape: &str) -> Vec<Value> {
    let lines = scrape.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let one = |line: &str| {
        let (name, value) = line.rsplit_once(' ')?;
        let target = r#"job="kube-controller-manager",instance="10.0.0.1:10257""#;
        let named = match name.strip_suffix('}') {
            Some(open) => format!("{open},{target}}}"),
            None => format!("{name}{{{target}}}"),
        };
        let family = name.split('{').next().unwrap_or_default();
        let counts = ["_total", "_bucket", "_count", "_sum"].iter().any(|end| family.ends_with(end));
        let first = if counts { "0" } else { value };
        Some(json!({"series": named, "values": format!("{first}x10 {value}x20")}))
    };
    lines.filter_map(one).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn known_alerts_and_dashboards_evaluate() -> anyhow::Result<()> {
    let Some(tool) = promtool() else {
        eprintln!("skipped: no promtool on the PATH; install Prometheus, or name it with PROMTOOL");
        return Ok(());
    };
    let endpoints = Endpoints::start(|_, _| {}).await?;
    let admin = endpoints.admin()?;
    let job = json!({"metadata": {"name": "pi"}, "spec": {"template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    endpoints.create("batch/v1", "jobs", "default", &job)?;
    let end = tokio::time::Instant::now() + Duration::from_secs(30);
    let scrape = loop {
        let text = admin.get("/metrics", None).await?.body;
        if text.contains(r#"method="POST""#) && text.contains("job_controller_job_syncs_total{") {
            break text;
        }
        ensure!(tokio::time::Instant::now() < end, "the job is never synced:\n{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    endpoints.stop().await;
    // The format: names, types, help. What it finds beside errors is taste, of names that are not ours to choose.
    run(&tool, &["check", "metrics"], &scrape).or_else(|error| {
        let text = error.to_string();
        if text.contains("error while linting") || text.contains("parsing") { Err(error) } else { Ok(text) }
    })?;
    let rules = root().join("tests/rules/kube-controller-manager.yaml").canonicalize()?;
    run(&tool, &["check", "rules", &rules.display().to_string()], "")?;

    let mut all = series(&scrape);
    all.push(
        json!({"series": r#"up{job="kube-controller-manager",instance="10.0.0.1:10257"}"#, "values": "1x30"}),
    );
    // Another component, of the same release.
    all.push(json!({
        "series": r#"kubernetes_build_info{job="apiserver",git_version="v1.36.2"}"#, "values": "1x30",
    }));
    let silent = [
        "KubeControllerManagerDown",
        "KubeClientErrors",
        "KubeVersionMismatch",
        "WorkqueueStuck",
        "WorkqueueLongRunning",
    ];
    let alerts = silent.map(|name| json!({"eval_time": "25m", "alertname": name, "exp_alerts": []}));
    // Each panel has something to show.
    let shown = [
        "dashboard:up:sum",
        "dashboard:workqueue_adds:rate{name=\"job\"}",
        "dashboard:workqueue_depth:rate{name=\"job\"}",
        "dashboard:workqueue_queue_duration:p99{name=\"job\"} >= 0",
        "dashboard:rest_client_requests_2xx:rate > 0",
        "dashboard:rest_client_post_latency:p99 >= 0",
        "dashboard:rest_client_get_latency:p99 >= 0",
        "dashboard:memory > 1e6",
        "dashboard:cpu:rate",
    ];
    let shown = shown.map(|expression| {
        json!({"expr": format!("count({expression})"), "eval_time": "11m", "exp_samples": [{"labels": "{}", "value": 1}]})
    });
    // And without us, the first alert fires.
    let down = json!({
        "interval": "1m", "input_series": [],
        "alert_rule_test": [{"eval_time": "20m", "alertname": "KubeControllerManagerDown",
            "exp_alerts": [{"exp_labels": {"severity": "critical"}}]}],
    });
    let up =
        json!({"interval": "1m", "input_series": all, "alert_rule_test": alerts, "promql_expr_test": shown});
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("test.yaml");
    let test = json!({"rule_files": [rules], "evaluation_interval": "1m", "tests": [up, down]});
    std::fs::write(&file, serde_json::to_string_pretty(&test)?)?;
    run(&tool, &["test", "rules", &file.display().to_string()], "")?;
    Ok(())
}
