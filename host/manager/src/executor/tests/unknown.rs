//! Answers that were lost on the way.

use std::{
    collections::{HashMap, hash_map::Entry},
    time::Duration,
};

use serde_json::{Value, json};

use super::kit::*;
use crate::contract::*;

/// A server that keeps things and loses the answers of the first `losses`
/// writes, after having carried them out if `does` says so.
fn keeper(mut losses: usize, does: bool, start: &[Value]) -> impl FnMut(&Asked) -> Reply + Send + 'static {
    let mut things: HashMap<String, Value> = start
        .iter()
        .map(|thing| (thing["metadata"]["name"].as_str().unwrap().to_owned(), thing.clone()))
        .collect();
    let mut version = 100u64;
    move |asked| {
        let name = asked.path.rsplit('/').next().unwrap_or_default().to_owned();
        if asked.method == "GET" {
            return things.get(&name).map_or_else(|| refuse(404, "NotFound"), |thing| ok(thing.clone()));
        }
        let lose = losses > 0;
        losses = losses.saturating_sub(1);
        if lose && !does {
            return Reply::Lost;
        }
        version += 1;
        let reply = match asked.method.as_str() {
            "POST" => {
                let name = asked.body["metadata"]["name"].as_str().unwrap().to_owned();
                match things.entry(name) {
                    Entry::Occupied(_) => refuse(409, "AlreadyExists"),
                    Entry::Vacant(free) => {
                        let mut made = asked.body.clone();
                        made["metadata"]["uid"] = json!(format!("uid-{}", free.key()));
                        made["metadata"]["resourceVersion"] = json!(version.to_string());
                        free.insert(made.clone());
                        Reply::Answer(201, made)
                    }
                }
            }
            "DELETE" => match things.remove(&name) {
                Some(_) => ok(json!({"kind": "Status", "status": "Success"})),
                None => refuse(404, "NotFound"),
            },
            _ => match things.get_mut(&name) {
                None => refuse(404, "NotFound"),
                Some(thing) => {
                    let wanted = &asked.body["metadata"]["resourceVersion"];
                    if !wanted.is_null() && *wanted != thing["metadata"]["resourceVersion"] {
                        refuse(409, "Conflict")
                    } else {
                        json_patch::merge(thing, &asked.body);
                        thing["metadata"]["resourceVersion"] = json!(version.to_string());
                        ok(thing.clone())
                    }
                }
            },
        };
        if lose { Reply::Lost } else { reply }
    }
}

fn count(kit: &Kit, method: &str) -> usize {
    kit.asked.lock().iter().filter(|asked| asked.method == method).count()
}

#[tokio::test(start_paused = true)]
async fn a_create_with_a_lost_answer_makes_one_object() {
    for (losses, does) in [(1, true), (2, true), (1, false), (2, false)] {
        let kit = Kit::new(keeper(losses, does, &[]));
        let executed = kit.act(kit.action("", create(json!({"generateName": "web-"})))).await;
        assert_eq!((executed.failed, executed.done.len()), (does, 1), "{losses} {does}: {executed:?}");
        let names: std::collections::HashSet<String> = kit
            .asked
            .lock()
            .iter()
            .filter(|asked| asked.method == "POST")
            .map(|asked| asked.body["metadata"]["name"].to_string())
            .collect();
        assert_eq!(names.len(), 1, "one name for all attempts: {names:?}");
        assert_eq!(
            kit.asked.lock()[0].body["metadata"]["generateName"],
            "web-",
            "the object says how it was named"
        );
        assert_eq!(executed.barriers.len(), 1, "{executed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_create_that_never_gets_an_answer_is_looked_for() {
    let kit = Kit::new(keeper(3, true, &[]));
    let executed = kit.act(kit.action("", create(json!({"generateName": "web-"})))).await;
    assert_eq!((count(&kit, "POST"), count(&kit, "GET")), (3, 1));
    assert!(executed.failed && executed.done.len() == 1, "it is there, but no answer said so: {executed:?}");

    let kit = Kit::new(keeper(99, false, &[]));
    let executed = kit.act(kit.action("", create(json!({"generateName": "web-"})))).await;
    assert_eq!(executed.results[0].result, ActionOutcome::Unknown);
    assert!(executed.failed);
}

#[tokio::test(start_paused = true)]
async fn somebody_elses_object_is_not_ours() {
    let mut other = thing("a", "x", 1);
    other["metadata"]["ownerReferences"] = json!([{"uid": "somebody", "controller": true}]);
    let kit = Kit::new(keeper(1, false, &[other]));
    let executed = kit.act(kit.action("a", create(json!({})))).await;
    assert_eq!(failure(&executed).reason, "AlreadyExists");

    // Without a lost answer, not even one with our owner counts.
    let mut ours = thing("a", "x", 1);
    ours["metadata"]["ownerReferences"] = json!([{"uid": "owner", "controller": true}]);
    let kit = Kit::new(keeper(0, false, &[ours]));
    let executed = kit.act(kit.action("a", create(json!({})))).await;
    assert_eq!(failure(&executed).reason, "AlreadyExists");
    assert_eq!(count(&kit, "GET"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_generated_name_that_is_taken_is_drawn_again() {
    let mut taken = 2;
    let kit = Kit::new(move |asked| {
        taken -= 1;
        if taken >= 0 { refuse(409, "AlreadyExists") } else { Reply::Answer(201, asked.body.clone()) }
    });
    let name = "n".repeat(80);
    assert!(!kit.act(kit.action("", create(json!({"generateName": name})))).await.failed);
    let names: Vec<String> = kit
        .asked
        .lock()
        .iter()
        .map(|asked| asked.body["metadata"]["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(names.len(), 3);
    assert!(names[0] != names[1] && names[1] != names[2]);
    assert!(names.iter().all(|name| name.len() == 63));
}

#[tokio::test(start_paused = true)]
async fn a_delete_with_a_lost_answer_is_done_once_it_is_gone() {
    for (does, deletes) in [(true, 1), (false, 2)] {
        let kit = Kit::new(keeper(1, does, &[thing("a", "u", 7)]));
        kit.cache.put(1, "a", "u", 7);
        let executed = kit.act(kit.as_seen(1, "a", delete())).await;
        assert_eq!(executed.failed, does, "{executed:?}");
        assert_eq!(count(&kit, "DELETE"), deletes);
        assert_eq!(executed.barriers.len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_change_with_a_lost_answer_is_compared() {
    let body = json!({"spec": {"n": 3}});
    for (does, patches) in [(true, 1), (false, 2)] {
        let kit = Kit::new(keeper(1, does, &[thing("a", "u", 7)]));
        kit.cache.put(1, "a", "u", 7);
        let executed = kit.act(kit.as_seen(1, "a", patch(PatchKind::Merge, body.clone()))).await;
        assert_eq!(executed.failed, does, "{executed:?}");
        assert_eq!(count(&kit, "PATCH"), patches);
    }
    // The object has moved on and does not show it: nobody can tell.
    let kit = Kit::new(keeper(1, false, &[thing("a", "u", 9)]));
    kit.cache.put(1, "a", "u", 7);
    let executed = kit.act(kit.as_seen(1, "a", patch(PatchKind::Merge, body))).await;
    assert_eq!(executed.results[0].result, ActionOutcome::Unknown);
    assert_eq!(count(&kit, "PATCH"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_error_is_a_failure_once_looked_at() {
    let kit =
        Kit::new(
            |asked| {
                if asked.method == "GET" { refuse(404, "NotFound") } else { refuse(500, "InternalError") }
            },
        );
    let executed = kit.act(kit.action("", create(json!({"generateName": "web-"})))).await;
    assert_eq!(failure(&executed).reason, "InternalError");
    assert_eq!(kit.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_late_timeout_counts_as_lost() {
    let mut first = true;
    let kit = Kit::new(move |asked| {
        if std::mem::take(&mut first) {
            refuse(504, "Timeout")
        } else {
            Reply::Answer(201, asked.body.clone())
        }
    });
    assert!(!kit.act(kit.action("a", create(json!({})))).await.failed);
    assert_eq!(count(&kit, "POST"), 2);
}

#[tokio::test(start_paused = true)]
async fn what_took_effect_without_an_answer_is_a_failure_to_the_module() {
    for (losses, does, events) in
        [(1, true, ["FailedCreate"]), (1, false, ["Created"]), (0, true, ["Created"])]
    {
        let kit = Kit::new(keeper(losses, does, &[]));
        let executed = kit.act(kit.telling(kit.action("web", create(json!({}))))).await;
        assert_eq!(executed.barriers.len(), 1, "the cache is to show it before the next reconcile");
        let failed = losses > 0 && does;
        assert_eq!(
            matches!(&executed.results[..], [result] if matches!(result.result, ActionOutcome::Failed(_))),
            failed
        );
        tokio::time::sleep(Duration::from_secs(60)).await;
        let reasons: Vec<Value> = kit.events.lock().iter().map(|event| event["reason"].clone()).collect();
        assert_eq!(reasons, events, "{losses} {does}");
    }
}
