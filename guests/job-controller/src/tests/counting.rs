//! Each pod is counted once, whichever write fails.

use std::sync::Arc;

use coxswain_sdk::contract::{Manifest, Outcome, Request};
use coxswain_sdk::testing::{Frozen, Native, Reconciler, Scenario, play};
use serde_json::{Value, json};

use crate::JobController;

/// A Job of which two pods succeed and one fails, with one write refused.
fn scenario(spec: &Value, verb: &str, resource: &str, skip: u32, fail: Option<Value>) -> Scenario {
    let mut job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sums", "uid": "job-sums"},
        "spec": {
            "completions": 2, "parallelism": 2, "selector": {"matchLabels": {"job": "sums"}},
            "template": {"metadata": {"labels": {"job": "sums"}}, "spec": {}},
        },
    });
    coxswain_sdk::merge::apply(&mut job["spec"], spec);
    let ended = |name: &str, phase: &str, second: u32| {
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "status": {
            "phase": phase,
            "containerStatuses": [{"name": "c", "state": {"terminated": {"finishedAt": format!("2026-01-01T00:00:{second:02}Z")}}}],
        }})
    };
    let indexed = spec["completionMode"] == "Indexed";
    let name = |index: u32, number: u32| {
        if indexed { format!("sums-{index}-{number:05}") } else { format!("sums-{:05}", index + number) }
    };
    let mut refusal = json!({"verb": verb, "resource": resource, "skip": skip});
    if let Some(fail) = fail {
        refusal["fail"] = fail;
    }
    let all = json!({
        "about": "a write is refused", "rounds": 80, "objects": [job], "refuse": [refusal],
        "then": [
            {"after": 2, "apply": [ended(&name(0, 1), "Failed", 3), ended(&name(1, 1), "Succeeded", 2)]},
            {"after": 2, "apply": [ended(&if indexed { name(0, 2) } else { name(2, 1) }, "Succeeded", 20)]},
        ],
    });
    serde_json::from_value(all).unwrap()
}

/// The last number that a counter of the status was given.
fn last(golden: &str, counter: &str) -> Option<u32> {
    let number = |line: &str| line.trim_start().strip_prefix(counter)?.strip_prefix(": ")?.parse().ok();
    golden.lines().rev().find_map(number)
}

#[test]
fn each_pod_is_counted_once_whichever_write_fails() {
    let conflict = json!({"status": 409, "reason": "Conflict", "message": "changed"});
    let broken = json!({"status": 500, "reason": "InternalError", "message": "no"});
    let mut met = 0;
    for spec in [json!({}), json!({"completionMode": "Indexed"}), json!({"podReplacementPolicy": "Failed"})] {
        for (verb, resource) in [("patch", "pods"), ("patch", "jobs/status"), ("create", "pods")] {
            for fail in [Some(conflict.clone()), Some(broken.clone()), None] {
                for skip in 0..12 {
                    let what = format!("{spec}: {verb} {resource} number {skip}: {fail:?}");
                    let scenario = scenario(&spec, verb, resource, skip, fail.clone());
                    match play(&scenario, &mut Native::<JobController>::new()) {
                        // There are not as many writes.
                        Err(error) if error.starts_with("nothing ran into the refusal") => break,
                        Err(error) => panic!("{what}: {error}"),
                        Ok(golden) => {
                            met += 1;
                            assert_eq!(last(&golden, "succeeded"), Some(2), "{what}\n{golden}");
                            assert_eq!(last(&golden, "failed"), Some(1), "{what}\n{golden}");
                            assert!(golden.contains("Normal Completed about"), "{what}\n{golden}");
                        }
                    }
                }
            }
        }
    }
    assert!(met > 90, "only {met} refusals were met");
}

/// A controller that loses its memory again and again.
struct Forgetful {
    inner: Native<JobController>,
    every: u32,
    asked: u32,
}

impl Reconciler for Forgetful {
    fn manifest(&self) -> Manifest {
        self.inner.manifest()
    }

    fn reconcile(&mut self, request: &Request, snapshot: &Arc<Frozen>) -> Result<Outcome, String> {
        self.asked += 1;
        let forgets = self.asked.is_multiple_of(self.every);
        let state = request.state.clone().filter(|_| !forgets);
        self.inner.reconcile(&Request { state, ..request.clone() }, snapshot)
    }
}

#[test]
fn memory_changes_when_things_are_done_not_what() {
    let refused = json!({"status": 500, "reason": "InternalError", "message": "no"});
    for spec in [json!({}), json!({"completionMode": "Indexed"})] {
        for every in 1..6 {
            let scenario = scenario(&spec, "patch", "jobs/status", 2, Some(refused.clone()));
            let mut forgetful = Forgetful { inner: Native::new(), every, asked: 0 };
            let golden = play(&scenario, &mut forgetful).unwrap();
            assert_eq!((last(&golden, "succeeded"), last(&golden, "failed")), (Some(2), Some(1)), "{golden}");
            assert!(golden.contains("Normal Completed about"), "{golden}");
            // The failed pod is waited for all the same.
            let third =
                golden.split("- at: ").filter(|plan| plan.contains("do: create pods")).last().unwrap();
            assert!(third.starts_with("\"2026-01-01T00:00:13Z"), "every {every}: {third}");
        }
    }
}

/// Lines of a golden that hold this text.
fn count(golden: &str, text: &str) -> usize {
    golden.lines().filter(|line| line.contains(text)).count()
}

#[test]
fn a_big_job_is_made_and_counted_in_bursts() {
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sums", "uid": "job-sums"},
        "spec": {
            "completions": 1200, "parallelism": 1200, "selector": {"matchLabels": {"job": "sums"}},
            "template": {"metadata": {"labels": {"job": "sums"}}, "spec": {}},
        },
    });
    let all_succeed = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "sums-*"}, "status": {"phase": "Succeeded"}});
    let scenario = json!({
        "about": "many pods", "objects": [job], "then": [{"after": 10, "apply": [all_succeed]}],
    });
    let scenario: Scenario = serde_json::from_value(scenario).unwrap();
    let golden = play(&scenario, &mut Native::<JobController>::new()).unwrap();
    // 500, 500 and 200, without a pause between.
    assert_eq!(count(&golden, "- do: create pods"), 3);
    let (before, _) = golden.rsplit_once("do: create pods").unwrap();
    let at = before.lines().rfind(|line| line.starts_with("- at:"));
    assert_eq!(at, Some("- at: \"2026-01-01T00:00:00Z\""));
    assert_eq!(count(&golden, "do: patch pods"), 1200);
    assert_eq!(last(&golden, "succeeded"), Some(1200));
    // Made in 3, counted in 3 that write twice, and a look at ready pods is none.
    assert_eq!(count(&golden, "do: patch jobs default/sums/status"), 9);
    assert_eq!(count(&golden, "Normal Completed about"), 1);
}
