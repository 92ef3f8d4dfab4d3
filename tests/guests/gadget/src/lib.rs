//! A controller for a resource that no Kubernetes knows: a Gadget wants as many
//! ConfigMaps of its own as `spec.parts` says. It shows that the host needs to
//! know nothing about what it runs.

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

#[derive(Debug, Default, FromJson, Serialize, PartialEq)]
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
            .version(env!("CARGO_PKG_VERSION"))
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
        let parts = ctx.list::<Part>(Query::all().namespace(&meta.namespace).controlled_by(&meta.uid))?;
        let name = |number: usize| format!("{}-{number}", meta.name);
        let mut actions = Vec::new();
        for number in 0..gadget.spec.parts {
            if !parts.iter().any(|part| part.metadata.name == name(number)) {
                let owner = OwnerReference::controller(GADGETS, &meta.name, &meta.uid);
                let part = json!({
                    "apiVersion": "v1",
                    "kind": "ConfigMap",
                    "metadata": {
                        "name": name(number),
                        "namespace": meta.namespace,
                        "ownerReferences": [owner],
                    },
                });
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

coxswain_sdk::export!(GadgetController);
