//! Figures of the API server: creates a second over loopback, memory an object, the cost of watchers, and a thousand
//! simulated nodes with twenty thousand pods.
//!
//! Prints one line a figure. Client and server share the process and the cores, as they do in a demo.

#[path = "../tests/support/mod.rs"]
mod support;

use std::time::{Duration, Instant};

use coxswain_localcluster::nodes::{Nodes, NodesConfig};
use coxswain_localcluster::patch::PatchType;
use coxswain_localcluster::rest::{Body, Request, admin};
use coxswain_localcluster::{InProcess, Target};
use futures::StreamExt;
use serde_json::{Value, json};
use support::{Running, start};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio_util::sync::CancellationToken;

const CONNECTIONS: usize = 8;
const PODS: usize = 20_000;
const UPDATES: usize = 2_000;
const NODES: usize = 1_000;

fn main() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    runtime.block_on(async {
        creates().await;
        let mut one = None;
        for watchers in [0, 1, 100] {
            let spent = watched_updates(watchers).await;
            match one {
                Some(one) if watchers > 1 => {
                    let lines = ((watchers - 1) * UPDATES) as f64;
                    let each = spent.saturating_sub(one).as_secs_f64() / lines;
                    println!("a further watcher costs {:.2} \u{b5}s of CPU an event", each * 1e6);
                }
                _ => one = Some(spent),
            }
        }
        one_encoding().await;
        simulated().await;
    });
}

fn pod(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "labels": {"app": "web", "pod-template-hash": "7d4b8c6f9"},
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d4b8c6f9",
                "uid": "5f2b8f0e-2f0b-4d3e-9d2a-1b8f8f0e2f0b", "controller": true, "blockOwnerDeletion": true,
            }],
        },
        "spec": {"containers": [{"name": "web", "image": "registry.example.com/web:1"}]},
    })
}

/// Pods created by clients that each wait for an answer before they ask again.
async fn creates() {
    let running = start(|_| {}).await;
    let before = (Instant::now(), cpu(), resident());
    let each = PODS / CONNECTIONS;
    let clients: Vec<_> = (0..CONNECTIONS).map(|client| create_some(&running, client, each)).collect();
    futures::future::join_all(clients).await;
    let seconds = before.0.elapsed().as_secs_f64();
    let made = each * CONNECTIONS;
    println!(
        "creates over loopback: {:.0} pods/s ({made} pods, {seconds:.1} s, {:.1} CPU s with the clients')",
        made as f64 / seconds,
        (cpu() - before.1).as_secs_f64(),
    );
    let (pods, _) = running
        .cluster
        .api()
        .list(&Target::new("v1", "pods"), "", "metadata.name=p-0-0")
        .await
        .expect("lists");
    let size = pods.first().map_or(0, |pod| pod.to_string().len());
    // The history still holds what was created, so an object is in memory once.
    println!("memory: {} bytes a pod of {size} bytes of JSON", resident().saturating_sub(before.2) / made);
}

async fn create_some(running: &Running, client: usize, count: usize) {
    let (read, mut write) = tokio::io::split(running.connect(true).await);
    let mut read = BufReader::new(read);
    for number in 0..count {
        let body = pod(&format!("p-{client}-{number}")).to_string();
        let request = format!(
            "POST /api/v1/namespaces/default/pods HTTP/1.1\r\nhost: x\r\nuser-agent: bench/1\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        write.write_all(request.as_bytes()).await.expect("writes");
        write.flush().await.expect("flushes");
        let mut length = 0;
        let mut line = String::new();
        let mut first = true;
        loop {
            line.clear();
            read.read_line(&mut line).await.expect("reads");
            if first {
                assert!(line.contains(" 201 "), "{line}");
                first = false;
            }
            if line == "\r\n" {
                break;
            }
            if let Some((name, value)) = line.split_once(':') {
                if name.eq_ignore_ascii_case("content-length") {
                    length = value.trim().parse().expect("length");
                }
            }
        }
        let mut body = vec![0; length];
        read.read_exact(&mut body).await.expect("reads the body");
    }
}

/// Updates of one object while watchers take the lines that would go to their sockets.
async fn watched_updates(watchers: usize) -> Duration {
    let running = start(|_| {}).await;
    let api = running.cluster.api();
    let target = Target::new("v1", "pods").in_namespace("default");
    let made = api.create(&target, &pod("p")).expect("creates");
    let version = made["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned();
    let mut followers = Vec::new();
    for _ in 0..watchers {
        let request = Request {
            path: "/api/v1/namespaces/default/pods".into(),
            query: format!("watch=1&resourceVersion={version}"),
            identity: Some(admin()),
            ..Request::default()
        };
        let response = running.cluster.rest().handle(request).await.expect("no fault asked for");
        let Body::Stream(mut lines) = response.into_body() else { panic!("not a watch") };
        followers.push(tokio::spawn(async move {
            let mut bytes = 0;
            for _ in 0..UPDATES {
                bytes += lines.next().await.map_or(0, |line| line.len());
            }
            bytes
        }));
    }
    let before = (Instant::now(), cpu());
    let writer = tokio::task::spawn_blocking(move || {
        for number in 0..UPDATES {
            let patch = json!({"metadata": {"annotations": {"n": number.to_string()}}});
            api.patch(&target.named("p"), PatchType::Merge, &patch).expect("patches");
        }
    });
    writer.await.expect("writer");
    let mut bytes = 0;
    for follower in followers {
        bytes += follower.await.expect("follower");
    }
    let spent = cpu() - before.1;
    println!(
        "{UPDATES} updates with {watchers} watchers: {:.2} s, {:.2} CPU s, {} MB sent",
        before.0.elapsed().as_secs_f64(),
        spent.as_secs_f64(),
        bytes >> 20,
    );
    spent
}

/// Watchers of one resource are handed the same bytes, not copies.
async fn one_encoding() {
    let running = start(|_| {}).await;
    let mut watches = Vec::new();
    for _ in 0..100 {
        let request = Request {
            path: "/api/v1/namespaces/default/pods".into(),
            query: "watch=1".into(),
            identity: Some(admin()),
            ..Request::default()
        };
        let response = running.cluster.rest().handle(request).await.expect("no fault asked for");
        let Body::Stream(lines) = response.into_body() else { panic!("not a watch") };
        watches.push(lines);
    }
    let target = Target::new("v1", "pods").in_namespace("default");
    running.cluster.api().create(&target, &pod("p")).expect("creates");
    let mut places = std::collections::BTreeSet::new();
    for lines in &mut watches {
        places.insert(lines.next().await.expect("an event").as_ptr());
    }
    println!("100 watchers of one event: {} encoding(s)", places.len());
    assert_eq!(places.len(), 1, "all watchers share one encoding");
}

/// Whether a pod is not running. One at most is asked for, so that asking costs little.
async fn any_waiting(running: &Running) -> bool {
    let request = Request {
        path: "/api/v1/pods".into(),
        query: "limit=1&fieldSelector=status.phase!%3DRunning".into(),
        identity: Some(admin()),
        ..Request::default()
    };
    let response = running.cluster.rest().handle(request).await.expect("no fault asked for");
    let Body::Full(body) = response.into_body() else { panic!("not a list") };
    let list: Value = serde_json::from_slice(&body).expect("JSON");
    list["items"].as_array().is_some_and(|items| !items.is_empty())
}

/// Simulated nodes and pods: until all are ready, and what they cost then.
async fn simulated() {
    let running = start(|_| {}).await;
    let before = (Instant::now(), cpu(), resident());
    let api = InProcess::new(running.cluster.rest().clone(), "kubelet");
    let cancel = CancellationToken::new();
    let nodes = Nodes::start(api.clone(), NodesConfig::default(), cancel.clone());
    nodes.add_count("node-", NODES).await.expect("nodes come up");
    println!("{NODES} nodes: up after {:.1} s", before.0.elapsed().as_secs_f64());
    let started = (Instant::now(), cpu());
    let each = PODS / CONNECTIONS;
    let clients: Vec<_> = (0..CONNECTIONS).map(|client| create_some(&running, client, each)).collect();
    futures::future::join_all(clients).await;
    while any_waiting(&running).await {
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    println!(
        "{PODS} pods on {NODES} nodes: all running {:.1} s after the first was asked for, {:.1} CPU s, {} MB resident",
        started.0.elapsed().as_secs_f64(),
        (cpu() - started.1).as_secs_f64(),
        (resident() - before.2) >> 20,
    );
    let idle = cpu();
    tokio::time::sleep(Duration::from_secs(20)).await;
    println!(
        "at rest, with a heartbeat every 10 s: {:.1} % of a core",
        (cpu() - idle).as_secs_f64() / 20.0 * 100.0
    );
    cancel.cancel();
}

/// CPU time of this process; zero where the system does not tell.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    // Fields 14 and 15 of the whole line, in hundredths of a second.
    let ticks: u64 = fields.skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

/// Resident bytes of this process; zero where the system does not tell.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: usize = statm.split_whitespace().nth(1).and_then(|n| n.parse().ok()).unwrap_or(0);
    pages * 4096
}
