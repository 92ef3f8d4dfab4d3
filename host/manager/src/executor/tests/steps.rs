//! Plans: what is refused, in which order things are done, what is reported.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;

use super::kit::*;
use crate::{
    contract::*,
    grants::{Entry, Grants, Rule},
};

fn tags(results: &[ActionResult]) -> Vec<(&str, &str)> {
    let word = |outcome: &ActionOutcome| match outcome {
        ActionOutcome::Failed(_) => "failed",
        ActionOutcome::Skipped => "skipped",
        ActionOutcome::Unknown => "unknown",
    };
    results.iter().map(|result| (result.tag.as_str(), word(&result.result))).collect()
}

#[tokio::test(start_paused = true)]
async fn a_plan_that_makes_no_sense_is_not_begun() {
    let kit = Kit::with(|_| {}, |_| ok(json!({})));
    let good = kit.action("a", delete());
    let merge = |body| patch(PatchKind::Merge, body);
    let bad = [
        (Action { resource: 99, ..good.clone() }, "no resource number 99"),
        (
            Action { subresource: "scale".into(), verb: merge(json!({})), ..good.clone() },
            "does not declare patch of things.example.com/scale",
        ),
        (Action { namespace: String::new(), ..good.clone() }, "are namespaced"),
        (Action { name: String::new(), ..good.clone() }, "needs a name"),
        (Action { name: "../secrets/a".into(), ..good.clone() }, "cannot be a name"),
        (Action { namespace: "a/b".into(), ..good.clone() }, "cannot be a namespace"),
        (kit.action("", Verb::Create("{}".into())), "needs a name or a generateName"),
        (kit.action("a", create(json!({"name": "b"}))), "its object \"b\""),
        (kit.action("a", Verb::Create("{".into())), "not valid JSON"),
        (kit.action("a", Verb::Replace("[]".into())), "not a JSON object"),
        (kit.action("a", Verb::Replace(r#"{"metadata": 1}"#.into())), "metadata is not"),
        (kit.action("a", patch(PatchKind::Json, json!([{"op": "jump"}]))), "not a JSON patch"),
        (
            kit.action("a", merge(json!({"status": {"conditions": []}}))),
            "would replace the array status.conditions",
        ),
        (kit.as_seen(1, "a", create(json!({}))), "takes no precondition"),
        (Action { precondition: Precondition::Uid(String::new()), ..good.clone() }, "empty uid"),
        (
            Action {
                precondition: Precondition::AsSeen(ObjectRef { resource: 9, id: 1, version: 1 }),
                ..good.clone()
            },
            "another resource",
        ),
    ];
    for (action, reason) in bad {
        let executed = kit.run(vec![step(vec![good.clone()]), step(vec![action])]).await;
        let invalid = executed.invalid.unwrap_or_default();
        assert!(invalid.contains(reason), "{invalid:?} should say {reason:?}");
        assert!(executed.failed);
    }
    assert!(kit.lines().is_empty(), "nothing was sent");
}

#[tokio::test(start_paused = true)]
async fn the_operator_may_grant_less() {
    let no_deletes = Entry {
        name: "*".into(),
        allow: None,
        deny: vec![Rule { verbs: Some(vec!["delete".into(), "deletecollection".into()]), ..Rule::default() }],
    };
    let grants = Grants::with("thing-controller", vec![no_deletes]);
    let kit = Kit::with(|config| config.grants = grants.clone(), |_| ok(json!({})));
    let all = CollectionOptions {
        propagation: None,
        grace_seconds: None,
        labels: String::new(),
        fields: String::new(),
    };
    let collection = Action { name: String::new(), ..kit.action("", Verb::DeleteCollection(all)) };
    for (n, action) in [kit.action("a", delete()), collection].into_iter().enumerate() {
        let tag = action.tag.clone();
        let executed = kit.run(vec![step(vec![kit.action("b", create(json!({"name": "b"}))), action])]).await;
        assert!(
            executed.denied && executed.invalid.unwrap().contains("operator's policy does not grant delete")
        );
        // The module is told which of its actions is to blame.
        assert_eq!(tags(&executed.results), [("b!", "skipped"), (tag.as_str(), "failed")]);
        assert_eq!(grants.counts().writes, n as u64 + 1);
    }
    assert!(kit.lines().is_empty(), "nothing was sent");
    let status =
        Action { subresource: "status".into(), ..kit.action("a", patch(PatchKind::Merge, json!({}))) };
    assert!(kit.act(status).await.invalid.is_none());
}

#[tokio::test(start_paused = true)]
async fn slow_start_doubles_and_stops() {
    let kit =
        Kit::new(|asked| if asked.path.ends_with("/n4") { refuse(403, "Forbidden") } else { ok(json!({})) });
    let actions = (0..10).map(|n| kit.action(&format!("n{n}"), delete())).collect();
    let executed = kit.run(vec![Step { actions, pace: Pace::SlowStart, on_failure: OnFailure::Stop }]).await;
    assert_eq!(kit.lines().len(), 7, "batches of 1, 2 and 4");
    assert_eq!(
        tags(&executed.results),
        [("n4!", "failed"), ("n7!", "skipped"), ("n8!", "skipped"), ("n9!", "skipped")]
    );
    assert_eq!(executed.done.len(), 6);
    assert!(executed.advanced);
}

#[tokio::test(start_paused = true)]
async fn what_failed_of_conflicts_alone_is_told_from_other_failures() {
    let kit = Kit::new(|asked| match asked.path.rsplit_once('/').unwrap().1 {
        "moved" => refuse(409, "Conflict"),
        "there" => refuse(409, "AlreadyExists"),
        _ => ok(json!({})),
    });
    let run = async |names: &[&str]| {
        let change = |name: &&str| kit.action(name, patch(PatchKind::Merge, json!({})));
        let step = Step { on_failure: OnFailure::GoOn, ..step(names.iter().map(change).collect()) };
        kit.run(vec![step]).await.is_conflict()
    };
    assert!(run(&["moved", "good"]).await);
    assert!(!run(&["moved", "there"]).await);
    assert!(!run(&["good"]).await);
}

#[tokio::test(start_paused = true)]
async fn only_the_step_that_failed_can_have_advanced() {
    let kit =
        Kit::new(|asked| if asked.path.ends_with("/bad") { refuse(403, "Forbidden") } else { ok(json!({})) });
    let bad = || Step { on_failure: OnFailure::GoOn, ..step(vec![kit.action("bad", delete())]) };
    let executed = kit.run(vec![bad(), step(vec![kit.action("good", delete())])]).await;
    assert!(executed.failed && !executed.advanced, "what else was done tells nothing of the failure");
    let both = vec![kit.action("bad", delete()), kit.action("good", delete())];
    assert!(kit.run(vec![step(both)]).await.advanced);
}

#[tokio::test(start_paused = true)]
async fn a_failure_stops_later_steps_or_not() {
    for (on_failure, sent, expected) in [
        (OnFailure::Stop, 2, vec![("bad!", "failed"), ("later!", "skipped")]),
        (OnFailure::GoOn, 3, vec![("bad!", "failed")]),
    ] {
        let kit =
            Kit::new(
                |asked| if asked.path.ends_with("/bad") { refuse(403, "Forbidden") } else { ok(json!({})) },
            );
        let first = Step {
            actions: vec![kit.action("bad", delete()), kit.action("good", delete())],
            pace: Pace::Together,
            on_failure,
        };
        let executed = kit.run(vec![first, step(vec![kit.action("later", delete())])]).await;
        assert_eq!(kit.lines().len(), sent);
        assert_eq!(tags(&executed.results), expected);
        assert!(executed.failed);
    }
}

#[tokio::test(start_paused = true)]
async fn together_is_bounded() {
    let started = tokio::time::Instant::now();
    let kit = Kit::with(|config| config.together = 4, |_| ok(json!({})));
    let actions = (0..20).map(|n| kit.action(&format!("n{n}"), delete())).collect();
    assert_eq!(kit.run(vec![step(actions)]).await.done.len(), 20);
    // Each request takes the server a millisecond.
    assert!(started.elapsed() >= Duration::from_millis(5), "{:?}", started.elapsed());
    assert!(started.elapsed() < Duration::from_millis(20), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn the_rate_is_the_manifests_multiple() {
    let mut manifest = manifest();
    manifest.client_limits = ClientLimits { qps: 2, burst: 2 };
    let change = |config: &mut crate::executor::ExecutorConfig| {
        (config.manifest, config.qps, config.burst) = (Arc::new(manifest), 5.0, 5);
    };
    let kit = Kit::with(change, |_| ok(json!({})));
    let started = tokio::time::Instant::now();
    let actions = (0..30).map(|n| kit.action(&format!("n{n}"), delete())).collect();
    kit.run(vec![step(actions)]).await;
    let took = started.elapsed().as_millis();
    assert!((1950..2200).contains(&took), "{took}: 10 at once, then 10 a second");
}

#[tokio::test(start_paused = true)]
async fn events_tell_of_success_and_failure() {
    let calls = Arc::new(AtomicUsize::new(0));
    let kit = Kit::new(move |asked| {
        if calls.fetch_add(1, Ordering::Relaxed) == 0 {
            Reply::Answer(201, asked.body.clone())
        } else {
            refuse(403, "Forbidden")
        }
    });
    kit.cache.put(1, "primary", "owner", 5);
    let action = kit.telling(kit.action("web", create(json!({}))));
    kit.run(vec![step(vec![action.clone()]), step(vec![action])]).await;
    while kit.events.lock().len() < 2 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let events = kit.events.lock();
    assert_eq!(events[0]["message"], "made web {x}");
    assert_eq!(events[1]["message"], "no web: says Forbidden");
    assert_eq!(
        (&events[0]["type"], &events[0]["reason"], &events[0]["count"]),
        (&json!("Warning"), &json!("Created"), &json!(1))
    );
    assert_eq!(
        events[0]["involvedObject"],
        json!({"apiVersion": "example.com/v1", "kind": "Thing", "namespace": "ns", "name": "primary", "uid": "owner", "resourceVersion": "5"})
    );
    assert_eq!(
        (&events[0]["source"]["component"], &events[0]["reportingComponent"]),
        (&json!("thing-controller"), &json!("thing-controller"))
    );
}
