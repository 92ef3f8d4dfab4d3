//! Values of the controllers' options.
//!
//! In: what the operator gave by flag, what the manifests declare. Out: for
//! each module the values in its manifest's order. A value of the wrong kind is
//! an error that names the flag, the value and what is expected.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use crate::{
    contract::{LookupRule, Manifest, OptionKind, OptionSpec},
    executor::signing,
    goflag,
};

/// What the operator gave, by flag name without dashes; all values of a flag
/// that was repeated, in order. Of a list all count, else the last, as Go's
/// flag package has it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    values: BTreeMap<String, Vec<String>>,
    /// Flags that were given without a value, which is true for a truth value, and for others a mistake.
    bare: BTreeSet<String>,
}

impl Given {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a value to those that the flag has.
    pub fn add(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.values.entry(name.into()).or_default().push(value.into());
    }

    /// Adds a flag that stands alone.
    pub fn add_bare(&mut self, name: impl Into<String>) {
        let name = name.into();
        self.add(name.clone(), "true");
        self.bare.insert(name);
    }

    /// Whether the flag ever stood alone.
    pub fn is_bare(&self, name: &str) -> bool {
        self.bare.contains(name)
    }

    /// Gives the flag this value alone.
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.bare.remove(&name);
        self.values.insert(name, vec![value.into()]);
    }

    /// The value that counts where there can be one.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.values.get(name)?.last().map(String::as_str)
    }

    /// All values, as one list.
    pub fn list(&self, name: &str) -> Option<String> {
        self.values.get(name).map(|values| values.join(","))
    }

    /// How often the flag was given.
    pub fn times(&self, name: &str) -> usize {
        self.values.get(name).map_or(0, Vec::len)
    }

    /// Whether the flag was given.
    pub fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Names of the flags, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.values.keys().map(String::as_str)
    }

    /// Of each flag the value that counts where there can be one.
    pub fn last_values(&self) -> BTreeMap<String, String> {
        let last = |(name, values): (&String, &Vec<String>)| Some((name.clone(), values.last()?.clone()));
        self.values.iter().filter_map(last).collect()
    }
}

impl<const N: usize> From<[(String, String); N]> for Given {
    fn from(pairs: [(String, String); N]) -> Self {
        let mut given = Self::new();
        for (name, value) in pairs {
            given.add(name, value);
        }
        given
    }
}

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
    /// The flag stands alone, and is no truth value.
    #[error("--{name} needs a value: {expected}")]
    Bare {
        /// Name of the option.
        name: String,
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

/// What values of a concurrency look like.
const COUNT: &str = "a whole number above 0";

/// How many keys may have a plan under way.
pub fn concurrency(manifest: &Manifest, given: &Given) -> Result<usize, OptionError> {
    let default = if manifest.concurrency == 0 { 5 } else { manifest.concurrency as usize };
    let flag = &manifest.concurrency_flag;
    match given.get(flag).filter(|_| !flag.is_empty()) {
        None => Ok(default),
        Some(_) if given.is_bare(flag) => Err(OptionError::Bare { name: flag.clone(), expected: COUNT }),
        Some(value) => value.parse().ok().filter(|n| *n > 0).ok_or_else(|| OptionError::Kind {
            name: flag.clone(),
            value: value.to_owned(),
            expected: COUNT,
        }),
    }
}

/// What a module lacks to do its work: it signs, and no flag names a key; or it works with files, and none is named.
/// For people.
pub fn lacks(manifest: &Manifest, given: &Given) -> Option<String> {
    let is_given = |flag: &String| given.get(flag).is_some_and(|file| !file.is_empty());
    let keys = manifest.lookups.iter().filter_map(|rule| match rule {
        LookupRule::Sign(key) => Some(signing::flags(key)[0].clone()),
        _ => None,
    });
    let keys: Vec<String> = keys.collect();
    let files =
        manifest.options.iter().filter(|spec| spec.kind == OptionKind::File && spec.default.is_empty());
    let (wanted, what) = match keys.is_empty() {
        true => (files.map(|spec| spec.name.clone()).collect(), "file is named"),
        false => (keys, "key to sign with is named"),
    };
    if wanted.is_empty() || wanted.iter().any(is_given) {
        return None;
    }
    let flags: Vec<String> = wanted.iter().map(|flag| format!("--{flag}")).collect();
    Some(format!("no {what} ({}): it does nothing that needs one", flags.join(", ")))
}

/// Whether any option is a file, whose content can change while we run.
pub fn has_files(manifest: &Manifest) -> bool {
    manifest.options.iter().any(|spec| spec.kind == OptionKind::File)
}

/// All that is wrong with what was given for a module. Files are looked at only
/// if `files`.
pub fn troubles(manifest: &Manifest, given: &Given, files: bool) -> Vec<OptionError> {
    let looked_at = manifest.options.iter().filter(|spec| files || spec.kind != OptionKind::File);
    let options = looked_at.filter_map(|spec| value(spec, given).err());
    options.chain(concurrency(manifest, given).err()).collect()
}

/// The values with which a module works, by flag: for people.
pub fn effective(manifest: &Manifest, given: &Given) -> Vec<(String, String)> {
    let options = manifest.options.iter().map(|spec| (spec.name.clone(), text(spec, given)));
    let concurrency = concurrency(manifest, given).ok().filter(|_| !manifest.concurrency_flag.is_empty());
    let concurrency = concurrency.map(|keys| (manifest.concurrency_flag.clone(), keys.to_string()));
    options.chain(concurrency).collect()
}

fn text(spec: &OptionSpec, given: &Given) -> String {
    let given = match spec.kind {
        OptionKind::TextList => given.list(&spec.name),
        _ => given.get(&spec.name).map(str::to_owned),
    };
    given.unwrap_or_else(|| spec.default.clone())
}

fn value(spec: &OptionSpec, given: &Given) -> Result<String, OptionError> {
    let value = text(spec, given);
    if given.is_bare(&spec.name) && spec.kind != OptionKind::Boolean {
        return Err(OptionError::Bare { name: spec.name.clone(), expected: looks_like(spec.kind) });
    }
    match spec.kind {
        OptionKind::File => content(spec, &value),
        // Modules know two words for it, Go twelve.
        OptionKind::Boolean if goflag::boolean(&value).is_ok() => {
            Ok((goflag::boolean(&value) == Ok(true)).to_string())
        }
        kind => match check(kind, &value) {
            Ok(()) => Ok(as_handed(kind, value)),
            Err(expected) => Err(OptionError::Kind { name: spec.name.clone(), value, expected }),
        },
    }
}

/// A good value as modules are given it: ways to write a number that JSON has not,
/// such as `.5` or `+1`, go no further.
pub fn as_handed(kind: OptionKind, value: String) -> String {
    match kind {
        OptionKind::Decimal => value.parse::<f64>().map_or(value, |number| number.to_string()),
        _ => value,
    }
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

/// Whether a text is a value of a kind; the error says what one looks like. Durations and decimals are times, rates
/// and shares, and never negative.
pub fn check(kind: OptionKind, value: &str) -> Result<(), &'static str> {
    let good = match kind {
        OptionKind::Text | OptionKind::File | OptionKind::TextList => true,
        OptionKind::Boolean => goflag::boolean(value).is_ok(),
        OptionKind::Integer => value.parse::<i64>().is_ok(),
        OptionKind::Decimal => value.parse::<f64>().is_ok_and(|number| number.is_finite() && number >= 0.0),
        OptionKind::Duration => goflag::duration(value).is_ok(),
    };
    if good { Ok(()) } else { Err(looks_like(kind)) }
}

/// What values of a kind look like, for people.
fn looks_like(kind: OptionKind) -> &'static str {
    match kind {
        OptionKind::Text => "a text",
        OptionKind::TextList => "texts with commas between",
        OptionKind::File => "a file",
        OptionKind::Boolean => "true or false",
        OptionKind::Integer => "a whole number",
        OptionKind::Decimal => "a decimal number that is not negative",
        OptionKind::Duration => "a duration that is not negative, such as 30s, 5m or 1h30m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_checked_by_kind() {
        let table = [
            (OptionKind::Boolean, "true", true),
            (OptionKind::Boolean, "T", true),
            (OptionKind::Boolean, "yes", false),
            (OptionKind::Integer, "-3", true),
            (OptionKind::Integer, "3.5", false),
            (OptionKind::Decimal, "0.1", true),
            (OptionKind::Decimal, "NaN", false),
            (OptionKind::Decimal, "-0.1", false),
            (OptionKind::Duration, "-1s", false),
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
    fn modules_get_decimals_as_json_writes_them() {
        let spec = OptionSpec {
            name: "tolerance".into(),
            kind: OptionKind::Decimal,
            default: ".5".into(),
            help: String::new(),
        };
        for (given, handed) in [("0.1", "0.1"), (".5", "0.5"), ("+1", "1"), ("1.", "1"), ("2e3", "2000")] {
            let mut all = Given::new();
            all.set("tolerance", given);
            assert_eq!(value(&spec, &all).ok().as_deref(), Some(handed), "{given}");
        }
        assert_eq!(value(&spec, &Given::new()).ok().as_deref(), Some("0.5"));
    }

    #[test]
    fn a_module_without_what_it_works_with_is_told() {
        let file = OptionSpec {
            name: "root-ca-file".into(),
            kind: OptionKind::File,
            default: String::new(),
            help: String::new(),
        };
        let publisher = Manifest { options: vec![file.clone()], ..Manifest::blank("publisher") };
        let keys = ["web", "web-inner"].map(|key| LookupRule::Sign(key.into())).into();
        let signer = Manifest { options: vec![file], lookups: keys, ..Manifest::blank("signer") };
        let given = |flag: &str, file: &str| Given::from([(flag.to_owned(), file.to_owned())]);
        assert_eq!(lacks(&Manifest::blank("web"), &Given::new()), None);
        assert_eq!(lacks(&publisher, &given("root-ca-file", "/f")), None);
        assert_eq!(
            lacks(&publisher, &given("root-ca-file", "")).as_deref(),
            Some("no file is named (--root-ca-file): it does nothing that needs one")
        );
        assert_eq!(lacks(&signer, &given("web-inner-key-file", "/f")), None);
        assert_eq!(
            lacks(&signer, &given("root-ca-file", "/f")).as_deref(),
            Some(
                "no key to sign with is named (--web-key-file, --web-inner-key-file): it does nothing that needs one"
            )
        );
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

    #[test]
    fn of_a_repeated_flag_the_last_value_counts_and_of_a_list_all() {
        let spec = |kind| OptionSpec { name: "x".into(), kind, default: "9".into(), help: String::new() };
        let mut given = Given::new();
        assert_eq!(value(&spec(OptionKind::TextList), &given), Ok("9".into()));
        given.add("x", "1");
        given.add("x", "0");
        assert_eq!(value(&spec(OptionKind::TextList), &given), Ok("1,0".into()));
        assert_eq!(value(&spec(OptionKind::Integer), &given), Ok("0".into()));
        assert_eq!(value(&spec(OptionKind::Boolean), &given), Ok("false".into()));
        assert_eq!(given.times("x"), 2);
    }

    #[test]
    fn a_flag_without_its_value_is_a_mistake_unless_it_is_true_or_false() {
        let spec = |kind| OptionSpec { name: "x".into(), kind, default: "true".into(), help: String::new() };
        let mut given = Given::new();
        given.add_bare("x");
        assert_eq!(value(&spec(OptionKind::Boolean), &given), Ok("true".into()));
        for (kind, expected) in [
            (OptionKind::Decimal, "--x needs a value: a decimal number that is not negative"),
            (OptionKind::Text, "--x needs a value: a text"),
            (OptionKind::File, "--x needs a value: a file"),
        ] {
            assert_eq!(value(&spec(kind), &given).unwrap_err().to_string(), expected);
        }
        let manifest = Manifest { concurrency_flag: "x".into(), ..Manifest::blank("web-controller") };
        let error = concurrency(&manifest, &given).unwrap_err().to_string();
        assert_eq!(error, "--x needs a value: a whole number above 0");
        given.set("x", "3");
        assert_eq!(concurrency(&manifest, &given), Ok(3));
    }
}
