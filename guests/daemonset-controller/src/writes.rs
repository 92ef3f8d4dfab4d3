//! Pods that are made and deleted.

use coxswain_sdk::resource::PODS;
use coxswain_sdk::{About, Action, Ctx, Object, Plan, Result, Step};

use crate::backoff::Memory;
use crate::manage::Work;
use crate::template::PodMaker;
use crate::view::{DaemonSet, Pod};

/// At most so many pods are made, and so many deleted, by one plan.
pub const BURST: usize = 250;

const CREATE: &str = "create";

/// Tells what became of the last plan's pods.
pub fn report(ctx: &Ctx<'_>, about: &About, memory: &mut Memory, plan: &mut Plan) {
    for failure in ctx.failures(CREATE) {
        if failure.is_of_terminating_namespace() {
            memory.namespace_terminating = true;
        } else {
            plan.event(about.warning("FailedCreate", format!("Error creating: {}", failure.message)));
        }
    }
}

/// Begins with another node if pods could not be made just now: slow start
/// would stop at the same one again, although others may have more luck.
pub fn begin_elsewhere(ctx: &Ctx<'_>, nodes: &mut [&str]) {
    let by = ctx.seed().checked_rem(nodes.len() as u64);
    if let Some(by) = by.filter(|_| ctx.failures(CREATE).next().is_some()) {
        nodes.rotate_left(by as usize);
    }
}

/// Makes and deletes pods.
pub fn carry_out(
    set: &DaemonSet,
    hash: &str,
    about: &About,
    memory: &Memory,
    work: Work<'_>,
    plan: &mut Plan,
) -> Result<()> {
    let mut creations = Vec::new();
    if !work.create.is_empty() && !memory.namespace_terminating {
        let maker = PodMaker::new(set, hash);
        for node in work.create.iter().take(BURST) {
            let created = about.normal("SuccessfulCreate", "Created pod: {name}");
            creations.push(maker.create(node)?.tag(CREATE).on_success(created));
        }
    }
    // Slow start: where one creation fails, the others likely would too.
    plan.then(Step::new(creations).slow_start().or_go_on());
    let deletions = work.delete.into_iter().take(BURST).map(|pod| delete(about, pod));
    plan.then(Step::new(deletions).or_go_on());
    for event in work.events {
        plan.event(event);
    }
    if let Some(again) = work.again {
        plan.come_back(again);
    }
    Ok(())
}

fn delete(about: &About, pod: &Object<Pod>) -> Action {
    let meta = &pod.metadata;
    Action::delete(PODS, &meta.namespace, &meta.name)
        .uid(&meta.uid)
        .tag("delete")
        .on_success(about.normal("SuccessfulDelete", "Deleted pod: {name}"))
        .on_failure(about.warning("FailedDelete", "Error deleting: {message}"))
}
