use std::sync::Arc;

use serde_json::{Value, json};

use super::*;
use crate::store::path::parse;

fn spec(paths: &[&str]) -> Arc<PruneSpec> {
    let tree = FieldTree::new(paths.iter().flat_map(|path| parse(path).unwrap()));
    Arc::new(PruneSpec::new(tree, 0, Arc::default()))
}

fn whole() -> Arc<PruneSpec> {
    Arc::new(PruneSpec::new(FieldTree::everything(), 0, Arc::default()))
}

fn parts(object: &Object) -> (Value, Value) {
    let (metadata, rest) = texts(object);
    (serde_json::from_str(&metadata).unwrap(), serde_json::from_str(&rest).unwrap())
}

fn texts(object: &Object) -> (String, String) {
    let (mut metadata, mut rest) = (Vec::new(), Vec::new());
    object.content.metadata(&mut metadata);
    object.content.rest(&mut rest);
    (String::from_utf8(metadata).unwrap(), String::from_utf8(rest).unwrap())
}

fn pod() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": "a", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "web"},
            "annotations": {"example.com/x": "1", "other": "2"}, "finalizers": ["f"],
            "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": "o", "uid": "ou", "controller": true}],
            "managedFields": [{"manager": "m"}],
        },
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}, {"name": "d"}], "x": null},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True", "reason": "r"}]},
    })
}

#[test]
fn only_what_is_declared_is_kept() {
    let table = [
        (&["spec.nodeName"][..], json!({"spec": {"nodeName": "n"}})),
        (&["spec.containers[*].name"], json!({"spec": {"containers": [{"name": "c"}, {"name": "d"}]}})),
        (&["spec.containers[*].image"], json!({"spec": {"containers": [{"image": "i"}, {}]}})),
        (&["spec.containers.name"], json!({"spec": {"containers": []}})),
        (
            &["spec.x.deeper", "status.phase.deeper"],
            json!({"spec": {"x": null}, "status": {"phase": "Running"}}),
        ),
        (
            &["status.conditions[*].{type,status}"],
            json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}}),
        ),
        (&["status", "gone"], json!({"status": pod()["status"]})),
        (&[], json!({})),
    ];
    for (paths, expected) in table {
        let object = spec(paths).prune(pod().to_string().as_bytes()).unwrap();
        assert_eq!(parts(&object).1, expected, "{paths:?}");
    }
}

#[test]
fn metadata_is_parsed_and_annotations_only_kept_where_declared() {
    let raw = pod().to_string();
    let object = spec(&[]).prune(raw.as_bytes()).unwrap();
    let meta = object.meta();
    assert_eq!((object.namespace(), object.name(), object.uid()), ("ns", "a", "u"));
    assert_eq!((meta.resource_version.number(), meta.generation, meta.deleting), (Some(7), 3, false));
    assert_eq!(meta.labels.get("app"), Some("web"));
    assert_eq!(meta.controller(), Some("ou"));
    let always = json!({"creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3});
    assert_eq!(parts(&object).0, always);

    let object = spec(&["metadata.annotations.\"example.com/x\""]).prune(raw.as_bytes()).unwrap();
    assert_eq!(parts(&object).0["annotations"], json!({"example.com/x": "1"}));
    let object = whole().prune(raw.as_bytes()).unwrap();
    assert_eq!(parts(&object).0["annotations"].as_object().unwrap().len(), 2);
    assert!(["managedFields", "resourceVersion"].iter().all(|name| parts(&object).0.get(name).is_none()));
}

#[test]
fn a_whole_object_keeps_everything_byte_for_byte() {
    let raw = br#"{ "metadata": {"name":"a"}, "data" : {"k\u0041\"}": " a  b\n\\", "n" : [ 1e3, -0.0, 18446744073709551616 ] } }"#;
    let object = whole().prune(raw).unwrap();
    let expected = r#"{"data":{"k\u0041\"}":" a  b\n\\","n":[1e3,-0.0,18446744073709551616]}}"#;
    assert_eq!(texts(&object).1, expected);
}

#[test]
fn bytes_that_are_no_object_are_refused() {
    let table = [
        "",
        "null",
        "[]",
        "{",
        "{}",
        r#"{"metadata":null}"#,
        r#"{"metadata":{}}"#,
        r#"{"metadata":{"name":5}}"#,
        r#"{"metadata":{"name":"a","generation":"x"}}"#,
        r#"{"metadata":{"name":"a"}} x"#,
        r#"{"metadata":{"name":"a","labels":{"a":1}}}"#,
        "{\"metadata\":{\"name\":\"\u{1}\"}}",
    ];
    for raw in table {
        assert!(spec(&["spec"]).prune(raw.as_bytes()).is_err(), "{raw}");
    }
    assert!(
        spec(&["spec"]).prune(b"{\"metadata\":{\"name\":\"a\"},\"spec\":\"\xff\"}").is_err(),
        "not UTF-8"
    );
}

#[test]
fn null_metadata_members_are_absent_ones() {
    let raw = r#"{"metadata":{"name":"a","namespace":null,"uid":null,"labels":null,"ownerReferences":null,
        "finalizers":null,"creationTimestamp":null,"deletionTimestamp":null,"generation":null}}"#;
    let object = spec(&[]).prune(raw.as_bytes()).unwrap();
    assert!(!object.meta().deleting && object.meta().owners.is_empty() && object.namespace().is_empty());
}

#[test]
fn what_is_stored_projects_onto_what_one_module_declared() {
    let wide = spec(&["spec", "status", "metadata.annotations"]).prune(pod().to_string().as_bytes()).unwrap();
    for paths in
        [&["spec.containers[*].name"][..], &["status.phase", "metadata.annotations.other"], &[], &["spec"]]
    {
        let narrow = spec(paths);
        let direct = narrow.prune(pod().to_string().as_bytes()).unwrap();
        let mut out = Vec::new();
        let split = project(&wide.content, &narrow.tree, &mut out);
        let (metadata, rest) = texts(&direct);
        assert_eq!((&out[..split], &out[split..]), (metadata.as_bytes(), rest.as_bytes()), "{paths:?}");
    }
}

#[test]
fn values_of_paths_are_found() {
    let raw = pod().to_string();
    let table = [
        ("spec.nodeName", &["n"][..]),
        ("spec.containers[*].name", &["c", "d"]),
        ("spec.containers[*]", &[]),
        ("spec.containers", &[]),
        ("spec.x", &[]),
        ("metadata.generation", &["3"]),
        ("metadata.finalizers[*]", &["f"]),
        ("metadata.ownerReferences[*].controller", &["true"]),
        ("metadata.annotations.\"example.com/x\"", &["1"]),
        ("gone.too", &[]),
    ];
    for (path, expected) in table {
        let mut found = Vec::new();
        values(&raw, &parse(path).unwrap()[0], &mut found);
        assert_eq!(found, expected, "{path}");
    }
}
