//! Checks of the environment of a container.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::pod_downward::{self, OF_VARIABLES};
use super::value::{items, text};
use super::volume_files::no_backsteps;
use crate::status::FieldError;

const ONE_AT_A_TIME: &str = "may not have more than one field specified at a time";

/// `env` and `envFrom` of the container at `path`.
pub(super) fn check(out: &mut Vec<FieldError>, container: &Value, path: &str) {
    for (i, variable) in items(container, "env").iter().enumerate() {
        let here = format!("{path}.env[{i}]");
        match text(variable, "name") {
            "" => out.push(FieldError::required(format!("{here}.name"), "")),
            name => invalid_all(out, &format!("{here}.name"), &json!(name), names::variable(name)),
        }
        if !variable["valueFrom"].is_null() {
            source(out, variable, &format!("{here}.valueFrom"));
        }
    }
    let all = format!("{path}.envFrom");
    for (i, from) in items(container, "envFrom").iter().enumerate() {
        let here = format!("{all}[{i}]");
        let prefix = text(from, "prefix");
        if !prefix.is_empty() {
            invalid_all(out, &format!("{here}.prefix"), &json!(prefix), names::variable(prefix));
        }
        let mut sources = 0;
        for key in ["configMapRef", "secretRef"] {
            if from[key].is_null() {
                continue;
            }
            sources += 1;
            let field = format!("{here}.{key}.name");
            match text(&from[key], "name") {
                "" => out.push(FieldError::required(field, "")),
                name => invalid_all(out, &field, &json!(name), names::NameRule::Subdomain.check(name, true)),
            }
        }
        match sources {
            0 => {
                let detail = "must specify one of: `configMapRef` or `secretRef`";
                out.push(FieldError::invalid(&all, &json!(""), detail));
            }
            1 => {}
            _ => out.push(FieldError::invalid(&all, &json!(""), ONE_AT_A_TIME)),
        }
    }
}

fn source(out: &mut Vec<FieldError>, variable: &Value, path: &str) {
    let from = &variable["valueFrom"];
    let mut sources = 0;
    for key in ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"] {
        let it = &from[key];
        if it.is_null() {
            continue;
        }
        sources += 1;
        let here = format!("{path}.{key}");
        match key {
            "fieldRef" => pod_downward::field(out, it, OF_VARIABLES, &here),
            "resourceFieldRef" => pod_downward::resource(out, it, false, &here),
            "fileKeyRef" => file_key(out, it, &here),
            _ => {
                let name = text(it, "name");
                invalid_all(out, &format!("{here}.name"), &json!(name), names::subdomain(name));
                match text(it, "key") {
                    "" => out.push(FieldError::required(format!("{here}.key"), "")),
                    key => invalid_all(out, &format!("{here}.key"), &json!(key), names::config_key(key)),
                }
            }
        }
    }
    let detail = match sources {
        0 => {
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        }
        _ if !text(variable, "value").is_empty() => "may not be specified when `value` is not empty",
        1 => return,
        _ => ONE_AT_A_TIME,
    };
    out.push(FieldError::invalid(path, &json!(""), detail));
}

fn file_key(out: &mut Vec<FieldError>, it: &Value, path: &str) {
    for (key, rule) in [("key", names::variable as fn(&str) -> Vec<String>), ("volumeName", names::label)] {
        let (field, value) = (format!("{path}.{key}"), text(it, key));
        if value.is_empty() {
            out.push(FieldError::required(field, ""));
        } else {
            invalid_all(out, &field, &json!(value), rule(value));
        }
    }
    let field = format!("{path}.path");
    if text(it, "path").is_empty() {
        out.push(FieldError::required(field, ""));
    } else {
        no_backsteps(out, &it["path"], &field);
    }
}
