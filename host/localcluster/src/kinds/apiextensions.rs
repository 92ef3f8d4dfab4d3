//! CustomResourceDefinition as an object; what it defines is in `crd`.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::spec::{Generation, Spec};
use super::value::{child, copy, empty, fill, flag, items, set, text};
use crate::status::{FieldError, FieldReason};
use crate::table::{Column, Columns, NAME};

pub(super) fn spec() -> Spec {
    const COLUMNS: &[Column] = &[NAME, Column { name: "Created At", ty: "date", format: "", priority: 0 }];
    Spec {
        core_finalizers: false,
        generation: Generation::Spec,
        unconditional: false,
        default: |object| {
            let spec = child(object, "spec");
            let names = child(spec, "names");
            let kind = text(names, "kind").to_owned();
            if !kind.is_empty() {
                fill(names, "singular", kind.to_lowercase());
                fill(names, "listKind", format!("{kind}List"));
            }
            fill(child(spec, "conversion"), "strategy", "None");
            let hook = &spec["conversion"]["webhook"]["clientConfig"]["service"];
            if hook.is_object() {
                fill(&mut spec["conversion"]["webhook"]["clientConfig"]["service"], "port", 443);
            }
        },
        create: |_, object| {
            let stored = items(&object["spec"], "versions").iter().find(|v| flag(v, "storage"));
            let stored: Vec<&str> = stored.map(|v| text(v, "name")).into_iter().collect();
            let stored = json!({"storedVersions": stored});
            set(object, "status", stored);
            Ok(())
        },
        update: |_, sub, old, new| {
            if sub.is_empty() {
                // The storage version joins those that have been stored.
                let stored = items(&new["spec"], "versions").iter().find(|v| flag(v, "storage"));
                let name = stored.map(|v| v["name"].clone());
                copy(old, new, "status");
                let mut all = items(&new["status"], "storedVersions").to_vec();
                if let Some(name) = name {
                    if !all.contains(&name) {
                        all.push(name);
                        set(child(new, "status"), "storedVersions", all);
                    }
                }
            }
            Ok(())
        },
        validate,
        validate_update: |old, new| {
            let mut out = Vec::new();
            let established = items(&old["status"], "conditions")
                .iter()
                .any(|c| text(c, "type") == "Established" && text(c, "status") == "True");
            let (before, after) = (&old["spec"], &new["spec"]);
            if established {
                super::meta::immutable(&mut out, "spec.scope", &before["scope"], &after["scope"]);
                super::meta::immutable(
                    &mut out,
                    "spec.names.kind",
                    &before["names"]["kind"],
                    &after["names"]["kind"],
                );
            }
            super::meta::immutable(&mut out, "spec.group", &before["group"], &after["group"]);
            super::meta::immutable(
                &mut out,
                "spec.names.plural",
                &before["names"]["plural"],
                &after["names"]["plural"],
            );
            out
        },
        columns: Columns::Own(COLUMNS, |object, _| {
            vec![object["metadata"]["name"].clone(), object["metadata"]["creationTimestamp"].clone()]
        }),
        ..Spec::new()
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let (group, plural) = (text(spec, "group"), text(&spec["names"], "plural"));
    let name = text(&object["metadata"], "name");
    let new = text(&object["metadata"], "resourceVersion").is_empty();
    if new && name != format!("{plural}.{group}") {
        let detail = "must be spec.names.plural+\".\"+spec.group";
        out.push(FieldError::invalid("metadata.name", &json!(name), detail));
    }
    if group.is_empty() {
        out.push(FieldError::required("spec.group", ""));
    } else {
        invalid_all(&mut out, "spec.group", &json!(group), names::subdomain(group));
        if !group.contains('.') {
            let detail = "should be a domain with at least one dot";
            out.push(FieldError::invalid("spec.group", &json!(group), detail));
        }
    }
    let scope = text(spec, "scope");
    if scope.is_empty() {
        out.push(FieldError::required("spec.scope", ""));
    } else if !matches!(scope, "Cluster" | "Namespaced") {
        let known = ["Cluster", "Namespaced"];
        out.push(FieldError::not_supported("spec.scope", &json!(scope), &known));
    }
    let versions = items(spec, "versions");
    if versions.is_empty() {
        out.push(FieldError::required("spec.versions", "must have at least one version"));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (i, version) in versions.iter().enumerate() {
        let here = format!("spec.versions[{i}]");
        let name = text(version, "name");
        invalid_all(&mut out, &format!("{here}.name"), &json!(name), names::label_1035(name));
        if seen.contains(&name) {
            out.push(FieldError::invalid(format!("{here}.name"), &json!(name), "must be unique"));
        }
        seen.push(name);
    }
    if versions.iter().filter(|v| flag(v, "storage")).count() != 1 {
        let detail = "must have exactly one version marked as storage version";
        let message = format!("Invalid value: {}: {detail}", shown_versions(versions));
        out.push(FieldError::raw(FieldReason::Invalid, "spec.versions", message));
    }
    for (i, version) in versions.iter().enumerate() {
        let here = format!("spec.versions[{i}].schema.openAPIV3Schema");
        let schema = &version["schema"]["openAPIV3Schema"];
        if schema.is_null() {
            out.push(FieldError::required(here, ""));
        } else {
            structural(&mut out, schema, &here, true);
        }
    }
    requested_names(&mut out, &spec["names"]);
    stored_versions(&mut out, object);
    out
}

/// Versions as Go encodes the internal type, which has no JSON names; schemas of all versions live elsewhere in it.
fn shown_versions(versions: &[Value]) -> String {
    let one = |v: &Value| {
        let list = |key: &str| match &v[key] {
            Value::Null => "null".to_owned(),
            other => other.to_string(),
        };
        format!(
            "{{\"Name\":{},\"Served\":{},\"Storage\":{},\"Deprecated\":{},\"DeprecationWarning\":{},\"Schema\":null,\"Subresources\":{},\"AdditionalPrinterColumns\":{},\"SelectableFields\":{}}}",
            json!(text(v, "name")),
            flag(v, "served"),
            flag(v, "storage"),
            flag(v, "deprecated"),
            v["deprecationWarning"],
            list("subresources"),
            list("additionalPrinterColumns"),
            list("selectableFields"),
        )
    };
    let all: Vec<String> = versions.iter().map(one).collect();
    format!("[{}]", all.join(","))
}

fn requested_names(out: &mut Vec<FieldError>, names_: &Value) {
    for key in ["plural", "singular"] {
        let value = text(names_, key);
        let field = format!("spec.names.{key}");
        if value.is_empty() {
            if key == "plural" {
                out.push(FieldError::required(field, ""));
            }
        } else {
            invalid_all(out, &field, &json!(value), names::label_1035(value));
        }
    }
    for key in ["kind", "listKind"] {
        let value = text(names_, key);
        let field = format!("spec.names.{key}");
        if value.is_empty() {
            if key == "kind" {
                out.push(FieldError::required(field, ""));
            }
        } else {
            let lower = value.to_lowercase();
            let messages = names::label_1035(&lower)
                .into_iter()
                .map(|m| format!("may have mixed case, but should otherwise match: {m}"));
            invalid_all(out, &field, &json!(value), messages);
        }
    }
    for (i, short) in items(names_, "shortNames").iter().enumerate() {
        let value = short.as_str().unwrap_or("");
        invalid_all(out, &format!("spec.names.shortNames[{i}]"), short, names::label_1035(value));
    }
    if text(names_, "kind") == text(names_, "listKind") && !text(names_, "kind").is_empty() {
        let detail = "kind and listKind may not be the same";
        out.push(FieldError::invalid("spec.names.listKind", &names_["listKind"], detail));
    }
}

fn stored_versions(out: &mut Vec<FieldError>, object: &Value) {
    let stored = &object["status"]["storedVersions"];
    let names: Vec<&Value> = items(&object["status"], "storedVersions").iter().collect();
    let versions = items(&object["spec"], "versions");
    for (i, name) in names.iter().enumerate() {
        if !versions.iter().any(|v| v["name"] == **name) {
            let detail = "must appear in spec.versions";
            out.push(FieldError::invalid(format!("status.storedVersions[{i}]"), name, detail));
        }
    }
    // With several storage versions the last one is meant.
    if let Some(storage) = versions.iter().rfind(|v| flag(v, "storage")) {
        if !names.contains(&&storage["name"]) {
            let detail = format!("must have the storage version {}", text(storage, "name"));
            out.push(FieldError::invalid("status.storedVersions", stored, &detail));
        }
    }
}

/// A schema must say the type of every field, or that it is free.
fn structural(out: &mut Vec<FieldError>, schema: &Value, path: &str, root: bool) {
    let free =
        flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    let kind = text(schema, "type");
    if kind.is_empty() && (root || !free) {
        let detail = if root {
            "must not be empty at the root"
        } else {
            "must not be empty for specified object fields"
        };
        out.push(FieldError::required(format!("{path}.type"), detail));
    } else if root && kind != "object" {
        let detail = "must be object at the root";
        out.push(FieldError::invalid(format!("{path}.type"), &json!(kind), detail));
    }
    for (key, property) in schema["properties"].as_object().into_iter().flatten() {
        if root && matches!(key.as_str(), "metadata" | "kind" | "apiVersion") {
            continue;
        }
        structural(out, property, &format!("{path}.properties[{key}]"), false);
    }
    if schema["items"].is_object() {
        structural(out, &schema["items"], &format!("{path}.items"), false);
    } else if kind == "array" && empty(&schema["items"]) {
        let detail = "must be specified";
        out.push(FieldError::required(format!("{path}.items"), detail));
    }
    if schema["additionalProperties"].is_object() {
        structural(out, &schema["additionalProperties"], &format!("{path}.additionalProperties"), false);
    }
}
