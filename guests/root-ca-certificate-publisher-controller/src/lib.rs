//! The root CA certificate publisher: every active namespace has a ConfigMap
//! `kube-root-ca.crt` with the certificates that verify the API server.
//!
//! In: the content of `--root-ca-file`, which the host reads anew when it
//! changes. Without that flag nothing is published, and nothing that others
//! published is touched. Nothing is kept between reconciles.

#[cfg(test)]
mod tests;

use coxswain_sdk::contract::{Failure, Measure, Occasion, OptionKind};
use coxswain_sdk::namespace::Namespace;
use coxswain_sdk::resource::{CONFIG_MAPS, NAMESPACES};
use coxswain_sdk::{
    Action, Controller, Ctx, Declaration, FromJson, Object, ObjectMeta, Plan, Resource, Result, StringMap,
    View, buckets,
};
use serde_json::{Value, json};

const NAME: &str = "kube-root-ca.crt";
const FIELD: &str = "ca.crt";
const ROOT_CA_FILE: &str = "root-ca-file";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
const CREATE: &str = "create";
const UPDATE: &str = "update";
const SYNCS: &str = "root_ca_cert_publisher_sync_total";
const SECONDS: &str = "root_ca_cert_publisher_sync_duration_seconds";

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct ConfigMap {
    metadata: ObjectMeta<Annotations>,
    data: StringMap,
}

impl View for ConfigMap {
    const RESOURCE: Resource = CONFIG_MAPS;
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "kubernetes.io/description")]
    description: String,
}

/// The controller.
#[derive(Debug)]
pub struct RootCaCertificatePublisher;

impl Controller for RootCaCertificatePublisher {
    fn declare() -> Declaration {
        Declaration::new("root-ca-certificate-publisher-controller")
            .alias("root-ca-cert-publisher")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("root-ca-cert-publisher")
            .keys_objects("namespaces", &[NAMESPACES])
            .queue("root_ca_cert_publisher")
            .read::<Namespace>()
            .read::<ConfigMap>()
            .write(CONFIG_MAPS, "", &["create", "patch"])
            .counter(
                SYNCS,
                &["code"],
                "[ALPHA] Number of namespace syncs happened in root ca cert publisher.",
            )
            .histogram(
                SECONDS,
                &["code"],
                &buckets::exponential(0.001, 2.0, 15),
                "[ALPHA] Number of namespace syncs happened in root ca cert publisher.",
            )
            .option(
                ROOT_CA_FILE,
                OptionKind::File,
                "",
                "file with the certificates that verify the API server, in PEM",
            )
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        let mut plan = Plan::new();
        let bundle = ctx.option(ROOT_CA_FILE)?;
        let Some(namespace) = ctx.primary::<Namespace>()? else { return Ok(plan) };
        if bundle.is_empty() || !namespace.is_active() {
            return Ok(plan);
        }
        let name = &namespace.metadata.name;
        count_failures(ctx, &mut plan);
        let map = ctx.get::<ConfigMap>(name, NAME)?;
        if map.is_none() && !is_terminating(ctx) {
            // Counted once the map is seen: a creation is not a sync of its own beside that.
            plan.then(create(name, bundle)?);
            return Ok(plan);
        }
        plan.measure_if(Occasion::Succeeded, SYNCS, &["200"], Measure::Number(1.0));
        plan.measure_if(Occasion::Succeeded, SECONDS, &["200"], Measure::Elapsed);
        plan.then(map.and_then(|map| repair(name, &map, bundle)));
        Ok(plan)
    }
}

/// Counts syncs that failed by the code that the API server answered, which the sync after them knows. That a namespace
/// takes no more objects is no failure.
fn count_failures(ctx: &Ctx<'_>, plan: &mut Plan) {
    for failure in ctx.failures(CREATE).chain(ctx.failures(UPDATE)).filter(|failure| !is_of_the_end(failure))
    {
        let code = if failure.status == 0 { 500 } else { failure.status };
        plan.measure(SYNCS, &[&code.to_string()], 1.0);
    }
}

fn create(namespace: &str, bundle: &str) -> Result<Action> {
    let map = json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": NAME,
            "namespace": namespace,
            "annotations": { DESCRIPTION: DESCRIPTION_TEXT },
        },
        "data": { FIELD: bundle },
    });
    Ok(Action::create(CONFIG_MAPS, namespace, NAME, &map)?.tag(CREATE))
}

/// Makes the data what it should be, and describes a map that is not described. A
/// description of somebody else's stands until there is something else to repair.
fn repair(namespace: &str, map: &Object<ConfigMap>, bundle: &str) -> Option<Action> {
    let mut patch = json!({});
    if map.data.get(FIELD).map(String::as_str) != Some(bundle) {
        patch["data"][FIELD] = json!(bundle);
    }
    for field in map.data.keys().filter(|field| *field != FIELD) {
        patch["data"][field] = Value::Null;
    }
    let description = &map.metadata.annotations.description;
    let is_needed = patch.get("data").is_some() || description.is_empty();
    if is_needed && description != DESCRIPTION_TEXT {
        patch["metadata"]["annotations"][DESCRIPTION] = json!(DESCRIPTION_TEXT);
    }
    is_needed.then(|| Action::merge(CONFIG_MAPS, namespace, NAME, &patch).as_seen(map).tag(UPDATE))
}

/// Whether the API server knows that the namespace is being deleted before the
/// cache does.
fn is_terminating(ctx: &Ctx<'_>) -> bool {
    ctx.failures(CREATE).any(is_of_the_end)
}

fn is_of_the_end(failure: &Failure) -> bool {
    failure.status == 404 || failure.is_of_terminating_namespace()
}

coxswain_sdk::export!(RootCaCertificatePublisher);
