//! A made-up kind and versions of its controller, for tests that swap them.

use std::time::Duration;

use coxswain::controller::ControllerStatus;
use coxswain_localcluster::Target;
use coxswain_tests::{Bed, LIMIT, test_guest, text};
use serde_json::{Value, json};

/// The controller of all these versions.
pub const CONTROLLER: &str = "gadget-controller";
const GROUP: &str = "test.example";
const API_VERSION: &str = "test.example/v1";

/// Another version of the gadget controller.
pub fn variant(name: &str) -> anyhow::Result<Vec<u8>> {
    let marked = |name: &str| format!("gadget-variant={name:<16}").into_bytes();
    patched(&test_guest("gadget-variants")?, &marked("panics"), &marked(name))
}

/// A module in which one text is replaced by another, just as long.
pub fn patched(bytes: &[u8], from: &[u8], to: &[u8]) -> anyhow::Result<Vec<u8>> {
    anyhow::ensure!(from.len() == to.len(), "{from:?} and {to:?} differ in length");
    let mut patched = bytes.to_vec();
    let mut found = false;
    for at in 0..bytes.len().saturating_sub(from.len()) {
        if bytes[at..].starts_with(from) {
            patched[at..at + to.len()].copy_from_slice(to);
            found = true;
        }
    }
    anyhow::ensure!(found, "{:?} is not in it", String::from_utf8_lossy(from));
    Ok(patched)
}

/// Has the cluster serve a made-up kind.
pub fn define(bed: &Bed, plural: &str, kind: &str) -> anyhow::Result<()> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    bed.create(
        "customresourcedefinitions",
        &json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{GROUP}")},
            "spec": {
                "group": GROUP, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema},
                }],
            },
        }),
    )?;
    Ok(())
}

/// A bed with gadgets and this version of their controller.
pub async fn bed(version: &[u8], change: impl FnOnce(&mut coxswain::manager::Config)) -> anyhow::Result<Bed> {
    let bed = Bed::start_with(Vec::new(), |config| {
        config.discovery_interval = Duration::from_millis(100);
        change(config);
    })
    .await?;
    define(&bed, "gadgets", "Gadget")?;
    bed.install(CONTROLLER, version)?;
    bed.until("the controller is ready", LIMIT, async |bed| {
        Ok(bed.manager.controller(CONTROLLER).is_some_and(|c| c.status().ready))
    })
    .await?;
    Ok(bed)
}

/// Creates a gadget.
pub fn create(bed: &Bed, name: &str, parts: u32) -> anyhow::Result<Value> {
    let gadget = json!({
        "apiVersion": API_VERSION, "kind": "Gadget",
        "metadata": {"namespace": "default", "name": name}, "spec": {"parts": parts},
    });
    bed.create("gadgets", &gadget)
}

/// Changes how many parts a gadget wants.
pub fn set_parts(bed: &Bed, name: &str, parts: u32) -> anyhow::Result<()> {
    let target = Target::new(API_VERSION, "gadgets").in_namespace("default").named(name);
    let mut gadget = bed.api().get(&target).map_err(|s| anyhow::anyhow!("{}", s.message))?;
    gadget["spec"]["parts"] = parts.into();
    bed.api().update(&target, &gadget).map_err(|s| anyhow::anyhow!("{}", s.message))?;
    Ok(())
}

/// A field of a gadget's status.
pub fn status(bed: &Bed, name: &str, field: &str) -> Value {
    let gadget = bed.get(API_VERSION, "gadgets", "default", name);
    gadget.map(|gadget| gadget["status"][field].clone()).unwrap_or_default()
}

/// Waits until the controller has noted this of what a gadget's state holds.
pub async fn until_seen(bed: &Bed, name: &str, seen: &str) -> anyhow::Result<()> {
    bed.until(&format!("{name} has seen {seen:?}"), LIMIT, async |bed| {
        Ok(text(&status(bed, name, "seen")) == seen)
    })
    .await
}

/// The controller as it is now.
pub fn controller(bed: &Bed) -> anyhow::Result<ControllerStatus> {
    let controller = bed.manager.controller(CONTROLLER);
    controller.map(|c| c.status()).ok_or_else(|| anyhow::anyhow!("no {CONTROLLER} runs"))
}

/// Waits until this version runs.
pub async fn until_runs(bed: &Bed, version: &str) -> anyhow::Result<()> {
    bed.until(&format!("{version} runs"), LIMIT, async |bed| {
        Ok(controller(bed).is_ok_and(|status| status.version == version))
    })
    .await
}
