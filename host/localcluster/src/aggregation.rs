//! APIServices: groups that another server would serve.
//!
//! In: APIServices and the services they name. Out: their condition `Available`; groups in discovery. Invariant: nothing
//! is proxied, so such a group is announced as the real server announces one whose server does not answer: stale in
//! aggregated discovery, 503 at its own path.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::endpoints;
use crate::kinds::value::{items, text};
use crate::patch::PatchType;
use crate::rest::clock;
use crate::rest::options::ListOptions;
use crate::rest::strategy::Lookup;
use crate::rest::{InProcess, Target, WatchEvent, keep_following};

const GROUP: &str = "apiregistration.k8s.io";
const API_SERVICES: Target<'static> = Target::new("apiregistration.k8s.io/v1", "apiservices");
/// How often services that APIServices name are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Groups that other servers would serve, each with its versions, in the order of names.
pub fn remote_groups(lookup: &dyn Lookup) -> Vec<(String, Vec<String>)> {
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    for service in lookup.few(GROUP, "apiservices").iter().filter(|s| is_remote(s)) {
        let (group, version) = (text(&service["spec"], "group"), text(&service["spec"], "version"));
        match groups.iter_mut().find(|(name, _)| name == group) {
            Some((_, versions)) => versions.push(version.to_owned()),
            None => groups.push((group.to_owned(), vec![version.to_owned()])),
        }
    }
    groups.sort();
    groups
}

fn is_remote(api_service: &Value) -> bool {
    api_service["spec"]["service"].is_object()
}

/// Runs until cancelled.
pub async fn run(api: InProcess, cancel: CancellationToken) {
    keep_following(cancel, || follow(&api)).await;
}

async fn follow(api: &InProcess) {
    let mut watching = match api.watch(&API_SERVICES, &ListOptions::default()) {
        Ok(watching) => watching,
        Err(error) => {
            tracing::warn!(%error, "APIServices cannot be watched");
            return;
        }
    };
    let mut look = tokio::time::interval(LOOK_EVERY);
    let mut any_remote = false;
    loop {
        tokio::select! {
            event = watching.next() => match event {
                Some(WatchEvent::Added(service) | WatchEvent::Modified(service)) => {
                    any_remote |= is_remote(&service);
                    judge(api, &service);
                }
                Some(WatchEvent::Deleted(_) | WatchEvent::Bookmark(..)) => {}
                Some(WatchEvent::Error(_)) | None => return,
            },
            _ = look.tick(), if any_remote => {
                let Ok((all, _)) = api.list(&API_SERVICES, "", "").await else { continue };
                all.iter().filter(|s| is_remote(s)).for_each(|service| judge(api, service));
                any_remote = all.iter().any(is_remote);
            }
        }
    }
}

/// Writes the condition if it is another one.
fn judge(api: &InProcess, api_service: &Value) {
    let (status, reason, message) = verdict(api, api_service);
    let conditions = items(&api_service["status"], "conditions");
    let known = conditions.iter().find(|c| text(c, "type") == "Available");
    if known.is_some_and(|c| c["status"] == status && c["reason"] == reason && c["message"] == message) {
        return;
    }
    let same = known.filter(|c| c["status"] == status).map(|c| c["lastTransitionTime"].clone());
    let now = || clock::seconds(api.rest().now()).into();
    let mut wanted: Vec<Value> =
        conditions.iter().filter(|c| text(c, "type") != "Available").cloned().collect();
    wanted.push(json!({
        "type": "Available", "status": status, "reason": reason, "message": message,
        "lastTransitionTime": same.unwrap_or_else(now),
    }));
    let name = text(&api_service["metadata"], "name");
    let target = API_SERVICES.named(name).sub("status");
    if let Err(error) = api.patch(&target, PatchType::Merge, &json!({"status": {"conditions": wanted}})) {
        // Somebody else was quicker, which another event tells.
        tracing::debug!(%error, name, "the condition of an APIService is not written");
    }
}

fn verdict(api: &InProcess, api_service: &Value) -> (&'static str, &'static str, String) {
    if !is_remote(api_service) {
        return ("True", "Local", "Local APIServices are always available".to_owned());
    }
    let reference = &api_service["spec"]["service"];
    let (namespace, name) = (text(reference, "namespace"), text(reference, "name"));
    let Ok(service) = api.get(&Target::new("v1", "services").in_namespace(namespace).named(name)) else {
        return ("False", "ServiceNotFound", format!("service/{name} in {namespace:?} is not present"));
    };
    let port = reference["port"].as_i64().unwrap_or(443);
    if text(&service["spec"], "type") != "ExternalName" {
        let ports = items(&service["spec"], "ports");
        let Some(port) = ports.iter().find(|p| p["port"] == port) else {
            let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
            return ("False", "ServicePortError", message);
        };
        let slices = endpoints::slices(&**api.rest(), namespace, name);
        if slices.is_empty() {
            let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
            return ("False", "EndpointsNotFound", message);
        }
        let port_name = text(port, "name");
        if slices.iter().all(|slice| endpoints::ready(slice, port_name).next().is_none()) {
            let message = format!(
                "endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}"
            );
            return ("False", "MissingEndpoints", message);
        }
    }
    let message = "this server does not pass requests on to other API servers".to_owned();
    ("False", "FailedDiscoveryCheck", message)
}
