//! A later version of the gadget controller that traps on every key: what a
//! manager must go back from.

use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Resource, Result, View};

const GADGETS: Resource = Resource::new("test.example", "v1", "gadgets", "Gadget");

/// A gadget, of which this version needs nothing.
#[derive(Debug, serde::Deserialize)]
pub struct Gadget {}

impl View for Gadget {
    const RESOURCE: Resource = GADGETS;
}

/// The controller.
#[derive(Debug)]
pub struct GadgetController;

impl Controller for GadgetController {
    fn declare() -> Declaration {
        Declaration::new("gadget-controller")
            .version("broken")
            .keys_objects("gadgets", &[GADGETS])
            .read::<Gadget>()
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        panic!("this version cannot reconcile {}", ctx.key().name)
    }
}

coxswain_sdk::export!(GadgetController);
