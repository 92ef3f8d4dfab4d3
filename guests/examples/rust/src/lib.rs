//! An example: a Website owns a Deployment and a Service, and says in its status
//! how they fare. The same controller is there in Go and in Python; one set of
//! scenarios holds for all three.
//!
//! It shows an index (two websites must not claim one host), a lookup (before
//! adopting what has lost its owner the website is read past the cache), results
//! of earlier writes, events and conditions.

mod children;
#[cfg(test)]
mod tests;
mod views;

use children::{Standing, bring_about, standing};
use coxswain_sdk::condition::{self, Condition};
use coxswain_sdk::resource::{DEPLOYMENTS, SERVICES};
use coxswain_sdk::{
    Action, Ask, Controller, Ctx, Declaration, Error, FromJson, Object, ObjectMeta, Plan, Query, Result,
    Step, from_json,
};
use views::{ConfigMap, Deployment, Service, WEBSITES, Website};

/// The controller.
#[derive(Debug)]
pub struct WebsiteController;

/// What the condition `Ready` says.
struct Verdict {
    ready: bool,
    reason: &'static str,
    message: String,
}

fn not_ready(reason: &'static str, message: String) -> Verdict {
    Verdict { ready: false, reason, message }
}

impl Controller for WebsiteController {
    fn declare() -> Declaration {
        Declaration::new("website-controller")
            .alias("website")
            .version(concat!(env!("CARGO_PKG_VERSION"), "-rust"))
            .keys_objects("websites", &[WEBSITES])
            .read_with::<Website>(|read| read.index("host", &["spec.host"]))
            .read::<ConfigMap>()
            .read::<Deployment>()
            .read::<Service>()
            .write(DEPLOYMENTS, "", &["create", "patch"])
            .write(SERVICES, "", &["create", "patch"])
            .write(WEBSITES, "status", &["patch"])
            // Owner references that block the owner's deletion ask for this.
            .write(WEBSITES, "finalizers", &["update"])
            .lookup_get(WEBSITES, "")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(site) = ctx.primary::<Website>()? else { return Ok(plan) };
        let meta = &site.metadata;
        if meta.is_deleting() {
            // What it owns is the garbage collector's.
            return Ok(plan);
        }
        let deployment = ctx.get::<Deployment>(&meta.namespace, &meta.name)?;
        let service = ctx.get::<Service>(&meta.namespace, &meta.name)?;
        let of_deployment = standing(&site, deployment.as_deref().map(|d| &d.metadata));
        let of_service = standing(&site, service.as_deref().map(|s| &s.metadata));
        let config = match site.spec.config.as_str() {
            "" => None,
            name => ctx.get::<ConfigMap>(&meta.namespace, name)?,
        };

        let verdict = if let Some(winner) = host_taken(ctx, &site)? {
            let of = &winner.metadata;
            let message = format!("{} belongs to website {}/{}", site.spec.host, of.namespace, of.name);
            not_ready("HostTaken", message)
        } else if !site.spec.config.is_empty() && config.is_none() {
            not_ready("ConfigMissing", format!("there is no ConfigMap {}", site.spec.config))
        } else if of_deployment == Standing::Foreign {
            not_ready("NameTaken", format!("Deployment {} is not this website's", meta.name))
        } else if of_service == Standing::Foreign {
            not_ready("NameTaken", format!("Service {} is not this website's", meta.name))
        } else {
            let orphaned = of_deployment == Standing::Orphan || of_service == Standing::Orphan;
            if orphaned && !still_there(ctx, &site)? {
                return Ok(plan);
            }
            let wanted = children::deployment(&site, config.as_deref());
            let there = deployment.as_deref().map(|d| (&d.metadata, &d.spec));
            let mut actions = Vec::new();
            actions.extend(bring_about(&site, DEPLOYMENTS, there, &wanted)?);
            let there = service.as_deref().map(|s| (&s.metadata, &s.spec));
            actions.extend(bring_about(&site, SERVICES, there, &children::service(&site))?);
            let settled = actions.is_empty();
            plan.then(Step::new(actions).or_go_on());
            progress(ctx, &site, deployment.as_deref().filter(|_| settled))
        };

        let mut status = site.status.clone();
        status.observed_generation = meta.generation;
        let owned = deployment.filter(|_| of_deployment == Standing::Owned);
        status.ready_replicas = owned.map_or(0, |d| d.status.ready_replicas);
        set_ready(&mut status.conditions, ctx, verdict);
        plan.then(Action::status(WEBSITES, &meta.namespace, &meta.name, &site.status, &status)?);
        Ok(plan)
    }
}

/// The website to which this one's host belongs, if that is another: the oldest
/// that claims it.
fn host_taken(ctx: &Ctx<'_>, site: &Object<Website>) -> Result<Option<Object<Website>>> {
    let host = &site.spec.host;
    if host.is_empty() {
        return Ok(None);
    }
    let claims = ctx.list::<Website>(Query::all().index("host", &[host]))?;
    let oldest = claims.into_iter().filter(|claim| !claim.metadata.is_deleting()).min_by(|a, b| {
        let rank = |meta: &ObjectMeta| (meta.creation_timestamp, meta.namespace.clone(), meta.name.clone());
        rank(&a.metadata).cmp(&rank(&b.metadata))
    });
    Ok(oldest.filter(|winner| winner.metadata.uid != site.metadata.uid))
}

/// Whether the website exists and is to stay, read past the cache: what is
/// adopted by an owner that is gone would be collected.
fn still_there(ctx: &Ctx<'_>, site: &Website) -> Result<bool> {
    #[derive(FromJson)]
    struct Live {
        metadata: ObjectMeta,
    }
    let meta = &site.metadata;
    let ask = Ask::get_metadata(WEBSITES, &meta.namespace, &meta.name).expecting_uid(&meta.uid);
    match ctx.look_up(ask)? {
        Ok(live) => Ok(!from_json::<Live>(&live).map_err(Error::Retry)?.metadata.is_deleting()),
        Err(failure) if failure.status == 404 => Ok(false),
        Err(failure) => Err(Error::retry(format!("cannot read website {}: {}", meta.name, failure.message))),
    }
}

/// What there is to say while nothing is in the way. No Deployment is given while
/// there is still something to write.
fn progress(ctx: &Ctx<'_>, site: &Website, settled: Option<&Deployment>) -> Verdict {
    // A conflict only says that the cache was behind; the next look settles it.
    let refused = ["deployments", "services"].into_iter().flat_map(|tag| ctx.failures(tag));
    if let Some(failure) = refused.into_iter().find(|failure| failure.status != 409) {
        return not_ready("WriteFailed", failure.message.clone());
    }
    let wanted = site.spec.replicas;
    let current = |d: &&Deployment| {
        d.status.observed_generation >= d.metadata.generation && d.status.updated_replicas >= wanted
    };
    let Some(deployment) = settled.filter(current) else {
        return not_ready("Progressing", "being rolled out".to_owned());
    };
    let status = &deployment.status;
    let message = format!("{} of {wanted} replicas are ready", status.ready_replicas);
    if status.ready_replicas < wanted {
        return not_ready("Progressing", message);
    }
    Verdict { ready: true, reason: "Available", message }
}

/// Sets the condition `Ready`, in its place among the others. Its time moves only
/// with its status.
fn set_ready(conditions: &mut Vec<Condition>, ctx: &Ctx<'_>, verdict: Verdict) {
    let status = if verdict.ready { "True" } else { "False" };
    let mut ready = Condition::new("Ready", status, verdict.reason, verdict.message, ctx.now());
    if let Some(before) = condition::find(conditions, "Ready").filter(|before| before.status == ready.status)
    {
        ready.last_transition_time = before.last_transition_time;
    }
    match conditions.iter_mut().find(|condition| condition.kind == "Ready") {
        Some(place) => *place = ready,
        None => conditions.push(ready),
    }
}

coxswain_sdk::export!(WebsiteController);
