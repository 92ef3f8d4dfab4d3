//! A plan under way: its steps in order, their actions together.
//!
//! In: a checked plan. Out: results, barriers, counts, events, and a line in
//! the log for each action. Invariant: what an earlier action wrote is what a
//! later one builds upon. What a ref means is looked up when the plan begins for
//! objects the plan writes more than once, and else right before the request.

use std::{collections::HashMap, sync::Arc};

use futures::stream::{FuturesUnordered, StreamExt};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    Done, Executed, Executor, WriteGate,
    barrier::Barrier,
    cached::SeenBy,
    request::Precondition,
    rules::{rbac_verb, show},
    tell::fill_in,
    write::{Ending, Write},
};
use crate::{
    contract::{
        self, Action, ActionOutcome, ActionResult, Event, Failure, OnFailure, Pace, Plan, Step, Verb,
    },
    key::Key,
    store::Seen,
    traces::{Span, attribute},
};

/// What names an object within a plan.
type Target = (u32, String, String);

/// What names a ref.
type RefKey = (u32, u32, u32);

/// A plan under way.
pub(super) struct Run<'a> {
    pub(super) executor: &'a Executor,
    pub(super) key: &'a Key,
    view: &'a dyn SeenBy,
    pub(super) gate: &'a Arc<dyn WriteGate>,
    /// What the refs of the plan meant when it began: once we have written, the
    /// cache moves on by itself.
    pinned: HashMap<RefKey, Seen>,
    /// resourceVersions that this plan has written.
    carried: Mutex<HashMap<Target, String>>,
}

/// What became of one action.
struct Acted {
    result: Option<ActionOutcome>,
    barriers: Vec<Barrier>,
    done: Option<Done>,
    no_op: bool,
    halted: bool,
    primary_version: Option<u64>,
}

impl<'a> Run<'a> {
    /// Notes what the plan's refs mean.
    pub(super) fn new(
        executor: &'a Executor,
        key: &'a Key,
        plan: &Plan,
        view: &'a dyn SeenBy,
        gate: &'a Arc<dyn WriteGate>,
    ) -> Self {
        let mut pinned = HashMap::new();
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            if let contract::Precondition::AsSeen(seen) = &action.precondition
                && let Some(now) = view.current(seen)
            {
                pinned.insert((seen.resource, seen.id, seen.version), now);
            }
        }
        Self { executor, key, view, gate, pinned, carried: Mutex::default() }
    }

    /// Carries the plan out.
    pub(super) async fn plan(&self, plan: &Plan) -> Executed {
        let mut executed = Executed::default();
        let mut stopped = false;
        if self.gate.may_write() {
            plan.events.iter().for_each(|event| self.record(event, event.message.clone()));
        } else {
            executed.halted = true;
        }
        for step in &plan.steps {
            if stopped || executed.halted {
                executed.results.extend(step.actions.iter().map(skipped));
                continue;
            }
            let failed = self.step(step, &mut executed).await;
            executed.failed |= failed;
            stopped = failed && step.on_failure == OnFailure::Stop;
        }
        executed
    }

    /// Carries a step out. True if something in it failed.
    async fn step(&self, step: &Step, executed: &mut Executed) -> bool {
        let mut rest = step.actions.as_slice();
        let mut batch = match step.pace {
            Pace::Together => rest.len(),
            Pace::SlowStart => 1,
        };
        let mut failed = false;
        let changes = |executed: &Executed| executed.done.len() - executed.no_op_writes as usize;
        let before = changes(executed);
        while !rest.is_empty() {
            if failed || executed.halted {
                executed.results.extend(rest.iter().map(skipped));
                break;
            }
            let (now, later) = rest.split_at(batch.min(rest.len()));
            failed |= self.batch(now, executed).await;
            rest = later;
            batch = batch.saturating_mul(2);
        }
        executed.advanced |= failed && changes(executed) > before;
        failed
    }

    /// Carries actions out together, so many at a time. True if one failed.
    async fn batch(&self, actions: &[Action], executed: &mut Executed) -> bool {
        let mut waiting = actions.iter().enumerate();
        let mut running = FuturesUnordered::new();
        let mut results: Vec<Option<ActionOutcome>> = vec![None; actions.len()];
        let mut failed = false;
        loop {
            while running.len() < self.executor.shared.config.together.max(1) && !executed.halted {
                let Some((index, action)) = waiting.next() else { break };
                running.push(async move { (index, self.act(action).await) });
            }
            let Some((index, acted)) = running.next().await else { break };
            executed.halted |= acted.halted;
            executed.done.extend(acted.done);
            executed.no_op_writes += u32::from(acted.no_op);
            executed.primary_version = executed.primary_version.max(acted.primary_version);
            executed.barriers.extend(acted.barriers);
            failed |= matches!(acted.result, Some(ActionOutcome::Failed(_) | ActionOutcome::Unknown));
            results[index] = acted.result;
        }
        waiting.for_each(|(index, _)| results[index] = Some(ActionOutcome::Skipped));
        let reported = actions.iter().zip(results).filter_map(|(action, result)| Some((action, result?)));
        executed
            .results
            .extend(reported.map(|(action, result)| ActionResult { tag: action.tag.clone(), result }));
        failed
    }

    /// One action, with its line in the log and its events.
    async fn act(&self, action: &Action) -> Acted {
        let started = Instant::now();
        let shared = &self.executor.shared;
        let Some(resource) = shared.registry.name(action.resource) else {
            return Acted::failed(super::refused("NotFound", "the resource has no name"));
        };
        let shown = show(&resource);
        let cached = self.executor.cache.by_name(action.resource, &action.namespace, &action.name);
        let (ending, name, mut acted) = match self.precondition(action, cached.as_ref()) {
            Err(failure) => (Ending::Failed(failure), action.name.clone(), Acted::nothing()),
            Ok(precondition) => {
                let before = precondition
                    .resource_version
                    .clone()
                    .or(cached.as_ref().map(|seen| seen.resource_version.clone()));
                let cached_uid = cached.map(|seen| seen.uid.to_string());
                let mut write = Write::new(self.executor, action, resource, precondition, cached_uid);
                let span = Span::part("write", || {
                    vec![
                        attribute("k8s.verb", rbac_verb(&action.verb)),
                        attribute("k8s.resource", shown.clone()),
                        attribute("k8s.subresource", action.subresource.clone()),
                        attribute("k8s.namespace.name", action.namespace.clone()),
                        attribute("k8s.object.name", write.name.clone()),
                    ]
                });
                let ending = span.within(write.run(&**self.gate)).await;
                match &ending {
                    Ending::Done(_) => {}
                    Ending::Failed(failure) => span.fail(|| failure.message.clone()),
                    other => span.fail(|| other.word().to_owned()),
                }
                drop(span);
                let mut acted = Acted::nothing();
                if let Ending::Done(head) | Ending::Unheard(head, _) = &ending {
                    let version = &head.metadata.resource_version;
                    acted.done = Some(Done {
                        tag: action.tag.clone(),
                        name: write.name.clone(),
                        version: version.parse().ok(),
                    });
                    acted.no_op = !version.is_empty() && before.as_ref() == Some(version);
                    acted.primary_version =
                        self.is_primary(action, &write.name).then(|| version.parse().ok()).flatten();
                    if self.executor.reads(action.resource) {
                        write.succeeded(head).await;
                    }
                    if !version.is_empty() {
                        let target = (action.resource, action.namespace.clone(), write.name.clone());
                        self.carried.lock().insert(target, version.clone());
                    }
                }
                if self.executor.reads(action.resource) {
                    acted.barriers = write.barriers;
                }
                (ending, write.name, acted)
            }
        };
        let error = match &ending {
            Ending::Done(_) => None,
            Ending::Unheard(_, failure) => {
                Some(format!("took effect, but the answer was lost: {}", failure.message))
            }
            Ending::Failed(failure) => {
                Some(format!("{} {}: {}", failure.status, failure.reason, failure.message))
            }
            Ending::Unknown(reason) => Some(format!("unknown: {reason}")),
            Ending::Halted => Some("not sent: this process does not lead".to_owned()),
        };
        tracing::info!(
            controller = shared.config.controller,
            key = %self.key,
            verb = rbac_verb(&action.verb),
            resource = shown,
            subresource = (!action.subresource.is_empty()).then_some(action.subresource.as_str()),
            object = format_args!("{}/{name}", action.namespace),
            no_op = acted.no_op,
            error,
            duration_ms = started.elapsed().as_millis() as u64,
            "write"
        );
        if let Some(metrics) = &shared.config.metrics {
            metrics.acted(rbac_verb(&action.verb), ending.word());
        }
        match ending {
            Ending::Done(_) => action
                .on_success
                .iter()
                .for_each(|event| self.record(event, fill_in(&event.message, &name, ""))),
            Ending::Unheard(_, failure) | Ending::Failed(failure) => {
                let message = |event: &Event| fill_in(&event.message, &name, &failure.message);
                action.on_failure.iter().for_each(|event| self.record(event, message(event)));
                acted.result = Some(ActionOutcome::Failed(failure));
            }
            Ending::Unknown(_) => acted.result = Some(ActionOutcome::Unknown),
            Ending::Halted => {
                acted.halted = true;
                acted.result = Some(ActionOutcome::Skipped);
            }
        }
        acted
    }

    /// What a precondition comes to right now.
    fn precondition(&self, action: &Action, cached: Option<&Seen>) -> Result<Precondition, Failure> {
        let target = (action.resource, action.namespace.clone(), action.name.clone());
        let carried = self.carried.lock().get(&target).cloned();
        // An update without a resourceVersion would overwrite anything.
        let filled_in = |uid: Option<&String>| {
            let cached = cached.filter(|seen| uid.is_none_or(|uid| *seen.uid == **uid));
            let version = carried.clone().or(cached.map(|seen| seen.resource_version.clone()));
            version.filter(|_| matches!(action.verb, Verb::Replace(_)))
        };
        match &action.precondition {
            contract::Precondition::None => Ok(Precondition { uid: None, resource_version: filled_in(None) }),
            contract::Precondition::Uid(uid) => {
                Ok(Precondition { uid: Some(uid.clone()), resource_version: filled_in(Some(uid)) })
            }
            contract::Precondition::AsSeen(seen) => {
                let ours = carried.is_some();
                let held = if ours {
                    self.pinned.get(&(seen.resource, seen.id, seen.version)).cloned()
                } else {
                    self.view.current(seen)
                };
                let Some(held) = held else {
                    return Err(super::conflict(
                        "the cached object has changed since the module read it; nothing was sent",
                    ));
                };
                if *held.namespace != *action.namespace || *held.name != *action.name {
                    return Err(super::refused(
                        "BadRequest",
                        "its precondition is about another object; nothing was sent",
                    ));
                }
                let delete = matches!(action.verb, Verb::Delete(_));
                Ok(Precondition {
                    uid: delete.then(|| held.uid.to_string()),
                    resource_version: Some(carried.unwrap_or(held.resource_version)),
                })
            }
        }
    }

    fn is_primary(&self, action: &Action, name: &str) -> bool {
        action.resource == self.key.resource
            && *action.namespace == *self.key.namespace
            && *name == *self.key.name
    }
}

impl Acted {
    fn nothing() -> Self {
        Self {
            result: None,
            barriers: Vec::new(),
            done: None,
            no_op: false,
            halted: false,
            primary_version: None,
        }
    }

    fn failed(failure: Failure) -> Self {
        Self { result: Some(ActionOutcome::Failed(failure)), ..Self::nothing() }
    }
}

fn skipped(action: &Action) -> ActionResult {
    ActionResult { tag: action.tag.clone(), result: ActionOutcome::Skipped }
}
