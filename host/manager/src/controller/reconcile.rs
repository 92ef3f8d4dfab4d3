//! One reconcile of one key: rounds of questions, then what the answer asks for.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{Controller, KeyError, Loaded, Recent, Record, Settled, observe::Followers, recent};
use crate::{
    clock,
    contract::{Outcome, Plan, Request},
    election::Term,
    engine::Fault,
    executor::{Executed, WriteGate},
    key::Key,
    limits::{Exceeded, LimitKind},
    metrics::Moment,
    queue::Finished,
    store::Reads,
    traces::{Span, attribute},
};

/// Rounds of lookups one reconcile may take, because each must bring it closer
/// to a plan: the deepest chain known is an owner's owner and its scale.
pub(super) const MAX_ROUNDS: u32 = 16;

/// When a reconcile began, and how long each of its lookups took.
struct Timing {
    began: tokio::time::Instant,
    lookups: Vec<(String, Duration)>,
}

impl Controller {
    pub(super) async fn reconcile(&self, key: &Key, term: &Arc<Term>) -> Settled {
        let loaded = self.version_for(key);
        self.note_canary(&loaded);
        if !loaded.view.is_ready() {
            // All its keys are woken once it is.
            return Settled { finished: Finished::default(), barriers: Vec::new() };
        }
        if !loaded.view.may_reconcile(key) {
            loaded.view.grants().refusals.keys.fetch_add(1, Ordering::Relaxed);
            loaded.view.forget(key);
            return Settled {
                finished: Finished { forget: true, ..Finished::default() },
                barriers: Vec::new(),
            };
        }
        let mut record = self.records.lock().remove(key).unwrap_or_default();
        record.identify(loaded.view.primary_identity(key));
        let settled = self.rounds(&loaded, key, &mut record, term).await;
        self.counters.reconciles.fetch_add(1, Ordering::Relaxed);
        if settled.finished.failed {
            self.counters.failures.fetch_add(1, Ordering::Relaxed);
        }
        if settled.finished.forget {
            loaded.view.forget(key);
            self.struck.clear(key);
            self.meter.forget(key);
        } else if !record.is_blank() {
            self.records.lock().insert(key.clone(), record);
        }
        settled
    }

    async fn rounds(
        &self,
        loaded: &Arc<Loaded>,
        key: &Key,
        record: &mut Record,
        term: &Arc<Term>,
    ) -> Settled {
        let mut request = self.request(loaded, key, record);
        let mut spent = Duration::ZERO;
        let mut followers = self.followers(loaded, key);
        let mut timing = Timing { began: tokio::time::Instant::now(), lookups: Vec::new() };
        for _ in 0..MAX_ROUNDS {
            let snapshot = loaded.view.snapshot(key);
            request.primary = snapshot.primary();
            request.resources = loaded.view.resources();
            let snapshot = followers.asked(&request, snapshot);
            let span =
                Span::part("compute", || vec![attribute("module.hash", loaded.module.hash().to_owned())]);
            // What waits for its turn with a version that has been replaced is asked of the one in its place:
            // the one before may be spinning.
            let wanted = || Arc::ptr_eq(loaded, &self.version_for(key));
            let called =
                loaded.call(request, snapshot, spent, self.log.clone(), &self.shared.compute, wanted);
            let Some(called) = called.await else { return self.superseded(spent) };
            span.set("outcome", recent::describe(&called.result));
            if let Err(fault) = &called.result {
                span.fail(|| fault.to_string());
            }
            drop(span);
            self.counters.limit_hits.add(LimitKind::LogLines, loaded.module.take_dropped_lines());
            request = Arc::unwrap_or_clone(called.request);
            spent += called.spent;
            followers.answered(&request, &called.result);
            let finished = matches!(called.result, Ok(Outcome::Plan(_)));
            let waits = called.reads.as_ref().is_some_and(Reads::waits);
            let round = Recent {
                key: key.to_string(),
                at: self.shared.clock.now(),
                guest_micros: called.spent.as_micros() as u64,
                reads: called.reads.as_ref().map_or(0, Reads::count),
                outcome: recent::describe(&called.result),
            };
            if !recent::is_for_nothing(&called.result) {
                self.doings.did(key, &round);
            }
            self.recent.add(round);
            if let Some(reads) = called.reads {
                loaded.view.commit(key, reads, finished);
            }
            match called.result {
                Ok(Outcome::Plan(plan)) => {
                    if let Err(exceeded) = loaded.module.limits().check_plan(&plan) {
                        let invalid = Some(exceeded.to_string());
                        followers.carried_out(&Executed { failed: true, invalid, ..Executed::default() });
                        self.series.reconciled("refused", spent);
                        return self.exceeded(loaded, key, &exceeded);
                    }
                    self.series.reconciled("plan", spent);
                    let mut settled =
                        self.carry_out(loaded, key, record, plan, &mut followers, term, timing).await;
                    settled.finished.spent = spent;
                    return settled;
                }
                Ok(Outcome::Lookups(asks)) if asks.is_empty() => {
                    let reason = "the module asked for lookups and named none";
                    return self.struck(loaded, key, reason.into());
                }
                Ok(Outcome::Lookups(asks)) => {
                    let answered = request.answers.len();
                    if let Err(exceeded) = loaded.module.limits().check_lookups(answered, &asks) {
                        return self.exceeded(loaded, key, &exceeded);
                    }
                    let span = Span::part("lookups", || vec![attribute("count", asks.len() as i64)]);
                    let phase = self.doings.looks_up(key, asks.len());
                    let answers = span.within(loaded.executor.look_up_timed(asks)).await;
                    drop(phase);
                    drop(span);
                    for (answer, took) in answers {
                        timing.lookups.push((answer.id.clone(), took));
                        request.answers.push(answer);
                    }
                    if !Arc::ptr_eq(loaded, &self.version_for(key)) {
                        return self.superseded(spent);
                    }
                }
                Ok(Outcome::Retry(reason)) => {
                    self.fair(loaded, key);
                    self.series.reconciled("retry", spent);
                    return self.failed(key, reason);
                }
                Ok(Outcome::Terminal(reason)) => {
                    self.fair(loaded, key);
                    self.series.reconciled("terminal", spent);
                    record.results.clear();
                    self.note_error(key, &reason);
                    tracing::warn!(controller = %self.name, %key, reason, "gave up until something it read changes");
                    return Settled { finished: Finished::default(), barriers: Vec::new() };
                }
                Err(fault) => {
                    let waits = waits && matches!(fault, Fault::Snapshot(_));
                    self.series.reconciled(if waits { "waiting" } else { "fault" }, spent);
                    self.series.faulted(&fault);
                    // Waiting for a cache to sync is no fault of the guest.
                    if waits {
                        return self.failed(key, fault.to_string());
                    }
                    self.counters.faults.fetch_add(1, Ordering::Relaxed);
                    match fault {
                        Fault::Deadline(_) => self.counters.limit_hits.add(LimitKind::Deadline, 1),
                        Fault::Memory { .. } => self.counters.limit_hits.add(LimitKind::Memory, 1),
                        Fault::Trap(_) | Fault::Snapshot(_) => {}
                    }
                    return self.struck(loaded, key, fault.to_string());
                }
            }
        }
        let reason = format!("the module asked for lookups in {MAX_ROUNDS} rounds and came to no plan");
        self.struck(loaded, key, reason)
    }

    fn request(&self, loaded: &Loaded, key: &Key, record: &Record) -> Request {
        let state = record.state_for(loaded.module.manifest());
        Request {
            key: key.into(),
            primary: None,
            resources: Vec::new(),
            now: clock::to_wire(self.shared.clock.now()),
            seed: self.shared.entropy.next_seed(),
            state: state.map(|(_, state)| state.clone()),
            state_format: state.map_or(0, |(format, _)| *format),
            results: record.results.clone(),
            answers: Vec::new(),
            options: loaded.options.clone(),
        }
    }

    #[expect(clippy::too_many_arguments, reason = "one call, of the one who has all of them")]
    async fn carry_out(
        &self,
        loaded: &Loaded,
        key: &Key,
        record: &mut Record,
        mut plan: Plan,
        followers: &mut Followers,
        term: &Arc<Term>,
        timing: Timing,
    ) -> Settled {
        let change = std::mem::replace(&mut plan.state, crate::contract::StateChange::Keep);
        let samples = std::mem::take(&mut plan.metrics);
        let quiet = Duration::from_millis(plan.quiet.into());
        let again_in = plan.not_before.map(|at| {
            Duration::try_from(clock::from_wire(at).duration_since(self.shared.clock.now()))
                .unwrap_or_default()
        });
        let asks_nothing = plan.steps.is_empty() && again_in.is_none();
        let gate: Arc<dyn WriteGate> = term.clone();
        let actions: usize = plan.steps.iter().map(|step| step.actions.len()).sum();
        let phase = (actions > 0).then(|| self.doings.writes(key, actions));
        let executed = loaded.executor.carry_out(key, plan, &*loaded.view, &gate).await;
        drop(phase);
        if actions > 0 {
            self.doings.came_to(key, || came_to(&executed, actions));
        }
        followers.carried_out(&executed);
        if let Some(reason) = executed.invalid {
            record.results = executed.results;
            let reason = format!("the plan cannot be carried out: {reason}");
            // What the operator forbids is no fault of the module.
            if executed.denied {
                return self.failed(key, reason);
            }
            self.counters.invalid_plans.fetch_add(1, Ordering::Relaxed);
            return self.struck(loaded, key, reason);
        }
        self.fair(loaded, key);
        let conflict = executed.is_conflict();
        record.change_state(change, loaded.module.manifest());
        record.results = executed.results;
        let moment = Moment {
            results: &record.results,
            done: &executed.done,
            lookups: &timing.lookups,
            failed: executed.failed || executed.halted,
            elapsed: timing.began.elapsed(),
        };
        self.meter.count(loaded.module.manifest(), key, &samples, moment);
        self.counters.writes.fetch_add(executed.done.len() as u64, Ordering::Relaxed);
        self.counters.no_op_writes.fetch_add(executed.no_op_writes.into(), Ordering::Relaxed);
        if executed.failed {
            let reason =
                record.results.iter().find_map(describe_failure).unwrap_or_else(|| "an action failed".into());
            self.note_error(key, &reason);
        }
        let forget = asks_nothing && record.results.is_empty() && !loaded.view.yields(key);
        let finished = Finished {
            failed: executed.failed,
            advanced: executed.advanced,
            conflict,
            wrote: !executed.done.is_empty(),
            own_writes: executed.primary_version.into_iter().collect(),
            again_in,
            quiet,
            spent: Duration::ZERO,
            at_once: false,
            forget,
        };
        Settled { finished, barriers: executed.barriers }
    }

    /// Another version has the key by now, which is asked at once.
    fn superseded(&self, spent: Duration) -> Settled {
        self.series.reconciled("superseded", spent);
        Settled { finished: Finished { at_once: true, ..Finished::default() }, barriers: Vec::new() }
    }

    /// The module came to an outcome that can be taken.
    fn fair(&self, loaded: &Loaded, key: &Key) {
        loaded.probation.fair();
        self.struck.clear(key);
    }

    /// The module itself is at fault.
    fn struck(&self, loaded: &Loaded, key: &Key, reason: String) -> Settled {
        self.struck.strike(key, std::ptr::eq(loaded, &*self.version_for(key)));
        loaded.probation.strike(key, &reason);
        self.failed(key, reason)
    }

    /// The module asked for more than it may.
    fn exceeded(&self, loaded: &Loaded, key: &Key, exceeded: &Exceeded) -> Settled {
        self.counters.limit_hits.add(exceeded.kind, 1);
        if exceeded.kind != LimitKind::Lookups {
            self.counters.invalid_plans.fetch_add(1, Ordering::Relaxed);
        }
        self.struck(loaded, key, exceeded.to_string())
    }

    fn failed(&self, key: &Key, reason: String) -> Settled {
        self.note_error(key, &reason);
        tracing::warn!(controller = %self.name, %key, reason, "reconcile failed, will try again");
        Settled { finished: Finished { failed: true, ..Finished::default() }, barriers: Vec::new() }
    }

    fn note_error(&self, key: &Key, reason: &str) {
        let error = KeyError { key: key.to_string(), reason: reason.to_owned(), at: self.shared.clock.now() };
        *self.last_error.lock() = Some(error);
    }
}

fn came_to(executed: &Executed, actions: usize) -> String {
    let done = executed.done.len();
    let failure = executed.invalid.clone().or_else(|| executed.results.iter().find_map(describe_failure));
    match failure {
        Some(reason) => format!("{done} of {actions} actions done; {reason}"),
        None if executed.halted => format!("{done} of {actions} actions done; this process leads no more"),
        None => format!("{done} of {actions} actions done"),
    }
}

fn describe_failure(result: &crate::contract::ActionResult) -> Option<String> {
    use crate::contract::ActionOutcome;
    match &result.result {
        ActionOutcome::Failed(failure) => {
            Some(format!("{}: {} {}", result.tag, failure.reason, failure.message))
        }
        ActionOutcome::Unknown => Some(format!("{}: nobody can tell whether it took effect", result.tag)),
        ActionOutcome::Skipped => None,
    }
}
