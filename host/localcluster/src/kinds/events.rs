//! Events, under the core group and under `events.k8s.io`; both are stored in the core form.

use serde_json::{Map, Value, json};

use super::meta::{immutable, invalid_all};
use super::names::{self, NameRule};
use super::spec::Spec;
use super::value::{int, text};
use crate::status::{FieldError, FieldReason};
use crate::table::{Column, Columns, column, since, wide};

const FIELDS: &[&str] = &[
    "involvedObject.kind",
    "involvedObject.namespace",
    "involvedObject.name",
    "involvedObject.uid",
    "involvedObject.apiVersion",
    "involvedObject.resourceVersion",
    "involvedObject.fieldPath",
    "reason",
    "reportingComponent",
    "type",
    "source",
];

/// Names under the group of its own, in the same order; the source has none there.
const GROUPED_FIELDS: &[&str] = &[
    "regarding.kind",
    "regarding.namespace",
    "regarding.name",
    "regarding.uid",
    "regarding.apiVersion",
    "regarding.resourceVersion",
    "regarding.fieldPath",
    "reason",
    "reportingController",
    "type",
];

pub(super) fn core() -> Spec {
    Spec {
        has_dependents: false,
        name: NameRule::PathSegment,
        core_finalizers: false,
        create_on_update: true,
        checks_meta: false,
        validate: |object| common(object, "reportingComponent"),
        field_names: FIELDS,
        fields,
        columns: Columns::Own(COLUMNS, cells),
        ..Spec::new()
    }
}

pub(super) fn grouped() -> Spec {
    Spec {
        has_dependents: false,
        create_on_update: true,
        validate: |object| common(&to_core(object.clone()), "reportingController"),
        validate_create: |object| {
            let core = to_core(object.clone());
            let mut out = series(&core);
            if core["eventTime"].is_null() {
                out.push(FieldError::required("eventTime", ""));
            }
            let ty = text(&core, "type");
            if !matches!(ty, "Normal" | "Warning") {
                out.push(FieldError::invalid("type", &json!(""), &format!("has invalid value: {ty}")));
            }
            // Fields of the older form.
            for key in ["firstTimestamp", "lastTimestamp", "count", "source"] {
                let unset = match &core[key] {
                    Value::Object(source) => source.is_empty(),
                    value => value.is_null() || *value == 0,
                };
                if !unset {
                    out.push(FieldError::invalid(key, &json!(""), "needs to be unset"));
                }
            }
            out
        },
        validate_update: |old, new| {
            let (old, new) = (to_core(old.clone()), to_core(new.clone()));
            let mut out = if old["series"] == new["series"] { Vec::new() } else { series(&new) };
            // In the order, and with the repetition, of the real server.
            for key in [
                "involvedObject",
                "reason",
                "message",
                "source",
                "firstTimestamp",
                "lastTimestamp",
                "count",
                "reason",
                "type",
                "eventTime",
                "action",
                "related",
                "reportingComponent",
                "reportingInstance",
            ] {
                let shown = if key == "reportingComponent" { "reportingController" } else { key };
                if matches!(key, "involvedObject" | "related") {
                    reference_stays(&mut out, key, &old[key], &new[key]);
                } else {
                    immutable(&mut out, shown, &old[key], &new[key]);
                }
            }
            out
        },
        field_names: GROUPED_FIELDS,
        fields,
        columns: Columns::Own(COLUMNS, cells),
        convert: Some((to_core, from_core)),
        ..Spec::new()
    }
}

/// What both forms are held to; `object` is in the core form.
fn common(object: &Value, controller_field: &str) -> Vec<FieldError> {
    let mut out = Vec::new();
    let involved = text(&object["involvedObject"], "namespace");
    let own = text(&object["metadata"], "namespace");
    let newer = !object["eventTime"].is_null();
    let fits = match (newer, involved) {
        (false, "") => own == "default" || own.is_empty(),
        (false, involved) => own == involved,
        (true, "") => matches!(own, "default" | "kube-system"),
        (true, _) => true,
    };
    if !fits {
        let detail = "does not match event.namespace";
        out.push(FieldError::invalid("involvedObject.namespace", &json!(involved), detail));
    }
    if !newer {
        return out;
    }
    let controller = text(object, "reportingComponent");
    if controller.is_empty() {
        out.push(FieldError::required(controller_field, ""));
    }
    invalid_all(&mut out, controller_field, &json!(controller), names::qualified_name(controller));
    for (key, max, needed) in [
        ("reportingInstance", 128, true),
        ("action", 128, true),
        ("reason", 128, true),
        ("message", 1024, false),
    ] {
        let value = text(object, key);
        if value.is_empty() && needed {
            out.push(FieldError::required(key, ""));
        }
        if value.len() > max {
            let detail = format!("can have at most {max} characters");
            out.push(FieldError::invalid(key, &json!(""), &detail));
        }
    }
    out
}

/// A reference may not change; it is shown as Go encodes the internal type, which has no JSON names.
fn reference_stays(out: &mut Vec<FieldError>, field: &str, old: &Value, new: &Value) {
    const PARTS: [(&str, &str); 7] = [
        ("Kind", "kind"),
        ("Namespace", "namespace"),
        ("Name", "name"),
        ("UID", "uid"),
        ("APIVersion", "apiVersion"),
        ("ResourceVersion", "resourceVersion"),
        ("FieldPath", "fieldPath"),
    ];
    if old == new {
        return;
    }
    let parts: Vec<String> =
        PARTS.iter().map(|(shown, key)| format!("{shown:?}:{}", json!(text(new, key)))).collect();
    let shown = if new.is_null() { "null".to_owned() } else { format!("{{{}}}", parts.join(",")) };
    let message = format!("Invalid value: {shown}: field is immutable");
    out.push(FieldError::raw(FieldReason::Invalid, field, message));
}

fn series(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let series = &object["series"];
    if series.is_null() {
        return out;
    }
    if int(series, "count") < 2 {
        out.push(FieldError::invalid("series.count", &json!(""), "should be at least 2"));
    }
    if series["lastObservedTime"].is_null() {
        out.push(FieldError::required("series.lastObservedTime", ""));
    }
    out
}

/// Names of the same field in `events.k8s.io` and in core.
const RENAMED: [(&str, &str); 7] = [
    ("regarding", "involvedObject"),
    ("note", "message"),
    ("reportingController", "reportingComponent"),
    ("deprecatedSource", "source"),
    ("deprecatedFirstTimestamp", "firstTimestamp"),
    ("deprecatedLastTimestamp", "lastTimestamp"),
    ("deprecatedCount", "count"),
];

fn rename(object: Value, names: impl Iterator<Item = (&'static str, &'static str)> + Clone) -> Value {
    let Value::Object(map) = object else { return object };
    let renamed: Map<String, Value> = map
        .into_iter()
        .map(|(key, value)| {
            let new = names.clone().find(|(from, _)| *from == key).map(|(_, to)| to.to_owned());
            (new.unwrap_or(key), value)
        })
        .collect();
    Value::Object(renamed)
}

fn to_core(object: Value) -> Value {
    let mut out = rename(object, RENAMED.into_iter());
    // The core form always has these.
    if let Value::Object(map) = &mut out {
        for (key, value) in [
            ("involvedObject", json!({})),
            ("source", json!({})),
            ("firstTimestamp", Value::Null),
            ("lastTimestamp", Value::Null),
            ("eventTime", Value::Null),
            ("reportingComponent", json!("")),
            ("reportingInstance", json!("")),
        ] {
            map.entry(key).or_insert(value);
        }
    }
    out
}

fn from_core(object: Value) -> Value {
    rename(object, RENAMED.into_iter().map(|(a, b)| (b, a)))
}

/// Objects may come in either form.
fn fields(object: &Value) -> Vec<(&'static str, String)> {
    let involved =
        if object["regarding"].is_object() { &object["regarding"] } else { &object["involvedObject"] };
    let source =
        if object["deprecatedSource"].is_object() { &object["deprecatedSource"] } else { &object["source"] };
    let reporting = match text(object, "reportingComponent") {
        "" => text(object, "reportingController"),
        component => component,
    };
    let component = match text(source, "component") {
        "" => reporting,
        component => component,
    };
    let core = [
        text(involved, "kind"),
        text(involved, "namespace"),
        text(involved, "name"),
        text(involved, "uid"),
        text(involved, "apiVersion"),
        text(involved, "resourceVersion"),
        text(involved, "fieldPath"),
        text(object, "reason"),
        reporting,
        text(object, "type"),
        component,
    ];
    let named = |names: &'static [&'static str]| {
        names.iter().zip(core).map(|(name, value)| (*name, value.to_owned())).collect::<Vec<_>>()
    };
    // Stored once for both groups, under the names of both.
    let mut out = named(FIELDS);
    out.extend(named(GROUPED_FIELDS).into_iter().filter(|(name, _)| !FIELDS.contains(name)));
    out
}

const COLUMNS: &[Column] = &[
    column("Last Seen"),
    column("Type"),
    column("Reason"),
    column("Object"),
    wide("Subobject"),
    wide("Source"),
    column("Message"),
    wide("First Seen"),
    wide("Count"),
    Column { name: "Name", ty: "string", format: "name", priority: 1 },
];

fn cells(object: &Value, now: &str) -> Vec<Value> {
    let ago = |value: &Value| value.as_str().map(|then| since(then, now));
    let unknown = || "<unknown>".to_owned();
    let first = ago(&object["firstTimestamp"]).or_else(|| ago(&object["eventTime"])).unwrap_or_else(unknown);
    let mut last = ago(&object["lastTimestamp"]).unwrap_or_else(|| first.clone());
    let mut count = int(object, "count");
    let series = &object["series"];
    if series.is_object() {
        last = ago(&series["lastObservedTime"]).unwrap_or_else(unknown);
        count = int(series, "count");
    } else if count == 0 {
        count = 1;
    }
    let involved = &object["involvedObject"];
    let kind = text(involved, "kind").to_lowercase();
    let target = match text(involved, "name") {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source = &object["source"];
    let (component, host) = match text(source, "component") {
        "" => (text(object, "reportingComponent"), text(object, "reportingInstance")),
        component => (component, text(source, "host")),
    };
    let source = if host.is_empty() { component.to_owned() } else { format!("{component}, {host}") };
    vec![
        json!(last),
        json!(text(object, "type")),
        json!(text(object, "reason")),
        json!(target),
        json!(text(involved, "fieldPath")),
        json!(source),
        json!(text(object, "message").trim()),
        json!(first),
        json!(count),
        object["metadata"]["name"].clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_hold_the_same() {
        let core = to_core(json!({"note": "m", "regarding": {"name": "p"}, "eventTime": "t"}));
        assert_eq!(core["message"], "m");
        assert_eq!(core["involvedObject"]["name"], "p");
        let back = from_core(core);
        assert_eq!(back["note"], "m");
        assert_eq!(back["regarding"]["name"], "p");
    }
}
