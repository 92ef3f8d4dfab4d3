//! The five conditions that tell why a namespace is still there.

use std::collections::BTreeMap;

use coxswain_sdk::Time;
use coxswain_sdk::condition::Condition;
use coxswain_sdk::sort::sort_by;

use crate::content::Rest;

/// What a look at the content has shown.
#[derive(Debug, Default)]
pub struct Findings {
    /// Why some groups are not known.
    discovery: Option<String>,
    /// What went wrong with the content.
    pub errors: Vec<String>,
    /// `resource.group` of what is left, with its number.
    left: Vec<String>,
    finalizers: BTreeMap<String, u64>,
}

impl Findings {
    /// With what went wrong already.
    pub fn new(discovery: Option<String>, errors: Vec<String>) -> Self {
        Self { discovery, errors, ..Self::default() }
    }

    /// Notes what is left of a resource.
    pub fn add(&mut self, rest: &Rest<'_>) {
        let Rest { kind, count, finalizers, .. } = rest;
        self.left.push(format!("{}.{} has {count} resource instances", kind.resource, kind.group));
        for (finalizer, count) in finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += count;
        }
    }

    /// Brings the conditions up to date. Returns whether anything changed.
    pub fn apply(mut self, conditions: &mut Vec<Condition>, now: Time) -> bool {
        sort_by(&mut self.left, Ord::cmp);
        sort_by(&mut self.errors, Ord::cmp);
        let mut finalizers: Vec<String> = self
            .finalizers
            .iter()
            .map(|(name, count)| format!("{name} in {count} resource instances"))
            .collect();
        sort_by(&mut finalizers, Ord::cmp);
        let list = |prefix: String, list: &[String]| (!list.is_empty()).then(|| prefix + &list.join(", "));
        let verdicts = [
            Verdict {
                kind: "NamespaceDeletionDiscoveryFailure",
                bad: self.discovery,
                reason: "DiscoveryFailed",
                good: ("ResourcesDiscovered", "All resources successfully discovered"),
            },
            Verdict {
                kind: "NamespaceDeletionGroupVersionParsingFailure",
                // The host numbers resources; there is nothing to parse.
                bad: None,
                reason: "GroupVersionParsingFailed",
                good: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
            },
            Verdict {
                kind: "NamespaceDeletionContentFailure",
                bad: list(
                    format!("Failed to delete all resource types, {} remaining: ", self.errors.len()),
                    &self.errors,
                ),
                reason: "ContentDeletionFailed",
                good: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
            },
            Verdict {
                kind: "NamespaceContentRemaining",
                bad: list("Some resources are remaining: ".to_owned(), &self.left),
                reason: "SomeResourcesRemain",
                good: ("ContentRemoved", "All content successfully removed"),
            },
            Verdict {
                kind: "NamespaceFinalizersRemaining",
                bad: list("Some content in the namespace has finalizers remaining: ".to_owned(), &finalizers),
                reason: "SomeFinalizersRemain",
                good: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
            },
        ];
        verdicts.into_iter().fold(false, |changed, verdict| verdict.set(conditions, now) | changed)
    }
}

struct Verdict {
    kind: &'static str,
    bad: Option<String>,
    reason: &'static str,
    good: (&'static str, &'static str),
}

impl Verdict {
    /// Changes the condition where it stands.
    fn set(self, conditions: &mut Vec<Condition>, now: Time) -> bool {
        let (status, reason, message) = match self.bad {
            Some(message) => ("True", self.reason, message),
            None => ("False", self.good.0, self.good.1.to_owned()),
        };
        let Some(present) = conditions.iter_mut().find(|condition| condition.kind == self.kind) else {
            conditions.push(Condition::new(self.kind, status, reason, message, now));
            return true;
        };
        if present.status == status && present.reason == reason && present.message == message {
            return false;
        }
        if present.status != status {
            present.last_transition_time = Some(now.whole_seconds());
        }
        present.status = status.to_owned();
        present.reason = reason.to_owned();
        present.message = message;
        true
    }
}
