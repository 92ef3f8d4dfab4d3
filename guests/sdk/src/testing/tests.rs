//! The kit must fail where a controller does wrong.

use serde_json::json;

use super::{Native, Scenario, play};
use crate::read::FromJson;
use crate::resource::{EVERY, PODS, REPLICA_SETS};
use crate::{Action, Ask, Controller, Ctx, Declaration, ObjectMeta, Plan, Query, Resource, Result, View};

#[derive(FromJson)]
struct Pod {
    metadata: ObjectMeta,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// A second view of the same resource, which no controller here declares.
#[derive(FromJson)]
struct Undeclared {}

impl View for Undeclared {
    const RESOURCE: Resource = PODS;
}

fn declare() -> Declaration {
    Declaration::new("bad-controller").keys_objects("pods", &[PODS]).read::<Pod>().write(PODS, "", &["patch"])
}

fn label(pod: &Pod, value: &str) -> Action {
    let body = json!({"metadata": {"labels": {"a": value}}});
    Action::merge(PODS, &pod.metadata.namespace, &pod.metadata.name, &body)
}

/// A controller that is one function.
macro_rules! controller {
    ($name:ident, $ctx:ident, $pod:ident, $plan:ident, $body:block) => {
        struct $name;

        impl Controller for $name {
            fn declare() -> Declaration {
                declare()
            }

            fn reconcile($ctx: &Ctx<'_>) -> Result<Plan> {
                let mut $plan = Plan::new();
                let Some($pod) = $ctx.primary::<Pod>()? else { return Ok($plan) };
                $body
                Ok($plan)
            }
        }
    };
}

controller!(Good, _ctx, pod, plan, {
    if pod.metadata.labels.is_empty() {
        plan.then(label(&pod, "x"));
    }
});
controller!(WritesInVain, _ctx, pod, plan, {
    plan.then(label(&pod, "x"));
});
controller!(NeverRests, _ctx, pod, plan, {
    let before = pod.metadata.labels.get("a").map_or(0, String::len);
    plan.then(label(&pod, &"x".repeat(before % 3 + 1)));
});
controller!(ComesBackAtOnce, ctx, _pod, plan, {
    plan.come_back(ctx.now());
});
controller!(ReadsUndeclared, ctx, _pod, plan, {
    plan.quiet(u32::try_from(ctx.list::<Undeclared>(Query::all())?.len()).unwrap_or(0));
});
controller!(WritesUndeclared, _ctx, pod, plan, {
    plan.then(label(&pod, "x").subresource("status"));
});
controller!(LooksUpUndeclared, ctx, pod, plan, {
    ctx.look_up(Ask::get(PODS, &pod.metadata.namespace, &pod.metadata.name))?.ok();
    plan.quiet(1);
});
controller!(NamesUndeclared, ctx, _pod, plan, {
    plan.quiet(ctx.number(REPLICA_SETS)?);
});

/// Labels whatever is there.
struct Every;

#[derive(FromJson)]
struct Any {
    metadata: ObjectMeta,
}

impl View for Any {
    const RESOURCE: Resource = EVERY;
}

impl Controller for Every {
    fn declare() -> Declaration {
        Declaration::new("every-controller")
            .keys_indexed("objects", &[EVERY], &["orphan"])
            .read::<Any>()
            .write(EVERY, "", &["patch"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        if let Some(object) = ctx.primary::<Any>()?.filter(|object| object.metadata.labels.is_empty()) {
            let meta = &object.metadata;
            let body = json!({"metadata": {"labels": {"a": "x"}}});
            plan.then(Action::merge(ctx.key().resource, &meta.namespace, &meta.name, &body));
        }
        Ok(plan)
    }
}

/// Remembers how its lookups went, three reconciles long.
struct LooksUp;

impl Controller for LooksUp {
    fn declare() -> Declaration {
        declare().lookup_get(PODS, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(pod) = ctx.primary::<Pod>()? else { return Ok(plan) };
        let seen = ctx.state().unwrap_or_default();
        let answer = ctx.look_up(Ask::get(PODS, &pod.metadata.namespace, &pod.metadata.name))?;
        if seen.split(' ').count() < 4 {
            plan.keep(format!(
                "{seen} {}",
                answer.map_or_else(|failure| failure.message, |_| "live".to_owned())
            ));
            plan.come_back(ctx.now() + std::time::Duration::from_secs(1));
        }
        Ok(plan)
    }
}

const ONE_POD: &str = "{about: one pod, objects: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]}";

fn told<C: Controller>(scenario: &str) -> Result<String, String> {
    let scenario: Scenario = serde_yaml::from_str(scenario).map_err(|e| e.to_string())?;
    play(&scenario, &mut Native::<C>::new())
}

#[test]
fn a_good_controller_comes_to_rest() {
    let golden = told::<Good>(ONE_POD).unwrap();
    assert_eq!(golden.matches("do: patch pods default/a").count(), 1, "{golden}");
}

#[test]
fn what_is_wrong_is_found() {
    for (told, complaint) in [
        (told::<WritesInVain>(ONE_POD), "a write changes nothing"),
        (told::<NeverRests>(ONE_POD), "still not at rest after 30 rounds"),
        (told::<ComesBackAtOnce>(ONE_POD), "wants to come back at once"),
        (told::<WritesUndeclared>(ONE_POD), "the manifest does not allow to patch pods/status"),
        (told::<LooksUpUndeclared>(ONE_POD), "the manifest does not allow the lookup \"get pods default/a\""),
    ] {
        let error = told.unwrap_err();
        assert!(error.contains(complaint), "{error}");
    }
    for (told, complaint) in [
        (told::<ReadsUndeclared>(ONE_POD), "Undeclared is not declared in the manifest"),
        (told::<NamesUndeclared>(ONE_POD), "apps/v1 replicasets is not declared in the manifest"),
    ] {
        let golden = told.unwrap();
        assert!(golden.contains("terminal:") && golden.contains(complaint), "{golden}");
    }
}

#[test]
fn a_scenario_that_shows_nothing_is_refused() {
    for (scenario, complaint) in [
        (
            "{about: x, refuse: [{verb: delete, resource: pods}]}",
            "nothing ran into the refusal of delete pods",
        ),
        ("{about: x, objects: [{apiVersion: v9, kind: Pod}]}", "unknown kind v9 Pod"),
        ("{about: x, now: yesterday}", "not a time"),
        (
            "{about: x, options: {speed: fast}, objects: [{apiVersion: v1, kind: Pod, metadata: {name: a}}]}",
            "no option speed",
        ),
        ("{about: x, then: [{remove: [pods default/b]}]}", "is not there"),
        ("{about: x, objcets: []}", "objcets"),
        (
            "{about: x, then: [{resources: [{apiVersion: v9, kind: Pod, plural: pods}]}]}",
            "v9 pods is not there; begin with it absent",
        ),
    ] {
        let error = told::<Good>(scenario).unwrap_err();
        assert!(error.contains(complaint), "{error}");
    }
}

#[test]
fn what_is_not_synced_is_not_there_until_it_is() {
    for state in ["syncing", "failed", "absent", "uncached"] {
        let first = format!("resources: [{{apiVersion: v1, kind: Pod, plural: pods, state: {state}}}]");
        let hidden = ONE_POD.replace("objects:", &format!("{first}, objects:"));
        assert_eq!(told::<Every>(&hidden), Ok("[]\n".to_owned()), "{state}");
        let later = "then: [{after: 5, resources: [{apiVersion: v1, kind: Pod, plural: pods}]}]";
        let golden = told::<Every>(&hidden.replace("objects:", &format!("{later}, objects:"))).unwrap();
        assert!(golden.starts_with("- at: \"2026-01-01T00:00:05Z\""), "{state}: {golden}");
    }
}

#[test]
fn an_answer_that_holds_a_few_times_gives_way_to_the_objects() {
    let scenario = ONE_POD.replace(
        "objects:",
        "lookups: [{ask: get pods default/a, times: 2, fail: {status: 500, message: away}}], objects:",
    );
    let golden = told::<LooksUp>(&scenario).unwrap();
    assert!(golden.contains("away away live"), "{golden}");
}
