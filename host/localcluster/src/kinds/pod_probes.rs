//! Checks of hooks and probes of containers.

use serde_json::{Value, json};

use super::meta::{invalid_all, non_negative};
use super::names;
use super::pod_validation::port_number;
use super::value::{empty, int};
use crate::status::FieldError;

pub(super) fn lifecycle(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    for hook in ["postStart", "preStop"] {
        if !it["lifecycle"][hook].is_null() {
            handler(out, &it["lifecycle"][hook], &format!("{path}.lifecycle.{hook}"));
        }
    }
}

fn handler(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    const KINDS: [&str; 5] = ["exec", "httpGet", "tcpSocket", "grpc", "sleep"];
    let given: Vec<&str> = KINDS.into_iter().filter(|k| !it[*k].is_null()).collect();
    if given.is_empty() {
        out.push(FieldError::required(path, "must specify a handler type"));
    }
    for extra in given.iter().skip(1) {
        let detail = "may not specify more than 1 handler type";
        out.push(FieldError::forbidden(format!("{path}.{extra}"), detail));
    }
    if !it["exec"].is_null() && empty(&it["exec"]["command"]) {
        out.push(FieldError::required(format!("{path}.exec.command"), ""));
    }
    for kind in ["httpGet", "tcpSocket"] {
        match &it[kind]["port"] {
            Value::Number(n) => {
                port_number(out, &format!("{path}.{kind}.port"), n.as_i64().unwrap_or(0));
            }
            Value::String(name) => {
                let field = format!("{path}.{kind}.port");
                invalid_all(out, &field, &json!(name), names::port_name(name));
            }
            _ => {}
        }
    }
}

pub(super) fn probe(out: &mut Vec<FieldError>, it: &Value, path: &str, kind: &str) {
    if it.is_null() {
        return;
    }
    handler(out, it, path);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        non_negative(out, &format!("{path}.{key}"), int(it, key));
    }
    let successes = int(it, "successThreshold");
    if kind != "readinessProbe" && successes != 1 {
        let field = format!("{path}.successThreshold");
        out.push(FieldError::invalid(field, &json!(successes), "must be 1"));
    }
}
