use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use super::{NodeSpec, Nodes, NodesConfig, taints};
use crate::{Cluster, ClusterConfig, InProcess, Target, rest::options::DeleteOptions};

struct Bed {
    cluster: Cluster,
    nodes: Nodes,
    _dir: TempDir,
    cancel: CancellationToken,
}

impl Bed {
    async fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let cluster = Cluster::start(ClusterConfig::new(dir.path())).await.unwrap();
        let cancel = CancellationToken::new();
        let api = InProcess::new(cluster.rest().clone(), "kubelet");
        let nodes = Nodes::start(api, NodesConfig::default(), cancel.clone());
        Self { cluster, nodes, _dir: dir, cancel }
    }

    fn make(&self, name: &str, annotations: Value, spec: Value) {
        let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "annotations": annotations},
            "spec": {"containers": [{"name": "c", "image": "i"}]}});
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        self.cluster.api().create(&target(""), &pod).unwrap();
    }

    fn pod(&self, name: &str) -> Option<Value> {
        self.cluster.api().get(&target(name)).ok()
    }

    async fn until(&self, what: &str, holds: impl Fn(&Self) -> bool) {
        for _ in 0..500 {
            if holds(self) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("still not: {what}");
    }
}

impl Drop for Bed {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}

fn target(name: &str) -> Target<'_> {
    Target::new("v1", "pods").in_namespace("default").named(name)
}

fn is_ready(pod: &Option<Value>) -> bool {
    let conditions = pod.as_ref().and_then(|p| p["status"]["conditions"].as_array());
    conditions.into_iter().flatten().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

#[tokio::test]
async fn pods_are_bound_run_and_removed() {
    let bed = Bed::start().await;
    bed.nodes.add_count("node-", 3).await.unwrap();
    bed.make("a", json!({}), json!({}));
    bed.until("ready", |bed| is_ready(&bed.pod("a"))).await;
    let pod = bed.pod("a").unwrap();
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    assert_eq!(pod["status"]["phase"], "Running");
    assert!(pod["status"]["podIP"].is_string());
    bed.cluster.api().delete(&target("a"), &DeleteOptions::default()).unwrap();
    bed.until("gone", |bed| bed.pod("a").is_none()).await;
    let lease =
        Target::new("coordination.k8s.io/v1", "leases").in_namespace("kube-node-lease").named("node-2");
    assert_eq!(bed.cluster.api().get(&lease).unwrap()["spec"]["holderIdentity"], "node-2");
}

#[tokio::test]
async fn a_pod_that_fits_nowhere_waits_for_a_node_it_fits() {
    let bed = Bed::start().await;
    let spec = NodeSpec {
        names: vec!["tainted".into()],
        taints: taints(&[("k", "v", "NoSchedule")]),
        ..NodeSpec::default()
    };
    bed.nodes.add(spec).await.unwrap();
    bed.make("a", json!({}), json!({}));
    bed.until("unschedulable", |bed| {
        bed.pod("a").is_some_and(|p| p["status"]["conditions"][0]["reason"] == "Unschedulable")
    })
    .await;
    bed.nodes.add_count("free-", 1).await.unwrap();
    bed.until("ready", |bed| is_ready(&bed.pod("a"))).await;
    assert_eq!(bed.pod("a").unwrap()["spec"]["nodeName"], "free-1");
}

#[tokio::test]
async fn a_dead_node_does_nothing_for_its_pods_until_it_returns() {
    let bed = Bed::start().await;
    bed.nodes.add_count("node-", 1).await.unwrap();
    bed.make("a", json!({}), json!({}));
    bed.until("ready", |bed| is_ready(&bed.pod("a"))).await;
    bed.nodes.set_heartbeat("node-1", false).await.unwrap();
    bed.cluster.api().delete(&target("a"), &DeleteOptions::default()).unwrap();
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(bed.pod("a").is_some(), "nobody is there to end it");
    bed.nodes.set_heartbeat("node-1", true).await.unwrap();
    bed.until("gone", |bed| bed.pod("a").is_none()).await;
}

#[tokio::test]
async fn annotations_steer_a_live_pod() {
    let bed = Bed::start().await;
    bed.nodes.add_count("node-", 1).await.unwrap();
    bed.make("a", json!({"sim.coxswain.dev/ready": "never"}), json!({"restartPolicy": "Never"}));
    bed.until("running", |bed| bed.pod("a").is_some_and(|p| p["status"]["phase"] == "Running")).await;
    assert!(!is_ready(&bed.pod("a")));
    let annotate = |value: Value| {
        let patch = json!({"metadata": {"annotations": value}});
        bed.cluster.api().patch(&target("a"), crate::patch::PatchType::Merge, &patch).unwrap();
    };
    annotate(json!({"sim.coxswain.dev/ready": null}));
    bed.until("ready", |bed| is_ready(&bed.pod("a"))).await;
    annotate(json!({"sim.coxswain.dev/exit-after": "0s", "sim.coxswain.dev/exit-code": "3"}));
    bed.until("failed", |bed| bed.pod("a").is_some_and(|p| p["status"]["phase"] == "Failed")).await;
    let state = &bed.pod("a").unwrap()["status"]["containerStatuses"][0]["state"]["terminated"];
    assert_eq!(state["exitCode"], 3);
}

#[tokio::test]
async fn nodes_vanish_and_return_on_command_and_a_deleted_node_renews_no_lease() {
    use super::NodeState;

    let bed = Bed::start().await;
    bed.nodes.add_count("node-", 2).await.unwrap();
    let api = bed.cluster.api();
    let leases = Target::new("coordination.k8s.io/v1", "leases").in_namespace("kube-node-lease");
    let node = |name: &'static str| Target::new("v1", "nodes").named(name);
    let first = api.get(&node("node-1")).unwrap()["metadata"]["uid"].clone();
    bed.nodes.remove("node-1").await.unwrap();
    assert_eq!(api.get(&node("node-1")).unwrap_err().code, 404);
    let states = bed.nodes.states().await.unwrap();
    assert_eq!((states["node-1"], states["node-2"]), (NodeState::Unregistered, NodeState::Alive));
    bed.nodes.bring_back("node-1").await.unwrap();
    let back = api.get(&node("node-1")).unwrap();
    assert_ne!(back["metadata"]["uid"], first);
    assert_eq!(back["metadata"]["labels"]["kubernetes.io/hostname"], "node-1");
    assert_eq!(bed.nodes.states().await.unwrap()["node-1"], NodeState::Alive);

    // Somebody deletes the object of a machine that lives on.
    api.delete(&node("node-2"), &DeleteOptions::default()).unwrap();
    api.delete(&leases.named("node-2"), &DeleteOptions::default()).unwrap();
    bed.until("unregistered", |bed| bed.cluster.api().get(&node("node-2")).is_err()).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    bed.nodes.set_conditions("node-2", [("Ready".to_owned(), "False".to_owned())].into()).await.unwrap_err();
    assert_eq!(api.get(&leases.named("node-2")).unwrap_err().code, 404, "no lease without a node");
    assert_eq!(bed.nodes.states().await.unwrap()["node-2"], NodeState::Unregistered);
    // Its object is made again: by hand, then by itself.
    api.create(&Target::new("v1", "nodes"), &json!({"metadata": {"name": "node-2"}})).unwrap();
    bed.until("a lease again", |bed| bed.cluster.api().get(&leases.named("node-2")).is_ok()).await;
}
