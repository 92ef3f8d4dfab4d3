//! What is wrong with a field, in the words of the real server.

use std::fmt;

use serde_json::{Value, json};

/// Why a field was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldReason {
    /// Refers to something that is absent.
    NotFound,
    /// Missing.
    Required,
    /// Given twice.
    Duplicate,
    /// Malformed or out of range.
    Invalid,
    /// Not one of the known values.
    NotSupported,
    /// Not allowed here.
    Forbidden,
    /// Too long.
    TooLong,
    /// Too many items.
    TooMany,
    /// Too few items.
    TooFew,
    /// Wrong JSON type for the schema.
    TypeInvalid,
    /// Too short.
    TooShort,
    /// Our fault.
    Internal,
}

impl FieldReason {
    /// The value of `cause.reason`.
    pub fn code(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::TooFew => "FieldValueTooFew",
            Self::TypeInvalid => "FieldValueTypeInvalid",
            Self::TooShort => "FieldValueTooShort",
            Self::Internal => "InternalError",
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid | Self::TypeInvalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::TooFew => "Too few",
            Self::TooShort => "Too short",
            Self::Internal => "Internal error",
        }
    }
}

/// One refused field; `message` is the body that a cause shows.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    /// Why.
    pub reason: FieldReason,
    /// Path, as `spec.containers[0].name`.
    pub field: String,
    /// `Invalid value: "x": why`.
    pub message: String,
}

impl FieldError {
    /// `message` already holds everything behind the field.
    pub fn raw(reason: FieldReason, field: impl Into<String>, message: impl Into<String>) -> Self {
        Self { reason, field: field.into(), message: message.into() }
    }

    fn plain(reason: FieldReason, field: impl Into<String>, detail: &str) -> Self {
        let mut message = reason.words().to_owned();
        push_detail(&mut message, detail);
        Self::raw(reason, field, message)
    }

    fn valued(reason: FieldReason, field: impl Into<String>, value: &Value, detail: &str) -> Self {
        let mut message = format!("{}: {}", reason.words(), show(value));
        push_detail(&mut message, detail);
        Self::raw(reason, field, message)
    }

    /// Missing value.
    pub fn required(field: impl Into<String>, detail: &str) -> Self {
        Self::plain(FieldReason::Required, field, detail)
    }

    /// Not allowed.
    pub fn forbidden(field: impl Into<String>, detail: &str) -> Self {
        Self::plain(FieldReason::Forbidden, field, detail)
    }

    /// Malformed or out of range.
    pub fn invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::valued(FieldReason::Invalid, field, value, detail)
    }

    /// Given twice.
    pub fn duplicate(field: impl Into<String>, value: &Value) -> Self {
        Self::valued(FieldReason::Duplicate, field, value, "")
    }

    /// Refers to something absent.
    pub fn not_found(field: impl Into<String>, value: &Value) -> Self {
        Self::valued(FieldReason::NotFound, field, value, "")
    }

    /// Not one of the known values; they are listed in the order given.
    pub fn not_supported(field: impl Into<String>, value: &Value, known: &[&str]) -> Self {
        let known: Vec<String> = known.iter().map(|k| format!("{k:?}")).collect();
        let detail =
            if known.is_empty() { String::new() } else { format!("supported values: {}", known.join(", ")) };
        Self::valued(FieldReason::NotSupported, field, value, &detail)
    }

    /// Longer than `max` bytes.
    pub fn too_long(field: impl Into<String>, max: usize) -> Self {
        Self::plain(FieldReason::TooLong, field, &format!("may not be more than {max} bytes"))
    }

    /// More items than allowed.
    pub fn too_many(field: impl Into<String>, actual: usize, max: usize) -> Self {
        let items = if max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {max} {items}");
        Self::valued(FieldReason::TooMany, field, &json!(actual), &detail)
    }

    /// Wrong JSON type for the schema.
    pub fn type_invalid(field: impl Into<String>, value: &Value, detail: &str) -> Self {
        Self::valued(FieldReason::TypeInvalid, field, value, detail)
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

fn push_detail(message: &mut String, detail: &str) {
    if !detail.is_empty() {
        message.push_str(": ");
        message.push_str(detail);
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(s) => format!("{s:?}"),
        other => other.to_string(),
    }
}
