//! Checks of hooks and probes of containers.

use serde_json::{Value, json};

use super::meta::{invalid_all, non_negative};
use super::names;
use super::pod_validation::{PodView, port_number};
use super::value::{empty, int, items, text};
use super::volume_sources::known;
use crate::status::FieldError;

/// Kinds of handlers in the order in which they are looked at.
const HANDLERS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];

pub(super) fn lifecycle(out: &mut Vec<FieldError>, it: &Value, path: &str, pod: &PodView<'_>) {
    let it = &it["lifecycle"];
    for hook in ["postStart", "preStop"] {
        if !it[hook].is_null() {
            handler(out, &it[hook], &format!("{path}.lifecycle.{hook}"), pod);
        }
    }
    if it["stopSignal"].is_null() {
        return;
    }
    let field = format!("{path}.lifecycle.stopSignal");
    match text(&pod.spec["os"], "name") {
        "" => {
            let detail = "may not be set for containers with empty `spec.os.name`";
            out.push(FieldError::forbidden(field, detail));
        }
        "windows" => known(out, &it["stopSignal"], &field, &["SIGKILL", "SIGTERM"]),
        _ => {
            let signals = linux_signals();
            known(out, &it["stopSignal"], &field, &signals.iter().map(String::as_str).collect::<Vec<_>>());
        }
    }
}

/// Signals of Linux, sorted.
fn linux_signals() -> Vec<String> {
    const NAMED: &str = "ABRT ALRM BUS CHLD CLD CONT FPE HUP ILL INT IO IOT KILL PIPE POLL PROF PWR QUIT SEGV STKFLT STOP SYS TERM TRAP TSTP TTIN TTOU URG USR1 USR2 VTALRM WINCH XCPU XFSZ RTMIN RTMAX";
    let mut out: Vec<String> = NAMED.split(' ').map(|name| format!("SIG{name}")).collect();
    out.extend((1..=15).map(|n| format!("SIGRTMIN+{n}")));
    out.extend((1..=14).map(|n| format!("SIGRTMAX-{n}")));
    out.sort();
    out
}

fn handler(out: &mut Vec<FieldError>, it: &Value, path: &str, pod: &PodView<'_>) {
    let given: Vec<&str> = HANDLERS.into_iter().filter(|k| !it[*k].is_null()).collect();
    let Some((first, extra)) = given.split_first() else {
        return out.push(FieldError::required(path, "must specify a handler type"));
    };
    let here = format!("{path}.{first}");
    action(out, first, &it[*first], &here, pod);
    for kind in extra {
        let detail = "may not specify more than 1 handler type";
        out.push(FieldError::forbidden(format!("{path}.{kind}"), detail));
    }
}

fn action(out: &mut Vec<FieldError>, kind: &str, it: &Value, path: &str, pod: &PodView<'_>) {
    match kind {
        "exec" => {
            if empty(&it["command"]) {
                out.push(FieldError::required(format!("{path}.command"), ""));
            }
        }
        "httpGet" => {
            if text(it, "path").is_empty() {
                out.push(FieldError::required(format!("{path}.path"), ""));
            }
            port(out, &it["port"], &format!("{path}.port"));
            known(out, &json!(text(it, "scheme")), &format!("{path}.scheme"), &["HTTP", "HTTPS"]);
            for header in items(it, "httpHeaders") {
                let name = text(header, "name");
                let field = format!("{path}.httpHeaders");
                invalid_all(out, &field, &json!(name), names::http_header(name));
            }
        }
        "sleep" => {
            let grace = int(pod.spec, "terminationGracePeriodSeconds");
            let seconds = int(it, "seconds");
            if seconds < 0 || seconds > grace {
                let detail =
                    format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
                out.push(FieldError::invalid(path, &json!(seconds), &detail));
            }
        }
        _ => port(out, &it["port"], &format!("{path}.port")),
    }
}

/// A port by number or name.
fn port(out: &mut Vec<FieldError>, port: &Value, field: &str) {
    match port {
        Value::String(name) => invalid_all(out, field, port, names::port_name(name)),
        other => port_number(out, field, other.as_i64().unwrap_or(0)),
    }
}

/// The three probes of a container.
pub(super) fn probes(out: &mut Vec<FieldError>, it: &Value, path: &str, pod: &PodView<'_>) {
    for kind in ["livenessProbe", "readinessProbe", "startupProbe"] {
        probe(out, &it[kind], &format!("{path}.{kind}"), kind, pod);
    }
}

fn probe(out: &mut Vec<FieldError>, it: &Value, path: &str, kind: &str, pod: &PodView<'_>) {
    if it.is_null() {
        return;
    }
    handler(out, it, path, pod);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        non_negative(out, &format!("{path}.{key}"), int(it, key));
    }
    let grace = &it["terminationGracePeriodSeconds"];
    let field = format!("{path}.terminationGracePeriodSeconds");
    if grace.as_i64().is_some_and(|seconds| seconds <= 0) {
        out.push(FieldError::invalid(&field, grace, "must be greater than 0"));
    }
    if kind == "readinessProbe" {
        if !grace.is_null() {
            out.push(FieldError::invalid(field, grace, "must not be set for readinessProbes"));
        }
    } else if int(it, "successThreshold") != 1 {
        let field = format!("{path}.successThreshold");
        out.push(FieldError::invalid(field, &json!(int(it, "successThreshold")), "must be 1"));
    }
}
