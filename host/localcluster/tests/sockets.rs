//! Clients that are rude, slow or strangers, and a server that goes on.

mod support;

use std::time::Duration;

use coxswain_localcluster::Target;
use serde_json::{Value, json};
use support::{read_all, send, start};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn json_of(body: &str) -> Value {
    serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_are_refused_and_health_is_open() {
    let running = start(|config| config.admin_token = Some("secret".into())).await;
    for (header, code) in
        [(None, 401), (Some("authorization: Bearer wrong"), 401), (Some("authorization: Bearer secret"), 200)]
    {
        let mut stream = running.connect(false).await;
        let headers: Vec<&str> = header.into_iter().collect();
        send(&mut stream, "GET", "/api/v1/namespaces", &headers, b"").await;
        let reply = read_all(&mut stream).await.expect("an answer");
        assert_eq!(reply.code, code, "{header:?}");
    }
    let mut stream = running.connect(false).await;
    send(&mut stream, "GET", "/healthz", &[], b"").await;
    let reply = read_all(&mut stream).await.expect("an answer");
    assert_eq!((reply.code, reply.body.as_str()), (200, "ok"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rude_requests_get_an_answer_and_harm_nobody() {
    let running = start(|_| {}).await;
    let mut stream = running.connect(true).await;
    stream.write_all(b"\x16\x03\x01 not http\r\n\r\n").await.expect("writes");
    let reply = read_all(&mut stream).await.expect("an answer");
    assert_eq!(reply.code, 400);

    // The request ends in the middle of its body, then the client is gone.
    let mut stream = running.connect(true).await;
    let head = format!("POST {CONFIG_MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{{\"meta");
    stream.write_all(head.as_bytes()).await.expect("writes");
    drop(stream);

    let big = vec![b' '; 3 * 1024 * 1024 + 1];
    let reply = running.ask("POST", CONFIG_MAPS, &["content-type: application/json"], &big).await;
    assert_eq!(reply.code, 413);
    assert_eq!(json_of(&reply.body)["reason"], "RequestEntityTooLarge");

    for path in ["/api/v1/namespaces/default/configmaps/..", "/api/v1/namespaces/default/pods/%25"] {
        assert_eq!(running.ask("GET", path, &[], b"").await.code, 400, "{path}");
    }
    for path in ["/api/v1/../../etc/passwd", "//", "/api//v1", "/apis/apps/v1/namespaces/a/b/c/d/e/f"] {
        let reply = running.ask("GET", path, &[], b"").await;
        assert!(matches!(reply.code, 200 | 404), "{path}: {}", reply.code);
    }
    assert_eq!(running.ask("GET", "/api/v1/pods/%zz", &[], b"").await.code, 400);
    assert_eq!(running.ask("HEAD", "/api/v1/namespaces", &[], b"").await.code, 405);
    assert_eq!(running.ask("GET", "/api/v1/namespaces", &[], b"").await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_has_sent_everything_may_close_its_half() {
    let running = start(|_| {}).await;
    let mut stream = running.connect(true).await;
    stream
        .write_all(b"GET /api/v1/namespaces HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
        .await
        .expect("writes");
    stream.shutdown().await.expect("closes its half");
    let reply = read_all(&mut stream).await.expect("an answer");
    assert_eq!(reply.code, 200);
    assert!(reply.body.contains("kube-system"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watcher_that_does_not_read_slows_nobody() {
    let running = start(|_| {}).await;
    let mut lazy = running.connect(true).await;
    send(&mut lazy, "GET", &format!("{CONFIG_MAPS}?watch=1"), &[], b"").await;
    let api = running.cluster.api();
    let target = Target::new("v1", "configmaps").in_namespace("default");
    let padding = "x".repeat(10_000);
    let work = tokio::task::spawn_blocking(move || {
        for number in 0..2_000 {
            let object = json!({"metadata": {"name": format!("c{number}")}, "data": {"k": padding}});
            api.create(&target, &object).expect("creates");
        }
    });
    tokio::time::timeout(Duration::from_secs(60), work).await.expect("in time").expect("no panic");
    // What it did not read is still there for it, in order.
    let mut seen = Vec::new();
    let mut buffer = vec![0; 64 * 1024];
    while seen.iter().filter(|byte| **byte == b'\n').count() < 100 {
        let read = lazy.read(&mut buffer).await.expect("reads");
        assert!(read > 0, "the watch ended");
        seen.extend_from_slice(&buffer[..read]);
    }
    let text = String::from_utf8_lossy(&seen);
    let place = |name: &str| text.find(&format!("\"name\":\"{name}\"")).expect("is there");
    assert!(place("c1") < place("c2"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_the_cluster_ends_watches() {
    let running = start(|_| {}).await;
    let mut stream = running.connect(true).await;
    send(&mut stream, "GET", &format!("{CONFIG_MAPS}?watch=1"), &[], b"").await;
    let mut first = [0; 12];
    stream.read_exact(&mut first).await.expect("the watch is answered");
    assert_eq!(&first, b"HTTP/1.1 200");
    let shutdown = running.cluster.shutdown();
    tokio::time::timeout(Duration::from_secs(10), shutdown).await.expect("ends in time");
    let mut rest = Vec::new();
    // Whether the end is clean does not matter here, only that it comes.
    let _ = tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut rest))
        .await
        .expect("the stream ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_objects_and_credentials() {
    let dir = tempfile::tempdir().expect("temporary directory");
    let config = |dir: &std::path::Path| {
        let mut config = coxswain_localcluster::ClusterConfig::new(dir.join("cluster"));
        config.data_dir = Some(dir.join("data"));
        config
    };
    let target = Target::new("v1", "configmaps").in_namespace("default");
    let (made, ca) = {
        let cluster = coxswain_localcluster::Cluster::start(config(dir.path())).await.expect("starts");
        let object = json!({"metadata": {"name": "kept"}, "data": {"k": "v"}});
        let made = cluster.api().create(&target, &object).expect("creates");
        let ca = std::fs::read(dir.path().join("cluster/pki/ca.crt")).expect("CA");
        cluster.shutdown().await;
        (made, ca)
    };
    let mut again = Err("not started".to_owned());
    for _ in 0..50 {
        // The writer of the first cluster lets go of the directory on a thread of its own.
        again = coxswain_localcluster::Cluster::start(config(dir.path())).await.map_err(|e| e.to_string());
        if again.is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let cluster = again.expect("starts again");
    assert_eq!(cluster.api().get(&target.named("kept")).expect("is there"), made);
    assert_eq!(std::fs::read(dir.path().join("cluster/pki/ca.crt")).expect("CA"), ca);
    cluster.shutdown().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_asked_for_at_the_admin_endpoint_and_only_there() {
    let closed = start(|_| {}).await;
    assert_eq!(closed.ask("GET", "/localcluster/faults", &[], b"").await.code, 404);

    let running = start(|config| config.admin = true).await;
    let fault = |action: &str| {
        format!(
            r#"{{"on": {{"verbs": ["create"], "group": "", "resource": "configmaps"}}, "count": 1, "action": {action}}}"#
        )
    };
    let make = |name: &str| format!(r#"{{"metadata": {{"name": "{name}"}}}}"#);
    let json_type = ["content-type: application/json"];

    let rule = fault(r#"{"type": "tooManyRequests", "retryAfterSeconds": 3}"#);
    let reply = running.ask("POST", "/localcluster/faults", &json_type, rule.as_bytes()).await;
    assert_eq!(reply.code, 200, "{}", reply.body);
    let reply = running.ask("POST", CONFIG_MAPS, &json_type, make("a").as_bytes()).await;
    assert_eq!(reply.code, 429);
    assert!(reply.head.contains("retry-after: 3"), "{}", reply.head);

    for (name, action, stored) in
        [("b", r#"{"type": "cutConnection"}"#, 404), ("c", r#"{"type": "loseAnswer"}"#, 200)]
    {
        running.ask("POST", "/localcluster/faults", &json_type, fault(action).as_bytes()).await;
        let mut stream = running.connect(true).await;
        send(&mut stream, "POST", CONFIG_MAPS, &json_type, make(name).as_bytes()).await;
        assert!(read_all(&mut stream).await.is_none(), "{name}: no answer");
        let path = format!("{CONFIG_MAPS}/{name}");
        assert_eq!(running.ask("GET", &path, &[], b"").await.code, stored, "{name}");
    }
    let reply = running.ask("POST", "/localcluster/faults", &json_type, b"{\"action\": 1}").await;
    assert_eq!(reply.code, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_namespaces_stay() {
    let running = start(|_| {}).await;
    for name in ["default", "kube-system", "kube-public"] {
        let path = format!("/api/v1/namespaces/{name}");
        let reply = running.ask("DELETE", &path, &[], b"").await;
        assert_eq!(reply.code, 403, "{name}: {}", reply.body);
        let why = format!("namespaces {name:?} is forbidden: this namespace may not be deleted");
        assert_eq!(json_of(&reply.body)["message"], why);
        assert_eq!(running.ask("GET", &path, &[], b"").await.code, 200, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_pod_says_so_before_it_goes() {
    let running = start(|_| {}).await;
    let json_type = ["content-type: application/json"];
    // The finalizer keeps it, so that it can be looked at.
    let pod = json!({"metadata": {"name": "p", "finalizers": ["example.com/hold"]},
                     "spec": {"containers": [{"name": "c", "image": "i"}]}});
    const PODS: &str = "/api/v1/namespaces/default/pods";
    let made = running.ask("POST", PODS, &json_type, pod.to_string().as_bytes()).await;
    assert_eq!(made.code, 201, "{}", made.body);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let evict = async |body: Value| {
        running.ask("POST", &format!("{PODS}/p/eviction"), &json_type, body.to_string().as_bytes()).await.code
    };
    let marks = async || {
        let pod = json_of(&running.ask("GET", &format!("{PODS}/p"), &[], b"").await.body);
        let all = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let marks = all.into_iter().filter(|c| c["type"] == "DisruptionTarget").collect::<Vec<_>>();
        (marks, !pod["metadata"]["deletionTimestamp"].is_null())
    };
    let mut dry = eviction.clone();
    dry["deleteOptions"] = json!({"dryRun": ["All"]});
    assert_eq!(evict(dry).await, 201);
    assert_eq!(marks().await, (Vec::new(), false), "a dry run changes nothing");
    assert_eq!(evict(eviction).await, 201);
    let (found, deleting) = marks().await;
    assert!(deleting);
    let [mark] = found.as_slice() else { panic!("one mark: {found:?}") };
    assert_eq!((&mark["status"], &mark["reason"]), (&json!("True"), &json!("EvictionByEvictionAPI")));
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_services_are_noted_and_given_back() {
    let running = start(|_| {}).await;
    let json_type = ["content-type: application/json"];
    const RANGES: &str = "/apis/networking.k8s.io/v1/servicecidrs";
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let service =
        json!({"metadata": {"name": "s"}, "spec": {"clusterIP": "10.77.0.9", "ports": [{"port": 80}]}});
    let create = async |path: &str, body: &Value| {
        running.ask("POST", path, &json_type, body.to_string().as_bytes()).await.code
    };
    assert_eq!(create(SERVICES, &service).await, 422, "no range has the address");
    let range = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.77.0.0/24"]}});
    assert_eq!(create(RANGES, &range).await, 201);
    assert_eq!(create(SERVICES, &service).await, 201);
    let address = async |code: u16| {
        let path = "/apis/networking.k8s.io/v1/ipaddresses/10.77.0.9";
        for _ in 0..100 {
            let reply = running.ask("GET", path, &[], b"").await;
            if reply.code == code {
                return json_of(&reply.body);
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("the address never answered {code}");
    };
    let parent = address(200).await["spec"]["parentRef"].take();
    assert_eq!(parent, json!({"resource": "services", "namespace": "default", "name": "s"}));
    assert_eq!(running.ask("DELETE", &format!("{SERVICES}/s"), &[], b"").await.code, 200);
    address(404).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_another_server_is_announced_and_not_served() {
    let running = start(|_| {}).await;
    let service = json!({"metadata": {"name": "v1.away.example.com"}, "spec": {
        "group": "away.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100,
        "insecureSkipTLSVerify": true, "service": {"name": "none", "namespace": "default"}}});
    const PATH: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
    let json_type = ["content-type: application/json"];
    assert_eq!(running.ask("POST", PATH, &json_type, service.to_string().as_bytes()).await.code, 201);
    let accept = ["accept: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"];
    let all = json_of(&running.ask("GET", "/apis", &accept, b"").await.body);
    let found =
        all["items"].as_array().into_iter().flatten().find(|g| g["metadata"]["name"] == "away.example.com");
    assert_eq!(found.map(|g| &g["versions"][0]["freshness"]), Some(&json!("Stale")));
    assert_eq!(running.ask("GET", "/apis/away.example.com", &[], b"").await.code, 200);
    for path in ["/apis/away.example.com/v1", "/apis/away.example.com/v1/things"] {
        assert_eq!(running.ask("GET", path, &[], b"").await.code, 503, "{path}");
    }
    for _ in 0..100 {
        let seen = json_of(&running.ask("GET", &format!("{PATH}/v1.away.example.com"), &[], b"").await.body);
        if seen["status"]["conditions"][0]["reason"] == "ServiceNotFound" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("nobody said that it is not available");
}

/// Descriptors of this process; none where the system does not tell.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_vanish_leave_nothing_behind() {
    let running = start(|_| {}).await;
    running.ask("GET", "/version", &[], b"").await;
    let before = descriptors();
    let mut streams = Vec::new();
    for number in 0..150 {
        let mut stream = running.connect(true).await;
        let text = match number % 3 {
            0 => "GET /api/v1/namespaces HTTP/1.1\r\nhost:".to_owned(),
            1 => format!(
                "POST {CONFIG_MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 500\r\n\r\n{{"
            ),
            _ => format!("GET {CONFIG_MAPS}?watch=1 HTTP/1.1\r\nhost: x\r\n\r\n"),
        };
        stream.write_all(text.as_bytes()).await.expect("writes");
        stream.flush().await.expect("flushes");
        streams.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(300)).await;
    drop(streams);
    for _ in 0..200 {
        if descriptors() <= before + 30 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{} descriptors were open, and {} are", before, descriptors());
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_are_refused_as_by_the_real_server() {
    let running = start(|_| {}).await;
    let json_type = ["content-type: application/json"];
    let map = |size: usize| {
        let text = "a".repeat(size);
        format!(r#"{{"metadata":{{"name":"y"}},"data":{{"a":"{text}"}}}}"#)
    };
    let reply = running.ask("POST", CONFIG_MAPS, &json_type, map(4 << 20).as_bytes()).await;
    assert_eq!(reply.code, 413);
    assert_eq!(json_of(&reply.body)["message"], "Request entity too large: limit is 3145728");
    let reply = running.ask("POST", CONFIG_MAPS, &json_type, map(3_000_000).as_bytes()).await;
    assert_eq!(reply.code, 422);
    let expected = r#"ConfigMap "y" is invalid: []: Too long: may not be more than 1048576 bytes"#;
    assert_eq!(json_of(&reply.body)["message"], expected);
}
