//! What is measured of claims, under the names that kube-controller-manager has.

use coxswain_sdk::contract::{Measure, Occasion};
use coxswain_sdk::{Declaration, Plan};

use crate::view::{Claim, ClaimSpec};

const CREATES: &str = "resourceclaim_controller_creates_total";
const CLAIMS: &str = "resourceclaim_controller_resource_claims";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    declaration
        .counter(
            CREATES,
            &["status", "admin_access"],
            "[ALPHA] Number of ResourceClaims creation requests, categorized by creation status and admin access",
        )
        .gauge(
            CLAIMS,
            &["allocated", "admin_access", "source"],
            "[ALPHA] Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be 'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty (manually created by a user).",
        )
}

fn label(holds: bool) -> &'static str {
    if holds { "true" } else { "false" }
}

/// Counts the creation of this tag by what becomes of it.
pub fn creation(plan: &mut Plan, tag: &str, spec: &ClaimSpec) {
    let admin = label(spec.asks_for_admin_access());
    let outcomes =
        [(Occasion::Each(tag.to_owned()), "success"), (Occasion::Refused(tag.to_owned()), "failure")];
    for (occasion, status) in outcomes {
        plan.measure_if(occasion, CREATES, &[status, admin], Measure::Number(1.0));
    }
}

/// Tells of a claim.
pub fn census(plan: &mut Plan, claim: &Claim) {
    let annotations = &claim.metadata.annotations;
    let source = if annotations.extended.as_deref() == Some("true") {
        "extended_resource"
    } else if annotations.pod_claim.as_ref().is_some_and(|name| !name.is_empty()) {
        "resource_claim_template"
    } else {
        ""
    };
    let labels =
        [label(claim.status.allocation.is_some()), label(claim.spec.asks_for_admin_access()), source];
    plan.measure(CLAIMS, &labels, 1.0);
}
