//! Checks of `metadata`, on creation and on change.

use serde_json::{Value, json};

use super::names::{self, NameRule};
use super::value::{entries, int, items, text};
use crate::schema::{self, Type, schema};
use crate::status::FieldError;

const IMMUTABLE: &str = "field is immutable";
const ANNOTATION_LIMIT: usize = 256 * 1024;

/// Adds one `Invalid` for each message.
pub fn invalid_all(
    out: &mut Vec<FieldError>,
    field: &str,
    value: &Value,
    messages: impl IntoIterator<Item = String>,
) {
    out.extend(messages.into_iter().map(|m| FieldError::invalid(field, value, &m)));
}

/// A name that is there and fits into a path; `missing` says what is wrong if it is not there.
pub(super) fn path_segment(out: &mut Vec<FieldError>, value: &str, field: &str, missing: &str) {
    if value.is_empty() {
        out.push(FieldError::required(field, missing));
    } else {
        invalid_all(out, field, &json!(value), NameRule::PathSegment.check(value, false));
    }
}

/// Checks the metadata of a new object.
pub fn create(object: &Value, namespaced: bool, rule: NameRule) -> Vec<FieldError> {
    let meta = &object["metadata"];
    let mut out = Vec::new();
    let prefix = text(meta, "generateName");
    if !prefix.is_empty() {
        invalid_all(&mut out, "metadata.generateName", &json!(prefix), rule.check_of(object, prefix, true));
    }
    let name = text(meta, "name");
    if name.is_empty() {
        out.push(FieldError::required("metadata.name", "name or generateName is required"));
    } else {
        invalid_all(&mut out, "metadata.name", &json!(name), rule.check_of(object, name, false));
    }
    let namespace = text(meta, "namespace");
    if namespaced {
        if namespace.is_empty() {
            out.push(FieldError::required("metadata.namespace", ""));
        } else {
            invalid_all(&mut out, "metadata.namespace", &json!(namespace), names::label(namespace));
        }
    } else if !namespace.is_empty() {
        out.push(FieldError::forbidden("metadata.namespace", "not allowed on this type"));
    }
    non_negative(&mut out, "metadata.generation", int(meta, "generation"));
    labels(&mut out, meta, "labels", "metadata.labels");
    annotations(&mut out, meta);
    owners(&mut out, meta);
    finalizers(&mut out, meta);
    out
}

/// Checks the metadata of a changed object as the generic layer does; most kinds do it again, and say it again.
pub fn change(old: &Value, new: &Value, namespaced: bool) -> Vec<FieldError> {
    let mut out = create(new, namespaced, NameRule::PathSegment);
    out.extend(update(old, new));
    out
}

/// Checks the metadata of a changed object.
pub fn update(old: &Value, new: &Value) -> Vec<FieldError> {
    let (old, new) = (&old["metadata"], &new["metadata"]);
    let mut out = Vec::new();
    if !old["deletionTimestamp"].is_null() {
        no_new_finalizers(&mut out, old, new);
    }
    if text(new, "resourceVersion").is_empty() {
        let field = "metadata.resourceVersion";
        out.push(FieldError::invalid(field, &json!(""), "must be specified for an update"));
    }
    if int(new, "generation") < int(old, "generation") {
        let value = json!(int(new, "generation"));
        out.push(FieldError::invalid("metadata.generation", &value, "must not be decremented"));
    }
    for field in
        ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"]
    {
        if old[field] != new[field] {
            let value = match (&new[field], field) {
                (Value::Null, "name" | "namespace" | "uid") => json!(""),
                (value, _) => value.clone(),
            };
            out.push(FieldError::invalid(format!("metadata.{field}"), &value, IMMUTABLE));
        }
    }
    labels(&mut out, new, "labels", "metadata.labels");
    annotations(&mut out, new);
    owners(&mut out, new);
    out
}

/// Checks a list of `metav1.Condition`.
pub fn conditions(parent: &Value, path: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let all = items(parent, "conditions");
    for (i, it) in all.iter().enumerate() {
        let here = format!("{path}[{i}]");
        let (ty, status, reason) = (text(it, "type"), text(it, "status"), text(it, "reason"));
        if all[..i].iter().any(|c| text(c, "type") == ty) {
            out.push(FieldError::duplicate(format!("{here}.type"), &json!(ty)));
        }
        if ty.is_empty() {
            out.push(FieldError::required(format!("{here}.type"), "must be set"));
        } else {
            invalid_all(&mut out, &format!("{here}.type"), &json!(ty), names::qualified_name(ty));
        }
        if !matches!(status, "True" | "False" | "Unknown") {
            let known = ["False", "True", "Unknown"];
            out.push(FieldError::not_supported(format!("{here}.status"), &json!(status), &known));
        }
        if it["lastTransitionTime"].is_null() {
            out.push(FieldError::required(format!("{here}.lastTransitionTime"), ""));
        }
        if reason.is_empty() {
            out.push(FieldError::required(format!("{here}.reason"), ""));
        }
    }
    out
}

/// Checks a map of labels.
pub fn labels(out: &mut Vec<FieldError>, parent: &Value, key: &str, path: &str) {
    for (key, value) in entries(parent, key) {
        invalid_all(out, path, &json!(key), names::qualified_name(key));
        invalid_all(out, path, value, names::label_value(value.as_str().unwrap_or("")));
    }
}

fn annotations(out: &mut Vec<FieldError>, meta: &Value) {
    let mut size = 0;
    for (key, value) in entries(meta, "annotations") {
        size += key.len() + value.as_str().map_or(0, str::len);
        let messages = names::qualified_name(&key.to_lowercase());
        invalid_all(out, "metadata.annotations", &json!(key), messages);
    }
    if size > ANNOTATION_LIMIT {
        out.push(FieldError::too_long("metadata.annotations", ANNOTATION_LIMIT));
    }
}

/// A value of a type of the metadata package, as messages show it.
fn shown(ty: &str, list: bool, value: &Value) -> String {
    let name = format!("io.k8s.apimachinery.pkg.apis.meta.v1.{ty}");
    let ty = schema().named(&name).map_or(Type::Any, Type::Struct);
    let ty = if list { Type::List(Box::new(ty)) } else { ty };
    schema::show(&ty, value)
}

fn owners(out: &mut Vec<FieldError>, meta: &Value) {
    const FIELD: &str = "metadata.ownerReferences";
    let invalid = |value: String, detail: String| {
        let message = format!("Invalid value: {value}: {detail}");
        FieldError::raw(crate::status::FieldReason::Invalid, FIELD, message)
    };
    let mut controller: Option<String> = None;
    for owner in items(meta, "ownerReferences") {
        let api_version = text(owner, "apiVersion");
        let version = if api_version.matches('/').count() > 1 { "" } else { api_version };
        if version.rsplit('/').next().unwrap_or("").is_empty() {
            let field = format!("{FIELD}.apiVersion");
            out.push(FieldError::invalid(field, &json!(api_version), "version must not be empty"));
        }
        for key in ["kind", "name", "uid"] {
            if text(owner, key).is_empty() {
                let field = format!("{FIELD}.{key}");
                out.push(FieldError::invalid(field, &json!(""), "must not be empty"));
            }
        }
        let kind = text(owner, "kind");
        if api_version == "v1" && kind == "Event" {
            let detail = "/v1, Kind=Event is disallowed from being an owner".to_owned();
            out.push(invalid(shown("OwnerReference", false, owner), detail));
        }
        if owner["controller"] == true {
            let this = format!("{kind}/{}", text(owner, "name"));
            match &controller {
                Some(first) => out.push(invalid(
                    shown("OwnerReference", true, &meta["ownerReferences"]),
                    format!(
                        "Only one reference can have Controller set to true. Found \"true\" in \
                         references for {first} and {this}"
                    ),
                )),
                None => controller = Some(this),
            }
        }
    }
}

fn finalizers(out: &mut Vec<FieldError>, meta: &Value) {
    const FIELD: &str = "metadata.finalizers";
    let all = items(meta, "finalizers");
    for finalizer in all {
        let name = finalizer.as_str().unwrap_or("");
        invalid_all(out, FIELD, finalizer, names::qualified_name(name));
    }
    if all.iter().any(|f| f == "orphan") && all.iter().any(|f| f == "foregroundDeletion") {
        let detail = "finalizer orphan and foregroundDeletion cannot be both set";
        out.push(FieldError::invalid(FIELD, &meta["finalizers"], detail));
    }
}

/// Core kinds want finalizers with a domain.
pub fn core_finalizers(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    for (i, finalizer) in items(&object["metadata"], "finalizers").iter().enumerate() {
        finalizer_name(&mut out, finalizer, &format!("metadata.finalizers[{i}]"));
    }
    out
}

/// A finalizer of Kubernetes itself or one with a domain.
pub fn finalizer_name(out: &mut Vec<FieldError>, finalizer: &Value, field: &str) {
    const STANDARD: [&str; 3] = ["kubernetes", "orphan", "foregroundDeletion"];
    let name = finalizer.as_str().unwrap_or("");
    if !name.contains('/') && !STANDARD.contains(&name) {
        let detail = "name is neither a standard finalizer name nor is it fully qualified";
        out.push(FieldError::invalid(field, finalizer, detail));
    }
}

fn no_new_finalizers(out: &mut Vec<FieldError>, old: &Value, new: &Value) {
    let before = items(old, "finalizers");
    let mut added: Vec<String> =
        items(new, "finalizers").iter().filter(|f| !before.contains(f)).map(ToString::to_string).collect();
    added.sort();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers \
             []string{{{}}}",
            added.join(", ")
        );
        out.push(FieldError::forbidden("metadata.finalizers", &detail));
    }
}

/// A number below zero is refused.
pub fn non_negative(out: &mut Vec<FieldError>, field: &str, value: i64) {
    if value < 0 {
        out.push(FieldError::invalid(field, &json!(value), "must be greater than or equal to 0"));
    }
}

/// `new` must equal `old`.
pub fn immutable(out: &mut Vec<FieldError>, field: &str, old: &Value, new: &Value) {
    if old != new {
        out.push(FieldError::invalid(field, new, IMMUTABLE));
    }
}
