//! Reading and writing objects by their published types.
//!
//! In: bodies as clients send them. Out: objects as the typed server would hold and write them, with what it would
//! warn about or refuse. Invariant: a decoded object has only fields of its type, in canonical form.

mod decode;
mod encode;
pub mod quantity;
pub(crate) mod scalar;
pub mod syntax;
pub mod types;
mod versions;
pub mod yaml;

use std::borrow::Cow;

use serde::de::DeserializeSeed;
use serde_json::{Map, Value};

use crate::rest::strategy::Kind;
use crate::status::Status;
pub(crate) use decode::Notes;
use decode::{Context, Seed};
use encode::EmptyLists;
pub use quantity::Quantity;
use syntax::Decoder;
pub use types::{ListKind, StructId, Type, schema};
use versions::check_type;
pub(crate) use versions::{not_convertible, not_registered};

/// What becomes of unknown and repeated fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FieldValidation {
    /// Dropped silently.
    Ignore,
    /// Dropped with a warning each.
    #[default]
    Warn,
    /// Refused.
    Strict,
}

impl FieldValidation {
    /// Parses the query parameter; empty is the default.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "" | "Warn" => Some(Self::Warn),
            "Ignore" => Some(Self::Ignore),
            "Strict" => Some(Self::Strict),
            _ => None,
        }
    }
}

/// A decoded object and the warnings about its body.
#[derive(Clone, Debug, Default)]
pub struct Decoded {
    /// With kind and apiVersion.
    pub object: Value,
    /// Texts for `Warning` headers.
    pub warnings: Vec<String>,
}

/// A body as JSON text.
#[derive(Clone, Debug)]
pub struct Body<'a> {
    /// As JSON.
    pub json: Cow<'a, [u8]>,
    /// As it was sent, for messages.
    pub sent: &'a [u8],
    /// Keys that the JSON does not show to have been there twice.
    pub repeated: Vec<String>,
}

impl<'a> Body<'a> {
    /// A body that was sent as JSON.
    pub fn from_json(sent: &'a [u8]) -> Self {
        Self { json: Cow::Borrowed(sent), sent, repeated: Vec::new() }
    }

    /// What strict decoding says: one warning each, or all as one refusal.
    pub(crate) fn strict(
        &self,
        found: Vec<String>,
        validation: FieldValidation,
    ) -> Result<Vec<String>, String> {
        match validation {
            FieldValidation::Ignore => Ok(Vec::new()),
            FieldValidation::Warn => Ok(self.repeated.iter().cloned().chain(found).collect()),
            FieldValidation::Strict if found.is_empty() && self.repeated.is_empty() => Ok(Vec::new()),
            FieldValidation::Strict => {
                let repeated = Some(&self.repeated).filter(|lines| !lines.is_empty());
                let all: Vec<String> =
                    repeated.map(|lines| yaml::repeated_error(lines)).into_iter().chain(found).collect();
                Err(strict_error(&all))
            }
        }
    }
}

/// Decodes a body as a kind.
pub fn decode(kind: &Kind, body: &Body<'_>, validation: FieldValidation) -> Result<Decoded, Status> {
    let (api_version, name) = type_of(body, &kind.kind)?;
    if kind.custom {
        return crate::crd::decode(kind, body, &api_version, &name, validation);
    }
    decode_typed(&kind.api_version(), &kind.kind, body, validation, EmptyLists::Stay)
}

/// Decodes a body as `kind` of `api_version`, e.g. the body of a subresource.
pub fn decode_as(
    api_version: &str,
    kind: &str,
    body: &Body<'_>,
    validation: FieldValidation,
) -> Result<Decoded, Status> {
    decode_typed(api_version, kind, body, validation, EmptyLists::Go)
}

fn decode_typed(
    api_version: &str,
    kind: &str,
    body: &Body<'_>,
    validation: FieldValidation,
    lists: EmptyLists,
) -> Result<Decoded, Status> {
    let (given_version, given_kind) = type_of(body, kind)?;
    check_type(api_version, kind, &given_version, &given_kind)?;
    let Some(id) = schema().kind(api_version, kind) else {
        return Err(Status::server_error(format!(
            "no kind {kind:?} is registered for version {api_version:?}"
        )));
    };
    let version = if given_version.is_empty() { api_version } else { &given_version };
    let (mut object, notes) = decode_text_with(id, &body.json, lists)
        .map_err(|error| unusable(version, &given_kind, kind, &error))?;
    if let Some(error) = notes.type_error {
        return Err(unusable(version, &given_kind, kind, &error));
    }
    let warnings = body
        .strict(notes.strict, validation)
        .map_err(|error| unusable(version, &given_kind, kind, &error))?;
    if let Value::Object(map) = &mut object {
        map.insert("apiVersion".into(), api_version.into());
        map.insert("kind".into(), kind.into());
    }
    Ok(Decoded { object, warnings })
}

/// Decodes the body of a delete; it may call itself by any group's version.
pub fn decode_delete_options(body: &[u8]) -> Result<Value, Status> {
    const KIND: &str = "DeleteOptions";
    let (version, given) = type_of(&Body::from_json(body), KIND)?;
    if !given.is_empty() && given != KIND {
        let short = version.rsplit('/').next().unwrap_or("");
        return Err(Status::bad_request(format!(
            "{given} in version {short:?} cannot be handled as a {KIND}: converting (v1.{given}) to \
             (v1.{KIND}): unknown conversion"
        )));
    }
    let Some(id) = schema().kind("meta.k8s.io/v1", KIND) else { return Ok(Value::Null) };
    let refuse = |error: String| unusable(&version, &given, KIND, &error);
    let (object, notes) = decode_text(id, body).map_err(refuse)?;
    match notes.type_error {
        Some(error) => Err(Status::bad_request(error)),
        None => Ok(object),
    }
}

/// The words for all that strict decoding found.
pub fn strict_error(found: &[String]) -> String {
    format!("strict decoding error: {}", found.join(", "))
}

/// Decodes JSON text as a structure and brings it to canonical form.
pub(crate) fn decode_text(id: StructId, body: &[u8]) -> Result<(Value, Notes), String> {
    decode_text_with(id, body, EmptyLists::Go)
}

fn decode_text_with(id: StructId, body: &[u8], lists: EmptyLists) -> Result<(Value, Notes), String> {
    let mut context = Context::new(schema());
    let ty = Type::Struct(id);
    let mut parser = serde_json::Deserializer::from_slice(body);
    let value = Seed { context: &mut context, ty: &ty, go: None, go_item: None }
        .deserialize(&mut parser)
        .and_then(|value| parser.end().map(|()| value))
        .map_err(|e| syntax::go_error(Decoder::Own, &e, body))?;
    Ok(canonical(id, value, context, lists))
}

/// Parses JSON of no type; also tells of repeated keys.
pub(crate) fn decode_any(body: &[u8]) -> Result<(Value, Vec<String>), String> {
    let mut context = Context::new(schema());
    let mut parser = serde_json::Deserializer::from_slice(body);
    let value = Seed { context: &mut context, ty: &Type::Any, go: None, go_item: None }
        .deserialize(&mut parser)
        .and_then(|value| parser.end().map(|()| value))
        .map_err(|e| syntax::go_error(Decoder::Own, &e, body))?;
    Ok((value.unwrap_or_default(), context.finish().strict))
}

/// The same for a parsed value.
pub(crate) fn decode_value(id: StructId, value: &Value) -> (Value, Notes) {
    decode_value_with(id, value, EmptyLists::Go)
}

/// The same for an object that has yet to get its defaults.
pub(crate) fn decode_patched(id: StructId, value: &Value) -> (Value, Notes) {
    decode_value_with(id, value, EmptyLists::Stay)
}

fn decode_value_with(id: StructId, value: &Value, lists: EmptyLists) -> (Value, Notes) {
    let mut context = Context::new(schema());
    let ty = Type::Struct(id);
    let value = Seed { context: &mut context, ty: &ty, go: None, go_item: None }.deserialize(value);
    // A parsed value cannot be malformed; what does not fit is in the notes.
    canonical(id, value.unwrap_or_default(), context, lists)
}

/// The same for a value inside an object; notes name it by its path.
pub(crate) fn decode_value_at(id: StructId, value: &Value, path: &str) -> (Value, Notes) {
    let mut context = Context::new(schema());
    context.start_at(path);
    let ty = Type::Struct(id);
    let value = Seed { context: &mut context, ty: &ty, go: None, go_item: None }.deserialize(value);
    canonical(id, value.unwrap_or_default(), context, EmptyLists::Go)
}

fn canonical(id: StructId, value: Option<Value>, context: Context<'_>, lists: EmptyLists) -> (Value, Notes) {
    let mut map = match value {
        Some(Value::Object(map)) => map,
        _ => Map::new(),
    };
    encode::structure(schema(), id, &mut map, lists);
    (Value::Object(map), context.finish())
}

/// Brings an object of a built-in kind to the form in which it is written.
pub fn normalize(kind: &Kind, object: &mut Value) {
    bring(kind, object, EmptyLists::Go);
}

/// Brings an object of a built-in kind to the form that says who owns what of it.
pub fn normalize_sent(kind: &Kind, object: &mut Value) {
    bring(kind, object, EmptyLists::Shown);
}

fn bring(kind: &Kind, object: &mut Value, lists: EmptyLists) {
    if kind.custom {
        return;
    }
    let id = schema().kind(&kind.api_version(), &kind.kind);
    if let (Some(id), Value::Object(map)) = (id, object) {
        encode::structure(schema(), id, map, lists);
    }
}

/// The type of the field at a path of names, from a structure down; list items are stepped into.
pub fn type_at(id: StructId, path: &[&str]) -> Option<Type> {
    let mut ty = Type::Struct(id);
    for name in path {
        while let Type::List(item) = ty {
            ty = *item;
        }
        ty = match &ty {
            Type::Struct(id) => schema().get(*id).field(name)?.ty.clone(),
            Type::Map(item) => item.as_ref().clone(),
            _ => return None,
        };
    }
    Some(ty)
}

/// A value as Go prints it in messages: fields in the order of their type.
pub fn show(ty: &Type, value: &Value) -> String {
    let mut out = String::new();
    encode::go_order(schema(), ty, value, &mut out);
    out
}

/// `apiVersion` and `kind` of a body; the kind's own name where the body does not say.
fn type_of(body: &Body<'_>, wanted: &str) -> Result<(String, String), Status> {
    #[derive(serde::Deserialize, Default)]
    #[serde(default, rename_all = "camelCase")]
    struct TypeMeta {
        api_version: Option<String>,
        kind: Option<String>,
    }
    let json = &*body.json;
    let read = serde_json::from_slice::<Option<TypeMeta>>(json).map(Option::unwrap_or_default);
    let first = json.iter().find(|b| !b.is_ascii_whitespace());
    if read.is_ok() && first == Some(&b'[') {
        return Err(untyped(wanted, body, &syntax::not_an_object("array")));
    }
    match read {
        Ok(meta) => {
            let version = meta.api_version.unwrap_or_default();
            if version.split('/').count() > 2 {
                let cause = format!("unexpected GroupVersion string: {version}");
                return Err(unrecognized(wanted, body.sent, &cause));
            }
            Ok((version, meta.kind.unwrap_or_default()))
        }
        Err(error) => Err(untyped(wanted, body, &syntax::go_error(Decoder::Standard, &error, json))),
    }
}

/// What a body without a readable version and kind is answered with.
fn untyped(wanted: &str, body: &Body<'_>, cause: &str) -> Status {
    unrecognized(wanted, body.sent, &format!("couldn't get version/kind; json parse error: {cause}"))
}

/// What a body is answered with that is nobody's.
pub(crate) fn unrecognized(wanted: &str, sent: &[u8], cause: &str) -> Status {
    Status::bad_request(format!(
        "the object provided is unrecognized (must be of type {wanted}): {cause} ({})",
        summary(sent)
    ))
}

/// What does not decode; a body that does not name its kind is taken for the one wanted.
fn unusable(version: &str, given: &str, kind: &str, error: &str) -> Status {
    let given = if given.is_empty() { kind } else { given };
    let short = version.rsplit('/').next().unwrap_or(version);
    Status::bad_request(format!("{given} in version {short:?} cannot be handled as a {kind}: {error}"))
}

/// The start of a body for a message.
pub(crate) fn summary(body: &[u8]) -> String {
    const LIMIT: usize = 30;
    match body.len() {
        0 => "<empty>".into(),
        // What does not begin as an object is shown in hexadecimal.
        _ if body[0] != b'{' => {
            let shown: String = body.iter().take(LIMIT).map(|b| format!("{b:02x}")).collect();
            if body.len() > LIMIT { format!("{shown} ...") } else { shown }
        }
        n if n > LIMIT => format!("{} ...", String::from_utf8_lossy(&body[..LIMIT])),
        _ => String::from_utf8_lossy(body).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn decoded(api_version: &str, kind: &str, body: &str) -> Result<Decoded, Status> {
        decode_as(api_version, kind, &Body::from_json(body.as_bytes()), FieldValidation::Warn)
    }

    #[test]
    fn bodies_come_out_as_the_typed_server_writes_them() {
        let got = decoded(
            "v1",
            "Node",
            r#"{"metadata":{"name":"n","labels":{},"creationTimestamp":null},"status":{"capacity":{"cpu":4,"memory":"1024Mi"}},"x":1}"#,
        )
        .expect("decodes");
        assert_eq!(got.object["status"]["capacity"], json!({"cpu": "4", "memory": "1Gi"}));
        assert_eq!(got.object["metadata"], json!({"name": "n"}));
        assert_eq!(got.object["status"]["daemonEndpoints"], json!({"kubeletEndpoint": {"Port": 0}}));
        assert_eq!(got.warnings, ["unknown field \"x\""]);
    }

    #[test]
    fn wrong_types_are_named_as_go_names_them() {
        for (api_version, kind, body, want) in [
            (
                "apps/v1",
                "Deployment",
                r#"{"apiVersion":"apps/v1","kind":"Deployment","spec":{"replicas":"3"}}"#,
                "Deployment in version \"v1\" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
            ),
            (
                "v1",
                "ConfigMap",
                r#"{"apiVersion":"v1","kind":"ConfigMap","data":{"n":1}}"#,
                "ConfigMap in version \"v1\" cannot be handled as a ConfigMap: json: cannot unmarshal number into Go struct field ConfigMap.data of type string",
            ),
            (
                "v1",
                "ConfigMap",
                r#"{"apiVersion":"v1","kind":"Secret"}"#,
                "Secret in version \"v1\" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion",
            ),
            (
                "v1",
                "ConfigMap",
                r#"{"apiVersion": "v1", "#,
                "the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; json parse error: unexpected end of JSON input ({\"apiVersion\": \"v1\", )",
            ),
            (
                "v1",
                "Secret",
                r#"{"apiVersion":"v1","kind":"Secret","data":{"a":"***"}}"#,
                "Secret in version \"v1\" cannot be handled as a Secret: illegal base64 data at input byte 0",
            ),
        ] {
            let error = decoded(api_version, kind, body).expect_err("refused");
            assert_eq!((error.code, error.message.as_str()), (400, want));
        }
    }

    #[test]
    fn every_kind_survives_a_second_round() {
        for (name, id) in schema().kinds() {
            let (once, notes) = decode_value(id, &json!({}));
            assert!(notes.type_error.is_none(), "{name}");
            let (twice, _) = decode_value(id, &once);
            assert_eq!(once, twice, "{name}");
        }
    }

    #[test]
    fn repeated_fields_are_noticed() {
        let got = decoded("v1", "ConfigMap", r#"{"data":{"k":"1","k":"2"}}"#).expect("decodes");
        assert_eq!(got.warnings, ["duplicate field \"data.k\""]);
        assert_eq!(got.object["data"], json!({"k": "2"}));
    }
}
