//! The roles that `coxswain rbac` prints: against those of Kubernetes, and at work.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    time::Duration,
};

use anyhow::{Context, ensure};
use coxswain::rbac::rules;
use coxswain_localcluster::{
    AuthorizationMode, Cluster, ClusterConfig, InProcess, Target,
    nodes::{Nodes, NodesConfig},
    rest::{options::DeleteOptions, strategy::Propagation},
};
use coxswain_tests::{built_program, deployment, manager_config, module, modules, root};
use serde_json::{Value, json};

/// `verb group resource[/sub] [name]`, or `verb path`.
type Permission = String;

fn permissions(rules: &Value) -> BTreeSet<Permission> {
    let list = |rule: &Value, field: &str| -> Vec<String> {
        let values = rule[field].as_array().into_iter().flatten();
        values.map(|value| value.as_str().unwrap_or_default().to_owned()).collect()
    };
    let mut found = BTreeSet::new();
    for rule in rules.as_array().into_iter().flatten() {
        for verb in list(rule, "verbs") {
            for path in list(rule, "nonResourceURLs") {
                found.insert(format!("{verb} {path}"));
            }
            let names = list(rule, "resourceNames");
            for group in list(rule, "apiGroups") {
                for resource in list(rule, "resources") {
                    let of = if group.is_empty() { "core".to_owned() } else { group.clone() };
                    if names.is_empty() {
                        found.insert(format!("{verb} {of} {resource}"));
                    }
                    found.extend(names.iter().map(|name| format!("{verb} {of} {resource} {name}")));
                }
            }
        }
    }
    found
}

/// Roles of Kubernetes for what is a controller of its own here. What several
/// share is compared with each of them.
const ROLES: &[(&str, &str)] = &[
    ("bootstrap-signer-controller", "bootstrap-signer"),
    ("certificatesigningrequest-approving-controller", "certificate-controller"),
    ("certificatesigningrequest-cleaner-controller", "certificate-controller"),
    ("certificatesigningrequest-signing-controller", "certificate-controller"),
    ("clusterrole-aggregation-controller", "clusterrole-aggregation-controller"),
    ("cronjob-controller", "cronjob-controller"),
    ("daemonset-controller", "daemon-set-controller"),
    ("deployment-controller", "deployment-controller"),
    ("device-taint-eviction-controller", "device-taint-eviction-controller"),
    ("disruption-controller", "disruption-controller"),
    ("endpoints-controller", "endpoint-controller"),
    ("endpointslice-controller", "endpointslice-controller"),
    ("endpointslice-mirroring-controller", "endpointslicemirroring-controller"),
    ("ephemeral-volume-controller", "ephemeral-volume-controller"),
    ("garbage-collector-controller", "generic-garbage-collector"),
    ("horizontal-pod-autoscaler-controller", "horizontal-pod-autoscaler"),
    ("job-controller", "job-controller"),
    ("legacy-serviceaccount-token-cleaner-controller", "legacy-service-account-token-cleaner"),
    ("namespace-controller", "namespace-controller"),
    ("node-ipam-controller", "node-controller"),
    ("node-lifecycle-controller", "node-controller"),
    ("persistentvolume-attach-detach-controller", "attachdetach-controller"),
    ("persistentvolume-binder-controller", "persistent-volume-binder"),
    ("persistentvolume-expander-controller", "expand-controller"),
    ("persistentvolume-protection-controller", "pv-protection-controller"),
    ("persistentvolumeclaim-protection-controller", "pvc-protection-controller"),
    ("pod-garbage-collector-controller", "pod-garbage-collector"),
    ("replicaset-controller", "replicaset-controller"),
    ("replicationcontroller-controller", "replication-controller"),
    ("resourceclaim-controller", "resource-claim-controller"),
    ("resourcequota-controller", "resourcequota-controller"),
    ("root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
    ("service-cidr-controller", "service-cidrs-controller"),
    ("serviceaccount-controller", "service-account-controller"),
    ("serviceaccount-token-controller", "-"),
    ("statefulset-controller", "statefulset-controller"),
    ("taint-eviction-controller", "node-controller"),
    ("token-cleaner-controller", "token-cleaner"),
    ("ttl-after-finished-controller", "ttl-after-finished-controller"),
    ("ttl-controller", "ttl-controller"),
    ("volumeattributesclass-protection-controller", "volumeattributesclass-protection-controller"),
];

/// What the role of kube-controller-manager itself allows all its controllers:
/// its informers run under it.
const SHARED: &str = "system:kube-controller-manager";

fn kubernetes() -> anyhow::Result<BTreeMap<String, BTreeSet<Permission>>> {
    let file = std::fs::File::open(root().join("host/localcluster/data/rbac.json.gz"))?;
    let all: Value = serde_json::from_reader(flate2::read::GzDecoder::new(file))?;
    let mut roles: BTreeMap<String, BTreeSet<Permission>> = BTreeMap::new();
    for list in ["clusterroles", "roles"] {
        for role in all[list].as_array().into_iter().flatten() {
            let name = role["metadata"]["name"].as_str().context("a name")?;
            roles.entry(name.to_owned()).or_default().extend(permissions(&role["rules"]));
        }
    }
    Ok(roles)
}

/// Whether a set of permissions covers one, by its wildcards.
fn covers(has: &BTreeSet<Permission>, wanted: &str) -> bool {
    let parts: Vec<&str> = wanted.split(' ').collect();
    let [verb, group, resource, ..] = parts.as_slice() else { return has.contains(wanted) };
    let sub = resource.split_once('/').map(|(_, sub)| sub);
    let mut resources = vec![(*resource).to_owned(), "*".to_owned()];
    resources.extend(sub.map(|sub| format!("*/{sub}")));
    let candidates = ["*", verb].into_iter().flat_map(|verb| {
        let resources = &resources;
        ["*", group]
            .into_iter()
            .flat_map(move |group| resources.iter().map(move |resource| format!("{verb} {group} {resource}")))
    });
    let candidates: Vec<String> = candidates.collect();
    has.contains(wanted) || candidates.iter().any(|one| has.contains(one))
}

/// Whether a difference is of a kind that needs no word for each case.
fn of_known_kind(ours: &BTreeSet<Permission>, theirs: &BTreeSet<Permission>, one: &str, more: bool) -> bool {
    let parts: Vec<&str> = one.split(' ').collect();
    let [verb, group, resource, ..] = parts.as_slice() else { return false };
    let other = |verb: &str| format!("{verb} {group} {resource}");
    match (more, *verb) {
        // A group that Kubernetes serves no more.
        (false, _) if *group == "extensions" => true,
        // Events are written to the core group; a series is a patch.
        (false, _) if *resource == "events" => true,
        // Patches, where Kubernetes replaces whole objects.
        (true, "patch") => covers(theirs, &other("update")),
        (false, "update") => covers(ours, &other("patch")),
        // A write whose answer was lost is settled by a look at the object.
        (true, "get") => ["create", "patch", "delete"].iter().any(|verb| {
            let object = other(verb);
            ours.contains(&object) || ours.iter().any(|has| has.starts_with(&format!("{object}/")))
        }),
        _ => false,
    }
}

/// All modules against the roles of Kubernetes. What is asked for beyond them,
/// or left out of them, stands in tests/rbac/differing.txt with its reason.
#[tokio::test(flavor = "multi_thread")]
async fn modules_ask_for_what_the_roles_of_kubernetes_allow_but_for_what_is_explained() -> anyhow::Result<()>
{
    let kubernetes = kubernetes()?;
    let engine = coxswain::engine::Engine::new(coxswain::engine::EngineConfig::default())?;
    let built: BTreeSet<String> = modules()?.into_keys().collect();
    let table: BTreeSet<String> = ROLES.iter().map(|(name, _)| (*name).to_owned()).collect();
    ensure!(built == table, "not in the table or not built: {:?}", built.symmetric_difference(&table));
    let mut now = BTreeSet::new();
    for (name, role) in ROLES {
        let loaded = engine.load(module(name)?).await.with_context(|| (*name).to_owned())?;
        let ours = permissions(&serde_json::to_value(rules(loaded.manifest()))?);
        let theirs = kubernetes.get(&format!("system:controller:{role}")).cloned().unwrap_or_default();
        let mut all = theirs.clone();
        all.extend(kubernetes[SHARED].iter().cloned());
        let more = ours.iter().filter(|one| !covers(&all, one) && !of_known_kind(&ours, &all, one, true));
        now.extend(more.map(|more| format!("{name} + {more}")));
        // What Kubernetes allows and nobody here asks for is a power less: told
        // only for verbs that write, and not where several share the role.
        let shared = ROLES.iter().filter(|(_, other)| other == role).count() > 1;
        let reads = |one: &str| ["get ", "list ", "watch "].iter().any(|verb| one.starts_with(verb));
        let less = theirs.iter().filter(|one| {
            !shared && !reads(one) && !covers(&ours, one) && !of_known_kind(&ours, &all, one, false)
        });
        now.extend(less.map(|less| format!("{name} - {less}")));
    }
    let text = std::fs::read_to_string(root().join("tests/rbac/differing.txt"))?;
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let mut known = BTreeSet::new();
    for line in lines {
        let (difference, reason) = line.split_once(" # ").with_context(|| format!("no reason: {line}"))?;
        ensure!(!reason.trim().is_empty(), "no reason: {line}");
        known.insert(difference.trim().to_owned());
    }
    let new: Vec<_> = now.difference(&known).collect();
    let gone: Vec<_> = known.difference(&now).collect();
    ensure!(
        new.is_empty() && gone.is_empty(),
        "explain in tests/rbac/differing.txt: {new:#?}\nno longer so: {gone:#?}"
    );
    Ok(())
}

#[test]
fn wildcards_of_roles_are_understood() {
    let has =
        BTreeSet::from(["get * */scale".to_owned(), "* apps *".to_owned(), "list core pods".to_owned()]);
    for (wanted, covered) in [
        ("get apps deployments/scale", true),
        ("get core replicationcontrollers/scale", true),
        ("patch core replicationcontrollers/scale", false),
        ("patch apps deployments", true),
        ("list core pods", true),
        ("list core pods one", true),
        ("watch core pods", false),
    ] {
        assert_eq!(covers(&has, wanted), covered, "{wanted}");
    }
}

const CONTROLLERS: &[&str] = &[
    "cronjob-controller",
    "daemonset-controller",
    "deployment-controller",
    "endpointslice-controller",
    "garbage-collector-controller",
    "job-controller",
    "replicaset-controller",
    "statefulset-controller",
];

/// Controllers with the printed roles and nothing else, against an API server
/// that asks the roles.
#[tokio::test(flavor = "multi_thread")]
async fn controllers_work_with_the_printed_roles_alone() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let config = ClusterConfig {
        authorization: AuthorizationMode::Rbac,
        ..ClusterConfig::new(dir.path().join("cluster"))
    };
    let cluster = Cluster::start(config).await?;
    let cancel = tokio_util::sync::CancellationToken::new();
    let nodes = Nodes::start(
        InProcess::new(cluster.rest().clone(), "kubelet"),
        NodesConfig::default(),
        cancel.clone(),
    );
    nodes.add_count("node-", 2).await.map_err(|s| anyhow::anyhow!(s.message))?;
    let controllers_dir = dir.path().join("controllers");
    std::fs::create_dir(&controllers_dir)?;
    for name in CONTROLLERS {
        std::fs::write(controllers_dir.join(format!("{name}.wasm")), module(name)?)?;
    }

    // What the program prints is what is created.
    let printed = Command::new(built_program())
        .arg("rbac")
        .arg(&controllers_dir)
        .args(["--service-account", "kube-system/mate"])
        .output()?;
    ensure!(printed.status.success(), "{}", String::from_utf8_lossy(&printed.stderr));
    let text = String::from_utf8(printed.stdout)?;
    let api = cluster.api();
    let create = |plural: &str, object: &Value| {
        let target = Target::new(object["apiVersion"].as_str().unwrap_or_default(), plural)
            .in_namespace(object["metadata"]["namespace"].as_str().unwrap_or_default());
        api.create(&target, object).map_err(|s| anyhow::anyhow!("{plural}: {}", s.message))
    };
    create(
        "serviceaccounts",
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"namespace": "kube-system", "name": "mate"}}),
    )?;
    let mut kinds = BTreeMap::new();
    for document in text.split("---\n") {
        let object: Value = serde_yaml::from_str(document)?;
        let kind = object["kind"].as_str().context("a kind")?.to_owned();
        create(&format!("{}s", kind.to_lowercase()), &object)?;
        *kinds.entry(kind).or_insert(0) += 1;
    }
    let count = CONTROLLERS.len();
    assert_eq!(
        kinds.into_iter().collect::<Vec<_>>(),
        [
            ("ClusterRole".to_owned(), count),
            ("ClusterRoleBinding".to_owned(), count),
            ("Role".to_owned(), 1),
            ("RoleBinding".to_owned(), 1)
        ]
    );

    let _ = coxswain::install_crypto();
    let file = kube::config::Kubeconfig::read_from(cluster.kubeconfig_path())?;
    let mut kube = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
    let admin = kube::Client::try_from(kube.clone())?;
    let body =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": []}});
    let post = http::Request::post("/api/v1/namespaces/kube-system/serviceaccounts/mate/token")
        .header("content-type", "application/json")
        .body(serde_json::to_vec(&body)?)?;
    let token: Value = admin.request(post).await?;
    let token = token["status"]["token"].as_str().context("a token")?.to_owned();
    kube.read_timeout = None;
    kube.auth_info = serde_json::from_value(json!({"token": token}))?;
    let manager = coxswain::manager::Manager::start(manager_config(kube, &controllers_dir)).await?;
    tokio::time::timeout(Duration::from_secs(60), manager.ready())
        .await
        .with_context(|| manager.status().to_text())?;

    let template = |app: &str| json!({"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "i:1"}]}});
    let labels = |app: &str| json!({"matchLabels": {"app": app}});
    let meta = |name: &str| json!({"namespace": "default", "name": name});
    create("deployments", &deployment("default", "web", 3))?;
    create(
        "statefulsets",
        &json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta("db"),
        "spec": {"serviceName": "db", "replicas": 2, "selector": labels("db"), "template": template("db"),
            "persistentVolumeClaimRetentionPolicy": {"whenDeleted": "Delete", "whenScaled": "Delete"},
            "volumeClaimTemplates": [{"metadata": {"name": "v"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}]}}),
    )?;
    create(
        "daemonsets",
        &json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": meta("agent"),
        "spec": {"selector": labels("agent"), "template": template("agent")}}),
    )?;
    let mut job = template("job");
    job["spec"]["restartPolicy"] = "Never".into();
    job["metadata"]["annotations"] = json!({"sim.coxswain.dev/exit-after": "100ms"});
    create(
        "cronjobs",
        &json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": meta("tick"),
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": job.clone()}}}}),
    )?;
    create(
        "jobs",
        &json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta("once"), "spec": {"template": job}}),
    )?;
    create(
        "services",
        &json!({"apiVersion": "v1", "kind": "Service", "metadata": meta("web"),
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}}),
    )?;

    let get = |version: &str, plural: &str, name: &str| {
        api.get(&Target::new(version, plural).in_namespace("default").named(name)).unwrap_or_default()
    };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    loop {
        let slices = api
            .list(&Target::new("discovery.k8s.io/v1", "endpointslices").in_namespace("default"), "", "")
            .await;
        let slices = slices.map(|(items, _)| items).unwrap_or_default();
        let done = [
            ("deployment", get("apps/v1", "deployments", "web")["status"]["readyReplicas"] == 3),
            (
                "statefulset claims",
                get("v1", "persistentvolumeclaims", "v-db-0")["metadata"]["ownerReferences"].is_array(),
            ),
            ("daemonset", get("apps/v1", "daemonsets", "agent")["status"]["numberReady"] == 2),
            ("job", get("batch/v1", "jobs", "once")["status"]["succeeded"] == 1),
            (
                "slices",
                slices.iter().any(|slice| slice["endpoints"].as_array().is_some_and(|e| e.len() == 3)),
            ),
        ];
        if done.iter().all(|(_, done)| *done) {
            break;
        }
        ensure!(tokio::time::Instant::now() < deadline, "{done:?}\n{}", manager.status().to_text());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    // Collected in the foreground, which needs the blocking owner references.
    let web = Target::new("apps/v1", "deployments").in_namespace("default").named("web");
    let foreground = DeleteOptions { propagation: Some(Propagation::Foreground), ..DeleteOptions::default() };
    api.delete(&web, &foreground).map_err(|s| anyhow::anyhow!(s.message))?;
    while api.get(&web).is_ok() {
        ensure!(tokio::time::Instant::now() < deadline, "still there\n{}", manager.status().to_text());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for controller in manager.status().controllers {
        let error = controller.last_error.map(|error| error.reason).unwrap_or_default();
        ensure!(!error.contains("orbidden"), "{}: {error}", controller.name);
    }
    let events = api.list(&Target::new("v1", "events").in_namespace("default"), "", "").await;
    ensure!(events.is_ok_and(|(items, _)| !items.is_empty()), "events are recorded too");
    manager.shutdown().await;
    cancel.cancel();
    cluster.shutdown().await;
    Ok(())
}
