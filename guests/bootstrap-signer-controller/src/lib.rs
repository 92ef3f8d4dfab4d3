//! The bootstrap signer: signs the ConfigMap `cluster-info` in kube-public with
//! each bootstrap token, so that a new node can tell from its token whether what
//! it reads there is true.
//!
//! In: that ConfigMap, and Secrets of type `bootstrap.kubernetes.io/token` in
//! kube-system. Out: fields `jws-kubeconfig-ID` of the ConfigMap. The keys are
//! the tokens themselves, which are data of the API: nothing of the host's is
//! needed. Off unless `--controllers` names it. Nothing is kept between
//! reconciles.

mod jws;
#[cfg(test)]
mod tests;
mod token;

use std::collections::BTreeMap;

use coxswain_sdk::bootstrap::{NAMESPACE, TOKEN};
use coxswain_sdk::resource::CONFIG_MAPS;
use coxswain_sdk::{
    Action, Controller, Ctx, Declaration, FromJson, Plan, Query, Resource, Result, View, merge,
};
use serde_json::json;

pub use token::Token;

/// Where the ConfigMap is.
const PUBLIC: &str = "kube-public";
/// Its name.
const CLUSTER_INFO: &str = "cluster-info";
/// The field that is signed.
const SIGNED: &str = "kubeconfig";
/// What the names of signatures begin with; the token's id follows.
const SIGNATURE: &str = "jws-kubeconfig-";

/// What is read of a ConfigMap.
#[derive(Debug, FromJson)]
pub struct ConfigMap {
    #[serde(default)]
    data: BTreeMap<String, String>,
}

impl View for ConfigMap {
    const RESOURCE: Resource = CONFIG_MAPS;
}

/// The controller.
#[derive(Debug)]
pub struct BootstrapSigner;

impl Controller for BootstrapSigner {
    fn declare() -> Declaration {
        Declaration::new("bootstrap-signer-controller")
            .alias("bootstrapsigner")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("bootstrap-signer")
            .off_by_default()
            .concurrency(1, "")
            .keys_single(CLUSTER_INFO)
            .queue("bootstrap_signer_queue")
            .read::<ConfigMap>()
            .read_with::<Token>(|read| read.index("type", &["type"]).sensitive("data"))
            .write(CONFIG_MAPS, "", &["patch"])
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let Some(info) = ctx.get::<ConfigMap>(PUBLIC, CLUSTER_INFO)? else { return Ok(plan) };
        let Some(content) = info.data.get(SIGNED) else { return Ok(plan) };
        let is_signature = |field: &String| field.starts_with(SIGNATURE);
        let mut seen = info.data.clone();
        seen.retain(|field, _| is_signature(field));
        let mut wanted = BTreeMap::new();
        for token in ctx.list::<Token>(Query::all().namespace(NAMESPACE).index("type", &[TOKEN]))? {
            let Some((id, secret)) = token.signs(ctx.now()) else { continue };
            wanted.insert(format!("{SIGNATURE}{id}"), jws::detached(content, &id, &secret));
            if let Some(end) = token.ends() {
                plan.come_back(end);
            }
        }
        if let Some(change) = merge::diff_of(&seen, &wanted)? {
            let body = json!({ "data": change });
            plan.then(Action::merge(CONFIG_MAPS, PUBLIC, CLUSTER_INFO, &body).tag("sign").as_seen(&info));
        }
        Ok(plan)
    }
}

coxswain_sdk::export!(BootstrapSigner);
