//! The pod table: one status out of phase, conditions and containers.

use serde_json::{Value, json};

use super::{AGE, Column, NAME, age, column, name, since, wide};
use crate::kinds::value::{flag, int, items, text};

/// Columns of pods.
pub const COLUMNS: &[Column] = &[
    NAME,
    column("Ready"),
    column("Status"),
    column("Restarts"),
    AGE,
    wide("IP"),
    wide("Node"),
    wide("Nominated Node"),
    wide("Readiness Gates"),
];

/// Cells of a pod.
pub fn cells(pod: &Value, now: &str) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let mut summary = Summary::of(pod);
    let leaving = !pod["metadata"]["deletionTimestamp"].is_null();
    let finished = matches!(text(status, "phase"), "Succeeded" | "Failed");
    if leaving && text(status, "reason") == "NodeLost" {
        summary.reason = "Unknown".into();
    } else if leaving && !finished {
        summary.reason = "Terminating".into();
    }
    let restarts = match summary.last_restart.as_str() {
        last if summary.restarts != 0 && !last.is_empty() => {
            format!("{} ({} ago)", summary.restarts, since(last, now))
        }
        _ => summary.restarts.to_string(),
    };
    let or_none = |text: &str| json!(if text.is_empty() { "<none>" } else { text });
    let ip = items(status, "podIPs").first().map_or("", |ip| text(ip, "ip"));
    vec![
        name(pod),
        json!(format!("{}/{}", summary.ready, summary.total)),
        json!(summary.reason),
        json!(restarts),
        age(pod, now),
        or_none(ip),
        or_none(text(spec, "nodeName")),
        or_none(text(status, "nominatedNodeName")),
        gates(pod),
    ]
}

/// The condition of a finished pod's row.
pub fn conditions(pod: &Value) -> Vec<Value> {
    let (reason, message) = match text(&pod["status"], "phase") {
        "Succeeded" => ("Succeeded", "The pod has completed successfully."),
        "Failed" => ("Failed", "The pod failed."),
        _ => return Vec::new(),
    };
    vec![json!({"type": "Completed", "status": "True", "reason": reason, "message": message})]
}

fn condition<'p>(pod: &'p Value, ty: &str) -> Option<&'p Value> {
    items(&pod["status"], "conditions").iter().find(|c| text(c, "type") == ty)
}

fn gates(pod: &Value) -> Value {
    let gates = items(&pod["spec"], "readinessGates");
    if gates.is_empty() {
        return json!("<none>");
    }
    let open = gates
        .iter()
        .filter(|g| condition(pod, text(g, "conditionType")).is_some_and(|c| text(c, "status") == "True"))
        .count();
    json!(format!("{open}/{}", gates.len()))
}

#[derive(Default)]
struct Summary {
    reason: String,
    ready: usize,
    total: usize,
    restarts: i64,
    last_restart: String,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let mut out = Self { total: items(spec, "containers").len(), ..Self::default() };
        out.reason = match text(status, "reason") {
            "" => text(status, "phase").into(),
            reason => reason.into(),
        };
        if condition(pod, "PodScheduled").is_some_and(|c| text(c, "reason") == "SchedulingGated") {
            out.reason = "SchedulingGated".into();
        }
        let sidecar = |name: &str| {
            items(spec, "initContainers")
                .iter()
                .any(|c| text(c, "name") == name && text(c, "restartPolicy") == "Always")
        };
        out.total +=
            items(spec, "initContainers").iter().filter(|c| text(c, "restartPolicy") == "Always").count();
        let initializing = out.init(pod, &sidecar);
        let initialized = condition(pod, "Initialized").is_some_and(|c| text(c, "status") == "True");
        if !initializing || initialized {
            out.main(pod, &sidecar);
        }
        out
    }

    fn count_restarts(&mut self, container: &Value) {
        self.restarts += int(container, "restartCount");
        let at = text(&container["lastState"]["terminated"], "finishedAt");
        if at > self.last_restart.as_str() {
            self.last_restart = at.into();
        }
    }

    /// Goes through init containers; true while they are not done.
    fn init(&mut self, pod: &Value, sidecar: &dyn Fn(&str) -> bool) -> bool {
        let all = items(&pod["spec"], "initContainers").len();
        for (i, container) in items(&pod["status"], "initContainerStatuses").iter().enumerate() {
            self.count_restarts(container);
            let terminated = &container["state"]["terminated"];
            let waiting = text(&container["state"]["waiting"], "reason");
            if !terminated.is_null() && int(terminated, "exitCode") == 0 {
                continue;
            }
            if sidecar(text(container, "name")) && flag(container, "started") {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            self.reason = if !terminated.is_null() {
                format!("Init:{}", ended(terminated))
            } else if !waiting.is_empty() && waiting != "PodInitializing" {
                format!("Init:{waiting}")
            } else {
                format!("Init:{i}/{all}")
            };
            return true;
        }
        false
    }

    fn main(&mut self, pod: &Value, sidecar: &dyn Fn(&str) -> bool) {
        // Once the main containers run, only restarts of sidecars still count.
        (self.restarts, self.last_restart) = (0, String::new());
        for container in items(&pod["status"], "initContainerStatuses") {
            if sidecar(text(container, "name")) {
                self.count_restarts(container);
            }
        }
        let (mut running, mut failed) = (false, String::new());
        for container in items(&pod["status"], "containerStatuses").iter().rev() {
            self.count_restarts(container);
            let state = &container["state"];
            let waiting = text(&state["waiting"], "reason");
            if !waiting.is_empty() {
                self.reason = waiting.into();
            } else if !state["terminated"].is_null() {
                self.reason = ended(&state["terminated"]);
                if int(&state["terminated"], "exitCode") != 0 {
                    failed.clone_from(&self.reason);
                }
            } else if flag(container, "ready") && !state["running"].is_null() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" {
            let ready = condition(pod, "Ready").is_some_and(|c| text(c, "status") == "True");
            if running && ready {
                self.reason = "Running".into();
            } else if !failed.is_empty() {
                self.reason = failed;
            } else if running {
                self.reason = "NotReady".into();
            }
        }
    }
}

/// Why a container ended.
fn ended(terminated: &Value) -> String {
    match (text(terminated, "reason"), int(terminated, "signal")) {
        ("", 0) => format!("ExitCode:{}", int(terminated, "exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_word_tells_how_a_pod_is() {
        for (status, want) in [
            (json!({"phase": "Pending"}), "Pending"),
            (json!({"phase": "Failed", "reason": "Evicted"}), "Evicted"),
            (
                json!({"phase": "Pending", "containerStatuses": [{"state": {"waiting": {"reason": "ImagePullBackOff"}}}]}),
                "ImagePullBackOff",
            ),
            (
                json!({"phase": "Failed", "containerStatuses": [{"state": {"terminated": {"exitCode": 3}}}]}),
                "ExitCode:3",
            ),
            (
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "state": {"running": {}}}]}),
                "Init:0/1",
            ),
        ] {
            let pod = json!({
                "metadata": {"name": "p"},
                "spec": {"containers": [{"name": "c"}], "initContainers": [{"name": "i"}]},
                "status": status,
            });
            assert_eq!(cells(&pod, "2026-01-01T00:00:00Z")[2], want);
        }
    }
}
