//! The signer of certificates: issues what was approved, for four signers whose
//! rules Kubernetes sets.
//!
//! In: CertificateSigningRequests. Out: certificates in their status, or the
//! condition `Failed` with reason `SignerValidationFailure`. The keys are the
//! host's: here is decided what a certificate says, and for how long. Names are
//! read from the request here and nowhere else, so that what was checked is what
//! is signed. Nothing is kept between reconciles.
//!
//! Rules: <https://kubernetes.io/docs/reference/access-authn-authz/certificate-signing-requests/>.

mod certificate;
mod reconcile;
mod signer;
#[cfg(test)]
mod tests;

use coxswain_sdk::contract::{LookupRule, OptionKind};
use coxswain_sdk::csr::SigningRequest;
use coxswain_sdk::resource::CERTIFICATE_SIGNING_REQUESTS;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Resource, Result};

/// Signers: no objects, and still something that the API server asks
/// permissions for.
const SIGNERS: Resource = Resource::new("certificates.k8s.io", "v1", "signers", "Signer");

/// The controller.
#[derive(Debug)]
pub struct CsrSigning;

impl Controller for CsrSigning {
    fn declare() -> Declaration {
        let mut declaration = Declaration::new("certificatesigningrequest-signing-controller")
            .alias("csrsigning")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("certificate-controller")
            .keys_objects("certificatesigningrequests", &[CERTIFICATE_SIGNING_REQUESTS])
            .queue("certificate")
            .read::<SigningRequest>()
            .write(CERTIFICATE_SIGNING_REQUESTS, "status", &["patch"])
            .write(
                SIGNERS,
                "",
                &[
                    "sign:kubernetes.io/kube-apiserver-client",
                    "sign:kubernetes.io/kube-apiserver-client-kubelet",
                    "sign:kubernetes.io/kubelet-serving",
                    "sign:kubernetes.io/legacy-unknown",
                ],
            )
            .option(
                "cluster-signing-duration",
                OptionKind::Duration,
                "8760h",
                "the longest that certificates hold; a request may ask for less",
            );
        for key in signer::keys() {
            // The host reads the files; here counts only which are named.
            declaration = declaration
                .lookup(LookupRule::Sign(key.to_owned()))
                .option(
                    &format!("{key}-cert-file"),
                    OptionKind::Text,
                    "",
                    "file of the issuer's certificate (PEM)",
                )
                .option(
                    &format!("{key}-key-file"),
                    OptionKind::Text,
                    "",
                    "file of the issuer's private key (PEM)",
                );
        }
        declaration
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(CsrSigning);
