//! One DaemonSet: revisions, then pods, then old revisions, then the status.

use coxswain_sdk::claim::{candidates, claim};
use coxswain_sdk::contract::Level;
use coxswain_sdk::resource::DAEMON_SETS;
use coxswain_sdk::selector::{LabelSelector, Selector};
use coxswain_sdk::taints::TaintedNode;
use coxswain_sdk::{About, Action, Ctx, Error, Object, Plan, Query, Result};
use serde_json::json;

use crate::backoff::Memory;
use crate::history::History;
use crate::manage::{Rules, Work, manage};
use crate::placement::Placement;
use crate::status::Status;
use crate::view::{DaemonSet, Pod};
use crate::{counts, pods, rolling, status, writes};

/// Decides about the DaemonSet of the key.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(set) = ctx.primary::<DaemonSet>()? else { return Ok(plan) };
    let meta = &set.metadata;
    let about = About::of::<DaemonSet, _>(meta);
    if set.spec.selector.as_ref() == Some(&LabelSelector::default()) {
        let text = "This daemon set is selecting all pods. A non-empty selector is required.";
        plan.event(about.warning("SelectingAll", text));
        return Ok(plan);
    }
    // Its pods and revisions are going, or go to somebody else.
    if meta.is_deleting() {
        return Ok(plan);
    }
    let selector = Selector::of(set.spec.selector.as_ref()).map_err(|e| {
        Error::Terminal(format!("DaemonSet {}/{}: invalid selector: {e}", meta.namespace, meta.name))
    })?;
    let mut history = History::of(ctx, &set, &selector)?;
    let claims =
        claim(ctx, &*set, &selector, candidates::<Pod>(ctx, &meta.namespace, &meta.uid, &selector)?)?;
    if let Some(collisions) = history.collisions {
        let body = json!({ "status": { "collisionCount": collisions } });
        let write = Action::merge(DAEMON_SETS, &meta.namespace, &meta.name, &body);
        plan.then(write.subresource("status").uid(&meta.uid).tag("collisions"));
    }
    // A failed adoption leaves it open which pods there are, so nothing follows
    // until that is known.
    plan.then(claims.writes);
    for step in std::mem::take(&mut history.steps).into_iter().chain(history.deduplicate(&claims.owned)) {
        plan.then(step);
    }
    let nodes = ctx.list::<TaintedNode>(Query::all())?;
    decide(ctx, &set, &about, &history, &nodes, &claims.owned, &mut plan)?;
    // The more nodes, the more changes are taken together.
    plan.quiet(u32::try_from(nodes.len() / NODES_A_MILLISECOND).unwrap_or(u32::MAX).min(MOST_QUIET));
    Ok(plan)
}

/// So many nodes make changes wait for a millisecond.
const NODES_A_MILLISECOND: usize = 50;
/// They wait no longer than so many milliseconds.
const MOST_QUIET: u32 = 200;

/// Decides about pods, old revisions and the status.
fn decide(
    ctx: &Ctx<'_>,
    set: &Object<DaemonSet>,
    about: &About,
    history: &History,
    nodes: &[Object<TaintedNode>],
    owned: &[Object<Pod>],
    plan: &mut Plan,
) -> Result<()> {
    let now = ctx.now();
    let surge = counts::allows_surge(&set.spec.update_strategy);
    let rules = Rules { set, hash: &history.hash, surge, now };
    let places: Vec<(&str, Placement)> = nodes
        .iter()
        .map(|node| (node.metadata.name.as_str(), Placement::of(&set.spec.template, node)))
        .collect();
    let by_node = pods::by_node(owned);
    let mut memory = Memory::read(ctx.state().unwrap_or_default(), set.status.observed_generation, now);
    writes::report(ctx, about, &mut memory, plan);

    // Which revision a pod is of is open until there is one of each.
    if !history.has_duplicates() {
        let mut work = work(ctx, &rules, &places, &by_node, &mut memory);
        writes::begin_elsewhere(ctx, &mut work.create);
        writes::carry_out(set, &history.hash, about, &memory, work, plan)?;
        plan.then(history.surplus(set, owned));
    }
    let status = status::count(&rules, &places, &by_node);
    if let Some(at) = status::next_check(&rules, &status, owned) {
        plan.come_back(at);
    }
    plan.then(write_status(set, status, history.collisions)?);
    plan.keep_instead(ctx.state(), memory.write());
    Ok(())
}

/// What is to be done about pods: an update goes on only once each node has what
/// it needs.
fn work<'a>(
    ctx: &Ctx<'_>,
    rules: &Rules<'_>,
    places: &[(&'a str, Placement)],
    pods: &pods::ByNode<'a>,
    memory: &mut Memory,
) -> Work<'a> {
    let mut work = manage(rules, places, pods, memory);
    if !work.is_done() {
        return work;
    }
    let wanted = places.iter().filter(|(_, placement)| *placement == Placement::Wanted).count();
    match counts::way(&rules.set.spec.update_strategy, wanted) {
        Ok(way) => {
            let update = rolling::update(rules, way, places, pods);
            (work.create, work.delete) = (update.create, update.delete);
        }
        Err(e) => {
            let meta = &rules.set.metadata;
            ctx.log(Level::Warn, &format!("DaemonSet {}/{}: {e}", meta.namespace, meta.name));
        }
    }
    work
}

/// The write of the status; None if it is right. A count of collisions that is
/// given is written already.
fn write_status(set: &DaemonSet, mut wanted: Status, collisions: Option<i32>) -> Result<Option<Action>> {
    let meta = &set.metadata;
    let mut seen = set.status.clone();
    if collisions.is_some() {
        (wanted.collision_count, seen.collision_count) = (collisions, collisions);
    }
    let write = Action::status(DAEMON_SETS, &meta.namespace, &meta.name, &seen, &wanted)?;
    // Counts are simply right, so they are written over whatever is there.
    Ok(write.map(|write| write.uid(&meta.uid)))
}
