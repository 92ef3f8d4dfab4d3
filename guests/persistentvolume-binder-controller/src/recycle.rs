//! Scrubbing a volume, so that the next claim can have it.
//!
//! A pod mounts the volume and empties it. It is found again by its name; when
//! it says that it is done, it is believed only if it is, past the cache, the
//! pod that would be made here: anybody might have made one of that name.
//! Between reconciles it is kept when scrubbing failed last, so that the next
//! try waits; if that is lost it does not.

use coxswain_sdk::resource::PODS;
use coxswain_sdk::volumes::{Pod, pods_of_claim};
use coxswain_sdk::{About, Action, Ask, Ctx, Object, Plan, Result};
use serde_json::{Value, json};

use crate::bind::unbind;
use crate::names::{FAILED_RECYCLE, RECYCLED};
use crate::notice;
use crate::options::Options;
use crate::reclaim::{fail, is_claimed};
use crate::view::{Claim, Volume};

const NAMESPACE: &str = "default";
const TAG: &str = "recycler";
const GIB: i64 = 1 << 30;

/// Has a volume scrubbed and makes it available again.
pub fn recycle(ctx: &Ctx<'_>, options: &Options, plan: &mut Plan, volume: &Object<Volume>) -> Result<()> {
    if is_claimed(ctx, volume)? {
        return Ok(());
    }
    if let Some(text) = used_by(ctx, volume)? {
        let event = About::of::<Volume, _>(&volume.metadata).normal(FAILED_RECYCLE, text.clone());
        notice::tell(ctx, plan, options.sync_period, &text, vec![event]);
        return Ok(());
    }
    let Some(wanted) = scrubber(options, volume) else {
        return fail(plan, volume, FAILED_RECYCLE, "No recycler plugin found for the volume!");
    };
    let name = pod_name(volume);
    match ctx.get::<Pod>(NAMESPACE, &name)? {
        None => start(ctx, options, plan, volume, &name, &wanted),
        Some(pod) if pod.metadata.is_deleting() => Ok(()),
        Some(pod) => match pod.status.phase.as_str() {
            "Succeeded" => {
                plan.then(remove(&pod));
                if !scrubs(&live_pod(ctx, &name)?["spec"], &wanted) {
                    return failed(ctx, options, plan, volume, "old recycler pod found, will retry later");
                }
                plan.event(About::of::<Volume, _>(&volume.metadata).normal(RECYCLED, "Volume recycled"));
                notice::forget(ctx, plan);
                unbind(plan, volume)
            }
            "Failed" => {
                plan.then(remove(&pod));
                let live = live_pod(ctx, &name)?;
                let message = live["status"]["message"].as_str().filter(|message| !message.is_empty());
                let why = message.unwrap_or("pod failed, pod.Status.Message unknown");
                failed(ctx, options, plan, volume, &format!("failed to recycle volume: {why}"))
            }
            _ => Ok(()),
        },
    }
}

fn pod_name(volume: &Volume) -> String {
    format!("recycler-for-{}", volume.metadata.name)
}

/// Pods that still use the volume, in words. A new claim of the same name has
/// another volume, and so have its pods.
fn used_by(ctx: &Ctx<'_>, volume: &Volume) -> Result<Option<String>> {
    let Some(claim_ref) = &volume.spec.claim_ref else { return Ok(None) };
    if ctx.get::<Claim>(&claim_ref.namespace, &claim_ref.name)?.is_some() {
        return Ok(None);
    }
    let pods = pods_of_claim::<Pod>(ctx, &claim_ref.namespace, &claim_ref.name)?;
    let active = pods.iter().filter(|pod| !pod.has_ended());
    let names: Vec<String> =
        active.map(|pod| format!("{}/{}", pod.metadata.namespace, pod.metadata.name)).collect();
    Ok((!names.is_empty()).then(|| format!("Volume is used by pods: {}", names.join(","))))
}

fn start(
    ctx: &Ctx<'_>,
    options: &Options,
    plan: &mut Plan,
    volume: &Object<Volume>,
    name: &str,
    wanted: &Value,
) -> Result<()> {
    if let Some(failure) = ctx.failures(TAG).next() {
        let text = format!("unexpected error creating recycler pod:  {}", failure.message);
        return failed(ctx, options, plan, volume, &text);
    }
    if let Some(at) = notice::said_at(ctx, FAILED_RECYCLE) {
        let again = at + options.sync_period;
        if ctx.now() < again && at <= ctx.now() {
            plan.come_back(again);
            return Ok(());
        }
    }
    let body = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": { "name": name, "namespace": NAMESPACE },
        "spec": wanted,
    });
    plan.then(Action::create(PODS, NAMESPACE, name, &body)?.tag(TAG));
    Ok(())
}

fn failed(
    ctx: &Ctx<'_>,
    options: &Options,
    plan: &mut Plan,
    volume: &Object<Volume>,
    why: &str,
) -> Result<()> {
    notice::remember(plan, ctx.now(), FAILED_RECYCLE);
    plan.come_back(ctx.now() + options.sync_period);
    fail(plan, volume, FAILED_RECYCLE, &format!("Recycle failed: {why}"))
}

fn remove(pod: &Pod) -> Action {
    Action::delete(PODS, NAMESPACE, &pod.metadata.name).uid(&pod.metadata.uid).tag("remove-recycler")
}

/// Spec of the pod that scrubs a volume. None if no pod can.
fn scrubber(options: &Options, volume: &Volume) -> Option<Value> {
    let (source, limits) = match (&volume.spec.host_path, &volume.spec.nfs) {
        (Some(directory), _) => (json!({ "hostPath": { "path": directory.path } }), options.host_path),
        (None, Some(export)) => {
            (json!({ "nfs": { "server": export.server, "path": export.path } }), options.nfs)
        }
        (None, None) => return None,
    };
    let mut vol = source;
    vol["name"] = json!("vol");
    let size = volume.spec.capacity.storage.map_or(0, |size| size.value());
    let seconds = (size / GIB).saturating_mul(limits.increment).max(limits.minimum);
    Some(json!({
        "activeDeadlineSeconds": seconds,
        "restartPolicy": "Never",
        "volumes": [vol],
        "containers": [{
            "name": "pv-recycler",
            "image": "registry.k8s.io/build-image/debian-base:bookworm-v1.0.6",
            "command": ["/bin/sh"],
            "args": [
                "-c",
                "test -e /scrub && find /scrub -mindepth 1 -delete && test -z \"$(ls -A /scrub)\" || exit 1",
            ],
            "volumeMounts": [{ "name": "vol", "mountPath": "/scrub" }],
        }],
    }))
}

/// The pod past the cache; null if there is none.
fn live_pod(ctx: &Ctx<'_>, name: &str) -> Result<Value> {
    Ok(ctx.find_live(Ask::get(PODS, NAMESPACE, name))?.unwrap_or_default())
}

/// Whether this is a pod that is made here. Admission may add to it, so only
/// what does the scrubbing is compared.
pub(crate) fn scrubs(spec: &Value, wanted: &Value) -> bool {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let (containers, wanted_container) = (list(&spec["containers"]), &wanted["containers"][0]);
    let [container] = containers.as_slice() else { return false };
    let same = ["image", "command", "args"].iter().all(|field| container[field] == wanted_container[field]);
    let mount = &wanted_container["volumeMounts"][0];
    let mounts = list(&container["volumeMounts"]);
    let mounted = mounts.iter().any(|there| {
        there["name"] == mount["name"]
            && there["mountPath"] == mount["mountPath"]
            && there["subPath"].is_null()
            && there["readOnly"] != json!(true)
    });
    let covered = mounts.iter().filter(|there| {
        there["mountPath"].as_str().is_some_and(|path| path == "/scrub" || path.starts_with("/scrub/"))
    });
    let volume = &wanted["volumes"][0];
    let volumes = list(&spec["volumes"]);
    let has_volume = volumes.iter().any(|there| {
        there["name"] == volume["name"]
            && there["hostPath"]["path"] == volume["hostPath"]["path"]
            && there["nfs"]["server"] == volume["nfs"]["server"]
            && there["nfs"]["path"] == volume["nfs"]["path"]
    });
    same && mounted && covered.count() == 1 && has_volume && list(&spec["initContainers"]).is_empty()
}
