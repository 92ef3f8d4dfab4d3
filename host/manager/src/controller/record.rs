//! What the host remembers of a key between its reconciles.

use std::sync::Arc;

use crate::contract::{ActionResult, StateChange};

/// What the host remembers of a key. A key at rest without state has none.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// Uid of the object when the key was last reconciled.
    pub uid: Option<Arc<str>>,
    /// State the last plan asked to keep, with its format number.
    pub state: Option<(u32, String)>,
    /// What became of the last plan, until it is answered.
    pub results: Vec<ActionResult>,
}

impl Record {
    /// Whether there is nothing worth keeping. A uid alone is not.
    pub fn is_blank(&self) -> bool {
        self.state.is_none() && self.results.is_empty()
    }

    /// The same name with another uid starts afresh. An object that is gone
    /// keeps its state, so that its controller can clean up.
    pub fn identify(&mut self, uid: Option<Arc<str>>) {
        if let (Some(old), Some(new)) = (&self.uid, &uid) {
            if old != new {
                *self = Self::default();
            }
        }
        if uid.is_some() {
            self.uid = uid;
        }
    }

    /// Drops state that a module cannot read.
    pub fn keep_state_in(&mut self, accepted: impl Fn(u32) -> bool) {
        if self.state.as_ref().is_some_and(|(format, _)| !accepted(*format)) {
            self.state = None;
        }
    }

    /// Carries out what a plan says of the state.
    pub fn change_state(&mut self, change: StateChange, format: u32) {
        match change {
            StateChange::Keep => {}
            StateChange::Clear => self.state = None,
            StateChange::Set(state) => self.state = Some((format, state)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ActionOutcome;

    fn full(uid: &str) -> Record {
        Record {
            uid: Some(Arc::from(uid)),
            state: Some((1, "s".into())),
            results: vec![ActionResult { tag: "t".into(), result: ActionOutcome::Skipped }],
        }
    }

    #[test]
    fn another_uid_starts_afresh_and_an_object_that_is_gone_does_not() {
        let mut record = full("a");
        record.identify(Some(Arc::from("a")));
        assert!(!record.is_blank());
        record.identify(None);
        assert!(!record.is_blank());
        record.identify(Some(Arc::from("b")));
        assert!(record.is_blank());
        assert_eq!(record.uid.as_deref(), Some("b"));
    }

    #[test]
    fn state_in_a_format_that_is_not_accepted_is_dropped_and_results_stay() {
        let mut record = full("a");
        record.keep_state_in(|format| format == 1);
        assert!(record.state.is_some());
        record.keep_state_in(|format| format == 2);
        assert!(record.state.is_none());
        assert_eq!(record.results.len(), 1);
    }

    #[test]
    fn a_plan_keeps_clears_or_sets_state() {
        let mut record = full("a");
        record.change_state(StateChange::Keep, 2);
        assert_eq!(record.state, Some((1, "s".into())));
        record.change_state(StateChange::Set("n".into()), 2);
        assert_eq!(record.state, Some((2, "n".into())));
        record.change_state(StateChange::Clear, 2);
        assert_eq!(record.state, None);
    }
}
