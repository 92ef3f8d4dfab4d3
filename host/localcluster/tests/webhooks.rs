//! Webhooks that are really called: what they change, refuse and convert, and what comes of answers of no use.

mod support;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use support::{Running, start};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: [&str; 1] = ["content-type: application/json"];

/// A webhook on loopback, the reviews it has seen, and its certificate as a `caBundle`.
struct Hook {
    url: String,
    bundle: String,
    seen: Arc<Mutex<Vec<Value>>>,
}

/// Starts a webhook that answers with what `respond` makes of the request in a review.
async fn hook(respond: fn(&Value) -> Value) -> Hook {
    let key = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).expect("a certificate");
    let pem = key.cert.pem();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let private = rustls::pki_types::PrivateKeyDer::try_from(key.signing_key.serialize_der()).expect("a key");
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("protocols")
        .with_no_client_auth()
        .with_single_cert(vec![key.cert.der().clone()], private)
        .expect("a server");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let log = seen.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, log) = (acceptor.clone(), log.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(stream).await else { return };
                let service = hyper::service::service_fn(|request: http::Request<hyper::body::Incoming>| {
                    let log = log.clone();
                    async move {
                        let body = request.into_body().collect().await?.to_bytes();
                        let mut review: Value = serde_json::from_slice(&body).unwrap_or_default();
                        log.lock().expect("the log").push(review["request"].clone());
                        let mut response = respond(&review["request"]);
                        if response["uid"].is_null() {
                            response["uid"] = review["request"]["uid"].clone();
                        }
                        review["response"] = response;
                        review.as_object_mut().expect("a review").remove("request");
                        Ok::<_, hyper::Error>(http::Response::new(Full::new(bytes::Bytes::from(
                            review.to_string(),
                        ))))
                    }
                });
                // A client that goes away early is no fault of the test.
                let _ = hyper::server::conn::http1::Builder::new()
                    .serve_connection(TokioIo::new(stream), service)
                    .await;
            });
        }
    });
    Hook { url: format!("https://localhost:{port}/review"), bundle: STANDARD.encode(pem), seen }
}

impl Hook {
    /// A configuration about ConfigMaps.
    fn configuration(&self, kind: &str, more: Value) -> Value {
        let mut webhook = json!({
            "name": "hook.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {"url": self.url, "caBundle": self.bundle},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
        });
        for (key, value) in more.as_object().into_iter().flatten() {
            webhook[key] = value.clone();
        }
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
            "metadata": {"name": "hook"}, "webhooks": [webhook],
        })
    }
}

async fn send(running: &Running, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let reply = running.ask(method, path, &JSON, body.to_string().as_bytes()).await;
    (reply.code, serde_json::from_str(&reply.body).unwrap_or(Value::Null))
}

async fn configure(running: &Running, plural: &str, configuration: &Value) {
    let path = format!("/apis/admissionregistration.k8s.io/v1/{plural}");
    let (code, answer) = send(running, "POST", &path, configuration).await;
    assert_eq!(code, 201, "{answer}");
}

fn map(name: &str, data: Value) -> Value {
    json!({"metadata": {"name": name}, "data": data})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mutating_webhook_changes_what_is_stored() {
    let running = start(|_| {}).await;
    let hook = hook(|request| {
        let patch = json!([{"op": "add", "path": "/data/added", "value": request["operation"]}]);
        json!({"allowed": true, "patchType": "JSONPatch", "patch": STANDARD.encode(patch.to_string())})
    })
    .await;
    let only = json!({"rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]});
    configure(
        &running,
        "mutatingwebhookconfigurations",
        &hook.configuration("MutatingWebhookConfiguration", only),
    )
    .await;
    let (code, made) = send(&running, "POST", CONFIG_MAPS, &map("a", json!({"k": "v"}))).await;
    assert_eq!((code, &made["data"]), (201, &json!({"k": "v", "added": "CREATE"})), "{made}");
    assert!(made["metadata"]["uid"].is_string());
    let seen = hook.seen.lock().expect("the log").clone();
    let [request] = seen.as_slice() else { panic!("one review: {seen:?}") };
    assert_eq!(request["kind"], json!({"group": "", "version": "v1", "kind": "ConfigMap"}));
    assert_eq!(request["resource"], json!({"group": "", "version": "v1", "resource": "configmaps"}));
    assert_eq!((&request["name"], &request["namespace"]), (&json!("a"), &json!("default")));
    assert_eq!((&request["oldObject"], &request["dryRun"]), (&Value::Null, &json!(false)));
    assert_eq!(request["object"]["kind"], "ConfigMap");
    assert_eq!(request["object"]["metadata"]["uid"], Value::Null, "the server names objects later");
    assert_eq!(request["options"]["kind"], "CreateOptions");
    assert!(request["userInfo"]["username"].is_string());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_validating_webhook_refuses_in_its_own_words() {
    let running = start(|_| {}).await;
    let hook = hook(|request| {
        let object = if request["object"].is_null() { &request["oldObject"] } else { &request["object"] };
        match object["data"]["say"].as_str() {
            Some("no") => json!({"allowed": false, "status": {"code": 403, "message": "not today", "reason": "Forbidden"}}),
            Some("silent") => json!({"allowed": false}),
            Some("warn") => json!({"allowed": true, "warnings": ["take care"]}),
            Some("patch") => json!({"allowed": true, "patch": "W10=", "patchType": "JSONPatch"}),
            Some("other") => json!({"allowed": true, "uid": "x"}),
            Some("kept") if request["operation"] == "DELETE" => json!({"allowed": false, "status": {"message": "it stays"}}),
            _ => json!({"allowed": true}),
        }
    })
    .await;
    configure(
        &running,
        "validatingwebhookconfigurations",
        &hook.configuration("ValidatingWebhookConfiguration", json!({})),
    )
    .await;
    let create = async |name: &str, say: &str| {
        send(&running, "POST", CONFIG_MAPS, &map(name, json!({"say": say}))).await
    };
    let (code, answer) = create("a", "no").await;
    assert_eq!((code, &answer["reason"]), (403, &json!("Forbidden")));
    assert_eq!(answer["message"], r#"admission webhook "hook.example.com" denied the request: not today"#);
    let (code, answer) = create("a", "silent").await;
    assert_eq!(code, 400);
    assert_eq!(
        answer["message"],
        r#"admission webhook "hook.example.com" denied the request without explanation"#
    );
    for (say, why) in [
        ("patch", "validating webhook may not return response.patch".to_owned()),
        ("other", r#", got "x""#.to_owned()),
    ] {
        let (code, answer) = create("a", say).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert_eq!(code, 500, "{message}");
        let head = r#"Internal error occurred: failed calling webhook "hook.example.com": received invalid webhook response: "#;
        assert!(message.starts_with(head) && message.ends_with(&why), "{message}");
    }
    let body = map("w", json!({"say": "warn"})).to_string();
    let reply = running.ask("POST", CONFIG_MAPS, &JSON, body.as_bytes()).await;
    assert_eq!(reply.code, 201);
    assert!(reply.head.contains(r#"299 - "take care""#), "{}", reply.head);
    assert_eq!(create("k", "kept").await.0, 201);
    let (code, answer) = send(&running, "DELETE", &format!("{CONFIG_MAPS}/k"), &json!({})).await;
    assert_eq!(code, 400, "{answer}");
    assert_eq!(running.ask("GET", &format!("{CONFIG_MAPS}/k"), &[], b"").await.code, 200);
    // What configures admission is never asked about: the way out stays open.
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook";
    assert_eq!(send(&running, "DELETE", path, &json!({})).await.0, 200);
    assert_eq!(create("a", "no").await.0, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_is_not_trusted_fails_unless_failures_are_ignored() {
    let running = start(|_| {}).await;
    let hook = hook(|_| json!({"allowed": true})).await;
    let bare = json!({"clientConfig": {"url": hook.url}});
    configure(
        &running,
        "validatingwebhookconfigurations",
        &hook.configuration("ValidatingWebhookConfiguration", bare),
    )
    .await;
    let (code, answer) = send(&running, "POST", CONFIG_MAPS, &map("a", json!({}))).await;
    assert_eq!(code, 500);
    let message = answer["message"].as_str().unwrap_or_default();
    assert!(
        message.ends_with("tls: failed to verify certificate: x509: certificate signed by unknown authority"),
        "{message}"
    );
    let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/hook";
    let patch = r#"[{"op":"replace","path":"/webhooks/0/failurePolicy","value":"Ignore"}]"#;
    let reply =
        running.ask("PATCH", path, &["content-type: application/json-patch+json"], patch.as_bytes()).await;
    assert_eq!(reply.code, 200, "{}", reply.body);
    assert_eq!(send(&running, "POST", CONFIG_MAPS, &map("a", json!({}))).await.0, 201);
    assert!(hook.seen.lock().expect("the log").is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversion_webhook_converts_both_ways() {
    let running = start(|_| {}).await;
    // Version 2 calls `size` what version 1 calls `length`.
    let hook = hook(|request| {
        let wanted = request["desiredAPIVersion"].as_str().unwrap_or_default();
        let (from, to) = if wanted.ends_with("v2") { ("length", "size") } else { ("size", "length") };
        let convert = |object: &Value| {
            let mut object = object.clone();
            object["apiVersion"] = wanted.into();
            let value = object["spec"].as_object_mut().and_then(|spec| spec.remove(from));
            object["spec"][to] = value.unwrap_or(Value::Null);
            object
        };
        let objects = request["objects"].as_array().into_iter().flatten().map(convert);
        json!({"convertedObjects": objects.collect::<Vec<_>>(), "result": {"status": "Success"}})
    })
    .await;
    let version = |name: &str, field: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema": {"type": "object",
            "properties": {"spec": {"type": "object", "properties": {field: {"type": "integer"}}}}}}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "boats", "kind": "Boat"},
            "versions": [version("v1", "length", true), version("v2", "size", false)],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": hook.url, "caBundle": hook.bundle}}}},
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(&running, "POST", path, &definition).await.0, 201);
    for _ in 0..500 {
        if running.ask("GET", "/apis/example.com/v2/boats", &[], b"").await.code == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let boat = |version: &str, name: &str, spec: Value| json!({"apiVersion": format!("example.com/{version}"), "kind": "Boat", "metadata": {"name": name}, "spec": spec});
    let (one, two) = ("/apis/example.com/v1/boats", "/apis/example.com/v2/boats");
    let (code, made) = send(&running, "POST", one, &boat("v1", "a", json!({"length": 3}))).await;
    assert_eq!(code, 201, "{made}");
    let (code, read) = send(&running, "GET", &format!("{two}/a"), &Value::Null).await;
    assert_eq!((code, &read["spec"]), (200, &json!({"size": 3})), "{read}");
    let (code, made) = send(&running, "POST", two, &boat("v2", "b", json!({"size": 5}))).await;
    assert_eq!((code, &made["spec"]), (201, &json!({"size": 5})), "{made}");
    let (_, stored) = send(&running, "GET", &format!("{one}/b"), &Value::Null).await;
    assert_eq!(stored["spec"], json!({"length": 5}), "{stored}");
    let reply = running
        .ask(
            "PATCH",
            &format!("{two}/b"),
            &["content-type: application/merge-patch+json"],
            br#"{"spec":{"size":6}}"#,
        )
        .await;
    assert_eq!(reply.code, 200, "{}", reply.body);
    let (_, list) = send(&running, "GET", one, &Value::Null).await;
    let lengths: Vec<&Value> =
        list["items"].as_array().into_iter().flatten().map(|item| &item["spec"]["length"]).collect();
    assert_eq!(lengths, [&json!(3), &json!(6)], "{list}");
    let (_, list) = send(&running, "GET", two, &Value::Null).await;
    let sizes: Vec<&Value> =
        list["items"].as_array().into_iter().flatten().map(|item| &item["spec"]["size"]).collect();
    assert_eq!(sizes, [&json!(3), &json!(6)], "{list}");
}
