//! Whether a live object shows what a patch or a replace was to do.
//!
//! Asked only after the answer to a write was lost. Invariant: in doubt, no.

use serde_json::Value;

use crate::contract::{PatchKind, Verb};

/// Fields that the server sets on its own.
const SERVERS: [&str; 3] = ["resourceVersion", "generation", "managedFields"];

/// Whether `live` shows the effect of a write.
pub(super) fn shows(verb: &Verb, live: &Value) -> bool {
    let parse = |body: &str| serde_json::from_str::<Value>(body).ok();
    match verb {
        Verb::Patch(patch) => parse(&patch.body).is_some_and(|body| match patch.kind {
            PatchKind::Merge => merged(&body, live),
            PatchKind::Strategic => contained(&body, live, true),
            PatchKind::Apply => contained(&body, live, false),
            PatchKind::Json => applied(&body, live),
        }),
        Verb::Replace(body) => parse(body).is_some_and(|mut body| {
            if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
                SERVERS.iter().for_each(|field| {
                    metadata.remove(*field);
                });
            }
            contained(&body, live, false)
        }),
        _ => false,
    }
}

/// A merge patch that would change nothing has taken effect.
fn merged(patch: &Value, live: &Value) -> bool {
    let mut after = live.clone();
    json_patch::merge(&mut after, patch);
    after == *live
}

/// Whether all that `wanted` sets stands in `live`. Lists may hold more, in
/// another order, since servers merge them by keys.
fn contained(wanted: &Value, live: &Value, strategic: bool) -> bool {
    match wanted {
        Value::Object(fields) => {
            if strategic && fields.contains_key("$patch") {
                return false;
            }
            fields.iter().all(|(name, value)| match value {
                // Directives other than the one for elements below are not understood.
                _ if strategic && name.starts_with('$') => false,
                Value::Null => live.get(name).is_none_or(Value::is_null),
                value => live.get(name).is_some_and(|live| contained(value, live, strategic)),
            })
        }
        Value::Array(elements) => live.as_array().is_some_and(|live| {
            elements.iter().all(|element| match deleted(element) {
                Some(keys) if strategic => !live.iter().any(|l| contained(&keys, l, true)),
                _ => live.iter().any(|l| contained(element, l, strategic)),
            })
        }),
        scalar => scalar == live,
    }
}

/// The keys of an element that a strategic patch deletes.
fn deleted(element: &Value) -> Option<Value> {
    let fields = element.as_object()?;
    (fields.get("$patch")?.as_str()? == "delete").then(|| {
        fields
            .iter()
            .filter(|(name, _)| !name.starts_with('$'))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    })
}

/// Whether each operation of a JSON patch shows. One that addresses an element
/// of an array says nothing afterwards, since elements move.
fn applied(patch: &Value, live: &Value) -> bool {
    patch.as_array().is_some_and(|operations| {
        operations.iter().all(|operation| {
            let Some(path) = operation.get("path").and_then(Value::as_str) else { return false };
            let parent = path.rsplit_once('/').and_then(|(parent, _)| live.pointer(parent));
            let on_element = parent.is_some_and(Value::is_array);
            match operation.get("op").and_then(Value::as_str) {
                Some("test") => true,
                Some("add" | "replace") => !on_element && live.pointer(path) == operation.get("value"),
                Some("remove") => !on_element && live.pointer(path).is_none(),
                _ => false,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::contract::Patch;

    fn patch(kind: PatchKind, body: Value) -> Verb {
        Verb::Patch(Patch { kind, body: body.to_string(), field_manager: String::new(), force: false })
    }

    #[test]
    fn effects() {
        let live = json!({
            "metadata": {"name": "a", "resourceVersion": "5", "labels": {"x": "1"}, "finalizers": ["f"]},
            "spec": {"n": 3, "list": [{"name": "p", "v": 1}, {"name": "q", "v": 2}]},
        });
        let cases = [
            (patch(PatchKind::Merge, json!({"spec": {"n": 3}})), true),
            (patch(PatchKind::Merge, json!({"spec": {"n": 4}})), false),
            (patch(PatchKind::Merge, json!({"metadata": {"labels": {"y": null}}})), true),
            (patch(PatchKind::Merge, json!({"metadata": {"labels": {"x": null}}})), false),
            (patch(PatchKind::Merge, json!({"metadata": {"finalizers": ["f"]}})), true),
            (patch(PatchKind::Merge, json!({"metadata": {"finalizers": []}})), false),
            (patch(PatchKind::Strategic, json!({"spec": {"list": [{"name": "q", "v": 2}]}})), true),
            (patch(PatchKind::Strategic, json!({"spec": {"list": [{"name": "q", "v": 3}]}})), false),
            (
                patch(PatchKind::Strategic, json!({"spec": {"list": [{"name": "r", "$patch": "delete"}]}})),
                true,
            ),
            (
                patch(PatchKind::Strategic, json!({"spec": {"list": [{"name": "q", "$patch": "delete"}]}})),
                false,
            ),
            (patch(PatchKind::Strategic, json!({"spec": {"$retainKeys": ["n"], "n": 3}})), false),
            (patch(PatchKind::Apply, json!({"spec": {"n": 3}})), true),
            (patch(PatchKind::Apply, json!({"spec": {"m": 3}})), false),
            (
                patch(
                    PatchKind::Json,
                    json!([{"op": "test", "path": "/metadata/uid", "value": "u"}, {"op": "replace", "path": "/spec/n", "value": 3}]),
                ),
                true,
            ),
            (patch(PatchKind::Json, json!([{"op": "add", "path": "/spec/m", "value": 1}])), false),
            (patch(PatchKind::Json, json!([{"op": "remove", "path": "/spec/m"}])), true),
            (patch(PatchKind::Json, json!([{"op": "remove", "path": "/metadata/finalizers/3"}])), false),
            (patch(PatchKind::Json, json!([{"op": "move", "from": "/spec/a", "path": "/spec/n"}])), false),
            (
                Verb::Replace(
                    json!({"metadata": {"name": "a", "resourceVersion": "4"}, "spec": {"n": 3}}).to_string(),
                ),
                true,
            ),
            (Verb::Replace(json!({"metadata": {"name": "a"}, "spec": {"n": 2}}).to_string()), false),
        ];
        for (verb, shown) in cases {
            assert_eq!(shows(&verb, &live), shown, "{verb:?}");
        }
    }
}
