//! Plays scenarios with a component: the SDK's test kit, with an engine in the
//! place of a controller in the same process.
//!
//! In: a module and the kit's world. Out: the outcomes it judges. Invariant: what
//! an instance remembers changes no answer; each round is asked of an instance
//! that has been at work and of a fresh one.

use std::{any::Any, sync::Arc};

use anyhow::Context;
use coxswain_sdk::{
    contract as sdk,
    snapshot::Snapshot,
    testing::{Frozen, Reconciler},
};
use parking_lot::Mutex;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    contract::{Level, ObjectRef, Outcome, Query, Request, ResourceInfo},
    engine::{Instance, LogSink, Module, SnapshotHost},
};

/// A module, for the kit.
pub struct ModuleReconciler {
    module: Module,
    manifest: sdk::Manifest,
    at_work: Option<Instance>,
    log: Arc<Lines>,
}

impl ModuleReconciler {
    /// Takes a module.
    pub fn new(module: Module) -> anyhow::Result<Self> {
        let manifest = carry_over(&**module.manifest()).context("its manifest")?;
        Ok(Self { module, manifest, at_work: None, log: Arc::default() })
    }

    /// What it logged since this was last asked.
    pub fn take_log(&self) -> Vec<String> {
        std::mem::take(&mut self.log.0.lock())
    }

    fn ask(
        &self,
        instance: &mut Instance,
        request: &Request,
        world: &Arc<Frozen>,
    ) -> Result<Outcome, String> {
        let (answer, _) = instance.reconcile(request, Box::new(World(world.clone())), self.log.clone());
        answer.map_err(|fault| fault.to_string())
    }
}

impl Reconciler for ModuleReconciler {
    fn manifest(&self) -> sdk::Manifest {
        self.manifest.clone()
    }

    fn reconcile(&mut self, request: &sdk::Request, world: &Arc<Frozen>) -> Result<sdk::Outcome, String> {
        let request: Request = carry_over(request).map_err(|e| e.to_string())?;
        let mut fresh = self.module.instantiate().map_err(|fault| fault.to_string())?;
        let outcome = self.ask(&mut fresh, &request, world)?;
        if let Some(mut at_work) = self.at_work.take() {
            let again = self.ask(&mut at_work, &request, world)?;
            if outcome != again {
                return Err(format!("what it remembers changes the answer:\n{outcome:?}\n{again:?}"));
            }
            self.at_work = Some(at_work);
        } else {
            self.at_work = Some(fresh);
        }
        carry_over(&outcome).map_err(|e| e.to_string())
    }
}

/// From the contract's types as the engine has them to those of the SDK, and
/// back: both are generated from the same WIT.
fn carry_over<A: Serialize, B: DeserializeOwned>(value: &A) -> anyhow::Result<B> {
    let value = serde_json::to_value(value)?;
    serde_json::from_value(value).context("the host and the SDK are of different contracts")
}

struct World(Arc<Frozen>);

impl SnapshotHost for World {
    fn resources(&mut self) -> Vec<ResourceInfo> {
        carry_over(&self.0.resources()).unwrap_or_default()
    }

    fn resources_version(&mut self) -> u32 {
        self.0.resources_version()
    }

    fn get(&mut self, resource: u32, namespace: &str, name: &str) -> Result<Option<ObjectRef>, String> {
        Ok(self.0.get(resource, namespace, name)?.map(reference))
    }

    fn list(&mut self, query: &Query) -> Result<Vec<ObjectRef>, String> {
        let query: sdk::Query = carry_over(query).map_err(|e| e.to_string())?;
        Ok(self.0.list(&query)?.into_iter().map(reference).collect())
    }

    fn read(&mut self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        let of = |r: &ObjectRef| sdk::ObjectRef { resource: r.resource, id: r.id, version: r.version };
        self.0.read(&refs.iter().map(of).collect::<Vec<_>>())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

fn reference(of: sdk::ObjectRef) -> ObjectRef {
    ObjectRef { resource: of.resource, id: of.id, version: of.version }
}

/// Lines that a module logged.
#[derive(Default)]
struct Lines(Mutex<Vec<String>>);

impl LogSink for Lines {
    fn log(&self, level: Level, message: &str) {
        self.0.lock().push(format!("{level:?} {message}"));
    }
}
