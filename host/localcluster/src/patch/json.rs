//! JSON patch (RFC 6902) with the leniencies of the real server, and JSON merge patch (RFC 7386).

use json_patch::{PatchOperation, jsonptr::PointerBuf};
use serde_json::{Map, Value};

use super::go::json_type;
use crate::status::{Details, Status};

const MAX_OPERATIONS: usize = 10_000;

/// Applies a JSON patch. `patch` must be a list.
pub fn apply(original: &Value, patch: &Value) -> Result<Value, Status> {
    let Value::Array(operations) = patch else {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type []handlers.jsonPatchOp",
            json_type(patch)
        )));
    };
    if operations.len() > MAX_OPERATIONS {
        return Err(Status::too_large(format!(
            "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
            operations.len()
        )));
    }
    for operation in operations {
        check_operation(operation)?;
    }
    let mut result = original.clone();
    for operation in operations {
        let parsed: PatchOperation =
            serde_json::from_value(lenient(&result, operation)).map_err(|_| unfit())?;
        json_patch::patch_unsafe(&mut result, std::slice::from_ref(&parsed)).map_err(|_| unfit())?;
    }
    Ok(result)
}

/// Fields of operations that mean nothing, in the words of strict decoding.
pub fn unknown_fields(patch: &Value) -> Vec<String> {
    const KNOWN: [&str; 4] = ["op", "path", "from", "value"];
    let operations = patch.as_array().into_iter().flatten().enumerate();
    operations
        .flat_map(|(i, operation)| {
            let fields = operation.as_object().into_iter().flatten().map(|f| f.0);
            let unknown = fields.filter(|f| !KNOWN.contains(&f.as_str()));
            unknown.map(move |f| format!("unknown field \"[{i}].{f}\"")).collect::<Vec<_>>()
        })
        .collect()
}

/// What a patch that does not fit is answered with, whatever is wrong.
fn unfit() -> Status {
    let mut status = Status::unprocessable("the server rejected our request due to an error in our request");
    status.details = Some(Details::default());
    status
}

fn check_operation(operation: &Value) -> Result<(), Status> {
    let Some(map) = operation.as_object() else {
        return Err(Status::bad_request(format!(
            "error decoding patch: json: cannot unmarshal {} into Go value of type handlers.jsonPatchOp",
            json_type(operation)
        )));
    };
    for field in ["op", "path", "from"] {
        match map.get(field) {
            None | Some(Value::String(_) | Value::Null) => {}
            Some(other) => {
                return Err(Status::bad_request(format!(
                    "error decoding patch: json: cannot unmarshal {} into Go struct field \
                     jsonPatchOp.{field} of type string",
                    json_type(other)
                )));
            }
        }
    }
    Ok(())
}

/// A path as the real server steps through it: what is before the first slash does not count, and an index may be
/// counted from the end of its list. None if there is no slash.
fn path_of(document: &Value, path: &str, adds: bool) -> Option<String> {
    let mut at = Some(document);
    let steps: Vec<&str> = path.split('/').skip(1).collect();
    let (last, parents) = steps.split_last()?;
    let mut out = String::new();
    let step = |at: Option<&Value>, step: &str, room: usize| match (at, step.parse::<i64>()) {
        (Some(Value::Array(list)), Ok(index)) if index < 0 => {
            let length = i64::try_from(list.len() + room).unwrap_or(i64::MAX);
            (index + length).to_string()
        }
        _ => step.to_owned(),
    };
    for name in parents {
        let name = step(at, name, 0);
        at = at.and_then(|value| match value {
            Value::Array(list) => list.get(name.parse::<usize>().ok()?),
            other => other.get(name.replace("~1", "/").replace("~0", "~")),
        });
        out.push('/');
        out.push_str(&name);
    }
    out.push('/');
    out.push_str(&step(at, last, usize::from(adds)));
    Some(out)
}

/// `replace` of a map key that is absent adds it, a `test` for null passes where there is nothing, and a missing value
/// is null, also one to copy.
fn lenient(document: &Value, operation: &Value) -> Value {
    let absent = |path: &str| {
        let Ok(pointer) = PointerBuf::parse(path.to_owned()) else { return false };
        let parent = pointer.parent().and_then(|p| p.resolve(document).ok());
        matches!((parent, pointer.last()), (Some(Value::Object(map)), Some(key))
            if !map.contains_key(key.decoded().as_ref()))
    };
    let mut operation = operation.clone();
    let op = operation["op"].as_str().unwrap_or("").to_owned();
    if matches!(op.as_str(), "add" | "replace") && operation.get("value").is_none() {
        operation["value"] = Value::Null;
    }
    for field in ["path", "from"] {
        let Some(path) = operation[field].as_str() else { continue };
        let adds = field == "path" && matches!(op.as_str(), "add" | "copy" | "move");
        match path_of(document, path, adds) {
            Some(path) => operation[field] = path.into(),
            // The whole document may be replaced and tested, nothing else.
            None if path.is_empty() && matches!(op.as_str(), "replace" | "test") => {}
            None => operation["op"] = "unfit".into(),
        }
    }
    let path = operation["path"].as_str().unwrap_or("").to_owned();
    if op == "replace" && absent(&path) {
        operation["op"] = "add".into();
    } else if op == "test" && operation["value"].is_null() && absent(&path) {
        return serde_json::json!({"op": "test", "path": "", "value": document});
    } else if op == "copy" && operation["from"].as_str().is_some_and(absent) {
        return serde_json::json!({"op": "add", "path": path, "value": null});
    }
    operation
}

/// The map keys and items that a JSON patch steps through, as a merge patch would name them.
pub fn touched(patch: &Value) -> Value {
    let mut out = Value::Object(Map::new());
    for operation in patch.as_array().into_iter().flatten() {
        for field in ["path", "from"] {
            let Some(path) = operation[field].as_str() else { continue };
            let mut at = &mut out;
            let steps: Vec<&str> = path.split('/').skip(1).collect();
            let Some((_, parents)) = steps.split_last() else { continue };
            for step in parents {
                let Value::Object(map) = at else { break };
                let step = step.replace("~1", "/").replace("~0", "~");
                at = map.entry(step).or_insert_with(|| Value::Object(Map::new()));
            }
        }
    }
    out
}

/// Merges as RFC 7386 says.
pub fn merge(original: &mut Value, patch: &Value) {
    json_patch::merge(original, patch);
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn operations_have_the_leniencies_of_the_real_server() {
        let doc = json!({"a": {"b": 1}, "l": [1, 2]});
        for (patch, want) in [
            (
                json!([{"op": "replace", "path": "/a/new", "value": 2}]),
                Ok(json!({"a": {"b": 1, "new": 2}, "l": [1, 2]})),
            ),
            (json!([{"op": "test", "path": "/a/none", "value": null}]), Ok(doc.clone())),
            (json!([{"op": "add", "path": "/l/-", "value": 3}]), Ok(json!({"a": {"b": 1}, "l": [1, 2, 3]}))),
            (json!([{"op": "remove", "path": "/l/-1"}]), Ok(json!({"a": {"b": 1}, "l": [1]}))),
            (json!([{"op": "add", "path": "/a/c"}]), Ok(json!({"a": {"b": 1, "c": null}, "l": [1, 2]}))),
            (
                json!([{"op": "copy", "from": "/a/none", "path": "/a/b"}]),
                Ok(json!({"a": {"b": null}, "l": [1, 2]})),
            ),
            (json!([{"op": "copy", "from": "/l/7", "path": "/a/b"}]), Err(422)),
            (json!([{"op": "move", "from": "/a/none", "path": "/a/b"}]), Err(422)),
            (json!([{"op": "add", "path": "", "value": {}}]), Err(422)),
            (json!([{"op": "remove", "path": "/a/none"}]), Err(422)),
            (json!([{"op": "test", "path": "/a/b", "value": 2}]), Err(422)),
            (json!([{"op": "mangle", "path": "/a/b"}]), Err(422)),
            (json!([{"op": "add", "path": "/x/y", "value": 1}]), Err(422)),
            (json!({"op": "remove"}), Err(400)),
            (json!([1]), Err(400)),
        ] {
            assert_eq!(apply(&doc, &patch).map_err(|s| s.code), want, "{patch}");
        }
    }
}
