//! What the host remembers of a key between its reconciles.

use std::sync::Arc;

use crate::contract::{ActionResult, Manifest, StateChange};

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

    /// The state, if the module can read it. What it cannot read stays until a
    /// plan of its own replaces it: should the module fail, the version before
    /// gets it back.
    pub fn state_for(&self, manifest: &Manifest) -> Option<&(u32, String)> {
        self.state.as_ref().filter(|(format, _)| reads(manifest, *format))
    }

    /// Carries out what a plan says of the state.
    pub fn change_state(&mut self, change: StateChange, manifest: &Manifest) {
        let format = manifest.state_format;
        match change {
            // What it was not shown it cannot have meant to keep.
            StateChange::Keep => {
                self.state = self.state.take().filter(|(format, _)| reads(manifest, *format))
            }
            StateChange::Clear => self.state = None,
            StateChange::Set(state) => self.state = Some((format, state)),
        }
    }
}

/// Whether a module reads state of this format.
fn reads(manifest: &Manifest, format: u32) -> bool {
    format == manifest.state_format || manifest.accepts_state_formats.contains(&format)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ActionOutcome;

    fn manifest(state_format: u32, accepts: &[u32]) -> Manifest {
        Manifest { state_format, accepts_state_formats: accepts.to_vec(), ..Manifest::blank("") }
    }

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
    fn state_in_a_format_that_is_not_accepted_is_not_shown_and_goes_with_the_first_plan() {
        let mut record = full("a");
        assert!(record.state_for(&manifest(1, &[])).is_some());
        assert!(record.state_for(&manifest(2, &[1])).is_some());
        assert!(record.state_for(&manifest(2, &[])).is_none());
        assert!(record.state.is_some(), "a version before may want it");
        record.change_state(StateChange::Keep, &manifest(2, &[1]));
        assert!(record.state.is_some());
        record.change_state(StateChange::Keep, &manifest(2, &[]));
        assert!(record.state.is_none());
        assert_eq!(record.results.len(), 1);
    }

    #[test]
    fn a_plan_keeps_clears_or_sets_state() {
        let mut record = full("a");
        let manifest = manifest(2, &[1]);
        record.change_state(StateChange::Keep, &manifest);
        assert_eq!(record.state, Some((1, "s".into())));
        record.change_state(StateChange::Set("n".into()), &manifest);
        assert_eq!(record.state, Some((2, "n".into())));
        record.change_state(StateChange::Clear, &manifest);
        assert_eq!(record.state, None);
    }
}
