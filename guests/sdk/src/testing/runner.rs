//! Runs a scenario: reconcile, compare, apply, until there is nothing to do.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Value, json};

use super::apply::{Refusals, carry_out};
use super::golden::{Node, ask_text, record};
use super::scenario::{Happening, Scenario};
use super::tally::Tally;
use super::world::{Frozen, World, is_every};
use crate::contract::{
    ActionResult, Answer, Ask, Failure, Key, KeyKind, Lookup, LookupRule, Manifest, Outcome, Request,
    StateChange,
};
use crate::controller::{Controller, declaration, run};
use crate::selector::Selector;
use crate::time::Time;
use crate::view::{forget_parsed, without_memo};

/// Something that reconciles requests: a controller in this process, or a
/// component in an engine.
pub trait Reconciler {
    /// What it says about itself.
    fn manifest(&self) -> Manifest;

    /// One round of a reconcile.
    fn reconcile(&mut self, request: &Request, snapshot: &Arc<Frozen>) -> Result<Outcome, String>;
}

/// A controller in this process. Each round is run with the memo of parsed
/// objects as it is and again without; the answers must agree.
pub struct Native<C>(std::marker::PhantomData<C>);

impl<C: Controller> Native<C> {
    /// The controller.
    #[allow(clippy::new_without_default, reason = "there is nothing to default to")]
    pub fn new() -> Self {
        forget_parsed();
        Self(std::marker::PhantomData)
    }
}

impl<C: Controller> Reconciler for Native<C> {
    fn manifest(&self) -> Manifest {
        declaration::<C>().manifest().clone()
    }

    fn reconcile(&mut self, request: &Request, snapshot: &Arc<Frozen>) -> Result<Outcome, String> {
        let first = run::<C>(request, &**snapshot);
        let again = without_memo(|| run::<C>(request, &**snapshot));
        if first != again {
            return Err(format!("what was parsed before changes the answer:\n{first:?}\n{again:?}"));
        }
        Ok(first)
    }
}

/// A scenario under way.
struct Run<'a> {
    scenario: &'a Scenario,
    manifest: Manifest,
    world: World,
    refusals: Refusals,
    /// How often each line of `lookups` may still answer.
    answers: Vec<u32>,
    memory: BTreeMap<String, Memory>,
    records: Vec<Node>,
    tally: Tally,
    log: Arc<Mutex<Vec<String>>>,
}

/// What the host keeps of a key.
#[derive(Default)]
struct Memory {
    key: Option<Key>,
    state: Option<String>,
    results: Vec<ActionResult>,
    not_before: Option<Time>,
}

const LOOKUP_ROUNDS: usize = 32;

/// Runs a scenario and gives its golden text.
pub fn play(scenario: &Scenario, reconciler: &mut dyn Reconciler) -> Result<String, String> {
    let manifest = reconciler.manifest();
    let mut run = Run {
        scenario,
        world: World::new(scenario, &manifest)?,
        manifest,
        refusals: Refusals::new(&scenario.refuse),
        answers: scenario.lookups.iter().map(|line| line.times).collect(),
        memory: BTreeMap::new(),
        records: Vec::new(),
        tally: Tally::default(),
        log: Arc::default(),
    };
    run.settle(reconciler)?;
    for happening in &scenario.then {
        run.happen(happening)?;
        run.settle(reconciler)?;
    }
    if let Some(line) = run.refusals.unused().next() {
        return Err(format!("nothing ran into the refusal of {} {}", line.verb, line.resource));
    }
    let frozen = run.world.freeze(Arc::clone(&run.log))?;
    let keys = run.keys(&frozen)?;
    run.records.extend(run.tally.told(&run.manifest, |key| keys.iter().any(|(name, _)| name == key)));
    serde_yaml::to_string(&run.records).map_err(|e| e.to_string())
}

impl Run<'_> {
    /// Reconciles all keys until no plan writes and none wants to come back.
    fn settle(&mut self, reconciler: &mut dyn Reconciler) -> Result<(), String> {
        let start = Time::parse(&self.scenario.now).ok_or("now: not a time")?;
        let horizon = start + Duration::from_secs(self.scenario.horizon);
        for _ in 0..self.scenario.rounds {
            let mut active = false;
            let frozen = self.world.freeze(Arc::clone(&self.log))?;
            let keys = self.keys(&frozen)?;
            let gone = self.gone(&keys);
            for (name, key) in keys {
                active |= self.reconcile(reconciler, &name, key)?;
            }
            for (name, key) in gone {
                let again = self.reconcile(reconciler, &name, key)?;
                active |= again;
                if !again {
                    self.memory.remove(&name);
                }
            }
            if active {
                continue;
            }
            let next = self.memory.values().filter_map(|memory| memory.not_before).min();
            match next {
                Some(at) if at <= horizon => self.world.now = self.world.now.max(at),
                _ => return Ok(()),
            }
        }
        Err(format!("still not at rest after {} rounds; the last:\n{}", self.scenario.rounds, self.tail()))
    }

    fn tail(&self) -> String {
        let tail = &self.records[self.records.len().saturating_sub(3)..];
        serde_yaml::to_string(&tail).unwrap_or_default()
    }

    /// One reconcile. Returns whether another is due at once.
    fn reconcile(&mut self, reconciler: &mut dyn Reconciler, name: &str, key: Key) -> Result<bool, String> {
        let frozen = Arc::new(self.world.freeze(Arc::clone(&self.log))?);
        let primary = frozen.at(&(key.resource, key.namespace.clone(), key.name.clone()));
        let mut request = self.request(name, key, primary)?;
        for _ in 0..LOOKUP_ROUNDS {
            let outcome = reconciler.reconcile(&request, &frozen).map_err(|e| format!("{name}: {e}"))?;
            match outcome {
                Outcome::Lookups(lookups) => {
                    self.tell(name, &frozen, &Outcome::Lookups(lookups.clone()), None);
                    for lookup in lookups {
                        self.check_lookup(&lookup)?;
                        let result = self.answer(&lookup)?;
                        request.answers.push(Answer { id: lookup.id, result });
                    }
                }
                Outcome::Plan(plan) => return self.plan(name, &frozen, plan),
                Outcome::Retry(_) | Outcome::Terminal(_) => {
                    let memory = self.memory.entry(name.to_owned()).or_default();
                    memory.not_before = None;
                    if matches!(outcome, Outcome::Terminal(_)) {
                        memory.results.clear();
                    }
                    self.tell(name, &frozen, &outcome, None);
                    return Ok(false);
                }
            }
        }
        Err(format!("{name}: asks for lookups without end"))
    }

    fn request(
        &mut self,
        name: &str,
        key: Key,
        primary: Option<crate::contract::ObjectRef>,
    ) -> Result<Request, String> {
        for option in self.scenario.options.keys() {
            if !self.manifest.options.iter().any(|spec| spec.name == *option) {
                return Err(format!("the controller has no option {option}"));
            }
        }
        let options = self.manifest.options.iter();
        let value = |spec: &crate::contract::OptionSpec| {
            self.scenario.options.get(&spec.name).unwrap_or(&spec.default).clone()
        };
        let first_state = || self.scenario.state.get(name).cloned();
        let memory = self
            .memory
            .entry(name.to_owned())
            .or_insert_with(|| Memory { state: first_state(), ..Memory::default() });
        memory.key = Some(key.clone());
        Ok(Request {
            key,
            primary,
            resources: self.world.numbers(&self.manifest),
            now: self.world.now.to_wire().ok_or("now: out of range")?,
            seed: (7, 11),
            state: memory.state.clone(),
            state_format: self.manifest.state_format,
            results: memory.results.clone(),
            answers: Vec::new(),
            options: options.map(value).collect(),
        })
    }

    fn plan(&mut self, name: &str, frozen: &Frozen, plan: crate::contract::Plan) -> Result<bool, String> {
        let done = carry_out(
            &mut self.world,
            frozen,
            &self.manifest,
            &mut self.refusals,
            self.scenario.pods_linger,
            &plan,
        )
        .map_err(|e| format!("{name}: {e}"))?;
        self.tally.count(&self.manifest, name, &plan, &done.results).map_err(|e| format!("{name}: {e}"))?;
        let in_vain = done.notes.iter().any(|note| note == "changes nothing");
        let memory = self.memory.entry(name.to_owned()).or_default();
        let again = done.writes > 0 || !done.results.is_empty();
        memory.results.clone_from(&done.results);
        memory.not_before = plan.not_before.map(Time::from);
        match &plan.state {
            StateChange::Keep => {}
            StateChange::Clear => memory.state = None,
            StateChange::Set(state) => memory.state = Some(state.clone()),
        }
        let stuck = memory.not_before.is_some_and(|at| at <= self.world.now) && !again;
        self.tell(name, frozen, &Outcome::Plan(plan), Some(&done));
        if in_vain {
            return Err(format!("{name}: a write changes nothing:\n{}", self.tail()));
        }
        if stuck {
            return Err(format!("{name}: does nothing, and wants to come back at once:\n{}", self.tail()));
        }
        Ok(again)
    }

    fn tell(&mut self, name: &str, frozen: &Frozen, outcome: &Outcome, done: Option<&super::apply::Done>) {
        let told = record(&self.world, frozen, outcome, done);
        if told.is_empty() {
            return;
        }
        let named = |name: &str| {
            self.records.iter().rev().find(|before| before.field("key") == Some(&Node::Leaf(json!(name))))
        };
        let last = named(name);
        // A key that is asked again and answers the same is not worth telling.
        let news = |(field, value): &(&str, Node)| {
            matches!(*field, "steps" | "events") || last.and_then(|last| last.field(field)) != Some(value)
        };
        if !told.iter().any(news) {
            return;
        }
        let mut entry =
            vec![("at", Node::Leaf(json!(self.world.now.to_string()))), ("key", Node::Leaf(json!(name)))];
        entry.extend(told);
        self.records.push(Node::Fields(entry));
    }

    /// All keys, by name.
    fn keys(&self, frozen: &Frozen) -> Result<Vec<(String, Key)>, String> {
        let mut keys = Vec::new();
        for (source, number) in self.manifest.sources.iter().zip(0..) {
            let key = |resource: u32, namespace: &str, name: &str| Key {
                source: number,
                resource,
                namespace: namespace.to_owned(),
                name: name.to_owned(),
            };
            match &source.keys {
                KeyKind::Single(name) => keys.push((name.clone(), key(0, "", name))),
                KeyKind::Objects(resources) => {
                    for entry in &frozen.entries {
                        if self.is_any(entry.place.0, resources) {
                            keys.push((
                                self.world.name_of(&entry.place),
                                key(entry.place.0, &entry.place.1, &entry.place.2),
                            ));
                        }
                    }
                }
                KeyKind::IndexedObjects(indexed) => {
                    for entry in &frozen.entries {
                        let has =
                            entry.indexes.iter().any(|(n, v)| indexed.indexes.contains(n) && !v.is_empty());
                        if has && self.is_any(entry.place.0, &indexed.resources) {
                            let name = format!("{} ({})", self.world.name_of(&entry.place), source.name);
                            keys.push((name, key(entry.place.0, &entry.place.1, &entry.place.2)));
                        }
                    }
                }
                KeyKind::IndexValues(values) => {
                    let mut found: Vec<String> = Vec::new();
                    for entry in &frozen.entries {
                        if self.is_any(entry.place.0, std::slice::from_ref(&values.resource)) {
                            let index = entry.indexes.iter().filter(|(name, _)| *name == values.index);
                            found.extend(
                                index.flat_map(|(_, values)| values.iter().map(|value| value.join("/"))),
                            );
                        }
                    }
                    found.sort();
                    found.dedup();
                    keys.extend(
                        found
                            .into_iter()
                            .map(|value| (format!("{} {value}", source.name), key(0, "", &value))),
                    );
                }
            }
        }
        if !self.scenario.keys.is_empty() {
            let wanted = |name: &String| {
                self.scenario.keys.iter().any(|key| name == key || name.ends_with(&format!(" {key}")))
            };
            keys.retain(|(name, _)| wanted(name));
        }
        Ok(keys)
    }

    /// Keys that are remembered, and whose objects have vanished.
    fn gone(&self, keys: &[(String, Key)]) -> Vec<(String, Key)> {
        if !self.scenario.gone_keys {
            return Vec::new();
        }
        let there = |name: &String| keys.iter().any(|(key, _)| key == name);
        let gone = self.memory.iter().filter(|(name, _)| !there(name));
        gone.filter_map(|(name, memory)| Some((name.clone(), memory.key.clone()?))).collect()
    }

    fn is_any(&self, number: u32, resources: &[crate::contract::GroupResource]) -> bool {
        resources.iter().any(|resource| {
            is_every(resource) || self.world.find(resource).is_some_and(|info| info.number == number)
        })
    }

    fn check_lookup(&self, lookup: &Lookup) -> Result<(), String> {
        let names = |resource: &crate::contract::GroupResource, number: u32| {
            is_every(resource) || self.world.find(resource).is_some_and(|info| info.number == number)
        };
        let allowed = self.manifest.lookups.iter().any(|rule| match (rule, &lookup.ask) {
            (LookupRule::Get(rule), Ask::Get(get)) => {
                names(&rule.resource, get.resource) && rule.subresource == get.subresource
            }
            (LookupRule::List(resource), Ask::List(list)) => names(resource, list.resource),
            (LookupRule::Raw(prefix), Ask::Raw(path)) => path.starts_with(prefix),
            (LookupRule::Review(resource), Ask::Review(review)) => *resource == review.resource,
            (LookupRule::Sign(key), Ask::Sign(sign)) => *key == sign.key,
            _ => false,
        });
        let text = || ask_text(&self.world, lookup);
        if allowed { Ok(()) } else { Err(format!("the manifest does not allow the lookup {:?}", text())) }
    }

    fn answer(&mut self, lookup: &Lookup) -> Result<Result<String, Failure>, String> {
        let text = ask_text(&self.world, lookup);
        let lines = self.scenario.lookups.iter().zip(&mut self.answers);
        if let Some((line, left)) = lines.into_iter().find(|(line, left)| line.ask == text && **left > 0) {
            *left -= 1;
            return match (&line.answer, &line.fail) {
                (Some(answer), None) => Ok(Ok(answer.to_string())),
                (None, Some(fail)) => Ok(Err(fail.failure())),
                _ => Err(format!("lookup {text:?} needs either `answer` or `fail`")),
            };
        }
        match &lookup.ask {
            Ask::Get(get) if get.subresource.is_empty() => {
                let place = (get.resource, get.namespace.clone(), get.name.clone());
                let wanted =
                    |object: &&Value| get.uid.is_empty() || object["metadata"]["uid"] == json!(get.uid);
                let found = self.world.objects.get(&place).filter(wanted);
                Ok(found.map(Value::to_string).ok_or_else(|| Failure {
                    status: 404,
                    reason: "NotFound".to_owned(),
                    message: format!("{} not found", self.world.name_of(&place)),
                    causes: Vec::new(),
                }))
            }
            Ask::List(list) if list.fields.is_empty() => {
                let selector: Selector = list.labels.parse()?;
                let fits = |(place, object): &(&super::world::Place, &Value)| {
                    let labels =
                        serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default();
                    place.0 == list.resource
                        && (list.namespace.is_empty() || place.1 == list.namespace)
                        && selector.matches(&labels)
                };
                let items: Vec<&Value> =
                    self.world.objects.iter().filter(fits).map(|(_, object)| object).collect();
                Ok(Ok(json!({ "metadata": {}, "items": items }).to_string()))
            }
            _ => Err(format!("the scenario has no answer to {text:?}; add it under `lookups`")),
        }
    }

    fn happen(&mut self, happening: &Happening) -> Result<(), String> {
        self.world.now = self.world.now + Duration::from_secs(happening.after);
        if !happening.resources.is_empty() {
            self.world.change_resources(&happening.resources, &self.manifest)?;
        }
        for object in &happening.apply {
            let place = self.world.place_of(object)?;
            let places = self.matching(&place);
            if places.is_empty() && !place.2.ends_with('*') {
                let mut object = object.clone();
                self.world.complete(&place, &mut object);
                self.world.objects.insert(place, object);
                continue;
            }
            if places.is_empty() {
                return Err(format!("nothing is called {}", self.world.name_of(&place)));
            }
            for place in places {
                let mut change = object.clone();
                change["metadata"]["name"] = json!(place.2);
                if let Some(object) = self.world.objects.get_mut(&place) {
                    let spec = object["spec"].clone();
                    crate::merge::apply(object, &change);
                    if object["spec"] != spec {
                        let generation = object["metadata"]["generation"].as_i64().unwrap_or(0);
                        object["metadata"]["generation"] = json!(generation + 1);
                    }
                }
            }
        }
        for line in &happening.remove {
            let (plural, path) = line.split_once(' ').ok_or_else(|| format!("remove: {line:?}: no name"))?;
            let resource =
                self.world.by_plural(plural).ok_or_else(|| format!("remove: unknown resource {plural}"))?;
            let (namespace, name) = path.split_once('/').unwrap_or(("", path));
            let places = self.matching(&(resource, namespace.to_owned(), name.to_owned()));
            if places.is_empty() {
                return Err(format!("remove: {line} is not there"));
            }
            for place in places {
                self.world.objects.remove(&place);
            }
        }
        Ok(())
    }

    /// Places of a name, which may end in `*`.
    fn matching(&self, place: &super::world::Place) -> Vec<super::world::Place> {
        let fits = |name: &str| match place.2.strip_suffix('*') {
            Some(prefix) => name.starts_with(prefix),
            None => name == place.2,
        };
        self.world
            .objects
            .keys()
            .filter(|p| p.0 == place.0 && p.1 == place.1 && fits(&p.2))
            .cloned()
            .collect()
    }
}
