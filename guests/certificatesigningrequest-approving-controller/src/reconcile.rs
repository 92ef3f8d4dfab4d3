//! One request.

use std::time::Duration;

use coxswain_sdk::condition::Condition;
use coxswain_sdk::contract::Level;
use coxswain_sdk::csr::{KUBELET_CLIENT, SigningRequest};
use coxswain_sdk::merge::text_of;
use coxswain_sdk::resource::CERTIFICATE_SIGNING_REQUESTS;
use coxswain_sdk::x509::Request;
use coxswain_sdk::{Action, Ask, Ctx, Error, FromJson, Object, Plan, Result, from_json};
use serde_json::json;

use crate::{Asking, SUBJECT_ACCESS_REVIEWS};

/// What a request is taken for: by the name of the subresource that one must be
/// allowed to create, and what is said of it once approved.
const KINDS: [(&str, &str); 2] = [
    ("selfnodeclient", "Auto approving self kubelet client certificate after SubjectAccessReview."),
    ("nodeclient", "Auto approving kubelet client certificate after SubjectAccessReview."),
];

pub(crate) fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(csr) = ctx.primary::<SigningRequest>()? else { return Ok(plan) };
    let (spec, status, name) = (&csr.spec, &csr.status, &csr.metadata.name);
    if status.is_issued() || status.is_approved() || status.is_denied() {
        return Ok(plan);
    }
    if spec.signer_name != KUBELET_CLIENT {
        return Ok(plan);
    }
    let request = spec.parse().map_err(|e| Error::Terminal(format!("unable to parse csr {name:?}: {e}")))?;
    let mut tried = Vec::new();
    for (kind, message) in KINDS {
        if !is_kind(kind, &csr, &request) {
            continue;
        }
        if may(ctx, &csr, kind)? {
            plan.then(approve(&csr, message));
            return Ok(plan);
        }
        tried.push(kind);
    }
    if !tried.is_empty() {
        let tried = tried.join(" ");
        ctx.log(
            Level::Debug,
            &format!("recognized csr {name:?} as [{tried}] but subject access review was not approved"),
        );
        // A role may be bound any time: twice as late each time, as a backoff is.
        let age = csr.metadata.creation_timestamp.map_or(Duration::ZERO, |made| ctx.now().since(made));
        plan.come_back(ctx.now() + age.clamp(Duration::from_millis(500), Duration::from_secs(1000)));
    }
    Ok(plan)
}

/// A node may ask for itself, or somebody else for it.
fn is_kind(kind: &str, csr: &SigningRequest, request: &Request) -> bool {
    let own = csr.spec.username == request.subject.common_name;
    (kind != "selfnodeclient" || own) && csr.spec.check_kubelet_client(request).is_ok()
}

#[derive(FromJson)]
struct Review {
    #[serde(default)]
    status: Verdict,
}

#[derive(Default, FromJson)]
struct Verdict {
    #[serde(default)]
    allowed: bool,
}

fn may(ctx: &Ctx<'_>, csr: &SigningRequest, subresource: &str) -> Result<bool> {
    let asking = ctx.primary::<Asking>()?;
    let Some(asker) = asking.as_ref().map(|asking| &asking.spec) else { return Ok(false) };
    let review = json!({
        "apiVersion": SUBJECT_ACCESS_REVIEWS.api_version(),
        "kind": SUBJECT_ACCESS_REVIEWS.kind,
        "spec": {
            "user": csr.spec.username,
            "uid": asker.uid,
            "groups": asker.groups,
            "extra": asker.extra,
            "resourceAttributes": {
                "group": CERTIFICATE_SIGNING_REQUESTS.group,
                "version": "*",
                "resource": CERTIFICATE_SIGNING_REQUESTS.plural,
                "subresource": subresource,
                "verb": "create",
            },
        },
    });
    let ask =
        Ask::Review { resource: SUBJECT_ACCESS_REVIEWS, namespace: String::new(), body: text_of(&review) };
    let answer = ctx.look_up(ask)?.map_err(|failure| Error::Retry(failure.message))?;
    let review: Review =
        from_json(&answer).map_err(|e| Error::Retry(format!("cannot read the review: {e}")))?;
    Ok(review.status.allowed)
}

fn approve(csr: &Object<SigningRequest>, message: &str) -> Action {
    // When it was decided, the API server says.
    let condition = Condition {
        kind: "Approved".to_owned(),
        status: "True".to_owned(),
        reason: "AutoApproved".to_owned(),
        message: message.to_owned(),
        ..Condition::default()
    };
    let mut conditions = csr.status.conditions.clone();
    conditions.push(condition);
    let body = json!({ "status": { "conditions": conditions } });
    Action::merge(CERTIFICATE_SIGNING_REQUESTS, "", &csr.metadata.name, &body)
        .subresource("approval")
        .tag("approve")
        .as_seen(csr)
}
