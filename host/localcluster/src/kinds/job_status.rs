//! What a Job's status may say, and how it may change.
//!
//! Invariant: a rule speaks only where what it is about changed, so that a status that was bad before does not block
//! writes to the rest of it. Upstream: KEP-4368 (managedBy) brought these rules.

use std::collections::BTreeSet;

use serde_json::Value;

use super::meta::non_negative;
use super::value::{flag, int, items, text};
use crate::status::{FieldError, FieldReason};

/// Both versions of a Job whose status is written.
struct Change<'v> {
    old: &'v Value,
    new: &'v Value,
    out: Vec<FieldError>,
}

/// Checks a write to `status`.
pub(super) fn validate(old: &Value, new: &Value) -> Vec<FieldError> {
    let mut change = Change { old, new, out: Vec::new() };
    change.counters();
    change.uncounted();
    change.conditions();
    change.finished();
    change.indexes();
    change.transitions();
    change.out
}

fn is(job: &Value, condition: &str, status: &str) -> bool {
    items(&job["status"], "conditions").iter().any(|c| text(c, "type") == condition && c["status"] == status)
}

fn holds(job: &Value, condition: &str) -> bool {
    is(job, condition, "True")
}

fn is_finished(job: &Value) -> bool {
    holds(job, "Complete") || holds(job, "Failed")
}

impl Change<'_> {
    fn status(&self) -> &Value {
        &self.new["status"]
    }

    fn moved(&self, key: &str) -> bool {
        self.old["status"][key] != self.new["status"][key]
    }

    fn condition_moved(&self, condition: &str) -> bool {
        holds(self.old, condition) != holds(self.new, condition)
    }

    fn finished_moved(&self) -> bool {
        is_finished(self.old) != is_finished(self.new)
    }

    fn invalid(&mut self, key: &str, detail: &str) {
        let value = self.status()[key].clone();
        self.out.push(FieldError::invalid(format!("status.{key}"), &value, detail));
    }

    /// The real server leaves the conditions themselves out of the message.
    fn bad_conditions(&mut self, detail: &str) {
        let message = format!("Invalid value: {detail}");
        self.out.push(FieldError::raw(FieldReason::Invalid, "status.conditions", message));
    }

    fn counters(&mut self) {
        for key in ["active", "succeeded", "failed", "ready", "terminating"] {
            let count = int(self.status(), key);
            non_negative(&mut self.out, &format!("status.{key}"), count);
        }
    }

    fn uncounted(&mut self) {
        let mut seen = BTreeSet::new();
        for list in ["succeeded", "failed"] {
            for (i, uid) in items(&self.new["status"]["uncountedTerminatedPods"], list).iter().enumerate() {
                let field = format!("status.uncountedTerminatedPods.{list}[{i}]");
                let text = uid.as_str().unwrap_or_default();
                if text.is_empty() {
                    self.out.push(FieldError::invalid(field, uid, "must not be empty"));
                } else if !seen.insert(text) {
                    self.out.push(FieldError::duplicate(field, uid));
                }
            }
        }
    }

    /// Conditions that exclude or need each other.
    fn conditions(&mut self) {
        let (complete, failed) = (holds(self.new, "Complete"), holds(self.new, "Failed"));
        let (target, criteria) = (holds(self.new, "FailureTarget"), holds(self.new, "SuccessCriteriaMet"));
        let complete_moved = self.condition_moved("Complete");
        if (complete_moved || self.condition_moved("Failed")) && complete && failed {
            self.bad_conditions("cannot set Complete=True and Failed=true conditions");
        }
        if (complete_moved || self.condition_moved("FailureTarget")) && complete && target {
            self.bad_conditions("cannot set Complete=True and FailureTarget=true conditions");
        }
        let (done, start) = (self.status()["completionTime"].clone(), self.status()["startTime"].clone());
        if complete_moved || self.moved("completionTime") {
            if !done.is_null() && !complete {
                let detail = "cannot set completionTime when there is no Complete=True condition";
                self.invalid("completionTime", detail);
            }
            if done.is_null() && complete {
                let detail = "completionTime is required for Complete jobs";
                self.out.push(FieldError::required("status.completionTime", detail));
            }
        }
        if self.moved("startTime") || self.moved("completionTime") {
            let time = |v: &Value| v.as_str().and_then(|t| t.parse::<jiff::Timestamp>().ok());
            if let (Some(start), Some(done)) = (time(&start), time(&done)) {
                if done < start {
                    self.invalid("completionTime", "must be equal to or after `startTime`");
                }
            }
        }
        if (self.condition_moved("Failed") || self.moved("failedIndexes")) && failed && !target {
            self.bad_conditions("cannot set Failed=True condition without the FailureTarget=true condition");
        }
        if (complete_moved || self.condition_moved("SuccessCriteriaMet")) && complete && !criteria {
            self.bad_conditions(
                "cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            );
        }
    }

    /// A finished Job has nothing left to do.
    fn finished(&mut self) {
        let (finished, moved) = (is_finished(self.new), self.finished_moved());
        if (moved || self.moved("active")) && finished && int(self.status(), "active") > 0 {
            self.invalid("active", "active>0 is invalid for finished job");
        }
        let spec = &self.new["spec"];
        let never_ran = flag(spec, "suspend") && spec["completions"] == 0;
        if (moved || self.moved("startTime"))
            && !never_ran
            && finished
            && self.status()["startTime"].is_null()
        {
            self.out.push(FieldError::required("status.startTime", "startTime is required for finished job"));
        }
        let uncounted = &self.status()["uncountedTerminatedPods"];
        let left = items(uncounted, "failed").len() + items(uncounted, "succeeded").len();
        if (moved || self.moved("uncountedTerminatedPods")) && finished && left > 0 {
            self.invalid("uncountedTerminatedPods", "must be empty for finished job");
        }
    }

    fn indexes(&mut self) {
        let spec = self.new["spec"].clone();
        let completions = spec["completions"].as_i64();
        let completed = text(self.status(), "completedIndexes").to_owned();
        let failed = self.status()["failedIndexes"].as_str().map(str::to_owned);
        let (completed_moved, failed_moved) = (self.moved("completedIndexes"), self.moved("failedIndexes"));
        let per_index = !spec["backoffLimitPerIndex"].is_null();
        if let (true, Some(completions)) = (completed_moved, completions) {
            if let Err(why) = intervals(&completed, completions) {
                self.invalid("completedIndexes", &format!("error parsing completedIndexes: {why}"));
            }
        }
        if let (true, true, Some(completions), Some(failed)) = (failed_moved, per_index, completions, &failed)
        {
            if let Err(why) = intervals(failed, completions) {
                self.invalid("failedIndexes", &format!("error parsing failedIndexes: {why}"));
            }
        }
        if completed_moved && !completed.is_empty() && text(&spec, "completionMode") != "Indexed" {
            let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
            self.invalid("completedIndexes", detail);
        }
        if failed_moved && !per_index && failed.is_some() {
            let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
            self.invalid("failedIndexes", detail);
        }
        if let (true, Some(completions), Some(failed)) =
            (completed_moved || failed_moved, completions, failed)
        {
            let both = (intervals(&completed, completions), intervals(&failed, completions));
            if let (Ok(completed), Ok(failed)) = both {
                let twice = failed
                    .iter()
                    .find_map(|f| completed.iter().find(|c| f.0 <= c.1 && c.0 <= f.1).map(|c| f.0.max(c.0)));
                if let Some(index) = twice {
                    let detail = format!("failedIndexes and completedIndexes overlap at index: {index}");
                    self.invalid("failedIndexes", &detail);
                }
            }
        }
    }

    fn transitions(&mut self) {
        let (finished, moved) = (is_finished(self.new), self.finished_moved());
        if (moved || self.moved("terminating")) && finished && int(self.status(), "terminating") > 0 {
            self.invalid("terminating", "terminating>0 is invalid for finished job");
        }
        let (ready, active) = (int(self.status(), "ready"), int(self.status(), "active"));
        let told = !self.status()["ready"].is_null();
        if told && (self.moved("ready") || self.moved("active")) && ready > active {
            self.invalid("ready", "cannot set more ready pods than active");
        }
        let criteria = holds(self.new, "SuccessCriteriaMet");
        if criteria && holds(self.new, "Failed") {
            self.bad_conditions("cannot set SuccessCriteriaMet=True and Failed=true conditions");
        }
        if criteria && holds(self.new, "FailureTarget") {
            self.bad_conditions("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions");
        }
        let policy = !self.new["spec"]["successPolicy"].is_null();
        if policy && !criteria && holds(self.new, "Complete") {
            self.bad_conditions(
                "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
            );
        }
        for condition in ["Failed", "Complete", "FailureTarget"] {
            if holds(self.old, condition) && !holds(self.new, condition) {
                self.bad_conditions(&format!("cannot disable the terminal {condition}=True condition"));
            }
        }
        let (before, after) = (&self.old["status"], &self.new["status"]);
        let less = |key| int(after, key) < int(before, key);
        let (failed_less, succeeded_less) = (less("failed"), less("succeeded"));
        let spec = &self.new["spec"];
        let scalable =
            text(spec, "completionMode") == "Indexed" && spec["completions"] == spec["parallelism"];
        let (had, has) = (before["completionTime"].clone(), after["completionTime"].clone());
        let resumed = holds(self.old, "Suspended") && is(self.new, "Suspended", "False");
        let restarted = !before["startTime"].is_null() && self.moved("startTime") && !flag(spec, "suspend");
        if failed_less {
            self.invalid("failed", "cannot decrease the failed counter");
        }
        if succeeded_less && !scalable {
            self.invalid("succeeded", "cannot decrease the succeeded counter");
        }
        if !had.is_null() && !has.is_null() && had != has {
            self.invalid("completionTime", "field is immutable");
        }
        if restarted && !resumed {
            self.invalid("startTime", "field is immutable for unsuspended job once set");
        }
        let met = holds(self.old, "SuccessCriteriaMet");
        if met && !criteria {
            self.bad_conditions("cannot disable the SuccessCriteriaMet=True condition");
        }
        if holds(self.old, "Complete") && !met && criteria {
            self.bad_conditions(
                "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions",
            );
        }
    }
}

/// First and last index of each interval of a text such as `1,3-5`.
fn intervals(text: &str, completions: i64) -> Result<Vec<(i64, i64)>, String> {
    let mut out: Vec<(i64, i64)> = Vec::new();
    if text.is_empty() {
        return Ok(out);
    }
    let index = |part: &str| -> Result<i64, String> {
        let index: i64 =
            part.parse().map_err(|_| format!("cannot convert string to integer for index: {part:?}"))?;
        if index >= completions { Err(format!("too large index: {part:?}")) } else { Ok(index) }
    };
    let order = |a: i64, b: i64| format!("non-increasing order, previous: {a}, current: {b}");
    for interval in text.split(',') {
        let parts: Vec<&str> = interval.split('-').collect();
        let (first, last) = match parts.as_slice() {
            [one] => (index(one)?, index(one)?),
            [first, last] => (index(first)?, index(last)?),
            _ => {
                return Err(format!(
                    "the fragment {interval:?} violates the requirement that an index interval can have at most two parts separated by '-'"
                ));
            }
        };
        if parts.len() == 2 && first >= last {
            return Err(order(first, last));
        }
        if let Some(previous) = out.last().filter(|previous| previous.1 >= first) {
            return Err(order(previous.1, first));
        }
        out.push((first, last));
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn job(status: Value) -> Value {
        json!({"spec": {"completions": 5, "parallelism": 2, "completionMode": "Indexed", "backoffLimitPerIndex": 1},
               "status": status})
    }

    fn complaints(old: Value, new: Value) -> Vec<String> {
        validate(&job(old), &job(new)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_refused() {
        let condition = |kind: &str| json!({"type": kind, "status": "True"});
        for (old, new, want) in [
            (json!({}), json!({"active": 1, "ready": 1}), ""),
            (
                json!({}),
                json!({"ready": 1}),
                "status.ready: Invalid value: 1: cannot set more ready pods than active",
            ),
            (json!({"ready": 1}), json!({"ready": 1}), ""),
            (json!({"failed": 2}), json!({"failed": 1}), "cannot decrease the failed counter"),
            (
                json!({}),
                json!({"conditions": [condition("Failed")], "startTime": "2026-01-01T00:00:00Z"}),
                "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
            ),
            (json!({}), json!({"completedIndexes": "0,2-4"}), ""),
            (json!({}), json!({"completedIndexes": "0,5"}), "too large index: \"5\""),
            (json!({}), json!({"completedIndexes": "3,1"}), "non-increasing order, previous: 3, current: 1"),
            (json!({}), json!({"completedIndexes": "0-2", "failedIndexes": "2"}), "overlap"),
        ] {
            let found = complaints(old, new.clone());
            if want.is_empty() {
                assert!(found.is_empty(), "{new}: {found:?}");
            } else {
                assert!(found.iter().any(|f| f.contains(want)), "{new}: {found:?}");
            }
        }
    }
}
