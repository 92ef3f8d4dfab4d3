//! The pods that a Job makes.
//!
//! The template's spec is carried over as the JSON it came as. Pods of an
//! Indexed Job get their index as a label, an annotation, a hostname and an
//! environment variable.

use coxswain_sdk::merge::{take_out, text_of};
use coxswain_sdk::resource::{JOBS, PODS};
use coxswain_sdk::template::PodTemplate;
use coxswain_sdk::{Action, Error, OwnerReference, Result, from_json};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::per_index::counts_after;
use crate::tally::Tally;
use crate::view::{Job, TRACKING};

const INDEX: &str = "batch.kubernetes.io/job-completion-index";
const FAILURES: &str = "batch.kubernetes.io/job-index-failure-count";
const IGNORED_FAILURES: &str = "batch.kubernetes.io/job-index-ignored-failure-count";
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";

/// The longest `generateName` that the API server does not cut.
const LONGEST_PREFIX: usize = 58;

/// Writes that make a pod for each of these indexes.
pub fn creations(job: &Job, tally: &Tally<'_>, indexes: &[Option<i64>]) -> Result<Vec<Action>> {
    let meta = &job.metadata;
    let owner = OwnerReference::controller(JOBS, &meta.name, &meta.uid);
    let mut template = job.spec.template.clone();
    if !template.metadata.finalizers.iter().any(|finalizer| finalizer == TRACKING) {
        template.metadata.finalizers.push(TRACKING.to_owned());
    }
    if !job.is_indexed() {
        let pod = template.pod(&meta.namespace, owner);
        let create = Action::create(PODS, &meta.namespace, "", &pod)?;
        return Ok(indexes.iter().map(|_| create.clone()).collect());
    }
    let spec = indexed_spec(&template)?;
    let make = |index: i64| {
        let mut template = template.clone();
        let (number, annotations) = (index.to_string(), &mut template.metadata.annotations);
        annotations.insert(INDEX.to_owned(), number.clone());
        if job.backoff_limit_per_index().is_some() {
            let (failures, ignored) = counts_after(job, tally.held_back.get(&index).copied());
            annotations.insert(FAILURES.to_owned(), failures.to_string());
            if ignored > 0 {
                annotations.insert(IGNORED_FAILURES.to_owned(), ignored.to_string());
            }
        }
        template.metadata.labels.insert(INDEX.to_owned(), number);
        template.spec = Some(with_hostname(&spec, &format!("{}-{index}", meta.name))?);
        let mut pod = template.pod(&meta.namespace, owner.clone());
        pod.metadata.generate_name = Some(prefix(&meta.name, index));
        Action::create(PODS, &meta.namespace, "", &pod)
    };
    indexes.iter().flatten().map(|index| make(*index)).collect()
}

/// The spec with the index in every container's environment, without a hostname.
fn indexed_spec(template: &PodTemplate) -> Result<String> {
    let text = template.spec.as_ref().map_or("{}", |raw| raw.get());
    let mut spec: Value = from_json(text).map_err(unreadable)?;
    for list in ["initContainers", "containers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut);
        for container in containers.into_iter().flatten().filter_map(Value::as_object_mut) {
            let environment = container.entry("env").or_insert(Value::Null);
            if environment.is_null() {
                *environment = json!([]);
            }
            let Some(variables) = environment.as_array_mut() else { continue };
            if !variables.iter().any(|variable| variable["name"] == INDEX_VARIABLE) {
                let path = format!("metadata.labels['{INDEX}']");
                variables
                    .push(json!({"name": INDEX_VARIABLE, "valueFrom": {"fieldRef": {"fieldPath": path}}}));
            }
        }
    }
    if let Some(fields) = spec.as_object_mut() {
        take_out(fields, "hostname");
    }
    serde_json::to_string(&spec).map_err(unreadable)
}

/// Put in as text: a spec is parsed once for all the pods of a plan.
fn with_hostname(spec: &str, hostname: &str) -> Result<Box<RawValue>> {
    let hostname = text_of(&Value::from(hostname));
    let rest = spec.strip_prefix('{').unwrap_or("}");
    let comma = if rest == "}" { "" } else { "," };
    RawValue::from_string(format!("{{\"hostname\":{hostname}{comma}{rest}")).map_err(unreadable)
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::terminal(format!("the pod template cannot be read: {error}"))
}

/// The beginning of the name of an index's pods. The index is never cut.
fn prefix(job: &str, index: i64) -> String {
    let end = format!("-{index}-");
    let mut keep = job.len().min(LONGEST_PREFIX.saturating_sub(end.len()));
    while !job.is_char_boundary(keep) {
        keep -= 1;
    }
    format!("{}{end}", &job[..keep])
}

#[cfg(test)]
mod tests;
