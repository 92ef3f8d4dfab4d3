//! The words of the contract (`wit/`) as Rust types.
//!
//! Everything here is generated from the WIT and re-exported by hand, so that
//! the rest of the host names the contract and never the generator.

pub(crate) mod generated {
    #![allow(missing_docs, reason = "the WIT is the reference; the generator copies only part of it")]
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "controller",
        additional_derives: [PartialEq, serde::Serialize, serde::Deserialize],
    });
}

pub use generated::Controller as ControllerWorld;
pub use generated::coxswain::controller::log::Level;
pub use generated::coxswain::controller::manifest::{
    ClientLimits, Index, IndexValues, IndexedObjects, KeyKind, KeySource, LookupRule, Manifest, MetricKind,
    MetricSpec, OptionKind, OptionSpec, Read, ResourceRule, WriteRule,
};
pub use generated::coxswain::controller::reconcile::{
    Action, ActionOutcome, ActionResult, Answer, Ask, CollectionOptions, DeleteOptions, Event, EventKind,
    EventTarget, GetLookup, Key as WireKey, ListLookup, Lookup, Measure, Occasion, OnFailure, Outcome, Pace,
    Patch, PatchKind, Plan, Precondition, Propagation, Request, ReviewLookup, Sample, SignLookup, SignWhat,
    StateChange, Step, Verb,
};
pub use generated::coxswain::controller::snapshot::{
    IndexMatch, Query, ResourceInfo, ResourceSet, Scope, SyncState,
};
pub use generated::coxswain::controller::types::{Cause, Failure, GroupResource, ObjectRef, Timestamp};

/// A resource for people: `deployments.apps/v1`, `pods/v1`, `*`.
pub fn display_name(resource: &GroupResource) -> String {
    let GroupResource { group, version, resource } = resource;
    match (group.as_str(), resource.as_str()) {
        ("*", "*") => "every resource".to_owned(),
        ("", _) => format!("{resource}/{version}"),
        _ => format!("{resource}.{group}/{version}"),
    }
}

impl Manifest {
    /// A manifest that says nothing but a name.
    pub fn blank(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            aliases: Vec::new(),
            version: String::new(),
            state_format: 0,
            accepts_state_formats: Vec::new(),
            sources: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            lookups: Vec::new(),
            options: Vec::new(),
            event_component: String::new(),
            concurrency: 0,
            concurrency_flag: String::new(),
            client_limits: ClientLimits { qps: 0, burst: 0 },
            metrics: Vec::new(),
        }
    }
}
