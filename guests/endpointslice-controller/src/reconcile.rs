//! One reconcile of a service: what its pods make, what its slices have, and the
//! writes between them.

use coxswain_sdk::contract::ActionOutcome;
use coxswain_sdk::endpoints::address::Family;
use coxswain_sdk::endpoints::draft::{Draft, Owner, deletion, recycle};
use coxswain_sdk::endpoints::pack::{self, Packed, pack};
use coxswain_sdk::endpoints::pod::Pod;
use coxswain_sdk::endpoints::port::PortKey;
use coxswain_sdk::endpoints::service::{Service, same_but_reserved};
use coxswain_sdk::endpoints::slice::{self, Trigger};
use coxswain_sdk::endpoints::{TRIGGER_TIME, gather};
use coxswain_sdk::resource::SERVICES;
use coxswain_sdk::{About, Ctx, Event, Object, OwnerReference, Plan, Query, Result, Step, StringMap, memory};

use crate::desired::{Desired, desired};
use crate::measures::Census;
use crate::memory::Memory;
use crate::trigger::trigger_time;
use crate::view::Slice;
use crate::{BATCH, LIMIT, MANAGER, hints};

/// So many pods without a node are named in an event, which has room for few.
const TOLD: usize = 3;

/// One reconcile.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    // The slices of a service that is gone are the garbage collector's.
    let Some(service) = ctx.primary::<Service>()? else { return Ok(plan) };
    let Some(selector) = service.selector() else { return Ok(plan) };
    let meta = &service.metadata;
    let limit = pack::limit(ctx, LIMIT)?;
    let pods = ctx.list::<Pod>(Query::all().namespace(&meta.namespace).matching(&selector))?;
    let slices = slice::of_service(ctx, &meta.namespace, &meta.name, MANAGER)?;

    let before: Memory = memory::read(ctx);
    let mut memory = before.clone();
    let about = About::new(SERVICES, meta);
    let refused = report_refusals(ctx, &service, &about, &mut plan);
    memory.namespace_terminating |= refused;

    let desired = desired(ctx, &service, &pods)?;
    let left_out = left_out(&service, &desired.nodeless);
    if left_out != memory.left_out {
        if !left_out.is_empty() {
            plan.event(failed_update(&about, &service, &left_out));
        }
        memory.left_out = left_out;
    }

    let reference = OwnerReference::controller(SERVICES, &meta.name, &meta.uid);
    let owner = Owner { namespace: &meta.namespace, name: &meta.name, reference: &reference };
    let labels = service.slice_labels(MANAGER);
    let own: Vec<Object<Slice>> =
        slices.iter().filter(|slice| slice.is_owned_by(SERVICES, &meta.uid)).cloned().collect();

    let mut drafts = Vec::new();
    let mut doomed = Vec::new();
    let mut census = Census::default();
    let (families, stray) = pack_families(&service, slices, desired, limit, &labels, &mut census);
    for (family, mut packed) in families {
        hints::apply(ctx, &service, family, &mut packed, &mut memory, &about, &mut plan)?;
        drafts.append(&mut packed.drafts);
        doomed.append(&mut packed.doomed);
    }
    // An old service's slices are about to be collected, so nothing new goes into them.
    recycle(&mut drafts, &mut doomed, |slice| slice.is_owned_by(SERVICES, &meta.uid));
    // What is made while the service goes would outlive it, or be refused.
    if meta.is_deleting() || memory.namespace_terminating {
        drafts.retain(|draft| draft.seen.is_some());
    }
    drafts.retain(|draft| draft.is_news(owner));
    census.measure(&mut plan, &service, drafts.len() + doomed.len() + stray.len());
    if !drafts.is_empty() {
        let mut annotations = StringMap::new();
        if let Some(time) = trigger_time(&service, &own, &pods) {
            annotations.insert(TRIGGER_TIME.to_owned(), time.to_string());
        }
        let mut writes = Vec::new();
        for mut draft in drafts {
            draft.annotations.clone_from(&annotations);
            writes.extend(draft.write(owner)?);
        }
        // A slice that is refused must not hold up the others, but nothing is
        // deleted before what replaces it is there.
        plan.then(Step::new(writes));
    }
    plan.then(Step::new(doomed.iter().chain(&stray).map(deletion)));
    memory::keep(&memory, &before, &mut plan)?;
    gather(&mut plan, ctx.option_duration(BATCH)?);
    Ok(plan)
}

/// Packs the endpoints of each family. Slices of a family that the service has
/// not are given back.
fn pack_families(
    service: &Service,
    slices: Vec<Object<Slice>>,
    mut desired: Desired,
    limit: usize,
    labels: &StringMap,
    census: &mut Census,
) -> (Vec<(Family, Packed<Trigger>)>, Vec<Object<Slice>>) {
    let uid = &service.metadata.uid;
    let mut slices = slices;
    let mut result = Vec::new();
    for family in service.families() {
        let (of_family, others): (Vec<_>, Vec<_>) =
            slices.into_iter().partition(|slice| slice.family() == Some(family));
        slices = others;
        let mut packed = Packed::default();
        let mut existing = vec![Vec::new(); desired.groups.len()];
        let mut sizes = Vec::new();
        for slice in of_family {
            // Those of another service that had the same name only go.
            let own = slice.is_owned_by(SERVICES, uid);
            match desired.by_ports.get(&PortKey::of(&slice.ports())).filter(|_| own) {
                Some(group) => existing[*group].push(slice),
                None => packed.doomed.push(slice),
            }
        }
        for (group, existing) in desired.groups.iter_mut().zip(existing) {
            let wanted = group.by_family.iter_mut().find(|(of, _)| *of == family);
            let wanted = wanted.map(|(_, wanted)| std::mem::take(wanted)).unwrap_or_default();
            sizes.push(wanted.len());
            let blank = Draft::new(family, group.ports.clone(), labels.clone());
            let differs = |slice: &Slice| !same_but_reserved(&slice.metadata.labels, labels);
            packed.append(pack(existing, wanted, limit, &blank, differs));
        }
        if packed.leaves_nothing() {
            let placeholder = Draft::new(family, Vec::new(), labels.clone());
            leave_placeholder(&mut packed, placeholder, uid);
        }
        census.add(&packed, &sizes, limit);
        result.push((family, packed));
    }
    (result, slices)
}

/// A service always has a slice, be it an empty one: it says that there is
/// nothing, rather than that nobody has looked yet.
fn leave_placeholder(packed: &mut Packed<Trigger>, placeholder: Draft<Trigger>, uid: &str) {
    let is_placeholder = |slice: &Slice| {
        let empty = slice.endpoints.is_empty() && slice.ports.is_empty();
        empty && slice.metadata.labels == placeholder.labels && slice.is_owned_by(SERVICES, uid)
    };
    match packed.doomed.as_slice() {
        [only] if is_placeholder(only) => packed.untouched.append(&mut packed.doomed),
        _ => packed.drafts.push(placeholder),
    }
}

/// Which pods are left out since their nodes are not there; empty if none is.
fn left_out(service: &Service, nodeless: &[(String, String)]) -> String {
    let Service { metadata: meta, .. } = service;
    let told = nodeless.iter().take(TOLD);
    let mut errors: Vec<String> = told
        .map(|(pod, node)| {
            format!("skipping Pod {pod} for Service {}/{}: Node {node} Not Found", meta.namespace, meta.name)
        })
        .collect();
    if nodeless.len() > TOLD {
        errors.push(format!("and {} more", nodeless.len() - TOLD));
    }
    if errors.len() > 1 { format!("[{}]", errors.join(", ")) } else { errors.join("") }
}

/// Tells what was refused of the last plan. Returns whether the namespace is the
/// reason, in which case there is nothing to tell.
fn report_refusals(ctx: &Ctx<'_>, service: &Service, about: &About, plan: &mut Plan) -> bool {
    let mut namespace_terminating = false;
    for result in ctx.results() {
        let ActionOutcome::Failed(failure) = &result.result else { continue };
        if failure.is_of_terminating_namespace() {
            namespace_terminating = true;
        } else if failure.reason != "Conflict" {
            // Somebody else wrote first; what they wrote has been seen by now.
            let verb = result.tag.as_str();
            let meta = &service.metadata;
            let text = format!(
                "failed to {verb} EndpointSlice for Service {}/{}: {}",
                meta.namespace, meta.name, failure.message
            );
            plan.event(failed_update(about, service, &text));
        }
    }
    namespace_terminating
}

fn failed_update(about: &About, service: &Service, text: &str) -> Event {
    let meta = &service.metadata;
    about.warning(
        "FailedToUpdateEndpointSlices",
        format!("Error updating Endpoint Slices for Service {}/{}: {text}", meta.namespace, meta.name),
    )
}
