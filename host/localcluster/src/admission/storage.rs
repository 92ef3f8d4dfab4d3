//! Protection and default classes of claims and volumes, and which claims may grow.

use serde_json::{Value, json};

use super::refused;
use crate::kinds::resources::quantity;
use crate::kinds::value::{child, flag, items, set, text};
use crate::rest::strategy::{Consulted, Ctx, Kind};
use crate::status::Status;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
const DEFAULT_INGRESS: &str = "ingressclass.kubernetes.io/is-default-class";

/// Adds a finalizer.
pub(super) fn protect(object: &mut Value, finalizer: &str) {
    let meta = child(object, "metadata");
    let mut all = items(meta, "finalizers").to_vec();
    if !all.iter().any(|f| f == finalizer) {
        all.push(json!(finalizer));
        set(meta, "finalizers", all);
    }
}

/// The newest of the classes marked as default, by name if made at once.
fn marked(classes: &[Value], annotation: &str) -> Option<String> {
    let mut found: Vec<&Value> =
        classes.iter().filter(|c| c["metadata"]["annotations"][annotation] == "true").collect();
    found.sort_by(|a, b| {
        let at = |c: &Value| text(&c["metadata"], "creationTimestamp").to_owned();
        at(b).cmp(&at(a)).then_with(|| text(&a["metadata"], "name").cmp(text(&b["metadata"], "name")))
    });
    found.first().map(|c| text(&c["metadata"], "name").to_owned())
}

/// A claim that names no class gets the default one.
pub(super) fn default_class(ctx: &Ctx<'_>, claim: &mut Value) {
    let named = !claim["spec"]["storageClassName"].is_null()
        || claim["metadata"]["annotations"]["volume.beta.kubernetes.io/storage-class"].is_string();
    if named {
        return;
    }
    let classes = ctx.consult(Consulted::StorageClasses).list("");
    if let Some(name) = marked(&classes, DEFAULT_CLASS) {
        set(child(claim, "spec"), "storageClassName", name);
    }
}

/// An ingress that names no class gets the default one.
pub(super) fn default_ingress_class(ctx: &Ctx<'_>, ingress: &mut Value) {
    let named = !ingress["spec"]["ingressClassName"].is_null()
        || ingress["metadata"]["annotations"]["kubernetes.io/ingress.class"].is_string();
    if named {
        return;
    }
    let classes = ctx.consult(Consulted::IngressClasses).list("");
    if let Some(name) = marked(&classes, DEFAULT_INGRESS) {
        set(child(ingress, "spec"), "ingressClassName", name);
    }
}

/// A bound claim grows only if its class allows it.
pub(super) fn may_grow(ctx: &Ctx<'_>, kind: &Kind, old: &Value, new: &Value) -> Result<(), Status> {
    let size = |claim: &Value| quantity(&claim["spec"]["resources"]["requests"]["storage"]);
    if !(size(new) > size(old)) {
        return Ok(());
    }
    if text(&old["status"], "phase") != "Bound" {
        return Err(refused(kind, new, "Only bound persistent volume claims can be expanded"));
    }
    let class = text(&new["spec"], "storageClassName");
    let found = ctx.consult(Consulted::StorageClasses).get("", class);
    if class.is_empty() || !found.is_some_and(|c| flag(&c, "allowVolumeExpansion")) {
        let why = "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize";
        return Err(refused(kind, new, why));
    }
    Ok(())
}
