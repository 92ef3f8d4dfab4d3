//! Structural schemas: what a CustomResourceDefinition says about its objects.
//!
//! In: `openAPIV3Schema`. Out: pruning and defaulting of objects. Invariant: `metadata`, `kind` and `apiVersion` of
//! the root are not the schema's business.

use serde_json::{Map, Value};

/// The schema of one version.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Structural {
    root: Value,
}

/// Drops nulls where the schema allows none and has nothing to put in their place.
fn drop_nulls(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            let of = |key: &str| {
                let property = &schema["properties"][key];
                if property.is_object() { property } else { &schema["additionalProperties"] }
            };
            map.retain(|key, value| {
                let inner = of(key);
                !value.is_null()
                    || !inner.is_object()
                    || inner["nullable"] == true
                    || !inner["default"].is_null()
            });
            map.iter_mut().for_each(|(key, value)| drop_nulls(of(key), value));
        }
        Value::Array(list) => list.iter_mut().for_each(|value| drop_nulls(&schema["items"], value)),
        _ => {}
    }
}

impl Structural {
    /// Drops nulls that mean nothing.
    pub(super) fn drop_nulls(&self, object: &mut Value) {
        drop_nulls(&self.root, object);
    }

    /// From `openAPIV3Schema`.
    pub fn new(root: Value) -> Self {
        Self { root }
    }

    /// The schema itself.
    pub fn root(&self) -> &Value {
        &self.root
    }

    /// Drops fields the schema does not know; returns their paths in the order of the document.
    pub fn prune(&self, object: &mut Value) -> Vec<String> {
        let mut unknown = Vec::new();
        if let Value::Object(map) = object {
            prune_map(&self.root, map, "", true, &mut unknown);
        }
        unknown
    }

    /// Fills in defaults.
    pub fn default(&self, object: &mut Value) {
        default_value(&self.root, object);
    }

    /// The schema of the list at a path, for merging its items.
    pub fn child<'s>(schema: &'s Value, key: &str) -> &'s Value {
        match &schema["properties"][key] {
            Value::Null => &schema["additionalProperties"],
            property => property,
        }
    }
}

fn preserves(schema: &Value) -> bool {
    schema["x-kubernetes-preserve-unknown-fields"] == true
}

fn is_root_field(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

fn prune_map(
    schema: &Value,
    map: &mut Map<String, Value>,
    path: &str,
    root: bool,
    unknown: &mut Vec<String>,
) {
    let embedded = schema["x-kubernetes-embedded-resource"] == true;
    let join = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    map.retain(|key, value| {
        if (root || embedded) && is_root_field(key) {
            return true;
        }
        let known = match (&schema["properties"][key], &schema["additionalProperties"]) {
            (Value::Object(_), _) => &schema["properties"][key],
            (_, extra @ Value::Object(_)) => extra,
            (_, Value::Bool(true)) => &Value::Null,
            _ if preserves(schema) => &Value::Null,
            _ => {
                unknown.push(join(key));
                return false;
            }
        };
        if known.is_object() {
            prune_value(known, value, &join(key), unknown);
        }
        true
    });
}

pub(super) fn prune_value(schema: &Value, value: &mut Value, path: &str, unknown: &mut Vec<String>) {
    match value {
        Value::Object(map) => prune_map(schema, map, path, false, unknown),
        Value::Array(items) => {
            for (i, item) in items.iter_mut().enumerate() {
                if schema["items"].is_object() {
                    prune_value(&schema["items"], item, &format!("{path}[{i}]"), unknown);
                }
            }
        }
        _ => {}
    }
}

fn default_value(schema: &Value, value: &mut Value) {
    match value {
        Value::Object(map) => {
            if let Some(properties) = schema["properties"].as_object() {
                for (key, property) in properties {
                    let present = map.get(key);
                    let nulled = present.is_some_and(Value::is_null) && property["nullable"] != true;
                    if present.is_none() || nulled {
                        match property.get("default") {
                            Some(default) => {
                                map.insert(key.clone(), default.clone());
                            }
                            None if nulled && property.get("default").is_some() => {
                                map.remove(key);
                            }
                            None => {}
                        }
                    }
                    if let Some(value) = map.get_mut(key) {
                        default_value(property, value);
                    }
                }
            }
            if schema["additionalProperties"].is_object() {
                for (key, value) in map.iter_mut() {
                    if schema["properties"].get(key).is_none() {
                        default_value(&schema["additionalProperties"], value);
                    }
                }
            }
        }
        Value::Array(items) => {
            for item in items {
                default_value(&schema["items"], item);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn unknown_fields_go_and_defaults_come() {
        let schema = Structural::new(json!({"type": "object", "properties": {"spec": {
            "type": "object", "default": {},
            "properties": {"size": {"type": "integer", "default": 3}, "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
        }}}));
        let mut object = json!({"metadata": {"name": "a"}, "x": 1, "spec": {"y": 2, "free": {"a": 1}}});
        assert_eq!(schema.prune(&mut object), ["spec.y", "x"]);
        schema.default(&mut object);
        assert_eq!(object, json!({"metadata": {"name": "a"}, "spec": {"size": 3, "free": {"a": 1}}}));
        let mut bare = json!({});
        schema.default(&mut bare);
        assert_eq!(bare, json!({"spec": {"size": 3}}));
    }
}
