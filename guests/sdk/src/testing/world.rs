//! The cluster of a scenario: objects in memory, as an API server would keep
//! them, and frozen views of them as the host's cache would show them.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};

use super::kinds::KNOWN;
use super::prune::{Part, Tree, find, kept, parse};
use super::scenario::{ResourceLine, Scenario, State};
use crate::contract::{
    GroupResource, Level, Manifest, ObjectRef, Query, Read, ResourceInfo, ResourceSet, Scope, SyncState,
};
use crate::meta::StringMap;
use crate::selector::Selector;
use crate::snapshot::Snapshot;
use crate::time::Time;

/// Resource number, namespace, name.
pub(super) type Place = (u32, String, String);

/// The objects, and what the reconciler's view of each has been.
pub(super) struct World {
    pub(super) resources: Vec<ResourceInfo>,
    resources_version: u32,
    pub(super) objects: BTreeMap<Place, Value>,
    pub(super) now: Time,
    ids: HashMap<Place, u32>,
    versions: HashMap<(u32, u32), (String, u32)>,
    views: Vec<ReadView>,
    created: u32,
}

/// One read of the manifest, ready for use.
struct ReadView {
    resource: u32,
    tree: Tree,
    indexes: Vec<(String, Vec<Vec<Part>>)>,
}

const ANY: &str = "*";

/// Of all worlds together, so that what a controller remembers of one is no
/// answer in the next.
fn next_version() -> u32 {
    static VERSION: AtomicU32 = AtomicU32::new(0);
    VERSION.fetch_add(1, Ordering::Relaxed) + 1
}

pub(super) fn is_every(resource: &GroupResource) -> bool {
    resource.group == ANY && resource.resource == ANY
}

impl World {
    pub(super) fn new(scenario: &Scenario, manifest: &Manifest) -> Result<Self, String> {
        let now = Time::parse(&scenario.now).ok_or_else(|| format!("now: not a time: {}", scenario.now))?;
        let mut lines: Vec<ResourceLine> = KNOWN
            .iter()
            .map(|(api_version, kind, plural, namespaced)| ResourceLine {
                api_version: (*api_version).to_owned(),
                kind: (*kind).to_owned(),
                plural: (*plural).to_owned(),
                namespaced: *namespaced,
                state: State::Synced,
                verbs: None,
            })
            .collect();
        for line in &scenario.resources {
            lines.retain(|known| known.api_version != line.api_version || known.plural != line.plural);
        }
        let resources =
            lines.iter().chain(&scenario.resources).zip(1..).map(|(line, number)| line.info(number));
        let mut world = Self {
            resources: resources.collect(),
            resources_version: next_version(),
            objects: BTreeMap::new(),
            now,
            ids: HashMap::new(),
            versions: HashMap::new(),
            views: Vec::new(),
            created: 0,
        };
        for object in &scenario.objects {
            let place = world.place_of(object)?;
            let mut object = object.clone();
            world.complete(&place, &mut object);
            if world.objects.insert(place.clone(), object).is_some() {
                return Err(format!("{} is there twice", world.name_of(&place)));
            }
        }
        world.views = world.read_views(manifest)?;
        Ok(world)
    }

    /// Changes resources that there are.
    pub(super) fn change_resources(
        &mut self,
        lines: &[ResourceLine],
        manifest: &Manifest,
    ) -> Result<(), String> {
        for line in lines {
            let (group, version) = line.group_version();
            let is_it = |info: &&mut ResourceInfo| {
                info.group == group && info.version == version && info.resource == line.plural
            };
            let info = self.resources.iter_mut().find(is_it);
            let info = info.ok_or_else(|| {
                format!("resources: {} {} is not there; begin with it absent", line.api_version, line.plural)
            })?;
            *info = line.info(info.number);
        }
        self.resources_version = next_version();
        self.views = self.read_views(manifest)?;
        Ok(())
    }

    fn read_views(&self, manifest: &Manifest) -> Result<Vec<ReadView>, String> {
        let mut views = Vec::new();
        let view = |resource: u32, read: &Read| -> Result<ReadView, String> {
            let mut indexes = Vec::new();
            for index in &read.indexes {
                let mut paths = Vec::new();
                for path in &index.paths {
                    paths.extend(parse(path)?);
                }
                indexes.push((index.name.clone(), paths));
            }
            Ok(ReadView { resource, tree: kept(read)?, indexes })
        };
        for read in manifest.reads.iter().filter(|read| !is_every(&read.resource)) {
            if let Some(info) = self.find(&read.resource) {
                views.push(view(info.number, read)?);
            } else if !read.optional {
                return Err(format!(
                    "the manifest reads {:?}, which the scenario does not know; name it under `resources`",
                    read.resource
                ));
            }
        }
        for read in manifest.reads.iter().filter(|read| is_every(&read.resource)) {
            for info in &self.resources {
                if !views.iter().any(|view: &ReadView| view.resource == info.number) {
                    views.push(view(info.number, read)?);
                }
            }
        }
        Ok(views)
    }

    pub(super) fn find(&self, resource: &GroupResource) -> Option<&ResourceInfo> {
        self.resources.iter().find(|info| {
            info.group == resource.group
                && info.version == resource.version
                && info.resource == resource.resource
                && info.state != SyncState::Absent
        })
    }

    pub(super) fn info(&self, number: u32) -> Option<&ResourceInfo> {
        self.resources.get(usize::try_from(number).ok()?.checked_sub(1)?)
    }

    pub(super) fn by_plural(&self, plural: &str) -> Option<u32> {
        self.resources.iter().find(|info| info.resource == plural).map(|info| info.number)
    }

    /// Numbers as a request carries them.
    pub(super) fn numbers(&self, manifest: &Manifest) -> Vec<u32> {
        let reads = manifest.reads.iter().map(|read| &read.resource);
        let names = reads.chain(manifest.writes.iter().map(|write| &write.resource));
        names.map(|name| self.find(name).map_or(0, |info| info.number)).collect()
    }

    pub(super) fn place_of(&self, object: &Value) -> Result<Place, String> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or("");
        let (api_version, kind) = (text("/apiVersion"), text("/kind"));
        let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
        let info = self
            .resources
            .iter()
            .find(|info| info.group == group && info.version == version && info.kind == kind)
            .ok_or_else(|| format!("unknown kind {api_version} {kind}; name it under `resources`"))?;
        let namespace = match info.scope {
            Scope::Cluster => "",
            Scope::Namespaced if text("/metadata/namespace").is_empty() => "default",
            Scope::Namespaced => text("/metadata/namespace"),
        };
        Ok((info.number, namespace.to_owned(), text("/metadata/name").to_owned()))
    }

    /// `pods default/web` for people.
    pub(super) fn name_of(&self, (resource, namespace, name): &Place) -> String {
        let plural = self.info(*resource).map_or("?", |info| info.resource.as_str());
        if namespace.is_empty() { format!("{plural} {name}") } else { format!("{plural} {namespace}/{name}") }
    }

    /// Fills in what an API server would.
    pub(super) fn complete(&mut self, place: &Place, object: &mut Value) {
        let now = self.now.to_string();
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        let kind = self.info(place.0).map(|info| info.resource.clone()).unwrap_or_default();
        let meta = &mut object["metadata"];
        if meta["uid"].is_null() {
            self.created += 1;
            meta["uid"] = json!(format!("{kind}-{}-{}", place.2, self.created));
        }
        if meta["creationTimestamp"].is_null() {
            meta["creationTimestamp"] = json!(now);
        }
        if meta["generation"].is_null() {
            meta["generation"] = json!(1);
        }
        if !place.1.is_empty() {
            meta["namespace"] = json!(place.1);
        }
        meta["name"] = json!(place.2);
    }

    /// A name as generated from a prefix: the first free of `prefix` and a number.
    pub(super) fn generate_name(&self, resource: u32, namespace: &str, prefix: &str) -> String {
        let mut number = 1;
        loop {
            let name = format!("{prefix}{number:05}");
            if !self.objects.contains_key(&(resource, namespace.to_owned(), name.clone())) {
                return name;
            }
            number += 1;
        }
    }

    /// The cache as it stands.
    pub(super) fn freeze(&mut self, log: Arc<Mutex<Vec<String>>>) -> Result<Frozen, String> {
        let mut entries = Vec::new();
        let resources = &self.resources;
        let synced = |view: &&ReadView| {
            resources.iter().any(|info| info.number == view.resource && info.state == SyncState::Synced)
        };
        for view in self.views.iter().filter(synced) {
            let from = (view.resource, String::new(), String::new());
            for (place, object) in
                self.objects.range(from..).take_while(|(place, _)| place.0 == view.resource)
            {
                let next_id = u32::try_from(self.ids.len()).map_err(|e| e.to_string())?;
                let id = *self.ids.entry(place.clone()).or_insert(next_id);
                let text = view.tree.cut(object).to_string();
                let (before, version) = self.versions.entry((view.resource, id)).or_default();
                if *before != text {
                    before.clone_from(&text);
                    *version += 1;
                }
                let reference = ObjectRef { resource: view.resource, id, version: *version };
                let indexes = view.indexes.iter().map(|(name, paths)| (name.clone(), values(object, paths)));
                entries.push(Entry {
                    reference,
                    place: place.clone(),
                    labels: serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default(),
                    indexes: built_in(object).into_iter().chain(indexes).collect(),
                    text,
                });
            }
        }
        let read = |number: u32| self.views.iter().any(|view| view.resource == number);
        let readable = self.resources.iter().filter(|info| read(info.number)).cloned().collect();
        Ok(Frozen {
            resources: self.resources.clone(),
            resources_version: self.resources_version,
            readable,
            entries,
            log,
        })
    }
}

/// Values of the built-in indexes.
fn built_in(object: &Value) -> Vec<(String, Vec<Vec<String>>)> {
    let meta = &object["metadata"];
    let text = |value: &Value| vec![value.as_str().unwrap_or("").to_owned()];
    let owners = meta["ownerReferences"].as_array().map(Vec::as_slice).unwrap_or_default();
    let controllers: Vec<_> = owners
        .iter()
        .filter(|owner| owner["controller"] == json!(true))
        .map(|owner| text(&owner["uid"]))
        .collect();
    let orphan = if controllers.is_empty() { vec![vec!["true".to_owned()]] } else { Vec::new() };
    vec![
        ("uid".to_owned(), vec![text(&meta["uid"])]),
        ("owner".to_owned(), owners.iter().map(|owner| text(&owner["uid"])).collect()),
        ("controller".to_owned(), controllers),
        ("orphan".to_owned(), orphan),
        ("namespace".to_owned(), vec![text(&meta["namespace"])]),
        (
            "deleting".to_owned(),
            if meta["deletionTimestamp"].is_string() { vec![vec!["true".to_owned()]] } else { Vec::new() },
        ),
    ]
}

/// Each combination of what the paths find.
fn values(object: &Value, paths: &[Vec<Part>]) -> Vec<Vec<String>> {
    paths.iter().fold(vec![Vec::new()], |combinations, path| {
        let found = find(object, path);
        let extend = |combination: &Vec<String>, value: &String| {
            let mut combination = combination.clone();
            combination.push(value.clone());
            combination
        };
        combinations.iter().flat_map(|c| found.iter().map(|value| extend(c, value))).collect()
    })
}

/// An object as the reconciler's module sees it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) reference: ObjectRef,
    pub(super) place: Place,
    labels: StringMap,
    pub(super) indexes: Vec<(String, Vec<Vec<String>>)>,
    text: String,
}

/// The cache at one moment; what reconcilers are given.
#[derive(Debug)]
pub struct Frozen {
    resources: Vec<ResourceInfo>,
    resources_version: u32,
    readable: Vec<ResourceInfo>,
    pub(super) entries: Vec<Entry>,
    log: Arc<Mutex<Vec<String>>>,
}

impl Frozen {
    fn readable(&self, number: u32) -> Result<(), String> {
        let info = self.readable.iter().find(|info| info.number == number);
        match info.map(|info| info.state) {
            None => Err(format!("resource {number} is not declared as read")),
            Some(SyncState::Syncing) => Err(format!("resource {number} has not synced")),
            Some(_) => Ok(()),
        }
    }

    /// Reference of the object at a place.
    pub(super) fn at(&self, place: &Place) -> Option<ObjectRef> {
        self.entries.iter().find(|entry| entry.place == *place).map(|entry| entry.reference)
    }

    /// Place of the object that a reference is to, if it still holds.
    pub(super) fn place_of(&self, reference: &ObjectRef) -> Option<&Place> {
        self.entries.iter().find(|entry| entry.reference == *reference).map(|entry| &entry.place)
    }
}

impl Snapshot for Frozen {
    fn resources(&self) -> Vec<ResourceInfo> {
        self.resources.clone()
    }

    fn resources_version(&self) -> u32 {
        self.resources_version
    }

    fn get(&self, resource: u32, namespace: &str, name: &str) -> Result<Option<ObjectRef>, String> {
        self.readable(resource)?;
        Ok(self.at(&(resource, namespace.to_owned(), name.to_owned())))
    }

    fn list(&self, query: &Query) -> Result<Vec<ObjectRef>, String> {
        let numbers: Vec<u32> = match &query.resources {
            ResourceSet::One(number) => vec![*number],
            ResourceSet::Several(numbers) => numbers.clone(),
            ResourceSet::All => {
                let synced = self.readable.iter().filter(|info| info.state == SyncState::Synced);
                synced.map(|info| info.number).collect()
            }
        };
        for number in &numbers {
            match self.readable(*number) {
                Err(_) if numbers.len() > 1 => {}
                outcome => outcome?,
            }
        }
        let selector = query.labels.as_deref().map(str::parse::<Selector>).transpose()?;
        if let Some(wanted) = &query.index {
            let known = |entry: &&Entry| numbers.contains(&entry.reference.resource);
            let missing = |entry: &Entry| !entry.indexes.iter().any(|(name, _)| *name == wanted.index);
            if self.entries.iter().filter(known).any(missing) {
                return Err(format!("index {} is not declared", wanted.index));
            }
        }
        let found = self.entries.iter().filter(|entry| {
            numbers.contains(&entry.reference.resource)
                && query.namespace.as_ref().is_none_or(|namespace| *namespace == entry.place.1)
                && selector.as_ref().is_none_or(|selector| selector.matches(&entry.labels))
                && query.index.as_ref().is_none_or(|wanted| {
                    entry
                        .indexes
                        .iter()
                        .any(|(name, values)| *name == wanted.index && values.contains(&wanted.value))
                })
        });
        Ok(found.map(|entry| entry.reference).collect())
    }

    fn read(&self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        let text = |reference: &ObjectRef| {
            let entry = self.entries.iter().find(|entry| entry.reference == *reference);
            entry.map(|entry| entry.text.clone()).ok_or_else(|| format!("{reference:?} is not of this round"))
        };
        refs.iter().map(text).collect()
    }

    fn log(&self, level: Level, message: &str) {
        if let Ok(mut log) = self.log.lock() {
            log.push(format!("{level:?} {message}"));
        }
    }
}
