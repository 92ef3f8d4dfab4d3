//! What the controller does, scenario by scenario; times as users read them.

use coxswain_sdk::testing::{Native, Scenario, play};
use coxswain_sdk::{Time, manifest_of};

use crate::CronJobController;
use crate::timing::{rfc1123, rfc3339};
use crate::zone::{UTC, Zone};

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<CronJobController>(scenarios);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<CronJobController>();
    let fields: Vec<Vec<&str>> =
        manifest.reads.iter().map(|read| read.fields.iter().map(String::as_str).collect()).collect();
    let cron_jobs = vec![
        "spec.concurrencyPolicy",
        "spec.failedJobsHistoryLimit",
        "spec.jobTemplate.metadata.annotations",
        "spec.jobTemplate.metadata.labels",
        "spec.jobTemplate.spec",
        "spec.schedule",
        "spec.startingDeadlineSeconds",
        "spec.successfulJobsHistoryLimit",
        "spec.suspend",
        "spec.timeZone",
        "status.active",
        "status.lastScheduleTime",
        "status.lastSuccessfulTime",
    ];
    let jobs = vec![
        "metadata.annotations.\"batch.kubernetes.io/cronjob-scheduled-timestamp\"",
        "status.completionTime",
        "status.conditions[*].status",
        "status.conditions[*].type",
        "status.startTime",
    ];
    assert_eq!(fields, [cron_jobs, jobs]);
}

#[test]
fn times_are_written_as_go_writes_them() {
    let berlin = Zone::named("Europe/Berlin").unwrap();
    let newfoundland = Zone::named("America/St_Johns").unwrap();
    let london = Zone::named("Europe/London").unwrap();
    for (time, zone, expected) in [
        ("2026-01-01T00:00:00Z", &UTC, "2026-01-01T00:00:00Z"),
        ("2026-01-01T00:00:00Z", berlin, "2026-01-01T01:00:00+01:00"),
        ("2026-07-01T22:30:00Z", berlin, "2026-07-02T00:30:00+02:00"),
        ("2026-01-01T00:00:00Z", newfoundland, "2025-12-31T20:30:00-03:30"),
        ("2026-01-01T00:00:00Z", london, "2026-01-01T00:00:00Z"),
    ] {
        assert_eq!(rfc3339(Time::parse(time).unwrap(), zone), expected);
    }
    let time = |text| rfc1123(Time::parse(text).unwrap());
    assert_eq!(time("2026-01-01T00:00:00Z"), "Thu, 01 Jan 2026 00:00:00 +0000");
    assert_eq!(time("1969-12-31T23:59:59Z"), "Wed, 31 Dec 1969 23:59:59 +0000");
    assert_eq!(rfc1123(Time::from_unix(0)), "Thu, 01 Jan 1970 00:00:00 +0000");
}

/// Sixty CronJobs that are due in the same minute all run in it.
#[test]
fn bug_90801_many_cron_jobs_of_one_minute_run_in_that_minute() {
    let cron_job = |i: usize| {
        serde_json::json!({
            "apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": format!("c{i:03}")},
            "spec": {"schedule": "*/1 * * * *", "jobTemplate": {"spec": {}}},
        })
    };
    let scenario = serde_json::json!({
        "about": "many", "now": "2026-01-01T00:00:30Z", "horizon": 31,
        "objects": (0..60).map(cron_job).collect::<Vec<_>>(),
    });
    let scenario: Scenario = serde_json::from_value(scenario).unwrap();
    let told = play(&scenario, &mut Native::<CronJobController>::new()).unwrap();
    let made = told.matches("do: create jobs").count();
    assert_eq!(made, 60, "{told}");
    let late = told.lines().filter(|line| line.starts_with("- at:") && line.contains("T00:02"));
    assert_eq!(late.count(), 0, "{told}");
    assert!(told.contains("at: \"2026-01-01T00:01:00Z\""), "{told}");
}
