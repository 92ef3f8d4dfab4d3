//! ResourceQuotas: what an object uses, and whether the namespace has that much left.
//!
//! In: a new object, or an old and a new one. Out: a refusal, or counts in the status of the quotas. Invariant: only
//! what is in `status.hard` is limited.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{quota_scopes::in_scope, refused};
use crate::kinds::resources::{pod_total, quantity};
use crate::kinds::value::{child, entries, int, items, set, text};
use crate::rest::strategy::{Consulted, Ctx, Kind};
use crate::schema::Quantity;
use crate::status::Status;

type Usage = BTreeMap<String, Quantity>;

/// Checks and counts.
pub(super) fn charge(ctx: &Ctx<'_>, kind: &Kind, old: Option<&Value>, new: &Value) -> Result<(), Status> {
    if kind.group.is_empty() && kind.plural == "resourcequotas" {
        return Ok(());
    }
    let quotas = ctx.consult(Consulted::ResourceQuotas).list(ctx.namespace);
    if quotas.is_empty() {
        return Ok(());
    }
    let used = usage(kind, new);
    let mut before = old.map(|old| usage(kind, old)).unwrap_or_default();
    // Updates only pay for what grows.
    before.retain(|name, _| used.contains_key(name));
    let delta: Usage = used
        .iter()
        .map(|(name, amount)| {
            (name.clone(), amount.minus(before.get(name).copied().unwrap_or(Quantity::ZERO)))
        })
        .filter(|(_, amount)| *amount > Quantity::ZERO)
        .collect();
    let matching: Vec<&Value> = quotas.iter().filter(|q| in_scope(q, kind, new)).collect();
    for quota in &matching {
        let limited: Vec<&String> =
            entries(&quota["status"], "hard").map(|e| e.0).filter(|n| concerns(kind, n)).collect();
        if limited.is_empty() {
            continue;
        }
        if old.is_none() {
            constraints(kind, quota, &limited, new)?;
        }
        let unknown: Vec<&str> = limited
            .iter()
            .filter(|n| quota["status"]["used"][n.as_str()].is_null())
            .map(|n| n.as_str())
            .collect();
        if !unknown.is_empty() {
            let name = text(&quota["metadata"], "name");
            let why = format!("status unknown for quota: {name}, resources: {}", unknown.join(","));
            return Err(refused(kind, new, &why));
        }
    }
    if delta.is_empty() {
        return Ok(());
    }
    for quota in &matching {
        fits(kind, quota, &delta, new)?;
    }
    if ctx.dry_run {
        return Ok(());
    }
    for quota in matching {
        let relevant = entries(&quota["status"], "hard").any(|(name, _)| delta.contains_key(name));
        if !relevant {
            continue;
        }
        let name = text(&quota["metadata"], "name");
        ctx.consult(Consulted::ResourceQuotas).modify(ctx.namespace, name, &mut |quota| {
            // Another request may have counted meanwhile.
            fits(kind, quota, &delta, new)?;
            let hard = quota["status"]["hard"].clone();
            let used = child(child(quota, "status"), "used");
            for (resource, amount) in &delta {
                if !hard[resource].is_null() {
                    let total = quantity(&used[resource]).plus(*amount);
                    set(used, resource, total.to_string());
                }
            }
            Ok(true)
        })?;
    }
    Ok(())
}

fn fits(kind: &Kind, quota: &Value, delta: &Usage, object: &Value) -> Result<(), Status> {
    let status = &quota["status"];
    let over: Vec<(&String, &Quantity)> = delta
        .iter()
        .filter(|(name, amount)| {
            let hard = &status["hard"][name.as_str()];
            !hard.is_null() && quantity(&status["used"][name.as_str()]).plus(**amount) > quantity(hard)
        })
        .collect();
    if over.is_empty() {
        return Ok(());
    }
    let show = |value: &dyn Fn(&str) -> String| {
        let all: Vec<String> = over.iter().map(|(name, _)| format!("{name}={}", value(name))).collect();
        all.join(",")
    };
    let requested = show(&|name| delta[name].to_string());
    let used = show(&|name| quantity(&status["used"][name]).to_string());
    let limited = show(&|name| quantity(&status["hard"][name]).to_string());
    let name = text(&quota["metadata"], "name");
    let why = format!("exceeded quota: {name}, requested: {requested}, used: {used}, limited: {limited}");
    Err(refused(kind, object, &why))
}

/// `count/deployments.apps` and its like.
fn count_name(kind: &Kind) -> String {
    format!("count/{}", kind.qualified())
}

/// Whether a kind uses a resource at all.
fn concerns(kind: &Kind, resource: &str) -> bool {
    if resource == count_name(kind) {
        return true;
    }
    if !kind.group.is_empty() {
        return false;
    }
    match kind.plural.as_str() {
        "pods" => {
            matches!(resource, "pods" | "cpu" | "memory" | "ephemeral-storage")
                || (resource.starts_with("requests.") && !resource.ends_with("storage"))
                || resource == "requests.ephemeral-storage"
                || resource.starts_with("limits.")
                || resource.starts_with("hugepages-")
        }
        "services" => matches!(resource, "services" | "services.nodeports" | "services.loadbalancers"),
        "persistentvolumeclaims" => {
            matches!(resource, "persistentvolumeclaims" | "requests.storage")
                || resource.contains(".storageclass.storage.k8s.io/")
        }
        other => resource == other,
    }
}

/// What an object uses.
fn usage(kind: &Kind, object: &Value) -> Usage {
    let one = Quantity::whole(1);
    let mut out = Usage::from([(count_name(kind), one)]);
    if !kind.group.is_empty() {
        return out;
    }
    let spec = &object["spec"];
    match kind.plural.as_str() {
        "pods" => {
            if matches!(text(&object["status"], "phase"), "Succeeded" | "Failed") {
                return out;
            }
            out.insert("pods".into(), one);
            for (name, amount) in totals(spec, "requests") {
                if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage")
                    || name.starts_with("hugepages-")
                {
                    out.insert(name.clone(), amount);
                }
                out.insert(format!("requests.{name}"), amount);
            }
            for (name, amount) in totals(spec, "limits") {
                if matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage") {
                    out.insert(format!("limits.{name}"), amount);
                }
            }
        }
        "services" => {
            out.insert("services".into(), one);
            let ports = items(spec, "ports").len() as i64;
            match text(spec, "type") {
                "NodePort" => {
                    out.insert("services.nodeports".into(), Quantity::whole(ports));
                }
                "LoadBalancer" => {
                    out.insert("services.loadbalancers".into(), one);
                    let with = items(spec, "ports").iter().filter(|p| int(p, "nodePort") != 0).count();
                    out.insert("services.nodeports".into(), Quantity::whole(with as i64));
                }
                _ => {}
            }
        }
        "persistentvolumeclaims" => {
            out.insert("persistentvolumeclaims".into(), one);
            let storage = quantity(&spec["resources"]["requests"]["storage"]);
            out.insert("requests.storage".into(), storage);
            let class = text(spec, "storageClassName");
            if !class.is_empty() {
                let prefix = format!("{class}.storageclass.storage.k8s.io/");
                out.insert(format!("{prefix}persistentvolumeclaims"), one);
                out.insert(format!("{prefix}requests.storage"), storage);
            }
        }
        other => {
            out.insert(other.to_owned(), one);
        }
    }
    out
}

fn totals(spec: &Value, kind: &str) -> Usage {
    let mut out = Usage::new();
    for list in ["containers", "initContainers"] {
        for container in items(spec, list) {
            for (name, _) in entries(&container["resources"], kind) {
                if let Some(total) = pod_total(spec, kind, name) {
                    out.insert(name.clone(), total);
                }
            }
        }
    }
    out
}

/// Every container must state what the quota limits.
fn constraints(kind: &Kind, quota: &Value, limited: &[&String], pod: &Value) -> Result<(), Status> {
    if !kind.group.is_empty() || kind.plural != "pods" {
        return Ok(());
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for list in ["containers", "initContainers"] {
        for container in items(&pod["spec"], list) {
            for name in limited {
                let (part, resource) = match name.split_once('.') {
                    Some(("requests", resource)) => ("requests", resource),
                    Some(("limits", resource)) => ("limits", resource),
                    None if matches!(name.as_str(), "cpu" | "memory") => ("requests", name.as_str()),
                    _ => continue,
                };
                let compute = matches!(resource, "cpu" | "memory");
                if compute && container["resources"][part][resource].is_null() {
                    missing.entry(text(container, "name")).or_default().push(name);
                }
            }
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    let mut by_resource: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (container, names) in &missing {
        for name in names {
            by_resource.entry((*name).to_owned()).or_default().push(container);
        }
    }
    let shown: Vec<String> =
        by_resource.iter().map(|(name, who)| format!("{name} for: {}", who.join(","))).collect();
    let name = text(&quota["metadata"], "name");
    let why = format!("failed quota: {name}: must specify {}", shown.join("; "));
    Err(refused(kind, pod, &why))
}
