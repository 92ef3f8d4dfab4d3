//! Pods that several budgets select: the eviction API refuses to evict them.
//!
//! As with kube-controller-manager it is a pod that comes or changes that is
//! told of, not a budget that comes to pods at rest. What was seen of pods and
//! budgets is kept as a hint; without it all such pods are told of, but for those
//! that a new budget has just come to.

use std::collections::BTreeMap;
use std::time::Duration;

use coxswain_sdk::hash::fnv32a;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::selector::Selector;
use coxswain_sdk::sort::map_of;
use coxswain_sdk::{About, Ctx, Object, Plan, Query, Result};

use crate::budget::selected;
use crate::view::{Budget, Pod};

/// How long further changes may wait: nothing depends on being told at once.
const TOGETHER_MILLIS: u32 = 1000;
/// How many pods are remembered, and so told of.
const AT_MOST: usize = 1000;
/// How long a budget is new.
const NEW: Duration = Duration::from_secs(10);

/// Tells of the pods of the namespace of the key that several budgets select.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let budgets: Vec<Object<Budget>> = ctx.list(Query::all().namespace(&ctx.key().name))?;
    let mut first: BTreeMap<String, String> = BTreeMap::new();
    let mut several: BTreeMap<String, Object<Pod>> = BTreeMap::new();
    if budgets.len() > 1 {
        plan.quiet(TOGETHER_MILLIS);
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
    let before = ctx.state().map(Seen::read);
    let latest = budgets.iter().filter_map(|budget| budget.metadata.creation_timestamp).max();
    let new = latest.filter(|at| *at + NEW > ctx.now());
    let mut seen = Seen { budgets: mark(&budgets), pods: BTreeMap::new() };
    for (name, pod) in several.iter().take(AT_MOST) {
        let (uid, version) = (fnv32a(pod.metadata.uid.as_bytes()), pod.reference().version);
        let was_there = new.is_some() && pod.metadata.creation_timestamp <= new;
        if before.as_ref().map_or(!was_there, |before| seen.is_news(before, uid, version)) {
            let message = format!(
                "Pod {:?}/{name:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
                pod.metadata.namespace,
                first.get(name).map_or("", String::as_str)
            );
            plan.event(About::new(PODS, &pod.metadata).warning("MultiplePodDisruptionBudgets", message));
        }
        seen.pods.insert(uid, version);
    }
    plan.keep_instead(ctx.state(), seen.text());
    Ok(plan)
}

/// What tells one set of budgets and their specs from another.
fn mark(budgets: &[Object<Budget>]) -> u32 {
    let one = |budget: &Object<Budget>| format!("{} {} ", budget.metadata.uid, budget.metadata.generation);
    fnv32a(budgets.iter().map(one).collect::<String>().as_bytes())
}

/// What was seen last.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    /// A mark of the budgets.
    budgets: u32,
    /// By a hash of their uids, which versions of pods that several select.
    pods: BTreeMap<u32, u32>,
}

impl Seen {
    /// From state; what cannot be read is left out.
    fn read(text: &str) -> Self {
        let mut parts = text.split(' ');
        let hex = |digits: &str| u32::from_str_radix(digits, 16).ok();
        let budgets = parts.next().and_then(hex).unwrap_or_default();
        let pod = |part: &str| {
            let (uid, version) = part.split_once('.')?;
            Some((hex(uid)?, version.parse().ok()?))
        };
        Self { budgets, pods: map_of(parts.filter_map(pod)) }
    }

    /// As state.
    fn text(&self) -> String {
        let mut text = format!("{:08x}", self.budgets);
        for (uid, version) in &self.pods {
            text.push_str(&format!(" {uid:08x}.{version}"));
        }
        text
    }

    /// Whether a pod that several budgets select has come or changed. One that
    /// was not among them before may be there because of other budgets.
    fn is_news(&self, before: &Self, uid: u32, version: u32) -> bool {
        match before.pods.get(&uid) {
            Some(known) => *known != version,
            None => before.budgets == self.budgets,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_is_read_as_it_was_written() {
        let seen =
            Seen { budgets: 0xe67c_e84b, pods: BTreeMap::from([(7, 1), (0xffff_ffff, 4_000_000_000)]) };
        assert_eq!(seen.text(), "e67ce84b 00000007.1 ffffffff.4000000000");
        assert_eq!(Seen::read(&seen.text()), seen);
        assert_eq!(Seen::read("nonsense x.y 7"), Seen::default());
    }

    #[test]
    fn a_budget_that_comes_is_no_news_of_pods_at_rest() {
        let now = Seen { budgets: 2, pods: BTreeMap::new() };
        let before = |budgets| Seen { budgets, pods: BTreeMap::from([(7, 1)]) };
        for (before, uid, version, news) in [
            (before(2), 7, 1, false),
            (before(2), 7, 2, true),
            (before(2), 8, 1, true),
            (before(1), 8, 1, false),
            (before(1), 7, 2, true),
        ] {
            assert_eq!(now.is_news(&before, uid, version), news, "{before:?} {uid} {version}");
        }
    }
}
