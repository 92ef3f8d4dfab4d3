//! The words of the contract (`wit/`), as they cross the component's border.
//!
//! Controllers rarely need these: [`crate::Declaration`], [`crate::Ctx`] and
//! [`crate::Plan`] speak for them.

pub use crate::bindings::coxswain::controller::log::Level;
pub use crate::bindings::coxswain::controller::manifest::{
    ClientLimits, Index, IndexValues, IndexedObjects, KeyKind, KeySource, LookupRule, Manifest, MetricKind,
    MetricSpec, OptionKind, OptionSpec, Read, ResourceRule, WriteRule,
};
pub use crate::bindings::coxswain::controller::reconcile::{
    Action, ActionOutcome, ActionResult, Answer, Ask, CollectionOptions, DeleteOptions, Event, EventKind,
    EventTarget, GetLookup, Key, ListLookup, Lookup, Measure, Occasion, OnFailure, Outcome, Pace, Patch,
    PatchKind, Plan, Precondition, Propagation, Request, ReviewLookup, Sample, SignLookup, SignWhat,
    StateChange, Step, Verb,
};
pub use crate::bindings::coxswain::controller::snapshot::{
    IndexMatch, Query, ResourceInfo, ResourceSet, Scope, SyncState,
};
pub use crate::bindings::coxswain::controller::types::{Cause, Failure, GroupResource, ObjectRef, Timestamp};
