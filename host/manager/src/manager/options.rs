//! Values of the controllers' options.
//!
//! In: what the operator gave by flag, what the manifests declare. Out: for
//! each module the values in its manifest's order. A value of the wrong kind is
//! an error that names the flag, the value and what is expected.

use std::{collections::BTreeMap, path::Path};

use crate::contract::{Manifest, OptionKind, OptionSpec};

/// What the operator gave, by flag name without dashes.
pub type Given = BTreeMap<String, String>;

/// Why options cannot be resolved.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum OptionError {
    /// A value is of the wrong kind.
    #[error("--{name}={value}: expected {expected}")]
    Kind {
        /// Name of the option.
        name: String,
        /// Its value.
        value: String,
        /// What it should look like.
        expected: &'static str,
    },
    /// A file cannot be read.
    #[error("--{name}: cannot read {file}: {reason}")]
    File {
        /// Name of the option.
        name: String,
        /// The file.
        file: String,
        /// Why not.
        reason: String,
    },
}

/// The values of a module's options.
pub fn resolve(manifest: &Manifest, given: &Given) -> Result<Vec<String>, OptionError> {
    manifest.options.iter().map(|spec| value(spec, given)).collect()
}

/// How many keys may have a plan under way.
pub fn concurrency(manifest: &Manifest, given: &Given) -> Result<usize, OptionError> {
    let default = if manifest.concurrency == 0 { 5 } else { manifest.concurrency as usize };
    let flag = &manifest.concurrency_flag;
    match given.get(flag).filter(|_| !flag.is_empty()) {
        None => Ok(default),
        Some(value) => value.parse().ok().filter(|n| *n > 0).ok_or_else(|| OptionError::Kind {
            name: flag.clone(),
            value: value.clone(),
            expected: "a whole number above 0",
        }),
    }
}

/// Whether any option is a file, whose content can change while we run.
pub fn has_files(manifest: &Manifest) -> bool {
    manifest.options.iter().any(|spec| spec.kind == OptionKind::File)
}

fn value(spec: &OptionSpec, given: &Given) -> Result<String, OptionError> {
    let value = given.get(&spec.name).unwrap_or(&spec.default);
    if spec.kind == OptionKind::File {
        return content(spec, value);
    }
    check(spec.kind, value).map(|()| value.clone()).map_err(|expected| OptionError::Kind {
        name: spec.name.clone(),
        value: value.clone(),
        expected,
    })
}

fn content(spec: &OptionSpec, file: &str) -> Result<String, OptionError> {
    if file.is_empty() {
        return Ok(String::new());
    }
    std::fs::read_to_string(Path::new(file)).map_err(|error| OptionError::File {
        name: spec.name.clone(),
        file: file.to_owned(),
        reason: error.to_string(),
    })
}

/// Whether a text is a value of a kind; the error says what one looks like.
pub fn check(kind: OptionKind, value: &str) -> Result<(), &'static str> {
    let good = match kind {
        OptionKind::Text | OptionKind::File | OptionKind::TextList => true,
        OptionKind::Boolean => matches!(value, "true" | "false"),
        OptionKind::Integer => value.parse::<i64>().is_ok(),
        OptionKind::Decimal => value.parse::<f64>().is_ok_and(f64::is_finite),
        OptionKind::Duration => is_go_duration(value),
    };
    if good {
        return Ok(());
    }
    Err(match kind {
        OptionKind::Boolean => "true or false",
        OptionKind::Integer => "a whole number",
        OptionKind::Decimal => "a decimal number",
        _ => "a duration such as 30s, 5m or 1h30m",
    })
}

/// Durations as Go's flag package takes them: `0`, or numbers each with a unit.
fn is_go_duration(value: &str) -> bool {
    let mut rest = value.strip_prefix(['-', '+']).unwrap_or(value);
    if rest == "0" {
        return true;
    }
    if rest.is_empty() {
        return false;
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        if digits == 0 || rest[..digits].parse::<f64>().is_err() {
            return false;
        }
        rest = &rest[digits..];
        let Some(unit) = ["ns", "us", "µs", "ms", "s", "m", "h"].iter().find(|unit| {
            rest.strip_prefix(**unit).is_some_and(|after| !after.starts_with(|c: char| c.is_alphabetic()))
        }) else {
            return false;
        };
        rest = &rest[unit.len()..];
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_by_kind() {
        let table = [
            (OptionKind::Boolean, "true", true),
            (OptionKind::Boolean, "yes", false),
            (OptionKind::Integer, "-3", true),
            (OptionKind::Integer, "3.5", false),
            (OptionKind::Decimal, "0.1", true),
            (OptionKind::Decimal, "NaN", false),
            (OptionKind::Duration, "1h30m", true),
            (OptionKind::Duration, "1.5s", true),
            (OptionKind::Duration, "100ms", true),
            (OptionKind::Duration, "0", true),
            (OptionKind::Duration, "30", false),
            (OptionKind::Duration, "30x", false),
            (OptionKind::Duration, "", false),
            (OptionKind::Text, "", true),
        ];
        for (kind, value, good) in table {
            assert_eq!(check(kind, value).is_ok(), good, "{kind:?} {value:?}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let spec = OptionSpec {
            name: "root-ca-file".into(),
            kind: OptionKind::File,
            default: String::new(),
            help: String::new(),
        };
        assert_eq!(value(&spec, &Given::new()), Ok(String::new()));
        let given = Given::from([("root-ca-file".to_owned(), "/does/not/exist".to_owned())]);
        let error = value(&spec, &given).unwrap_err().to_string();
        assert!(error.starts_with("--root-ca-file: cannot read /does/not/exist"), "{error}");
    }
}
