//! Tests of strategic merge patches.

use super::*;
use serde_json::json;

fn spec(original: Value, patch: Value) -> Result<Value, Status> {
    let id = schema().named("io.k8s.api.core.v1.PodSpec").expect("known");
    let (Value::Object(original), Value::Object(patch)) = (original, patch) else { panic!("objects only") };
    merge(id, original, patch).map(Value::Object)
}

#[test]
fn lists_merge_by_key_and_directive() {
    let two = json!({"containers": [{"name": "c", "image": "x:1"}, {"name": "d"}]});
    for (patch, want) in [
        (
            json!({"containers": [{"name": "c", "image": "x:2"}]}),
            json!({"containers": [{"name": "c", "image": "x:2"}, {"name": "d"}]}),
        ),
        (
            json!({"containers": [{"name": "e"}]}),
            json!({"containers": [{"name": "e"}, {"name": "c", "image": "x:1"}, {"name": "d"}]}),
        ),
        (
            json!({"containers": [{"name": "c"}, {"name": "e"}]}),
            json!({"containers": [{"name": "c", "image": "x:1"}, {"name": "e"}, {"name": "d"}]}),
        ),
        (
            json!({"containers": [{"name": "d", "$patch": "delete"}]}),
            json!({"containers": [{"name": "c", "image": "x:1"}]}),
        ),
        (
            json!({"containers": [{"$patch": "replace"}, {"name": "f"}]}),
            json!({"containers": [{"name": "f"}]}),
        ),
        (
            json!({"$setElementOrder/containers": [{"name": "d"}, {"name": "e"}, {"name": "c"}], "containers": [{"name": "e"}]}),
            json!({"containers": [{"name": "d"}, {"name": "e"}, {"name": "c", "image": "x:1"}]}),
        ),
        (json!({"tolerations": [{"key": "a"}]}), {
            let mut both = two.clone();
            both["tolerations"] = json!([{"key": "a"}]);
            both
        }),
    ] {
        assert_eq!(spec(two.clone(), patch.clone()).expect("merges"), want, "{patch}");
    }
}

#[test]
fn scalars_are_added_and_deleted() {
    let meta = schema().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").expect("known");
    let run = |patch: Value| {
        let Value::Object(old) = json!({"finalizers": ["a", "b"]}) else { panic!() };
        let Value::Object(patch) = patch else { panic!() };
        Value::Object(merge(meta, old, patch).expect("merges"))
    };
    assert_eq!(run(json!({"finalizers": ["c"]})), json!({"finalizers": ["c", "a", "b"]}));
    assert_eq!(run(json!({"$deleteFromPrimitiveList/finalizers": ["a"]})), json!({"finalizers": ["b"]}));
}

#[test]
fn mistakes_are_answered_in_the_words_of_the_real_server() {
    let two = json!({"containers": [{"name": "c"}], "nodeSelector": {"a": "b"}});
    for (patch, want) in [
        (
            json!({"containers": [{"image": "z:1"}]}),
            "map: map[image:z:1] does not contain declared merge key: name",
        ),
        (json!({"nodeSelector": {"$patch": 1}}), "unknown patch type: %!s(int64=1) in map: map[$patch:1]"),
        (
            json!({"$setElementOrder/nothing": []}),
            "unable to find api field in struct PodSpec for the json field \"nothing\"",
        ),
        (
            json!({"$setElementOrder/containers": {}}),
            "expected a []interface {}, but received a map[string]interface {}",
        ),
        (json!({"nodeSelector": {"$patch": "shred"}}), "unknown patch type: shred in map: map[$patch:shred]"),
        (
            json!({"$setElementOrder/containers": [{"name": "c"}], "containers": [{"name": "g"}]}),
            "The order in patch list:\n[map[name:g]]\n doesn't match $setElementOrder list:\n[map[name:c]]\n",
        ),
    ] {
        let error = spec(two.clone(), patch).expect_err("refused");
        assert_eq!((error.code, error.message.as_str()), (500, want));
    }
}

#[test]
fn some_structures_are_taken_as_a_whole() {
    let id = schema().named("io.k8s.api.policy.v1.PodDisruptionBudgetSpec").expect("known");
    let object = |value: Value| value.as_object().cloned().expect("object");
    let original = json!({"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}});
    let patch = json!({"selector": {"matchLabels": {"c": "d"}}});
    let merged = merge(id, object(original), object(patch)).expect("merges");
    assert_eq!(Value::Object(merged), json!({"minAvailable": 1, "selector": {"matchLabels": {"c": "d"}}}));
}
