//! What goes from objects of each kind, and which lists have no order.

use serde_json::{Value, json};

use super::{is_owned_by, sort_by_field, sort_list};
use crate::parity::object::{SIM, is_current, text};

const META: [&str; 6] =
    ["uid", "resourceVersion", "managedFields", "creationTimestamp", "generation", "selfLink"];
const POD_SPEC: [&str; 7] = [
    "dnsPolicy",
    "schedulerName",
    "securityContext",
    "terminationGracePeriodSeconds",
    "enableServiceLinks",
    "preemptionPolicy",
    "priority",
];
const CONTAINER: [&str; 4] =
    ["resources", "terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy"];
const POD_STATUS: [&str; 9] = [
    "hostIP",
    "hostIPs",
    "podIP",
    "podIPs",
    "startTime",
    "containerStatuses",
    "qosClass",
    "observedGeneration",
    "resourceClaimStatuses",
];
const CONDITION: [&str; 5] =
    ["lastProbeTime", "lastHeartbeatTime", "lastTransitionTime", "lastUpdateTime", "observedGeneration"];
/// Conditions of pods that the simulated kubelet writes.
const SIMULATED: [&str; 4] = ["PodScheduled", "Initialized", "ContainersReady", "Ready"];
const SERVICE_SPEC: [&str; 5] =
    ["clusterIPs", "internalTrafficPolicy", "ipFamilies", "ipFamilyPolicy", "sessionAffinity"];
const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

fn drop(value: &mut Value, keys: &[&str]) {
    if let Some(fields) = value.as_object_mut() {
        for key in keys {
            fields.remove(*key);
        }
    }
}

fn entries<'a>(value: &'a mut Value, key: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(key).and_then(Value::as_array_mut).into_iter().flatten()
}

fn put_if_there(value: &mut Value, key: &str, mark: &str) {
    if let Some(field) = value.get_mut(key) {
        *field = mark.into();
    }
}

/// Takes away what differs from run to run.
pub(super) fn prune(o: &mut Value, keep_nodes: bool) {
    let current = is_current(o);
    if let Some(observed) = o.get_mut("status").and_then(|status| status.get_mut("observedGeneration")) {
        *observed = if current { "current" } else { "stale" }.into();
    }
    let kind = text(&o["kind"]).to_owned();
    prune_metadata(&mut o["metadata"]);
    match kind.as_str() {
        "Pod" => pod(o, keep_nodes),
        "Deployment" | "StatefulSet" | "DaemonSet" | "ReplicationController" | "Job" => {
            if let Some(spec) = o.get_mut("spec") {
                drop(spec, &["template"]);
            }
        }
        "ReplicaSet" => {
            if let Some(spec) = o.pointer_mut("/spec/template/spec") {
                pod_spec(spec);
            }
        }
        "CronJob" => {
            if let Some(template) = o.pointer_mut("/spec/jobTemplate") {
                drop(template, &["spec"]);
            }
        }
        // Compared as text: the bytes are what counts.
        "ControllerRevision" if !o["data"].is_string() => o["data"] = o["data"].to_string().into(),
        "Secret" => {
            let keys = o["data"].as_object().into_iter().flatten();
            o["data"] =
                keys.map(|(key, _)| (key.clone(), json!("<data>"))).collect::<serde_json::Map<_, _>>().into();
        }
        "ConfigMap" => {
            if let Some(ca) = o.pointer_mut("/data/ca.crt") {
                *ca = "<ca>".into();
            }
        }
        "Service" => {
            if let Some(spec) = o.get_mut("spec") {
                drop(spec, &SERVICE_SPEC);
            }
        }
        "CertificateSigningRequest" => {
            o["spec"]["request"] = "<csr>".into();
            if let Some(status) = o.get_mut("status") {
                put_if_there(status, "certificate", "<cert>");
            }
        }
        "Node" => {
            let conditions = o["status"].get("conditions").cloned().unwrap_or_else(|| json!([]));
            o["status"] = json!({"conditions": conditions});
        }
        "EndpointSlice" if !keep_nodes => {
            for endpoint in entries(o, "endpoints") {
                put_if_there(endpoint, "nodeName", "<node>");
                put_if_there(endpoint, "zone", "<zone>");
            }
        }
        "Endpoints" if !keep_nodes => {
            for subset in entries(o, "subsets") {
                for key in ["addresses", "notReadyAddresses"] {
                    entries(subset, key).for_each(|address| put_if_there(address, "nodeName", "<node>"));
                }
            }
        }
        _ => {}
    }
    if let Some(conditions) = o.pointer_mut("/status/conditions") {
        for condition in conditions.as_array_mut().into_iter().flatten() {
            drop(condition, &CONDITION);
        }
        sort_by_field(conditions, "type");
    }
}

fn prune_metadata(meta: &mut Value) {
    drop(meta, &META);
    if let Some(annotations) = meta.get_mut("annotations") {
        drop(annotations, &[TRIGGER_TIME]);
        if annotations.as_object().is_none_or(|a| a.is_empty()) {
            drop(meta, &["annotations"]);
        }
    }
    for owner in entries(meta, "ownerReferences") {
        drop(owner, &["uid"]);
    }
    for key in ["ownerReferences", "finalizers"] {
        if let Some(unordered) = meta.get_mut(key) {
            sort_list(unordered);
        }
    }
}

fn pod_spec(spec: &mut Value) {
    drop(spec, &POD_SPEC);
    for key in ["containers", "initContainers"] {
        entries(spec, key).for_each(|container| drop(container, &CONTAINER));
    }
}

fn pod(o: &mut Value, keep_nodes: bool) {
    let daemon = is_owned_by(o, "DaemonSet");
    if let Some(status) = o.get_mut("status") {
        drop(status, &POD_STATUS);
        for condition in entries(status, "conditions") {
            if SIMULATED.contains(&text(&condition["type"])) && condition["status"] == "True" {
                drop(condition, &["reason"]);
            }
        }
    }
    if let Some(labels) = o.pointer_mut("/metadata/labels").filter(|_| !keep_nodes) {
        drop(labels, &["topology.kubernetes.io/zone", "topology.kubernetes.io/region"]);
    }
    if let Some(annotations) = o.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.retain(|key, _| !key.starts_with(SIM));
        if annotations.is_empty() {
            drop(&mut o["metadata"], &["annotations"]);
        }
    }
    let Some(spec) = o.get_mut("spec") else { return };
    pod_spec(spec);
    if let Some(tolerations) = spec.get_mut("tolerations").and_then(Value::as_array_mut) {
        tolerations.retain(|t| !is_default_toleration(t));
        if tolerations.is_empty() {
            drop(spec, &["tolerations"]);
        }
    }
    if !daemon && !keep_nodes && !text(&spec["nodeName"]).is_empty() {
        spec["nodeName"] = "<node>".into();
    }
}

fn is_default_toleration(toleration: &Value) -> bool {
    toleration["tolerationSeconds"] == 300
        && matches!(
            text(&toleration["key"]),
            "node.kubernetes.io/not-ready" | "node.kubernetes.io/unreachable"
        )
}

/// Sorts lists whose order says nothing. Comes after placeholders are in.
pub(super) fn sort(o: &mut Value) {
    match text(&o["kind"]) {
        "EndpointSlice" => {
            if o["endpoints"].is_null() {
                o["endpoints"] = json!([]);
            }
            sort_list(&mut o["endpoints"]);
        }
        "Endpoints" => {
            for subset in entries(o, "subsets") {
                for key in ["addresses", "notReadyAddresses"] {
                    if let Some(addresses) = subset.get_mut(key) {
                        sort_list(addresses);
                    }
                }
            }
            if let Some(subsets) = o.get_mut("subsets") {
                sort_list(subsets);
            }
        }
        _ => {}
    }
}
