//! CertificateSigningRequest.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::meta::immutable;
use super::names::{self, NameRule};
use super::spec::{Generation, Spec};
use super::value::{child, copy, empty, fill, int, items, remove, set, text};
use crate::rest::strategy::Ctx;
use crate::status::{FieldError, Status};
use crate::table::{AGE, Column, Columns, NAME, age, column, duration, name};

pub(super) fn spec(plural: &str) -> Option<Spec> {
    if plural != "certificatesigningrequests" {
        return None;
    }
    Some(Spec {
        name: NameRule::PathSegment,
        generation: Generation::None,
        revalidates: true,
        kept: &["spec"],
        default: |object| {
            for condition in super::value::items_mut(child(object, "status"), "conditions") {
                fill(condition, "status", "True");
            }
        },
        create: |ctx, object| {
            let spec = child(object, "spec");
            set(spec, "username", ctx.user.name.clone());
            set(spec, "groups", json!(ctx.user.groups));
            for (key, value) in [("uid", json!(ctx.user.uid)), ("extra", json!(ctx.user.extra))] {
                if empty(&value) {
                    remove(spec, key);
                } else {
                    set(spec, key, value);
                }
            }
            Ok(())
        },
        update,
        validate: |object| {
            let mut out = Vec::new();
            let spec = &object["spec"];
            request(&mut out, text(spec, "request"));
            if empty(&spec["usages"]) {
                out.push(FieldError::required("spec.usages", ""));
            }
            usages(&mut out, items(spec, "usages"));
            signer_name(&mut out, text(spec, "signerName"));
            if let Some(seconds) = spec["expirationSeconds"].as_i64() {
                if seconds < 600 {
                    let detail = "may not specify a duration less than 600 seconds (10 minutes)";
                    out.push(FieldError::invalid("spec.expirationSeconds", &json!(seconds), detail));
                }
            }
            out.extend(conditions(object));
            out
        },
        validate_update: |old, new| {
            let mut out = Vec::new();
            immutable(&mut out, "spec", &old["spec"], &new["spec"]);
            out
        },
        validate_sub: |sub, old, new| match sub {
            "approval" | "status" => {
                let mut out = conditions(new);
                out.extend(changed(sub, old, new));
                out
            }
            _ => Vec::new(),
        },
        field_names: &["spec.signerName"],
        fields: |object| vec![("spec.signerName", text(&object["spec"], "signerName").into())],
        columns: Columns::Own(COLUMNS, cells),
        ..Spec::new()
    })
}

/// What a subresource may not do: decisions stay, and only one of them sets each part.
fn changed(sub: &str, old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let field = "status.conditions";
    let of = |object: &Value, ty: &str| -> Vec<Value> {
        items(&object["status"], "conditions").iter().filter(|c| text(c, "type") == ty).cloned().collect()
    };
    for ty in ["Approved", "Denied", "Failed"] {
        if of(new, ty).len() < of(old, ty).len() {
            let detail = format!("updates may not remove a condition of type {ty:?}");
            out.push(FieldError::forbidden(field, &detail));
        }
    }
    if sub != "approval" {
        for ty in DECISIONS {
            let (before, after) = (of(old, ty), of(new, ty));
            if after.len() > before.len() {
                let detail = format!("updates may not add a condition of type {ty:?}");
                out.push(FieldError::forbidden(field, &detail));
            } else if after.len() == before.len() && after != before {
                let detail = format!("updates may not modify a condition of type {ty:?}");
                out.push(FieldError::forbidden(field, &detail));
            }
        }
    }
    let (had, has) = (text(&old["status"], "certificate"), text(&new["status"], "certificate"));
    if let Some(why) = pem_error(has) {
        let value = json!("<certificate data>");
        out.push(FieldError::invalid("status.certificate", &value, &why));
    }
    if had != has {
        let field = "status.certificate";
        if sub != "status" {
            out.push(FieldError::forbidden(field, "updates may not set certificate content"));
        } else if !had.is_empty() {
            out.push(FieldError::forbidden(field, "updates may not modify existing certificate content"));
        }
    }
    out
}

/// What is wrong with issued certificates, if anything.
fn pem_error(encoded: &str) -> Option<String> {
    if encoded.is_empty() {
        return None;
    }
    let raw = STANDARD.decode(encoded).unwrap_or_default();
    let pem = String::from_utf8_lossy(&raw);
    let mut blocks = 0;
    for line in pem.lines() {
        let Some(ty) = line.strip_prefix("-----BEGIN ").and_then(|l| l.strip_suffix("-----")) else {
            continue;
        };
        if ty != "CERTIFICATE" {
            return Some(format!("only CERTIFICATE PEM blocks are allowed, found {ty:?}"));
        }
        blocks += 1;
    }
    (blocks == 0).then(|| "must contain at least one CERTIFICATE PEM block".into())
}

/// What a certificate may be for.
const USAGES: [&str; 23] = [
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
];

fn usages(out: &mut Vec<FieldError>, all: &[Value]) {
    for (i, usage) in all.iter().enumerate() {
        if !USAGES.iter().any(|known| usage == known) {
            out.push(FieldError::not_supported(format!("spec.usages[{i}]"), usage, &USAGES));
        }
    }
    for (i, usage) in all.iter().enumerate() {
        if all[..i].contains(usage) {
            out.push(FieldError::duplicate(format!("spec.usages[{i}]"), usage));
        }
    }
}

/// A signer is named by a domain and one path.
fn signer_name(out: &mut Vec<FieldError>, name: &str) {
    const FIELD: &str = "spec.signerName";
    if name.is_empty() {
        return out.push(FieldError::required(FIELD, ""));
    }
    let mut refuse = |value: &str, detail: &str| out.push(FieldError::invalid(FIELD, &json!(value), detail));
    if name == "kubernetes.io/legacy-unknown" {
        return refuse(name, "the legacy signerName is not allowed via this API version");
    }
    let Some((domain, path)) = name.split_once('/').filter(|(_, path)| !path.contains('/')) else {
        return refuse(
            name,
            "must be a fully qualified domain and path of the form 'example.com/signer-name'",
        );
    };
    // The first label that is none stands for all.
    let labels = |part: &str| {
        let wrong = part.split('.').map(|label| (label.to_owned(), names::label(label)));
        let first = wrong.into_iter().find(|(_, wrong)| !wrong.is_empty());
        first.map_or(Vec::new(), |(label, wrong)| {
            wrong.iter().map(|why| format!("validating label {label:?}: {why}")).collect::<Vec<String>>()
        })
    };
    labels(domain).iter().for_each(|why| refuse(domain, why));
    if !domain.contains('.') {
        refuse(domain, "should be a domain with at least two segments separated by dots");
    }
    labels(path).iter().for_each(|why| refuse(path, why));
}

const DECISIONS: [&str; 2] = ["Approved", "Denied"];

fn update(ctx: &Ctx<'_>, sub: &str, old: &Value, new: &mut Value) -> Result<(), Status> {
    match sub {
        "" => copy(old, new, "spec"),
        "approval" => {
            // Only conditions change; the certificate stays.
            copy(old, new, "spec");
            let given = new["status"].get("conditions").cloned();
            copy(old, new, "status");
            let status = child(new, "status");
            match given {
                Some(given) => set(status, "conditions", given),
                None => {
                    remove(status, "conditions");
                }
            }
            stamp(ctx, old, new);
        }
        "status" => {
            // Decisions stay as they are; where their number changes, the checks refuse it.
            for ty in DECISIONS {
                let of = |c: &&Value| text(c, "type") == ty;
                let before: Vec<Value> =
                    items(&old["status"], "conditions").iter().filter(of).cloned().collect();
                let after = items(&new["status"], "conditions").iter().filter(of).count();
                if before.len() == after {
                    let mine = super::value::items_mut(child(new, "status"), "conditions");
                    for (condition, kept) in mine.filter(|c| text(c, "type") == ty).zip(before) {
                        *condition = kept;
                    }
                }
            }
            stamp(ctx, old, new);
        }
        _ => {}
    }
    Ok(())
}

/// Conditions without times get them.
fn stamp(ctx: &Ctx<'_>, old: &Value, new: &mut Value) {
    let before = items(&old["status"], "conditions").to_vec();
    for condition in super::value::items_mut(child(new, "status"), "conditions") {
        fill(condition, "lastUpdateTime", ctx.now.clone());
        if condition["lastTransitionTime"].is_null() {
            let same =
                before.iter().find(|c| c["type"] == condition["type"] && c["status"] == condition["status"]);
            let at = same.map(|c| c["lastTransitionTime"].clone()).filter(|t| !t.is_null());
            set(condition, "lastTransitionTime", at.unwrap_or_else(|| json!(ctx.now)));
        }
    }
}

fn request(out: &mut Vec<FieldError>, encoded: &str) {
    let raw = STANDARD.decode(encoded).unwrap_or_default();
    let pem = String::from_utf8_lossy(&raw);
    if !pem.contains("-----BEGIN CERTIFICATE REQUEST-----") {
        let detail = "PEM block type must be CERTIFICATE REQUEST";
        // No bytes at all are null in Go.
        let shown = if encoded.is_empty() { Value::Null } else { json!(encoded) };
        out.push(FieldError::invalid("spec.request", &shown, detail));
    }
}

fn conditions(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let all = items(&object["status"], "conditions");
    let mut seen: Vec<&str> = Vec::new();
    for (i, condition) in all.iter().enumerate() {
        let here = format!("status.conditions[{i}]");
        let (ty, status) = (text(condition, "type"), text(condition, "status"));
        if ty.is_empty() {
            out.push(FieldError::required(format!("{here}.type"), ""));
        }
        if status.is_empty() {
            out.push(FieldError::required(format!("{here}.status"), ""));
        } else if DECISIONS.contains(&ty) && status != "True" {
            let field = format!("{here}.status");
            out.push(FieldError::not_supported(field, &json!(status), &["True"]));
        }
        if DECISIONS.contains(&ty) && seen.iter().any(|s| DECISIONS.contains(s) && *s != ty) {
            let detail = "Approved and Denied conditions are mutually exclusive";
            out.push(FieldError::invalid(format!("{here}.type"), &json!(ty), detail));
        }
        if seen.contains(&ty) {
            out.push(FieldError::duplicate(format!("{here}.type"), &json!(ty)));
        }
        seen.push(ty);
    }
    out
}

const COLUMNS: &[Column] =
    &[NAME, AGE, column("SignerName"), column("Requestor"), column("RequestedDuration"), column("Condition")];

fn cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let lasting = match spec["expirationSeconds"].is_null() {
        true => "<none>".to_owned(),
        false => duration(int(spec, "expirationSeconds")),
    };
    let is = |ty: &str| items(status, "conditions").iter().any(|c| text(c, "type") == ty);
    let mut state = if is("Denied") {
        "Denied"
    } else if is("Approved") {
        "Approved"
    } else {
        "Pending"
    }
    .to_owned();
    if is("Failed") {
        state.push_str(",Failed");
    }
    if !text(status, "certificate").is_empty() {
        state.push_str(",Issued");
    }
    vec![
        name(object),
        age(object, now),
        json!(text(spec, "signerName")),
        json!(text(spec, "username")),
        json!(lasting),
        json!(state),
    ]
}
