//! The `Status` object: every refusal of the API server, with the codes, reasons and wording clients match on.
//!
//! In: what went wrong. Out: the HTTP code and the JSON body. Invariant: a `Status` can always be encoded.

mod field;

use std::borrow::Cow;
use std::fmt;

use serde_json::{Map, Value};

pub use field::{FieldError, FieldReason};

/// An answer other than an object: nearly always a failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Status {
    /// HTTP code.
    pub code: u16,
    /// Machine-readable reason; empty means none (the real server has such answers).
    pub reason: Cow<'static, str>,
    /// Text for people.
    pub message: String,
    /// What it is about.
    pub details: Option<Details>,
    /// `metadata.continue`, for an expired page token that can go on.
    pub continue_token: Option<String>,
    /// Texts of the `Warning` headers that go with it.
    pub warnings: Vec<String>,
}

/// `Status.details`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Details {
    /// Name of the object.
    pub name: String,
    /// API group; empty for core.
    pub group: String,
    /// Resource or kind.
    pub kind: String,
    /// Uid of the object.
    pub uid: String,
    /// Single causes.
    pub causes: Vec<Cause>,
    /// Seconds a client should wait; also sent as `Retry-After`.
    pub retry_after_seconds: u32,
}

/// One entry of `Status.details.causes`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cause {
    /// `FieldValueInvalid` and its like.
    pub reason: String,
    /// Text.
    pub message: String,
    /// Path of the field.
    pub field: String,
}

/// `plural` or `plural.group`, as messages name a resource.
pub fn qualified(group: &str, plural: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

impl Status {
    fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: Cow::Borrowed(reason),
            message: message.into(),
            details: None,
            continue_token: None,
            warnings: Vec::new(),
        }
    }

    fn about(mut self, group: &str, kind: &str, name: &str) -> Self {
        self.details =
            Some(Details { name: name.into(), group: group.into(), kind: kind.into(), ..Details::default() });
        self
    }

    /// 400.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 403: `pods "p" is forbidden: message`.
    pub fn forbidden(group: &str, plural: &str, name: &str, message: impl fmt::Display) -> Self {
        let resource = qualified(group, plural);
        let text = if resource.is_empty() {
            format!("forbidden: {message}")
        } else if name.is_empty() {
            format!("{resource} is forbidden: {message}")
        } else {
            format!("{resource} {name:?} is forbidden: {message}")
        };
        Self::new(403, "Forbidden", text).about(group, plural, name)
    }

    /// 404 for an object.
    pub fn not_found(group: &str, plural: &str, name: &str) -> Self {
        Self::new(404, "NotFound", format!("{} {name:?} not found", qualified(group, plural)))
            .about(group, plural, name)
    }

    /// 404 for a resource or version that is not served.
    pub fn no_such_resource() -> Self {
        let mut status = Self::new(404, "NotFound", "the server could not find the requested resource");
        status.details = Some(Details::default());
        status
    }

    /// 405 for a verb the resource does not serve.
    pub fn method_not_allowed() -> Self {
        let mut status = Self::new(
            405,
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
        );
        status.details = Some(Details::default());
        status
    }

    /// 406, with what could be served.
    pub fn not_acceptable(message: impl Into<String>) -> Self {
        Self::new(406, "NotAcceptable", message)
    }

    /// 409 because the name is taken.
    pub fn already_exists(group: &str, plural: &str, name: &str) -> Self {
        Self::new(409, "AlreadyExists", format!("{} {name:?} already exists", qualified(group, plural)))
            .about(group, plural, name)
    }

    /// 409 with the given cause.
    pub fn conflict(group: &str, plural: &str, name: &str, message: impl fmt::Display) -> Self {
        Self::new(
            409,
            "Conflict",
            format!("Operation cannot be fulfilled on {} {name:?}: {message}", qualified(group, plural)),
        )
        .about(group, plural, name)
    }

    /// 409 because the object moved on.
    pub fn modified(group: &str, plural: &str, name: &str) -> Self {
        Self::conflict(
            group,
            plural,
            name,
            "the object has been modified; please apply your changes to the latest version and try again",
        )
    }

    /// 409 of server-side apply.
    pub fn apply_conflict(message: impl Into<String>, causes: Vec<Cause>) -> Self {
        let mut status = Self::new(409, "Conflict", message);
        status.details = Some(Details { causes, ..Details::default() });
        status
    }

    /// 410: history does not go back that far.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 413.
    pub fn too_large(message: impl fmt::Display) -> Self {
        Self::new(413, "RequestEntityTooLarge", format!("Request entity too large: {message}"))
    }

    /// 415, with what is accepted.
    pub fn unsupported_media_type(accepted: &str) -> Self {
        Self::new(
            415,
            "UnsupportedMediaType",
            format!(
                "the body of the request was in an unknown format - accepted media types include: {accepted}"
            ),
        )
    }

    /// 415 of a route that takes other media types only.
    pub fn media_type_not_routed() -> Self {
        let mut status = Self::new(415, "UnsupportedMediaType", "415: Unsupported Media Type");
        status.details = Some(Details::default());
        status
    }

    /// 422: one cause an error; the message names each distinct error once.
    pub fn invalid(group: &str, kind: &str, name: &str, errors: Vec<FieldError>) -> Self {
        let mut texts: Vec<String> = Vec::with_capacity(errors.len());
        for error in &errors {
            let text = error.to_string();
            if !texts.contains(&text) {
                texts.push(text);
            }
        }
        let subject = qualified(group, kind);
        let message = match texts.as_slice() {
            [] => format!("{subject} {name:?} is invalid"),
            [one] => format!("{subject} {name:?} is invalid: {one}"),
            many => format!("{subject} {name:?} is invalid: [{}]", many.join(", ")),
        };
        let causes = errors
            .into_iter()
            .map(|e| Cause { reason: e.reason.code().into(), message: e.message, field: e.field })
            .collect();
        let mut status = Self::new(422, "Invalid", message).about(group, kind, name);
        if let Some(details) = &mut status.details {
            details.causes = causes;
        }
        status
    }

    /// 422 without details, as a JSON patch that does not fit.
    pub fn unprocessable(message: impl Into<String>) -> Self {
        Self::new(422, "Invalid", message)
    }

    /// 429 with a wait; 0 seconds leaves out `Retry-After`.
    pub fn too_many_requests(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut status = Self::new(429, "TooManyRequests", message);
        status.details = Some(Details { retry_after_seconds, ..Details::default() });
        status
    }

    /// 500 without a reason, as plain Go errors come out.
    pub fn server_error(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    /// 500 `InternalError` with the message as its only cause.
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        let mut status = Self::new(500, "InternalError", format!("Internal error occurred: {message}"));
        let causes = vec![Cause { message, ..Cause::default() }];
        status.details = Some(Details { causes, ..Details::default() });
        status
    }

    /// 503 with a wait; 0 seconds leaves out `Retry-After`.
    pub fn unavailable(message: impl Into<String>, retry_after_seconds: u32) -> Self {
        let mut status = Self::new(503, "ServiceUnavailable", message);
        status.details = Some(Details { retry_after_seconds, ..Details::default() });
        status
    }

    /// 504 because the server did not reach a version in time.
    pub fn timeout(message: impl fmt::Display, retry_after_seconds: u32) -> Self {
        let mut status = Self::new(504, "Timeout", format!("Timeout: {message}"));
        status.details = Some(Details { retry_after_seconds, ..Details::default() });
        status
    }

    /// 504: a version that the server has not reached.
    pub fn version_too_large(version: u64, current: u64) -> Self {
        Self::timeout(format!("Too large resource version: {version}, current: {current}"), 1).with_cause(
            "ResourceVersionTooLarge",
            "Too large resource version",
            "",
        )
    }

    /// Adds a cause.
    pub fn with_cause(mut self, reason: &str, message: &str, field: &str) -> Self {
        self.details.get_or_insert_with(Details::default).causes.push(Cause {
            reason: reason.into(),
            message: message.into(),
            field: field.into(),
        });
        self
    }

    /// The object as sent.
    pub fn to_value(&self) -> Value {
        let mut object = Map::new();
        object.insert("kind".into(), "Status".into());
        object.insert("apiVersion".into(), "v1".into());
        let mut metadata = Map::new();
        if let Some(token) = &self.continue_token {
            metadata.insert("continue".into(), token.as_str().into());
        }
        object.insert("metadata".into(), Value::Object(metadata));
        object.insert("status".into(), if self.code < 400 { "Success" } else { "Failure" }.into());
        put(&mut object, "message", &self.message);
        put(&mut object, "reason", &self.reason);
        if let Some(details) = &self.details {
            object.insert("details".into(), details.to_value());
        }
        object.insert("code".into(), self.code.into());
        Value::Object(object)
    }
}

impl Details {
    fn to_value(&self) -> Value {
        let mut details = Map::new();
        put(&mut details, "name", &self.name);
        put(&mut details, "group", &self.group);
        put(&mut details, "kind", &self.kind);
        put(&mut details, "uid", &self.uid);
        if !self.causes.is_empty() {
            let causes = self.causes.iter().map(|cause| {
                let mut map = Map::new();
                put(&mut map, "reason", &cause.reason);
                put(&mut map, "message", &cause.message);
                put(&mut map, "field", &cause.field);
                Value::Object(map)
            });
            details.insert("causes".into(), Value::Array(causes.collect()));
        }
        if self.retry_after_seconds > 0 {
            details.insert("retryAfterSeconds".into(), self.retry_after_seconds.into());
        }
        Value::Object(details)
    }
}

fn put(map: &mut Map<String, Value>, key: &str, value: &str) {
    if !value.is_empty() {
        map.insert(key.into(), value.into());
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl std::error::Error for Status {}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_repeated_error_is_named_once_and_listed_twice() {
        let error = FieldError::invalid("metadata.uid", &json!("x"), "field is immutable");
        let status = Status::invalid("", "ConfigMap", "a", vec![error.clone(), error]);
        assert_eq!(
            status.message,
            "ConfigMap \"a\" is invalid: metadata.uid: Invalid value: \"x\": field is immutable"
        );
        assert_eq!(status.details.expect("details").causes.len(), 2);
    }

    #[test]
    fn a_reasonless_error_has_no_reason_key() {
        let value = Status::server_error("broken").to_value();
        assert_eq!(
            value,
            json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                   "message": "broken", "code": 500})
        );
    }
}
