//! The token cleaner: deletes bootstrap tokens that have ended.
//!
//! In: Secrets of type `bootstrap.kubernetes.io/token` in kube-system. Out:
//! deletions. One whose end cannot be read has ended. Off unless
//! `--controllers` names it. Nothing is kept between reconciles.

#[cfg(test)]
mod tests;

use coxswain_sdk::bootstrap::{NAMESPACE, TOKEN, expiration};
use coxswain_sdk::resource::SECRETS;
use coxswain_sdk::{
    Action, Controller, Ctx, Declaration, FromJson, ObjectMeta, Plan, Resource, Result, View,
};

/// What is read of a bootstrap token.
#[derive(Debug, FromJson)]
pub struct Token {
    metadata: ObjectMeta,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    data: Data,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Data {
    expiration: String,
}

impl View for Token {
    const RESOURCE: Resource = SECRETS;
}

/// The controller.
#[derive(Debug)]
pub struct TokenCleaner;

impl Controller for TokenCleaner {
    fn declare() -> Declaration {
        Declaration::new("token-cleaner-controller")
            .alias("tokencleaner")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("token-cleaner")
            .off_by_default()
            .concurrency(1, "")
            // Secrets that never end are no keys.
            .keys_indexed("tokens", &[SECRETS], &["expiration"])
            .queue("token_cleaner")
            .read_with::<Token>(|read| read.index("expiration", &["data.expiration"]))
            .write(SECRETS, "", &["delete"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(token) = ctx.primary::<Token>()? else { return Ok(plan) };
        let meta = &token.metadata;
        if token.kind != TOKEN || meta.namespace != NAMESPACE || meta.is_deleting() {
            return Ok(plan);
        }
        match expiration(&token.data.expiration) {
            Some(end) if end <= ctx.now() => {
                plan.then(Action::delete(SECRETS, &meta.namespace, &meta.name).uid(&meta.uid).tag("delete"));
            }
            Some(end) => drop(plan.come_back(end)),
            None => {}
        }
        Ok(plan)
    }
}

coxswain_sdk::export!(TokenCleaner);
