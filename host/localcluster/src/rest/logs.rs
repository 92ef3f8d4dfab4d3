//! Logs of pods: simulated containers write none, but what is asked is checked.

use serde_json::{Value, json};

use super::answer::{Answer, Outcome};
use super::options::Query;
use super::{Call, Rest};
use crate::kinds::pod_containers::CONTAINERS;
use crate::status::{FieldError, Status};

impl Rest {
    pub(super) fn log(&self, call: &Call, query: &Query) -> Result<Answer, Status> {
        check_log_options(&call.name, query)?;
        let stored = self.table(&call.kind).get(&call.key());
        let pod = stored.ok_or_else(|| call.kind.not_found(&call.name))?.value();
        check_container(&pod, &call.name, query.text("container").unwrap_or_default())?;
        let scheduled = pod["spec"]["nodeName"].as_str().is_some_and(|n| !n.is_empty());
        if !scheduled {
            return Ok(Answer::ok(&call.kind, Outcome::Empty).with_code(204));
        }
        self.check_node(&pod)?;
        Ok(Answer::ok(&call.kind, Outcome::Text(String::new())))
    }
}

fn check_log_options(name: &str, query: &Query) -> Result<(), Status> {
    let mut errors = Vec::new();
    let lines = query.number("tailLines")?;
    if let Some(lines) = lines.filter(|lines| *lines < 0) {
        errors.push(FieldError::invalid("tailLines", &json!(lines), "must be greater than or equal to 0"));
    }
    if let Some(bytes) = query.number("limitBytes")?.filter(|bytes| *bytes < 1) {
        errors.push(FieldError::invalid("limitBytes", &json!(bytes), "must be greater than 0"));
    }
    let seconds = query.number("sinceSeconds")?;
    if seconds.is_some() && query.text("sinceTime").is_some() {
        let detail = "at most one of `sinceTime` or `sinceSeconds` may be specified";
        errors.push(FieldError::forbidden("[]", detail));
    } else if let Some(seconds) = seconds.filter(|seconds| *seconds < 1) {
        errors.push(FieldError::invalid("sinceSeconds", &json!(seconds), "must be greater than 0"));
    }
    let stream = query.text("stream").unwrap_or("All");
    if !matches!(stream, "All" | "Stdout" | "Stderr") {
        let known = ["All", "Stderr", "Stdout"];
        errors.push(FieldError::not_supported("stream", &json!(stream), &known));
    }
    if stream != "All" && lines.is_some() {
        let detail = "`tailLines` and specific `stream` are mutually exclusive for now";
        errors.push(FieldError::forbidden("[]", detail));
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::invalid("", "PodLogOptions", name, errors)) }
}

/// A container that is named is one of the pod's; a pod with several needs a name.
fn check_container(pod: &Value, name: &str, container: &str) -> Result<(), Status> {
    let all: Vec<&str> = CONTAINERS
        .iter()
        .flat_map(|list| pod["spec"][*list].as_array().into_iter().flatten())
        .filter_map(|container| container["name"].as_str())
        .collect();
    if !container.is_empty() && !all.contains(&container) {
        return Err(Status::bad_request(format!("container {container} is not valid for pod {name}")));
    }
    if container.is_empty() && pod["spec"]["containers"].as_array().is_some_and(|list| list.len() > 1) {
        let choice = all.join(" ");
        return Err(Status::bad_request(format!(
            "a container name must be specified for pod {name}, choose one of: [{choice}]"
        )));
    }
    Ok(())
}
