//! What a kubelet makes of a pod: when it runs, is ready, ends, is removed.
//!
//! In: the pod, what was done for it before, the time. Out: what to write now,
//! and when to look again. Nothing is written here.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use super::annotations::Behaviour;

/// What a kubelet remembers of a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct PodState {
    pub ip: String,
    /// When the pod was taken on, for `status.startTime`.
    pub since: String,
    started: Option<(Instant, String)>,
    restarts: u32,
    exit_code: i32,
    shown: Option<Shown>,
    deleted_at: Option<Instant>,
    final_status: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Shown {
    Running,
    Ready,
    Done,
}

/// What is to be done for a pod.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Todo {
    /// Status to write.
    pub status: Option<Value>,
    /// Whether to remove it for good.
    pub remove: bool,
    /// When to look again.
    pub again: Option<Duration>,
}

/// Looks at a bound pod.
pub(super) fn look(pod: &Value, host_ip: &str, state: &mut PodState, now: Instant, time: &str) -> Todo {
    let behaviour = Behaviour::of(pod);
    let phase = pod["status"]["phase"].as_str().unwrap_or("");
    let terminal = matches!(phase, "Succeeded" | "Failed");
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return terminate(pod, host_ip, &behaviour, state, terminal, now, time);
    }
    if terminal || behaviour.never_runs {
        return Todo::default();
    }
    if let Some(reason) = &behaviour.fail_reason {
        state.exit_code = 1;
        state.started.get_or_insert((now, time.to_owned()));
        let status = state.status(pod, host_ip, "Failed", Shown::Done, Some(reason), time);
        return Todo { status: Some(status), ..Todo::default() };
    }
    run(pod, host_ip, &behaviour, state, now, time)
}

fn run(
    pod: &Value,
    host_ip: &str,
    behaviour: &Behaviour,
    state: &mut PodState,
    now: Instant,
    time: &str,
) -> Todo {
    let mut started = state.started.get_or_insert_with(|| (now, time.to_owned())).0;
    let mut again: Option<Duration> = None;
    if let Some(exit_after) = behaviour.exit_after {
        let mut left = (started + exit_after).saturating_duration_since(now);
        if left.is_zero() {
            state.exit_code = behaviour.exit_code;
            let policy = pod["spec"]["restartPolicy"].as_str().unwrap_or("Always");
            if policy == "Never" || (policy == "OnFailure" && state.exit_code == 0) {
                let phase = if state.exit_code == 0 { "Succeeded" } else { "Failed" };
                let status = state.status(pod, host_ip, phase, Shown::Done, None, time);
                return Todo { status: Some(status), ..Todo::default() };
            }
            started = now;
            state.started = Some((now, time.to_owned()));
            state.restarts += 1;
            state.shown = None;
            left = exit_after.max(Duration::from_millis(200));
        }
        again = Some(left);
    }
    let ready_left = (started + behaviour.ready_after).saturating_duration_since(now);
    let ready = !behaviour.never_ready && ready_left.is_zero();
    let shown = if ready { Shown::Ready } else { Shown::Running };
    let status =
        (state.shown != Some(shown)).then(|| state.status(pod, host_ip, "Running", shown, None, time));
    if !behaviour.never_ready && !ready_left.is_zero() {
        again = Some(again.map_or(ready_left, |a| a.min(ready_left)));
    }
    Todo { status, remove: false, again }
}

fn terminate(
    pod: &Value,
    host_ip: &str,
    behaviour: &Behaviour,
    state: &mut PodState,
    terminal: bool,
    now: Instant,
    time: &str,
) -> Todo {
    if behaviour.stuck_terminating {
        return Todo::default();
    }
    let deleted_at = *state.deleted_at.get_or_insert(now);
    let left = (deleted_at + behaviour.terminate_after.unwrap_or_default()).saturating_duration_since(now);
    if !left.is_zero() {
        return Todo { again: Some(left), ..Todo::default() };
    }
    // Whoever still looks at the pod is to see how it ended.
    let watched = pod["metadata"]["finalizers"].as_array().is_some_and(|f| !f.is_empty())
        || pod["spec"]["restartPolicy"] != "Always"
        || behaviour.terminate_after.is_some();
    let mut status = None;
    if watched && !terminal && !state.final_status {
        state.exit_code = 137;
        state.started.get_or_insert((now, time.to_owned()));
        status = Some(state.status(pod, host_ip, "Failed", Shown::Done, None, time));
        state.final_status = true;
    }
    Todo { status, remove: true, again: None }
}

impl PodState {
    /// Notes that a status could not be written, so that it is tried again.
    pub fn unsaved(&mut self) {
        self.shown = None;
        self.final_status = false;
    }

    fn status(
        &mut self,
        pod: &Value,
        host_ip: &str,
        phase: &str,
        shown: Shown,
        reason: Option<&str>,
        time: &str,
    ) -> Value {
        self.shown = Some(shown);
        let before = |kind: &str, status: &str| {
            let conditions = pod["status"]["conditions"].as_array()?;
            let old = conditions.iter().find(|c| c["type"] == kind && c["status"] == status)?;
            old["lastTransitionTime"].as_str().map(str::to_owned)
        };
        let conditions: Vec<Value> = ["PodScheduled", "Initialized", "ContainersReady", "Ready"]
            .into_iter()
            .map(|kind| {
                let good = matches!(kind, "PodScheduled" | "Initialized") || shown == Shown::Ready;
                let status = if good { "True" } else { "False" };
                let reason = match (good, shown, phase) {
                    (true, ..) => Value::Null,
                    (_, Shown::Done, "Succeeded") => json!("PodCompleted"),
                    (_, Shown::Done, _) => json!("PodFailed"),
                    _ => json!("ContainersNotReady"),
                };
                let since = before(kind, status).unwrap_or_else(|| time.to_owned());
                json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": since})
            })
            .collect();
        let mut status = json!({"phase": phase, "conditions": conditions,
            "podIP": self.ip, "podIPs": [{"ip": self.ip}], "hostIP": host_ip, "hostIPs": [{"ip": host_ip}],
            "startTime": self.since, "containerStatuses": self.containers(pod, shown, time)});
        if let Some(reason) = reason {
            status["reason"] = json!(reason);
        }
        status
    }

    fn containers(&self, pod: &Value, shown: Shown, time: &str) -> Vec<Value> {
        let started = self.started.as_ref().map_or(time, |(_, text)| text);
        let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
        containers
            .map(|c| {
                let name = c["name"].as_str().unwrap_or_default();
                let state = if shown == Shown::Done {
                    let reason = if self.exit_code == 0 { "Completed" } else { "Error" };
                    json!({"terminated": {"exitCode": self.exit_code, "reason": reason, "startedAt": started,
                        "finishedAt": time, "containerID": format!("sim://{name}")}})
                } else {
                    json!({"running": {"startedAt": started}})
                };
                json!({"name": name, "image": c["image"].as_str().unwrap_or_default(), "imageID": "sim",
                    "containerID": format!("sim://{name}"), "ready": shown == Shown::Ready,
                    "started": shown != Shown::Done, "restartCount": self.restarts, "state": state})
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: Value, spec: Value) -> Value {
        let mut pod = json!({"metadata": {"name": "p", "annotations": annotations}, "spec": {"containers": [{"name": "c"}]}});
        pod["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        pod
    }

    fn ready(todo: &Todo) -> Option<bool> {
        let status = todo.status.as_ref()?;
        Some(status["conditions"].as_array()?.iter().any(|c| c["type"] == "Ready" && c["status"] == "True"))
    }

    #[tokio::test(start_paused = true)]
    async fn a_plain_pod_is_ready_at_once_and_left_alone_then() {
        let (pod, mut state) = (pod(json!({}), json!({})), PodState::default());
        let todo = look(&pod, "h", &mut state, Instant::now(), "t");
        assert_eq!((ready(&todo), todo.again), (Some(true), None));
        assert_eq!(look(&pod, "h", &mut state, Instant::now(), "t"), Todo::default());
    }

    #[tokio::test(start_paused = true)]
    async fn ready_later_exit_and_restart() {
        let prefix = |k: &str| format!("sim.coxswain.dev/{k}");
        let pod = pod(
            json!({prefix("ready-after"): "1s", prefix("exit-after"): "3s", prefix("exit-code"): "2"}),
            json!({"restartPolicy": "OnFailure"}),
        );
        let mut state = PodState::default();
        let todo = look(&pod, "h", &mut state, Instant::now(), "t");
        assert_eq!((ready(&todo), todo.again), (Some(false), Some(Duration::from_secs(1))));
        tokio::time::advance(Duration::from_secs(1)).await;
        let todo = look(&pod, "h", &mut state, Instant::now(), "t");
        assert_eq!((ready(&todo), todo.again), (Some(true), Some(Duration::from_secs(2))));
        tokio::time::advance(Duration::from_secs(2)).await;
        let todo = look(&pod, "h", &mut state, Instant::now(), "t");
        assert_eq!(ready(&todo), Some(false), "restarted, and ready a second later");
        assert_eq!(todo.status.unwrap()["containerStatuses"][0]["restartCount"], 1);
    }

    #[tokio::test(start_paused = true)]
    async fn exits_decide_the_phase() {
        for (code, policy, phase) in
            [("0", "Never", "Succeeded"), ("1", "Never", "Failed"), ("0", "OnFailure", "Succeeded")]
        {
            let pod = pod(
                json!({"sim.coxswain.dev/exit-after": "0s", "sim.coxswain.dev/exit-code": code}),
                json!({"restartPolicy": policy}),
            );
            let todo = look(&pod, "h", &mut PodState::default(), Instant::now(), "t");
            assert_eq!(todo.status.unwrap()["phase"], phase, "{code} {policy}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn deleted_pods_go_at_once_later_or_never() {
        let deleted = |annotations: Value| {
            let mut pod = pod(annotations, json!({"restartPolicy": "Always"}));
            pod["metadata"]["deletionTimestamp"] = json!("t");
            pod
        };
        let todo = look(&deleted(json!({})), "h", &mut PodState::default(), Instant::now(), "t");
        assert!(todo.remove && todo.status.is_none());
        let stuck = deleted(json!({"sim.coxswain.dev/stuck-terminating": "true"}));
        assert_eq!(look(&stuck, "h", &mut PodState::default(), Instant::now(), "t"), Todo::default());
        let slow = deleted(json!({"sim.coxswain.dev/terminate-after": "2s"}));
        let mut state = PodState::default();
        assert_eq!(look(&slow, "h", &mut state, Instant::now(), "t").again, Some(Duration::from_secs(2)));
        tokio::time::advance(Duration::from_secs(2)).await;
        let todo = look(&slow, "h", &mut state, Instant::now(), "t");
        assert!(todo.remove);
        assert_eq!(todo.status.unwrap()["phase"], "Failed");
    }
}
