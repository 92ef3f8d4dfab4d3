//! OpenTelemetry: a collector that stands still, and a program that sends to it.

use std::{
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use coxswain_localcluster::{Cluster, ClusterConfig, Target};
use coxswain_tests::{LIMIT, built_program, deployment, module, text};
use http_body_util::{BodyExt, Full};
use hyper::{body::Incoming, service::service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use serde_json::Value;

/// When the next Deployment is made.
const NEXT: Duration = Duration::from_secs(5);

/// The spans that a collector was sent.
type Spans = Arc<Mutex<Vec<Value>>>;

/// A collector, and its address.
async fn collector() -> anyhow::Result<(String, Spans)> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = format!("http://{}", listener.local_addr()?);
    let spans = Spans::default();
    let seen = spans.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let seen = seen.clone();
            let answer = service_fn(move |request: http::Request<Incoming>| {
                let seen = seen.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await?.to_bytes();
                    let sent: Value = serde_json::from_slice(&body).unwrap_or_default();
                    let known = path == "/v1/traces" && sent["resourceSpans"].is_array();
                    for resource in sent["resourceSpans"].as_array().into_iter().flatten() {
                        for scope in resource["scopeSpans"].as_array().into_iter().flatten() {
                            for span in scope["spans"].as_array().into_iter().flatten() {
                                let mut span = span.clone();
                                span["resource"] = resource["resource"].clone();
                                seen.lock().push(span);
                            }
                        }
                    }
                    let answer = http::Response::builder().status(if known { 200 } else { 400 });
                    let answer = answer.header("content-type", "application/json");
                    Ok::<_, anyhow::Error>(answer.body(Full::new(bytes::Bytes::from_static(b"{}")))?)
                }
            });
            tokio::spawn(async move {
                let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
                let _ = server.serve_connection(TokioIo::new(stream), answer).await;
            });
        }
    });
    Ok((address, spans))
}

/// An attribute's text.
fn attribute<'a>(span: &'a Value, key: &str) -> &'a str {
    let all = span["attributes"].as_array().into_iter().flatten();
    all.filter(|one| one["key"] == key)
        .map(|one| text(&one["value"]["stringValue"]))
        .next()
        .unwrap_or_default()
}

/// Whether a pod's creation can be followed back to the event that led to it.
fn followed(spans: &[Value]) -> Option<(Value, Value, Value)> {
    let parent = |span: &Value| {
        let of = |one: &&Value| one["spanId"] == span["parentSpanId"] && one["traceId"] == span["traceId"];
        spans.iter().find(of).cloned()
    };
    spans
        .iter()
        .filter(|span| span["name"] == "write" && attribute(span, "k8s.resource").contains("pods"))
        .find_map(|write| {
            let reconcile = parent(write)?;
            let event = parent(&reconcile)?;
            Some((event, reconcile, write.clone()))
        })
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_leads_from_a_watch_event_to_a_write() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let controllers = dir.path().join("controllers");
    std::fs::create_dir(&controllers)?;
    for name in ["deployment-controller", "replicaset-controller"] {
        std::fs::write(controllers.join(format!("{name}.wasm")), module(name)?)?;
    }
    let cluster = Cluster::start(ClusterConfig::new(dir.path().join("cluster"))).await?;
    let sent: Arc<Mutex<Vec<String>>> = Arc::default();
    let traced = sent.clone();
    cluster.rest().set_witness(Box::new(move |request| {
        if request.method == "POST" && request.path.ends_with("/pods") {
            let header = request.headers.get("traceparent").and_then(|value| value.to_str().ok());
            traced.lock().push(header.unwrap_or_default().to_owned());
        }
    }));
    let (address, spans) = collector().await?;
    let log = dir.path().join("log");
    let mut child = Command::new(built_program())
        .args(["run", "--status-address=off", "--leader-elect=false", "--secure-port=0", "--kubeconfig"])
        .arg(cluster.kubeconfig_path())
        .arg("--controllers-dir")
        .arg(&controllers)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", &address)
        .env("OTEL_BSP_SCHEDULE_DELAY", "200")
        .env("OTEL_RESOURCE_ATTRIBUTES", "k8s.cluster.name=here")
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(&log)?)
        .spawn()?;
    let begun = Instant::now();
    let mut made = 0;
    let found = loop {
        if let Some(found) = followed(&spans.lock()) {
            break found;
        }
        // What comes by a list comes of no event, and while modules are loaded resources are listed again.
        if begun.elapsed() >= NEXT * made {
            let name = format!("web-{made}");
            let target = Target::new("apps/v1", "deployments").in_namespace("default").named(&name);
            let made_now = cluster.api().create(&target, &deployment("default", &name, 2));
            made_now.map_err(|s| anyhow::anyhow!(s.message))?;
            made += 1;
        }
        if begun.elapsed() > LIMIT {
            let _ = child.kill();
            let names: Vec<_> = spans.lock().iter().map(|span| text(&span["name"]).to_owned()).collect();
            anyhow::bail!("no trace in {names:?}: {}", std::fs::read_to_string(&log)?);
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    Command::new("kill").args(["-TERM", &child.id().to_string()]).status()?;
    ensure!(child.wait()?.success(), "{}", std::fs::read_to_string(&log)?);

    let (event, reconcile, write) = found;
    ensure!(
        event["name"] == "watch event" && event["parentSpanId"].as_str().is_none_or(str::is_empty),
        "{event}"
    );
    ensure!(attribute(&event, "k8s.resource").contains("replicasets"), "{event}");
    ensure!(reconcile["name"] == "reconcile", "{reconcile}");
    ensure!(attribute(&reconcile, "controller") == "replicaset-controller", "{reconcile}");
    ensure!(attribute(&reconcile, "key").starts_with("default/web-"), "{reconcile}");
    ensure!(attribute(&write, "k8s.verb") == "create", "{write}");
    let resource = |key: &str| attribute(&write["resource"], key).to_owned();
    ensure!(resource("service.name") == "coxswain" && resource("k8s.cluster.name") == "here", "{write}");
    // What the API server was told continues the trace.
    let headers = sent.lock().clone();
    let (trace, span) = (text(&write["traceId"]), text(&write["spanId"]));
    let header = headers.iter().find(|header| header.contains(span)).context("no request of the span")?;
    ensure!(*header == format!("00-{trace}-{span}-01"), "{header}");
    // Each round of the module is a part of it as well.
    let spans = spans.lock().clone();
    let computes =
        spans.iter().filter(|one| one["name"] == "compute" && one["parentSpanId"] == reconcile["spanId"]);
    ensure!(computes.count() >= 1, "{reconcile}");
    cluster.shutdown().await;
    Ok(())
}

#[test]
fn what_is_wrong_with_the_environment_is_said_in_one_line() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let kubeconfig = dir.path().join("config");
    std::fs::write(
        &kubeconfig,
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], \
         clusters: [{name: k, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {}}]}",
    )?;
    let output = Command::new(built_program())
        .args(["run", "--status-address=off", "--kubeconfig"])
        .arg(&kubeconfig)
        .env("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:4317")
        .env("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
        .output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let last = errors.trim().lines().last().unwrap_or_default();
    ensure!(
        last.starts_with("error: OTEL_EXPORTER_OTLP_PROTOCOL=grpc: only http/json is spoken"),
        "{errors}"
    );
    ensure!(output.status.code() == Some(1), "{errors}");
    Ok(())
}
