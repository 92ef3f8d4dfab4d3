//! One reconcile of a service: what its pods make, and what its Endpoints say.

use coxswain_sdk::contract::{ActionOutcome, Failure};
use coxswain_sdk::endpoints::pod::{Pod, first_news};
use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::endpoints::subsets::{Subset, mean_the_same};
use coxswain_sdk::endpoints::{HEADLESS, TRIGGER_TIME, gather};
use coxswain_sdk::merge::to_value;
use coxswain_sdk::resource::ENDPOINTS;
use coxswain_sdk::sort::lite_map_of_many;
use coxswain_sdk::{About, Action, Ctx, Object, ObjectMeta, Plan, Query, Result, StringMap, Time, merge};
use serde_json::{Map, Value, json};

use crate::capacity::{OVER_CAPACITY, TRUNCATED, truncate};
use crate::desired::desired;
use crate::view::EndpointsObject;
use crate::{BATCH, MANAGED_BY, MANAGER};

const NAMESPACE_TERMINATING: &str = "namespace-terminating";

/// One reconcile.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let Some(service) = ctx.primary::<Service>()? else { return gone(ctx) };
    let mut plan = bring_about(ctx, &service)?;
    gather(&mut plan, ctx.option_duration(BATCH)?);
    Ok(plan)
}

/// What makes the Endpoints of a service those that it should have.
fn bring_about(ctx: &Ctx<'_>, service: &Object<Service>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(selector) = service.selector() else { return Ok(plan) };
    let meta = &service.metadata;
    let pods = ctx.list::<Pod>(Query::all().namespace(&meta.namespace).matching(&selector))?;
    let endpoints = ctx.get::<EndpointsObject>(&meta.namespace, &meta.name)?;

    let refused = report_refusals(ctx, service, endpoints.as_deref(), &mut plan);
    let in_vain = refused || ctx.state() == Some(NAMESPACE_TERMINATING);
    if refused && ctx.state() != Some(NAMESPACE_TERMINATING) {
        plan.keep(NAMESPACE_TERMINATING);
    }

    let mut subsets = desired(service, pods.iter().map(|pod| &**pod));
    let truncated = truncate(&mut subsets);
    let labels = labels(service);
    match endpoints {
        Some(endpoints) => {
            let same = mean_the_same(&endpoints.subsets, &subsets);
            let mark = endpoints.metadata.annotations.over_capacity();
            let labels = merge::diff_of(&endpoints.metadata.labels, &labels)?;
            if same && mark == truncated.then_some(TRUNCATED) && labels.is_none() {
                return Ok(plan);
            }
            let time = trigger_time(&endpoints.subsets, &pods);
            let annotations = annotations(time, truncated);
            let annotations = merge::diff_of(&endpoints.metadata.annotations.to_map(), &annotations)?;
            plan.then(update(&endpoints, (!same).then_some(&subsets), labels, annotations)?);
        }
        None if in_vain => {}
        None => {
            let annotations = annotations(meta.creation_timestamp, truncated);
            plan.then(create(meta, &subsets, &labels, &annotations)?);
        }
    }
    Ok(plan)
}

/// Endpoints go with their service.
fn gone(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let key = ctx.key();
    let endpoints = ctx.get::<EndpointsObject>(&key.namespace, &key.name)?;
    plan.then(endpoints.filter(|endpoints| goes_with_its_service(endpoints)).map(|e| deletion(&e)));
    Ok(plan)
}

/// Also what was made by hand goes. What the controller made is a key of its own,
/// and goes there.
pub fn goes_with_its_service(endpoints: &EndpointsObject) -> bool {
    let meta = &endpoints.metadata;
    !meta.is_deleting() && meta.labels.get(MANAGED_BY).is_none_or(|manager| manager != MANAGER)
}

/// The deletion of an Endpoints object.
pub fn deletion(endpoints: &EndpointsObject) -> Action {
    let meta = &endpoints.metadata;
    Action::delete(ENDPOINTS, &meta.namespace, &meta.name).uid(&meta.uid).tag("delete")
}

fn labels(service: &Service) -> StringMap {
    let mut labels = service.metadata.labels.clone();
    if service.is_headless() {
        labels.insert(HEADLESS.to_owned(), String::new());
    } else {
        labels.remove(HEADLESS);
    }
    labels.insert(MANAGED_BY.to_owned(), MANAGER.to_owned());
    labels
}

fn annotations(time: Option<Time>, truncated: bool) -> StringMap {
    let mut annotations = StringMap::new();
    if let Some(time) = time {
        annotations.insert(TRIGGER_TIME.to_owned(), time.to_string());
    }
    if truncated {
        annotations.insert(OVER_CAPACITY.to_owned(), TRUNCATED.to_owned());
    }
    annotations
}

/// The earliest change of a pod's readiness that these subsets do not show yet.
fn trigger_time(subsets: &[Subset], pods: &[Object<Pod>]) -> Option<Time> {
    let known = subsets.iter().flat_map(|subset| {
        let ready = subset.addresses.iter().map(|address| (address.uid(), Some(true)));
        ready.chain(subset.not_ready_addresses.iter().map(|address| (address.uid(), Some(false))))
    });
    first_news(pods, &lite_map_of_many(known))
}

fn create<A>(
    service: &ObjectMeta<A>,
    subsets: &[Subset],
    labels: &StringMap,
    annotations: &StringMap,
) -> Result<Action> {
    let mut endpoints = json!({
        "apiVersion": ENDPOINTS.api_version(),
        "kind": ENDPOINTS.kind,
        "metadata": {"name": service.name, "namespace": service.namespace, "labels": labels},
    });
    if !annotations.is_empty() {
        endpoints["metadata"]["annotations"] = json!(annotations);
    }
    if !subsets.is_empty() {
        endpoints["subsets"] = to_value(subsets)?;
    }
    Ok(Action::create(ENDPOINTS, &service.namespace, &service.name, &endpoints)?.tag("create"))
}

fn update(
    endpoints: &Object<EndpointsObject>,
    subsets: Option<&Vec<Subset>>,
    labels: Option<Value>,
    annotations: Option<Value>,
) -> Result<Action> {
    let mut metadata = Map::new();
    metadata.extend(labels.map(|labels| ("labels".to_owned(), labels)));
    metadata.extend(annotations.map(|annotations| ("annotations".to_owned(), annotations)));
    let mut body = Map::new();
    if !metadata.is_empty() {
        body.insert("metadata".to_owned(), Value::Object(metadata));
    }
    if let Some(subsets) = subsets {
        let subsets = if subsets.is_empty() { Value::Null } else { to_value(subsets)? };
        body.insert("subsets".to_owned(), subsets);
    }
    let meta = &endpoints.metadata;
    let write = Action::merge(ENDPOINTS, &meta.namespace, &meta.name, &Value::Object(body));
    Ok(write.as_seen(endpoints).tag("update"))
}

/// Tells what was refused of the last plan. Returns whether the namespace is the
/// reason, in which case there is nothing to tell.
fn report_refusals(
    ctx: &Ctx<'_>,
    service: &Service,
    endpoints: Option<&EndpointsObject>,
    plan: &mut Plan,
) -> bool {
    let meta = &service.metadata;
    let uid = endpoints.map(|endpoints| endpoints.metadata.uid.clone()).unwrap_or_default();
    let about: ObjectMeta = ObjectMeta {
        name: meta.name.clone(),
        namespace: meta.namespace.clone(),
        uid,
        ..ObjectMeta::default()
    };
    let about = About::new(ENDPOINTS, &about);
    let mut namespace_terminating = false;
    for result in ctx.results() {
        let ActionOutcome::Failed(failure) = &result.result else { continue };
        let Failure { reason, message, .. } = failure;
        let name = format!("{}/{}", meta.namespace, meta.name);
        match result.tag.as_str() {
            "create" if failure.is_of_terminating_namespace() => {
                namespace_terminating = true;
            }
            "create" => {
                let text = format!("Failed to create endpoint for service {name}: {message}");
                plan.event(about.warning("FailedToCreateEndpoint", text));
            }
            // Somebody else wrote first; what they wrote has been seen by now.
            "update" if reason != "Conflict" => {
                let text = format!("Failed to update endpoint {name}: {message}");
                plan.event(about.warning("FailedToUpdateEndpoint", text));
            }
            _ => {}
        }
    }
    namespace_terminating
}
