//! What is measured of Jobs, under the names that kube-controller-manager has.
//!
//! Pods are counted as they enter the status, Jobs as their end does; so what
//! a failed write leaves out is not counted.

use coxswain_sdk::contract::{Measure, Occasion};
use coxswain_sdk::sort::TextSet;
use coxswain_sdk::{Declaration, Plan, buckets};

use crate::indexes::Indexes;
use crate::manage::Work;
use crate::status::Outlook;
use crate::tally::Tally;
use crate::track::{Release, clamped};
use crate::view::Job;

const SYNC_SECONDS: &str = "job_controller_job_sync_duration_seconds";
const SYNCS: &str = "job_controller_job_syncs_total";
const FINISHED: &str = "job_controller_jobs_finished_total";
const PODS_FINISHED: &str = "job_controller_job_pods_finished_total";
const INDEXES_FINISHED: &str = "job_controller_job_finished_indexes_total";
const PODS_CREATED: &str = "job_controller_job_pods_creation_total";
const HANDLED_FAILURES: &str = "job_controller_pod_failures_handled_by_failure_policy_total";
const ELSEWHERE: &str = "job_controller_jobs_by_external_controller_total";

/// Tag of the write that the counts go with.
const STATUS: &str = "status";
/// Tag of the writes that make pods.
pub const CREATE: &str = "create";
/// What tags of writes begin with that take the finalizer off pods which a rule of the policy judged.
pub const HANDLED: &str = "count ";

/// State of the key of a Job that others manage, once it is counted.
const COUNTED: &str = "managed-elsewhere";

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    let sync = ["completion_mode", "result", "action"];
    // 4 ms doubling to 65 s.
    let buckets = buckets::exponential(0.004, 2.0, 15);
    declaration
        .histogram(SYNC_SECONDS, &sync, &buckets, "[STABLE] The time it took to sync a job")
        .counter(SYNCS, &sync, "[STABLE] The number of job syncs")
        .counter(FINISHED, &["completion_mode", "result", "reason"], "[STABLE] The number of finished jobs")
        .counter(
            PODS_FINISHED,
            &["completion_mode", "result"],
            "[STABLE] The number of finished Pods that are fully tracked",
        )
        .counter(
            INDEXES_FINISHED,
            &["status", "backoffLimit"],
            "[ALPHA] The number of finished indexes. Possible values for the status label are: \"succeeded\", \"failed\". Possible values for the backoffLimit label are: \"perIndex\" and \"global\"",
        )
        .counter(
            PODS_CREATED,
            &["reason", "status"],
            "[ALPHA] The number of Pods created by the Job controller labelled with a reason for the Pod creation. This metric also distinguishes between Pods created using different PodReplacementPolicy settings. Possible values of the \"reason\" label are: \"new\", \"recreate_terminating_or_failed\", \"recreate_failed\". Possible values of the \"status\" label are: \"succeeded\", \"failed\".",
        )
        .counter(
            HANDLED_FAILURES,
            &["action"],
            "[BETA] The number of failed Pods handled by failure policy with respect to the failure policy action applied based on the matched rule. Possible values of the action label correspond to the possible values for the failure policy rule action, which are: \"FailJob\", \"Ignore\" and \"Count\".",
        )
        .counter(
            ELSEWHERE,
            &["controller_name"],
            "[ALPHA] The number of Jobs managed by an external controller",
        )
}

fn mode(job: &Job) -> &'static str {
    if job.is_indexed() { "Indexed" } else { "NonIndexed" }
}

/// Measures a sync.
pub fn sync(plan: &mut Plan, job: &Job, work: &Work<'_>) {
    let action = if !work.create.is_empty() {
        "pods_created"
    } else if !work.delete.is_empty() {
        "pods_deleted"
    } else {
        "tracking"
    };
    for (occasion, result) in [(Occasion::Succeeded, "success"), (Occasion::Failed, "error")] {
        let labels = [mode(job), result, action];
        plan.measure_if(occasion.clone(), SYNC_SECONDS, &labels, Measure::Elapsed);
        plan.measure_if(occasion, SYNCS, &labels, Measure::Number(1.0));
    }
}

/// Counts pods that are made, and those that the last plan could not make.
pub fn creations(plan: &mut Plan, job: &Job, tally: &Tally<'_>, work: &Work<'_>, refused: usize) {
    let only_failed = job.spec.pod_replacement_policy.as_deref() == Some("Failed");
    let reason = if tally.failed > 0 && only_failed {
        "recreate_failed"
    } else if tally.failed > 0 || tally.terminating > 0 {
        "recreate_terminating_or_failed"
    } else {
        "new"
    };
    if refused > 0 {
        plan.measure(PODS_CREATED, &[reason, "failed"], refused as f64);
    }
    if !work.create.is_empty() {
        let each = Occasion::Each(CREATE.to_owned());
        plan.measure_if(each, PODS_CREATED, &[reason, "succeeded"], Measure::Number(1.0));
    }
}

/// Counts a Job that others manage, the first time it is seen.
pub fn managed_elsewhere(plan: &mut Plan, state: Option<&str>, manager: &str) {
    if state != Some(COUNTED) {
        plan.measure(ELSEWHERE, &[manager], 1.0).keep(COUNTED);
    }
}

/// Counts failed pods that a rule of the policy judged, as they lose their
/// finalizer: what loses it does so once.
pub fn handled(plan: &mut Plan, release: &[Release<'_>]) {
    let actions: TextSet<'_> = release.iter().filter_map(|release| release.action).collect();
    for action in actions.iter() {
        let each = Occasion::Each(format!("{HANDLED}{action}"));
        plan.measure_if(each, HANDLED_FAILURES, &[action], Measure::Number(1.0));
    }
}

/// Counts what a write of the status makes true.
pub fn status(plan: &mut Plan, job: &Job, tally: &Tally<'_>, outlook: &Outlook<'_>) {
    let mut count = |metric: &str, labels: &[&str], number: i32| {
        if number > 0 {
            let number = Measure::Number(number.into());
            plan.measure_if(Occasion::Done(STATUS.to_owned()), metric, labels, number);
        }
    };
    let (before, after) = (&job.status, &outlook.after);
    count(PODS_FINISHED, &[mode(job), "succeeded"], after.succeeded - before.succeeded);
    count(PODS_FINISHED, &[mode(job), "failed"], after.failed - before.failed);
    if job.is_indexed() {
        let per_index = job.backoff_limit_per_index().is_some();
        let limit = if per_index { "perIndex" } else { "global" };
        let failed_before =
            Indexes::parse(before.failed_indexes.as_deref().unwrap_or_default(), job.completions());
        let finished = [
            ("succeeded", tally.completed.total() - tally.completed_before.total()),
            ("failed", tally.failed_indexes_total() - failed_before.total()),
        ];
        for (result, number) in finished {
            count(INDEXES_FINISHED, &[result, limit], clamped(number));
        }
    }
    if let Some(verdict) = &outlook.end {
        let result = if verdict.success { "succeeded" } else { "failed" };
        count(FINISHED, &[mode(job), result, &verdict.reason], 1);
    }
}
