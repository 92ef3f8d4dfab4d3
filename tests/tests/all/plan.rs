//! Plan mode: what would be done is told, and nothing is done.

use std::{path::PathBuf, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use coxswain::{
    manager::{Config, Manager},
    preview::{Planned, Preview, Report},
};
use coxswain_localcluster::{
    Cluster, ClusterConfig, InProcess, Target,
    faults::Rule,
    nodes::{Nodes, NodesConfig},
};
use coxswain_tests::{
    LIMIT, built_program, crd, deployment, manager_config, module, start_manager, test_guest,
};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A cluster without a manager, and controllers in a directory.
struct Site {
    cluster: Cluster,
    controllers_dir: PathBuf,
    _nodes: Nodes,
    _dir: TempDir,
    cancel: CancellationToken,
}

impl Site {
    async fn start(controllers: &[(&str, Vec<u8>)]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let controllers_dir = dir.path().join("controllers");
        std::fs::create_dir(&controllers_dir)?;
        for (name, bytes) in controllers {
            std::fs::write(controllers_dir.join(format!("{name}.wasm")), bytes)?;
        }
        let cluster = Cluster::start(ClusterConfig::new(dir.path().join("cluster"))).await?;
        let cancel = CancellationToken::new();
        let api = InProcess::new(cluster.rest().clone(), "kubelet");
        let nodes = Nodes::start(api, NodesConfig::default(), cancel.clone());
        nodes.add_count("node-", 3).await.map_err(|s| anyhow::anyhow!("no nodes: {}", s.message))?;
        Ok(Self { cluster, controllers_dir, _nodes: nodes, _dir: dir, cancel })
    }

    fn create(&self, plural: &str, object: &Value) -> anyhow::Result<()> {
        let namespace = object["metadata"]["namespace"].as_str();
        let target = Target::new(object["apiVersion"].as_str().unwrap_or_default(), plural);
        let target = namespace.into_iter().fold(target, |target, namespace| target.in_namespace(namespace));
        let created = self.cluster.api().create(&target, object);
        created.map(drop).map_err(|s| anyhow::anyhow!("{plural}: {}", s.message))
    }

    fn rule(&self, rule: Value) -> anyhow::Result<()> {
        self.cluster.rest().faults().add(Rule::parse(rule.to_string().as_bytes())?);
        Ok(())
    }

    async fn plan(&self, limit: Duration) -> anyhow::Result<Report> {
        self.plan_at_most(1000, limit).await
    }

    async fn plan_at_most(&self, writes: u64, limit: Duration) -> anyhow::Result<Report> {
        let preview = Arc::new(Preview::new(writes));
        let _ = coxswain::install_crypto();
        let file = kube::config::Kubeconfig::read_from(self.cluster.kubeconfig_path())?;
        let kube = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
        let config = Config { preview: Some(preview.clone()), ..manager_config(kube, &self.controllers_dir) };
        let manager = Manager::start(config).await?;
        let report = manager.preview(&preview, limit).await;
        manager.shutdown().await;
        report.map_err(anyhow::Error::msg)
    }

    /// Counts requests that are no GET, from now on.
    fn count_writes(&self) -> anyhow::Result<()> {
        self.rule(json!({"on": {"verbs": ["create", "update", "patch", "delete"], "userAgent": "coxswain/"},
            "count": 1_000_000, "action": {"type": "latency", "milliseconds": 0}}))
    }

    fn writes(&self) -> u64 {
        let rules = self.cluster.rest().faults().list();
        1_000_000 - rules.iter().find_map(|(_, rule)| rule.count).unwrap_or_default()
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.cluster.shutdown().await;
    }
}

fn workloads() -> anyhow::Result<Vec<(&'static str, Vec<u8>)>> {
    ["deployment-controller", "replicaset-controller"]
        .into_iter()
        .map(|name| Ok((name, module(name)?)))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_tells_exactly_what_would_be_done_and_does_none_of_it() -> anyhow::Result<()> {
    let site = Site::start(&workloads()?).await?;
    site.create("deployments", &deployment("default", "web", 2))?;
    site.create("deployments", &deployment("kube-system", "other", 1))?;
    site.count_writes()?;
    let mut report = site.plan(LIMIT).await?;
    ensure!(report.complete, "{report:#?}");
    ensure!(report.exit_code() == 2, "{report:#?}");
    ensure!(report.keys == 4, "two deployments and the two sets that follow: {report:#?}");
    report.retain_namespace("default");
    let act = |verb: &str, object: &str| {
        let found =
            report.actions.iter().filter(|a| a.act.verb == verb && a.act.object().starts_with(object));
        found.collect::<Vec<_>>()
    };
    let sets = act("create", "replicasets.apps/v1 default/web-");
    let [set] = sets[..] else { anyhow::bail!("{report:#?}") };
    ensure!(set.controller == "deployment-controller" && set.follows.is_empty(), "{set:#?}");
    ensure!(set.act.body.as_ref().is_some_and(|body| body["spec"]["replicas"] == 2), "{set:#?}");
    let pods = act("create", "pods/v1 default/web-");
    ensure!(pods.len() == 2, "{report:#?}");
    for pod in &pods {
        ensure!(pod.controller == "replicaset-controller" && pod.key == format!("default/{}", set.act.name));
        ensure!(pod.follows == [set.number], "{pod:#?}");
        ensure!(!pod.act.name.ends_with('*'), "it has a name: {pod:#?}");
    }
    let counts = act("patch", "replicasets.apps/v1/status default/web-");
    let follows = |one: &Planned, other: &Planned| one.follows.contains(&other.number);
    ensure!(counts.iter().any(|count| pods.iter().any(|pod| follows(count, pod))), "{report:#?}");
    let status = act("patch", "deployments.apps/v1/status default/web");
    let last = status.last().context("no status")?;
    ensure!(counts.iter().any(|count| follows(last, count)), "{report:#?}");
    ensure!(report.actions.is_sorted_by_key(|a| a.number), "{report:#?}");
    let earlier = |a: &Planned| a.follows.iter().all(|number| *number < a.number);
    ensure!(report.actions.iter().all(earlier), "{report:#?}");
    for reason in ["ScalingReplicaSet", "SuccessfulCreate"] {
        ensure!(report.events.iter().any(|e| e.event.reason == reason), "{reason}: {:#?}", report.events);
    }
    let text = report.to_text(true);
    ensure!(text.contains(&format!("(after {})", set.number)), "{text}");
    ensure!(text.contains("Created pod: web-"), "{text}");

    for (namespace, code, wanted) in [
        ("kube-system", 2, "replicasets.apps/v1 kube-system/other-"),
        ("kube-public", 0, "Nothing would be done"),
        ("nowhere", 1, "there is no namespace \"nowhere\" in the cluster"),
    ] {
        let mut command = std::process::Command::new(built_program());
        command.args(["plan", "--namespace", namespace, "--kubeconfig"]).arg(site.cluster.kubeconfig_path());
        command.arg("--controllers-dir").arg(&site.controllers_dir);
        let output = tokio::task::spawn_blocking(move || command.output()).await??;
        let said = [output.stdout, output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        ensure!(output.status.code() == Some(code) && said.contains(wanted), "{namespace}: {said}");
    }

    ensure!(site.writes() == 0, "{} requests would have written", site.writes());
    for (group, plural) in [("apps/v1", "replicasets"), ("v1", "pods"), ("v1", "events")] {
        let made = site.cluster.api().list(&Target::new(group, plural), "", "").await;
        ensure!(made.is_ok_and(|(made, _)| made.is_empty()), "{plural} were made");
    }

    // The same controllers, let loose: their requests are counted, and at rest nothing is left to do.
    let manager = start_manager(site.cluster.kubeconfig_path(), &site.controllers_dir).await?;
    let ready = async || loop {
        let web = Target::new("apps/v1", "deployments").in_namespace("default").named("web");
        let web = site.cluster.api().get(&web).unwrap_or_default();
        let other = Target::new("apps/v1", "deployments").in_namespace("kube-system").named("other");
        let other = site.cluster.api().get(&other).unwrap_or_default();
        if web["status"]["readyReplicas"] == 2 && other["status"]["readyReplicas"] == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    tokio::time::timeout(LIMIT, ready()).await.context("not ready")?;
    tokio::time::sleep(Duration::from_millis(500)).await;
    manager.shutdown().await;
    ensure!(site.writes() > 4, "the count works: {}", site.writes());
    let report = site.plan(LIMIT).await?;
    ensure!(report.exit_code() == 0, "{}", report.to_text(true));
    ensure!(report.keys >= 4, "{report:#?}");
    ensure!(report.to_text(false).starts_with("Nothing would be done"), "{}", report.to_text(false));
    site.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_patch_is_shown_as_what_it_changes() -> anyhow::Result<()> {
    let site = Site::start(&workloads()?).await?;
    // Webhooks and policies of the cluster are not asked, and named.
    let policy = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "strict"}, "spec": {
            "matchConstraints": {"resourceRules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]},
            "validations": [{"expression": "false"}]}});
    let policies = Target::new("admissionregistration.k8s.io/v1", "validatingadmissionpolicies");
    site.cluster.api().create(&policies, &policy).map_err(|s| anyhow::anyhow!("{}", s.message))?;
    let mut set = deployment("default", "web", 0);
    set["kind"] = "ReplicaSet".into();
    site.create("replicasets", &set)?;
    let report = site.plan(LIMIT).await?;
    let text = report.to_text(false);
    ensure!(report.exit_code() == 2, "{text}");
    ensure!(report.not_asked == ["validatingadmissionpolicies strict"], "{:?}", report.not_asked);
    ensure!(text.contains("Not asked, and may refuse or change what would be written: validating"), "{text}");
    let patch = report.actions.iter().find(|a| a.act.verb == "patch").context("no patch")?;
    ensure!(patch.act.object() == "replicasets.apps/v1/status default/web", "{patch:#?}");
    ensure!(text.contains("    + status.observedGeneration: 1\n"), "{text}");
    site.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_unplayed_is_said() -> anyhow::Result<()> {
    let site = Site::start(&workloads()?).await?;
    site.create("deployments", &deployment("default", "web", 20))?;
    let report = site.plan_at_most(5, LIMIT).await?;
    let text = report.to_text(false);
    ensure!(!report.complete && report.exit_code() == 1, "{text}");
    ensure!((1..=5).contains(&report.actions.len()), "{text}");
    ensure!(text.contains("5 writes were tried, and there are more; allow more with --max-writes"), "{text}");
    site.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_ends_by_itself_whatever_a_controller_does() -> anyhow::Result<()> {
    // One that never stops trying, one that traps, one that asks for what it may not; a resource that nobody serves.
    let site = Site::start(&[
        ("mischief", test_guest("mischief-controller")?),
        ("gadget", test_guest("gadget-controller")?),
    ])
    .await?;
    site.create("customresourcedefinitions", &crd("mischiefs", "Mischief"))?;
    for name in ["error", "panic", "undeclared-write", "good"] {
        let object = json!({"apiVersion": "test.example/v1", "kind": "Mischief",
            "metadata": {"namespace": "default", "name": name}});
        let made = async || {
            while site.create("mischiefs", &object).is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(LIMIT, made()).await.context("the CRD is not served")?;
    }
    site.count_writes()?;
    let report = site.plan(LIMIT).await?;
    let text = report.to_text(true);
    ensure!(report.complete && report.exit_code() == 1, "{text}");
    ensure!(report.keys == 4 && report.failures.len() == 3, "{text}");
    for reason in
        ["it went wrong", "the module trapped", "the manifest does not declare delete of configmaps"]
    {
        ensure!(
            report.failures.iter().any(|failure| failure.reason.contains(reason)),
            "no {reason:?}: {text}"
        );
    }
    let idle: Vec<_> = report.not_run.iter().map(|one| (one.controller.as_str(), one.expected)).collect();
    ensure!(idle == [("gadget-controller", true)], "{text}");
    ensure!(text.contains("the cluster does not serve gadgets.test.example/v1"), "{text}");
    ensure!(site.writes() == 0, "{} requests would have written", site.writes());
    site.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_not_be_listed_is_named_and_time_is_bounded() -> anyhow::Result<()> {
    let site = Site::start(&workloads()?).await?;
    site.create("deployments", &deployment("default", "web", 1))?;
    site.rule(json!({"on": {"verbs": ["list", "watch"], "group": "", "resource": "pods"},
        "action": {"type": "forbidden"}}))?;
    let report = site.plan(LIMIT).await?;
    let text = report.to_text(false);
    ensure!(report.exit_code() == 1, "{text}");
    ensure!(report.not_run.len() == 2 && text.contains("pods/v1 cannot be listed: 403"), "{text}");

    site.cluster.rest().faults().clear();
    site.rule(json!({"on": {"verbs": ["list", "watch"], "group": "", "resource": "pods"},
        "action": {"type": "latency", "milliseconds": 60_000}}))?;
    let started = std::time::Instant::now();
    let report = site.plan(Duration::from_secs(2)).await?;
    ensure!(!report.complete && report.exit_code() == 1, "{}", report.to_text(false));
    ensure!(report.to_text(false).contains("pods/v1 is still being listed"), "{}", report.to_text(false));
    ensure!(started.elapsed() < Duration::from_secs(50), "it took {:?}", started.elapsed());
    site.stop().await;
    Ok(())
}
