//! The service account token controller: fills Secrets of type
//! `kubernetes.io/service-account-token`, and deletes them with their
//! ServiceAccount.
//!
//! In: those Secrets, and ServiceAccounts. Out: token, CA and namespace in a
//! Secret's data. The key is the host's; tokens last until their Secret goes.
//! Without `--service-account-private-key-file` nothing is done.
//!
//! Kept between reconciles, of a Secret that its ServiceAccount lists: the
//! account's name and uid. Once the Secret is gone nothing else tells for certain
//! from which account's list to take it; without it, the accounts of the namespace
//! are searched, and once more two seconds later. A restart in between loses the
//! key itself, as in kube-controller-manager; the list then names a Secret that is
//! not there.

mod fill;
mod reconcile;
#[cfg(test)]
mod tests;
mod view;

use coxswain_sdk::contract::{LookupRule, OptionKind};
use coxswain_sdk::resource::{SECRETS, SERVICE_ACCOUNTS};
use coxswain_sdk::service_account::{INDEX, NAME_PATH, ServiceAccount};
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use view::TokenSecret;

/// The key that signs tokens.
const KEY: &str = "service-account-private";
/// Where the host finds it.
const KEY_FILE: &str = "service-account-private-key-file";
/// What verifies the API server.
const ROOT_CA: &str = "root-ca-file";

/// The controller.
#[derive(Debug)]
pub struct ServiceAccountToken;

impl Controller for ServiceAccountToken {
    fn declare() -> Declaration {
        Declaration::new("serviceaccount-token-controller")
            .alias("serviceaccount-token")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("")
            .state_format(1, &[])
            .concurrency(5, "concurrent-serviceaccount-token-syncs")
            // Other Secrets have no such annotation, and so are no keys.
            .keys_indexed("token-secrets", &[SECRETS], &[INDEX])
            .queue("serviceaccount_tokens_service")
            .read_with::<TokenSecret>(|read| read.index(INDEX, &[NAME_PATH]).sensitive("data"))
            .read::<ServiceAccount>()
            .write(SECRETS, "", &["patch", "delete"])
            .write(SERVICE_ACCOUNTS, "", &["patch"])
            .lookup_get(SERVICE_ACCOUNTS, "")
            .lookup(LookupRule::Sign(KEY.to_owned()))
            // The host reads the file; here counts only whether there is one.
            .option(KEY_FILE, OptionKind::Text, "", "file of the private key (PEM) that signs tokens")
            .option(
                ROOT_CA,
                OptionKind::File,
                "",
                "certificates that verify the API server, for token Secrets",
            )
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(ServiceAccountToken);
