//! Decodes a body by its type, as the strict decoder of the real server does.
//!
//! In: JSON text or a parsed value, and a type. Out: the fields the type knows, in canonical form, with a note of
//! every unknown or repeated field and the first value of a wrong type. Invariant: never fails on well-formed JSON;
//! what is wrong is in the notes.

use std::fmt::{self, Write};

use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::encode::zero;
use super::quantity::{BAD_QUANTITY, Quantity};
use super::scalar;
use super::types::{Schema, StructId, Type};

/// What was noticed while decoding.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// `unknown field "a.b"` and `duplicate field "a.b"`, in the order of the document.
    pub strict: Vec<String>,
    /// The first value that does not fit its type.
    pub type_error: Option<String>,
}

pub(super) struct Context<'s> {
    schema: &'s Schema,
    path: String,
    /// Go names the innermost structure and the path of fields from the root.
    structs: Vec<StructId>,
    fields: Vec<String>,
    notes: Notes,
}

impl<'s> Context<'s> {
    pub(super) fn new(schema: &'s Schema) -> Self {
        Self { schema, path: String::new(), structs: vec![], fields: vec![], notes: Notes::default() }
    }

    pub(super) fn start_at(&mut self, path: &str) {
        self.path = path.to_owned();
    }

    pub(super) fn finish(self) -> Notes {
        self.notes
    }

    fn fail(&mut self, message: String) {
        self.notes.type_error.get_or_insert(message);
    }

    fn mismatch(&mut self, what: &str, go: &str) {
        let message = match self.structs.last() {
            Some(id) if !self.fields.is_empty() => {
                let owner = self.schema.get(*id).short_name();
                let path = self.fields.join(".");
                format!("json: cannot unmarshal {what} into Go struct field {owner}.{path} of type {go}")
            }
            _ => format!("json: cannot unmarshal {what} into Go value of type {go}"),
        };
        self.fail(message);
    }

    fn note(&mut self, what: &str, key: &str) {
        let dot = if self.path.is_empty() { "" } else { "." };
        let note = format!("{what} field \"{}{dot}{key}\"", self.path);
        if !self.notes.strict.contains(&note) {
            self.notes.strict.push(note);
        }
    }

    fn enter(&mut self, key: &str) -> usize {
        let length = self.path.len();
        if length > 0 {
            self.path.push('.');
        }
        self.path.push_str(key);
        length
    }
}

/// Decodes one value of a type; None is null or nothing usable.
pub(super) struct Seed<'c, 's> {
    pub(super) context: &'c mut Context<'s>,
    pub(super) ty: &'c Type,
    /// Name of the Go type, where it has one.
    pub(super) go: Option<&'c str>,
    /// Name of the Go type of its items, where they have one.
    pub(super) go_item: Option<&'c str>,
}

impl<'de> DeserializeSeed<'de> for Seed<'_, '_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, d: D) -> Result<Self::Value, D::Error> {
        d.deserialize_any(self)
    }
}

impl Seed<'_, '_> {
    fn go_name(&self) -> String {
        match (self.go, self.go_item, self.ty) {
            (Some(name), ..) => name.to_owned(),
            (None, Some(item), Type::List(_)) => format!("[]{item}"),
            (None, Some(item), Type::Map(_)) => format!("map[string]{item}"),
            _ => go_name(self.context.schema, self.ty),
        }
    }

    fn mismatch(self, what: &str) -> Option<Value> {
        // These decode themselves, as another type.
        let own = match self.ty {
            Type::Time | Type::MicroTime | Type::Duration => Some("string"),
            Type::IntOrString => Some("int32"),
            Type::Quantity => {
                self.context.fail(BAD_QUANTITY.into());
                return None;
            }
            _ => None,
        };
        match own {
            Some(go) => self.context.mismatch(what, go),
            None => {
                let go = self.go_name();
                self.context.mismatch(what, &go);
            }
        }
        None
    }

    fn number(self, number: Number) -> Option<Value> {
        let shown = |n: &Number| format!("number {n}");
        match self.ty {
            Type::I32 | Type::IntOrString => match number.as_i64() {
                Some(n) if i32::try_from(n).is_ok() => Some(n.into()),
                _ => self.mismatch(&shown(&number)),
            },
            Type::I64 => match number.as_i64() {
                Some(n) => Some(n.into()),
                None => self.mismatch(&shown(&number)),
            },
            Type::F64 | Type::Any => Some(Value::Number(number)),
            Type::Quantity => match Quantity::written(&number.to_string()) {
                Some(text) => Some(text.into()),
                None => self.mismatch("number"),
            },
            _ => self.mismatch("number"),
        }
    }

    fn text(self, text: &str) -> Option<Value> {
        let result = match self.ty {
            Type::String | Type::Any | Type::IntOrString | Type::Duration => Ok(text.to_owned()),
            Type::Quantity => Quantity::written(text.trim()).ok_or_else(|| BAD_QUANTITY.to_owned()),
            Type::Time => scalar::time(text),
            Type::MicroTime => scalar::micro_time(text),
            Type::Bytes => scalar::base64(text),
            _ => return self.mismatch("string"),
        };
        match result {
            Ok(text) => Some(Value::String(text)),
            Err(message) => {
                self.context.fail(message);
                None
            }
        }
    }
}

impl<'de> Visitor<'de> for Seed<'_, '_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Self::Value, E> {
        Ok(match self.ty {
            Type::Bool | Type::Any => Some(value.into()),
            _ => self.mismatch("bool"),
        })
    }

    fn visit_i64<E>(self, value: i64) -> Result<Self::Value, E> {
        Ok(self.number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Self::Value, E> {
        Ok(self.number(value.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Self::Value, E> {
        match Number::from_f64(value) {
            Some(number) => Ok(self.number(number)),
            None => Err(E::custom("number out of range")),
        }
    }

    fn visit_str<E>(self, value: &str) -> Result<Self::Value, E> {
        Ok(self.text(value))
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let item = match self.ty {
            Type::List(item) => item.as_ref(),
            Type::Any => &Type::Any,
            _ => {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                return Ok(self.mismatch("array"));
            }
        };
        let (context, go) = (self.context, self.go_item);
        let base = context.path.len();
        let mut items = Vec::new();
        loop {
            let index = items.len();
            // Writing to a String cannot fail.
            let _ = write!(context.path, "[{index}]");
            let next = seq.next_element_seed(Seed { context: &mut *context, ty: item, go, go_item: None });
            context.path.truncate(base);
            match next? {
                Some(Some(value)) => items.push(value),
                Some(None) if *item == Type::Any => items.push(Value::Null),
                Some(None) => items.push(zero(context.schema, item)),
                None => return Ok(Some(Value::Array(items))),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        match self.ty {
            Type::Struct(id) => decode_struct(self.context, *id, map).map(Some),
            Type::Map(item) => decode_map(self.context, item, self.go_item, map).map(Some),
            Type::Any => decode_map(self.context, &Type::Any, None, map).map(Some),
            _ => {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(self.mismatch("object"))
            }
        }
    }
}

fn decode_struct<'de, A: MapAccess<'de>>(
    context: &mut Context<'_>,
    id: StructId,
    mut map: A,
) -> Result<Value, A::Error> {
    let schema = context.schema;
    if context.structs.len() > 200 {
        return Err(A::Error::custom("exceeded max depth"));
    }
    let mut out = Map::new();
    let mut seen: Vec<&str> = Vec::new();
    context.structs.push(id);
    while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
        let Some(field) = schema.get(id).field(&key) else {
            context.note("unknown", &key);
            map.next_value::<IgnoredAny>()?;
            continue;
        };
        if seen.contains(&field.name.as_str()) {
            context.note("duplicate", &key);
        }
        seen.push(&field.name);
        let base = context.enter(&key);
        context.fields.push(field.go_path.clone());
        let value = map.next_value_seed(Seed {
            context: &mut *context,
            ty: &field.ty,
            go: field.go.as_deref(),
            go_item: field.go_item.as_deref(),
        });
        context.fields.pop();
        context.path.truncate(base);
        if let Some(value) = value? {
            out.insert(field.name.clone(), value);
        }
    }
    context.structs.pop();
    Ok(Value::Object(out))
}

fn decode_map<'de, A: MapAccess<'de>>(
    context: &mut Context<'_>,
    item: &Type,
    go: Option<&str>,
    mut map: A,
) -> Result<Value, A::Error> {
    let mut out = Map::new();
    while let Some(key) = map.next_key::<String>()? {
        if out.contains_key(&key) {
            context.note("duplicate", &key);
        }
        let base = context.enter(&key);
        let value = map.next_value_seed(Seed { context: &mut *context, ty: item, go, go_item: None });
        context.path.truncate(base);
        let value = match value? {
            Some(value) => value,
            None if *item == Type::Any => Value::Null,
            None => zero(context.schema, item),
        };
        out.insert(key, value);
    }
    Ok(Value::Object(out))
}

/// The type as Go prints it.
fn go_name(schema: &Schema, ty: &Type) -> String {
    match ty {
        Type::String => "string".into(),
        Type::Bool => "bool".into(),
        Type::I32 => "int32".into(),
        Type::I64 => "int64".into(),
        Type::F64 => "float64".into(),
        Type::Bytes => "[]uint8".into(),
        Type::List(item) => format!("[]{}", go_name(schema, item)),
        Type::Map(item) => format!("map[string]{}", go_name(schema, item)),
        Type::Struct(id) => schema.get(*id).go_name(),
        Type::Quantity => "resource.Quantity".into(),
        Type::IntOrString => "intstr.IntOrString".into(),
        Type::Time => "v1.Time".into(),
        Type::MicroTime => "v1.MicroTime".into(),
        Type::Duration => "v1.Duration".into(),
        Type::Any => "interface {}".into(),
    }
}
