//! The kit must fail where a controller does wrong.

use serde::Deserialize;
use serde_json::json;

use super::{Native, Scenario, play};
use crate::resource::{PODS, REPLICA_SETS};
use crate::{Action, Ask, Controller, Ctx, Declaration, ObjectMeta, Plan, Query, Resource, Result, View};

#[derive(Deserialize)]
struct Pod {
    metadata: ObjectMeta,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// A second view of the same resource, which no controller here declares.
#[derive(Deserialize)]
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
    ] {
        let error = told::<Good>(scenario).unwrap_err();
        assert!(error.contains(complaint), "{error}");
    }
}
