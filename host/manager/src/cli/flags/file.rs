//! `--config FILE`: flags in YAML.
//!
//! ```yaml
//! kubeconfig: /etc/kubernetes/controller-manager.conf
//! controllers: ["*", "-ttl"]
//! concurrent-job-syncs: 10
//! feature-gates: {MaxUnavailableStatefulSet: true}
//! ```
//!
//! Keys are the names of flags; lists and maps become what the flag takes, with
//! commas between. What the command line says wins.

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// One flag of a file.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub name: String,
    /// Its value as the command line would have it.
    pub value: String,
    /// The items of a list or map, for a flag that is given once for each.
    pub items: Vec<String>,
}

/// Which flags come from a file.
#[derive(Debug)]
pub struct Origin {
    /// The file.
    pub path: PathBuf,
    /// Names of the flags.
    pub names: BTreeSet<String>,
}

/// Reads a file.
pub fn read(path: &Path) -> Result<Vec<Entry>, String> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| format!("--config: cannot read {}: {error}", path.display()))?;
    parse(&text).map_err(|error| format!("{}: {error}", path.display()))
}

fn parse(text: &str) -> Result<Vec<Entry>, String> {
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Vec::new());
    }
    let value: Value = serde_yaml::from_str(text).map_err(|error| one_line(&error.to_string()))?;
    let Value::Object(map) = value else {
        return Err("expected a map of flags, such as `controllers: [\"*\"]`".into());
    };
    map.into_iter().map(|(name, value)| entry(name, &value)).collect()
}

fn entry(name: String, value: &Value) -> Result<Entry, String> {
    let bad = |what: &str| format!("{name}: expected {what}");
    let items: Vec<String> = match value {
        Value::Array(list) => {
            let words: Option<Vec<String>> = list.iter().map(scalar).collect();
            words.ok_or_else(|| bad("a list of plain values"))?
        }
        Value::Object(map) => {
            let pair = |(key, value): (&String, &Value)| Some(format!("{key}={}", scalar(value)?));
            let pairs: Option<Vec<String>> = map.iter().map(pair).collect();
            pairs.ok_or_else(|| bad("a map of plain values"))?
        }
        plain => vec![scalar(plain).ok_or_else(|| bad("a value; leave the key out for the default"))?],
    };
    Ok(Entry { name, value: items.join(","), items })
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
        _ => None,
    }
}

fn one_line(text: &str) -> String {
    text.lines().next().unwrap_or_default().trim_end_matches(':').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_become_what_flags_take() {
        let text = "# ours\na: 5\nb: true\nc: [\"*\", -ttl]\nd: {One: true, Two: false}\ne: 5m0s\nf: ''\n";
        let entries = parse(text).unwrap();
        let pairs: Vec<_> = entries.iter().map(|e| (e.name.as_str(), e.value.as_str())).collect();
        let wanted = [
            ("a", "5"),
            ("b", "true"),
            ("c", "*,-ttl"),
            ("d", "One=true,Two=false"),
            ("e", "5m0s"),
            ("f", ""),
        ];
        assert_eq!(pairs, wanted);
        assert_eq!(parse("# nothing\n\n"), Ok(Vec::new()));
    }

    #[test]
    fn what_is_no_map_of_flags_is_refused_in_one_line() {
        for (text, wanted) in [
            ("- a\n", "expected a map of flags"),
            ("a: {b: [1]}\n", "a: expected a map of plain values"),
            ("a: [[1]]\n", "a: expected a list of plain values"),
            ("a:\n", "a: expected a value"),
            ("a: [\n", ""),
            ("a: 1\na: 2\n", "a"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(wanted) && !error.contains('\n'), "{text:?}: {error}");
        }
        let error = read(Path::new("/nowhere/f.yaml")).unwrap_err();
        assert!(error.starts_with("--config: cannot read /nowhere/f.yaml"), "{error}");
    }
}
