//! The approver of kubelets' client certificates: approves what RBAC lets the
//! asking user have.
//!
//! In: CertificateSigningRequests of the signer
//! `kubernetes.io/kube-apiserver-client-kubelet`, and answers to
//! SubjectAccessReviews. Out: the condition `Approved`. Nothing is kept between
//! reconciles: how long it waits before it asks again follows from the
//! request's age.
//!
//! Rules: <https://kubernetes.io/docs/reference/access-authn-authz/kubelet-tls-bootstrapping/>.

mod reconcile;
#[cfg(test)]
mod tests;

use coxswain_sdk::contract::LookupRule;
use coxswain_sdk::csr::SigningRequest;
use coxswain_sdk::resource::CERTIFICATE_SIGNING_REQUESTS;
use coxswain_sdk::{Controller, Ctx, Declaration, FromJson, Plan, Resource, Result, View};
use serde_json::{Map, Value};

/// Reviews of what somebody may do.
pub const SUBJECT_ACCESS_REVIEWS: Resource =
    Resource::new("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview");

/// Who asks, besides the name.
#[derive(Debug, FromJson)]
pub struct Asking {
    #[serde(default)]
    spec: Asker,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Asker {
    uid: String,
    groups: Vec<String>,
    extra: Map<String, Value>,
}

impl View for Asking {
    const RESOURCE: Resource = CERTIFICATE_SIGNING_REQUESTS;
}

/// Signers: no objects, and still something that the API server asks
/// permissions for.
const SIGNERS: Resource = Resource::new("certificates.k8s.io", "v1", "signers", "Signer");

/// The controller.
#[derive(Debug)]
pub struct CsrApproving;

impl Controller for CsrApproving {
    fn declare() -> Declaration {
        Declaration::new("certificatesigningrequest-approving-controller")
            .alias("csrapproving")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("certificate-controller")
            .keys_objects("certificatesigningrequests", &[CERTIFICATE_SIGNING_REQUESTS])
            .queue("certificate")
            .read::<SigningRequest>()
            .read::<Asking>()
            .write(CERTIFICATE_SIGNING_REQUESTS, "approval", &["patch"])
            .write(SIGNERS, "", &["approve:kubernetes.io/kube-apiserver-client-kubelet"])
            .lookup(LookupRule::Review(SUBJECT_ACCESS_REVIEWS.to_wire()))
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(CsrApproving);
