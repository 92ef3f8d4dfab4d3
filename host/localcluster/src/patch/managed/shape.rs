//! How the parts of an object merge, whether their kind is built in or custom.

use serde_json::{Map, Value};

use super::set::Element;
use crate::rest::strategy::Kind;
use crate::schema::types::Field;
use crate::schema::{ListKind, StructId, Type, schema};

/// A place in a schema.
#[derive(Clone, Copy, Debug)]
pub enum Node<'s> {
    /// A built-in type, and the field it came from.
    Typed(&'s Type, Option<&'s Field>),
    /// A structure.
    Struct(StructId, Option<&'s Field>),
    /// A structural schema.
    Crd(&'s Value),
    /// The root of a custom object, whose metadata is typed.
    CrdRoot(&'s Value),
    /// Nothing is known.
    Any,
}

/// How a value merges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape {
    /// As one.
    Leaf,
    /// Key by key.
    Map,
    /// Item by item; each item is its own key.
    Set,
    /// Item by item, by these keys.
    Keyed(Vec<String>),
}

/// What values may stand in a place.
enum Class {
    Numeric,
    Boolean,
    Text,
    Scalar,
    List,
    Map,
}

impl<'s> Node<'s> {
    /// The root of a kind.
    pub fn root(kind: &'s Kind) -> Self {
        if let Some(structural) = kind.strategy.structural() {
            return Self::CrdRoot(structural.root());
        }
        match schema().kind(&kind.api_version(), &kind.kind) {
            Some(id) => Self::Struct(id, None),
            None => Self::Any,
        }
    }

    /// How a value here merges.
    pub fn shape(self, value: &Value) -> Shape {
        match self {
            Self::CrdRoot(_) => Shape::Map,
            Self::Struct(id, field) => {
                let granular = field.is_some_and(|f| f.granular);
                let atomic = (schema().get(id).atomic && !granular) || field.is_some_and(|f| f.atomic);
                if atomic { Shape::Leaf } else { Shape::Map }
            }
            Self::Typed(ty, field) => match ty {
                Type::Struct(id) => Self::Struct(*id, field).shape(value),
                Type::Map(_) if field.is_some_and(|f| f.atomic) => Shape::Leaf,
                Type::Map(_) => Shape::Map,
                Type::List(_) => match field.map(|f| &f.list) {
                    Some(ListKind::Set) => Shape::Set,
                    Some(ListKind::Map(keys)) => Shape::Keyed(keys.clone()),
                    _ => Shape::Leaf,
                },
                _ => Shape::Leaf,
            },
            Self::Crd(schema) => match value {
                Value::Object(_) if schema["x-kubernetes-map-type"] == "atomic" => Shape::Leaf,
                Value::Object(_) => Shape::Map,
                Value::Array(_) => match schema["x-kubernetes-list-type"].as_str() {
                    Some("set") => Shape::Set,
                    Some("map") => {
                        let keys = schema["x-kubernetes-list-map-keys"].as_array();
                        let keys = keys.into_iter().flatten().filter_map(Value::as_str);
                        Shape::Keyed(keys.map(str::to_owned).collect())
                    }
                    _ => Shape::Leaf,
                },
                _ => Shape::Leaf,
            },
            Self::Any => {
                if value.is_object() {
                    Shape::Map
                } else {
                    Shape::Leaf
                }
            }
        }
    }

    /// The place of a field or map key.
    pub fn child(self, key: &str) -> Self {
        match self {
            Self::CrdRoot(_) if key == "metadata" => {
                let meta = schema().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
                meta.map_or(Self::Any, |id| Self::Struct(id, None))
            }
            Self::CrdRoot(schema) | Self::Crd(schema) => match &schema["properties"][key] {
                Value::Null => match &schema["additionalProperties"] {
                    extra @ Value::Object(_) => Self::Crd(extra),
                    _ => Self::Any,
                },
                property => Self::Crd(property),
            },
            Self::Struct(id, _) => match schema().get(id).field(key) {
                Some(field) => Self::Typed(&field.ty, Some(field)),
                None => Self::Any,
            },
            Self::Typed(Type::Struct(id), field) => Self::Struct(*id, field).child(key),
            Self::Typed(Type::Map(item), _) => Self::Typed(item, None),
            Self::Typed(..) | Self::Any => Self::Any,
        }
    }

    /// The place of the items of a list.
    pub fn item(self) -> Self {
        match self {
            Self::Typed(Type::List(item), _) => Self::Typed(item, None),
            Self::Crd(schema) if schema["items"].is_object() => Self::Crd(&schema["items"]),
            _ => Self::Any,
        }
    }

    /// The value of a key that an item leaves out.
    fn key_default(self, key: &str) -> Option<Value> {
        match self {
            Self::Struct(id, _) => Self::struct_default(id, key),
            Self::Typed(Type::Struct(id), _) => Self::struct_default(*id, key),
            Self::Crd(schema) => schema["properties"][key].get("default").cloned(),
            _ => None,
        }
    }

    fn struct_default(id: StructId, key: &str) -> Option<Value> {
        let field = schema().get(id).field(key)?;
        if let Some(value) = &field.default {
            return Some(value.clone());
        }
        if field.omit_empty || field.pointer {
            return None;
        }
        match field.ty {
            Type::String => Some("".into()),
            Type::I32 | Type::I64 => Some(0.into()),
            _ => None,
        }
    }

    /// What the schema expects where a value of another type stands, and what that is.
    pub fn mismatch(self, value: &Value) -> Option<String> {
        let go = |value: &Value| match value {
            Value::String(_) => "string",
            Value::Bool(_) => "bool",
            Value::Number(_) => "int64",
            Value::Array(_) => "[]interface {}",
            _ => "map[string]interface {}",
        };
        let show = |value: &Value| crate::patch::go::go_fmt(value);
        let wrapped = |value: &Value| format!("&value.valueUnstructured{{Value:{value}}}");
        let bare = |value: &Value| format!("&{{{}}}", show(value));
        if value.is_null() {
            return None;
        }
        match self.class()? {
            Class::Numeric if !value.is_number() => {
                Some(format!("numeric (int or float), got {}", go(value)))
            }
            Class::Boolean if !value.is_boolean() => Some(format!("boolean, got {}", bare(value))),
            Class::Text if !value.is_string() => Some(format!("string, got {}", wrapped(value))),
            Class::Scalar if value.is_object() || value.is_array() => {
                Some(format!("any scalar, got {}", bare(value)))
            }
            Class::List if !value.is_array() => Some(format!("list, got {}", bare(value))),
            Class::Map if !value.is_object() => Some(format!("map, got {}", bare(value))),
            _ => None,
        }
    }

    /// What values may stand here; none if any may.
    fn class(self) -> Option<Class> {
        let ty = match self {
            Self::Typed(ty, _) => ty,
            Self::Struct(..) | Self::CrdRoot(_) => return Some(Class::Map),
            Self::Crd(schema) if schema["x-kubernetes-int-or-string"] == true => return Some(Class::Scalar),
            Self::Crd(schema) => {
                return Some(match schema["type"].as_str()? {
                    "integer" | "number" => Class::Numeric,
                    "boolean" => Class::Boolean,
                    "string" => Class::Text,
                    "array" => Class::List,
                    "object" => Class::Map,
                    _ => return None,
                });
            }
            Self::Any => return None,
        };
        match ty {
            Type::I32 | Type::I64 | Type::F64 => Some(Class::Numeric),
            Type::Bool => Some(Class::Boolean),
            Type::String | Type::Bytes | Type::Time | Type::MicroTime | Type::Duration => Some(Class::Text),
            Type::List(_) => Some(Class::List),
            Type::Map(_) | Type::Struct(_) => Some(Class::Map),
            _ => None,
        }
    }

    /// Whether a field is known here; places without a schema know everything.
    pub fn knows(self, key: &str) -> bool {
        match self {
            Self::Struct(id, _) => schema().get(id).field(key).is_some(),
            Self::Typed(Type::Struct(id), _) => schema().get(*id).field(key).is_some(),
            Self::CrdRoot(schema) | Self::Crd(schema) => {
                let root = matches!(self, Self::CrdRoot(_));
                let own = root && matches!(key, "metadata" | "kind" | "apiVersion");
                own || schema["x-kubernetes-preserve-unknown-fields"] == true
                    || !schema["properties"][key].is_null()
                    || !matches!(schema["additionalProperties"], Value::Null | Value::Bool(false))
                    || (schema["properties"].is_null() && !root)
            }
            _ => true,
        }
    }
}

/// What tells an item of the list at `list` apart; none if it has no key at all.
pub fn item_element(list: Node<'_>, shape: &Shape, item: &Value) -> Option<Element> {
    match shape {
        Shape::Set => Some(Element::Value(item.to_string())),
        Shape::Keyed(keys) => {
            let mut out = Map::new();
            for key in keys {
                let given = item.get(key).filter(|v| !v.is_null()).cloned();
                if let Some(value) = given.or_else(|| list.item().key_default(key)) {
                    out.insert(key.clone(), value);
                }
            }
            (!out.is_empty()).then(|| Element::Key(Value::Object(out).to_string()))
        }
        _ => None,
    }
}
