//! One reconcile of an Endpoints object: what its subsets make, and what its
//! slices have.

use coxswain_sdk::contract::ActionOutcome;
use coxswain_sdk::endpoints::draft::{Draft, Owner, Prefix, deletion, recycle};
use coxswain_sdk::endpoints::pack::{self, Packed, pack};
use coxswain_sdk::endpoints::port::PortKey;
use coxswain_sdk::endpoints::slice;
use coxswain_sdk::endpoints::{MANAGED_BY, SERVICE_NAME, TRIGGER_TIME};
use coxswain_sdk::resource::ENDPOINTS;
use coxswain_sdk::{About, Ctx, Object, OwnerReference, Plan, Result, Step, StringMap, memory};

use crate::desired::{Desired, Group, desired};
use crate::memory::Memory;
use crate::view::{EndpointsObject, Service, Slice, is_left_alone};
use crate::{BATCH, LIMIT, MANAGER, measures};

/// One reconcile of an Endpoints object.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let batch = ctx.option_duration(BATCH)?;
    plan.quiet(u32::try_from(batch.as_millis()).unwrap_or(u32::MAX));

    // Its slices are a key of their own, and go there.
    let Some(endpoints) = ctx.primary::<EndpointsObject>()? else { return Ok(plan) };
    let meta = &endpoints.metadata;
    let limit = pack::limit(ctx, LIMIT)?;
    let slices = slice::of_service(ctx, &meta.namespace, &meta.name, MANAGER)?;
    if !is_to_be_mirrored(ctx, &endpoints)? {
        plan.then(Step::new(slices.iter().map(deletion)));
        return Ok(plan);
    }

    let before: Memory = memory::read(ctx);
    let mut memory = before.clone();
    memory.namespace_terminating |= was_refused_by_namespace(ctx);
    let desired = desired(&endpoints.subsets, limit);
    tell(&endpoints, &desired, limit, &mut memory, &mut plan);

    let reference = OwnerReference::controller(ENDPOINTS, &meta.name, &meta.uid);
    let owner = Owner { namespace: &meta.namespace, name: &meta.name, reference: &reference };
    let skipped = desired.skipped;
    let sizes: Vec<usize> = desired.groups.iter().map(|group| group.wanted.len()).collect();
    let packed = pack_all(&endpoints, slices, desired, limit);
    measures::census(&mut plan, &packed, &sizes, skipped, limit);
    let Packed { mut drafts, mut doomed, .. } = packed;
    // kube-controller-manager replaces a slice as a whole, and repeats the prefix of
    // the name only in one that it meant to make.
    for draft in &mut drafts {
        draft.prefix = if draft.seen.is_some() { Prefix::Dropped } else { Prefix::Given };
    }
    recycle(&mut drafts, &mut doomed, |_| true);
    if meta.is_deleting() || memory.namespace_terminating {
        drafts.retain(|draft| draft.seen.is_some());
    }
    let annotations = annotations(&endpoints);
    let mut writes = Vec::new();
    for mut draft in drafts {
        draft.annotations.clone_from(&annotations);
        writes.extend(draft.write(owner)?);
    }
    // Nothing is deleted before what replaces it is there.
    plan.then(Step::new(writes));
    plan.then(Step::new(doomed.iter().map(deletion)));
    memory::keep(&memory, &before, &mut plan)?;
    Ok(plan)
}

/// One reconcile of the slices of a service: they go with their Endpoints.
pub fn orphans(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let mut parts = ctx.key().name.splitn(3, '/');
    if let (Some(namespace), Some(MANAGER), Some(name)) = (parts.next(), parts.next(), parts.next())
        && ctx.get::<EndpointsObject>(namespace, name)?.is_none()
    {
        plan.then(Step::new(
            slice::of_service::<StringMap>(ctx, namespace, name, MANAGER)?.iter().map(deletion),
        ));
    }
    Ok(plan)
}

/// Only Endpoints of a service without a selector are mirrored: the others are
/// made from the same pods as slices are.
fn is_to_be_mirrored(ctx: &Ctx<'_>, endpoints: &EndpointsObject) -> Result<bool> {
    if is_left_alone(endpoints) {
        return Ok(false);
    }
    let meta = &endpoints.metadata;
    let service = ctx.get::<Service>(&meta.namespace, &meta.name)?;
    Ok(service.is_some_and(|service| service.spec.selector.is_empty()))
}

/// One slice for each family and ports, with all the addresses there are.
fn pack_all(
    endpoints: &EndpointsObject,
    slices: Vec<Object<Slice>>,
    desired: Desired,
    limit: usize,
) -> Packed<StringMap> {
    let labels = labels(endpoints);
    let annotations = annotations(endpoints);
    let differs = |slice: &Slice| {
        let meta = &slice.metadata;
        meta.labels != labels
            || meta.annotations != annotations
            || !slice.is_owned_by(ENDPOINTS, &endpoints.metadata.uid)
    };
    let mut packed = Packed::default();
    let mut existing: Vec<Vec<Object<Slice>>> = vec![Vec::new(); desired.groups.len()];
    for slice in slices {
        let key = slice.family().map(|family| (family, PortKey::of(&slice.ports())));
        match key.and_then(|key| desired.places.get(&key)) {
            Some(group) if existing[*group].is_empty() => existing[*group].push(slice),
            _ => packed.doomed.push(slice),
        }
    }
    for (Group { family, ports, wanted }, existing) in desired.groups.into_iter().zip(existing) {
        let blank = Draft::new(family, ports, labels.clone());
        packed.append(pack(existing, wanted, limit, &blank, differs));
    }
    packed
}

fn labels(endpoints: &EndpointsObject) -> StringMap {
    let mut labels = endpoints.metadata.labels.clone();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.metadata.name.clone());
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

/// The annotations are mirrored too, but for those that are about the Endpoints
/// object itself.
fn annotations(endpoints: &EndpointsObject) -> StringMap {
    let mut annotations = endpoints.metadata.annotations.clone();
    annotations.remove(TRIGGER_TIME);
    annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
    annotations
}

/// Tells about addresses that are not mirrored, once.
fn tell(endpoints: &EndpointsObject, desired: &Desired, limit: usize, memory: &mut Memory, plan: &mut Plan) {
    let Desired { invalid, skipped, .. } = desired;
    let mut events = Vec::new();
    if *invalid > 0 {
        let text = format!("Skipped {invalid} invalid IP addresses when mirroring to EndpointSlices");
        events.push(("InvalidIPAddress", text));
    }
    if skipped > invalid {
        let text = format!(
            "A max of {limit} addresses can be mirrored to EndpointSlices per Endpoints subset. \
             {skipped} addresses were skipped"
        );
        events.push(("TooManyAddressesToMirror", text));
    }
    let about = About::new(ENDPOINTS, &endpoints.metadata);
    for (reason, text) in &events {
        if !memory.told.contains(text) {
            plan.event(about.warning(reason, text.clone()));
        }
    }
    memory.told = events.into_iter().map(|(_, text)| text).collect();
}

fn was_refused_by_namespace(ctx: &Ctx<'_>) -> bool {
    ctx.results().iter().any(|result| match &result.result {
        ActionOutcome::Failed(failure) => failure.is_of_terminating_namespace(),
        ActionOutcome::Skipped | ActionOutcome::Unknown => false,
    })
}
