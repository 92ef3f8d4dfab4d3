//! Named formats of text in expressions.

use std::sync::Arc;

use cel::common::types::STRING_TYPE;
use cel::extractors::This;
use cel::objects::{Opaque, OptionalValue};
use cel::{Context, DeclarationError, Env, ExecutionError, Value};

use super::functions::{no_overload, string, to_val};
use crate::crd::format_fits;
use crate::kinds::names;

struct Format {
    name: &'static str,
    /// What is wrong with a text.
    wrong: fn(&str) -> Vec<String>,
}

fn one(wrong: bool, words: &str) -> Vec<String> {
    if wrong { vec![words.to_owned()] } else { Vec::new() }
}

/// The beginning of a name: a dash at its end would be followed by more.
fn beginning(text: &str) -> String {
    match text.strip_suffix('-') {
        Some(rest) => format!("{rest}a"),
        None => text.to_owned(),
    }
}

const FORMATS: &[Format] = &[
    Format { name: "dns1123Label", wrong: names::label },
    Format { name: "dns1123Subdomain", wrong: names::subdomain },
    Format { name: "dns1035Label", wrong: names::label_1035 },
    Format { name: "qualifiedName", wrong: names::qualified_name },
    Format { name: "dns1123LabelPrefix", wrong: |text| names::label(&beginning(text)) },
    Format { name: "dns1123SubdomainPrefix", wrong: |text| names::subdomain(&beginning(text)) },
    Format { name: "dns1035LabelPrefix", wrong: |text| names::label_1035(&beginning(text)) },
    Format { name: "labelValue", wrong: names::label_value },
    Format { name: "uri", wrong: |text| one(!format_fits("uri", text), "invalid URI for request") },
    Format { name: "uuid", wrong: |text| one(!format_fits("uuid", text), "does not match the UUID format") },
    Format { name: "byte", wrong: |text| one(!format_fits("byte", text), "invalid base64") },
    Format { name: "date", wrong: |text| one(!format_fits("date", text), "invalid date") },
    Format { name: "datetime", wrong: |text| one(!format_fits("date-time", text), "invalid datetime") },
];

/// A format as a value.
#[derive(Debug, PartialEq, Eq)]
struct Named(&'static str);

impl Opaque for Named {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.NamedFormat"
    }
}

fn named(name: &str) -> Option<Value> {
    let known = FORMATS.iter().find(|format| format.name == name)?;
    Some(Value::Opaque(Arc::new(Named(known.name))))
}

fn optional(value: Option<Value>) -> Value {
    Value::Opaque(Arc::new(value.map_or_else(OptionalValue::none, OptionalValue::of)))
}

pub(super) fn add(context: &mut Context<'_, '_>) -> Vec<Result<(), DeclarationError>> {
    vec![context.add_function("validate", |This(format): This<Value>, text: Arc<String>| {
        let format = match &format {
            Value::Opaque(value) => value.downcast_ref::<Named>(),
            _ => None,
        };
        let format = FORMATS.iter().find(|known| format.is_some_and(|named| named.0 == known.name));
        let wrong = format.map(|format| (format.wrong)(&text)).ok_or_else(|| no_overload("validate"))?;
        let wrong: Vec<Value> = wrong.into_iter().map(string).collect();
        let found = if wrong.is_empty() { None } else { Some(Value::List(Arc::new(wrong))) };
        Ok::<_, ExecutionError>(optional(found))
    })]
}

/// `format.named(NAME)` and `format.NAME()`.
pub(super) fn declare(env: &mut Env) -> Result<(), DeclarationError> {
    env.add_overload("format.named", "format-named", vec![STRING_TYPE.to_owned()], |args| {
        let name = args.first().map(|name| Value::try_from(name.as_ref())).transpose()?;
        match &name {
            Some(Value::String(name)) => to_val(optional(named(name))),
            _ => Err(no_overload("format.named")),
        }
    })?;
    // An overload is a function without surroundings, so each has to be written out.
    const _: () = assert!(FORMATS.len() == 13, "each format is a constant of its own below");
    macro_rules! constants {
        ($($at:literal)*) => {$(
            let name = FORMATS[$at].name;
            env.add_overload(&format!("format.{name}"), name, vec![], |_| {
                to_val(named(FORMATS[$at].name).unwrap_or(Value::Null))
            })?;
        )*};
    }
    constants!(0 1 2 3 4 5 6 7 8 9 10 11 12);
    Ok(())
}
