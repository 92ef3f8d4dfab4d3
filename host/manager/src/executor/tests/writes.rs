//! What is sent, and what answers mean.

use std::{sync::atomic::Ordering, time::Duration};

use serde_json::json;
use tokio::time::Instant;

use super::kit::*;
use crate::{contract::*, executor::Barrier};

const OBJECT: &str = "/apis/example.com/v1/namespaces/ns/things/a";

fn version(kit: &Kit, version: u64) -> Barrier {
    Barrier::Version { resource: kit.things, version }
}

fn gone(kit: &Kit, uid: &str, or_deleting: bool) -> Barrier {
    Barrier::Gone {
        resource: kit.things,
        namespace: "ns".into(),
        name: "a".into(),
        uid: uid.into(),
        or_deleting,
    }
}

/// Only the answer to a change has to be whole: an object may be on its way out, held by finalizers in its spec.
#[tokio::test(start_paused = true)]
async fn answers_are_no_larger_than_they_have_to_be() {
    let collection = Verb::DeleteCollection(CollectionOptions {
        labels: "app=web".into(),
        fields: String::new(),
        propagation: None,
        grace_seconds: None,
    });
    let cases = [
        (create(json!({"name": "a"})), "", "as=PartialObjectMetadata;"),
        (create(json!({"name": "a"})), "eviction", "application/json"),
        (delete(), "", "as=PartialObjectMetadata;"),
        (collection, "", "as=PartialObjectMetadataList;"),
        (patch(PatchKind::Merge, json!({"spec": {}})), "", "application/json"),
        (patch(PatchKind::Merge, json!({"status": {}})), "status", "application/json"),
    ];
    for (verb, subresource, accept) in cases {
        let kit = Kit::new(|_| ok(thing("a", "u", 8)));
        kit.cache.put(1, "a", "u", 7);
        let about = format!("{verb:?} {subresource}");
        let name = if matches!(verb, Verb::DeleteCollection(_)) { "" } else { "a" };
        kit.act(Action { subresource: subresource.into(), name: name.into(), ..kit.action("a", verb) }).await;
        let asked = kit.asked.lock()[0].accept.clone();
        let whole = !asked.contains("as=");
        assert!(asked.contains(accept) && whole == (accept == "application/json"), "{about}: {asked}");
        assert!(asked.ends_with("application/json"), "{about}: a server may know nothing but whole objects");
    }
}

#[tokio::test(start_paused = true)]
async fn patches_carry_their_precondition() {
    let cases = [
        (
            PatchKind::Merge,
            json!({"spec": {"n": 1}}),
            "application/merge-patch+json",
            json!({"spec": {"n": 1}, "metadata": {"resourceVersion": "7"}}),
        ),
        (
            PatchKind::Strategic,
            json!({"metadata": {"labels": {}}}),
            "application/strategic-merge-patch+json",
            json!({"metadata": {"labels": {}, "resourceVersion": "7"}}),
        ),
        (
            PatchKind::Json,
            json!([{"op": "remove", "path": "/x"}]),
            "application/json-patch+json",
            json!([{"op": "test", "path": "/metadata/resourceVersion", "value": "7"}, {"op": "remove", "path": "/x"}]),
        ),
        (
            PatchKind::Apply,
            json!({"spec": {}}),
            "application/apply-patch+yaml",
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {}, "metadata": {"name": "a", "resourceVersion": "7"}}),
        ),
    ];
    for (kind, body, content_type, sent) in cases {
        let kit = Kit::new(|_| ok(thing("a", "u", 8)));
        kit.cache.put(1, "a", "u", 7);
        let executed = kit.act(kit.as_seen(1, "a", patch(kind, body))).await;
        assert!(!executed.failed && executed.results.is_empty(), "{executed:?}");
        let asked = kit.asked.lock()[0].clone();
        assert_eq!(
            (asked.line(), asked.content_type.as_str(), &asked.body),
            (format!("PATCH {OBJECT}"), content_type, &sent)
        );
        assert!(
            asked.query.contains("fieldManager=thing%2Dcontroller")
                && asked.query.contains("timeout=10000ms"),
            "{}",
            asked.query
        );
        assert_eq!(executed.barriers, [version(&kit, 8)]);
        assert_eq!((executed.done.len(), executed.no_op_writes), (1, 0));
    }
}

#[tokio::test(start_paused = true)]
async fn a_uid_goes_with_the_request() {
    let kit = Kit::new(|_| ok(thing("a", "u", 8)));
    for verb in [
        patch(PatchKind::Merge, json!({})),
        patch(PatchKind::Json, json!([])),
        Verb::Replace("{}".into()),
        delete(),
    ] {
        kit.act(Action { precondition: Precondition::Uid("u".into()), ..kit.action("a", verb) }).await;
    }
    let bodies: Vec<_> = kit.asked.lock().iter().map(|asked| asked.body.clone()).collect();
    assert_eq!(bodies[0], json!({"metadata": {"uid": "u"}}));
    assert_eq!(bodies[1], json!([{"op": "test", "path": "/metadata/uid", "value": "u"}]));
    assert_eq!(bodies[2], json!({"metadata": {"uid": "u"}}));
    assert_eq!(bodies[3]["preconditions"], json!({"uid": "u"}));
}

#[tokio::test(start_paused = true)]
async fn a_delete_as_seen_names_uid_and_version() {
    let kit = Kit::new(|_| ok(json!({"kind": "Status", "status": "Success", "details": {"uid": "u"}})));
    kit.cache.put(1, "a", "u", 7);
    let options = DeleteOptions { propagation: Some(Propagation::Foreground), grace_seconds: Some(0) };
    let executed = kit.act(kit.as_seen(1, "a", Verb::Delete(options))).await;
    assert_eq!(
        kit.asked.lock()[0].body,
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground", "gracePeriodSeconds": 0, "preconditions": {"uid": "u", "resourceVersion": "7"}})
    );
    assert_eq!(executed.barriers, [gone(&kit, "u", true)]);
}

#[tokio::test(start_paused = true)]
async fn a_stale_ref_is_a_conflict_without_a_request() {
    let kit = Kit::new(|_| ok(json!({})));
    let executed = kit.act(kit.as_seen(1, "a", delete())).await;
    let failure = failure(&executed);
    assert_eq!((failure.status, failure.reason.as_str()), (409, "Conflict"));
    assert!(kit.lines().is_empty() && executed.barriers.is_empty() && executed.failed);
}

#[tokio::test(start_paused = true)]
async fn versions_carry_forward_within_a_plan() {
    let mut next = 7;
    let kit = Kit::new(move |_| {
        next += 1;
        ok(thing("a", "u", next))
    });
    kit.cache.put(1, "a", "u", 7);
    let status = Action {
        subresource: "status".into(),
        ..kit.as_seen(1, "a", patch(PatchKind::Merge, json!({"status": {"x": 1}})))
    };
    let steps = vec![
        step(vec![kit.as_seen(1, "a", patch(PatchKind::Merge, json!({"spec": {}})))]),
        step(vec![status]),
        step(vec![kit.as_seen(1, "a", delete())]),
    ];
    let executed = kit.run(steps).await;
    assert!(!executed.failed, "{executed:?}");
    let asked = kit.asked.lock();
    assert_eq!(asked[0].body["metadata"]["resourceVersion"], "7");
    assert_eq!(
        (asked[1].path.as_str(), &asked[1].body["metadata"]["resourceVersion"]),
        (&*format!("{OBJECT}/status"), &json!("8"))
    );
    assert_eq!(asked[2].body["preconditions"]["resourceVersion"], "9");
}

#[tokio::test(start_paused = true)]
async fn a_replace_gets_the_version_filled_in() {
    let kit = Kit::new(|_| ok(thing("a", "u", 8)));
    kit.cache.put(1, "a", "u", 7);
    kit.act(kit.action("a", Verb::Replace(json!({"spec": {}}).to_string()))).await;
    assert_eq!(kit.asked.lock()[0].body["metadata"]["resourceVersion"], "7");
}

#[tokio::test(start_paused = true)]
async fn only_a_conflict_with_a_version_holds_the_key() {
    let moved = |kit: &Kit| Barrier::Moved {
        resource: kit.things,
        namespace: "ns".into(),
        name: "a".into(),
        sent: "7".into(),
    };
    let kit = Kit::new(|_| refuse(409, "Conflict"));
    kit.cache.put(1, "a", "u", 7);
    let seen = kit.act(kit.as_seen(1, "a", patch(PatchKind::Merge, json!({})))).await;
    assert_eq!(seen.barriers, [moved(&kit)]);
    let unseen = kit.act(kit.action("a", patch(PatchKind::Merge, json!({})))).await;
    assert!(unseen.failed && unseen.barriers.is_empty());

    let kit = Kit::new(|_| refuse(409, "AlreadyExists"));
    kit.cache.put(1, "a", "u", 7);
    let other = kit.act(kit.as_seen(1, "a", patch(PatchKind::Merge, json!({})))).await;
    assert!(other.failed && other.barriers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_failed_test_of_a_json_patch_is_a_conflict() {
    let kit =
        Kit::new(|asked| if asked.method == "GET" { ok(thing("a", "u", 9)) } else { refuse(422, "Invalid") });
    kit.cache.put(1, "a", "u", 7);
    let executed = kit.act(kit.as_seen(1, "a", patch(PatchKind::Json, json!([])))).await;
    assert_eq!(failure(&executed).reason, "Conflict");
    kit.cache.put(1, "a", "u", 9);
    let executed = kit.act(kit.as_seen(1, "a", patch(PatchKind::Json, json!([])))).await;
    assert_eq!(failure(&executed).reason, "Invalid");
}

#[tokio::test(start_paused = true)]
async fn what_a_delete_is_done_by() {
    // Gone, or another by now: done. The same one: a conflict.
    for (live, done) in
        [(refuse(404, "NotFound"), true), (ok(thing("a", "other", 9)), true), (ok(thing("a", "u", 9)), false)]
    {
        let mut live = Some(live);
        let kit =
            Kit::new(
                move |asked| {
                    if asked.method == "GET" { live.take().unwrap() } else { refuse(409, "Conflict") }
                },
            );
        let action = Action { precondition: Precondition::Uid("u".into()), ..kit.action("a", delete()) };
        assert_eq!(kit.act(action).await.failed, !done);
    }
    let kit = Kit::new(|_| super::kit::gone("a"));
    kit.cache.put(1, "a", "u", 7);
    let action = Action { precondition: Precondition::Uid("u".into()), ..kit.action("a", delete()) };
    let executed = kit.act(action.clone()).await;
    assert!(!executed.failed);
    assert_eq!(executed.barriers, [gone(&kit, "u", true)]);
    // A uid never lives again.
    assert!(!kit.act(action).await.failed);
    assert_eq!(kit.lines().len(), 1);
    // Nothing of this name is said to be gone, so nothing is waited for.
    let kit = Kit::new(|_| refuse(404, "NotFound"));
    kit.cache.put(1, "a", "u", 7);
    let action = Action { precondition: Precondition::Uid("u".into()), ..kit.action("a", delete()) };
    let executed = kit.act(action).await;
    assert!(executed.failed && executed.barriers.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_that_vanishes_by_a_patch_must_be_gone() {
    let mut body = thing("a", "u", 8);
    body["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let kit = Kit::new(move |_| ok(body.clone()));
    kit.cache.put(1, "a", "u", 7);
    let executed =
        kit.act(kit.action("a", patch(PatchKind::Merge, json!({"metadata": {"finalizers": null}})))).await;
    assert_eq!(executed.barriers, [gone(&kit, "u", false), version(&kit, 8)]);
}

#[tokio::test(start_paused = true)]
async fn an_eviction_is_followed_up() {
    let kit = Kit::new(|asked| {
        if asked.method == "GET" {
            ok(thing("a", "u", 11))
        } else {
            Reply::Answer(201, json!({"kind": "Status", "status": "Success"}))
        }
    });
    kit.cache.put(1, "a", "u", 7);
    let executed = kit
        .act(Action { subresource: "eviction".into(), ..kit.action("a", Verb::Create("{}".into())) })
        .await;
    assert_eq!(kit.lines(), [format!("POST {OBJECT}/eviction"), format!("GET {OBJECT}")]);
    assert_eq!(executed.barriers, [version(&kit, 11)]);
}

#[tokio::test(start_paused = true)]
async fn writes_that_change_nothing_are_counted() {
    let kit = Kit::new(|_| ok(thing("primary", "u", 7)));
    kit.cache.put(1, "primary", "u", 7);
    let executed = kit.act(kit.action("primary", patch(PatchKind::Merge, json!({})))).await;
    assert_eq!((executed.done.len(), executed.no_op_writes, executed.primary_version), (1, 1, Some(7)));
}

#[tokio::test(start_paused = true)]
async fn throttling_is_waited_out_a_few_times() {
    let mut left = 2;
    let kit = Kit::new(move |_| {
        left -= 1;
        if left >= 0 { Reply::Throttle((left == 0).then_some(7)) } else { ok(thing("a", "u", 8)) }
    });
    let started = Instant::now();
    assert!(!kit.act(kit.action("a", patch(PatchKind::Merge, json!({})))).await.failed);
    assert_eq!(started.elapsed().as_secs(), 8, "a second where none is named, and the seven that were");

    let kit = Kit::new(|_| Reply::Throttle(None));
    let started = Instant::now();
    let executed = kit.act(kit.action("a", patch(PatchKind::Merge, json!({})))).await;
    assert_eq!(failure(&executed).status, 429);
    assert_eq!((kit.lines().len(), started.elapsed().as_secs()), (11, 10));

    let kit = Kit::new(|_| Reply::Throttle(Some(3600)));
    let started = Instant::now();
    assert!(kit.act(kit.action("a", patch(PatchKind::Merge, json!({})))).await.failed);
    assert!(started.elapsed() < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_sent_past_a_closed_gate() {
    let kit = Kit::new(|_| ok(json!({})));
    kit.gate.0.store(false, Ordering::Relaxed);
    let executed = kit.act(kit.action("a", delete())).await;
    assert!(kit.lines().is_empty() && executed.halted && !executed.failed);
    assert_eq!(executed.results, [ActionResult { tag: "a!".into(), result: ActionOutcome::Skipped }]);
}

#[tokio::test(start_paused = true)]
async fn a_gate_that_closes_stops_the_next_write() {
    let kit = Kit::new(|_| Reply::Throttle(Some(5)));
    let gate = kit.gate.clone();
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_secs(2)).await;
        gate.0.store(false, Ordering::Relaxed);
    });
    let executed = kit.act(kit.action("a", delete())).await;
    assert_eq!((kit.lines().len(), executed.halted), (1, true));
}
