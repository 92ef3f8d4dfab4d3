//! One reconcile of a Deployment.
//!
//! In: the Deployment, its ReplicaSets, for Recreate their pods. Out: a plan
//! that adopts and releases, creates or scales ReplicaSets, removes old ones,
//! and then writes the status. Invariants: what is written of a ReplicaSet or
//! of the Deployment holds only if it is still as it was seen; each object is
//! written at most once, but for a Deployment that failed or is rolled back.

use coxswain_sdk::claim::{candidates, claim};
use coxswain_sdk::selector::{LabelSelector, Selector};
use coxswain_sdk::{About, Ctx, Error, Object, Plan, Query, Result, condition};

use crate::annotations::{self, REVISION, of_current, rollback_to};
use crate::bounds::Bounds;
use crate::create::{Creation, Name};
use crate::sets::Sets;
use crate::view::{Deployment, DeploymentStatus, Pod, ReplicaSet};
use crate::{history, recreate, rolling, scale, status, writes};

/// Why a ReplicaSet could not be made, to events and conditions.
const CREATE_ERROR: &str = "ReplicaSetCreateError";

/// One reconcile of the Deployment of the key.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let Some(deployment) = ctx.primary::<Deployment>()? else { return Ok(Plan::new()) };
    let meta = &deployment.metadata;
    let trouble = |e: String| Error::Terminal(format!("deployment {}/{}: {e}", meta.namespace, meta.name));
    let selector = deployment.spec.selector.as_ref().map(|selector| &selector.parsed);
    if selector.is_some_and(|selector| *selector == LabelSelector::default()) {
        return selecting_all(&deployment);
    }
    let selector = Selector::of(selector).map_err(|e| trouble(format!("invalid label selector: {e}")))?;
    let bounds = Bounds::of(&deployment.spec).map_err(trouble)?;
    let around = candidates::<ReplicaSet>(ctx, &meta.namespace, &meta.uid, &selector)?;
    let claims = claim(ctx, &*deployment, &selector, around)?;

    let mut plan = Plan::new();
    if ctx.state().is_some() {
        plan.clear();
    }
    plan.then(claims.writes);
    let sets = Sets::sort_out(claims.owned, &deployment.spec.template);
    Sync::new(ctx, &deployment, bounds, sets, plan).run()
}

/// A selector that matches everything is a mistake that would take over the
/// whole namespace.
fn selecting_all(deployment: &Object<Deployment>) -> Result<Plan> {
    let mut plan = Plan::new();
    let about = About::of::<Deployment, _>(&deployment.metadata);
    let message = "This deployment is selecting all pods. A non-empty selector is required.";
    plan.event(about.warning("SelectingAll", message));
    let seen = &deployment.status;
    if seen.observed_generation < deployment.metadata.generation {
        let generation = deployment.metadata.generation;
        let wanted = DeploymentStatus { observed_generation: generation, ..seen.clone() };
        plan.then(writes::status(deployment, seen, &wanted, None)?);
    }
    Ok(plan)
}

/// A reconcile under way.
pub struct Sync<'a, 'b> {
    /// What it was given.
    pub ctx: &'a Ctx<'b>,
    /// The Deployment as it is.
    pub deployment: &'a Object<Deployment>,
    /// How far it may stray from its size.
    pub bounds: Bounds,
    /// Its ReplicaSets as they are to become.
    pub sets: Sets,
    /// The status that must be written before anything else.
    pub first: DeploymentStatus,
    /// The status as it is to become.
    pub status: DeploymentStatus,
    /// The Deployment's revision as it is to become.
    pub revision: Option<String>,
    /// Hash in the name of the ReplicaSet about to be created.
    pub hash: String,
    /// What is done.
    pub plan: Plan,
}

impl<'a, 'b> Sync<'a, 'b> {
    fn new(
        ctx: &'a Ctx<'b>,
        deployment: &'a Object<Deployment>,
        bounds: Bounds,
        sets: Sets,
        plan: Plan,
    ) -> Self {
        let status = deployment.status.clone();
        let revision = deployment.metadata.annotations.get(REVISION).cloned();
        Self {
            ctx,
            deployment,
            bounds,
            sets,
            first: status.clone(),
            status,
            revision,
            hash: String::new(),
            plan,
        }
    }

    fn run(mut self) -> Result<Plan> {
        let deployment = self.deployment;
        if deployment.metadata.is_deleting() {
            return self.finish_counted();
        }
        status::pause_or_resume(deployment, &mut self.status, self.ctx.now());
        self.keep_current_up_to_date();
        let rollback = rollback_to(&deployment.metadata.annotations);
        if deployment.spec.paused {
            scale::scale(&self.bounds, &mut self.sets, deployment.status.replicas);
            self.write_sets()?;
            if rollback.is_none() {
                self.forget_history();
            }
            return self.finish_counted();
        }
        if let Some(revision) = rollback {
            self.create_current()?;
            // Only with all revisions in sight is it clear which is the last.
            return if self.sets.new.is_some() { self.roll_back(revision) } else { self.finish_counted() };
        }
        if scale::is_due(&self.bounds, &self.sets) {
            scale::scale(&self.bounds, &mut self.sets, deployment.status.replicas);
            self.write_sets()?;
            return self.finish_counted();
        }
        match deployment.spec.strategy.kind.as_str() {
            "RollingUpdate" => self.rolling_update(),
            "Recreate" => self.recreate(),
            other => Err(Error::Terminal(format!(
                "deployment {}/{}: unexpected strategy type {other:?}",
                deployment.metadata.namespace, deployment.metadata.name
            ))),
        }
    }

    /// The ReplicaSet with the current template carries the Deployment's
    /// annotations and the highest revision, which the Deployment shows too.
    fn keep_current_up_to_date(&mut self) {
        let at_least = self.sets.newest_old_revision().saturating_add(1);
        let Some(new) = &mut self.sets.new else { return };
        new.annotations = of_current(&self.deployment.metadata.annotations, &new.annotations, at_least);
        new.min_ready_seconds = self.deployment.spec.min_ready_seconds;
        // Set even where it is no number: the two show the same.
        self.revision = Some(new.annotations.get(REVISION).cloned().unwrap_or_default());
        let judged = condition::find(&self.status.conditions, status::PROGRESSING).is_some();
        if status::deadline(&self.deployment.spec).is_some() && !judged {
            let message = format!("Found new replica set {:?}", new.name);
            let found = status::progressing("True", "FoundNewReplicaSet", message, self.ctx.now());
            condition::set(&mut self.status.conditions, found);
        }
    }

    fn rolling_update(mut self) -> Result<Plan> {
        self.create_current()?;
        let scaled = rolling::step(&self.bounds, &mut self.sets);
        self.write_sets()?;
        if !scaled {
            self.forget_history_if_complete();
        }
        self.finish_rollout()
    }

    fn recreate(mut self) -> Result<Plan> {
        if recreate::scale_down_old(&self.bounds, &mut self.sets) || self.old_pods_are_left()? {
            self.write_sets()?;
            return self.finish_rollout();
        }
        self.create_current()?;
        recreate::scale_up_new(&self.bounds, &mut self.sets);
        self.write_sets()?;
        self.forget_history_if_complete();
        self.finish_rollout()
    }

    /// Whether an old ReplicaSet has pods that have not ended, terminating ones
    /// included.
    fn old_pods_are_left(&self) -> Result<bool> {
        if recreate::old_have_pods(&self.sets) {
            return Ok(true);
        }
        let namespace = &self.deployment.metadata.namespace;
        for uid in recreate::old_uids(&self.sets) {
            let pods = self.ctx.list::<Pod>(Query::all().namespace(namespace).controlled_by(uid))?;
            if pods.iter().any(|pod| !pod.is_terminal()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Makes sure that there is a ReplicaSet with the current template, unless
    /// it must be waited for.
    fn create_current(&mut self) -> Result<()> {
        let creation = Creation::of(self.ctx, self.deployment);
        if let Some(new) = &self.sets.new {
            // There it is, although its creation failed: the answer was lost.
            let name = new.name.clone();
            self.tell_failure(&creation, &name);
            return Ok(());
        }
        match creation.name(self.status.collision_count)? {
            Name::Free { name, hash, collisions } => {
                self.status.collision_count = collisions;
                self.hash = hash;
                let mut new =
                    creation.set(name, self.sets.newest_old_revision().saturating_add(1), &self.bounds);
                new.replicas = rolling::size_of_new(&self.bounds, self.sets.size(), 0);
                self.revision = new.annotations.get(REVISION).cloned();
                self.note_creation(&creation, &new.name);
                self.sets.new = Some(new);
            }
            Name::Ours { name, collisions } => {
                self.status.collision_count = collisions;
                self.plan.keep(Creation::awaiting(&name));
            }
            Name::InVain => {
                self.plan.keep(Creation::IN_VAIN);
            }
        }
        Ok(())
    }

    /// Reports what went wrong with the last attempt, and what this one does.
    fn note_creation(&mut self, creation: &Creation<'_, '_>, name: &str) {
        let judged = status::deadline(&self.deployment.spec).is_some();
        let now = self.ctx.now();
        if let Some(message) = self.tell_failure(creation, name)
            && judged
        {
            // Written before the next attempt, which may fail as well.
            let failed = status::progressing("False", CREATE_ERROR, message, now);
            condition::set(&mut self.first.conditions, failed.clone());
            condition::set(&mut self.status.conditions, failed);
        }
        if judged {
            let message = format!("Created new replica set {name:?}");
            let created = status::progressing("True", "NewReplicaSetCreated", message, now);
            condition::set(&mut self.status.conditions, created);
        }
    }

    /// Tells of a failure of the last attempt to make the ReplicaSet of this
    /// name; gives the text.
    fn tell_failure(&mut self, creation: &Creation<'_, '_>, name: &str) -> Option<String> {
        let failure = creation.failure(name)?;
        let message = format!("Failed to create new replica set {name:?}: {}", failure.message);
        let about = About::of::<Deployment, _>(&self.deployment.metadata);
        self.plan.event(about.warning(CREATE_ERROR, message.as_str()));
        Some(message)
    }

    /// Writes the ReplicaSets that are to change; before that, what must be
    /// known even if that fails.
    pub fn write_sets(&mut self) -> Result<()> {
        let deployment = self.deployment;
        self.plan.then(writes::status(deployment, &deployment.status, &self.first, None)?);
        // One after the other: what fails ends the plan, so that a new one is
        // never missing while old ones go.
        for set in self.sets.new.iter().chain(&self.sets.old) {
            self.plan.then(writes::replica_set(deployment, set, &self.hash)?);
        }
        Ok(())
    }

    fn forget_history_if_complete(&mut self) {
        if status::is_complete(self.deployment, &self.deployment.status) {
            self.forget_history();
        }
    }

    fn forget_history(&mut self) {
        let surplus = history::surplus(&self.sets.old, self.deployment.spec.revision_history_limit);
        let deletions: Vec<_> = surplus.into_iter().map(writes::deletion).collect();
        self.plan.then(deletions);
    }

    fn finish_rollout(mut self) -> Result<Plan> {
        let (deployment, now) = (self.deployment, self.ctx.now());
        self.status = status::of_rollout(deployment, &self.status, &self.bounds, &self.sets, now);
        if let Some(at) = status::next_check(deployment, &self.status) {
            self.plan.come_back(at);
        }
        self.finish()
    }

    fn finish_counted(mut self) -> Result<Plan> {
        let (deployment, now) = (self.deployment, self.ctx.now());
        self.status = status::counted(deployment, &self.status, &self.bounds, &self.sets, now);
        self.finish()
    }

    /// Writes the status and the Deployment's revision.
    pub fn finish(mut self) -> Result<Plan> {
        let before = self.deployment.metadata.annotations.get(REVISION);
        let revision =
            self.revision.as_deref().filter(|revision| before.map(String::as_str) != Some(*revision));
        self.plan.then(writes::status(self.deployment, &self.first, &self.status, revision)?);
        Ok(self.plan)
    }

    /// Returns to the template of an older ReplicaSet.
    fn roll_back(mut self, revision: i64) -> Result<Plan> {
        self.write_sets()?;
        let about = About::of::<Deployment, _>(&self.deployment.metadata);
        let revision = if revision == 0 { writes::last_revision(&self.sets) } else { revision };
        let target = self.sets.all().find(|set| annotations::revision(&set.annotations) == Some(revision));
        let not_found = "DeploymentRollbackRevisionNotFound";
        let name = &self.deployment.metadata.name;
        let write = match target {
            _ if revision == 0 => {
                self.plan.event(about.warning(not_found, "Unable to find last revision."));
                writes::no_rollback(self.deployment)
            }
            None => {
                self.plan.event(about.warning(not_found, "Unable to find the revision to rollback to."));
                writes::no_rollback(self.deployment)
            }
            Some(set) => match &set.seen {
                Some(seen) if seen.spec.template != self.deployment.spec.template => {
                    let message = format!("Rolled back deployment {name:?} to revision {revision}");
                    writes::rollback(self.deployment, seen, &set.annotations)
                        .on_success(about.normal("DeploymentRollback", message))
                }
                _ => {
                    let message = format!(
                        "The rollback revision contains the same template as current deployment {name:?}"
                    );
                    self.plan.event(about.warning("DeploymentRollbackTemplateUnchanged", message));
                    writes::no_rollback(self.deployment)
                }
            },
        };
        self.plan.then(write);
        self.finish()
    }
}
