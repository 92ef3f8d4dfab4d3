//! Group `batch`: Job. CronJob has a file of its own.

use serde_json::{Value, json};

use super::apps::{selector_cell, show_as};
use super::internal;
use super::job_policy;
use super::meta::{immutable, non_negative};
use super::names;
use super::pod_defaults;
use super::pod_validation;
use super::spec::{Generation, Order, Spec};
use super::value::{
    child, copy, empty, fill, fill_null, flag, int, items, items_mut, present, remove, set, text,
};
use super::volume_sources::known;
use crate::selector::object_matches;
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, containers, duration, name, since, wide};

pub(super) fn spec(plural: &str) -> Option<Spec> {
    Some(match plural {
        "jobs" => job(),
        "cronjobs" => super::cron::spec(),
        _ => return None,
    })
}

const UID: &str = "batch.kubernetes.io/controller-uid";
/// Notes in the status of a new job, which has none, that its labels are those of its template.
const SHARED: &str = "labelsOfTemplate";
const NAME_LABEL: &str = "batch.kubernetes.io/job-name";

fn job() -> Spec {
    Spec {
        warnings: super::warnings::job,
        generation: Generation::Spec,
        orphans: true,
        revalidates: true,
        order: Order::New,
        unknown_field: Some(|label| format!("field label {label:?} not supported for Job")),
        unset_propagation_warning: Some(
            "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning",
        ),
        default: |object| {
            job_defaults(child(object, "spec"), true);
            own_labels(object);
        },
        keeps_status: true,
        create: |_, object| {
            let status = remove(object, "status").unwrap_or_default();
            if !flag(&object["spec"], "manualSelector") {
                generate_selector(object, status[SHARED] == true);
            }
            Ok(())
        },
        validate: |object| {
            let mut out = Vec::new();
            generated_selector(&mut out, object);
            job_spec(&mut out, &object["spec"], "spec");
            selector_fits(&mut out, &object["spec"]);
            last_hostname(&mut out, object);
            out
        },
        validate_update: job_update,
        validate_sub: |sub, old, new| {
            if sub == "status" { super::job_status::validate(old, new) } else { Vec::new() }
        },
        field_names: &["status.successful"],
        fields: |object| vec![("status.successful", int(&object["status"], "succeeded").to_string())],
        columns: Columns::Own(JOB_COLUMNS, job_cells),
        ..Spec::new()
    }
}

pub(super) fn job_defaults(spec: &mut Value, top: bool) {
    pod_defaults::template(child(spec, "template"));
    if !top {
        return;
    }
    if spec["completions"].is_null() && spec["parallelism"].is_null() {
        fill(spec, "completions", 1);
    }
    fill(spec, "parallelism", 1);
    if spec["backoffLimit"].is_null() {
        let limit = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i64::from(i32::MAX) };
        set(spec, "backoffLimit", limit);
    }
    fill_null(spec, "completionMode", "NonIndexed");
    fill(spec, "suspend", false);
    fill(spec, "manualSelector", false);
    let policy = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
    fill_null(spec, "podReplacementPolicy", policy);
    if let Some(policy) = present(spec, "podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            for pattern in items_mut(rule, "onPodConditions") {
                fill(pattern, "status", "True");
            }
        }
    }
}

/// A job carries the labels of its template where it has none of its own.
fn own_labels(object: &mut Value) {
    let spec = &object["spec"];
    let labels = spec["template"]["metadata"]["labels"].clone();
    if empty(&labels) || !empty(&object["metadata"]["labels"]) {
        return;
    }
    let new = text(&object["metadata"], "resourceVersion").is_empty();
    if new && !flag(spec, "manualSelector") && labels[UID].is_null() {
        // They are one with those of the template: it also carries what is generated there.
        set(child(object, "status"), SHARED, true);
    }
    set(child(object, "metadata"), "labels", labels);
}

/// Pods of an indexed job are called after their index, the last of which makes the longest name.
fn last_hostname(out: &mut Vec<FieldError>, object: &Value) {
    let (spec, name) = (&object["spec"], text(&object["metadata"], "name"));
    let completions = int(spec, "completions");
    if text(spec, "completionMode") != "Indexed" || completions <= 0 {
        return;
    }
    let longest = format!("{name}-{}", completions - 1);
    if !names::label(&longest).is_empty() {
        let detail = format!("will not able to create pod with invalid DNS label: {longest}");
        out.push(FieldError::invalid("metadata.name", &json!(name), &detail));
    }
}

/// Jobs select their pods by the uid of the job.
fn generate_selector(object: &mut Value, shared: bool) {
    let uid = text(&object["metadata"], "uid").to_owned();
    let name = text(&object["metadata"], "name").to_owned();
    let spec = child(object, "spec");
    let labels = child(child(child(spec, "template"), "metadata"), "labels");
    // What is there already is checked afterwards.
    for (key, value) in [("job-name", &name), (NAME_LABEL, &name), ("controller-uid", &uid), (UID, &uid)] {
        fill(labels, key, value.clone());
    }
    fill(child(child(spec, "selector"), "matchLabels"), UID, uid);
    // The job itself carries the labels of its template where it has none of its own, once those are found sound.
    if !shared && !names::label_value(&name).is_empty() {
        return;
    }
    let template_labels = object["spec"]["template"]["metadata"]["labels"].clone();
    let own = child(object, "metadata");
    if shared || empty(&own["labels"]) {
        set(own, "labels", template_labels);
    }
}

fn generated_selector(out: &mut Vec<FieldError>, object: &Value) {
    let spec = &object["spec"];
    if flag(spec, "manualSelector") || spec["selector"].is_null() {
        return;
    }
    let uid = text(&object["metadata"], "uid");
    let name = text(&object["metadata"], "name");
    let labels = &spec["template"]["metadata"]["labels"];
    for (key, wanted) in [("controller-uid", uid), ("job-name", name), (UID, uid), (NAME_LABEL, name)] {
        let field = "spec.template.metadata.labels";
        match labels[key].as_str() {
            None => {
                let detail = format!("must be '{wanted}'");
                out.push(FieldError::required(format!("{field}[{key}]"), &detail));
            }
            Some(found) if found != wanted => {
                let detail = format!("must be '{wanted}'");
                out.push(FieldError::invalid(format!("{field}[{key}]"), labels, &detail));
            }
            Some(_) => {}
        }
    }
    let expected = json!({UID: uid, NAME_LABEL: name, "controller-uid": uid, "job-name": name});
    if !object_matches(&spec["selector"], &expected) {
        let shown = show_as("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", &spec["selector"]);
        let message = format!("Invalid value: {shown}: `selector` not auto-generated");
        out.push(FieldError::raw(FieldReason::Invalid, "spec.selector", message));
    }
}

/// The selector is there and selects the pods that the job makes.
fn selector_fits(out: &mut Vec<FieldError>, spec: &Value) {
    let selector = &spec["selector"];
    if selector.is_null() {
        out.push(FieldError::required("spec.selector", ""));
    } else {
        pod_validation::label_selector(out, selector, "spec.selector");
    }
    let labels = &spec["template"]["metadata"]["labels"];
    if pod_validation::selector_is_sound(selector) && !object_matches(selector, labels) {
        let detail = "`selector` does not match template `labels`";
        out.push(FieldError::invalid("spec.template.metadata.labels", labels, detail));
    }
}

pub(super) fn job_spec(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        non_negative(out, &format!("{path}.{key}"), int(spec, key));
    }
    if !spec["maxFailedIndexes"].is_null() && spec["backoffLimitPerIndex"].is_null() {
        let field = format!("{path}.backoffLimitPerIndex");
        out.push(FieldError::required(field, "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec["managedBy"].as_str() {
        let field = format!("{path}.managedBy");
        if manager.is_empty() {
            out.push(FieldError::required(&field, ""));
        } else {
            for (part, message) in names::domain_path(manager) {
                out.push(FieldError::invalid(&field, &json!(part), &message));
            }
        }
        if manager.len() > 63 {
            out.push(FieldError::too_long(&field, 63));
        }
    }
    let mode = spec["completionMode"].as_str().unwrap_or("NonIndexed");
    known(out, &spec["completionMode"], &format!("{path}.completionMode"), &["NonIndexed", "Indexed"]);
    if mode == "Indexed" {
        if spec["completions"].is_null() {
            let field = format!("{path}.completions");
            out.push(FieldError::required(field, "when completion mode is Indexed"));
        }
        let parallelism = int(spec, "parallelism");
        if parallelism > 100_000 {
            let field = format!("{path}.parallelism");
            let detail = "must be less than or equal to 100000 when completion mode is Indexed";
            out.push(FieldError::invalid(field, &json!(parallelism), detail));
        }
        if !spec["completions"].is_null() && int(spec, "maxFailedIndexes") > int(spec, "completions") {
            let field = format!("{path}.maxFailedIndexes");
            let detail = "must be less than or equal to completions";
            out.push(FieldError::invalid(field, &spec["maxFailedIndexes"], detail));
        }
    } else if mode == "NonIndexed" {
        for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
            if !spec[key].is_null() {
                let detail = "requires indexed completion mode";
                out.push(FieldError::invalid(format!("{path}.{key}"), &spec[key], detail));
            }
        }
    }
    if !spec["podFailurePolicy"].is_null() {
        job_policy::failure(out, spec, path);
    }
    if mode == "Indexed" && !spec["successPolicy"].is_null() {
        job_policy::success(out, spec, path);
    } else if !spec["successPolicy"].is_null() {
        let shown = show_success(&spec["successPolicy"]);
        let message = format!("Invalid value: {shown}: requires indexed completion mode");
        out.push(FieldError::raw(FieldReason::Invalid, format!("{path}.successPolicy"), message));
    }
    let policies: &[&str] =
        if spec["podFailurePolicy"].is_null() { &["Failed", "TerminatingOrFailed"] } else { &["Failed"] };
    known(out, &spec["podReplacementPolicy"], &format!("{path}.podReplacementPolicy"), policies);
    pod_validation::template(out, &spec["template"], &format!("{path}.template"));
    let field = format!("{path}.template.spec.restartPolicy");
    match text(&spec["template"]["spec"], "restartPolicy") {
        "" | "Always" => {
            out.push(FieldError::required(field, "valid values: \"OnFailure\", \"Never\""));
        }
        "Never" => {}
        "OnFailure" => {
            if !spec["podFailurePolicy"].is_null() {
                let detail = "only \"Never\" is supported when podFailurePolicy is specified";
                out.push(FieldError::invalid(field, &json!("OnFailure"), detail));
            }
        }
        other => {
            out.push(FieldError::not_supported(field, &json!(other), &["OnFailure", "Never"]));
        }
    }
}

/// A success policy with Go's names.
fn show_success(policy: &Value) -> String {
    let rules: Vec<String> = items(policy, "rules")
        .iter()
        .map(|rule| internal::capitalised(&["succeededIndexes", "succeededCount"], rule))
        .collect();
    format!("{{\"Rules\":[{}]}}", rules.join(","))
}

fn job_update(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let before_job = old;
    let (old, new) = (&old["spec"], &new["spec"]);
    // A change is checked both as a new job and as a change, so the spec is checked twice.
    job_spec(&mut out, new, "spec");
    selector_fits(&mut out, new);
    let (before, after) = (&old["completions"], &new["completions"]);
    if text(new, "completionMode") != "Indexed" {
        immutable(&mut out, "spec.completions", before, after);
    } else if before != after && !after.is_null() && *after != new["parallelism"] {
        let detail = "can only be modified in tandem with spec.parallelism";
        out.push(FieldError::invalid("spec.completions", after, detail));
    }
    if old["selector"] != new["selector"] {
        let shown = show_as("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", &new["selector"]);
        out.push(unalterable("spec.selector", &shown));
    }
    out.append(&mut template_update(before_job, old, new));
    for (key, structure) in [
        ("completionMode", ""),
        ("podFailurePolicy", "PodFailurePolicy"),
        ("backoffLimitPerIndex", ""),
        ("managedBy", ""),
        ("successPolicy", "SuccessPolicy"),
    ] {
        if old[key] == new[key] {
            continue;
        }
        let shown = match &new[key] {
            value @ Value::Object(_) => internal::shown(structure, value),
            value => value.to_string(),
        };
        out.push(unalterable(&format!("spec.{key}"), &shown));
    }
    out
}

fn unalterable(field: &str, shown: &str) -> FieldError {
    FieldError::raw(FieldReason::Invalid, field, format!("Invalid value: {shown}: field is immutable"))
}

/// A template stays, but for what steers scheduling and for resources while the job rests.
fn template_update(job: &Value, old: &Value, new: &Value) -> Vec<FieldError> {
    let status = &job["status"];
    let is_suspended = items(status, "conditions")
        .iter()
        .any(|c| text(c, "type") == "Suspended" && text(c, "status") == "True");
    let started = !status["startTime"].is_null();
    let rests = flag(old, "suspend") && (!started || is_suspended) && int(status, "active") == 0;
    let mut template = old["template"].clone();
    if rests {
        for key in ["nodeSelector", "tolerations", "schedulingGates", "affinity"] {
            copy(&new["template"]["spec"], child(&mut template, "spec"), key);
        }
        for key in ["annotations", "labels"] {
            copy(&new["template"]["metadata"], child(&mut template, "metadata"), key);
        }
        for list in ["containers", "initContainers"] {
            let sent = items(&new["template"]["spec"], list).to_vec();
            let kept = child(&mut template, "spec");
            if items(kept, list).len() == sent.len() {
                for (container, sent) in
                    items_mut(kept, list).zip(&sent).filter(|(c, s)| c["name"] == s["name"])
                {
                    copy(sent, container, "resources");
                }
            }
        }
    }
    let (field, shown) = if rests && template["spec"] != new["template"]["spec"] {
        ("spec.template.spec", internal::shown("PodSpec", &new["template"]["spec"]))
    } else if !rests && template != new["template"] {
        ("spec.template", internal::pod_template(&new["template"]))
    } else {
        return Vec::new();
    };
    vec![unalterable(field, &shown)]
}

const JOB_COLUMNS: &[Column] = &[
    NAME,
    column("Status"),
    column("Completions"),
    column("Duration"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn job_cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let done = int(status, "succeeded");
    let completions = match (spec["completions"].as_i64(), int(spec, "parallelism")) {
        (Some(all), _) => format!("{done}/{all}"),
        (None, parallelism) if parallelism > 1 => format!("{done}/1 of {parallelism}"),
        _ => format!("{done}/1"),
    };
    let start = text(status, "startTime");
    let lasted = match (start, text(status, "completionTime")) {
        ("", _) => String::new(),
        (start, "") => since(start, now),
        (start, end) => match (start.parse::<jiff::Timestamp>(), end.parse::<jiff::Timestamp>()) {
            (Ok(start), Ok(end)) => duration(end.as_second() - start.as_second()),
            _ => String::new(),
        },
    };
    let is = |ty: &str| {
        items(status, "conditions").iter().any(|c| text(c, "type") == ty && text(c, "status") == "True")
    };
    let state = if is("Complete") {
        "Complete"
    } else if is("Failed") {
        "Failed"
    } else if !object["metadata"]["deletionTimestamp"].is_null() {
        "Terminating"
    } else if is("Suspended") {
        "Suspended"
    } else if is("FailureTarget") {
        "FailureTarget"
    } else if is("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    };
    let [names, images] = containers(&spec["template"]);
    vec![
        name(object),
        json!(state),
        json!(completions),
        json!(lasted),
        age(object, now),
        names,
        images,
        json!(selector_cell(&spec["selector"])),
    ]
}
