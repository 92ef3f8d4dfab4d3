//! Answers that differ from plain storage of what was sent, recorded from kube-apiserver 1.36.2.

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use support::start;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn json_of(body: &str) -> Value {
    serde_json::from_str(body).expect("JSON")
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_conversion_webhook_converts_is_refused() {
    let running = start(|_| {}).await;
    let json_type = ["content-type: application/json"];
    let version = |name: &str, storage: bool| {
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema":
            {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}})
    };
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "boats", "kind": "Boat"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
                "clientConfig": {"url": "https://127.0.0.1:1/none"}}}},
    });
    const PATH: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let reply = running.ask("POST", PATH, &json_type, definition.to_string().as_bytes()).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
    for _ in 0..100 {
        if running.ask("GET", "/apis/example.com/v2/boats", &[], b"").await.code == 200 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let boat = |version: &str| {
        json!({"apiVersion": format!("example.com/{version}"), "kind": "Boat", "metadata": {"name": "a"}})
            .to_string()
    };
    let reply = running.ask("POST", "/apis/example.com/v2/boats", &json_type, boat("v2").as_bytes()).await;
    assert_eq!(reply.code, 500, "{}", reply.body);
    let reply = running.ask("POST", "/apis/example.com/v1/boats", &json_type, boat("v1").as_bytes()).await;
    assert_eq!(reply.code, 201, "{}", reply.body);
    let reply = running.ask("GET", "/apis/example.com/v2/boats/a", &[], b"").await;
    assert_eq!(reply.code, 500);
    let message = json_of(&reply.body)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with(
        r#"conversion webhook for example.com/v1, Kind=Boat failed: Post "https://127.0.0.1:1/none?timeout=30s": dial tcp 127.0.0.1:1: connect: connection refused"#
    ), "{message}");
    assert_eq!(running.ask("GET", "/apis/example.com/v1/boats/a", &[], b"").await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_range_makes_services_dual_stack() {
    let running = start(|_| {}).await;
    let json_type = ["content-type: application/json"];
    const SERVICES: &str = "/api/v1/namespaces/default/services";
    let service = |name: &str, more: Value| {
        let mut service = json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
        let spec = service["spec"].as_object_mut().expect("an object");
        spec.extend(more.as_object().expect("an object").clone());
        service.to_string()
    };
    let create = async |name: &str, more: Value| {
        let reply = running.ask("POST", SERVICES, &json_type, service(name, more).as_bytes()).await;
        (reply.code, json_of(&reply.body))
    };
    let both = || json!({"ipFamilyPolicy": "RequireDualStack"});
    let (code, answer) = create("s", both()).await;
    assert_eq!(code, 422);
    assert!(answer["message"].as_str().is_some_and(|m| m.contains("not configured for dual-stack services")));
    let range = json!({"metadata": {"name": "six"}, "spec": {"cidrs": ["fd00:10::/112"]}});
    let path = "/apis/networking.k8s.io/v1/servicecidrs";
    assert_eq!(running.ask("POST", path, &json_type, range.to_string().as_bytes()).await.code, 201);
    let (code, made) = create("s", both()).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["ipFamilies"], json!(["IPv4", "IPv6"]));
    let addresses = made["spec"]["clusterIPs"].as_array().expect("addresses").clone();
    assert_eq!(addresses.len(), 2);
    assert_eq!(made["spec"]["clusterIP"], addresses[0]);
    assert!(addresses[1].as_str().is_some_and(|ip| ip.starts_with("fd00:10::")), "{made}");
    let (code, single) = create("t", json!({"ipFamilies": ["IPv6"]})).await;
    assert_eq!((code, &single["spec"]["ipFamilyPolicy"]), (201, &json!("SingleStack")), "{single}");
    // Back to one family: the second address is given back and can be had by another.
    let patch = json!({"spec": {"ipFamilyPolicy": "SingleStack"}}).to_string();
    let merge = ["content-type: application/merge-patch+json"];
    let reply = running.ask("PATCH", &format!("{SERVICES}/s"), &merge, patch.as_bytes()).await;
    let changed = json_of(&reply.body);
    assert_eq!(changed["spec"]["clusterIPs"], json!([addresses[0]]), "{changed}");
    assert_eq!(changed["spec"]["ipFamilies"], json!(["IPv4"]));
    let asked = json!({"clusterIP": addresses[1], "clusterIPs": [addresses[1]]});
    let (code, answer) = create("u", asked).await;
    assert_eq!((code, &answer["spec"]["ipFamilies"]), (201, &json!(["IPv6"])), "{answer}");
    // And to both again.
    let patch = json!({"spec": {"ipFamilyPolicy": "PreferDualStack"}}).to_string();
    let reply = running.ask("PATCH", &format!("{SERVICES}/s"), &merge, patch.as_bytes()).await;
    let changed = json_of(&reply.body);
    assert_eq!(changed["spec"]["clusterIPs"].as_array().map(Vec::len), Some(2), "{changed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_known_gaps_come_out_as_the_real_server_writes_them() {
    let running = start(|_| {}).await;
    let json_type = ["content-type: application/json"];
    let post = async |path: &str, body: &str| running.ask("POST", path, &json_type, body.as_bytes()).await;
    const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let sent = r#"{"metadata": {"name": "r"}, "revision": 1, "data": {"z": 1, "a": {"y": "1.0", "b": 2.50, "c": 1e3}, "m": "<&>"}}"#;
    let kept = r#""data":{"z":1,"a":{"y":"1.0","b":2.50,"c":1e3},"m":"\u003c\u0026\u003e"}"#;
    let reply = post(REVISIONS, sent).await;
    assert!(reply.code == 201 && reply.body.contains(kept), "{}", reply.body);
    let merge = ["content-type: application/merge-patch+json"];
    let labels = br#"{"metadata": {"labels": {"a": "b"}}}"#;
    let reply = running.ask("PATCH", &format!("{REVISIONS}/r"), &merge, labels).await;
    assert!(reply.code == 200 && reply.body.contains(kept), "{}", reply.body);

    let quota = r#"{"metadata": {"name": "q"}, "spec": {"hard": {"cpu": "+5", "memory": "1.500", "limits.cpu": "0.10"}}}"#;
    let reply = post("/api/v1/namespaces/default/resourcequotas", quota).await;
    let expected = json!({"cpu": "+5", "memory": "1.500", "limits.cpu": "100m"});
    assert_eq!(json_of(&reply.body)["spec"]["hard"], expected);

    const SETS: &str = "/apis/apps/v1/namespaces/default/statefulsets";
    let set = r#"{"metadata": {"name": "w"}, "spec": {"serviceName": "w", "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
        "updateStrategy": {"type": "OnDelete"}}}"#;
    assert_eq!(post(SETS, set).await.code, 201);
    for (patch, expected) in [
        (json!({"type": "RollingUpdate"}), json!({"type": "RollingUpdate"})),
        (
            json!({"rollingUpdate": {"maxUnavailable": 2}}),
            json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}),
        ),
        (json!({"type": "OnDelete", "rollingUpdate": null}), json!({"type": "OnDelete"})),
        (Value::Null, json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}})),
    ] {
        let body = json!({"spec": {"updateStrategy": patch}}).to_string();
        let reply = running.ask("PATCH", &format!("{SETS}/w"), &merge, body.as_bytes()).await;
        assert_eq!(json_of(&reply.body)["spec"]["updateStrategy"], expected, "{body}: {}", reply.body);
    }

    let cron = r#"{"metadata": {"name": "z"}, "spec": {"schedule": "TZ=UTC 0 0 * * *", "jobTemplate": {"spec": {"template":
        {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}}}}"#;
    let reply = post("/apis/batch/v1/namespaces/default/cronjobs", cron).await;
    let expected = r#"CronJob.batch "z" is invalid: spec.schedule: Invalid value: "TZ=UTC 0 0 * * *": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"#;
    assert_eq!(json_of(&reply.body)["message"], expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn versions_from_the_future_are_answered_as_by_the_real_server() {
    let running = start(|_| {}).await;
    let path = |query: &str| format!("{CONFIG_MAPS}?resourceVersion=99999999{query}");
    let reply = running.ask("GET", &path(""), &[], b"").await;
    assert_eq!(reply.code, 504);
    let message = json_of(&reply.body)["message"].as_str().unwrap_or_default().to_owned();
    assert!(message.starts_with("Timeout: Too large resource version: 99999999, current: "), "{message}");
    // A plain watch waits in silence; one that asks for the present first is told.
    let reply = running.ask("GET", &path("&watch=1&timeoutSeconds=1"), &[], b"").await;
    assert!(reply.code == 200 && !reply.body.contains("type"), "{}", reply.body);
    let query = "&watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let reply = running.ask("GET", &path(query), &[], b"").await;
    assert!(
        reply.body.contains(r#""type":"ERROR""#) && reply.body.contains("ResourceVersionTooLarge"),
        "{}",
        reply.body
    );
}
