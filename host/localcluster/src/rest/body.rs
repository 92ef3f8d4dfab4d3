//! Request bodies: from JSON, YAML or protobuf to JSON text.
//!
//! In: a content type and bytes. Out: JSON text, not yet checked against a kind. Invariant: text that is JSON already is
//! not copied.

use serde_json::Value;

use crate::patch::go::json_type;
use crate::proto;
use crate::schema::syntax::Decoder;
use crate::schema::{self, Body, yaml};
use crate::status::Status;

/// What bodies of objects may be.
const OBJECT_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const CUSTOM_TYPES: &str = "application/json, application/yaml";

/// The media type without parameters.
pub fn media_type(header: Option<&str>) -> &str {
    header.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// A body of an object as JSON text. No content type means JSON.
pub fn of_kind<'a>(
    content_type: Option<&str>,
    sent: &'a [u8],
    kind: &str,
    custom: bool,
) -> Result<Body<'a>, Status> {
    to_json(content_type, sent, custom, |why| schema::unrecognized(kind, sent, why))
}

/// The same, where a text that cannot be read at all is refused with `refuse`.
fn to_json<'a>(
    content_type: Option<&str>,
    sent: &'a [u8],
    custom: bool,
    refuse: impl Fn(&str) -> Status,
) -> Result<Body<'a>, Status> {
    let media = media_type(content_type).to_ascii_lowercase();
    match media.as_str() {
        _ if content_type.is_some_and(malformed) => {}
        "" | "application/json" | "*/*" => return Ok(Body::from_json(sent)),
        "application/yaml" => {
            let read = yaml::to_json(sent).map_err(|error| refuse(&error))?;
            return Ok(Body { json: read.json.into(), sent, repeated: read.repeated });
        }
        "application/vnd.kubernetes.protobuf" if !custom => {
            let json = proto::to_json(sent).map_err(|error| refuse(&error.to_string()))?;
            return Ok(Body { json: json.into(), sent, repeated: Vec::new() });
        }
        _ => {}
    }
    Err(Status::unsupported_media_type(if custom { CUSTOM_TYPES } else { OBJECT_TYPES }))
}

/// Whether the parameters of a content type are none.
fn malformed(header: &str) -> bool {
    let header = header.trim_end();
    let header = header.strip_suffix(';').unwrap_or(header);
    header.split(';').skip(1).any(|parameter| {
        parameter.split_once('=').is_none_or(|(key, value)| key.trim().is_empty() || value.trim().is_empty())
    })
}

/// The `DeleteOptions` of a body; they may come under the version of any group.
pub fn delete_options(content_type: Option<&str>, sent: &[u8]) -> Result<Value, Status> {
    let body = to_json(content_type, sent, false, |why| Status::bad_request(why))?;
    delete_options_of(&body.json)
}

fn delete_options_of(json: &[u8]) -> Result<Value, Status> {
    const SCHEME: &str = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";
    let mut value: Value = serde_json::from_slice(json).map_err(|error| {
        let why = schema::syntax::go_error(Decoder::Standard, &error, json);
        Status::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
    })?;
    if !value.is_object() && !value.is_null() {
        let why = schema::syntax::not_an_object(json_type(&value));
        return Err(Status::bad_request(format!("couldn't get version/kind; json parse error: {why}")));
    }
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
    let version = if version.is_empty() { "meta.k8s.io/v1" } else { version };
    if !matches!(kind, "" | "DeleteOptions") {
        return Err(Status::bad_request(format!(
            "no kind {kind:?} is registered for version {version:?} in scheme {SCHEME:?}"
        )));
    }
    if let Some(object) = value.as_object_mut() {
        object.insert("kind".into(), "DeleteOptions".into());
        object.insert("apiVersion".into(), "v1".into());
    }
    schema::decode_delete_options(value.to_string().as_bytes())
}
