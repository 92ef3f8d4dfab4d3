//! The next version of the gadget controller. It decides as the one before does,
//! but for gadgets whose names begin with `differ` (their parts get a label),
//! `trap` (it panics) and `spin` (it never ends): what a shadow must find.

use coxswain_sdk::{
    Action, Controller, Ctx, Declaration, FromJson, ObjectMeta, OwnerReference, Plan, Query, Resource,
    Result, Step, View,
};
use serde::Serialize;
use serde_json::json;

const GADGETS: Resource = Resource::new("test.example", "v1", "gadgets", "Gadget");
const CONFIG_MAPS: Resource = Resource::new("", "v1", "configmaps", "ConfigMap");

/// A gadget.
#[derive(Debug, FromJson)]
pub struct Gadget {
    metadata: ObjectMeta,
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, FromJson)]
struct Spec {
    #[serde(default)]
    parts: usize,
}

#[derive(Debug, Default, PartialEq, FromJson, Serialize)]
#[serde(default)]
struct Status {
    parts: usize,
}

impl View for Gadget {
    const RESOURCE: Resource = GADGETS;
}

/// A part: all that matters is that it is there.
#[derive(Debug, FromJson)]
pub struct Part {
    metadata: ObjectMeta,
}

impl View for Part {
    const RESOURCE: Resource = CONFIG_MAPS;
}

/// The controller.
#[derive(Debug)]
pub struct GadgetController;

impl Controller for GadgetController {
    fn declare() -> Declaration {
        Declaration::new("gadget-controller")
            .alias("gadget")
            .version("next")
            .keys_objects("gadgets", &[GADGETS])
            .read::<Gadget>()
            .read::<Part>()
            .write(CONFIG_MAPS, "", &["create", "delete"])
            .write(GADGETS, "status", &["patch"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(gadget) = ctx.primary::<Gadget>()? else { return Ok(plan) };
        let meta = &gadget.metadata;
        if meta.is_deleting() {
            return Ok(plan);
        }
        let name = &ctx.key().name;
        if name.starts_with("trap") {
            panic!("this version cannot reconcile {name}");
        }
        if name.starts_with("spin") {
            spin();
        }
        let labels = if name.starts_with("differ") { json!({"version": "next"}) } else { json!(null) };
        let parts = ctx.list::<Part>(Query::all().namespace(&meta.namespace).controlled_by(&meta.uid))?;
        let name = |number: usize| format!("{}-{number}", meta.name);
        let mut actions = Vec::new();
        for number in 0..gadget.spec.parts {
            if !parts.iter().any(|part| part.metadata.name == name(number)) {
                let owner = OwnerReference::controller(GADGETS, &meta.name, &meta.uid);
                let mut part = json!({
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {
                        "name": name(number),
                        "namespace": meta.namespace,
                        "ownerReferences": [owner],
                    },
                });
                if !labels.is_null() {
                    part["metadata"]["labels"] = labels.clone();
                }
                actions.push(Action::create(CONFIG_MAPS, &meta.namespace, &name(number), &part)?.tag("part"));
            }
        }
        for part in &parts {
            if !(0..gadget.spec.parts).any(|number| part.metadata.name == name(number)) {
                let delete = Action::delete(CONFIG_MAPS, &meta.namespace, &part.metadata.name);
                actions.push(delete.uid(&part.metadata.uid).tag("surplus"));
            }
        }
        if !actions.is_empty() {
            plan.then(Step::new(actions));
        }
        let wanted = Status { parts: parts.len() };
        plan.then(Action::status(GADGETS, &meta.namespace, &meta.name, &gadget.status, &wanted)?);
        Ok(plan)
    }
}

fn spin() {
    let mut n = 0u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

coxswain_sdk::export!(GadgetController);
