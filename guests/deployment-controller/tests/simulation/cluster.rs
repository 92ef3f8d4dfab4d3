//! A cluster in memory: the cache that reconciles read, the writes that plans
//! make, and pods that become ready and go when the test says so.

use std::collections::{BTreeMap, BTreeSet};

use coxswain_sdk::contract::{
    Action, Key, Level, ObjectRef, OnFailure, Outcome, PatchKind, Plan, Precondition, Query, Request,
    ResourceInfo, ResourceSet, Verb,
};
use coxswain_sdk::selector::Selector;
use coxswain_sdk::snapshot::Snapshot;
use coxswain_sdk::{Controller, StringMap, Time, manifest_of, merge, run};
use serde_json::{Value, json};

/// Resources by number.
const PLURALS: [&str; 3] = ["deployments", "replicasets", "pods"];
pub const DEPLOYMENTS: u32 = 1;
pub const REPLICA_SETS: u32 = 2;
pub const PODS: u32 = 3;
pub const NAMESPACE: &str = "default";

struct Stored {
    id: u32,
    version: u32,
    value: Value,
}

/// The cluster.
#[derive(Default)]
pub struct Cluster {
    objects: BTreeMap<(u32, String), Stored>,
    made: u32,
    /// Seconds since the beginning.
    pub seconds: i64,
    /// Writes so far.
    pub writes: u32,
}

impl Cluster {
    pub fn now(&self) -> Time {
        Time::from_unix(1_767_225_600 + self.seconds)
    }

    pub fn all(&self, resource: u32) -> impl Iterator<Item = &Value> {
        self.objects.iter().filter(move |((of, _), _)| *of == resource).map(|(_, stored)| &stored.value)
    }

    pub fn one(&self, resource: u32, name: &str) -> &Value {
        &self.objects[&(resource, name.to_owned())].value
    }

    pub fn names(&self, resource: u32, wanted: impl Fn(&Value) -> bool) -> Vec<String> {
        let name = |value: &Value| value["metadata"]["name"].as_str().unwrap().to_owned();
        self.all(resource).filter(|value| wanted(value)).map(name).collect()
    }

    /// Adds an object, completed as an API server would.
    pub fn add(&mut self, resource: u32, mut value: Value) {
        self.made += 1;
        let meta = &mut value["metadata"];
        if meta["name"].is_null() {
            meta["name"] = json!(format!("{}{:04}", meta["generateName"].as_str().unwrap(), self.made));
        }
        meta["namespace"] = json!(NAMESPACE);
        meta["uid"] = json!(format!("uid-{}", self.made));
        meta["generation"] = json!(1);
        meta["creationTimestamp"] = json!(self.now());
        let name = meta["name"].as_str().unwrap().to_owned();
        let stored = Stored { id: self.made, version: 1, value };
        assert!(self.objects.insert((resource, name.clone()), stored).is_none(), "{name} is there already");
    }

    pub fn change(&mut self, resource: u32, name: &str, patch: &Value) {
        let stored = self.objects.get_mut(&(resource, name.to_owned())).unwrap();
        let before = stored.value.clone();
        merge::apply(&mut stored.value, patch);
        assert_ne!(stored.value, before, "a write of {name} changes nothing: {patch}");
        if stored.value["spec"] != before["spec"] {
            let generation = before["metadata"]["generation"].as_i64().unwrap();
            stored.value["metadata"]["generation"] = json!(generation + 1);
        }
        stored.version += 1;
    }

    pub fn remove(&mut self, resource: u32, name: &str) {
        self.objects.remove(&(resource, name.to_owned())).unwrap();
    }

    /// Reconciles an object and carries the plan out. Returns whether it wrote.
    pub fn reconcile<C: Controller>(&mut self, resource: u32, name: &str) -> bool {
        let manifest = manifest_of::<C>();
        let names = manifest.reads.iter().map(|read| &read.resource);
        let names = names.chain(manifest.writes.iter().map(|write| &write.resource));
        let number = |plural: &str| 1 + PLURALS.iter().position(|known| *known == plural).unwrap() as u32;
        let request = Request {
            key: Key { source: 0, resource, namespace: NAMESPACE.to_owned(), name: name.to_owned() },
            primary: self.get(resource, NAMESPACE, name).unwrap(),
            resources: names.map(|named| number(&named.resource)).collect(),
            now: self.now().to_wire().unwrap(),
            seed: (1, 2),
            state: None,
            state_format: manifest.state_format,
            results: Vec::new(),
            answers: Vec::new(),
            options: Vec::new(),
        };
        match run::<C>(&request, self) {
            Outcome::Plan(plan) => self.carry_out(&plan),
            other => panic!("no plan for {name}: {other:?}"),
        }
    }

    fn carry_out(&mut self, plan: &Plan) -> bool {
        let before = self.writes;
        // What this plan wrote may be written again.
        let mut own = BTreeSet::new();
        for action in plan.steps.iter().flat_map(|step| &step.actions) {
            self.check(action, &own);
            self.write(action);
            own.insert((action.resource, action.name.clone()));
            self.writes += 1;
        }
        assert!(plan.steps.iter().all(|step| matches!(step.on_failure, OnFailure::Stop | OnFailure::GoOn)));
        self.writes > before
    }

    fn check(&self, action: &Action, own: &BTreeSet<(u32, String)>) {
        let at = (action.resource, action.name.clone());
        match &action.precondition {
            Precondition::None => {}
            Precondition::Uid(uid) => assert_eq!(self.objects[&at].value["metadata"]["uid"], json!(uid)),
            Precondition::AsSeen(seen) => {
                let stored = &self.objects[&at];
                assert_eq!(stored.id, seen.id, "as-seen of another object");
                assert!(stored.version == seen.version || own.contains(&at));
            }
        }
    }

    fn write(&mut self, action: &Action) {
        let (resource, name) = (action.resource, action.name.as_str());
        match &action.verb {
            Verb::Create(body) => self.add(resource, serde_json::from_str(body).unwrap()),
            Verb::Patch(patch) => {
                assert_eq!(patch.kind, PatchKind::Merge, "nothing is adopted or released here");
                let body: Value = serde_json::from_str(&patch.body).unwrap();
                let is_status = action.subresource == "status";
                assert_eq!(body.get("status").is_some(), is_status, "{body}");
                self.change(resource, name, &body);
            }
            Verb::Delete(_) if resource == PODS => {
                let now = self.now();
                self.change(PODS, name, &json!({"metadata": {"deletionTimestamp": now}}));
            }
            Verb::Delete(_) => self.remove(resource, name),
            other => panic!("unexpected: {other:?}"),
        }
    }
}

impl Snapshot for Cluster {
    fn resources(&self) -> Vec<ResourceInfo> {
        Vec::new()
    }

    fn resources_version(&self) -> u32 {
        1
    }

    fn get(&self, resource: u32, _: &str, name: &str) -> Result<Option<ObjectRef>, String> {
        let stored = self.objects.get(&(resource, name.to_owned()));
        Ok(stored.map(|stored| ObjectRef { resource, id: stored.id, version: stored.version }))
    }

    fn list(&self, query: &Query) -> Result<Vec<ObjectRef>, String> {
        let ResourceSet::One(resource) = query.resources else { return Err("one resource".to_owned()) };
        let selector: Option<Selector> = query.labels.as_ref().map(|text| text.parse()).transpose()?;
        let fits = |value: &Value| {
            let owners = value["metadata"]["ownerReferences"].as_array();
            let controller = owners.into_iter().flatten().find(|owner| owner["controller"] == json!(true));
            let indexed = query.index.as_ref().is_none_or(|index| match index.index.as_str() {
                "controller" => controller.is_some_and(|owner| owner["uid"] == json!(index.value[0])),
                "orphan" => controller.is_none(),
                other => panic!("no index {other}"),
            });
            let labels: StringMap =
                serde_json::from_value(value["metadata"]["labels"].clone()).unwrap_or_default();
            indexed && selector.as_ref().is_none_or(|selector| selector.matches(&labels))
        };
        let found = self.objects.iter().filter(|((of, _), stored)| *of == resource && fits(&stored.value));
        Ok(found.map(|(_, s)| ObjectRef { resource, id: s.id, version: s.version }).collect())
    }

    fn read(&self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        let text = |wanted: &ObjectRef| {
            let found = self.objects.values().find(|s| s.id == wanted.id && s.version == wanted.version);
            found.map(|stored| stored.value.to_string()).ok_or_else(|| "no such version".to_owned())
        };
        refs.iter().map(text).collect()
    }

    fn log(&self, _: Level, _: &str) {}
}
