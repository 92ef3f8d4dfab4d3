//! Controllers that write as service accounts of their own.

use std::time::Duration;

use anyhow::{Context, ensure};
use coxswain_localcluster::{AuthorizationMode, Cluster, ClusterConfig, InProcess, Target};
use coxswain_tests::{LIMIT, deployment, module, start_manager_with};
use serde_json::{Value, json};

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
    let end = tokio::time::Instant::now() + LIMIT;
    while !holds().await {
        ensure!(tokio::time::Instant::now() < end, "still not: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}

fn create(api: &InProcess, api_version: &str, plural: &str, object: &Value) -> anyhow::Result<Value> {
    let mut target = Target::new(api_version, plural);
    if let Some(namespace) = object["metadata"]["namespace"].as_str() {
        target = target.in_namespace(namespace);
    }
    api.create(&target, object).map_err(|status| anyhow::anyhow!("{plural}: {}", status.message))
}

/// A service account may do what its role allows. With kube-controller-manager's own roles, which have the verb
/// `update` where we patch, it updates.
#[tokio::test(flavor = "multi_thread")]
async fn a_controller_writes_as_its_account_and_what_that_may_not_is_named_and_survived() -> anyhow::Result<()>
{
    let dir = tempfile::tempdir()?;
    let controllers = dir.path().join("controllers");
    std::fs::create_dir(&controllers)?;
    std::fs::write(controllers.join("rc.wasm"), module("replicationcontroller-controller")?)?;
    let config = ClusterConfig {
        authorization: AuthorizationMode::Rbac,
        ..ClusterConfig::new(dir.path().join("cluster"))
    };
    let cluster = Cluster::start(config).await?;
    let api = cluster.api();
    let manager = start_manager_with(cluster.kubeconfig_path(), &controllers, |config| {
        config.operating.service_accounts = true;
    })
    .await?;
    tokio::time::timeout(LIMIT, manager.ready()).await.context("ready")?;

    let rbac = "rbac.authorization.k8s.io/v1";
    let role = Target::new(rbac, "clusterroles").named("system:controller:replication-controller");
    let mut narrower = api.get(&role).map_err(|status| anyhow::anyhow!(status.message))?;
    let status = json!(["replicationcontrollers/status"]);
    let rules = narrower["rules"].as_array_mut().context("rules")?;
    let before = rules.len();
    rules.retain(|rule| rule["resources"] != status);
    ensure!(rules.len() < before, "the role lets the status be written: {rules:?}");
    api.update(&role, &narrower).map_err(|status| anyhow::anyhow!(status.message))?;

    let account =
        Target::new("v1", "serviceaccounts").in_namespace("kube-system").named("replication-controller");
    ensure!(api.get(&account).is_err(), "nothing is asked for before it is needed");
    let mut controller = deployment("default", "web", 2);
    controller["apiVersion"] = "v1".into();
    controller["kind"] = "ReplicationController".into();
    controller["spec"]["selector"] = json!({"app": "web"});
    create(&api, "v1", "replicationcontrollers", &controller)?;
    let pods = Target::new("v1", "pods").in_namespace("default");
    until("two pods", async || api.list(&pods, "", "").await.is_ok_and(|(pods, _)| pods.len() == 2)).await?;
    ensure!(api.get(&account).is_ok(), "the account of kube-controller-manager's name is there");
    // The role lets the status be written in no way any more.
    let refused = async || {
        let status = manager.status();
        let error = status.controllers.iter().find_map(|one| one.last_error.clone());
        error.is_some_and(|error| error.reason.contains("403") || error.reason.contains("orbidden"))
    };
    until("the refusal in the status", refused).await?;

    let rules = json!([{"apiGroups": [""], "resources": status, "verbs": ["update"]}]);
    create(&api, rbac, "clusterroles", &json!({"metadata": {"name": "more"}, "rules": rules}))?;
    let binding = json!({
        "metadata": {"name": "more"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "more"},
        "subjects": [{"kind": "ServiceAccount", "name": "replication-controller", "namespace": "kube-system"}],
    });
    create(&api, rbac, "clusterrolebindings", &binding)?;
    let own = Target::new("v1", "replicationcontrollers").in_namespace("default").named("web");
    until("the status written", async || api.get(&own).is_ok_and(|own| own["status"]["replicas"] == 2))
        .await?;
    manager.shutdown().await;
    cluster.shutdown().await;
    Ok(())
}
