//! The loop behind CustomResourceDefinitions: names accepted, kinds served, instances removed with their definition.
//!
//! In: watch events of definitions. Out: writes to their status, installed and removed kinds. Invariant: the finalizer
//! goes only when no instance is left.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{accept, kinds_of, names};
use crate::kinds::value::{items, text};
use crate::patch::PatchType;
use crate::rest::options::{DeleteOptions, ListOptions};
use crate::rest::{InProcess, Rest, Target, WatchEvent, clock, keep_following};
use crate::status::Status;

const API: &str = "apiextensions.k8s.io/v1";
const PLURAL: &str = "customresourcedefinitions";
/// Keeps a definition until its instances are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";

/// Runs until cancelled.
pub async fn run(rest: Arc<Rest>, cancel: CancellationToken) {
    let api = InProcess::new(rest, "kube-apiserver");
    keep_following(cancel, || follow(&api)).await;
}

async fn follow(api: &InProcess) {
    let mut watching = match api.watch(&Target::new(API, PLURAL), &ListOptions::default()) {
        Ok(watching) => watching,
        Err(error) => {
            tracing::warn!(%error, "custom resource definitions cannot be watched");
            return;
        }
    };
    while let Some(event) = watching.next().await {
        match event {
            WatchEvent::Added(crd) | WatchEvent::Modified(crd) => {
                if let Err(error) = handle(api, &crd).await {
                    // Conflicts come back as another event.
                    if error.code != 409 && error.code != 404 {
                        tracing::warn!(%error, name = text(&crd["metadata"], "name"), "custom resource definition");
                    }
                }
            }
            WatchEvent::Deleted(crd) => {
                unserve(api, &crd);
                // Names that were taken may be free now.
                retry_refused(api).await;
            }
            WatchEvent::Bookmark(..) => {}
            WatchEvent::Error(_) => return,
        }
    }
}

async fn handle(api: &InProcess, crd: &Value) -> Result<(), Status> {
    let name = text(&crd["metadata"], "name");
    let target = Target::new(API, PLURAL).named(name);
    if !crd["metadata"]["deletionTimestamp"].is_null() {
        if items(&crd["metadata"], "finalizers").iter().any(|f| f == FINALIZER) {
            return clean_up(api, crd, &target).await;
        }
        return Ok(());
    }
    let mut changed = crd.clone();
    let (others, _) = api.list(&Target::new(API, PLURAL), "", "").await?;
    if accept(&mut changed, &others, &clock::seconds(api.rest().now())) {
        // Whoever finds the kind served finds it established too, and what that forbids forbidden.
        api.update(&target.sub("status"), &changed)?;
    }
    serve(api.rest(), &changed);
    Ok(())
}

fn established(crd: &Value) -> bool {
    items(&crd["status"], "conditions")
        .iter()
        .any(|c| text(c, "type") == "Established" && text(c, "status") == "True")
}

/// Serves the kinds of a definition, if it is established.
pub fn serve(rest: &Rest, crd: &Value) {
    if established(crd) {
        let names = &crd["status"]["acceptedNames"];
        let (group, plural) = (text(&crd["spec"], "group"), text(names, "plural"));
        rest.registry().install(group, plural, kinds_of(crd));
    }
}

fn unserve(api: &InProcess, crd: &Value) {
    if established(crd) {
        let plural = text(&crd["status"]["acceptedNames"], "plural");
        api.rest().registry().remove(text(&crd["spec"], "group"), plural);
    }
}

/// Deletes all instances, then lets the definition go.
async fn clean_up(api: &InProcess, crd: &Value, target: &Target<'_>) -> Result<(), Status> {
    if established(crd) {
        let kinds = kinds_of(crd);
        let kind = kinds.iter().find(|k| k.strategy.is_storage_version()).or(kinds.first());
        if let Some(kind) = kind {
            let api_version = kind.api_version();
            let all = Target::new(&api_version, &kind.plural);
            let (instances, _) = api.list(&all, "", "").await?;
            for instance in &instances {
                let meta = &instance["metadata"];
                let one = all.in_namespace(text(meta, "namespace")).named(text(meta, "name"));
                match api.delete(&one, &DeleteOptions::default()) {
                    Err(error) if error.code != 404 => return Err(error),
                    _ => {}
                }
            }
            let (left, _) = api.list(&all, "", "").await?;
            if !left.is_empty() {
                return wait_for_finalizers(api, crd, target).await;
            }
        }
    }
    let rest: Vec<&Value> =
        items(&crd["metadata"], "finalizers").iter().filter(|f| *f != FINALIZER).collect();
    let patch = json!({"metadata": {"uid": crd["metadata"]["uid"], "finalizers": rest}});
    unserve(api, crd);
    api.patch(target, PatchType::Merge, &patch).map(drop)
}

/// Instances with finalizers hold the definition back; look again soon.
async fn wait_for_finalizers(api: &InProcess, crd: &Value, target: &Target<'_>) -> Result<(), Status> {
    let mut waiting = crd.clone();
    let condition = json!({
        "type": "Terminating",
        "status": "True",
        "reason": "InstanceDeletionInProgress",
        "message": "CustomResource deletion is in progress",
    });
    names::set_condition(&mut waiting, condition, &clock::seconds(api.rest().now()));
    if waiting != *crd {
        return api.update(&target.sub("status"), &waiting).map(drop);
    }
    let (api, crd) = (api.clone(), crd.clone());
    tokio::spawn(async move {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let name = text(&crd["metadata"], "name").to_owned();
        let target = Target::new(API, PLURAL).named(&name);
        if let Ok(current) = api.get(&target) {
            if current["metadata"]["uid"] == crd["metadata"]["uid"] {
                let again = clean_up_later(api.clone(), current);
                again.await;
            }
        }
    });
    Ok(())
}

/// Boxed, as cleaning up may wait and waiting may clean up.
fn clean_up_later(api: InProcess, crd: Value) -> std::pin::Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        let name = text(&crd["metadata"], "name").to_owned();
        let target = Target::new(API, PLURAL).named(&name);
        if let Err(error) = clean_up(&api, &crd, &target).await {
            tracing::debug!(%error, name, "custom resource definition is not cleaned up yet");
        }
    })
}

async fn retry_refused(api: &InProcess) {
    let Ok((all, _)) = api.list(&Target::new(API, PLURAL), "", "").await else { return };
    for crd in all.iter().filter(|c| !established(c)) {
        if let Err(error) = handle(api, crd).await {
            tracing::debug!(%error, "custom resource definition");
        }
    }
}
