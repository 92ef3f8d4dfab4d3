//! Updates in place of patches that are forbidden.

use serde_json::json;

use super::kit::*;
use crate::contract::*;

const THINGS: &str = "/apis/example.com/v1/namespaces/ns/things";

fn may_not(verb: &str) -> Reply {
    let message =
        format!(r#"things "a" is forbidden: User "x" cannot {verb} resource "things" in API group """#);
    Reply::Answer(
        403,
        json!({"kind": "Status", "status": "Failure", "reason": "Forbidden", "code": 403, "message": message}),
    )
}

/// A server whose roles hold all but these verbs.
fn without(verbs: &'static [&'static str]) -> impl FnMut(&Asked) -> Reply {
    let mut live = thing("a", "u", 7);
    live["spec"] = json!({"kept": true, "n": 1});
    move |asked| {
        let verb = match asked.method.as_str() {
            "PATCH" => "patch",
            "PUT" => "update",
            _ if asked.path.ends_with("/things") => "list",
            _ => "get",
        };
        if verbs.contains(&verb) {
            return may_not(verb);
        }
        match verb {
            "list" => {
                let mut item = live.clone();
                item.as_object_mut().expect("an object").retain(|field, _| field != "kind");
                ok(json!({"kind": "ThingList", "items": [item]}))
            }
            "update" if asked.body["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"] => {
                refuse(409, "Conflict")
            }
            "update" => {
                live = asked.body.clone();
                live["metadata"]["resourceVersion"] = json!("8");
                ok(live.clone())
            }
            _ => ok(live.clone()),
        }
    }
}

fn status(kit: &Kit, kind: PatchKind, body: serde_json::Value) -> Action {
    Action { subresource: "status".into(), ..kit.as_seen(1, "a", patch(kind, body)) }
}

#[tokio::test(start_paused = true)]
async fn what_may_not_be_patched_is_updated_and_so_from_then_on() {
    for (kind, body) in [
        (PatchKind::Merge, json!({"status": {"x": 1}})),
        (PatchKind::Json, json!([{"op": "add", "path": "/status", "value": {"x": 1}}])),
    ] {
        let kit = Kit::new(without(&["patch"]));
        kit.cache.put(1, "a", "u", 7);
        let executed = kit.act(status(&kit, kind, body)).await;
        assert!(!executed.failed, "{executed:?}");
        let object = format!("{THINGS}/a");
        let (patched, read, updated) =
            (format!("PATCH {object}/status"), format!("GET {object}"), format!("PUT {object}/status"));
        assert_eq!(kit.lines(), [patched, read.clone(), updated.clone()]);
        let sent = kit.asked.lock()[2].body.clone();
        assert_eq!((&sent["spec"]["kept"], &sent["status"]["x"]), (&json!(true), &json!(1)));
        assert_eq!(sent["metadata"]["resourceVersion"], "7");

        kit.cache.put(1, "a", "u", 8);
        let executed = kit.act(status(&kit, PatchKind::Merge, json!({"status": {"x": 2}}))).await;
        assert!(!executed.failed, "{executed:?}");
        assert_eq!(kit.lines()[3..], [read, updated]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_object_that_may_not_be_read_by_name_is_found_in_the_list() {
    let kit = Kit::new(without(&["patch", "get"]));
    kit.cache.put(1, "a", "u", 7);
    let executed = kit.act(status(&kit, PatchKind::Merge, json!({"status": {"x": 1}}))).await;
    assert!(!executed.failed, "{executed:?}");
    let asked = kit.asked.lock();
    assert_eq!(
        (asked[2].line(), &*asked[2].query),
        (format!("GET {THINGS}"), "fieldSelector=metadata%2Ename%3Da")
    );
    assert_eq!((&asked[3].body["kind"], &asked[3].body["spec"]["kept"]), (&json!("Thing"), &json!(true)));
}

#[tokio::test(start_paused = true)]
async fn what_the_patch_would_have_refused_is_refused() {
    let kit = Kit::new(without(&["patch"]));
    kit.cache.put(1, "a", "u", 6);
    let executed = kit.act(status(&kit, PatchKind::Merge, json!({"status": {"x": 1}}))).await;
    assert_eq!(failure(&executed).reason, "Conflict");
    assert!(!kit.lines().iter().any(|line| line.starts_with("PUT")), "{:?}", kit.lines());
}

#[tokio::test(start_paused = true)]
async fn without_either_verb_the_patch_is_what_is_told() {
    let kit = Kit::new(without(&["patch", "update"]));
    kit.cache.put(1, "a", "u", 7);
    let executed = kit.act(status(&kit, PatchKind::Merge, json!({"status": {"x": 1}}))).await;
    assert!(failure(&executed).message.contains("cannot patch"), "{executed:?}");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_by_admission_is_no_lack_of_a_verb() {
    let kit = Kit::new(|_| refuse(403, "Forbidden"));
    kit.cache.put(1, "a", "u", 7);
    let executed = kit.act(status(&kit, PatchKind::Merge, json!({"status": {"x": 1}}))).await;
    assert_eq!((failure(&executed).status, kit.lines().len()), (403, 1));
}

#[tokio::test(start_paused = true)]
async fn what_changes_nothing_is_not_sent() {
    let kit = Kit::new(without(&["patch"]));
    kit.cache.put(1, "a", "u", 7);
    let executed = kit.act(kit.as_seen(1, "a", patch(PatchKind::Merge, json!({"spec": {"n": 1}})))).await;
    assert!(!executed.failed, "{executed:?}");
    assert_eq!(kit.lines().len(), 2);
}
