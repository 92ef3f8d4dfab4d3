//! Semantic versions in expressions.

use std::cmp::Ordering;
use std::sync::Arc;

use cel::extractors::{Arguments, This};
use cel::objects::Opaque;
use cel::{Context, DeclarationError, ExecutionError, Value};

use super::functions::{Answer, no_overload};

#[derive(Clone, Debug)]
pub(super) struct Version(semver::Version);

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.order(other) == Ordering::Equal
    }
}

impl Eq for Version {}

impl Opaque for Version {
    fn runtime_type_name(&self) -> &str {
        "kubernetes.Semver"
    }
}

impl Version {
    /// Build metadata does not count.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        self.0.cmp_precedence(&other.0)
    }
}

pub(super) fn add(context: &mut Context<'_, '_>) -> Vec<Result<(), DeclarationError>> {
    let mut added = vec![
        context.add_function("semver", |Arguments(args): Arguments| -> Answer {
            let version = parse(&args).map_err(|why| ExecutionError::function_error("semver", why))?;
            Ok(Value::Opaque(Arc::new(Version(version))))
        }),
        context.add_function("isSemver", |Arguments(args): Arguments| parse(&args).is_ok()),
    ];
    let parts: [(&str, fn(&semver::Version) -> u64); 3] =
        [("major", |v| v.major), ("minor", |v| v.minor), ("patch", |v| v.patch)];
    for (name, part) in parts {
        added.push(context.add_function(name, move |This(version): This<Value>| {
            let number = of(&version).map(|version| i64::try_from(part(&version.0)).unwrap_or(i64::MAX));
            number.map(Value::Int).ok_or_else(|| no_overload(name))
        }));
    }
    added
}

pub(super) fn of(value: &Value) -> Option<&Version> {
    match value {
        Value::Opaque(value) => value.downcast_ref::<Version>(),
        _ => None,
    }
}

/// A text, and whether it may be written loosely.
fn parse(args: &[Value]) -> Result<semver::Version, String> {
    let (text, loosely) = match args {
        [Value::String(text)] => (text, false),
        [Value::String(text), Value::Bool(loosely)] => (text, *loosely),
        _ => return Err("no such overload".to_owned()),
    };
    let text = if loosely { normalized(text) } else { text.to_string() };
    semver::Version::parse(&text).map_err(|error| error.to_string())
}

/// Without a `v` in front and zeros before numbers, with all three numbers.
fn normalized(text: &str) -> String {
    let text = text.strip_prefix('v').unwrap_or(text);
    let parts = text.splitn(3, '.').map(|part| {
        let short = part.trim_start_matches('0');
        let digit = short.starts_with(|c: char| c.is_ascii_digit());
        if part.len() < 2 || digit { short.to_owned() } else { format!("0{short}") }
    });
    let parts: Vec<String> = parts.map(|part| if part.is_empty() { "0".to_owned() } else { part }).collect();
    match parts.as_slice() {
        [major] => format!("{major}.0.0"),
        [major, minor] => format!("{major}.{minor}.0"),
        all => all.join("."),
    }
}
