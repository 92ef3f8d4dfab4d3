//! What a failed pod means to its Job (`spec.podFailurePolicy`).
//!
//! Pure: a policy and a failed pod in, what follows out.

use crate::view::{ContainerStatus, Job, OnExitCodes, Pod, PodFailurePolicy};

/// What follows from a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Meaning {
    /// It counts as a failure.
    Count,
    /// It does not count.
    Ignore,
    /// It counts, and its index has failed.
    FailIndex,
    /// It counts, and the Job has failed; the text says why.
    FailJob(String),
}

impl Meaning {
    /// What a failed pod means. Without a policy it counts.
    pub fn of(job: &Job, pod: &Pod) -> Self {
        Self::by_rule(job, pod).unwrap_or(Self::Count)
    }

    /// What a rule of the policy says of a failed pod. None where none does.
    pub fn by_rule(job: &Job, pod: &Pod) -> Option<Self> {
        job.spec.pod_failure_policy.as_ref().and_then(|policy| Self::by_policy(policy, pod))
    }

    /// The first rule that fits and has an action that we know decides.
    fn by_policy(policy: &PodFailurePolicy, pod: &Pod) -> Option<Self> {
        let name = || format!("{}/{}", pod.metadata.namespace, pod.metadata.name);
        for (number, rule) in policy.rules.iter().enumerate() {
            let why = if let Some(codes) = &rule.on_exit_codes {
                ended_with(pod, codes).map(|(container, code)| {
                    format!("Container {} for pod {} failed with exit code {code}", container.name, name())
                })
            } else {
                let patterns = rule.on_pod_conditions.iter().flatten();
                let mut conditions = pod.status.conditions.iter();
                let fits = conditions.find(|condition| {
                    patterns.clone().any(|p| p.kind == condition.kind && p.status == condition.status)
                });
                fits.map(|condition| format!("Pod {} has condition {}", name(), condition.kind))
            };
            let Some(why) = why else { continue };
            match rule.action.as_str() {
                "Ignore" => return Some(Self::Ignore),
                "Count" => return Some(Self::Count),
                "FailIndex" => return Some(Self::FailIndex),
                "FailJob" => {
                    return Some(Self::FailJob(format!("{why} matching FailJob rule at index {number}")));
                }
                _ => {}
            }
        }
        None
    }

    /// The action of the rule that says so.
    pub fn action(&self) -> &'static str {
        match self {
            Self::Count => "Count",
            Self::Ignore => "Ignore",
            Self::FailIndex => "FailIndex",
            Self::FailJob(_) => "FailJob",
        }
    }

    /// Whether it counts.
    pub fn counts(&self) -> bool {
        *self != Self::Ignore
    }
}

/// The first container that ended with a code that is asked for. Success, code
/// 0, never is.
fn ended_with<'a>(pod: &'a Pod, codes: &OnExitCodes) -> Option<(&'a ContainerStatus, i32)> {
    let statuses = pod.status.container_statuses.iter().chain(&pod.status.init_container_statuses);
    let named =
        statuses.filter(|status| codes.container_name.as_ref().is_none_or(|name| *name == status.name));
    let mut ended = named.filter_map(|status| Some((status, status.exit_code()?)));
    ended.find(|(_, code)| {
        *code != 0
            && match codes.operator.as_str() {
                "In" => codes.values.contains(code),
                "NotIn" => !codes.values.contains(code),
                _ => false,
            }
    })
}

#[cfg(test)]
mod tests;
