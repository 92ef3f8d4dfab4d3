//! The ServiceAccount controller: every active namespace has a ServiceAccount
//! named `default`.
//!
//! Nothing is kept between reconciles.

#[cfg(test)]
mod tests;

use coxswain_sdk::contract::Failure;
use coxswain_sdk::namespace::Namespace;
use coxswain_sdk::resource::{NAMESPACES, SERVICE_ACCOUNTS};
use coxswain_sdk::{
    Action, Controller, Ctx, Declaration, FromJson, ObjectMeta, Plan, Resource, Result, View,
};
use serde_json::json;

const DEFAULT: &str = "default";
const CREATE: &str = "create";

/// Only whether it is there counts.
#[derive(Debug, FromJson)]
struct ServiceAccount {
    #[serde(rename = "metadata")]
    _metadata: ObjectMeta,
}

impl View for ServiceAccount {
    const RESOURCE: Resource = SERVICE_ACCOUNTS;
}

/// The controller.
#[derive(Debug)]
pub struct ServiceAccountController;

impl Controller for ServiceAccountController {
    fn declare() -> Declaration {
        Declaration::new("serviceaccount-controller")
            .alias("serviceaccount")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("service-account-controller")
            .keys_objects("namespaces", &[NAMESPACES])
            .queue("serviceaccount")
            .read::<Namespace>()
            .read::<ServiceAccount>()
            .write(SERVICE_ACCOUNTS, "", &["create"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(namespace) = ctx.primary::<Namespace>()? else { return Ok(plan) };
        let name = &namespace.metadata.name;
        if !namespace.is_active() || ctx.get::<ServiceAccount>(name, DEFAULT)?.is_some() {
            return Ok(plan);
        }
        if ctx.failures(CREATE).any(Failure::is_of_terminating_namespace) {
            // The API server knows before the cache does; the phase will follow.
            return Ok(plan);
        }
        let account = json!({
            "apiVersion": "v1",
            "kind": "ServiceAccount",
            "metadata": { "name": DEFAULT, "namespace": name },
        });
        plan.then(Action::create(SERVICE_ACCOUNTS, name, DEFAULT, &account)?.tag(CREATE));
        Ok(plan)
    }
}

coxswain_sdk::export!(ServiceAccountController);
