//! All nodes together: who came and went, who is not heard of any more, and
//! whose pods are to be evicted.
//!
//! In: all nodes and their leases, once a period. Out: events, conditions of
//! nodes that are not heard of, and taints that evict, as fast as the zones
//! allow.

use std::collections::BTreeSet;
use std::time::Duration;

use coxswain_sdk::sort::{lite_map_of, set_of, sort_by};
use coxswain_sdk::taints::{NO_EXECUTE, has};
use coxswain_sdk::{About, Action, Ctx, Object, ObjectMeta, Plan, Query, Result, Step, Time};
use litemap::LiteMap;
use serde_json::Map;

use crate::health::{self, Health};
use crate::memory::{Memory, Writer};
use crate::settings::Settings;
use crate::view::{Lease, Node};
use crate::zones::{self, Census, Limiter};
use crate::{measures, node, taints};

/// Namespace of the leases of nodes.
const LEASE_NAMESPACE: &str = "kube-node-lease";
/// Label of nodes that do not count when zones are judged.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// How long a node whose conditions were just written is left to its own key,
/// which puts the taints on that keep pods away: two writes at once would only
/// get into each other's way.
const SETTLE: Duration = Duration::from_millis(100);

/// Zones by name.
type Zones = LiteMap<String, Census>;

/// One look at all nodes.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let settings = Settings::of(ctx)?;
    let nodes = ctx.list::<Node>(Query::all())?;
    let memory = Memory::read(ctx.state().unwrap_or_default());
    let mut plan = Plan::new();
    report_changes(&memory, &nodes, &mut plan);

    let healths = observe(ctx, &memory, &nodes)?;
    let look = Look::of(&nodes, &healths, &settings, ctx.now(), &mut plan);
    measures::look(&mut plan, &look.expected);
    let mut limiters = limiters(ctx, &memory, &nodes, &look.expected, &settings);
    // A node whose conditions are written only now is not tainted before that is done.
    let told: Vec<&Object<Node>> =
        nodes.iter().filter(|node| !look.reported.contains(node.metadata.name.as_str())).collect();
    let all_down = zones::all_down(&look.seen, &settings);
    let writes =
        if all_down { acquit(&told, &look.seen) } else { evict(ctx, &told, &mut limiters, &mut plan) };
    plan.then(Step::new(writes).or_go_on());
    if look.reports.is_empty() {
        plan.quiet(u32::try_from(settings.period.as_millis()).unwrap_or(u32::MAX));
    } else {
        plan.quiet(SETTLE.as_millis() as u32);
        // What was refused is tried again after the key's backoff, and no sooner.
        if !ctx.results().iter().any(|result| result.tag == health::REPORT) {
            plan.come_back(ctx.now() + SETTLE);
        }
    }
    plan.then(Step::new(look.reports).or_go_on());

    let mut writer = Writer::default();
    writer.all_down(all_down);
    limiters.iter().for_each(|(name, limiter)| writer.zone(name, limiter));
    // We see again: whoever was not heard of gets another chance.
    let again = (memory.all_down && !all_down).then_some(ctx.now());
    for (node, health) in nodes.iter().zip(healths) {
        let alive = again.unwrap_or(health.alive);
        writer.node(&node.metadata.name, &node.metadata.uid, &Health { alive, ..health });
    }
    plan.keep_instead(ctx.state(), writer.finish());
    Ok(plan)
}

/// The health of each node, given what was last seen of it.
fn observe(ctx: &Ctx<'_>, memory: &Memory<'_>, nodes: &[Object<Node>]) -> Result<Vec<Health>> {
    let leases = ctx.list::<Lease>(Query::all().namespace(LEASE_NAMESPACE))?;
    let leases = lite_map_of(leases.iter().map(|lease| (lease.metadata.name.as_str(), &**lease)));
    let healths = nodes.iter().map(|node| {
        let name = node.metadata.name.as_str();
        let known = memory.nodes.get(name).filter(|(uid, _)| *uid == node.metadata.uid);
        let before = known.map(|(_, health)| *health);
        Health::observe(before, node, leases.get(name).copied(), ctx.now())
    });
    Ok(healths.collect())
}

/// What there is to say of nodes, and how their zones are doing.
#[derive(Default)]
struct Look<'a> {
    /// Conditions of nodes that are not heard of any more.
    reports: Vec<Action>,
    /// Names of those nodes.
    reported: BTreeSet<&'a str>,
    /// Zones, as the API server has them.
    seen: Zones,
    /// The same, as it will have them once the reports are written.
    expected: Zones,
}

impl<'a> Look<'a> {
    /// Looks at nodes, and again when the next of them would be silent for too
    /// long.
    fn of(
        nodes: &'a [Object<Node>],
        healths: &[Health],
        settings: &Settings,
        now: Time,
        plan: &mut Plan,
    ) -> Self {
        let mut look = Self::default();
        for (node, health) in nodes.iter().zip(healths) {
            let deadline = health.deadline(settings);
            if now <= deadline && !node.is_unknown() {
                plan.come_back(deadline + Duration::from_millis(1));
            }
            let report = if now > deadline { health::report(node, now) } else { None };
            let ready = node.ready().is_some_and(|ready| ready.status == "True");
            if !node.metadata.labels.contains_key(EXCLUDED) {
                let zone = zones::zone_of(&node.metadata.labels);
                look.seen.entry(zone.clone()).or_default().count(ready);
                look.expected.entry(zone).or_default().count(ready && report.is_none());
            }
            if let Some(report) = report {
                look.reports.push(report);
                look.reported.insert(node.metadata.name.as_str());
            }
        }
        look
    }
}

/// Events of nodes that came and went.
fn report_changes(memory: &Memory<'_>, nodes: &[Object<Node>], plan: &mut Plan) {
    let mut known = 0;
    for node in nodes {
        let name = &node.metadata.name;
        if memory.nodes.contains_key(name.as_str()) {
            known += 1;
            continue;
        }
        let message = format!("Node {name} event: Registered Node {name} in Controller");
        plan.event(About::of::<Node, _>(&node.metadata).normal("RegisteredNode", message));
    }
    if known == memory.nodes.len() {
        return;
    }
    let present = set_of(nodes.iter().map(|node| node.metadata.name.as_str()));
    for (name, (uid, _)) in memory.nodes.iter().filter(|(name, _)| !present.contains(*name)) {
        let meta: ObjectMeta =
            ObjectMeta { name: (*name).to_owned(), uid: (*uid).to_owned(), ..ObjectMeta::default() };
        let message = format!("Node {name} event: Removing Node {name} from Controller");
        plan.event(About::of::<Node, _>(&meta).normal("RemovingNode", message));
    }
}

/// The limiter of each zone that has nodes, set to its present rate.
fn limiters(
    ctx: &Ctx<'_>,
    memory: &Memory<'_>,
    nodes: &[Object<Node>],
    expected: &Zones,
    settings: &Settings,
) -> LiteMap<String, Limiter> {
    let now = ctx.now();
    let all_down = zones::all_down(expected, settings);
    let mut limiters = LiteMap::new();
    for node in nodes {
        let zone = zones::zone_of(&node.metadata.labels);
        if limiters.contains_key(&zone) {
            continue;
        }
        let rate = zones::rate(expected.get(&zone).copied(), all_down, settings);
        let mut limiter = memory.zones.get(zone.as_str()).copied().unwrap_or(Limiter::new(rate, now));
        limiter.set_rate(rate, now);
        // Who passed and was not tainted after all makes room for another try.
        let tag = evict_tag(&zone, "");
        if ctx.results().iter().any(|result| result.tag.starts_with(&tag)) {
            limiter.next = now;
        }
        limiters.insert(zone, limiter);
    }
    limiters
}

fn evict_tag(zone: &str, node: &str) -> String {
    ["evict ", zone, " ", node].concat()
}

/// Takes the taints that evict off the nodes of all zones that count.
fn acquit(nodes: &[&Object<Node>], seen: &Zones) -> Vec<Action> {
    let counted = nodes.iter().filter(|node| seen.contains_key(&zones::zone_of(&node.metadata.labels)));
    let acquitted = counted.filter_map(|node| {
        let mut wanted = node.spec.taints.clone();
        taints::remove_evicting(&mut wanted);
        node::patch(node, wanted, Map::new())
    });
    acquitted.collect()
}

/// Taints the nodes that are not ready, those first that have not been for
/// longest, as fast as each zone allows. Those that could not be tainted just
/// now let others pass.
fn evict(
    ctx: &Ctx<'_>,
    nodes: &[&Object<Node>],
    limiters: &mut LiteMap<String, Limiter>,
    plan: &mut Plan,
) -> Vec<Action> {
    let now = ctx.now();
    let mut waiting = Vec::new();
    for &node in nodes {
        if let Some((key, opposite)) = taints::evicting(node)
            && !has(&node.spec.taints, key, NO_EXECUTE)
            // The node's own key turns that one into the other.
            && !has(&node.spec.taints, opposite, NO_EXECUTE)
        {
            let zone = zones::zone_of(&node.metadata.labels);
            let tag = evict_tag(&zone, &node.metadata.name);
            let refused = ctx.results().iter().any(|result| result.tag == tag);
            let since = node.ready().and_then(|ready| ready.last_transition_time);
            waiting.push(((refused, since, &node.metadata.name), node, key, zone, tag));
        }
    }
    sort_by(&mut waiting, |a, b| a.0.cmp(&b.0));
    let mut writes = Vec::new();
    for (_, node, key, zone, tag) in waiting {
        let Some(limiter) = limiters.get_mut(&zone) else { continue };
        if limiter.pass(now) {
            let mut wanted = taints::follow(node, now);
            taints::put(&mut wanted, key, NO_EXECUTE, now);
            if let Some(write) = node::patch(node, wanted, Map::new()) {
                writes.push(write.tag(&tag));
                measures::eviction(plan, tag, &zone);
            }
        } else if let Some(chance) = limiter.next_chance() {
            plan.come_back(chance);
        }
    }
    writes
}
