//! When an Indexed Job has succeeded before all of its indexes have
//! (`spec.successPolicy`).

use crate::indexes::Indexes;
use crate::view::{Job, SuccessRule};

/// The message that goes with success, if a rule is met.
pub fn met(job: &Job, succeeded: &Indexes) -> Option<String> {
    let policy = job.spec.success_policy.as_ref()?;
    if succeeded.is_empty() {
        return None;
    }
    let number = policy.rules.iter().position(|rule| is_met(rule, job.completions(), succeeded))?;
    Some(format!("Matched rules at index {number}"))
}

fn is_met(rule: &SuccessRule, completions: i64, succeeded: &Indexes) -> bool {
    let enough = |count: i64| rule.succeeded_count.is_some_and(|wanted| count >= i64::from(wanted));
    let Some(text) = &rule.succeeded_indexes else { return enough(succeeded.total()) };
    let wanted = Indexes::parse(text, completions);
    let there = wanted.in_common(succeeded);
    // A text that names no index is met by nothing.
    !wanted.is_empty() && (there == wanted.total() || enough(there))
}

#[cfg(test)]
mod tests;
