//! Request bodies: from JSON, YAML or protobuf to JSON text.
//!
//! In: a content type and bytes. Out: JSON text, not yet checked against a kind. Invariant: text that is JSON already is
//! not copied.

use std::borrow::Cow;

use serde_json::Value;

use crate::proto;
use crate::schema;
use crate::status::Status;

/// What bodies of objects may be.
const OBJECT_TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
const CUSTOM_TYPES: &str = "application/json, application/yaml";

/// The media type without parameters.
pub fn media_type(header: Option<&str>) -> &str {
    header.unwrap_or_default().split(';').next().unwrap_or_default().trim()
}

/// The JSON text of an object's body. No content type means JSON.
pub fn to_json<'a>(
    content_type: Option<&str>,
    body: &'a [u8],
    custom: bool,
) -> Result<Cow<'a, [u8]>, Status> {
    match media_type(content_type) {
        "" | "application/json" | "*/*" => Ok(Cow::Borrowed(body)),
        "application/yaml" => yaml_to_json(body).map(Cow::Owned),
        "application/vnd.kubernetes.protobuf" if !custom => {
            proto::to_json(body).map(Cow::Owned).map_err(|error| Status::bad_request(error.to_string()))
        }
        _ => Err(Status::unsupported_media_type(if custom { CUSTOM_TYPES } else { OBJECT_TYPES })),
    }
}

/// YAML, of which JSON is a part, as JSON.
pub fn yaml_to_json(body: &[u8]) -> Result<Vec<u8>, Status> {
    let complain =
        |why: String| Status::bad_request(format!("couldn't get version/kind; json parse error: {why}"));
    let text = std::str::from_utf8(body).map_err(|error| complain(error.to_string()))?;
    let value: Value = serde_yaml::from_str(text).map_err(|error| complain(error.to_string()))?;
    Ok(value.to_string().into_bytes())
}

/// The `DeleteOptions` in a JSON text; they may come under the version of any group.
pub fn delete_options(json: &[u8]) -> Result<Value, Status> {
    const SCHEME: &str = "k8s.io/apimachinery/pkg/apis/meta/internalversion/scheme/register.go:27";
    let mut value: Value = serde_json::from_slice(json).map_err(|error| {
        let why = schema::syntax::go_error(&error, json);
        Status::bad_request(format!("couldn't get version/kind; json parse error: {why}"))
    })?;
    let text = |key: &str| value[key].as_str().unwrap_or_default();
    let (kind, version) = (text("kind"), text("apiVersion"));
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
