//! Behaviour of custom objects.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::columns::PrinterColumn;
use super::conversion::{ConversionWebhook, Direction};
use super::rules::Rules;
use super::{Structural, embedded, validate};
use crate::kinds::meta;
use crate::kinds::names::{self, NameRule};
use crate::kinds::scale;
use crate::kinds::value::{at, copy, flag, int, items, remove, set, text};
use crate::patch::go::go_fmt;
use crate::rest::strategy::{Ctx, Kind, Strategy};
use crate::status::{FieldError, FieldReason, Status};
use crate::table::Columns;

/// Strategy of one version of a custom resource.
pub(super) struct Custom {
    structural: Structural,
    namespaced: bool,
    has_status: bool,
    scale: Option<ScalePaths>,
    columns: Columns,
    stored: bool,
    api_version: String,
    stored_api_version: String,
    deprecation: Option<String>,
    selectable: Vec<String>,
    rules: Rules,
    webhook: Option<ConversionWebhook>,
}

struct ScalePaths {
    desired: String,
    actual: String,
    selector: String,
}

impl ScalePaths {
    /// Replicas are whole numbers that are not negative, the selector is a text.
    fn check(&self, object: &Value, out: &mut Vec<FieldError>) {
        for path in [&self.desired, &self.actual] {
            let field = format!(".{path}");
            match number_at(object, path) {
                Ok(n) if n < 0 => {
                    let detail = "should be a non-negative integer";
                    out.push(FieldError::invalid(field, &json!(n), detail));
                }
                Ok(n) if n > i64::from(i32::MAX) => {
                    let detail = format!("should be less than or equal to {}", i32::MAX);
                    out.push(FieldError::invalid(field, &json!(n), &detail));
                }
                Ok(_) => {}
                Err(error) => out.push(FieldError::invalid(field, &json!(0), &error)),
            }
        }
    }
}

/// The number at a path of keys, zero if there is none; the error is that of the real server's accessor.
fn number_at(object: &Value, path: &str) -> Result<i64, String> {
    let wrong = |value: &Value, wanted: &str| {
        Err(format!(
            ".{path} accessor error: {} is of the type {}, expected {wanted}",
            go_fmt(value),
            go_type(value)
        ))
    };
    let mut value = object;
    for key in path.split('.') {
        let Value::Object(map) = value else { return wrong(value, "map[string]interface{}") };
        match map.get(key) {
            Some(inner) => value = inner,
            None => return Ok(0),
        }
    }
    match value.as_i64() {
        Some(n) => Ok(n),
        None => wrong(value, "int64"),
    }
}

/// Name of the type that Go decodes a value to.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(n) if n.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

impl Custom {
    pub(super) fn new(crd: &Value, version: &Value) -> Self {
        let spec = &crd["spec"];
        let group = text(spec, "group");
        let root = version["schema"]["openAPIV3Schema"].clone();
        let mut columns: Vec<PrinterColumn> =
            items(version, "additionalPrinterColumns").iter().map(PrinterColumn::new).collect();
        if columns.is_empty() {
            columns.push(PrinterColumn::age());
        }
        let storage = items(spec, "versions").iter().find(|v| flag(v, "storage"));
        let scale = &version["subresources"]["scale"];
        let path = |key: &str| text(scale, key).trim_start_matches('.').to_owned();
        Self {
            namespaced: text(spec, "scope") == "Namespaced",
            has_status: !version["subresources"]["status"].is_null(),
            scale: scale.is_object().then(|| ScalePaths {
                desired: path("specReplicasPath"),
                actual: path("statusReplicasPath"),
                selector: path("labelSelectorPath"),
            }),
            columns: Columns::Custom(columns),
            stored: flag(version, "storage"),
            api_version: format!("{group}/{}", text(version, "name")),
            stored_api_version: format!("{group}/{}", storage.map_or("", |v| text(v, "name"))),
            deprecation: deprecation(crd, version),
            selectable: items(version, "selectableFields")
                .iter()
                .map(|f| text(f, "jsonPath").trim_start_matches('.').to_owned())
                .collect(),
            rules: Rules::compile(&root),
            webhook: ConversionWebhook::of(crd, version),
            structural: Structural::new(root),
        }
    }

    fn converted(&self, object: &Value, direction: Direction) -> Option<Value> {
        self.webhook.as_ref()?.converted(object, direction)
    }

    fn check(&self, ctx: &Ctx<'_>, sub: &str, old: Option<&Value>, new: &Value) -> Vec<FieldError> {
        // Stands for the path of the status, which messages leave out.
        const STATUS: &str = "\u{1}";
        let mut out = Vec::new();
        let root = self.structural.root();
        if sub == "status" {
            let schema = &root["properties"]["status"];
            if schema.is_object() && !new["status"].is_null() {
                let before = old.map(|old| &old["status"]);
                validate::check_change(schema, before, &new["status"], STATUS, &mut out);
            }
            for error in &mut out {
                error.field = error.field.replace(STATUS, "status");
                error.message = error.message.replace(&format!("{STATUS}."), "").replace(STATUS, "");
            }
        } else {
            validate::check_change(root, old, new, "", &mut out);
        }
        if let Some(paths) = &self.scale {
            paths.check(new, &mut out);
        }
        embedded::check(root, new, "", &mut out);
        let mut doubled = Vec::new();
        validate::duplicates(root, new, "", &mut doubled);
        if let Some(old) = old.filter(|_| !doubled.is_empty()) {
            // Lists that had items twice before may go on so.
            let mut before = Vec::new();
            validate::duplicates(root, old, "", &mut before);
            if !before.is_empty() {
                doubled.clear();
            }
        }
        out.append(&mut doubled);
        if self.rules.is_empty() {
            return out;
        }
        // Rules may rely on what the schema says of presence, size and type.
        let blocks = |error: &FieldError| {
            matches!(
                error.reason,
                FieldReason::NotSupported
                    | FieldReason::Required
                    | FieldReason::TooLong
                    | FieldReason::TooMany
                    | FieldReason::TypeInvalid
            )
        };
        if out.iter().any(blocks) {
            out.push(FieldError::raw(
                FieldReason::Invalid,
                "<nil>",
                "Invalid value: null: some validation rules were not checked because the object \
                 was invalid; correct the existing errors to complete validation",
            ));
            return out;
        }
        for warning in self.rules.check(old, new, &mut out) {
            ctx.warn(warning);
        }
        out
    }
}

/// What is said of a finalizer whose name may be that of another.
fn finalizer_warnings(finalizer: &str) -> Vec<String> {
    let mut out = names::qualified_name(finalizer);
    if !finalizer.contains('/') && !matches!(finalizer, "orphan" | "foregroundDeletion" | "kubernetes") {
        let path = if finalizer.contains('.') { " including a path (/)" } else { "" };
        out.push(format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        ));
    }
    out.iter().map(|why| format!("metadata.finalizers: {finalizer:?}: {why}")).collect()
}

/// The warning of a deprecated version.
fn deprecation(crd: &Value, version: &Value) -> Option<String> {
    if !flag(version, "deprecated") {
        return None;
    }
    let own = text(version, "deprecationWarning");
    if !own.is_empty() {
        return Some(own.to_owned());
    }
    let spec = &crd["spec"];
    let (group, kind) = (text(spec, "group"), text(&spec["names"], "kind"));
    let mut out = format!("{group}/{} {kind} is deprecated", text(version, "name"));
    let mut better: Vec<&str> = items(spec, "versions")
        .iter()
        .filter(|v| flag(v, "served") && !flag(v, "deprecated"))
        .map(|v| text(v, "name"))
        .collect();
    better.sort_by(|a, b| super::names::compare_versions(a, b));
    if let Some(better) = better.first() {
        let same = better.contains("alpha") == text(version, "name").contains("alpha");
        if !same || super::names::compare_versions(better, text(version, "name")).is_lt() {
            out.push_str(&format!("; use {group}/{better} {kind}"));
        }
    }
    Some(out)
}

fn without_meta(object: &Value, and_status: bool) -> Value {
    let mut out = object.clone();
    remove(&mut out, "metadata");
    if and_status {
        remove(&mut out, "status");
    }
    out
}

impl Strategy for Custom {
    fn conversion_webhook(&self) -> Option<&ConversionWebhook> {
        self.webhook.as_ref()
    }

    fn default(&self, _kind: &Kind, object: &mut Value) {
        self.structural.default(object);
    }

    fn to_storage(&self, _kind: &Kind, mut object: Value) -> Value {
        if let Some(converted) = self.converted(&object, Direction::ToStored) {
            object = converted;
        }
        if object.get("apiVersion").is_some() {
            set(&mut object, "apiVersion", self.stored_api_version.clone());
        }
        object
    }

    fn from_storage(&self, _kind: &Kind, mut object: Value) -> Value {
        if let Some(converted) = self.converted(&object, Direction::FromStored) {
            object = converted;
        }
        if object.get("apiVersion").is_some() {
            set(&mut object, "apiVersion", self.api_version.clone());
        }
        self.structural.prune(&mut object);
        self.structural.default(&mut object);
        object
    }

    fn is_storage_version(&self) -> bool {
        self.stored
    }

    fn prepare_create(&self, _ctx: &Ctx<'_>, object: &mut Value) -> Result<(), Status> {
        if self.has_status {
            remove(object, "status");
        }
        set(&mut object["metadata"], "generation", 1);
        Ok(())
    }

    fn validate_create(&self, ctx: &Ctx<'_>, object: &Value) -> Vec<FieldError> {
        let mut out = meta::create(object, self.namespaced, NameRule::Subdomain);
        out.extend(self.check(ctx, "", None, object));
        out
    }

    fn prepare_update(&self, _ctx: &Ctx<'_>, sub: &str, old: &Value, new: &mut Value) -> Result<(), Status> {
        if sub == "status" {
            let status = new.get("status").cloned();
            let managed = new["metadata"].get("managedFields").cloned();
            let version = new["metadata"].get("resourceVersion").cloned();
            let mut kept = old.clone();
            match status {
                Some(status) => set(&mut kept, "status", status),
                None => {
                    remove(&mut kept, "status");
                }
            }
            for (key, value) in [("managedFields", managed), ("resourceVersion", version)] {
                match value {
                    Some(value) => set(&mut kept["metadata"], key, value),
                    None => {
                        remove(&mut kept["metadata"], key);
                    }
                }
            }
            for key in ["kind", "apiVersion"] {
                copy(new, &mut kept, key);
            }
            *new = kept;
            return Ok(());
        }
        if self.has_status {
            copy(old, new, "status");
        }
        let changed = {
            let mut before = without_meta(old, self.has_status);
            let mut after = without_meta(new, self.has_status);
            for value in [&mut before, &mut after] {
                remove(value, "kind");
                remove(value, "apiVersion");
            }
            before != after
        };
        let generation = int(&old["metadata"], "generation") + i64::from(changed);
        set(&mut new["metadata"], "generation", generation);
        Ok(())
    }

    fn validate_update(&self, ctx: &Ctx<'_>, sub: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        let mut out = meta::change(old, new, self.namespaced);
        out.extend(meta::update(old, new));
        out.extend(self.check(ctx, sub, Some(old), new));
        out
    }

    fn allow_unconditional_update(&self) -> bool {
        false
    }

    fn supports_field(&self, label: &str) -> bool {
        self.selectable.iter().any(|path| path == label)
    }

    fn fields(&self, object: &Value) -> Vec<(&str, String)> {
        self.selectable
            .iter()
            .map(|path| {
                let value = match at(object, path) {
                    Value::Null => String::new(),
                    Value::String(text) => text.clone(),
                    other => other.to_string(),
                };
                (path.as_str(), value)
            })
            .collect()
    }

    fn warnings(&self, old: Option<&Value>, new: &Value) -> Vec<String> {
        let list = |object: &Value| -> BTreeSet<String> {
            let finalizers = items(&object["metadata"], "finalizers").iter().filter_map(Value::as_str);
            finalizers.map(str::to_owned).collect()
        };
        let added = list(new);
        let before = old.map(list).unwrap_or_default();
        added.difference(&before).flat_map(|finalizer| finalizer_warnings(finalizer)).collect()
    }

    fn deprecation(&self) -> Option<String> {
        self.deprecation.clone()
    }

    fn columns(&self) -> &Columns {
        &self.columns
    }

    fn replicas_path(&self) -> &str {
        self.scale.as_ref().map_or("spec.replicas", |paths| paths.desired.as_str())
    }

    fn kept(&self, sub: &str) -> &'static [&'static str] {
        if sub == "status" { &["metadata"] } else { &[] }
    }

    fn structural(&self) -> Option<&Structural> {
        Some(&self.structural)
    }

    fn scale(&self, kind: &Kind, object: &Value) -> Result<Value, Status> {
        let Some(paths) = &self.scale else { return Err(kind.not_found("")) };
        let Some(desired) = at(object, &paths.desired).as_i64() else {
            return Err(Status::internal(format!(
                "the spec replicas field \".{}\" does not exist",
                paths.desired
            )));
        };
        let actual = at(object, &paths.actual).as_i64().unwrap_or(0);
        let selector =
            if paths.selector.is_empty() { "" } else { at(object, &paths.selector).as_str().unwrap_or("") };
        Ok(scale::of(object, desired, actual, selector))
    }

    fn set_scale(&self, kind: &Kind, object: &mut Value, scale: &Value) -> Result<(), Status> {
        let Some(paths) = &self.scale else { return Err(kind.not_found("")) };
        put(object, &paths.desired, int(&scale["spec"], "replicas"));
        Ok(())
    }

    fn present_scale(&self, kind: &Kind, object: &Value) -> Result<Value, Status> {
        let mut object = object.clone();
        if let Some(paths) = self.scale.as_ref().filter(|paths| !at(&object, &paths.desired).is_i64()) {
            put(&mut object, &paths.desired, 0);
        }
        self.scale(kind, &object)
    }
}

/// Puts a number at a path of names, with all that is missing on the way.
fn put(object: &mut Value, path: &str, number: i64) {
    let mut place = object;
    for key in path.split('.') {
        if !place.is_object() {
            *place = json!({});
        }
        place = &mut place[key];
    }
    *place = number.into();
}
