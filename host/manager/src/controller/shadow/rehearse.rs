//! Asking the candidate what the live version was asked.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use super::{
    Shadow, compare,
    notes::{Decision, Job},
};
use crate::{
    contract::{Answer, Ask, Lookup, Outcome, Plan, Request, StateChange},
    controller::{Record, reconcile::MAX_ROUNDS},
    engine::Fault,
    key::Key,
    store::Reads,
};

/// How long the lookups that only the candidate asks for may take.
const LOOKUPS: Duration = Duration::from_secs(10);

/// How a rehearsal ended short of a decision.
enum Ended {
    /// The candidate is at fault.
    Fault(String),
    /// It did what cannot be repeated in a shadow.
    Differs(String),
    /// Nothing can be said.
    Skip,
}

impl Shadow {
    /// Has the candidate do a job, and compares.
    pub(super) async fn rehearse(self: &Arc<Self>, job: Job) {
        let key = job.key.clone();
        let mut record = self.records.lock().remove(&key).unwrap_or_else(|| self.inherit(&job.request));
        record.identify(self.candidate.view.primary_identity(&key));
        match self.decide(&job, &mut record).await {
            Ok(decision) => {
                match compare::compare(self, &job, &decision) {
                    None => self.agreed(),
                    Some(diff) => self.differed(&key, diff),
                }
                self.remember(&key, record, decision);
            }
            Err(Ended::Fault(reason)) => self.faulted(&key, reason),
            Err(Ended::Differs(what)) => self.differed(&key, what),
            Err(Ended::Skip) => {
                self.counters.skipped.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// State as a swap would hand it over.
    fn inherit(&self, request: &Request) -> Record {
        let state = request.state.as_ref().map(|state| (request.state_format, state.clone()));
        let mut record = Record { uid: None, state, results: Vec::new() };
        record.state = record.state_for(self.candidate.module.manifest()).cloned();
        record
    }

    fn remember(&self, key: &Key, mut record: Record, decision: Decision) {
        let Decision::Plan(plan) = decision else {
            if !record.is_blank() {
                self.records.lock().insert(key.clone(), record);
            }
            return;
        };
        let asks_nothing = plan.steps.is_empty() && plan.not_before.is_none();
        record.change_state(plan.state, self.candidate.module.manifest());
        let forget = asks_nothing && !self.candidate.view.yields(key);
        if !forget && !record.is_blank() {
            self.records.lock().insert(key.clone(), record);
        }
    }

    async fn decide(self: &Arc<Self>, job: &Job, record: &mut Record) -> Result<Decision, Ended> {
        let candidate = &self.candidate;
        let limits = candidate.module.limits();
        let Some(mut seen) = job.rounds.first() else { return Err(Ended::Skip) };
        let mut request = Request {
            key: (&job.key).into(),
            primary: None,
            resources: Vec::new(),
            now: job.request.now,
            seed: job.request.seed,
            state: record.state.as_ref().map(|(_, state)| state.clone()),
            state_format: record.state.as_ref().map_or(0, |(format, _)| *format),
            results: job.request.results.clone(),
            answers: Vec::new(),
            options: candidate.options.clone(),
        };
        let mut spent = Duration::ZERO;
        for round in 0..MAX_ROUNDS {
            // A candidate that asks more often than the live version did goes on seeing what that saw last.
            seen = job.rounds.get(round as usize).unwrap_or(seen);
            let snapshot = candidate.view.snapshot_beside(&job.key, seen);
            request.primary = snapshot.primary();
            request.resources = candidate.view.resources();
            let snapshot = Box::new(snapshot);
            let log = self.around.log.clone();
            let called = candidate.call(request, snapshot, spent, log, &self.compute, || true).await;
            let Some(called) = called else { return Err(Ended::Skip) };
            request = Arc::unwrap_or_clone(called.request);
            spent += called.spent;
            let waits = called.reads.as_ref().is_some_and(Reads::waits);
            match called.result {
                Ok(Outcome::Lookups(asks)) => {
                    let answered = request.answers.len();
                    limits.check_lookups(answered, &asks).map_err(|e| Ended::Fault(e.to_string()))?;
                    if asks.is_empty() {
                        return Err(Ended::Fault("the module asked for lookups and named none".into()));
                    }
                    request.answers.extend(self.answer(job, asks).await?);
                }
                Ok(outcome) => {
                    let decision = Decision::of(&outcome).ok_or(Ended::Skip)?;
                    if let Decision::Plan(plan) = &decision {
                        limits.check_plan(plan).map_err(|e| Ended::Fault(e.to_string()))?;
                        let allowed = candidate.executor.check(&without_state(plan), &*candidate.view);
                        allowed.map_err(|e| Ended::Fault(format!("the plan cannot be carried out: {e}")))?;
                    }
                    return Ok(decision);
                }
                Err(Fault::Snapshot(_)) if waits => return Err(Ended::Skip),
                Err(fault) => return Err(Ended::Fault(fault.to_string())),
            }
        }
        Err(Ended::Fault(format!("the module asked for lookups in {MAX_ROUNDS} rounds and came to no plan")))
    }

    /// What the live version was told is told to the candidate as well. What
    /// only the candidate asks for is sent if it is a read; a review or a
    /// signature is not for a shadow to ask for.
    async fn answer(&self, job: &Job, asks: Vec<Lookup>) -> Result<Vec<Answer>, Ended> {
        let mut answers = Vec::new();
        let mut unanswered = Vec::new();
        for ask in asks {
            match job.answers.iter().find(|(asked, _)| *asked == ask.ask) {
                Some((_, answer)) => answers.push(Answer { id: ask.id, result: answer.result.clone() }),
                None if matches!(ask.ask, Ask::Review(_) | Ask::Sign(_)) => {
                    let told = format!(
                        "the candidate asks for a review or a signature that version {} does not ask for:\n+ {:?}",
                        job.version, ask.ask
                    );
                    return Err(Ended::Differs(compare::bounded(&told)));
                }
                None => unanswered.push(ask),
            }
        }
        if !unanswered.is_empty() {
            self.counters.lookups.fetch_add(unanswered.len() as u64, Ordering::Relaxed);
            let sent = tokio::time::timeout(LOOKUPS, self.candidate.executor.look_up(unanswered)).await;
            answers.extend(sent.map_err(|_| Ended::Skip)?);
        }
        Ok(answers)
    }
}

/// A plan as the executor takes it.
fn without_state(plan: &Plan) -> Plan {
    Plan { state: StateChange::Keep, metrics: Vec::new(), ..plan.clone() }
}
