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

/// A duration without what is less than a second.
fn seconds(whole: jiff::SignedDuration) -> jiff::SignedDuration {
    jiff::SignedDuration::from_secs(whole.as_secs())
}

pub(super) fn statusz(manager: &Manager) -> Response {
    let started = manager.started();
    let up = seconds(manager.now().duration_since(started));
    let version = crate::version::version();
    text(format!(
        "\n{COMPONENT} statusz\n{WARNING}\n\nStarted: {started:.0}\nUp: {up:#}\nBinary version: {}\nPaths: {}\n",
        version.git_version,
        PATHS.join(" "),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_long_it_runs_is_told_in_seconds() {
        let up = seconds(jiff::SignedDuration::new(170, 475_056_240));
        assert_eq!(format!("{up:#}"), "2m 50s");
        assert_eq!(format!("{:#}", seconds(jiff::SignedDuration::from_millis(900))), "0s");
        let started = jiff::Timestamp::new(0, 999_999_999).unwrap();
        assert_eq!(format!("{started:.0}"), "1970-01-01T00:00:00Z");
    }
}
