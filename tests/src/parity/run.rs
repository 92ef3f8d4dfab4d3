//! One run of one scenario.
//!
//! In: a scenario and a control plane. Out: what happened, in comparable form.
//! Kept: waits judge nothing older than the scenario's own writes.

mod steps;
mod waits;

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::Context;
use serde_json::{Map, Value, json};

use super::{
    expr::Exprs,
    normalise::Normaliser,
    object::{self, duration_or, list, text},
    plane::Plane,
    proxy::What,
    recorder::{Known, Marks, measure},
    scenario::{Isolation, Right, Scenario},
};

/// Events that say nothing about a controller's decisions.
const IGNORED_EVENTS: [&str; 9] = [
    "FailedToUpdateEndpoint",
    "FailedToUpdateEndpointSlices",
    "FailedToCreateEndpoint",
    "FailedToDeleteEndpoint",
    "KubeAPIReadyz",
    "ClusterIPNotAllocated",
    "RegisteredNode",
    "PersistentVolumeClaim ProvisioningFailed",
    "PersistentVolumeClaim FailedBinding",
];
/// The longest wait for quiet at the end.
const SETTLE_LIMIT: Duration = Duration::from_secs(8);

/// What a run came to.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Named waits.
    pub waits: Map<String, Value>,
    /// Named waits that the reference does not always agree on.
    pub racy: Map<String, Value>,
    /// Named results.
    pub results: Map<String, Value>,
    /// What came true although it must not.
    pub violations: Vec<String>,
    /// Measures.
    pub observations: Map<String, Value>,
    /// Recorded objects by resource.
    pub state: Map<String, Value>,
    /// Events by kind, type and reason.
    pub events: BTreeMap<String, u64>,
    /// Writes of the manager by resource and class.
    pub writes: BTreeMap<String, u64>,
    /// Refused writes.
    pub rejected: BTreeMap<String, u64>,
    /// Faults by the scenario's own idea of right; none if it has none.
    pub wrong: Option<Vec<String>>,
}

/// A running scenario.
pub struct Run<'a> {
    scenario: Scenario,
    plane: &'a Plane,
    namespace: String,
    waits: Map<String, Value>,
    results: Map<String, Value>,
    marks: Marks,
    violations: Vec<String>,
    saved: BTreeMap<String, Value>,
    invariants: Vec<Value>,
}

impl<'a> Run<'a> {
    /// Plays a scenario in a namespace of its own.
    pub async fn play(scenario: &Scenario, plane: &'a Plane, namespace: &str) -> anyhow::Result<Outcome> {
        let mut run = Self {
            scenario: scenario.in_namespace(namespace),
            plane,
            namespace: namespace.to_owned(),
            waits: Map::new(),
            results: Map::new(),
            marks: Marks::new(),
            violations: Vec::new(),
            saved: BTreeMap::new(),
            invariants: Vec::new(),
        };
        let written = plane.proxy.written();
        run.begin().await?;
        let played = run.act().await;
        if let Some(reason) = plane.manager_ended().await {
            anyhow::bail!("{reason}");
        }
        played?;
        let _still = plane.still().await;
        run.settle().await?;
        run.outcome(written).await
    }

    async fn begin(&mut self) -> anyhow::Result<()> {
        if self.scenario.isolation == Isolation::Namespace || self.scenario.own_namespace {
            let space = json!({"apiVersion": "v1", "kind": "Namespace",
                "metadata": {"name": self.namespace, "labels": self.scenario.ns_labels}});
            self.plane.api.create(&space, "", &Default::default()).await?;
            self.wait_for_defaults().await;
        }
        for resource in self.scenario.watch.clone() {
            self.plane.recorder.add(&resource).await?;
        }
        self.marks.insert("begin".into(), Instant::now());
        Ok(())
    }

    /// What controllers put into every new namespace is not to come in between.
    async fn wait_for_defaults(&self) {
        if !self.scenario.start_manager {
            return;
        }
        let space = &self.namespace;
        let account = self.plane.has_controller("serviceaccount-controller");
        let map = self.plane.has_controller("root-ca-certificate-publisher-controller");
        let there = |known: &Known| {
            (!account || known.object("serviceaccounts", space, "default").is_some())
                && (!map || known.object("configmaps", space, "kube-root-ca.crt").is_some())
        };
        self.plane.recorder.wait(Duration::from_secs(5) * self.plane.patience(), there).await;
    }

    async fn act(&mut self) -> anyhow::Result<()> {
        let steps = self.scenario.steps.clone();
        self.steps(&steps).await?;
        for wait in self.scenario.until.clone() {
            self.wait(&wait).await?;
        }
        Ok(())
    }

    async fn settle(&self) -> anyhow::Result<()> {
        let quiet = duration_or(&self.scenario.settle, Duration::from_millis(1200))?;
        let begin = Instant::now();
        while begin.elapsed() < SETTLE_LIMIT {
            let touched = self.plane.recorder.known().touched(&self.namespace);
            if touched.map_or(begin, |at| at.max(begin)).elapsed() >= quiet {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(())
    }

    /// Namespaces of the scenario.
    fn spaces(&self) -> impl Iterator<Item = &String> {
        std::iter::once(&self.namespace).chain(&self.scenario.namespaces)
    }

    async fn outcome(mut self, written: usize) -> anyhow::Result<Outcome> {
        // The last watch events and requests may be on their way.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut out = Outcome::default();
        let mut observed = Map::new();
        for spec in &self.scenario.observe {
            let value = measure(&self.plane.recorder.known(), &self.namespace, spec, &self.marks)?;
            observed.insert(text(&spec["name"]).into(), value);
        }
        for spec in std::mem::take(&mut self.invariants) {
            let name = format!("invariant {}", text(&spec["name"]));
            let holds = self.invariant(&spec)?;
            observed.insert(name.clone(), holds.is_none().into());
            if let Some(value) = holds {
                self.violations.push(format!("{name}: {value}"));
            }
        }
        let recorded = self.recorded().await?;
        {
            let known = self.plane.recorder.known();
            let scenario = &self.scenario;
            let normal =
                Normaliser::new(&self.namespace, &known, scenario.keep_node_names, scenario.keep_ips);
            if let Value::Object(observations) = normal.walk(&Value::Object(observed)) {
                out.observations = observations;
            }
            for (key, objects, drop) in &recorded {
                out.state.insert(key.clone(), normal.collapse(objects.iter().map(|o| &**o), drop));
            }
            out.events = self.events(&known);
        }
        self.count_writes(written, &mut out);
        out.racy = self.scenario.racy.iter().filter_map(|name| self.waits.remove_entry(name)).collect();
        out.waits = self.waits.clone();
        out.results = self.results.clone();
        out.violations = self.violations.clone();
        if let Some(right) = &self.scenario.right {
            out.wrong = Some(self.faults(right, &out)?);
        }
        Ok(out)
    }

    /// The value of an invariant that does not hold.
    fn invariant(&self, spec: &Value) -> anyhow::Result<Option<Value>> {
        let value = measure(&self.plane.recorder.known(), &self.namespace, spec, &self.marks)?;
        let number = value.as_f64();
        let bound = |key: &str| spec[key].as_f64();
        let below = bound("at-most").is_none_or(|most| number.is_some_and(|n| n <= most));
        let above = bound("at-least").is_none_or(|least| number.is_some_and(|n| n >= least));
        let equal = spec["equals"].is_null() || value == spec["equals"];
        Ok((!(below && above && equal)).then_some(value))
    }

    /// Objects to compare, by key, with the fields to leave out.
    async fn recorded(&self) -> anyhow::Result<Vec<(String, Vec<Arc<Value>>, Vec<String>)>> {
        let mut out = Vec::new();
        for item in &self.scenario.record {
            let item = if item.is_string() { json!({"resource": item}) } else { item.clone() };
            let (resource, select) = (text(&item["resource"]), text(&item["select"]));
            self.plane.recorder.add(resource).await?;
            let entry = self.plane.api.entry(resource).await?;
            let wanted = Exprs::read(&item["where"])?;
            let all = item["all"].as_bool().unwrap_or_default();
            let known = self.plane.recorder.known();
            let objects: Vec<Arc<Value>> = if entry.namespaced {
                self.spaces().flat_map(|space| known.list(resource, space, select)).collect()
            } else {
                known.list(resource, "", select).into_iter().filter(|o| all || self.is_mine(o)).collect()
            };
            drop(known);
            let standard = match resource {
                "configmaps" => "kube-root-ca.crt",
                "serviceaccounts" => "default",
                _ => "",
            };
            let objects =
                objects.into_iter().filter(|o| wanted.hold(o) && (all || object::name(o) != standard));
            let loosened = self.scenario.loosen.iter().filter(|l| l.kind == resource).map(|l| l.path.clone());
            let dropped =
                list(&item["drop"]).iter().map(|path| text(path).to_owned()).chain(loosened).collect();
            let key = if select.is_empty() { resource.to_owned() } else { format!("{resource}?{select}") };
            out.push((key, objects.collect(), dropped));
        }
        Ok(out)
    }

    /// Whether an object outside namespaces belongs to the scenario.
    fn is_mine(&self, object: &Value) -> bool {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        object::name(object).contains(&self.namespace)
            || labels.into_iter().any(|(_, v)| text(v).contains(&self.namespace))
    }

    fn events(&self, known: &Known) -> BTreeMap<String, u64> {
        let mut out = BTreeMap::new();
        for event in known.all("events") {
            let (space, involved) = (object::namespace(event), &event["involvedObject"]);
            let mine = self.spaces().any(|s| s == space)
                || (space == "default"
                    && (self.scenario.isolation != Isolation::Namespace
                        || text(&involved["name"]).contains(&self.namespace)));
            let (kind, reason) = (text(&involved["kind"]), text(&event["reason"]));
            let both = format!("{kind} {reason}");
            let listed = |name: &str| name == reason || name == both;
            let ignored = IGNORED_EVENTS.into_iter().any(listed)
                || self.scenario.ignore_events.iter().any(|name| listed(name));
            if !mine || ignored {
                continue;
            }
            let count =
                event["count"].as_u64().or_else(|| event["series"]["count"].as_u64()).unwrap_or(1).max(1);
            *out.entry(format!("{kind} {} {reason}", text(&event["type"]))).or_default() += count;
        }
        out
    }

    fn is_counted(&self, what: &What) -> bool {
        if what.is_noise() {
            return false;
        }
        let mine = |name: &str| self.spaces().any(|space| space == name);
        if what.resource == "namespaces" {
            return mine(&what.name);
        }
        if !what.namespace.is_empty() {
            return mine(&what.namespace);
        }
        if self.scenario.isolation == Isolation::Namespace {
            return what.name.contains(&self.namespace);
        }
        !matches!(what.resource.as_str(), "clusterroles" | "servicecidrs") || self.scenario.count_cluster_wide
    }

    fn count_writes(&self, written: usize, out: &mut Outcome) {
        let proxy = &self.plane.proxy;
        for write in proxy.writes_since(written).iter().filter(|write| self.is_counted(&write.what)) {
            let key = write.what.key();
            if write.code >= 400 {
                *out.rejected.entry(format!("{key} {}", write.code)).or_default() += 1;
            }
            *out.writes.entry(key).or_default() += 1;
        }
        if self.scenario.proxy {
            // What the proxy refused never reached the server; hammering counts all the same.
            for (key, number) in proxy.refused() {
                let what = key.rsplit_once(' ').map_or(key.as_str(), |(what, _)| what);
                *out.writes.entry(what.to_owned()).or_default() += number;
                out.rejected.insert(format!("proxy {key}"), number);
            }
        }
        for key in &self.scenario.ignore_writes {
            out.writes.remove(key);
        }
    }

    /// What is not as the scenario says it should be.
    fn faults(&self, right: &Right, out: &Outcome) -> anyhow::Result<Vec<String>> {
        let mut bad = Vec::new();
        let waits: Map<String, Value> =
            out.waits.iter().chain(&out.racy).map(|(k, v)| (k.clone(), v.clone())).collect();
        for (kind, wanted, have) in [
            ("wait", &right.waits, &waits),
            ("result", &right.results, &out.results),
            ("observation", &right.observations, &out.observations),
        ] {
            for (name, want) in wanted {
                let have = have.get(name).unwrap_or(&Value::Null);
                if have != want {
                    bad.push(format!("{kind} {name} is {have}, right is {want}"));
                }
            }
        }
        for spec in &right.state {
            let condition = self.condition_now(spec).with_context(|| spec.to_string())?;
            if !condition {
                bad.push(format!("not so: {spec}"));
            }
        }
        let violated = |name: &String| out.violations.iter().any(|v| v.split(':').next() == Some(name));
        bad.extend(
            right.no_violation.iter().filter(|name| violated(name)).map(|name| format!("violated: {name}")),
        );
        for key in &right.no_rejected {
            if let Some(number) = out.rejected.get(key) {
                bad.push(format!("rejected: {key} x{number}"));
            }
        }
        for reason in &right.no_events {
            if out.events.keys().any(|key| key.ends_with(&format!(" {reason}"))) {
                bad.push(format!("event {reason}"));
            }
        }
        Ok(bad)
    }
}
