//! The cleaner of certificate requests: deletes those that have served.
//!
//! In: CertificateSigningRequests. Out: deletions, each at its own time.
//! kube-controller-manager looks through all of them once an hour, and first
//! when its cache is still empty. Nothing is kept between reconciles.

mod expiry;
#[cfg(test)]
mod tests;

use coxswain_sdk::condition::Condition;
use coxswain_sdk::resource::CERTIFICATE_SIGNING_REQUESTS;
use coxswain_sdk::{
    Action, Controller, Ctx, Declaration, FromJson, ObjectMeta, Plan, Resource, Result, View,
};

/// What is read of a CertificateSigningRequest.
#[derive(Debug, FromJson)]
pub struct SigningRequest {
    metadata: ObjectMeta,
    #[serde(default)]
    status: Status,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Status {
    certificate: String,
    conditions: Vec<Condition>,
}

impl View for SigningRequest {
    const RESOURCE: Resource = CERTIFICATE_SIGNING_REQUESTS;
}

/// The controller.
#[derive(Debug)]
pub struct CsrCleaner;

impl Controller for CsrCleaner {
    fn declare() -> Declaration {
        Declaration::new("certificatesigningrequest-cleaner-controller")
            .alias("csrcleaner")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("certificate-controller")
            .keys_objects("certificatesigningrequests", &[CERTIFICATE_SIGNING_REQUESTS])
            .read::<SigningRequest>()
            .write(CERTIFICATE_SIGNING_REQUESTS, "", &["delete"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(csr) = ctx.primary::<SigningRequest>()? else { return Ok(plan) };
        let meta = &csr.metadata;
        match expiry::of(meta.creation_timestamp, &csr.status.certificate, &csr.status.conditions) {
            Some(end) if end < ctx.now() && !meta.is_deleting() => {
                let delete = Action::delete(CERTIFICATE_SIGNING_REQUESTS, "", &meta.name).uid(&meta.uid);
                plan.then(delete.tag("delete"));
            }
            Some(end) if end >= ctx.now() => {
                plan.come_back(end + std::time::Duration::from_millis(1));
            }
            _ => {}
        }
        Ok(plan)
    }
}

coxswain_sdk::export!(CsrCleaner);
