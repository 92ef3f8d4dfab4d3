//! Labels of namespaces that say which pods they take: whether they say it in words that there are, and whether pods and
//! templates of pods are so.
//!
//! Source of the rules: KEP-2579, `PolicyToEvaluate` of `k8s.io/pod-security-admission`. Nobody is exempt; what `audit`
//! would note is noted nowhere.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::pod_standards::{Level, Violation, violations};
use super::{is, refused};
use crate::kinds::value::{flag, items, text};
use crate::rest::strategy::{Consulted, Ctx, Kind};
use crate::status::{FieldError, Status};

const PREFIX: &str = "pod-security.kubernetes.io/";

/// Newest minor version that changed a rule; later ones are as it is.
const NEWEST: u32 = 35;

/// So many pods are looked at when the label of a namespace changes.
const MOST_PODS: usize = 3000;

/// Where other kinds than pods have their template.
const TEMPLATES: [(&str, &str, &str); 8] = [
    ("", "podtemplates", "/template"),
    ("", "replicationcontrollers", "/spec/template"),
    ("apps", "replicasets", "/spec/template"),
    ("apps", "deployments", "/spec/template"),
    ("apps", "daemonsets", "/spec/template"),
    ("apps", "statefulsets", "/spec/template"),
    ("batch", "jobs", "/spec/template"),
    ("batch", "cronjobs", "/spec/jobTemplate/spec/template"),
];

/// A level as of a version.
#[derive(Clone, PartialEq)]
struct Standard {
    level: Level,
    /// `latest` or `v1.MINOR`.
    version: String,
}

impl Standard {
    /// What a pod does against it.
    fn broken_by(&self, metadata: &Value, spec: &Value) -> Vec<Violation> {
        let minor = self.version.strip_prefix("v1.").and_then(|minor| minor.parse().ok());
        violations(self.level, minor.map_or(NEWEST, |minor: u32| minor.min(NEWEST)), metadata, spec)
    }

    /// `PodSecurity "LEVEL:VERSION": ` and what is wrong.
    fn complaint(&self, violations: &[Violation]) -> String {
        let list: Vec<String> = violations.iter().map(ToString::to_string).collect();
        format!("PodSecurity \"{self}\": {}", list.join(", "))
    }
}

impl std::fmt::Display for Standard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let level = match self.level {
            Level::Privileged => "privileged",
            Level::Baseline => "baseline",
            Level::Restricted => "restricted",
        };
        write!(f, "{level}:{}", self.version)
    }
}

/// What a namespace enforces, and what it warns of: by default the same.
fn policy(namespace: &Value) -> (Standard, Standard) {
    let label = |name: &str| namespace["metadata"]["labels"][format!("{PREFIX}{name}")].as_str();
    let level = |mode: &str, unknown: Level| {
        label(mode).map_or(Level::Privileged, |text| known_level(text).unwrap_or(unknown))
    };
    let version = |mode: &str| {
        let version = label(&format!("{mode}-version")).filter(|version| is_version(version));
        version.unwrap_or("latest").to_owned()
    };
    let enforce = Standard { level: level("enforce", Level::Restricted), version: version("enforce") };
    let mut warn = Standard { level: level("warn", Level::Privileged), version: version("warn") };
    if label("warn").is_none() && label("enforce").and_then(known_level) > Some(Level::Privileged) {
        warn.level = enforce.level;
        if label("warn-version").is_none() {
            warn.version.clone_from(&enforce.version);
        }
    }
    (enforce, warn)
}

/// Refuses a pod that its namespace does not take, and warns of one, or of a template, that it would not want.
pub(super) fn pod(
    ctx: &Ctx<'_>,
    kind: &Kind,
    sub: &str,
    old: Option<&Value>,
    new: &Value,
) -> Result<(), Status> {
    let is_pod = is(kind, "", "pods");
    let template = TEMPLATES.iter().find(|(group, plural, _)| is(kind, group, plural));
    let concerned =
        if is_pod { matches!(sub, "" | "ephemeralcontainers" | "resize") } else { sub.is_empty() };
    if !concerned || !(is_pod || template.is_some()) {
        return Ok(());
    }
    let Some(namespace) = ctx.consult(Consulted::Namespaces).mentioning(PREFIX, "", ctx.namespace) else {
        return Ok(());
    };
    let pod = match template {
        Some((_, _, path)) => new.pointer(path).filter(|template| template.is_object()),
        None => Some(new),
    };
    let Some(pod) = pod else { return Ok(()) };
    if is_pod && old.is_some_and(|old| !runs_other_images(&old["spec"], &new["spec"])) {
        return Ok(());
    }
    let (enforce, warn) = policy(&namespace);
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    if is_pod {
        let broken = enforce.broken_by(metadata, spec);
        if !broken.is_empty() {
            return Err(refused(kind, new, &format!("violates {}", enforce.complaint(&broken))));
        }
    }
    let broken = warn.broken_by(metadata, spec);
    if !broken.is_empty() {
        ctx.warn(format!("would violate {}", warn.complaint(&broken)));
    }
    Ok(())
}

/// Whether a change adds or takes containers, or gives one another image; nothing else can be changed in a pod that matters.
fn runs_other_images(old: &Value, new: &Value) -> bool {
    let images = |spec: &Value, list: &str| -> Vec<String> {
        items(spec, list).iter().map(|container| text(container, "image").to_owned()).collect()
    };
    if ["containers", "initContainers"].iter().any(|list| images(old, list) != images(new, list)) {
        return true;
    }
    items(new, "ephemeralContainers").iter().any(|container| {
        let mut before = items(old, "ephemeralContainers").iter();
        let before = before.find(|before| before["name"] == container["name"]);
        before.is_none_or(|before| text(before, "image") != text(container, "image"))
    })
}

/// Warns of pods that run in a namespace and that it would take no more.
pub(super) fn running(ctx: &Ctx<'_>, old: &Value, new: &Value) {
    let ((was, _), (enforce, _)) = (policy(old), policy(new));
    if was == enforce
        || enforce.level == Level::Privileged
        || (was.version == enforce.version && enforce.level <= was.level)
    {
        return;
    }
    let name = text(&new["metadata"], "name");
    let pods = ctx.pods_to_warn_of(name);
    // Pods of one controller are alike: the first of each goes before the others.
    let mut seen = BTreeSet::new();
    let (first, alike): (Vec<&Value>, Vec<&Value>) = pods.iter().partition(|pod| {
        let owner = items(&pod["metadata"], "ownerReferences").iter().find(|owner| flag(owner, "controller"));
        owner.is_none_or(|owner| seen.insert(text(owner, "uid")))
    });
    let mut found: BTreeMap<String, (&str, usize)> = BTreeMap::new();
    for pod in first.iter().chain(&alike).take(MOST_PODS) {
        let broken = enforce.broken_by(&pod["metadata"], &pod["spec"]);
        if broken.is_empty() {
            continue;
        }
        let reasons: Vec<&str> = broken.iter().map(|violation| violation.reason).collect();
        let name = text(&pod["metadata"], "name");
        let (least, count) = found.entry(reasons.join(", ")).or_insert((name, 0));
        *least = name.min(least);
        *count += 1;
    }
    if pods.len() > MOST_PODS {
        ctx.warn(format!(
            "new PodSecurity enforce level only checked against the first {MOST_PODS} of {} existing pods",
            pods.len()
        ));
    }
    if !found.is_empty() {
        ctx.warn(format!(
            "existing pods in namespace \"{name}\" violate the new PodSecurity enforce level \"{enforce}\""
        ));
    }
    let lines: BTreeSet<String> = found
        .into_iter()
        .map(|(reasons, (name, count))| match count {
            1 => format!("{name}: {reasons}"),
            2 => format!("{name} (and 1 other pod): {reasons}"),
            more => format!("{name} (and {} other pods): {reasons}", more - 1),
        })
        .collect();
    lines.into_iter().for_each(|line| ctx.warn(line));
}

/// Checks the labels of a namespace that is new or changed; what was wrong before in the same way may stay.
pub(super) fn labels(kind: &Kind, old: Option<&Value>, new: &Value) -> Result<(), Status> {
    let found = wrong(new);
    if found.is_empty() || old.is_some_and(|old| wrong(old) == found) {
        return Ok(());
    }
    Err(kind.invalid(new["metadata"]["name"].as_str().unwrap_or(""), found))
}

fn wrong(namespace: &Value) -> Vec<FieldError> {
    let labels = &namespace["metadata"]["labels"];
    let mut out = Vec::new();
    for mode in ["enforce", "audit", "warn"] {
        for (suffix, check, detail) in [
            ("", is_level as fn(&str) -> bool, "must be one of privileged, baseline, restricted"),
            ("-version", is_version, "must be \"latest\" or \"v1.x\""),
        ] {
            let key = format!("{PREFIX}{mode}{suffix}");
            let Some(text) = labels[&key].as_str() else { continue };
            if !check(text) {
                out.push(FieldError::invalid(format!("metadata.labels[{key}]"), &labels[&key], detail));
            }
        }
    }
    out
}

fn is_level(text: &str) -> bool {
    known_level(text).is_some()
}

fn known_level(text: &str) -> Option<Level> {
    Some(match text {
        "privileged" => Level::Privileged,
        "baseline" => Level::Baseline,
        "restricted" => Level::Restricted,
        _ => return None,
    })
}

/// `latest` or `v1.` and a number without zeros in front.
fn is_version(text: &str) -> bool {
    let number = text.strip_prefix("v1.").unwrap_or("");
    let digits = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    text == "latest" || (digits && (number == "0" || !number.starts_with('0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_minor_ones_of_v1() {
        for (text, good) in [
            ("latest", true),
            ("v1.0", true),
            ("v1.34", true),
            ("v1", false),
            ("v1.01", false),
            ("v2.3", false),
            ("", false),
        ] {
            assert_eq!(is_version(text), good, "{text}");
        }
    }
}
