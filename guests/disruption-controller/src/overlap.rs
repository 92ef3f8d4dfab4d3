//! Pods that several budgets select: the eviction API refuses to evict them.

use std::collections::{BTreeMap, BTreeSet};

use coxswain_sdk::hash::fnv32a;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::selector::Selector;
use coxswain_sdk::{About, Ctx, Object, Plan, Query, Result};

use crate::budget::selected;
use crate::view::{Budget, Pod};

/// How long further changes may wait: nothing depends on being told at once.
const TOGETHER_MILLIS: u32 = 1000;
/// How many pods are remembered, and so told.
const AT_MOST: usize = 1000;

/// Tells the pods of the namespace of the key that several budgets select.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    plan.quiet(TOGETHER_MILLIS);
    let budgets: Vec<Object<Budget>> = ctx.list(Query::all().namespace(&ctx.key().name))?;
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    let mut several: BTreeMap<String, Object<Pod>> = BTreeMap::new();
    if budgets.len() > 1 {
        for budget in &budgets {
            let Ok(selector) = Selector::of(budget.spec.selector.as_ref()) else { continue };
            for pod in selected(ctx, budget, &selector)? {
                let name = &pod.metadata.name;
                if first.contains_key(name) {
                    several.insert(name.clone(), pod);
                } else {
                    first.insert(name.clone(), budget.metadata.name.clone());
                }
            }
        }
    }
    let told: BTreeSet<&str> =
        ctx.state().unwrap_or_default().split(' ').filter(|mark| !mark.is_empty()).collect();
    let mut marks = Vec::new();
    for (name, pod) in several.iter().take(AT_MOST) {
        let mark = format!("{:08x}", fnv32a(pod.metadata.uid.as_bytes()));
        if !told.contains(mark.as_str()) {
            let message = format!(
                "Pod {:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
                pod.metadata.namespace,
                first.get(name).map_or("", String::as_str)
            );
            plan.event(About::new(PODS, &pod.metadata).warning("MultiplePodDisruptionBudgets", message));
        }
        marks.push(mark);
    }
    plan.keep_instead(ctx.state(), marks.join(" "));
    Ok(plan)
}
