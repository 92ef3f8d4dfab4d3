//! One reconcile of a ServiceCIDR.

use std::net::IpAddr;
use std::time::Duration;

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::SERVICE_CIDRS;
use coxswain_sdk::{About, Action, Ctx, Object, Plan, Query, Result, Time, finalizer};
use serde_json::json;

use crate::NAME;
use crate::prefix::Prefix;
use crate::view::{IpAddress, ServiceCidr};

const FINALIZER: &str = "networking.k8s.io/service-cidr-finalizer";
const READY: &str = "Ready";
/// So long the API servers are given to see that a range is about to go, and to
/// take no more addresses from it.
const GRACE: Duration = Duration::from_secs(10);

/// One reconcile.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(cidr) = ctx.primary::<ServiceCidr>()? else { return Ok(plan) };
    match cidr.metadata.deletion_timestamp {
        None => {
            if finalizer::is_missing(&cidr.metadata, FINALIZER) {
                plan.then(finalizer::add(&cidr, FINALIZER));
            }
            let failed = About::new(SERVICE_CIDRS, &cidr.metadata)
                .warning("KubernetesServiceCIDRError", "The ServiceCIDR Status can not be set to Ready=True");
            let ready = condition(&cidr, "True", "", "Kubernetes Service CIDR is ready", ctx.now());
            plan.then(ready.map(|action| action.on_failure(failed)));
        }
        Some(_) if is_needed(ctx, &cidr)? => {
            let text = "There are still IPAddresses referencing the ServiceCIDR, please remove them or \
                        create a new ServiceCIDR";
            plan.then(condition(&cidr, "False", "Terminating", text, ctx.now()));
        }
        Some(asked) if finalizer::has(&cidr.metadata, FINALIZER) => {
            if asked + GRACE > ctx.now() {
                plan.come_back(asked + GRACE);
            } else {
                plan.then(finalizer::remove(&cidr, FINALIZER));
            }
        }
        Some(_) => {}
    }
    Ok(plan)
}

/// Whether an address in use would be in no range once this one is gone.
fn is_needed(ctx: &Ctx<'_>, cidr: &ServiceCidr) -> Result<bool> {
    let all = ctx.list::<ServiceCidr>(Query::all())?;
    let others: Vec<Prefix> = all
        .iter()
        .filter(|other| other.metadata.name != cidr.metadata.name)
        .flat_map(|other| other.prefixes())
        .collect();
    let is_covered = |own: Prefix| others.iter().any(|other| other.covers(&own));
    if cidr.prefixes().all(is_covered) {
        return Ok(false);
    }
    for own in cidr.prefixes() {
        let family = if own.is_v6() { "IPv6" } else { "IPv4" };
        let labels = format!(
            "ipaddress.kubernetes.io/ip-family={family},ipaddress.kubernetes.io/managed-by=ipallocator.k8s.io"
        );
        for address in ctx.list::<IpAddress>(Query::all().labels(&labels))? {
            let Ok(address) = address.metadata.name.parse::<IpAddr>() else { continue };
            let is_ours = cidr.prefixes().any(|own| own.serves(address));
            if is_ours && !others.iter().any(|other| other.serves(address)) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// The write that sets the condition; None if it is set. It is an apply, which
/// leaves the conditions of others alone.
fn condition(
    cidr: &Object<ServiceCidr>,
    status: &str,
    reason: &str,
    message: &str,
    now: Time,
) -> Option<Action> {
    let found = cidr.status.conditions.iter().find(|condition| condition.kind == READY);
    if found.is_some_and(|c| {
        (c.status.as_str(), c.reason.as_str(), c.message.as_str()) == (status, reason, message)
    }) {
        return None;
    }
    let meta = &cidr.metadata;
    let body = json!({
        "apiVersion": SERVICE_CIDRS.api_version(),
        "kind": SERVICE_CIDRS.kind,
        "metadata": {"name": meta.name},
        "status": {"conditions": [{
            "type": READY,
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": now.to_string(),
        }]},
    });
    let apply = Action::patch(SERVICE_CIDRS, "", &meta.name, PatchKind::Apply, &body);
    Some(apply.field_manager(NAME, true).subresource("status").uid(&meta.uid).tag("status"))
}
