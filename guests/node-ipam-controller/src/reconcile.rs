//! All nodes: which shares are taken, and who gets which.

use coxswain_sdk::contract::Level;
use coxswain_sdk::resource::NODES;
use coxswain_sdk::sort::sorted_by;
use coxswain_sdk::{About, Action, Ctx, Error, Event, Object, Plan, Query, Result, Step};
use serde_json::json;

use crate::Node;
use crate::cidr::Cidr;
use crate::measures;
use crate::memory::Memory;
use crate::range::Taken;
use crate::settings::Settings;

/// After so many refused writes in a row a node's event tells.
const PATIENCE: u32 = 3;

/// Gives each node that has none its share of each range.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(settings) = Settings::of(ctx)? else { return Ok(plan) };
    let settings = settings.map_err(Error::Terminal)?;
    let nodes = ctx.list::<Node>(Query::all())?;
    let before = Memory::read(ctx.state().unwrap_or_default());
    let mut memory = Memory { next: before.next.clone(), ..Memory::default() };
    let mut taken = taken(ctx, &settings, &nodes);
    for (range, taken) in settings.ranges.iter().zip(&taken) {
        let name = range.to_string();
        let nothing = Taken::default();
        measures::usage(&mut plan, range, before.taken.get(&name).unwrap_or(&nothing), taken);
        memory.taken.insert(name, taken.clone());
    }
    let waiting = nodes.iter().filter(|node| node.spec.pod_cidrs.is_empty() && !node.metadata.is_deleting());
    // The oldest first.
    let waiting = sorted_by(waiting, |a, b| {
        let key = |node: &Node| node.metadata.creation_timestamp;
        key(a).cmp(&key(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
    });
    let mut writes = Vec::new();
    for node in waiting {
        let name = &node.metadata.name;
        count_failures(ctx, node, &before, &mut memory, &mut plan);
        match shares(&settings, &mut taken, &mut memory) {
            Some(shares) => {
                writes.push(give(node, &shares));
                for (range, share) in settings.ranges.iter().zip(&shares) {
                    measures::tries(&mut plan, range, share.passed);
                }
            }
            None => {
                if !before.told.contains(name) {
                    plan.event(status_is(node, "CIDRNotAvailable"));
                }
                memory.told.insert(name.clone());
            }
        }
    }
    // Each for itself: what is wrong with one node keeps no other from its share.
    plan.then(Step::new(writes).or_go_on());
    plan.keep_instead(ctx.state(), memory.write());
    Ok(plan)
}

/// Which shares nodes and services have.
fn taken(ctx: &Ctx<'_>, settings: &Settings, nodes: &[Object<Node>]) -> Vec<Taken> {
    let mut runs: Vec<Vec<(u64, u64)>> = settings
        .ranges
        .iter()
        .map(|range| settings.services.iter().filter_map(|block| range.shares_of(block)).collect())
        .collect();
    for node in nodes {
        for (i, text) in node.spec.pod_cidrs.iter().enumerate() {
            let block = Cidr::parse(text);
            let range = settings.ranges.get(i);
            match block.zip(range).and_then(|(block, range)| range.shares_of(&block)) {
                Some(run) => runs[i].push(run),
                None => {
                    let text =
                        format!("node {} has {text}, which is no part of range {i}", node.metadata.name);
                    ctx.log(Level::Warn, &text);
                }
            }
        }
    }
    runs.into_iter().map(Taken::new).collect()
}

/// A share that a node is to get.
struct Share {
    cidr: Cidr,
    /// How many others were looked at before.
    passed: u64,
}

/// The next free share of each range; None if one of them has none.
fn shares(settings: &Settings, taken: &mut [Taken], memory: &mut Memory) -> Option<Vec<Share>> {
    let mut shares = Vec::new();
    for (i, (range, taken)) in settings.ranges.iter().zip(taken).enumerate() {
        let next = memory.next.entry(i).or_insert(0);
        let (number, passed) = taken.take(range, *next)?;
        *next = number.saturating_add(1) % range.shares();
        shares.push(Share { cidr: range.share(number), passed });
    }
    Some(shares)
}

fn tag(node: &Node) -> String {
    ["cidr ", &node.metadata.name].concat()
}

fn give(node: &Node, shares: &[Share]) -> Action {
    let meta = &node.metadata;
    let shares: Vec<String> = shares.iter().map(|share| share.cidr.to_string()).collect();
    let body = json!({ "spec": { "podCIDR": shares[0], "podCIDRs": shares } });
    // The API server lets nobody change them once they are there.
    Action::merge(NODES, "", &meta.name, &body).uid(&meta.uid).tag(&tag(node))
}

/// Counts refusals in a row, and tells once there are several.
fn count_failures(ctx: &Ctx<'_>, node: &Node, before: &Memory, memory: &mut Memory, plan: &mut Plan) {
    let tag = tag(node);
    if !ctx.results().iter().any(|result| result.tag == tag) {
        return;
    }
    let name = &node.metadata.name;
    let times = before.failed.get(name).copied().unwrap_or(0).saturating_add(1);
    if times >= PATIENCE {
        plan.event(status_is(node, "CIDRAssignmentFailed"));
    } else {
        memory.failed.insert(name.clone(), times);
    }
}

fn status_is(node: &Node, what: &str) -> Event {
    let message = format!("Node {} status is now: {what}", node.metadata.name);
    About::of::<Node, _>(&node.metadata).normal(what, message)
}
