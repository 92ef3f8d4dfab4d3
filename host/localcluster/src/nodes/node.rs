//! A simulated node: its object, its status, its lease.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::NodeState;

/// What nodes are to be made.
#[derive(Clone, Debug, Default)]
pub struct NodeSpec {
    /// Their names.
    pub names: Vec<String>,
    /// Labels besides the usual ones.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Taints, as in `spec.taints`.
    pub taints: Value,
    /// Zone; by default they are spread over `zone-a`, `zone-b` and `zone-c`.
    pub zone: Option<String>,
}

/// A node that is kept alive.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub uid: String,
    pub ip: String,
    /// A node whose heartbeat has stopped does nothing for its pods either, as
    /// a dead machine would.
    pub alive: bool,
    /// Whether its object is there. A kubelet whose object somebody deleted does not make another until it is started
    /// again.
    pub registered: bool,
    pub leased: bool,
    /// Its object as it registers.
    pub object: Value,
    /// Conditions set on command, over the healthy ones.
    pub conditions: BTreeMap<String, String>,
}

/// The object of a node.
pub(super) fn object(spec: &NodeSpec, position: usize, name: &str) -> Value {
    let zone = spec.zone.clone().unwrap_or_else(|| format!("zone-{}", ["a", "b", "c"][position % 3]));
    let mut labels: BTreeMap<String, String> = [
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", "linux"),
        ("kubernetes.io/arch", "amd64"),
        ("topology.kubernetes.io/zone", &zone),
    ]
    .into_iter()
    .map(|(k, v)| (k.to_owned(), v.to_owned()))
    .collect();
    labels.extend(spec.labels.clone());
    let mut node =
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {}});
    if !spec.annotations.is_empty() {
        node["metadata"]["annotations"] = json!(spec.annotations);
    }
    if spec.taints.as_array().is_some_and(|taints| !taints.is_empty()) {
        node["spec"]["taints"] = spec.taints.clone();
    }
    node
}

impl Node {
    pub fn state(&self) -> NodeState {
        match (self.registered, self.alive) {
            (false, _) => NodeState::Unregistered,
            (true, true) => NodeState::Alive,
            (true, false) => NodeState::Stopped,
        }
    }

    /// The status that its kubelet would write.
    pub fn status(&self, name: &str, now: &str) -> Value {
        let healthy = [
            ("Ready", "True", "KubeletReady"),
            ("MemoryPressure", "False", "KubeletHasSufficientMemory"),
            ("DiskPressure", "False", "KubeletHasNoDiskPressure"),
            ("PIDPressure", "False", "KubeletHasSufficientPID"),
        ];
        let conditions: Vec<Value> = healthy
            .into_iter()
            .map(|(kind, status, reason)| {
                let set = self.conditions.get(kind);
                json!({"type": kind, "status": set.map_or(status, |s| s), "message": "simulated",
                    "reason": if set.is_some() { "SetBySimulator" } else { reason },
                    "lastHeartbeatTime": now, "lastTransitionTime": now})
            })
            .collect();
        let room = json!({"cpu": "16", "memory": "32Gi", "pods": "500"});
        json!({"conditions": conditions, "capacity": room, "allocatable": room,
            "addresses": [{"type": "InternalIP", "address": self.ip}, {"type": "Hostname", "address": name}],
            "nodeInfo": {"machineID": name, "systemUUID": name, "bootID": name, "kernelVersion": "0", "osImage": "sim",
                "containerRuntimeVersion": "sim://1", "kubeletVersion": "v1.36.2", "kubeProxyVersion": "",
                "operatingSystem": "linux", "architecture": "amd64"}})
    }

    /// The lease that says it is alive.
    pub fn lease(&self, name: &str, now: &str) -> Value {
        json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [
                {"apiVersion": "v1", "kind": "Node", "name": name, "uid": self.uid}]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": 40, "renewTime": now}})
    }
}
