//! CustomResourceDefinition as an object; what it defines is in `crd`.

use serde_json::{Value, json};

use super::names::{self, NameRule};
use super::spec::{Generation, Spec};
use super::value::{child, copy, fill, flag, items, set, text};
use crate::crd::unrecognized_formats;
use crate::status::FieldError;
use crate::table::{Column, Columns, NAME};

pub(super) fn spec() -> Spec {
    const COLUMNS: &[Column] = &[NAME, Column { name: "Created At", ty: "date", format: "", priority: 0 }];
    Spec {
        core_finalizers: false,
        name: NameRule::Own(name_rule),
        warnings: |old, new| {
            let known = old.map(|old| unrecognized_formats(&old["spec"])).unwrap_or_default();
            let found =
                unrecognized_formats(&new["spec"]).into_iter().filter(|format| !known.contains(format));
            found.map(|format| format!("unrecognized format {format:?}")).collect()
        },
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
            if spec["conversion"].is_null() {
                set(spec, "conversion", json!({"strategy": "None"}));
            }
            let hook = &spec["conversion"]["webhook"]["clientConfig"]["service"];
            if hook.is_object() {
                fill(&mut spec["conversion"]["webhook"]["clientConfig"]["service"], "port", 443);
            }
            let stored = stored_now(object);
            if items(&object["status"], "storedVersions").is_empty() && !stored.is_empty() {
                set(child(object, "status"), "storedVersions", stored);
            }
        },
        create: |_, object| {
            let stored = json!({"storedVersions": stored_now(object)});
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

/// Groups that belong to the project; their definitions are approved by it.
fn approval(out: &mut Vec<FieldError>, object: &Value) {
    const APPROVED: &str = "api-approved.kubernetes.io";
    let group = text(&object["spec"], "group");
    let protected = ["k8s.io", "kubernetes.io"];
    if !protected.iter().any(|p| group == *p || group.ends_with(&format!(".{p}"))) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVED}]");
    let link = "see https://github.com/kubernetes/enhancements/pull/1111";
    match text(&object["metadata"]["annotations"], APPROVED) {
        "" => {
            let detail = format!("protected groups must have approval annotation \"{APPROVED}\", {link}");
            out.push(FieldError::required(field, &detail));
        }
        approval if approval.starts_with("unapproved") || approval.starts_with("https://") => {}
        approval => {
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason \
                 starting with \"unapproved\", {link}"
            );
            out.push(FieldError::invalid(field, &json!(approval), &detail));
        }
    }
}

/// A definition is called after what it defines.
fn name_rule(object: &Value, name: &str) -> Vec<String> {
    let spec = &object["spec"];
    let mut out = names::subdomain(name);
    if name != format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group")) {
        out.push("must be spec.names.plural+\".\"+spec.group".into());
    }
    out
}

/// The version that objects are stored in.
fn stored_now(object: &Value) -> Vec<Value> {
    let stored = items(&object["spec"], "versions").iter().find(|v| flag(v, "storage"));
    stored.map(|v| v["name"].clone()).into_iter().collect()
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    out.extend(crate::crd::check_definition(spec));
    stored_versions(&mut out, object);
    approval(&mut out, object);
    if flag(spec, "preserveUnknownFields") {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        out.push(FieldError::invalid("spec.preserveUnknownFields", &json!(true), detail));
    }
    out
}

fn stored_versions(out: &mut Vec<FieldError>, object: &Value) {
    let stored = &object["status"]["storedVersions"];
    let names: Vec<&Value> = items(&object["status"], "storedVersions").iter().collect();
    if names.is_empty() {
        let detail = "must have at least one stored version";
        out.push(FieldError::invalid("status.storedVersions", &Value::Null, detail));
        return;
    }
    let versions = items(&object["spec"], "versions");
    for (i, name) in names.iter().enumerate() {
        if !versions.iter().any(|v| v["name"] == **name) {
            let name = name.as_str().unwrap_or("");
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in \
                 spec.versions until a storage migration ensures no data remains persisted in {name} and removes \
                 {name} from status.storedVersions"
            );
            out.push(FieldError::invalid(format!("status.storedVersions[{i}]"), &json!(name), &detail));
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
