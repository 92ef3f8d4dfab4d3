//! Which controllers the scenarios of a family need.
//!
//! In: a scenario, the controllers that are there. Out: those that are missing.
//! Kept: a scenario whose controllers are missing waits; it never counts as
//! passed.

use std::collections::BTreeSet;

use serde_json::Value;

use super::{make, object::text, scenario::Scenario};

const REPLICAS: &[&str] = &["deployment-controller", "replicaset-controller"];
const ENDPOINTS: &[&str] = &["endpoints-controller", "endpointslice-controller"];

/// Controllers that a family is about.
fn of_family(family: &str) -> &'static [&'static str] {
    match family {
        "bootstrap" => &["bootstrap-signer-controller", "token-cleaner-controller"],
        "cronjob" => &["cronjob-controller", "job-controller", "garbage-collector-controller"],
        "csr" => &[
            "certificatesigningrequest-signing-controller",
            "certificatesigningrequest-approving-controller",
            "certificatesigningrequest-cleaner-controller",
        ],
        "daemonset" => &["daemonset-controller"],
        "deployment" => REPLICAS,
        "dra" => &["resourceclaim-controller"],
        "endpoints" => ENDPOINTS,
        "gc" => &["garbage-collector-controller"],
        "hpa" => &["horizontal-pod-autoscaler-controller", "deployment-controller", "replicaset-controller"],
        "job" => &["job-controller"],
        "mirroring" => &["endpointslice-mirroring-controller"],
        "namespace" => &["namespace-controller"],
        "node" => &["node-lifecycle-controller", "taint-eviction-controller"],
        "pdb" => &["disruption-controller"],
        "podgc" => &["pod-garbage-collector-controller"],
        "quota" => &["resourcequota-controller"],
        "rbac" => &["clusterrole-aggregation-controller"],
        "replicaset" => &["replicaset-controller"],
        "replicationcontroller" => &["replicationcontroller-controller"],
        "serviceaccount" => &["serviceaccount-controller", "root-ca-certificate-publisher-controller"],
        "servicecidr" => &["service-cidr-controller"],
        "statefulset" => &["statefulset-controller"],
        "storage" => &["persistentvolume-binder-controller", "persistentvolume-attach-detach-controller"],
        "ttl" => &["ttl-after-finished-controller", "job-controller"],
        // These mix controllers: what they make and name says which.
        _ => &[],
    }
}

/// Controllers without which an object of a kind stays as it was made.
fn of_kind(kind: &str) -> &'static [&'static str] {
    match kind {
        "Deployment" => REPLICAS,
        "ReplicaSet" => &["replicaset-controller"],
        "ReplicationController" => &["replicationcontroller-controller"],
        "StatefulSet" => &["statefulset-controller"],
        "DaemonSet" => &["daemonset-controller"],
        "Job" => &["job-controller"],
        "CronJob" => &["cronjob-controller", "job-controller"],
        "HorizontalPodAutoscaler" => &["horizontal-pod-autoscaler-controller"],
        "PodDisruptionBudget" => &["disruption-controller"],
        "ResourceQuota" => &["resourcequota-controller"],
        "PersistentVolume" => {
            &["persistentvolume-binder-controller", "persistentvolume-protection-controller"]
        }
        "PersistentVolumeClaim" => {
            &["persistentvolume-binder-controller", "persistentvolumeclaim-protection-controller"]
        }
        "CertificateSigningRequest" => &[
            "certificatesigningrequest-signing-controller",
            "certificatesigningrequest-approving-controller",
            "certificatesigningrequest-cleaner-controller",
        ],
        _ => &[],
    }
}

/// What else a single scenario needs, beyond its family and what it makes.
fn of_scenario(name: &str) -> &'static [&'static str] {
    match name {
        "attach-detach-csi" => &["persistentvolume-attach-detach-controller"],
        "bug-101078-gc-broken-crd" | "bug-65200-owner-elsewhere" | "bug-98040-gc-cluster-child" => {
            &["garbage-collector-controller"]
        }
        "bug-108267-terminating-slice" | "bug-141592-slice-tracker" => ENDPOINTS,
        "bug-108268-toleration-restart" => &["taint-eviction-controller"],
        "bug-118261-podgc-duplicate-env" => &["pod-garbage-collector-controller"],
        "bug-135205-pods-of-lost-node" => &["node-lifecycle-controller"],
        "bug-75788-namespace-discovery" | "killed-amid-everything" => &["namespace-controller"],
        "chaos-mirroring-refused" => &["endpointslice-mirroring-controller"],
        "csr-cleaner" => &["certificatesigningrequest-cleaner-controller"],
        "ephemeral-volume" => &["ephemeral-volume-controller", "garbage-collector-controller"],
        "ephemeral-volume-life" => &[
            "ephemeral-volume-controller",
            "garbage-collector-controller",
            "persistentvolumeclaim-protection-controller",
        ],
        "device-taint-eviction" => &["device-taint-eviction-controller"],
        "endpoints-headless" => &["statefulset-controller"],
        "node-ttl-annotation" => &["ttl-controller"],
        "nodeipam-allocate" | "nodeipam-dual-stack" => &["node-ipam-controller"],
        "pv-protection" => &["persistentvolume-protection-controller"],
        "pvc-protection" => &["persistentvolumeclaim-protection-controller"],
        "serviceaccount-token-tampered" => &["serviceaccount-token-controller"],
        "serviceaccount-legacy-token" => {
            &["serviceaccount-token-controller", "legacy-serviceaccount-token-cleaner-controller"]
        }
        "statefulset-pvc-policy-change" => {
            &["garbage-collector-controller", "persistentvolumeclaim-protection-controller"]
        }
        "ttl-set-later" => &["garbage-collector-controller"],
        "volume-attributes-class-protection" => &["volumeattributesclass-protection-controller"],
        "volume-expand" => &["persistentvolume-expander-controller"],
        _ => &[],
    }
}

/// Deletions with a policy are the garbage collector's work.
fn needs_collector(steps: &Value) -> bool {
    match steps {
        Value::Array(items) => items.iter().any(needs_collector),
        Value::Object(fields) => fields.iter().any(|(key, value)| {
            let owned_by_many = key == "delete"
                && ["deployments", "replicasets", "jobs", "cronjobs", "daemonsets", "statefulsets"]
                    .iter()
                    .any(|resource| text(&value["on"]).starts_with(resource));
            key == "propagation" || owned_by_many || needs_collector(value)
        }),
        _ => false,
    }
}

fn kinds(steps: &Value, found: &mut BTreeSet<String>) {
    match steps {
        Value::Array(items) => items.iter().for_each(|item| kinds(item, found)),
        Value::Object(fields) => {
            found.extend(fields.get("kind").and_then(Value::as_str).map(str::to_owned));
            fields.values().for_each(|value| kinds(value, found));
        }
        _ => {}
    }
}

/// Controllers that a scenario needs.
pub fn needed(scenario: &Scenario) -> BTreeSet<&'static str> {
    let steps = Value::Array(scenario.steps.clone());
    let mut made = BTreeSet::new();
    kinds(&steps, &mut made);
    let mut needed: BTreeSet<&str> = of_family(&scenario.family).iter().copied().collect();
    needed.extend(of_scenario(&scenario.name));
    needed.extend(made.iter().flat_map(|kind| of_kind(kind)));
    let recorded =
        |resource: &str| scenario.record.iter().any(|r| r == resource || r["resource"] == resource);
    if recorded("endpoints") || recorded("endpointslices") {
        needed.extend(ENDPOINTS);
    }
    if needs_collector(&steps) {
        needed.insert("garbage-collector-controller");
    }
    needed
}

/// Those that are not there.
pub fn missing(scenario: &Scenario, there: &BTreeSet<String>) -> Vec<&'static str> {
    needed(scenario).into_iter().filter(|name| !there.contains(*name)).collect()
}

/// Whether a scenario needs nodes and kubelets that obey it.
pub fn needs_simulation(scenario: &Scenario) -> bool {
    fn steered(value: &Value) -> bool {
        match value {
            Value::Array(items) => items.iter().any(steered),
            Value::Object(fields) => fields
                .iter()
                .any(|(key, value)| key == "sim" || key.starts_with("sim.coxswain.dev/") || steered(value)),
            _ => false,
        }
    }
    let runs_pods = {
        let mut made = BTreeSet::new();
        kinds(&Value::Array(scenario.steps.clone()), &mut made);
        made.iter().any(|kind| {
            make::build(&serde_json::json!({"kind": kind, "name": "x", "schedule": ""})).is_ok_and(|o| {
                kind == "Pod" || o["spec"]["template"].is_object() || o["spec"]["jobTemplate"].is_object()
            })
        })
    };
    let commanded =
        scenario.steps.iter().any(|step| step.get("node").is_some() || step.get("nodes").is_some());
    runs_pods || commanded || scenario.steps.iter().any(steered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scenario(family: &str, rest: &str) -> Scenario {
        let text =
            format!("title: t\nfamily: {family}\naudience: handed\nisolation: namespace\nrecord: []\n{rest}");
        Scenario::parse("x", &text).unwrap()
    }

    #[test]
    fn what_is_needed() {
        let all = |s: &Scenario| needed(s).into_iter().collect::<Vec<_>>();
        assert_eq!(all(&scenario("replicaset", "")), ["replicaset-controller"]);
        assert_eq!(
            all(&scenario("bug", "steps: [{make: {kind: Deployment, name: web}}]")),
            ["deployment-controller", "replicaset-controller"]
        );
        let deleting = scenario("replicaset", "steps: [{delete: {on: replicasets/web}}]");
        assert_eq!(all(&deleting), ["garbage-collector-controller", "replicaset-controller"]);
        let there = BTreeSet::from(["replicaset-controller".to_owned()]);
        assert_eq!(missing(&deleting, &there), ["garbage-collector-controller"]);
    }

    #[test]
    fn who_needs_a_simulation() {
        assert!(!needs_simulation(&scenario("quota", "steps: [{make: {kind: ResourceQuota, name: q}}]")));
        assert!(needs_simulation(&scenario("job", "steps: [{make: {kind: Job, name: j}}]")));
        assert!(needs_simulation(&scenario("node", "steps: [{node: {name: n, remove: true}}]")));
    }
}
