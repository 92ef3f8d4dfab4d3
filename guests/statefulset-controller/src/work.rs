//! What each pod needs: the wanted ones first, from the lowest ordinal, then
//! those that are too many, from the highest, then the update.
//!
//! In order, the first pod that is not as it should be ends the round: nothing
//! more happens before it is. In parallel, each pod gets what it needs.

use coxswain_sdk::template::PodTemplate;
use coxswain_sdk::{Action, Ctx, Event, Object, Plan, Result, Step};

use crate::claims::{self, Claims};
use crate::members::{Members, name_of};
use crate::pods::{self, PodEvents};
use crate::several_unavailable;
use crate::update::Update;
use crate::view::{Pod, StatefulSet};

/// At most so many pods are made by one plan.
const BURST: usize = 500;

/// What is known when work begins.
#[derive(Debug)]
pub struct Situation<'a> {
    /// The set.
    pub set: &'a StatefulSet,
    /// Its pods.
    pub members: &'a Members,
    /// The update under way.
    pub update: Update<'a>,
    /// Template of the current revision.
    pub current_template: PodTemplate,
}

/// What is to be done.
#[derive(Debug, Default)]
pub struct Work {
    /// Pods and claims put right. What comes after them waits until they are.
    repairs: Vec<Action>,
    /// What pods that have not started lack.
    chores: Vec<Action>,
    deletions: Vec<Action>,
    creations: Vec<Action>,
    /// Claims of pods about to be made.
    claims: Vec<Action>,
    /// Pods that are made once those claims are.
    creations_after: Vec<Action>,
    events: Vec<Event>,
    /// Pods of the current revision that the update deletes.
    pub outdated: i32,
}

impl Work {
    /// Finds out what is to be done.
    pub fn of(ctx: &Ctx<'_>, at: &Situation<'_>) -> Result<Self> {
        let events = PodEvents::of(at.set);
        let mut round = Round { ctx, at, events, ordered: at.set.is_ordered(), work: Self::default() };
        round.run()?;
        Ok(round.work)
    }

    /// What comes before the status. No failure keeps the rest from being done.
    pub fn before_status(&mut self, plan: &mut Plan) {
        for actions in [&mut self.repairs, &mut self.chores, &mut self.deletions] {
            plan.then(Step::new(actions.drain(..)).or_go_on());
        }
        plan.then(Step::new(self.creations.drain(..)).slow_start().or_go_on());
        for event in self.events.drain(..) {
            plan.event(event);
        }
    }

    /// What comes after it: pods are made only once their claims are.
    pub fn after_status(self, plan: &mut Plan) {
        plan.then(self.claims);
        plan.then(Step::new(self.creations_after).slow_start());
    }
}

/// Whether what follows has to wait.
type Waits = bool;

struct Round<'a> {
    ctx: &'a Ctx<'a>,
    at: &'a Situation<'a>,
    events: PodEvents<'a>,
    ordered: bool,
    work: Work,
}

impl<'a> Round<'a> {
    fn run(&mut self) -> Result<()> {
        let waits = if self.ordered { self.tend_in_order()? } else { self.tend_all()? };
        if waits {
            return Ok(());
        }
        // A claim gets its owner before the pod goes that may be the owner.
        for (ordinal, pod) in self.at.members.condemned.iter().rev() {
            self.disown(*ordinal, pod)?;
        }
        if self.work.repairs.is_empty() && !self.remove_condemned() && !self.at.set.updates_on_delete() {
            self.update()?;
        }
        Ok(())
    }

    fn tend_in_order(&mut self) -> Result<Waits> {
        let at = self.at;
        for ordinal in (at.set.start()..).take_while(|ordinal| at.set.wants(*ordinal)) {
            let Some(pod) = at.members.replicas.get(&ordinal) else {
                if self.work.repairs.is_empty() {
                    self.create(ordinal)?;
                }
                return Ok(true);
            };
            if self.tend(ordinal, pod)? {
                return Ok(true);
            }
        }
        Ok(!self.work.repairs.is_empty())
    }

    fn tend_all(&mut self) -> Result<Waits> {
        let at = self.at;
        for (ordinal, pod) in &at.members.replicas {
            self.tend(*ordinal, pod)?;
        }
        let missing = (at.set.start()..).take_while(|ordinal| at.set.wants(*ordinal));
        for ordinal in missing.filter(|ordinal| !at.members.replicas.contains_key(ordinal)) {
            if self.work.creations.len() + self.work.creations_after.len() >= BURST {
                break;
            }
            self.create(ordinal)?;
        }
        Ok(!self.work.repairs.is_empty())
    }

    fn claims(&self, ordinal: i64, pod_uid: &str) -> Result<Claims<'a>> {
        Claims::of(self.ctx, self.at.set, ordinal, pod_uid)
    }

    /// Makes a pod that is missing.
    fn create(&mut self, ordinal: i64) -> Result<()> {
        let at = self.at;
        let name = name_of(&at.set.metadata.name, ordinal);
        if self.ctx.get::<Pod>(&at.set.metadata.namespace, &name)?.is_some() {
            // Somebody else's. Once it is gone its name is free.
            return Ok(());
        }
        let claims = self.claims(ordinal, "")?;
        if claims.is_stale() {
            return Ok(());
        }
        let mut writes = claims.create(claims::CREATE, &self.events)?;
        writes.extend(self.own(&claims, &name));
        let after_claims = !writes.is_empty();
        self.work.claims.extend(writes);
        if let Some(error) = being_deleted(&claims) {
            self.work.events.push(self.events.failure("Create", &name, &error));
            return Ok(());
        }
        let (template, revision) = if at.set.starts_at_current(ordinal) {
            (&at.current_template, at.update.current)
        } else {
            (&at.set.spec.template.pods, at.update.revision)
        };
        let create = pods::create(at.set, ordinal, template, revision, &self.events)?;
        if after_claims { &mut self.work.creations_after } else { &mut self.work.creations }.push(create);
        Ok(())
    }

    /// Looks after a pod that is wanted. Where pods are kept in order, those
    /// that follow wait until it is available.
    fn tend(&mut self, ordinal: i64, pod: &Object<Pod>) -> Result<Waits> {
        let deleting = pod.metadata.is_deleting();
        // Ended for good or ill: a set's pods are to run.
        let abandoned = self.ordered && self.at.update.is_abandoned(ordinal, pod);
        if pod.has_ended() || abandoned {
            if !deleting && self.work.repairs.is_empty() {
                self.delete(pod);
            }
            return Ok(self.ordered);
        }
        let claims = self.claims(ordinal, &pod.metadata.uid)?;
        let pending = pod.is_pending();
        if pending {
            let mut missing = claims.create(claims::CREATE_MISSING, &self.events)?;
            missing.extend(self.own(&claims, &pod.metadata.name));
            self.work.chores.extend(missing);
        }
        let available = pod.runs_ready() && !self.at.update.is_unavailable(pod);
        if self.ordered && !available {
            return Ok(true);
        }
        let name = &pod.metadata.name;
        let mut repairs = Vec::new();
        if !pods::has_volumes(self.at.set, pod, ordinal) {
            repairs.extend(claims.create(claims::CREATE_MISSING, &self.events)?);
        }
        if !pending && claims.are_misowned() {
            repairs.extend(self.own(&claims, name));
        }
        match pods::repair(self.at.set, pod, ordinal, &self.events) {
            Some(repair) => repairs.push(repair),
            None => {
                if let Some(last) = repairs.pop() {
                    repairs.push(last.on_success(self.events.success("Update", name)));
                }
            }
        }
        self.work.repairs.extend(repairs);
        Ok(false)
    }

    /// Gives the claims of a pod their owners.
    fn own(&mut self, claims: &Claims<'_>, pod: &str) -> Vec<Action> {
        self.work.events.extend(claims.conflicts(&self.events));
        claims.own(|claim| {
            let error = format!("could not update claim {claim} for delete policy ownerRefs: {{message}}");
            self.events.failure("Update", pod, &error)
        })
    }

    /// Gives the claims of a pod that is too many their owners.
    fn disown(&mut self, ordinal: i64, pod: &Object<Pod>) -> Result<()> {
        let claims = self.claims(ordinal, &pod.metadata.uid)?;
        if claims.are_misowned() {
            let owned = self.own(&claims, &pod.metadata.name);
            self.work.repairs.extend(owned);
        }
        Ok(())
    }

    fn delete(&mut self, pod: &Pod) {
        self.work.deletions.push(pods::delete(pod, &self.events));
    }

    /// Deletes pods that are too many: in order the last one, once those before
    /// it are available, but for the first that is not.
    fn remove_condemned(&mut self) -> Waits {
        let condemned = &self.at.members.condemned;
        if !self.ordered {
            for pod in condemned.values().rev().filter(|pod| !pod.metadata.is_deleting()) {
                self.delete(pod);
            }
            return false;
        }
        let Some((last, pod)) = condemned.last_key_value() else { return false };
        let unavailable = |pod: &Pod| self.at.update.is_unavailable(pod);
        let first_unavailable =
            condemned.iter().find(|(_, pod)| unavailable(pod)).map(|(ordinal, _)| ordinal);
        let fit = pod.runs_ready() && !unavailable(pod);
        if !pod.metadata.is_deleting() && (fit || first_unavailable == Some(last)) {
            self.delete(pod);
        }
        true
    }

    fn update(&mut self) -> Result<()> {
        let at = self.at;
        let outdated = if several_unavailable(self.ctx)? {
            at.update.several(at.members)
        } else {
            at.update.next(at.members).into_iter().collect()
        };
        for pod in outdated {
            self.work.outdated =
                self.work.outdated.saturating_add((pod.revision() == at.update.current).into());
            self.delete(pod);
        }
        Ok(())
    }
}

/// Why a pod cannot be made yet.
fn being_deleted(claims: &Claims<'_>) -> Option<String> {
    let deleting: Vec<_> =
        claims.deleting().into_iter().map(|claim| format!("pvc {claim} is being deleted")).collect();
    match deleting.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("[{}]", several.join(", "))),
    }
}
