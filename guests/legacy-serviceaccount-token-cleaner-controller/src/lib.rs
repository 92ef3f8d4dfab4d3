//! The cleaner of legacy service account tokens: marks token Secrets that
//! Kubernetes once made by itself and nobody has used for a long time, and
//! deletes them as long after.
//!
//! In: token Secrets, their ServiceAccounts, the pods of their namespace, and
//! since when the API server tracks the use of tokens. Out: the label
//! `kubernetes.io/legacy-token-invalid-since`, later a deletion. Dates are whole
//! days, UTC. Nothing is kept between reconciles: each Secret comes back when
//! its next date is reached, where kube-controller-manager looks once a day.

mod pod;
mod reconcile;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::contract::{LookupRule, OptionKind};
use coxswain_sdk::resource::SECRETS;
use coxswain_sdk::service_account::{INDEX, NAME_PATH, ServiceAccount};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use pod::Pod;
pub use view::TokenSecret;

/// How long a token may be unused, and how long a mark stands.
const PERIOD: &str = "legacy-service-account-token-clean-up-period";

/// The controller.
#[derive(Debug)]
pub struct LegacyTokenCleaner;

impl Controller for LegacyTokenCleaner {
    fn declare() -> Declaration {
        Declaration::new("legacy-serviceaccount-token-cleaner-controller")
            .alias("legacy-service-account-token-cleaner")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("legacy-service-account-token-cleaner")
            .concurrency(1, "")
            // Other Secrets have no such annotation, and so are no keys.
            .keys_indexed("token-secrets", &[SECRETS], &[INDEX])
            .read_with::<TokenSecret>(|read| read.index(INDEX, &[NAME_PATH]))
            .read::<ServiceAccount>()
            .read::<Pod>()
            .write(SECRETS, "", &["patch", "delete"])
            .lookup(LookupRule::Raw(reconcile::TRACKING.to_owned()))
            .option(
                PERIOD,
                OptionKind::Duration,
                "8760h",
                "how long legacy tokens of service accounts may be unused, and then marked invalid, before they go",
            )
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(LegacyTokenCleaner);
