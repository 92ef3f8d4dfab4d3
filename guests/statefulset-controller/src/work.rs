//! What each pod needs: the wanted ones first, from the lowest ordinal, then
//! those that are too many, from the highest, then the update.
//!
//! In order, the first pod that is not as it should be ends the round: nothing
//! more happens before it is. In parallel, pods get what they need in batches of
//! 1, 2, 4 and so on by ordinal, each once the one before it went well.

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
    creations: Vec<Creation>,
    events: Vec<Event>,
    /// Pods of the current revision that the update deletes.
    pub outdated: i32,
}

/// A pod about to be made.
#[derive(Debug)]
struct Creation {
    /// Number of its batch.
    batch: u32,
    /// Writes of claims that come first.
    claims: Vec<Action>,
    pod: Option<Action>,
}

impl Work {
    /// Finds out what is to be done.
    pub fn of(ctx: &Ctx<'_>, at: &Situation<'_>) -> Result<Self> {
        let events = PodEvents::of(at.set);
        let mut round =
            Round { ctx, at, events, ordered: at.set.is_ordered(), stuck: false, work: Self::default() };
        round.run()?;
        Ok(round.work)
    }

    /// What comes before the status. No failure keeps the rest from being done.
    pub fn before_status(&mut self, plan: &mut Plan) {
        for actions in [&mut self.repairs, &mut self.chores, &mut self.deletions] {
            plan.then(Step::new(actions.drain(..)).or_go_on());
        }
        if self.creations.iter().all(|creation| creation.claims.is_empty()) {
            let pods = self.creations.drain(..).filter_map(|creation| creation.pod);
            plan.then(Step::new(pods).slow_start().or_go_on());
        }
        for event in self.events.drain(..) {
            plan.event(event);
        }
    }

    /// What comes after it: pods are made only once their claims are, and claims
    /// only once the batch before them went well, lest they are made for pods
    /// that nobody can make.
    pub fn after_status(self, plan: &mut Plan) {
        let mut creations = self.creations.into_iter().peekable();
        while let Some(first) = creations.next() {
            let (mut claims, mut pods) = (first.claims, Vec::from_iter(first.pod));
            while let Some(more) = creations.next_if(|next| next.batch == first.batch) {
                claims.extend(more.claims);
                pods.extend(more.pod);
            }
            plan.then(claims);
            plan.then(pods);
        }
    }
}

/// Whether what follows has to wait.
type Waits = bool;

struct Round<'a> {
    ctx: &'a Ctx<'a>,
    at: &'a Situation<'a>,
    events: PodEvents<'a>,
    ordered: bool,
    /// Whether what a pod needs cannot be done at present.
    stuck: bool,
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
                    self.create(ordinal, 0)?;
                }
                return Ok(true);
            };
            if self.tend(ordinal, pod)? || self.stuck {
                return Ok(true);
            }
        }
        Ok(!self.work.repairs.is_empty())
    }

    fn tend_all(&mut self) -> Result<Waits> {
        let at = self.at;
        let mut batch = 0;
        for ordinal in (at.set.start()..).take_while(|ordinal| at.set.wants(*ordinal)) {
            let next = (ordinal - at.set.start() + 1).unsigned_abs().ilog2();
            if self.stuck && next > batch || self.work.creations.len() >= BURST {
                break;
            }
            batch = next;
            match at.members.replicas.get(&ordinal) {
                Some(pod) => drop(self.tend(ordinal, pod)?),
                None => self.create(ordinal, batch)?,
            }
        }
        Ok(self.stuck || !self.work.repairs.is_empty())
    }

    fn claims(&self, ordinal: i64, pod_uid: &str) -> Result<Claims<'a>> {
        Claims::of(self.ctx, self.at.set, ordinal, pod_uid)
    }

    /// Makes a pod that is missing.
    fn create(&mut self, ordinal: i64, batch: u32) -> Result<()> {
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
        let pod = if let Some(error) = being_deleted(&claims) {
            self.work.events.push(self.events.failure("Create", &name, &error));
            self.stuck = true;
            None
        } else {
            let (template, revision) = if at.set.starts_at_current(ordinal) {
                (&at.current_template, at.update.current)
            } else {
                (&at.set.spec.template.pods, at.update.revision)
            };
            Some(pods::create(at.set, ordinal, template, revision, &self.events)?)
        };
        self.work.creations.push(Creation { batch, claims: writes, pod });
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
            // The API server takes no other volumes for a pod there is.
            self.stuck = true;
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
