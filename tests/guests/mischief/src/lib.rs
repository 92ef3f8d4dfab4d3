//! A controller that misbehaves, each key in its own way: the name says which,
//! up to the first dot (`spin`, `spin.again`).
//!
//! It speaks the contract without the SDK's help, since the SDK would keep it
//! from much of this.

use coxswain_sdk::{
    Declaration, Resource,
    contract::{
        Action, Ask, Level, Lookup, Manifest, Outcome, Pace, Plan, Precondition, Query, Request, ResourceSet,
        StateChange, Step, Verb,
    },
    snapshot::Snapshot,
};

const MISCHIEFS: Resource = Resource::new("test.example", "v1", "mischiefs", "Mischief");
const CONFIG_MAPS: Resource = Resource::new("", "v1", "configmaps", "ConfigMap");

/// What it says about itself; nothing is wrong with that.
pub fn manifest() -> Manifest {
    let mut manifest = Declaration::new("mischief-controller")
        .version(env!("CARGO_PKG_VERSION"))
        .keys_objects("mischiefs", &[MISCHIEFS])
        .write(CONFIG_MAPS, "", &["create"])
        .manifest()
        .clone();
    manifest.reads.push(coxswain_sdk::contract::Read {
        resource: MISCHIEFS.to_wire(),
        optional: false,
        fields: Vec::new(),
        whole: true,
        sensitive: Vec::new(),
        indexes: Vec::new(),
    });
    manifest
}

/// Misbehaves as the key's name says. `calls` counts those of this instance.
pub fn reconcile(request: &Request, calls: u32, snapshot: &dyn Snapshot) -> Result<Outcome, String> {
    let conduct = request.key.name.split('.').next().unwrap_or_default();
    // The read of mischiefs comes first, then the write of config maps.
    let config_maps = request.resources.get(1).copied().unwrap_or_default();
    match conduct {
        "spin" => spin(),
        "grow" => grow(),
        "recurse" => return Ok(Outcome::Retry(recurse(u64::from(request.seed.0)).to_string())),
        "panic" => panic!("as asked"),
        "every-third" if calls.is_multiple_of(3) => panic!("this is call {calls}"),
        "flood" => (0..1000).for_each(|i| snapshot.log(Level::Info, &format!("line {i}"))),
        "long-line" => snapshot.log(Level::Info, &"é".repeat(1 << 20)),
        "undeclared-read" => drop(snapshot.get(1 << 30, "", "x")?),
        // The host must not depend on a module's honesty.
        "swallowed-error" => drop(snapshot.get(1 << 30, "", "x")),
        "every-read" => {
            let query = Query { resources: ResourceSet::All, namespace: None, index: None, labels: None };
            let refs = snapshot.list(&query)?;
            let contents = snapshot.read(&refs)?;
            return Ok(Outcome::Terminal(contents.join("\n")));
        }
        // A hundred thousand creates.
        "large-plan" => {
            let mut outcome = create(config_maps, "{}");
            if let Outcome::Plan(plan) = &mut outcome {
                let one = plan.steps[0].actions[0].clone();
                let named = |n: u32| Action { name: format!("x-{n}"), ..one.clone() };
                plan.steps[0].actions = (0..100_000).map(named).collect();
            }
            return Ok(outcome);
        }
        "large-state" => {
            let mut plan = plan(Vec::new());
            plan.state = StateChange::Set("x".repeat(5 << 20));
            return Ok(Outcome::Plan(plan));
        }
        "many-lookups" => return Ok(Outcome::Lookups((0..20_000).map(|n| raw(&n.to_string())).collect())),
        // The manifest declares no lookups at all.
        "ungranted-lookup" => {
            return Ok(match request.answers.first() {
                None => Outcome::Lookups(vec![raw("/version")]),
                Some(answer) => Outcome::Terminal(match &answer.result {
                    Ok(body) => format!("it was answered: {body}"),
                    Err(failure) => format!("{}: {}", failure.reason, failure.message),
                }),
            });
        }
        // Its answer depends on what only this instance remembers.
        "fickle" => return Ok(Outcome::Terminal(format!("this is call {calls}"))),
        "error" => return Err("it went wrong".to_owned()),
        "large-answer" => return Err("x".repeat(8 << 20)),
        "unknown-resource" => return Ok(create(1 << 30, r#"{"metadata":{"name":"x"}}"#)),
        "bad-json" => return Ok(create(config_maps, r#"{"metadata":"#)),
        "undeclared-write" => {
            let mut outcome = create(config_maps, "{}");
            if let Outcome::Plan(plan) = &mut outcome {
                let options =
                    coxswain_sdk::contract::DeleteOptions { propagation: None, grace_seconds: None };
                plan.steps[0].actions[0].verb = Verb::Delete(options);
            }
            return Ok(outcome);
        }
        _ => {}
    }
    Ok(Outcome::Plan(plan(Vec::new())))
}

fn raw(path: &str) -> Lookup {
    Lookup { id: path.to_owned(), ask: Ask::Raw(path.to_owned()) }
}

fn plan(steps: Vec<Step>) -> Plan {
    Plan {
        steps,
        events: Vec::new(),
        not_before: None,
        quiet: 0,
        state: StateChange::Keep,
        metrics: Vec::new(),
    }
}

fn create(resource: u32, body: &str) -> Outcome {
    let action = Action {
        tag: "create".to_owned(),
        resource,
        namespace: "default".to_owned(),
        name: "x".to_owned(),
        subresource: String::new(),
        verb: Verb::Create(body.to_owned()),
        precondition: Precondition::None,
        on_success: None,
        on_failure: None,
    };
    let on_failure = coxswain_sdk::contract::OnFailure::Stop;
    Outcome::Plan(plan(vec![Step { actions: vec![action], pace: Pace::Together, on_failure }]))
}

fn spin() {
    let mut n = 0u64;
    loop {
        n = std::hint::black_box(n.wrapping_add(1));
    }
}

fn grow() {
    let mut hoard = Vec::new();
    loop {
        hoard.push(std::hint::black_box(vec![1u8; 1 << 20]));
    }
}

/// Deeper than any stack.
#[allow(unconditional_recursion, reason = "that is what it is for")]
fn recurse(n: u64) -> u64 {
    std::hint::black_box(recurse(n.wrapping_add(1))).wrapping_add(1)
}

#[cfg(target_family = "wasm")]
mod component {
    use std::cell::Cell;

    use coxswain_sdk::{
        bindings::{self, Guest},
        contract::{Manifest, Outcome, Request},
        snapshot::HostSnapshot,
    };

    struct Component;

    thread_local! {
        static CALLS: Cell<u32> = const { Cell::new(0) };
    }

    impl Guest for Component {
        fn describe() -> Manifest {
            crate::manifest()
        }

        fn reconcile(request: Request) -> Result<Outcome, String> {
            coxswain_sdk::log_panics();
            CALLS.set(CALLS.get() + 1);
            crate::reconcile(&request, CALLS.get(), &HostSnapshot)
        }
    }

    bindings::export_component!(Component with_types_in bindings);
}
