//! What a namespace uses of what a quota limits.

use coxswain_sdk::contract::SyncState;
use coxswain_sdk::resource::EVERY;
use coxswain_sdk::{Ctx, FromJson, Object, ObjectMeta, Query, Resource, Result, Time, View};

use crate::evaluators::claims::{self, Claim};
use crate::evaluators::devices::{self, DEVICE_CLASSES, DeviceClaim, DeviceClass, RESOURCE_CLAIMS};
use crate::evaluators::objects::{self, Counted};
use crate::evaluators::pod_view::Pod;
use crate::evaluators::pods;
use crate::evaluators::services::{self, Service};
use crate::list::{self, List};
use crate::view::ResourceQuota;

/// An object that is only counted.
#[derive(Debug, FromJson)]
pub struct Anything {
    #[serde(rename = "metadata")]
    _metadata: ObjectMeta,
}

impl View for Anything {
    const RESOURCE: Resource = EVERY;
}

/// What is used.
#[derive(Debug, Default)]
pub struct Usage {
    /// By name, for all names that can be counted at present.
    pub used: List,
    /// When the answer changes without any object doing so.
    pub until: Option<Time>,
}

/// The names of a quota by who counts them.
#[derive(Debug, Default)]
struct Names<'a> {
    pods: Vec<&'a str>,
    services: Vec<&'a str>,
    claims: Vec<&'a str>,
    devices: Vec<&'a str>,
    objects: Vec<(&'a str, u32)>,
}

/// Counts what a quota limits. A resource that cannot be read leaves out the
/// names that depend on it, and nothing else.
pub fn count(ctx: &Ctx<'_>, quota: &ResourceQuota) -> Result<Usage> {
    let here = || Query::all().namespace(&quota.metadata.namespace);
    let scopes = quota.spec.requirements();
    let classes = classes(ctx, quota)?;
    let readable = is_readable(ctx, quota)?;
    let names = names(ctx, quota, &classes);
    let mut usage = Usage::default();
    let mut sum = List::default();
    let needs_pods = !names.pods.is_empty() || !names.devices.is_empty();
    let pods = if needs_pods { ctx.list::<Pod>(here())? } else { Vec::new() };
    if !names.pods.is_empty() {
        sum.add_all(&pods::usage_in_scopes(&pods, &scopes, ctx.now()));
        usage.until = pods::next_overdue(&pods, ctx.now());
    }
    if !names.claims.is_empty() {
        sum.add_all(&claims::usage_in_scopes(&ctx.list::<Claim>(here())?, &scopes));
    }
    // What follows is in no scope at all.
    if !names.services.is_empty() && scopes.is_empty() {
        sum.add_all(&services::usage(&ctx.list::<Service>(here())?));
    }
    if !names.devices.is_empty() && readable && scopes.is_empty() {
        let claims = ctx.list::<DeviceClaim>(here())?;
        sum.add_all(&devices::usage(&claims, &classes, &pods, ctx.now()));
    }
    for (name, resource) in &names.objects {
        let number =
            if scopes.is_empty() { ctx.refs::<Anything>(here().resources([*resource]))?.len() } else { 0 };
        sum.set(name, list::count(number));
    }
    let objects = names.objects.iter().map(|(name, _)| name);
    let others = names.pods.iter().chain(&names.services).chain(&names.claims).chain(objects);
    for name in others.filter(|name| readable || !names.devices.contains(name)) {
        usage.used.set(name, sum.get(name).unwrap_or_default());
    }
    for name in names.devices.iter().filter(|_| readable) {
        usage.used.set(name, sum.get(name).unwrap_or_default());
    }
    Ok(usage)
}

fn names<'a>(ctx: &Ctx<'_>, quota: &'a ResourceQuota, classes: &[Object<DeviceClass>]) -> Names<'a> {
    let mut names = Names::default();
    for name in quota.spec.hard.keys().map(String::as_str) {
        let mut taken = false;
        let mut take = |counts: bool, into: &mut Vec<&'a str>| {
            if counts {
                into.push(name);
                taken = true;
            }
        };
        take(pods::counts(name), &mut names.pods);
        take(services::counts(name), &mut names.services);
        take(claims::counts(name), &mut names.claims);
        take(devices::counts(name) || devices::counts_by_class(name, classes), &mut names.devices);
        if !taken && objects::may_count(name) {
            if let Some(Counted::Known(resource)) = objects::find(ctx, name) {
                names.objects.push((name, resource));
            }
        }
    }
    names
}

/// The classes of devices, where a name may stand for one.
fn classes(ctx: &Ctx<'_>, quota: &ResourceQuota) -> Result<Vec<Object<DeviceClass>>> {
    if !quota.spec.hard.keys().any(|name| devices::may_count(name)) || !is_synced(ctx, DEVICE_CLASSES)? {
        return Ok(Vec::new());
    }
    ctx.list::<DeviceClass>(Query::all())
}

/// Whether claims of devices can be read, where a name needs that.
fn is_readable(ctx: &Ctx<'_>, quota: &ResourceQuota) -> Result<bool> {
    let needed = quota.spec.hard.keys().any(|name| devices::counts(name) || devices::may_count(name));
    Ok(!needed || is_synced(ctx, RESOURCE_CLAIMS)?)
}

/// Whether the cache follows a resource that the cluster may lack.
fn is_synced(ctx: &Ctx<'_>, resource: Resource) -> Result<bool> {
    let number = ctx.number(resource)?;
    let state = ctx.resources().into_iter().find(|info| info.number == number).map(|info| info.state);
    Ok(number != 0 && state == Some(SyncState::Synced))
}
