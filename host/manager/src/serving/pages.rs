//! Pages about the process as a whole.

use std::collections::BTreeMap;

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;

use super::routes::status;
use crate::manager::Manager;

/// What precedes pages that nobody should parse, as Kubernetes has it.
const WARNING: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is for debugging purposes only.";
const COMPONENT: &str = "kube-controller-manager";

/// Paths with something to see.
const PATHS: [&str; 9] = [
    "/configz",
    "/flagz",
    "/healthz",
    "/livez",
    "/metrics",
    "/metrics/slis",
    "/readyz",
    "/statusz",
    "/version",
];
/// Those of `--profiling`.
const PROFILING: [&str; 4] =
    ["/debug/controllers", "/debug/pprof/cmdline", "/debug/pprof/heap", "/debug/pprof/profile"];

pub(super) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_string_pretty(value) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(error) => status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &error.to_string()),
    }
}

fn text(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}

pub(super) fn index(profiling: bool) -> Response {
    let paths = PATHS.iter().chain(PROFILING.iter().filter(|_| profiling));
    json(&serde_json::json!({"paths": paths.collect::<Vec<_>>()}))
}

pub(super) fn flagz(flags: &BTreeMap<String, String>) -> Response {
    let lines: String = flags.iter().map(|(name, value)| format!("{name}={value}\n")).collect();
    text(format!("\n{COMPONENT} flagz\n{WARNING}\n\n{lines}"))
}

pub(super) fn statusz(manager: &Manager) -> Response {
    let started = manager.started();
    let up = manager.now().duration_since(started);
    let version = crate::version::version();
    text(format!(
        "\n{COMPONENT} statusz\n{WARNING}\n\nStarted: {started}\nUp: {up:#}\nBinary version: {}\nPaths: {}\n",
        version.git_version,
        PATHS.join(" "),
    ))
}
