//! Scenario files.
//!
//! In: YAML. Out: what the harness needs to know before it plays one, and the
//! steps. Kept: a misspelt key or an expression that cannot be read is an error
//! when the file is loaded, not a test that says nothing.

use std::{collections::BTreeMap, path::Path};

use anyhow::Context;
use serde::Deserialize;
use serde_json::Value;

use super::{expr::Exprs, object::canonical};
use crate::ordered;

/// A scenario.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Scenario {
    /// Name of the file.
    #[serde(skip)]
    pub name: String,
    /// One line.
    pub title: String,
    /// Group.
    pub family: String,
    /// Whether it was given to those who wrote the controllers.
    pub audience: String,
    /// Whether it shares a control plane.
    pub isolation: Isolation,
    /// Public report it is about.
    pub bug: Option<Bug>,
    /// Flags of the manager.
    #[serde(default)]
    pub manager_flags: Vec<String>,
    /// Identity of the manager.
    pub manager_identity: Option<String>,
    /// Needs on the control plane.
    #[serde(default)]
    pub cluster: ClusterNeeds,
    /// Whether it makes faults between manager and server.
    #[serde(default)]
    pub proxy: bool,
    /// Seed of the faults.
    #[serde(default = "one")]
    pub seed: u64,
    /// Shared nodes.
    #[serde(default = "three")]
    pub nodes: usize,
    /// Pause between renewals of leases.
    #[serde(default)]
    pub heartbeat: Value,
    /// Further namespaces.
    #[serde(default)]
    pub namespaces: Vec<String>,
    /// Labels of the namespace.
    #[serde(default)]
    pub ns_labels: BTreeMap<String, String>,
    /// Whether the scenario's namespace is made.
    #[serde(default = "yes")]
    pub own_namespace: bool,
    /// Whether a manager runs from the start.
    #[serde(default = "yes")]
    pub start_manager: bool,
    /// Further resources to watch.
    #[serde(default)]
    pub watch: Vec<String>,
    /// Rough seconds it takes.
    #[serde(default = "ten")]
    pub weight: u64,
    /// What is done.
    #[serde(default)]
    pub steps: Vec<Value>,
    /// What must come true at the end.
    #[serde(default)]
    pub until: Vec<Value>,
    /// What is measured.
    #[serde(default)]
    pub observe: Vec<Value>,
    /// Which objects are compared.
    pub record: Vec<Value>,
    /// Quiet time before the last look.
    #[serde(default)]
    pub settle: Value,
    /// Fields that are not compared.
    #[serde(default)]
    pub loosen: Vec<Loosen>,
    /// Waits that the reference does not always agree on.
    #[serde(default)]
    pub racy: Vec<String>,
    /// Events that do not count.
    #[serde(default)]
    pub ignore_events: Vec<String>,
    /// Writes that do not count.
    #[serde(default)]
    pub ignore_writes: Vec<String>,
    /// Whether writes to cluster-wide objects of every scenario count.
    #[serde(default)]
    pub count_cluster_wide: bool,
    /// Addresses are compared.
    #[serde(default, rename = "keepIPs")]
    pub keep_ips: bool,
    /// Names of nodes are compared.
    #[serde(default)]
    pub keep_node_names: bool,
    /// The right outcome, where the reference may be wrong.
    pub right: Option<Right>,
}

/// Whether a scenario shares a control plane.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Isolation {
    /// It needs a namespace only.
    Namespace,
    /// It needs a control plane.
    Cluster,
}

/// A report about the reference.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Bug {
    /// Number of the public report.
    pub number: Option<u64>,
    /// Seen first here.
    #[serde(rename = "found-here")]
    pub found_here: bool,
    /// Whether the reference still does it.
    pub present: bool,
    /// Which controller.
    pub controller: Option<String>,
    /// What happens.
    pub note: Option<String>,
}

/// Needs on the control plane.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct ClusterNeeds {
    /// Flags of kube-apiserver.
    pub api_flags: Vec<String>,
    /// Admission plugins that must be off.
    pub disable_admission: Option<Vec<String>>,
    /// Admission plugins that must be on.
    pub enable_admission: Vec<String>,
    /// Whether metrics APIs are registered.
    pub metrics: bool,
}

/// A field that is not compared.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Loosen {
    /// Resource.
    pub kind: String,
    /// Dotted path.
    pub path: String,
    /// Why.
    pub why: String,
}

/// The right outcome.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default, deny_unknown_fields)]
pub struct Right {
    /// Values of waits.
    pub waits: BTreeMap<String, Value>,
    /// Values of results.
    pub results: BTreeMap<String, Value>,
    /// Values of observations.
    pub observations: BTreeMap<String, Value>,
    /// What holds at the end.
    pub state: Vec<Value>,
    /// Invariants that hold.
    pub no_violation: Vec<String>,
    /// Events that do not come.
    pub no_events: Vec<String>,
    /// Writes that are not refused.
    pub no_rejected: Vec<String>,
}

fn one() -> u64 {
    1
}

fn three() -> usize {
    3
}

fn ten() -> u64 {
    10
}

fn yes() -> bool {
    true
}

/// Verbs of steps.
pub const VERBS: [&str; 32] = [
    "apply",
    "make",
    "create-many",
    "with-owner",
    "patch",
    "annotate",
    "label",
    "delete",
    "recreate",
    "scale",
    "set-image",
    "wait",
    "expect-never",
    "expect-invariant",
    "mark",
    "evict",
    "nodes",
    "node",
    "stop-manager",
    "start-manager",
    "restart-manager",
    "csr",
    "approve",
    "call",
    "save",
    "same",
    "repeat",
    "chaos",
    "expect-chaos",
    "metrics",
    "sleep",
    "at-second",
];

impl Scenario {
    /// Reads a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(path)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self::parse(&name, &text).with_context(|| format!("{} is not a scenario", path.display()))
    }

    /// Reads a text.
    pub fn parse(name: &str, text: &str) -> anyhow::Result<Self> {
        let value = ordered::from_yaml(text)?.to_value();
        let mut scenario: Self = serde_json::from_value(value)?;
        scenario.name = name.to_owned();
        check_steps(&scenario.steps)?;
        let right = scenario.right.iter().flat_map(|right| &right.state);
        for part in scenario.until.iter().chain(&scenario.record).chain(right) {
            check_expressions(part)?;
        }
        Ok(scenario)
    }

    /// Whether the reference still does what the scenario is about.
    pub fn fault_present(&self) -> bool {
        self.bug.as_ref().is_some_and(|bug| bug.present)
    }

    /// Scenarios with the same key share a control plane.
    pub fn plane_key(&self) -> String {
        if self.isolation == Isolation::Cluster || self.proxy {
            return format!("alone {}", self.name);
        }
        let cluster = &self.cluster;
        canonical(&serde_json::json!([
            self.manager_flags,
            self.heartbeat,
            self.manager_identity,
            cluster.api_flags,
            cluster.disable_admission,
            cluster.enable_admission,
            cluster.metrics,
        ]))
    }

    /// The scenario in its namespace.
    pub fn in_namespace(&self, namespace: &str) -> Self {
        let fill = |value: &Value| replace(value, "${ns}", namespace);
        let fill_all = |values: &[Value]| values.iter().map(fill).collect();
        let fill_map =
            |map: &BTreeMap<String, Value>| map.iter().map(|(k, v)| (k.clone(), fill(v))).collect();
        Self {
            namespaces: self.namespaces.iter().map(|s| s.replace("${ns}", namespace)).collect(),
            steps: fill_all(&self.steps),
            until: fill_all(&self.until),
            observe: fill_all(&self.observe),
            record: fill_all(&self.record),
            right: self.right.as_ref().map(|right| Right {
                waits: fill_map(&right.waits),
                results: fill_map(&right.results),
                observations: fill_map(&right.observations),
                state: fill_all(&right.state),
                ..right.clone()
            }),
            ..self.clone()
        }
    }
}

/// Verb and argument of a step.
pub fn step(step: &Value) -> anyhow::Result<(&str, &Value)> {
    match step.as_object().map(|fields| fields.iter().collect::<Vec<_>>()).as_deref() {
        Some([(verb, argument)]) => Ok((verb, argument)),
        _ => anyhow::bail!("a step has one verb: {step}"),
    }
}

fn check_steps(steps: &[Value]) -> anyhow::Result<()> {
    for one in steps {
        let (verb, argument) = step(one)?;
        anyhow::ensure!(VERBS.contains(&verb), "there is no step {verb:?}");
        if let Value::Array(inner) = &argument["steps"] {
            check_steps(inner)?;
        }
        match argument {
            Value::Array(several) => several.iter().try_for_each(check_expressions)?,
            one => check_expressions(one)?,
        }
    }
    Ok(())
}

fn check_expressions(spec: &Value) -> anyhow::Result<()> {
    Exprs::read(&spec["that"])?;
    Exprs::read(&spec["where"])?;
    Ok(())
}

/// Replaces a placeholder in all texts, keys included.
pub fn replace(value: &Value, from: &str, to: &str) -> Value {
    match value {
        Value::String(s) => s.replace(from, to).into(),
        Value::Array(items) => items.iter().map(|item| replace(item, from, to)).collect(),
        Value::Object(fields) => {
            Value::Object(fields.iter().map(|(k, v)| (k.replace(from, to), replace(v, from, to))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "title: t\nfamily: f\naudience: handed\nisolation: namespace\nrecord: []\n";

    #[test]
    fn mistakes_are_found_when_a_file_is_read() {
        let parse = |rest: &str| Scenario::parse("x", &format!("{HEAD}{rest}"));
        assert!(parse("steps: [{wait: {on: pods, that: [\"ready\"]}}]").is_ok());
        for (rest, reason) in [
            ("stepps: []", "stepps"),
            ("steps: [{wiat: {}}]", "wiat"),
            ("steps: [{wait: {}, make: {}}]", "one verb"),
            ("steps: [{wait: {on: pods, that: [\"a ==\"]}}]", "not an expression"),
            ("steps: [{repeat: {times: 2, steps: [{wiat: {}}]}}]", "wiat"),
            ("until: [{on: pods, where: \"(\"}]", "not an expression"),
        ] {
            let error = format!("{:#}", parse(rest).unwrap_err());
            assert!(error.contains(reason), "{rest}: {error}");
        }
    }

    #[test]
    fn the_namespace_is_filled_in() {
        let text = format!("{HEAD}namespaces: [\"${{ns}}-x\"]\nsteps: [{{mark: \"${{ns}}\"}}]");
        let scenario = Scenario::parse("x", &text).unwrap().in_namespace("p-1");
        assert_eq!(scenario.namespaces, ["p-1-x"]);
        assert_eq!(scenario.steps, [serde_json::json!({"mark": "p-1"})]);
    }
}
