//! The Job of a run.

use coxswain_sdk::resource::{CRON_JOBS, JOBS};
use coxswain_sdk::{Action, OwnerReference, Result, StringMap, Time};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::timing::rfc3339;
use crate::view::{CronJob, Job, Reference};
use crate::zone::Zone;

const SCHEDULED: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";

/// Name of the Job of a run: the same for every attempt to make it.
pub fn name(cron_job: &str, run: Time) -> String {
    // Toward zero, as the division of other implementations.
    format!("{cron_job}-{}", run.unix() / 60)
}

/// The run that a Job was made for by us, if it was.
pub fn run_of(cron_job: &CronJob, job: &Job) -> Option<Time> {
    let run = Time::parse(job.metadata.annotations.timestamp.as_deref()?)?;
    (job.metadata.name == name(&cron_job.metadata.name, run)).then_some(run)
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewJob<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: NewMeta<'a>,
    spec: Option<&'a RawValue>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct NewMeta<'a> {
    name: &'a str,
    namespace: &'a str,
    #[serde(skip_serializing_if = "StringMap::is_empty")]
    labels: &'a StringMap,
    annotations: StringMap,
    owner_references: [OwnerReference; 1],
}

/// Makes the Job of a run.
pub fn create(cron_job: &CronJob, run: Time, zone: &Zone) -> Result<Action> {
    let CronJob { metadata, spec, .. } = cron_job;
    let name = name(&metadata.name, run);
    let template = &spec.job_template;
    let mut annotations = template.metadata.annotations.clone();
    annotations.insert(SCHEDULED.to_owned(), rfc3339(run, zone));
    let job = NewJob {
        api_version: "batch/v1",
        kind: "Job",
        metadata: NewMeta {
            name: &name,
            namespace: &metadata.namespace,
            labels: &template.metadata.labels,
            annotations,
            owner_references: [OwnerReference::controller(CRON_JOBS, &metadata.name, &metadata.uid)],
        },
        spec: template.spec.as_deref(),
    };
    Action::create(JOBS, &metadata.namespace, &name, &job)
}

/// A reference to a Job for the list of those that run.
pub fn reference(job: &Job) -> Reference {
    let meta = &job.metadata;
    let fields = [
        ("apiVersion", "batch/v1"),
        ("kind", "Job"),
        ("name", &meta.name),
        ("namespace", &meta.namespace),
        ("uid", &meta.uid),
    ];
    let own = |(field, text): (&str, &str)| (field.to_owned(), Value::String(text.to_owned()));
    Reference(fields.into_iter().map(own).collect::<Map<_, _>>())
}
