//! How a pod is told to behave: the `sim.coxswain.dev/*` annotations.

use std::time::Duration;

use serde_json::Value;

/// Prefix of all annotations and labels that steer the simulation.
pub const PREFIX: &str = "sim.coxswain.dev/";

/// Label that makes a node take pods of one namespace only, and that namespace
/// prefer it.
pub const OWN: &str = "sim.coxswain.dev/own";

/// What the annotations of a pod say.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behaviour {
    /// Ready this long after the start.
    pub ready_after: Duration,
    /// Never ready, for as long as the annotation stands.
    pub never_ready: bool,
    /// Containers end this long after the start.
    pub exit_after: Option<Duration>,
    /// With this code.
    pub exit_code: i32,
    /// A deleted pod lives on this long.
    pub terminate_after: Option<Duration>,
    /// A deleted pod is never removed.
    pub stuck_terminating: bool,
    /// Stays Pending after it is bound.
    pub never_runs: bool,
    /// Goes to phase Failed with this reason.
    pub fail_reason: Option<String>,
}

impl Behaviour {
    /// Reads the annotations of a pod. What makes no sense is taken as absent.
    pub fn of(pod: &Value) -> Self {
        let annotations = &pod["metadata"]["annotations"];
        let get = |name: &str| annotations[format!("{PREFIX}{name}")].as_str();
        let index_key = "batch.kubernetes.io/job-completion-index";
        let index = pod["metadata"]["labels"][index_key].as_str().or_else(|| annotations[index_key].as_str());
        let indexed = |name: &str| index.and_then(|index| by_index(get(name)?, index));
        Self {
            ready_after: get("ready-after").and_then(duration).unwrap_or_default(),
            never_ready: matches!(get("ready"), Some("never" | "false")),
            exit_after: indexed("exit-after-by-index").or_else(|| get("exit-after")).and_then(duration),
            exit_code: indexed("exit-code-by-index")
                .or_else(|| get("exit-code"))
                .and_then(|code| code.trim().parse().ok())
                .unwrap_or(0),
            terminate_after: get("terminate-after").map(|text| duration(text).unwrap_or_default()),
            stuck_terminating: get("stuck-terminating") == Some("true"),
            never_runs: get("run") == Some("never"),
            fail_reason: get("fail-reason").filter(|reason| !reason.is_empty()).map(str::to_owned),
        }
    }
}

/// A duration such as `500ms`, `2s`, `1m30s`; a bare number is seconds.
pub fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut total = 0.0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (factor, unit) = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0)]
            .into_iter()
            .find(|(unit, _)| rest.starts_with(unit))
            .map_or((1.0, 0), |(unit, factor)| (factor, unit.len()));
        if unit == 0 && !rest.is_empty() {
            return None;
        }
        rest = &rest[unit..];
        total += number * factor;
    }
    Duration::try_from_secs_f64(total).ok()
}

/// The value for one index in `0:1s,3:0s`.
fn by_index<'a>(text: &'a str, index: &str) -> Option<&'a str> {
    text.split(',')
        .filter_map(|part| part.split_once(':'))
        .find(|(key, _)| key.trim() == index)
        .map(|(_, v)| v.trim())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations() {
        let table = [
            ("500ms", Some(0.5)),
            ("2s", Some(2.0)),
            ("1m30s", Some(90.0)),
            ("1h", Some(3600.0)),
            ("3", Some(3.0)),
            ("", None),
            ("soon", None),
            ("1x", None),
        ];
        for (text, seconds) in table {
            assert_eq!(duration(text).map(|d| d.as_secs_f64()), seconds, "{text:?}");
        }
    }

    #[test]
    fn annotations_by_completion_index_win() {
        let pod = json!({"metadata": {
            "labels": {"batch.kubernetes.io/job-completion-index": "1"},
            "annotations": {
                "sim.coxswain.dev/exit-after": "5s",
                "sim.coxswain.dev/exit-after-by-index": "0:1s, 1:2s",
                "sim.coxswain.dev/exit-code-by-index": "0:1",
                "sim.coxswain.dev/exit-code": "42"}}});
        let behaviour = Behaviour::of(&pod);
        assert_eq!(behaviour.exit_after, Some(Duration::from_secs(2)));
        assert_eq!(behaviour.exit_code, 42);
    }

    #[test]
    fn a_plain_pod_is_ready_at_once_and_runs_on() {
        assert_eq!(Behaviour::of(&json!({"metadata": {"name": "a"}})), Behaviour::default());
    }
}
