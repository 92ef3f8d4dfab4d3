//! What a pod needs: its claims made, found in its status, and reserved.

use std::time::Duration;

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::resource::{PODS, RESOURCE_CLAIMS};
use coxswain_sdk::resource_claims::Named;
use coxswain_sdk::{About, Action, Ctx, Object, OwnerReference, Plan, Query, Result, Time};
use serde_json::{Value, json};

use crate::measures;
use crate::view::{Claim, ClaimSpec, Pod, PodClaim, Template};

/// The annotation that says which of a pod's claims a claim was made for.
const MADE_FOR: &str = "resource.kubernetes.io/pod-claim-name";
const FAILED: &str = "FailedResourceClaimCreation";
/// How old a pod is before a template is called missing: it can be seen before one that was made before it. Times of
/// creation are in whole seconds.
const TIME_TO_SEE: Duration = Duration::from_millis(1200);
/// After so long a template that is missing is reported again.
const REMIND_AFTER: Duration = Duration::from_secs(1000);
/// Room in a name for what is generated.
const PREFIX_ROOM: usize = 57;

/// Reconciles a pod.
pub fn reconcile(ctx: &Ctx<'_>, pod: &Pod) -> Result<Plan> {
    let mut plan = Plan::new();
    // A pod that is done needs nothing any more: what was made for it has been, or
    // is about to be, taken away.
    if pod.metadata.is_deleting() || pod.is_done() {
        return Ok(plan);
    }
    let about = About::of::<Pod, _>(&pod.metadata);
    let mut made: Vec<Value> = Vec::new();
    for pod_claim in &pod.spec.resource_claims {
        let message = |text: &str| format!("PodResourceClaim {}: {text}", pod_claim.name);
        match make(ctx, pod, pod_claim)? {
            Made::Nothing => {}
            Made::Found(name) => made.push(json!({ "name": pod_claim.name, "resourceClaimName": name })),
            Made::Create(create, spec) => {
                let text = message("create ResourceClaim : {message}");
                // A tag of its own, so that each is counted by what became of it.
                let tag = format!("create {}", pod_claim.name);
                measures::creation(&mut plan, &tag, &spec);
                let create = create.tag(&tag);
                plan.then(create.on_failure(about.warning(FAILED, text)));
            }
            Made::Later(at) => {
                plan.come_back(at);
                return Ok(plan);
            }
            Made::Trouble(text) => {
                plan.event(about.warning(FAILED, message(&text)));
                plan.come_back(ctx.now() + REMIND_AFTER);
                return Ok(plan);
            }
        }
    }
    // The names of claims are known once they are made; all are written at once.
    if !made.is_empty() && !plan.writes() {
        let body = json!({ "status": { "resourceClaimStatuses": made } });
        let meta = &pod.metadata;
        let patch = Action::patch(PODS, &meta.namespace, &meta.name, PatchKind::Strategic, &body)
            .field_manager("ResourceClaimController", false)
            .subresource("status")
            .uid(&meta.uid);
        plan.then(patch.tag("status"));
    }
    if !pod.spec.node_name.is_empty() {
        reserve(ctx, pod, &mut plan)?;
    }
    Ok(plan)
}

/// What comes of one of a pod's claims.
enum Made {
    /// There is nothing to do.
    Nothing,
    /// It was made, but the pod does not say so yet.
    Found(String),
    /// It is to be made, with this spec.
    Create(Action, ClaimSpec),
    /// Whether it can be made is to be seen until then.
    Later(Time),
    /// It cannot be made.
    Trouble(String),
}

fn make(ctx: &Ctx<'_>, pod: &Pod, pod_claim: &PodClaim) -> Result<Made> {
    let meta = &pod.metadata;
    if pod_claim.resource_claim_name.is_none() && pod_claim.resource_claim_template_name.is_none() {
        return Ok(Made::Trouble(format!(
            "checking for claim before creating it: pod \"{}/{}\", spec.resourceClaim {:?}: none of the \
             supported fields are set",
            meta.namespace, meta.name, pod_claim.name
        )));
    }
    let named = pod.named(pod_claim);
    if named == Named::NotNeeded {
        return Ok(Made::Nothing);
    }
    if let Some(name) = named.claim() {
        let claim = ctx.get::<Claim>(&meta.namespace, name)?;
        if claim.is_some_and(|claim| named.is(&claim.metadata, meta)) {
            return Ok(Made::Nothing);
        }
    }
    let Some(template) = &pod_claim.resource_claim_template_name else { return Ok(Made::Nothing) };
    let owned = ctx.list::<Claim>(Query::all().namespace(&meta.namespace).controlled_by(&meta.uid))?;
    let mut found =
        owned.iter().filter(|claim| claim.metadata.annotations.pod_claim.as_ref() == Some(&pod_claim.name));
    if let Some(claim) = found.next() {
        return Ok(Made::Found(claim.metadata.name.clone()));
    }
    let Some(object) = ctx.get::<Template>(&meta.namespace, template)? else {
        if let Some(at) =
            meta.creation_timestamp.map(|created| created + TIME_TO_SEE).filter(|at| *at > ctx.now())
        {
            return Ok(Made::Later(at));
        }
        return Ok(Made::Trouble(format!(
            "resource claim template {template:?}: resourceclaimtemplate.resource.k8s.io {template:?} not found"
        )));
    };
    let mut owner = OwnerReference::controller(PODS, &meta.name, &meta.uid);
    // The pod may be gone before the claim is.
    owner.block_owner_deletion = None;
    let mut claim = object.spec.claim(RESOURCE_CLAIMS, &meta.namespace, owner);
    claim.metadata.generate_name = Some(prefix(&meta.name, &pod_claim.name));
    claim.metadata.annotations.insert(MADE_FOR.to_owned(), pod_claim.name.clone());
    let create = Action::create(RESOURCE_CLAIMS, &meta.namespace, "", &claim)?;
    Ok(Made::Create(create, object.spec.spec()?))
}

/// Reserves claims for a pod that somebody else than the scheduler has bound to
/// a node.
fn reserve(ctx: &Ctx<'_>, pod: &Pod, plan: &mut Plan) -> Result<()> {
    let meta = &pod.metadata;
    for pod_claim in &pod.spec.resource_claims {
        let named = pod.named(pod_claim);
        if named == Named::NotNeeded {
            continue;
        }
        let Some(name) = named.claim() else { return Ok(()) };
        let Some(claim) = ctx.get::<Claim>(&meta.namespace, name)? else { return Ok(()) };
        if !named.is(&claim.metadata, meta) {
            return Ok(());
        }
        let reserved = claim.status.reserved_for.iter().any(|entry| entry["uid"] == json!(meta.uid));
        if claim.status.allocation.is_none() || reserved {
            continue;
        }
        plan.then(reservation(&claim, pod));
    }
    Ok(())
}

fn reservation(claim: &Object<Claim>, pod: &Pod) -> Action {
    let mut entries = claim.status.reserved_for.clone();
    entries.push(json!({ "resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid }));
    let meta = &claim.metadata;
    let body = json!({ "status": { "reservedFor": entries } });
    let patch = Action::merge(RESOURCE_CLAIMS, &meta.namespace, &meta.name, &body).as_seen(claim);
    patch.subresource("status").tag("reserve")
}

/// Prefix of the generated name: both names, each shortened in proportion where
/// they are too long together.
pub fn prefix(pod: &str, pod_claim: &str) -> String {
    let length = pod.len() + pod_claim.len() + 2;
    if length <= PREFIX_ROOM {
        return format!("{pod}-{pod_claim}-");
    }
    let cut = |name: &str| {
        let end = name.len() * PREFIX_ROOM / length;
        // Names are ASCII; any others are cut where they can be.
        let end = (0..=end).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name[..end].to_owned()
    };
    format!("{}-{}", cut(pod), cut(pod_claim))
}
