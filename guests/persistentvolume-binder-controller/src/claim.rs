//! What to do about a claim.

use coxswain_sdk::selector::Selector;
use coxswain_sdk::volumes::{CLAIM_REF_INDEX, Pod, pods_of_claim};
use coxswain_sdk::{About, Ctx, Error, Object, Plan, Query, Result};
use serde_json::json;

use crate::bind::{bind, patch_claim, set_claim_status, unbound_status};
use crate::names::{
    AVAILABLE, CLAIM_LOST, CLAIM_MISBOUND, FAILED_BINDING, LOST, PENDING, VOLUME_MISMATCH, WAIT_FOR_CONSUMER,
    WAIT_FOR_SCHEDULING,
};
use crate::options::Options;
use crate::view::{Claim, Volume};
use crate::{class, matching, measures, migration, notice, provision};

/// Index of volumes by phase.
pub const BY_PHASE: &str = "phase";
/// Index of volumes by class and phase.
pub const BY_CLASS: &str = "class";
/// The same, of the class that an annotation names.
pub const BY_BETA_CLASS: &str = "beta-class";

/// Reconciles a claim.
pub fn reconcile(ctx: &Ctx<'_>, options: &Options, claim: &Object<Claim>) -> Result<Plan> {
    let mut plan = Plan::new();
    measures::claim(&mut plan, claim);
    if let Some(body) = migration::of_claim(claim) {
        plan.then(patch_claim(claim, &body).tag("migration"));
    }
    let quiet = if claim.metadata.annotations.bind_completed.is_some() {
        bound_before(ctx, &mut plan, claim)?;
        true
    } else if claim.spec.volume_name.is_empty() {
        find_volume(ctx, options, &mut plan, claim)?
    } else {
        take_named_volume(ctx, options, &mut plan, claim)?
    };
    if quiet {
        notice::forget(ctx, &mut plan);
    }
    Ok(plan)
}

/// The claim was bound once: it stays so, or is lost.
fn bound_before(ctx: &Ctx<'_>, plan: &mut Plan, claim: &Object<Claim>) -> Result<()> {
    if claim.spec.volume_name.is_empty() {
        let text = "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!";
        return lose(plan, claim, CLAIM_LOST, text);
    }
    let Some(volume) = ctx.get::<Volume>("", &claim.spec.volume_name)? else {
        let text = "Bound claim has lost its PersistentVolume. Data on the volume is lost!";
        return lose(plan, claim, CLAIM_LOST, text);
    };
    match &volume.spec.claim_ref {
        // Either the volume came loose, or the claim was bound by hand.
        None => bind(plan, &volume, claim),
        Some(claim_ref) if claim_ref.uid == claim.metadata.uid => bind(plan, &volume, claim),
        Some(_) => {
            let text = "Two claims are bound to the same volume, this one is bound incorrectly";
            lose(plan, claim, CLAIM_MISBOUND, text)
        }
    }
}

fn lose(plan: &mut Plan, claim: &Object<Claim>, reason: &str, text: &str) -> Result<()> {
    if claim.status.phase != LOST {
        let event = About::of::<Claim, _>(&claim.metadata).warning(reason, text);
        plan.then(set_claim_status(claim, &unbound_status(LOST))?.map(|action| action.on_success(event)));
    }
    Ok(())
}

/// The claim names no volume: one is found, or asked for. Returns whether there
/// is nothing to tell the user.
fn find_volume(ctx: &Ctx<'_>, options: &Options, plan: &mut Plan, claim: &Object<Claim>) -> Result<bool> {
    let class_name = class::of_claim(claim);
    let waits = class::waits_for_consumer(ctx, class_name)?;
    let selector = match &claim.spec.selector {
        Some(selector) => Some(Selector::of(Some(selector)).map_err(|e| {
            let meta = &claim.metadata;
            Error::Terminal(format!("the selector of claim {}/{}: {e}", meta.namespace, meta.name))
        })?),
        None => None,
    };
    let volumes = candidates(ctx, claim, class_name, waits)?;
    if let Some(volume) = matching::best(&volumes, claim, selector.as_ref(), waits) {
        bind(plan, volume, claim)?;
        return Ok(true);
    }
    if !class::is_chosen(claim) {
        if let Some(name) = class::default_name(ctx)? {
            let body = json!({ "spec": { "storageClassName": name } });
            plan.then(patch_claim(claim, &body).tag(measures::DEFAULT_CLASS));
            measures::retroactive(plan);
            return Ok(true);
        }
    }
    let about = About::of::<Claim, _>(&claim.metadata);
    let (reason, text) = if waits && claim.metadata.annotations.selected_node.is_none() {
        waiting_for(ctx, claim)?
    } else if !class_name.is_empty() {
        return provision::provision(ctx, options, plan, claim, class_name);
    } else {
        let text = "no persistent volumes available for this claim and no storage class is set";
        (FAILED_BINDING, text.to_owned())
    };
    let event = about.normal(reason, text.clone());
    notice::tell(ctx, plan, options.sync_period, &format!("{reason} {text}"), vec![event]);
    plan.then(set_claim_status(claim, &unbound_status(PENDING))?);
    Ok(false)
}

/// Volumes that could be the claim's: those that are for it, and the free ones.
fn candidates(
    ctx: &Ctx<'_>,
    claim: &Claim,
    class_name: &str,
    reserved_only: bool,
) -> Result<Vec<Object<Volume>>> {
    let meta = &claim.metadata;
    let mut refs = ctx.refs::<Volume>(Query::all().index(CLAIM_REF_INDEX, &[&meta.namespace, &meta.name]))?;
    if !reserved_only {
        let free = if class_name.is_empty() {
            ctx.refs::<Volume>(Query::all().index(BY_PHASE, &[AVAILABLE]))?
        } else {
            let mut free = ctx.refs::<Volume>(Query::all().index(BY_CLASS, &[class_name, AVAILABLE]))?;
            free.extend(ctx.refs::<Volume>(Query::all().index(BY_BETA_CLASS, &[class_name, AVAILABLE]))?);
            free
        };
        for reference in free {
            if !refs.contains(&reference) {
                refs.push(reference);
            }
        }
    }
    ctx.read_refs(refs)
}

/// What a claim waits for whose volume is chosen together with a node.
fn waiting_for(ctx: &Ctx<'_>, claim: &Claim) -> Result<(&'static str, String)> {
    let pods = pods_of_claim::<Pod>(ctx, &claim.metadata.namespace, &claim.metadata.name)?;
    let unscheduled = pods.iter().filter(|pod| !pod.has_ended() && pod.spec.node_name.is_empty());
    let names: Vec<&str> = unscheduled.map(|pod| pod.metadata.name.as_str()).collect();
    Ok(match names.as_slice() {
        [] => (WAIT_FOR_CONSUMER, "waiting for first consumer to be created before binding".to_owned()),
        [name] => (WAIT_FOR_SCHEDULING, format!("waiting for pod {name} to be scheduled")),
        names => (WAIT_FOR_SCHEDULING, format!("waiting for pods {} to be scheduled", names.join(","))),
    })
}

/// The claim names a volume: it gets that one or none. Returns whether there is
/// nothing to tell the user.
fn take_named_volume(
    ctx: &Ctx<'_>,
    options: &Options,
    plan: &mut Plan,
    claim: &Object<Claim>,
) -> Result<bool> {
    let about = About::of::<Claim, _>(&claim.metadata);
    let Some(volume) = ctx.get::<Volume>("", &claim.spec.volume_name)? else {
        plan.then(set_claim_status(claim, &unbound_status(PENDING))?);
        return Ok(true);
    };
    let name = &volume.metadata.name;
    let (reason, text) = if volume.spec.claim_ref.is_none() {
        match matching::mismatch(&volume, claim) {
            Some(mismatch) => {
                (VOLUME_MISMATCH, format!("Cannot bind to requested volume {name:?}: {mismatch}"))
            }
            None => {
                bind(plan, &volume, claim)?;
                return Ok(true);
            }
        }
    } else if matching::is_for(&volume, claim) {
        bind(plan, &volume, claim)?;
        return Ok(true);
    } else {
        (FAILED_BINDING, format!("volume {name:?} already bound to a different claim."))
    };
    let event = about.warning(reason, text.clone());
    notice::tell(ctx, plan, options.sync_period, &format!("{reason} {text}"), vec![event]);
    // A claim that was given its volume here once keeps its status, so that what
    // went wrong can be seen.
    if reason == VOLUME_MISMATCH || claim.metadata.annotations.bound_by_controller.is_none() {
        plan.then(set_claim_status(claim, &unbound_status(PENDING))?);
    }
    Ok(false)
}
