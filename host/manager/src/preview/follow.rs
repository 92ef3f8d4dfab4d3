//! Looking on while controllers work on the copy.
//!
//! In: what each reconcile read and what became of its plan. Out: notes for the
//! [`Preview`], from which it is told later what followed from what.

use std::{
    any::Any,
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{Decision, Name, Preview, Ran, Sandbox};
use crate::{
    contract::{ActionOutcome, ObjectRef, Outcome, Plan, Query, Request, ResourceInfo},
    controller::{Follower, Loaded, Observer},
    engine::{Fault, SnapshotHost},
    executor::{Done, Executed},
    key::Key,
    store::{Seen, Snapshot},
};

/// What a key had read when it was last reconciled.
#[derive(Default)]
struct Last {
    version: u64,
    names: BTreeSet<Name>,
}

type LastReads = HashMap<(String, Key), Last>;

/// [`Preview`] as an observer.
pub struct Watcher {
    preview: Arc<Preview>,
    sandbox: Arc<Sandbox>,
    last: Arc<Mutex<LastReads>>,
}

impl Watcher {
    /// Looks on for `preview` at what happens in `sandbox`.
    pub fn new(preview: Arc<Preview>, sandbox: Arc<Sandbox>) -> Self {
        Self { preview, sandbox, last: Arc::default() }
    }
}

impl Observer for Watcher {
    fn begin(&self, loaded: &Arc<Loaded>, key: &Key) -> Option<Box<dyn Follower>> {
        Some(Box::new(Following {
            preview: self.preview.clone(),
            last: self.last.clone(),
            controller: loaded.module.manifest().name.clone(),
            loaded: loaded.clone(),
            key: key.clone(),
            began: self.sandbox.version(),
            read: Arc::default(),
            decision: None,
            plan: None,
        }))
    }
}

/// Objects that were read.
type Read = Vec<(u32, Seen)>;

struct Following {
    preview: Arc<Preview>,
    last: Arc<Mutex<LastReads>>,
    controller: String,
    loaded: Arc<Loaded>,
    key: Key,
    /// The newest change of all when it began.
    began: u64,
    read: Arc<Mutex<Read>>,
    decision: Option<Decision>,
    plan: Option<(Arc<Plan>, Vec<Done>)>,
}

impl Follower for Following {
    fn asked(&mut self, _: &Request, snapshot: &Snapshot) {
        let primary = snapshot.primary();
        self.read.lock().extend(primary.into_iter().filter_map(|object| seen(&self.loaded, object)));
    }

    fn around(&mut self, snapshot: Box<dyn SnapshotHost>) -> Box<dyn SnapshotHost> {
        Box::new(Noted { inner: snapshot, loaded: self.loaded.clone(), read: self.read.clone() })
    }

    fn answered(&mut self, _: &Request, result: &Result<Outcome, Fault>) {
        self.decision = Some(match result {
            Ok(Outcome::Plan(plan)) => {
                self.plan = Some((Arc::new(plan.clone()), Vec::new()));
                Decision::Settled
            }
            Ok(Outcome::Terminal(reason)) => Decision::GaveUp(reason.clone()),
            Ok(Outcome::Retry(reason)) => Decision::Failed(reason.clone()),
            // Replaced by what the next round comes to.
            Ok(Outcome::Lookups(_)) => Decision::Failed("its lookups led to no plan".into()),
            Err(fault @ Fault::Snapshot(_)) => Decision::Failed(fault.to_string()),
            Err(fault) => Decision::Faulted(fault.to_string()),
        });
    }

    fn carried_out(&mut self, executed: &Executed) {
        if let Some(reason) = &executed.invalid {
            self.plan = None;
            self.decision = Some(Decision::Failed(format!("the plan cannot be carried out: {reason}")));
            return;
        }
        if let Some((_, done)) = &mut self.plan {
            done.clone_from(&executed.done);
        }
        let failed = executed.results.iter().find_map(|result| match &result.result {
            ActionOutcome::Failed(failure) => {
                Some(format!("{}: {} {}", result.tag, failure.reason, failure.message))
            }
            ActionOutcome::Unknown => Some(format!("{}: nobody can tell whether it took effect", result.tag)),
            ActionOutcome::Skipped => None,
        });
        if let Some(reason) = failed {
            self.decision = Some(Decision::Failed(reason));
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        let Some(decision) = self.decision.take() else { return };
        let read = std::mem::take(&mut *self.read.lock());
        let names: BTreeSet<Name> = read
            .iter()
            .map(|(resource, seen)| (*resource, seen.namespace.clone(), seen.name.clone()))
            .collect();
        let before = {
            let mut last = self.last.lock();
            let now = Last { version: self.began, names: names.clone() };
            last.insert((self.controller.clone(), self.key.clone()), now).unwrap_or_default()
        };
        if let Some((plan, done)) =
            self.plan.take().filter(|(plan, done)| !done.is_empty() || !plan.events.is_empty())
        {
            let version = |seen: &Seen| seen.resource_version.parse().ok().filter(|v| *v > before.version);
            self.preview.ran.lock().push(Ran {
                controller: self.controller.clone(),
                key: self.key.clone(),
                plan,
                done,
                read: read.iter().filter_map(|(_, seen)| version(seen)).collect(),
                gone: before.names.difference(&names).cloned().collect(),
            });
        }
        self.preview.note(&self.controller, &self.key, decision);
    }
}

fn seen(loaded: &Loaded, object: ObjectRef) -> Option<(u32, Seen)> {
    Some((object.resource, loaded.view.current(&object)?))
}

/// A snapshot whose reads are noted.
struct Noted {
    inner: Box<dyn SnapshotHost>,
    loaded: Arc<Loaded>,
    read: Arc<Mutex<Read>>,
}

impl Noted {
    fn note(&self, objects: &[ObjectRef]) {
        let seen = objects.iter().filter_map(|object| seen(&self.loaded, *object));
        self.read.lock().extend(seen);
    }
}

impl SnapshotHost for Noted {
    fn resources(&mut self) -> Vec<ResourceInfo> {
        self.inner.resources()
    }

    fn resources_version(&mut self) -> u32 {
        self.inner.resources_version()
    }

    fn get(&mut self, resource: u32, namespace: &str, name: &str) -> Result<Option<ObjectRef>, String> {
        let found = self.inner.get(resource, namespace, name)?;
        self.note(found.as_slice());
        Ok(found)
    }

    fn list(&mut self, query: &Query) -> Result<Vec<ObjectRef>, String> {
        let found = self.inner.list(query)?;
        self.note(&found);
        Ok(found)
    }

    fn read(&mut self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        self.inner.read(refs)
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self.inner.into_any()
    }
}
