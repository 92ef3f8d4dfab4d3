//! Later versions of the gadget controller, most of them bad ones: what a manager
//! must go back from, and what it must hand state to.
//!
//! One build holds them all. Which one it is says a text in its data, which a
//! test replaces: that makes another module, with another hash.

use coxswain_sdk::{
    Action, Ask, Controller, Ctx, Declaration, FromJson, ObjectMeta, Plan, Resource, Result, Step, View,
    contract::LookupRule,
};
use serde::Serialize;
use serde_json::json;

const GADGETS: Resource = Resource::new("test.example", "v1", "gadgets", "Gadget");
const REVIEWS: Resource =
    Resource::new("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview");
const CONFIG_MAPS: Resource = Resource::new("", "v1", "configmaps", "ConfigMap");

/// The text that a test replaces: 16 characters after the sign of equality.
#[used]
static VARIANT: [u8; 31] = *b"gadget-variant=panics          ";

/// Which version this is.
fn variant() -> String {
    // SAFETY: it is read as it stands in memory, where a test may have changed it.
    let bytes = unsafe { std::ptr::read_volatile(&raw const VARIANT) };
    let text = String::from_utf8_lossy(&bytes);
    text.split_once('=').map_or("", |(_, variant)| variant.trim_end()).to_owned()
}

/// A gadget.
#[derive(Debug, FromJson)]
pub struct Gadget {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, FromJson)]
struct Spec {
    #[serde(default)]
    parts: usize,
}

#[derive(Debug, Default, PartialEq, FromJson, Serialize)]
#[serde(default)]
struct Status {
    parts: usize,
    seen: String,
}

impl View for Gadget {
    const RESOURCE: Resource = GADGETS;
}

/// The controller.
#[derive(Debug)]
pub struct GadgetController;

impl Controller for GadgetController {
    fn declare() -> Declaration {
        let variant = variant();
        assert!(variant != "undeclared", "this version cannot say what it is");
        let declaration = Declaration::new("gadget-controller")
            .alias("gadget")
            .version(&variant)
            .keys_objects("gadgets", &[GADGETS])
            .read::<Gadget>()
            .write(GADGETS, "status", &["patch"])
            .write(CONFIG_MAPS, "", &["create"]);
        match variant.as_str() {
            "keeps-1" => declaration.state_format(1, &[]),
            "keeps-2" => declaration.state_format(2, &[1]),
            "keeps-3" => declaration.state_format(3, &[]),
            "asks" => declaration.lookup_get(CONFIG_MAPS, "").lookup(LookupRule::Review(REVIEWS.to_wire())),
            _ => declaration,
        }
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let name = &ctx.key().name;
        match variant().as_str() {
            "spins" => spin(),
            "thirds" if name.ends_with(['0', '3', '6', '9']) => panic!("{name} is one of three"),
            "thirds" => Ok(Plan::new()),
            // What is asked does not change what is decided.
            "asks" if name.starts_with("review") => {
                let body =
                    json!({"spec": {"user": "u", "nonResourceAttributes": {"path": "/", "verb": "get"}}});
                let _ = ctx.look_up(Ask::Review {
                    resource: REVIEWS,
                    namespace: String::new(),
                    body: body.to_string(),
                })?;
                Ok(Plan::new())
            }
            "asks" => {
                let found = ctx.look_up(Ask::get(CONFIG_MAPS, "default", "aside"))?;
                assert!(found.is_ok_and(|found| found.contains("there it is")), "the answer did not come");
                Ok(Plan::new())
            }
            "invalid" => {
                let mut plan = Plan::new();
                let body = json!({"metadata": {"name": "no/name"}});
                plan.then(Step::new([Action::create(CONFIG_MAPS, "default", "no/name", &body)?]));
                Ok(plan)
            }
            keeps if keeps.starts_with("keeps-") => keep(ctx),
            other => panic!("this version ({other}) cannot reconcile {name}"),
        }
    }
}

/// Remembers which numbers of parts it has seen, and shows them. The first format
/// has commas between them, the others stars.
fn keep(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(gadget) = ctx.primary::<Gadget>()? else { return Ok(plan) };
    let mark = if variant() == "keeps-1" { "," } else { "*" };
    let before = ctx.state().unwrap_or_default();
    let before = if ctx.state_format() == 1 { before.replace(',', mark) } else { before.to_owned() };
    let now = gadget.spec.parts.to_string();
    let seen = match before.rsplit(mark).next() {
        Some(last) if last == now => before.clone(),
        Some("") | None => now,
        Some(_) => format!("{before}{mark}{now}"),
    };
    plan.keep(seen.clone());
    let meta = &gadget.metadata;
    let wanted = Status { parts: gadget.spec.parts, seen };
    plan.then(Action::status(GADGETS, &meta.namespace, &meta.name, &gadget.status, &wanted)?);
    Ok(plan)
}

fn spin() -> ! {
    let mut n = 0u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

coxswain_sdk::export!(GadgetController);
