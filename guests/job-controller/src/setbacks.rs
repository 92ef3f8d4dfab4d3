//! How the last plan went, and how often in a row one went wrong.
//!
//! What is refused is tried less and less often: after 1 s, 2 s, 4 s and so on to
//! a minute. A first conflict is no setback yet: somebody else wrote, and another
//! look is all it takes.

use std::time::Duration;

use coxswain_sdk::contract::{ActionOutcome, ActionResult, Failure};
use coxswain_sdk::{Ctx, FromJson, Time};
use serde::Serialize;

/// The wait after one setback.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// The longest such wait.
const LONGEST_WAIT: Duration = Duration::from_secs(60);

/// Plans in a row of which something was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(default)]
pub struct Setbacks {
    /// How many.
    pub count: u32,
    /// Whether the next try is still to come.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub waits: bool,
    /// Whether writes to pods were among what was refused.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pods: bool,
}

impl Setbacks {
    /// Whether there are none.
    pub fn are_none(&self) -> bool {
        self.count == 0
    }

    /// What is so after a plan that went this way.
    pub fn after(self, review: &Review<'_>) -> Self {
        let more = Self { count: self.count.saturating_add(1), waits: true, pods: self.pods || review.pods };
        match review.worst {
            Worst::Refused => more,
            Worst::Conflict if self.are_none() => Self { waits: false, ..more },
            Worst::Conflict => more,
            Worst::Nothing if self.waits => Self { waits: false, ..self },
            // The last plan tried, and nothing was refused.
            Worst::Nothing => Self::default(),
        }
    }

    /// When to try again, where that waits.
    pub fn again(&self, now: Time) -> Option<Time> {
        let doublings = self.count.saturating_sub(1).min(16);
        self.waits.then(|| now + FIRST_WAIT.saturating_mul(1 << doublings).min(LONGEST_WAIT))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Worst {
    Nothing,
    Conflict,
    Refused,
}

/// How the last plan went.
pub struct Review<'a> {
    worst: Worst,
    /// Whether writes to pods went wrong.
    pods: bool,
    /// Refused creations, but for those that a terminating namespace refused.
    pub refused: Vec<&'a Failure>,
    /// Whether the namespace was seen to go.
    pub namespace_terminating: bool,
}

impl<'a> Review<'a> {
    /// Looks at what did not go as planned.
    pub fn of(ctx: &Ctx<'a>) -> Self {
        Self::of_results(ctx.results())
    }

    fn of_results(results: &'a [ActionResult]) -> Self {
        let mut review =
            Self { worst: Worst::Nothing, pods: false, refused: Vec::new(), namespace_terminating: false };
        for result in results {
            let worst = match &result.result {
                ActionOutcome::Skipped => continue,
                ActionOutcome::Unknown => Worst::Refused,
                ActionOutcome::Failed(failure) if result.tag == "create" => review.creation(failure),
                // What is gone is no loss.
                ActionOutcome::Failed(failure) if failure.status == 404 => Worst::Nothing,
                ActionOutcome::Failed(failure) if failure.status == 409 && failure.reason == "Conflict" => {
                    Worst::Conflict
                }
                ActionOutcome::Failed(_) => Worst::Refused,
            };
            review.worst = review.worst.max(worst);
            review.pods |= matches!(result.tag.as_str(), "create" | "delete" | "untrack");
        }
        review
    }

    fn creation(&mut self, failure: &'a Failure) -> Worst {
        if failure.is_of_terminating_namespace() {
            self.namespace_terminating = true;
            return Worst::Nothing;
        }
        self.refused.push(failure);
        Worst::Refused
    }

    /// Whether writes to pods went wrong.
    pub fn is_about_pods(&self) -> bool {
        self.pods
    }

    /// Whether something was refused that only time may heal. Refused pods are
    /// not: the status has to tell of them first.
    pub fn wants_time(&self) -> bool {
        self.worst > Worst::Nothing && self.refused.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(tag: &str, status: u32, reason: &str) -> ActionResult {
        let failure =
            Failure { status, reason: reason.to_owned(), message: String::new(), causes: Vec::new() };
        ActionResult { tag: tag.to_owned(), result: ActionOutcome::Failed(failure) }
    }

    fn after(setbacks: Setbacks, results: &[ActionResult]) -> Setbacks {
        setbacks.after(&Review::of_results(results))
    }

    #[test]
    fn what_is_refused_is_tried_less_and_less_often() {
        let now = Time::from_unix(100);
        let refused = [failed("status", 500, "InternalError")];
        let mut setbacks = Setbacks::default();
        for seconds in [1, 2, 4, 8, 16, 32, 60, 60] {
            setbacks = after(setbacks, &refused);
            assert_eq!(setbacks.again(now), Some(now + Duration::from_secs(seconds)));
            // The wait is over.
            setbacks = after(setbacks, &[]);
            assert_eq!(setbacks.again(now), None);
        }
        assert!(!setbacks.are_none());
        assert!(after(setbacks, &[]).are_none());
        let many = after(Setbacks { count: u32::MAX, ..Setbacks::default() }, &refused);
        assert_eq!(many.again(now), Some(now + LONGEST_WAIT));
    }

    #[test]
    fn conflicts_are_looked_at_again_at_once_and_then_wait() {
        let conflict = [failed("status", 409, "Conflict")];
        let first = after(Setbacks::default(), &conflict);
        assert_eq!(first, Setbacks { count: 1, waits: false, pods: false });
        assert!(after(first, &[]).are_none());
        let second = after(first, &conflict);
        assert_eq!(second, Setbacks { count: 2, waits: true, pods: false });
    }

    #[test]
    fn a_review_tells_what_matters() {
        let terminating = || {
            let mut result = failed("create", 403, "Forbidden");
            let cause = coxswain_sdk::contract::Cause {
                reason: "NamespaceTerminating".to_owned(),
                message: String::new(),
                field: String::new(),
            };
            if let ActionOutcome::Failed(failure) = &mut result.result {
                failure.causes.push(cause);
            }
            result
        };
        let skipped = ActionResult { tag: "create".to_owned(), result: ActionOutcome::Skipped };
        let unknown = ActionResult { tag: "status".to_owned(), result: ActionOutcome::Unknown };
        for (results, worst, pods, wants_time, refused) in [
            (vec![], Worst::Nothing, false, false, 0),
            (vec![skipped.clone()], Worst::Nothing, false, false, 0),
            (vec![failed("count", 404, "NotFound")], Worst::Nothing, false, false, 0),
            (vec![failed("status", 409, "Conflict")], Worst::Conflict, false, true, 0),
            (vec![failed("status", 409, "AlreadyExists")], Worst::Refused, false, true, 0),
            (vec![unknown], Worst::Refused, false, true, 0),
            (vec![failed("delete", 403, "Forbidden")], Worst::Refused, true, true, 0),
            (vec![failed("create", 403, "Forbidden"), skipped], Worst::Refused, true, false, 1),
            (vec![terminating()], Worst::Nothing, true, false, 0),
        ] {
            let review = Review::of_results(&results);
            assert_eq!((review.worst, review.pods), (worst, pods), "{results:?}");
            assert_eq!((review.wants_time(), review.refused.len()), (wants_time, refused), "{results:?}");
        }
        assert!(Review::of_results(&[terminating()]).namespace_terminating);
    }
}
