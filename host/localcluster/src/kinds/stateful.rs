//! StatefulSet.

use serde_json::{Value, json};

use super::apps::{counts, labels_match, not_above, unsound};
use super::internal;
use super::meta::{invalid_all, non_negative};
use super::names;
use super::pod_defaults;
use super::pod_validation;
use super::scale::Scale;
use super::spec::{Generation, Spec};
use super::value::{child, empty, fill, int, items, items_mut, present, remove, set, text};
use super::volume_claims;
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, containers, name, wide};

pub(super) fn spec() -> Spec {
    Spec {
        warnings: super::warnings::stateful_set,
        name: names::NameRule::Label,
        generation: Generation::Spec,
        default: defaults,
        create: |_, object| {
            drop_disabled(object);
            Ok(())
        },
        update: |_, _, _, new| {
            drop_disabled(new);
            Ok(())
        },
        validate,
        validate_update,
        validate_sub: |sub, _, new| if sub == "status" { status(&new["status"]) } else { Vec::new() },
        scale: Some(Scale::LabelSelector),
        columns: Columns::Own(COLUMNS, cells),
        ..Spec::new()
    }
}

/// The feature gate MaxUnavailableStatefulSet is off: what it would allow is not stored.
fn drop_disabled(object: &mut Value) {
    if let Some(rolling) = present(&mut object["spec"]["updateStrategy"], "rollingUpdate") {
        remove(rolling, "maxUnavailable");
    }
}

fn defaults(object: &mut Value) {
    let spec = child(object, "spec");
    fill(spec, "podManagementPolicy", "OrderedReady");
    fill(spec, "replicas", 1);
    fill(spec, "revisionHistoryLimit", 10);
    let strategy = child(spec, "updateStrategy");
    if text(strategy, "type").is_empty() {
        set(strategy, "type", "RollingUpdate");
        child(strategy, "rollingUpdate");
    }
    // A strategy that is only named has no partition.
    if text(strategy, "type") == "RollingUpdate" {
        if let Some(rolling) = present(strategy, "rollingUpdate") {
            fill(rolling, "partition", 0);
        }
    }
    let retention = child(spec, "persistentVolumeClaimRetentionPolicy");
    fill(retention, "whenDeleted", "Retain");
    fill(retention, "whenScaled", "Retain");
    for claim in items_mut(spec, "volumeClaimTemplates") {
        set(claim, "apiVersion", "v1");
        set(claim, "kind", "PersistentVolumeClaim");
        volume_claims::claim_defaults(claim);
        fill(child(claim, "status"), "phase", "Pending");
    }
    pod_defaults::template(child(spec, "template"));
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    match text(spec, "podManagementPolicy") {
        "OrderedReady" | "Parallel" => {}
        other => {
            let detail = "must be 'OrderedReady' or 'Parallel'";
            out.push(FieldError::invalid("spec.podManagementPolicy", &json!(other), detail));
        }
    }
    let strategy = &spec["updateStrategy"];
    match text(strategy, "type") {
        "OnDelete" if !strategy["rollingUpdate"].is_null() => {
            let detail = "only allowed for updateStrategy 'RollingUpdate'";
            let fields = ["partition", "maxUnavailable"];
            let shown = internal::capitalised(&fields, &strategy["rollingUpdate"]);
            let message = format!("Invalid value: {shown}: {detail}");
            let field = "spec.updateStrategy.rollingUpdate";
            out.push(FieldError::raw(FieldReason::Invalid, field, message));
        }
        "OnDelete" => {}
        "RollingUpdate" => {
            let partition = int(&strategy["rollingUpdate"], "partition");
            non_negative(&mut out, "spec.updateStrategy.rollingUpdate.partition", partition);
        }
        _ => {
            let shown = internal::strategy(strategy, &["partition", "maxUnavailable"]);
            let message = format!("Invalid value: {shown}: must be 'RollingUpdate' or 'OnDelete'");
            out.push(FieldError::raw(FieldReason::Invalid, "spec.updateStrategy", message));
        }
    }
    for key in ["whenDeleted", "whenScaled"] {
        let value = &spec["persistentVolumeClaimRetentionPolicy"][key];
        if !matches!(value.as_str(), Some("Retain" | "Delete") | None) {
            let field = format!("spec.persistentVolumeClaimRetentionPolicy.{key}");
            out.push(FieldError::not_supported(field, value, &["Retain", "Delete"]));
        }
    }
    for (i, claim) in items(spec, "volumeClaimTemplates").iter().enumerate() {
        let path = format!("spec.volumeClaimTemplates[{i}]");
        volume_claims::claim_spec(&mut out, &claim["spec"], &format!("{path}.spec"));
    }
    non_negative(&mut out, "spec.replicas", int(spec, "replicas"));
    non_negative(&mut out, "spec.minReadySeconds", int(spec, "minReadySeconds"));
    non_negative(&mut out, "spec.ordinals.start", int(&spec["ordinals"], "start"));
    let service = text(spec, "serviceName");
    // Only new ones are held to it; it does not change.
    let new = text(&object["metadata"], "resourceVersion").is_empty();
    if new && !service.is_empty() {
        invalid_all(&mut out, "spec.serviceName", &json!(service), names::label(service));
    }
    let selector = &spec["selector"];
    if selector.is_null() {
        out.push(FieldError::required("spec.selector", ""));
    } else {
        pod_validation::label_selector(&mut out, selector, "spec.selector");
        if empty(&selector["matchLabels"]) && empty(&selector["matchExpressions"]) {
            let detail = "empty selector is invalid for statefulset";
            out.push(FieldError::invalid("spec.selector", &json!({}), detail));
        }
    }
    if pod_validation::selector_is_sound(selector) {
        labels_match(&mut out, spec);
        // What is wrong with its metadata is said by the set and by the template.
        pod_validation::template_metadata(&mut out, &spec["template"], "spec.template");
        pod_validation::template(&mut out, &with_claims(spec), "spec.template");
    } else {
        out.push(unsound(selector, ""));
    }
    let template = &spec["template"]["spec"];
    let policy = text(template, "restartPolicy");
    if policy != "Always" {
        let field = "spec.template.spec.restartPolicy";
        out.push(FieldError::not_supported(field, &json!(policy), &["Always"]));
    }
    if !template["activeDeadlineSeconds"].is_null() {
        let field = "spec.template.spec.activeDeadlineSeconds";
        let detail = "activeDeadlineSeconds in StatefulSet is not Supported";
        out.push(FieldError::forbidden(field, detail));
    }
    out
}

/// The template with a volume for each claim, as its pods will have.
fn with_claims(spec: &Value) -> Value {
    let mut template = spec["template"].clone();
    let mut volumes = Vec::new();
    let mut added: Vec<&str> = Vec::new();
    for claim in items(spec, "volumeClaimTemplates") {
        let name = text(&claim["metadata"], "name");
        added.push(name);
        volumes.push(json!({"name": name, "persistentVolumeClaim": {"claimName": name}}));
    }
    for volume in items(&template["spec"], "volumes") {
        if !added.contains(&text(volume, "name")) {
            volumes.push(volume.clone());
        }
    }
    if !volumes.is_empty() {
        set(child(&mut template, "spec"), "volumes", volumes);
    }
    // The controller sets both.
    for key in ["hostname", "subdomain"] {
        remove(&mut template["spec"], key);
    }
    template
}

fn validate_update(old: &Value, new: &Value) -> Vec<FieldError> {
    const MUTABLE: [&str; 7] = [
        "replicas",
        "ordinals",
        "template",
        "updateStrategy",
        "revisionHistoryLimit",
        "persistentVolumeClaimRetentionPolicy",
        "minReadySeconds",
    ];
    let fixed = |object: &Value| {
        let mut spec = object["spec"].as_object().cloned().unwrap_or_default();
        spec.retain(|key, _| !MUTABLE.contains(&key.as_str()));
        spec
    };
    if fixed(old) == fixed(new) {
        return Vec::new();
    }
    let detail = "updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";
    vec![FieldError::forbidden("spec", detail)]
}

fn status(status: &Value) -> Vec<FieldError> {
    let keys = [
        "replicas",
        "readyReplicas",
        "currentReplicas",
        "updatedReplicas",
        "availableReplicas",
        "observedGeneration",
        "collisionCount",
    ];
    let mut out = counts(status, &keys);
    let than = "cannot be greater than status.replicas";
    for key in ["readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"] {
        not_above(&mut out, status, key, "replicas", than);
    }
    let ready = "cannot be greater than status.readyReplicas";
    not_above(&mut out, status, "availableReplicas", "readyReplicas", ready);
    out
}

const COLUMNS: &[Column] = &[NAME, column("Ready"), AGE, wide("Containers"), wide("Images")];

fn cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let [names, images] = containers(&spec["template"]);
    let ready = format!("{}/{}", int(status, "readyReplicas"), int(spec, "replicas"));
    vec![name(object), json!(ready), age(object, now), names, images]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_of_the_set_count_as_volumes() {
        let mut object = json!({"spec": {
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": "d", "mountPath": "/d"}]}]}},
            "volumeClaimTemplates": [{"metadata": {"name": "d"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}],
        }});
        defaults(&mut object);
        assert_eq!(validate(&object), Vec::new());
    }
}
