//! CronJob.

use serde_json::{Value, json};

use super::apps::{selector_cell, show_as};
use super::batch::{job_defaults, job_spec};
use super::meta::non_negative;
use super::pod_validation;
use super::spec::{Generation, Spec};
use super::value::{child, fill, int, items, text};
use crate::status::{FieldError, FieldReason};
use crate::table::{AGE, Column, Columns, NAME, age, column, containers, name, since, wide};

pub(super) fn spec() -> Spec {
    Spec {
        warnings: super::warnings::job,
        generation: Generation::Spec,
        default: |object| {
            let spec = child(object, "spec");
            fill(spec, "concurrencyPolicy", "Allow");
            fill(spec, "suspend", false);
            fill(spec, "successfulJobsHistoryLimit", 3);
            fill(spec, "failedJobsHistoryLimit", 1);
            job_defaults(child(child(spec, "jobTemplate"), "spec"), false);
        },
        validate,
        validate_create: |object| {
            let name = text(&object["metadata"], "name");
            if name.len() <= 52 {
                return Vec::new();
            }
            vec![FieldError::invalid("metadata.name", &json!(name), "must be no more than 52 characters")]
        },
        columns: Columns::Own(COLUMNS, cells),
        ..Spec::new()
    }
}

fn validate(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let spec = &object["spec"];
    let schedule = text(spec, "schedule");
    if schedule.is_empty() {
        out.push(FieldError::required("spec.schedule", ""));
    } else if let Some(error) = schedule_error(schedule) {
        out.push(FieldError::invalid("spec.schedule", &json!(schedule), &error));
    }
    if schedule.contains("TZ") {
        let detail = "cannot use TZ or CRON_TZ in schedule, use timeZone field instead";
        out.push(FieldError::invalid("spec.schedule", &json!(schedule), detail));
    }
    non_negative(&mut out, "spec.startingDeadlineSeconds", int(spec, "startingDeadlineSeconds"));
    if let Some(zone) = spec["timeZone"].as_str() {
        if zone.is_empty() {
            let detail = "timeZone must be nil or non-empty string";
            out.push(FieldError::invalid("spec.timeZone", &json!(zone), detail));
        } else if zone.eq_ignore_ascii_case("local") {
            let detail =
                "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
            out.push(FieldError::invalid("spec.timeZone", &json!(zone), detail));
        } else if jiff::tz::TimeZone::get(zone).is_err() {
            let detail = format!("unknown time zone {zone}");
            out.push(FieldError::invalid("spec.timeZone", &json!(zone), &detail));
        }
    }
    let known = ["Allow", "Forbid", "Replace"];
    pod_validation::one_of(&mut out, spec, "spec", "concurrencyPolicy", &known);
    let job = &spec["jobTemplate"]["spec"];
    job_spec(&mut out, job, "spec.jobTemplate.spec");
    if !job["selector"].is_null() {
        let shown = show_as("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector", &job["selector"]);
        let message = format!("Invalid value: {shown}: `selector` will be auto-generated");
        out.push(FieldError::raw(FieldReason::Invalid, "spec.jobTemplate.spec.selector", message));
    }
    if job["manualSelector"] == true {
        let field = "spec.jobTemplate.spec.manualSelector";
        out.push(FieldError::not_supported(field, &json!(true), &["nil", "false"]));
    }
    for key in ["successfulJobsHistoryLimit", "failedJobsHistoryLimit"] {
        non_negative(&mut out, &format!("spec.{key}"), int(spec, key));
    }
    out
}

/// What is wrong with a cron schedule, if anything.
fn schedule_error(schedule: &str) -> Option<String> {
    if let Some(descriptor) = schedule.strip_prefix('@') {
        let known = ["yearly", "annually", "monthly", "weekly", "daily", "midnight", "hourly"];
        if known.contains(&descriptor) || descriptor.starts_with("every ") {
            return None;
        }
        return Some(format!("unrecognized descriptor: {schedule}"));
    }
    let fields: Vec<&str> = schedule
        .split_whitespace()
        .skip_while(|f| f.starts_with("TZ=") || f.starts_with("CRON_TZ="))
        .collect();
    if fields.len() != 5 {
        let shown: Vec<String> = fields.iter().map(ToString::to_string).collect();
        return Some(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), shown.join(" ")));
    }
    let bounds: [(i64, i64, &[&str]); 5] = [
        (0, 59, &[]),
        (0, 23, &[]),
        (1, 31, &[]),
        (1, 12, &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]),
        (0, 6, &["sun", "mon", "tue", "wed", "thu", "fri", "sat"]),
    ];
    fields.iter().zip(bounds).find_map(|(field, (min, max, words))| {
        field.split(',').find_map(|part| part_error(part, min, max, words))
    })
}

fn part_error(part: &str, min: i64, max: i64, words: &[&str]) -> Option<String> {
    let (range, step) = match part.split_once('/') {
        Some((range, step)) => (range, Some(step)),
        None => (part, None),
    };
    if let Some(step) = step {
        match step.parse::<i64>() {
            Ok(0) => return Some(format!("step of range should be a positive number: {part}")),
            Ok(_) => {}
            Err(_) => {
                return Some(format!(
                    "failed to parse int from {step}: strconv.Atoi: parsing {step:?}: invalid syntax"
                ));
            }
        }
    }
    if matches!(range, "*" | "?") {
        return None;
    }
    let value = |text: &str| -> Result<i64, String> {
        if let Some(at) = words.iter().position(|w| w.eq_ignore_ascii_case(text)) {
            return Ok(at as i64 + min);
        }
        text.parse().map_err(|_| {
            format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
        })
    };
    let (from, to) = range.split_once('-').unwrap_or((range, range));
    match (value(from), value(to)) {
        (Err(error), _) | (_, Err(error)) => Some(error),
        (Ok(from), _) if from < min => {
            Some(format!("beginning of range ({from}) below minimum ({min}): {part}"))
        }
        (_, Ok(to)) if to > max => Some(format!("end of range ({to}) above maximum ({max}): {part}")),
        (Ok(from), Ok(to)) if from > to => {
            Some(format!("beginning of range ({from}) beyond end of range ({to}): {part}"))
        }
        _ => None,
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Schedule"),
    column("Timezone"),
    Column { name: "Suspend", ty: "boolean", format: "", priority: 0 },
    Column { name: "Active", ty: "integer", format: "", priority: 0 },
    column("Last Schedule"),
    AGE,
    wide("Containers"),
    wide("Images"),
    wide("Selector"),
];

fn cells(object: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&object["spec"], &object["status"]);
    let template = &spec["jobTemplate"]["spec"];
    let [names, images] = containers(&template["template"]);
    let suspended = match spec["suspend"].as_bool() {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    let last = match text(status, "lastScheduleTime") {
        "" => "<none>".to_owned(),
        last => since(last, now),
    };
    let zone = spec["timeZone"].as_str().unwrap_or("<none>");
    vec![
        name(object),
        json!(text(spec, "schedule")),
        json!(zone),
        json!(suspended),
        json!(items(status, "active").len()),
        json!(last),
        age(object, now),
        names,
        images,
        json!(selector_cell(&template["selector"])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_checked() {
        for good in ["* * * * *", "*/5 1-3 1,15 jan mon-fri", "@hourly", "@every 5m"] {
            assert_eq!(schedule_error(good), None, "{good}");
        }
        for bad in ["* * * *", "61 * * * *", "a * * * *", "5-1 * * * *", "*/0 * * * *", "@never"] {
            assert!(schedule_error(bad).is_some(), "{bad}");
        }
    }
}
