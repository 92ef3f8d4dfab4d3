//! The policy file.
//!
//! In: YAML. Out: what each controller may do, or everything that is wrong with
//! the file. Invariant: a policy that cannot be understood in full is not
//! applied at all.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::rules::{self, Entry};

const API_VERSION: &str = "coxswain.dev/v1alpha1";
const KIND: &str = "Policy";

/// A policy.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Policy {
    api_version: String,
    kind: String,
    /// Rules, by controller. All that fit a controller count.
    #[serde(default)]
    pub controllers: Vec<Entry>,
}

/// Why a policy cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("cannot read the policy {path}: {reason}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: std::io::Error,
    },
    /// It is not understood.
    #[error("the policy {path} is not valid: {reason}")]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// It is about controllers that are not there.
    #[error(
        "the policy {path} names {}, and no module is called so; the directory has {}",
        .unknown.join(", "), .known.join(", ")
    )]
    Unknown {
        /// The file.
        path: PathBuf,
        /// Names that nobody has.
        unknown: Vec<String>,
        /// Names that modules have.
        known: Vec<String>,
    },
}

impl Policy {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| PolicyError::Read { path: path.to_owned(), reason: source })?;
        Self::parse(&text).map_err(|reason| PolicyError::Invalid { path: path.to_owned(), reason })
    }

    /// Understands a text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.trim().is_empty() {
            return Err("it is empty; leave --policy out to allow all that manifests declare".into());
        }
        let policy: Self = serde_yaml::from_str(text).map_err(|error| one_line(&error.to_string()))?;
        if policy.api_version != API_VERSION || policy.kind != KIND {
            return Err(format!(
                "it is {} {}, expected apiVersion: {API_VERSION} and kind: {KIND}",
                policy.api_version, policy.kind
            ));
        }
        let mut problems: Vec<String> = policy.controllers.iter().flat_map(rules::problems).collect();
        if policy.controllers.iter().any(|entry| entry.name.is_empty()) {
            problems.push("an entry has no name".into());
        }
        if problems.is_empty() { Ok(policy) } else { Err(problems.join("; ")) }
    }

    /// Checks that each name is one of a module. `known` are names and aliases.
    pub fn check_names(&self, path: &Path, known: &[String]) -> Result<(), PolicyError> {
        let names = self.controllers.iter().map(|entry| &entry.name);
        let unknown: Vec<String> =
            names.filter(|name| *name != "*" && !known.contains(name)).cloned().collect();
        if unknown.is_empty() {
            return Ok(());
        }
        Err(PolicyError::Unknown { path: path.to_owned(), unknown, known: known.to_vec() })
    }

    /// The namespaces that entries name, patterns included.
    pub fn namespaces(entries: &[Entry]) -> std::collections::BTreeSet<String> {
        let rules = entries.iter().flat_map(|entry| entry.allow.iter().flatten().chain(&entry.deny));
        rules.flat_map(|rule| rule.namespaces.iter().flatten()).cloned().collect()
    }

    /// The entries that are about a controller.
    pub fn entries(&self, name: &str, aliases: &[String]) -> Vec<Entry> {
        let about = |entry: &&Entry| entry.name == "*" || entry.name == name || aliases.contains(&entry.name);
        self.controllers.iter().filter(about).cloned().collect()
    }
}

/// An error of the YAML reader without its picture of the place.
fn one_line(error: &str) -> String {
    error.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("it cannot be read").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "apiVersion: coxswain.dev/v1alpha1\nkind: Policy\n";

    #[test]
    fn a_policy_is_read_and_found_by_name_and_alias() {
        let text = format!(
            "{HEAD}controllers:\n- name: web\n  allow:\n  - verbs: [get, list]\n    resources: [pods, \"*.apps\"]\n    namespaces: [team-*]\n- name: \"*\"\n  deny:\n  - resources: [secrets]\n"
        );
        let policy = Policy::parse(&text).unwrap();
        assert_eq!(policy.entries("web-controller", &["web".into()]).len(), 2);
        assert_eq!(policy.entries("other", &[]).len(), 1);
        let known = ["web-controller".to_owned(), "web".to_owned()];
        policy.check_names(Path::new("p.yaml"), &known).unwrap();
        let error = policy.check_names(Path::new("p.yaml"), &["other".to_owned()]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the policy p.yaml names web, and no module is called so; the directory has other"
        );
    }

    #[test]
    fn mistakes_are_named() {
        let table = [
            ("", "it is empty"),
            ("apiVersion: v1\nkind: Policy\n", "expected apiVersion: coxswain.dev/v1alpha1"),
            ("apiVersion: [", ""),
            (&format!("{HEAD}controllers:\n- name: a\n  alow: []\n"), "alow"),
            (
                &format!("{HEAD}controllers:\n- name: a\n  allow:\n  - verbs: [read]\n"),
                "a: verbs: \"read\": expected one of *, get",
            ),
            (
                &format!("{HEAD}controllers:\n- name: a\n  allow:\n  - resources: [Pod]\n"),
                "a: resources: \"Pod\": expected the lower-case plural",
            ),
            (
                &format!("{HEAD}controllers:\n- name: a\n  deny:\n  - namespaces: []\n"),
                "an empty list of namespaces",
            ),
            (
                &format!("{HEAD}controllers:\n- name: a\n  deny:\n  - paths: [metrics]\n"),
                "a path that begins with /",
            ),
        ];
        for (text, reason) in table {
            let error = Policy::parse(text).expect_err(text);
            assert!(error.contains(reason) && !error.contains('\n'), "{text}: {error}");
        }
    }
}
