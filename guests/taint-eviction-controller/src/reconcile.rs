//! What is to be done about the pods of one node.

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::PODS;
use coxswain_sdk::taints::{NO_EXECUTE, Taint, TaintedNode};
use coxswain_sdk::{About, Action, Ctx, Event, Object, ObjectMeta, Plan, Query, Result, Step, Time};
use serde_json::json;

use crate::deadline::{Borne, Deadline, deadline};
use crate::measures;
use crate::memory::{Memory, Waiting};
use crate::view::Pod;

/// Index of pods by the node they are bound to.
pub const BY_NODE: &str = "node";

/// How long a pod that says why it goes is left to whoever else would delete it for the same taint: a DaemonSet tells of
/// the pods that it deletes. With kube-controller-manager it has the time of a write.
const OTHERS_FIRST_MILLIS: u32 = 100;

const CONDITION: &str = "DisruptionTarget";
const REASON: &str = "DeletionByTaintManager";

/// Decides about the pods of the key's node.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let before = Memory::read(ctx.state().unwrap_or_default());
    let Some(node) = ctx.primary::<TaintedNode>()? else { return Ok(plan) };
    let taints: Vec<&Taint> = node.spec.taints.iter().filter(|taint| taint.effect == NO_EXECUTE).collect();
    let mut memory = Memory::default();
    if !taints.is_empty() {
        let borne: Vec<Borne<'_>> = taints
            .into_iter()
            .map(|taint| {
                let seen = before.seen(taint).unwrap_or(ctx.now());
                memory.note(taint, seen);
                // One that claims to come from the future was put on when we saw it.
                Borne { taint, since: taint.time_added.map_or(seen, |added| added.min(seen)) }
            })
            .collect();
        let pods = ctx.list::<Pod>(Query::all().index(BY_NODE, &[&node.metadata.name]))?;
        judge(ctx.now(), &pods, &borne, &before, &mut memory, &mut plan);
    }
    for (uid, waited) in &before.pods {
        if !waited.going && !memory.pods.contains_key(uid) {
            plan.event(called_off(uid, waited));
        }
    }
    plan.keep_instead(ctx.state(), memory.write());
    Ok(plan)
}

/// Sorts out which pods go now, which later, and which need not.
fn judge(
    now: Time,
    pods: &[Object<Pod>],
    borne: &[Borne<'_>],
    before: &Memory,
    memory: &mut Memory,
    plan: &mut Plan,
) {
    let mut due = Vec::new();
    for pod in pods {
        let meta = &pod.metadata;
        let known = before.pods.get(&meta.uid);
        let mut since = None;
        let going = match deadline(borne, &pod.spec.tolerations, pod.bound_at()) {
            Deadline::Never => continue,
            Deadline::AtOnce => {
                if let Some(waited) = known.filter(|known| !known.going) {
                    plan.event(called_off(&meta.uid, waited));
                }
                true
            }
            Deadline::At(at) if at > now => {
                plan.come_back(at);
                false
            }
            Deadline::At(at) => {
                since = Some(at);
                true
            }
        };
        let waiting = Waiting { namespace: meta.namespace.clone(), name: meta.name.clone(), going };
        memory.pods.insert(meta.uid.clone(), waiting);
        if going {
            // Also of one that somebody else deletes already: what is told of a
            // taint must not depend on who was first.
            if known.is_none_or(|known| !known.going) {
                let text = format!("Marking for deletion Pod {}/{}", meta.namespace, meta.name);
                plan.event(About::of::<Pod, _>(meta).normal("TaintManagerEviction", text));
            }
            if !meta.is_deleting() || !says_why(pod) {
                due.push((pod, since));
            }
        }
    }
    evict(now, &due, plan);
}

/// Lets pods say why they go; those that do are deleted.
fn evict(now: Time, due: &[(&Object<Pod>, Option<Time>)], plan: &mut Plan) {
    let mut writes = Vec::with_capacity(due.len());
    for &(pod, since) in due {
        if says_why(pod) {
            // A tag of its own, so that each is counted by what became of it.
            let tag = format!("delete {}/{}", pod.metadata.namespace, pod.metadata.name);
            measures::deletion(plan, &tag, since.map(|since| now.since(since)));
            writes.push(delete(pod).tag(&tag));
        } else {
            plan.quiet(OTHERS_FIRST_MILLIS);
            writes.push(say_why(pod, now));
        }
    }
    // Each for itself: what is wrong with one pod keeps no other from going.
    plan.then(Step::new(writes).or_go_on());
}

fn says_why(pod: &Object<Pod>) -> bool {
    pod.condition(CONDITION).is_some_and(|condition| condition.reason == REASON)
}

fn say_why(pod: &Object<Pod>, now: Time) -> Action {
    let meta = &pod.metadata;
    let since = pod.condition(CONDITION).and_then(|condition| condition.last_transition_time);
    let mut condition = json!({
        "type": CONDITION,
        "status": "True",
        "reason": REASON,
        "message": "Taint manager: deleting due to NoExecute taint",
        "lastTransitionTime": since.unwrap_or(now.whole_seconds()),
    });
    if meta.generation > 0 {
        condition["observedGeneration"] = meta.generation.into();
    }
    let body = json!({ "metadata": { "uid": meta.uid }, "status": { "conditions": [condition] } });
    // By type, so that the other conditions stay.
    Action::patch(PODS, &meta.namespace, &meta.name, PatchKind::Strategic, &body)
        .subresource("status")
        .uid(&meta.uid)
        .tag("condition")
}

fn delete(pod: &Object<Pod>) -> Action {
    let meta = &pod.metadata;
    Action::delete(PODS, &meta.namespace, &meta.name).uid(&meta.uid)
}

fn called_off(uid: &str, waited: &Waiting) -> Event {
    let Waiting { namespace, name, .. } = waited;
    let meta: ObjectMeta = ObjectMeta {
        name: name.clone(),
        namespace: namespace.clone(),
        uid: uid.to_owned(),
        ..ObjectMeta::default()
    };
    About::of::<Pod, _>(&meta)
        .normal("TaintManagerEviction", format!("Cancelling deletion of Pod {namespace}/{name}"))
}
