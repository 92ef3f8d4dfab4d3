//! The endpoints, over TLS against a cluster that authorizes by roles.

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use anyhow::{Context, ensure};
use coxswain::{
    manager::Manager,
    serving::{self, Check, Serving},
};
use coxswain_localcluster::{
    AuthorizationMode, Cluster, ClusterConfig, InProcess, Target, faults::Rule, patch::PatchType,
};
use coxswain_tests::{LIMIT, module, start_manager_with};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::serving_client::{Answer, Client};

const RBAC: &str = "rbac.authorization.k8s.io/v1";

/// A cluster with roles, a manager with one controller, and its endpoints.
pub struct Endpoints {
    cluster: Cluster,
    manager: Arc<Manager>,
    address: SocketAddr,
    dir: TempDir,
    cancel: CancellationToken,
}

impl Endpoints {
    pub async fn start(change: impl FnOnce(&mut Serving, &Path)) -> anyhow::Result<Self> {
        Self::start_with(&["job-controller"], Vec::new(), change).await
    }

    async fn start_with(
        controllers: &[&str],
        checks: Vec<Check>,
        change: impl FnOnce(&mut Serving, &Path),
    ) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let controllers_dir = dir.path().join("controllers");
        std::fs::create_dir(&controllers_dir)?;
        for name in controllers {
            std::fs::write(controllers_dir.join(format!("{name}.wasm")), module(name)?)?;
        }
        let config = ClusterConfig {
            authorization: AuthorizationMode::Rbac,
            ..ClusterConfig::new(dir.path().join("cluster"))
        };
        let cluster = Cluster::start(config).await?;
        let mut serving = Serving {
            bind_address: [127, 0, 0, 1].into(),
            secure_port: Some(free_port()?),
            client_ca_file: Some(dir.path().join("cluster/pki/ca.crt")),
            ..Serving::default()
        };
        change(&mut serving, dir.path());
        let given = serving.clone();
        let manager =
            start_manager_with(cluster.kubeconfig_path(), &controllers_dir, |config| config.serving = given)
                .await?;
        tokio::time::timeout(LIMIT, manager.ready()).await.context("not ready")?;
        let cancel = CancellationToken::new();
        let address = serving::start(manager.clone(), serving, checks, cancel.clone()).await?;
        let address = address.context("no endpoints")?;
        Ok(Self { cluster, manager, address, dir, cancel })
    }

    fn client(&self) -> Client {
        Client::new(self.address)
    }

    /// With the certificate of a member of system:masters.
    pub fn admin(&self) -> anyhow::Result<Client> {
        self.client().certificate(&self.dir.path().join("cluster/pki/admin"))
    }

    fn api(&self) -> InProcess {
        self.cluster.api()
    }

    pub fn create(
        &self,
        api_version: &str,
        plural: &str,
        namespace: &str,
        object: &Value,
    ) -> anyhow::Result<Value> {
        let target = Target::new(api_version, plural).in_namespace(namespace);
        self.api().create(&target, object).map_err(|s| anyhow::anyhow!("{plural}: {}", s.message))
    }

    /// The token of a service account in default, which may get `paths`.
    async fn account(&self, name: &str, paths: &[&str]) -> anyhow::Result<String> {
        self.create("v1", "serviceaccounts", "default", &json!({"metadata": {"name": name}}))?;
        if !paths.is_empty() {
            let rules = json!([{"nonResourceURLs": paths, "verbs": ["get"]}]);
            self.create(RBAC, "clusterroles", "", &json!({"metadata": {"name": name}, "rules": rules}))?;
            self.create(
                RBAC,
                "clusterrolebindings",
                "",
                &json!({
                    "metadata": {"name": name},
                    "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
                    "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": "default"}],
                }),
            )?;
        }
        let path = format!("/api/v1/namespaces/default/serviceaccounts/{name}/token");
        let asked = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
        let headers = [(http::header::CONTENT_TYPE, "application/json")];
        let sent =
            self.manager.api().send(http::Method::POST, &path, &headers, asked.to_string().into(), LIMIT);
        let made: Value = serde_json::from_slice(&sent.await?.body)?;
        Ok(made["status"]["token"].as_str().context("no token")?.to_owned())
    }

    pub async fn stop(self) {
        self.cancel.cancel();
        self.manager.shutdown().await;
        self.cluster.shutdown().await;
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// The value of a series, by the beginning of its line.
fn value(text: &str, series: &str) -> Option<f64> {
    let line =
        text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_asks_gets_what_the_api_server_says_they_may() -> anyhow::Result<()> {
    let endpoints = Endpoints::start(|_, _| {}).await?;
    let scraper = endpoints.account("scraper", &["/metrics"]).await?;
    let nobody = endpoints.account("nobody", &[]).await?;
    let (anonymous, admin) = (endpoints.client(), endpoints.admin()?);
    let stranger = endpoints.client().self_signed("stranger")?;
    let table = [
        ("anybody may ask for health", &anonymous, None, "/healthz", 200),
        ("nobody else is let in without a name", &anonymous, None, "/metrics", 403),
        ("a member of system:masters may see all", &admin, None, "/metrics", 200),
        ("a role lets a token in", &anonymous, Some(scraper.as_str()), "/metrics", 200),
        ("to what it names", &anonymous, Some(&scraper), "/configz", 403),
        ("and nobody else", &anonymous, Some(&nobody), "/metrics", 403),
        ("a token of nobody's is refused", &anonymous, Some("made.up.token"), "/metrics", 401),
        ("even where all are let in", &anonymous, Some("made.up.token"), "/healthz", 401),
        ("a certificate of a stranger's is refused", &stranger, None, "/metrics", 401),
        ("what is not there is not found", &admin, None, "/nowhere", 404),
    ];
    for (what, client, token, path, status) in table {
        let answer = client.get(path, token).await.with_context(|| what.to_owned())?;
        ensure!(answer.status == status, "{what}: {} {}", answer.status, answer.body);
    }
    let refused = anonymous.get("/metrics", None).await?;
    ensure!(
        refused.body.contains(r#"User \"system:anonymous\" cannot get path \"/metrics\""#),
        "{}",
        refused.body
    );
    // Answers are remembered: the same again asks nobody.
    let before =
        value(&endpoints.manager.metrics_text(), r#"apiserver_delegated_authz_request_total{code="201"}"#);
    anonymous.get("/metrics", Some(&scraper)).await?;
    let after =
        value(&endpoints.manager.metrics_text(), r#"apiserver_delegated_authz_request_total{code="201"}"#);
    ensure!(before.is_some() && before == after, "{before:?} {after:?}");
    endpoints.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_speaks_for_others_if_the_cluster_says_so() -> anyhow::Result<()> {
    let endpoints = Endpoints::start(|serving, _| serving.client_ca_file = None).await?;
    let front = crate::serving_client::authority("front-proxy-ca")?;
    let published = json!({"data": {
        "client-ca-file": std::fs::read_to_string(endpoints.dir.path().join("cluster/pki/ca.crt"))?,
        "requestheader-client-ca-file": front.pem,
        "requestheader-allowed-names": r#"["front-proxy-client"]"#,
        "requestheader-username-headers": r#"["X-Remote-User"]"#,
        "requestheader-group-headers": r#"["X-Remote-Group"]"#,
        "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
    }});
    let target = Target::new("v1", "configmaps").in_namespace("kube-system");
    let target = target.named("extension-apiserver-authentication");
    let patched = endpoints.api().patch(&target, PatchType::Merge, &published);
    patched.map_err(|s| anyhow::anyhow!(s.message))?;
    let proxy = endpoints.client().signed_by(&front, "front-proxy-client")?;
    let other = endpoints.client().signed_by(&front, "somebody-else")?;
    let headers = [("X-Remote-User", "ann"), ("X-Remote-Group", "system:masters")];
    // The cluster is asked again until it says.
    let end = tokio::time::Instant::now() + LIMIT;
    while proxy.get_with("/metrics", &headers).await?.status != 200 {
        ensure!(tokio::time::Instant::now() < end, "the proxy is never believed");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    let cases = [
        ("a name that is not allowed", other.get_with("/metrics", &headers).await?, 401),
        (
            "headers without a certificate say nothing",
            endpoints.client().get_with("/metrics", &headers).await?,
            403,
        ),
        ("the client authority is published too", endpoints.admin()?.get("/metrics", None).await?, 200),
        (
            "without a group there is no more than the name",
            proxy.get_with("/metrics", &headers[..1]).await?,
            403,
        ),
    ];
    for (what, answer, status) in cases {
        ensure!(answer.status == status, "{what}: {} {}", answer.status, answer.body);
    }
    endpoints.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_does_not_answer_reviews_is_survived() -> anyhow::Result<()> {
    let endpoints = Endpoints::start(|_, _| {}).await?;
    let token = endpoints.account("scraper", &["/metrics"]).await?;
    let broken = |resource: &str| -> anyhow::Result<Rule> {
        let rule = json!({"on": {"resource": resource}, "action": {"type": "serverError"}});
        Ok(Rule::parse(rule.to_string().as_bytes())?)
    };
    let faults = endpoints.cluster.rest().faults();
    let one = faults.add(broken("tokenreviews")?);
    let answer = endpoints.client().get("/metrics", Some(&token)).await?;
    ensure!(answer.status == 401, "{} {}", answer.status, answer.body);
    faults.remove(one);
    let two = faults.add(broken("subjectaccessreviews")?);
    let answer = endpoints.client().get("/metrics", Some(&token)).await?;
    ensure!(
        answer.status == 500 && answer.body.contains("cannot find out"),
        "{} {}",
        answer.status,
        answer.body
    );
    // Whoever needs no answer gets in all the same.
    ensure!(endpoints.admin()?.get("/metrics", None).await?.status == 200, "system:masters");
    ensure!(endpoints.client().get("/healthz", None).await?.status == 200, "health");
    faults.remove(two);
    let answer = endpoints.client().get("/metrics", Some(&token)).await?;
    ensure!(answer.status == 200, "{} {}", answer.status, answer.body);
    let text = endpoints.manager.metrics_text();
    for series in ["apiserver_delegated_authn_request_total", "apiserver_delegated_authz_request_total"] {
        let counted = value(&text, &format!("{series}{{code=\"500\"}}"));
        ensure!(counted.is_some_and(|count| count >= 1.0), "{series}: {counted:?}");
    }
    endpoints.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn certificates_are_read_again_and_bad_ones_are_not_taken() -> anyhow::Result<()> {
    let first = crate::serving_client::pair("first")?;
    let endpoints = Endpoints::start(|serving, dir| {
        let (certificate, key) = (dir.join("tls.crt"), dir.join("tls.key"));
        std::fs::write(&certificate, &first.0).unwrap();
        std::fs::write(&key, &first.1).unwrap();
        (serving.tls_cert_file, serving.tls_private_key_file) = (Some(certificate), Some(key));
    })
    .await?;
    let name =
        async || -> anyhow::Result<String> { Ok(endpoints.client().get("/healthz", None).await?.server) };
    ensure!(name().await? == "first", "the certificate given is served");
    // A certificate without its key is no use, and what there was stays.
    let second = crate::serving_client::pair("second")?;
    std::fs::write(endpoints.dir.path().join("tls.crt"), &second.0)?;
    let failures = r#"coxswain_certificate_reload_failures_total{what="serving"}"#;
    let end = tokio::time::Instant::now() + LIMIT;
    while value(&endpoints.manager.metrics_text(), failures).is_none() {
        ensure!(tokio::time::Instant::now() < end, "the failure is never counted");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    ensure!(name().await? == "first", "a half-written pair is not taken");
    std::fs::write(endpoints.dir.path().join("tls.key"), &second.1)?;
    let end = tokio::time::Instant::now() + LIMIT;
    while name().await? != "second" {
        ensure!(tokio::time::Instant::now() < end, "the new certificate is never served");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    endpoints.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_paths_say_what_they_are_for() -> anyhow::Result<()> {
    let disk = Check::new("disk", || Err("it is full".to_owned()));
    let endpoints = Endpoints::start_with(&["job-controller"], vec![disk], |serving, _| {
        serving.configz = json!({"kubecontrollermanager.config.k8s.io": {"Generic": {"Port": 10257}}});
        serving.flags.insert("secure-port".to_owned(), "10257".to_owned());
    })
    .await?;
    let admin = endpoints.admin()?;
    let get = async |path: &str| -> anyhow::Result<Answer> { admin.get(path, None).await };
    let failed = get("/healthz").await?;
    ensure!(failed.status == 500, "{}", failed.body);
    let wanted = "[+]ping ok\n[-]disk failed: reason withheld\n[+]leaderElection ok\n[+]job-controller ok\nhealthz check failed\n";
    ensure!(failed.body == wanted, "{}", failed.body);
    ensure!(get("/healthz?exclude=disk").await?.body == "ok", "exclude");
    ensure!(get("/livez?verbose&exclude=disk").await?.body.ends_with("livez check passed\n"), "verbose");
    ensure!(get("/readyz?exclude=disk").await?.status == 200, "all is loaded and synced");
    ensure!(get("/healthz/job-controller").await?.body == "ok", "one check");
    ensure!(get("/healthz/disk").await?.status == 500, "one that fails");
    ensure!(get("/healthz/none").await?.status == 404, "none of the name");
    let slis = get("/metrics/slis").await?.body;
    ensure!(value(&slis, r#"kubernetes_healthcheck{name="disk",type="healthz"}"#) == Some(0.0), "{slis}");
    let configz: Value = serde_json::from_str(&get("/configz").await?.body)?;
    ensure!(configz["kubecontrollermanager.config.k8s.io"]["Generic"]["Port"] == 10257, "{configz}");
    ensure!(get("/flagz").await?.body.contains("\nsecure-port=10257\n"), "flagz");
    ensure!(get("/statusz").await?.body.contains("Binary version: v1.36"), "statusz");
    let version: Value = serde_json::from_str(&get("/version").await?.body)?;
    ensure!(
        version["major"] == "1" && version["gitVersion"].as_str().is_some_and(|v| v.contains("coxswain")),
        "{version}"
    );
    let debug: Value = serde_json::from_str(&get("/debug/controllers").await?.body)?;
    ensure!(debug["controllers"][0]["name"] == "job-controller", "{debug}");
    ensure!(get("/debug/controllers/none").await?.status == 404, "no such controller");
    ensure!(get("/debug/pprof/heap").await?.body.contains("Rss:"), "heap");
    ensure!(get("/debug/pprof/profile?seconds=0").await?.status == 400, "seconds");
    endpoints.stop().await;

    let endpoints = Endpoints::start(|serving, _| serving.profiling = false).await?;
    ensure!(endpoints.admin()?.get("/debug/controllers", None).await?.status == 404, "--profiling=false");
    endpoints.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_says_what_it_read_did_and_waits_for() -> anyhow::Result<()> {
    let endpoints = Endpoints::start(|_, _| {}).await?;
    let admin = endpoints.admin()?;
    let key = async |name: &str| -> anyhow::Result<Value> {
        let path = format!("/debug/controllers/job?key=default/{name}");
        let answer: Value = serde_json::from_str(&admin.get(&path, None).await?.body)?;
        Ok(answer["keys"][0].clone())
    };
    let until = async |name: &str, what: &str, holds: &dyn Fn(&Value) -> bool| -> anyhow::Result<Value> {
        let end = tokio::time::Instant::now() + LIMIT;
        loop {
            let key = key(name).await?;
            if holds(&key) {
                return Ok(key);
            }
            ensure!(tokio::time::Instant::now() < end, "{name}: not {what}: {key:#}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let job = |name: &str| {
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name},
            "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}})
    };
    // Pods cannot be made at first.
    let broken = json!({"on": {"resource": "pods", "verbs": ["create"]}, "action": {"type": "serverError"}});
    let faults = endpoints.cluster.rest().faults();
    let fault = faults.add(Rule::parse(broken.to_string().as_bytes())?);
    endpoints.create("batch/v1", "jobs", "default", &job("one"))?;
    // This controller says itself when it comes back.
    let failing = until("one", "failing", &|key| {
        text(&key["lastDid"]["cameTo"]).starts_with("0 of 1 actions done; create: InternalError")
            && text(&key["waitsFor"]).starts_with("the time it named itself, in ")
            // It may be caught just as it is due.
            && key["dueInMillis"].as_u64() > Some(0)
    })
    .await?;
    ensure!(failing["state"] == "waiting", "{failing:#}");
    faults.remove(fault);
    let read = |key: &Value, resource: &str, by: &str, object: &str| {
        let found = key["reads"]["found"].as_array().cloned().unwrap_or_default();
        found.iter().any(|one| {
            let first =
                one["first"].as_array().is_some_and(|all| all.iter().any(|o| text(o).starts_with(object)));
            text(&one["resource"]) == resource && text(&one["by"]).starts_with(by) && first
        })
    };
    let rests = until("one", "at rest", &|key| {
        key["state"] == "at rest" && read(key, "pods/v1", "controller ", "default/one-")
    })
    .await?;
    ensure!(read(&rests, "jobs.batch/v1", "name", "default/one"), "{rests:#}");
    ensure!(text(&rests["waitsFor"]) == "a change of what it reads", "{rests:#}");
    let did = &rests["lastDid"];
    ensure!(
        text(&did["outcome"]).contains("actions: ") && text(&did["cameTo"]).contains(" actions done"),
        "{did:#}"
    );
    // Whoever asks for no key is shown none at rest.
    let all: Value = serde_json::from_str(&admin.get("/debug/controllers/job", None).await?.body)?;
    ensure!(all["keys"].as_array().is_some_and(Vec::is_empty), "{all:#}");
    endpoints.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_that_is_taken_is_named() -> anyhow::Result<()> {
    let endpoints = Endpoints::start(|_, _| {}).await?;
    let again = |port| {
        let config = Serving {
            bind_address: [127, 0, 0, 1].into(),
            secure_port: port,
            skip_lookup: true,
            ..Serving::default()
        };
        serving::start(endpoints.manager.clone(), config, Vec::new(), CancellationToken::new())
    };
    let error = again(Some(endpoints.address.port())).await.err().context("listens twice")?.to_string();
    ensure!(error.contains("cannot listen on") && error.contains("--secure-port"), "{error}");
    ensure!(again(Some(0)).await?.is_none(), "0 is none");
    endpoints.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn metrics_have_the_names_that_dashboards_know() -> anyhow::Result<()> {
    let endpoints =
        Endpoints::start(|serving, _| serving.disabled_metrics = vec!["process_threads".to_owned()]).await?;
    let job = json!({"metadata": {"name": "pi"}, "spec": {"template": {
        "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    endpoints.create("batch/v1", "jobs", "default", &job)?;
    let synced = r#"job_controller_job_syncs_total{action="pods_created",completion_mode="NonIndexed",result="success"}"#;
    let end = tokio::time::Instant::now() + LIMIT;
    let text = loop {
        let text = endpoints.admin()?.get("/metrics", None).await?.body;
        if value(&text, synced).is_some() && value(&text, r#"workqueue_depth{name="job"}"#) == Some(0.0) {
            break text;
        }
        ensure!(tokio::time::Instant::now() < end, "no {synced} in\n{text}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    for series in [
        r#"workqueue_adds_total{name="job"}"#,
        r#"workqueue_queue_duration_seconds_count{name="job"}"#,
        r#"workqueue_work_duration_seconds_bucket{name="job",le="+Inf"}"#,
        r#"workqueue_retries_total{name="job"}"#,
        r#"workqueue_longest_running_processor_seconds{name="job"}"#,
        r#"workqueue_unfinished_work_seconds{name="job_orphan_pod"}"#,
        r#"running_managed_controllers{manager="kube-controller-manager",name="job-controller"}"#,
        r#"coxswain_plan_actions_total{controller="job-controller",result="done",verb="create"}"#,
        r#"coxswain_keys{controller="job-controller",state="ready"}"#,
        r#"coxswain_cache_objects{resource="jobs.batch/v1"}"#,
        "process_resident_memory_bytes",
        "process_start_time_seconds",
    ] {
        ensure!(value(&text, series).is_some(), "no {series} in\n{text}");
    }
    let host = endpoints.cluster.address();
    let posts = format!(r#"rest_client_requests_total{{code="201",host="{host}",method="POST"}}"#);
    ensure!(value(&text, &posts).is_some_and(|count| count >= 1.0), "no {posts} in\n{text}");
    let took = r#"job_controller_job_sync_duration_seconds_bucket{action="pods_created",completion_mode="NonIndexed",result="success",le="65.536"}"#;
    ensure!(value(&text, took) == value(&text, synced), "{took} in\n{text}");
    ensure!(!text.contains("process_threads"), "--disabled-metrics");
    ensure!(
        text.contains(
            "# HELP workqueue_depth [BETA] Current depth of workqueue\n# TYPE workqueue_depth gauge\n"
        ),
        "{text}"
    );
    endpoints.stop().await;
    Ok(())
}
