//! Group `resource.k8s.io`: claims of devices, their templates, classes and slices.

use serde_json::{Value, json};

use super::dra_rules as rules;
use super::misc::NAME_AND_AGE;
use super::names::NameRule;
use super::spec::{Generation, Spec, StatusMeta};
use super::value::{child, fill, items, items_mut, present, text};
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

pub(super) fn spec(plural: &str) -> Option<Spec> {
    Some(match plural {
        "resourceclaims" => resource_claim(),
        "resourceclaimtemplates" => Spec {
            returns_deleted: true,
            revalidates: true,
            columns: Columns::Own(NAME_AND_AGE, |object, now| vec![name(object), age(object, now)]),
            default: |object| claim_requests(child(child(object, "spec"), "spec")),
            validate: rules::template,
            validate_update: rules::template_change,
            ..Spec::new()
        },
        "deviceclasses" => Spec {
            name: NameRule::Declared,
            validate: rules::class,
            generation: Generation::Spec,
            returns_deleted: true,
            revalidates: true,
            columns: Columns::Own(NAME_AND_AGE, |object, now| vec![name(object), age(object, now)]),
            ..Spec::new()
        },
        "resourceslices" => Spec {
            warnings: super::warnings::resource_slice,
            validate: rules::slice,
            validate_update: rules::slice_change,
            returns_deleted: true,
            unknown_field: Some(|label| {
                format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
            }),
            columns: Columns::Own(SLICES, |object, now| {
                let spec = &object["spec"];
                vec![
                    name(object),
                    json!(text(spec, "nodeName")),
                    json!(text(spec, "driver")),
                    json!(text(&spec["pool"], "name")),
                    age(object, now),
                ]
            }),
            generation: Generation::Spec,
            create: |ctx, object| {
                date_taints(object, &ctx.now);
                Ok(())
            },
            update: |ctx, _, _, new| {
                date_taints(new, &ctx.now);
                Ok(())
            },
            field_names: &["spec.nodeName", "spec.driver"],
            fields: |object| {
                vec![
                    ("spec.nodeName", text(&object["spec"], "nodeName").into()),
                    ("spec.driver", text(&object["spec"], "driver").into()),
                ]
            },
            ..Spec::new()
        },
        _ => return None,
    })
}

const SLICES: &[Column] = &[NAME, column("Node"), column("Driver"), column("Pool"), AGE];

/// Taints of devices say since when they are there.
fn date_taints(object: &mut Value, now: &str) {
    if let Some(spec) = present(object, "spec") {
        for device in items_mut(spec, "devices") {
            for taint in items_mut(device, "taints") {
                fill(taint, "timeAdded", now);
            }
        }
    }
}

/// Requests for devices ask for exactly one unless they say otherwise.
fn claim_requests(spec: &mut Value) {
    let exact = |request: &mut Value| {
        fill(request, "allocationMode", "ExactCount");
        if text(request, "allocationMode") == "ExactCount" {
            super::value::fill_zero(request, "count", 1);
        }
    };
    if let Some(devices) = present(spec, "devices") {
        for request in items_mut(devices, "requests") {
            if let Some(one) = present(request, "exactly") {
                exact(one);
            }
            for one in items_mut(request, "firstAvailable") {
                exact(one);
            }
        }
    }
}

fn resource_claim() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("State"), AGE];
    Spec {
        returns_deleted: true,
        revalidates: true,
        status_meta: StatusMeta::KeepAll,
        default: |object| claim_requests(child(object, "spec")),
        validate: rules::claim,
        validate_update: rules::claim_change,
        validate_sub: |_, old, new| rules::claim_status(old, new),
        columns: Columns::Own(COLUMNS, |object, now| {
            let status = &object["status"];
            let mut states = Vec::new();
            if !object["metadata"]["deletionTimestamp"].is_null() {
                states.push("deleted");
            }
            if status["allocation"].is_null() {
                if object["metadata"]["deletionTimestamp"].is_null() {
                    states.push("pending");
                }
            } else {
                states.push("allocated");
                if !items(status, "reservedFor").is_empty() {
                    states.push("reserved");
                }
            }
            vec![name(object), json!(states.join(",")), age(object, now)]
        }),
        ..Spec::new()
    }
}
