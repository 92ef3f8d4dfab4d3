//! What a reconcile is given: the request, the cache, and answers to lookups.
//!
//! Invariant: two contexts with the same request over the same snapshot give a
//! reconcile the same answers, so it gives the same outcome.

use std::any::TypeId;
use std::time::Duration;

use crate::contract::{
    self, ActionOutcome, ActionResult, Failure, Key, Level, ObjectRef, Request, ResourceInfo,
};
use crate::error::{Error, Result};
use crate::lookup::Ask;
use crate::manifest::Declaration;
use crate::query::{Query, Which};
use crate::read::FromJson;
use crate::reader::from_json;
use crate::resource::{EVERY, Resource, ResourceId};
use crate::snapshot::Snapshot;
use crate::time::Time;
use crate::view::{self, Object, View};

/// What a reconcile is given.
pub struct Ctx<'a> {
    request: &'a Request,
    snapshot: &'a dyn Snapshot,
    declaration: &'a Declaration,
}

impl<'a> Ctx<'a> {
    /// A context over a request; the entry point and tests make it.
    pub fn new(request: &'a Request, snapshot: &'a dyn Snapshot, declaration: &'a Declaration) -> Self {
        Self { request, snapshot, declaration }
    }

    /// What is to be reconciled.
    pub fn key(&self) -> &'a Key {
        &self.request.key
    }

    /// Name of the key source that the key is of.
    pub fn source(&self) -> &'a str {
        let sources = &self.declaration.manifest().sources;
        sources.get(self.request.key.source as usize).map_or("", |source| source.name.as_str())
    }

    /// The time: the same for all rounds of one reconcile.
    pub fn now(&self) -> Time {
        self.request.now.into()
    }

    /// Randomness: the same for all rounds of one reconcile.
    pub fn seed(&self) -> u64 {
        u64::from(self.request.seed.0) << 32 | u64::from(self.request.seed.1)
    }

    /// What the last plan asked to keep, if it was not lost.
    pub fn state(&self) -> Option<&'a str> {
        self.request.state.as_deref()
    }

    /// Format number that the state was written in.
    pub fn state_format(&self) -> u32 {
        self.request.state_format
    }

    /// What became of the last plan, where it did not go as planned.
    pub fn results(&self) -> &'a [ActionResult] {
        &self.request.results
    }

    /// The refusals among the results of actions of this tag.
    pub fn failures(&self, tag: &'a str) -> impl Iterator<Item = &'a Failure> {
        self.request.results.iter().filter(move |result| result.tag == tag).filter_map(|result| match &result
            .result
        {
            ActionOutcome::Failed(failure) => Some(failure),
            ActionOutcome::Skipped | ActionOutcome::Unknown => None,
        })
    }

    /// Value of an option, as text.
    pub fn option(&self, name: &str) -> Result<&'a str> {
        let at = self.declaration.option_position(name);
        at.and_then(|at| self.request.options.get(at))
            .map(String::as_str)
            .ok_or_else(|| Error::Terminal(format!("option {name} is not declared in the manifest")))
    }

    /// Value of an option that parses: an integer, a boolean.
    pub fn option_as<T: std::str::FromStr>(&self, name: &str) -> Result<T> {
        let text = self.option(name)?;
        text.parse().map_err(|_| Error::Terminal(format!("option {name}: cannot read {text:?}")))
    }

    /// Value of an option that is a decimal. Read as JSON: the standard library's
    /// own parser is 17 KB of a guest.
    pub fn option_decimal(&self, name: &str) -> Result<f64> {
        let text = self.option(name)?;
        from_json(text).map_err(|_| Error::Terminal(format!("option {name}: not a number: {text:?}")))
    }

    /// Value of an option that is a duration as Go writes it.
    pub fn option_duration(&self, name: &str) -> Result<Duration> {
        let text = self.option(name)?;
        crate::duration::parse(text)
            .ok_or_else(|| Error::Terminal(format!("option {name}: not a duration: {text:?}")))
    }

    /// Parts of an option that is a list.
    pub fn option_list(&self, name: &str) -> Result<Vec<&'a str>> {
        Ok(self.option(name)?.split(',').map(str::trim).filter(|part| !part.is_empty()).collect())
    }

    /// The object of the key. None once it is gone, and for keys that are not
    /// objects.
    pub fn primary<V: View>(&self) -> Result<Option<Object<V>>> {
        self.check::<V>()?;
        match self.request.primary {
            Some(reference) => Ok(self.read_refs(vec![reference])?.pop()),
            None => Ok(None),
        }
    }

    /// Reference of the object of the key.
    pub fn primary_ref(&self) -> Option<ObjectRef> {
        self.request.primary
    }

    /// The object of this name. Getting nothing subscribes to the name as well.
    pub fn get<V: View>(&self, namespace: &str, name: &str) -> Result<Option<Object<V>>> {
        self.check::<V>()?;
        let number = self.number(V::RESOURCE)?;
        if number == 0 {
            return Ok(None);
        }
        self.get_in(number, namespace, name)
    }

    /// The object of this name, of a resource known by number.
    pub fn get_in<V: FromJson + 'static>(
        &self,
        resource: u32,
        namespace: &str,
        name: &str,
    ) -> Result<Option<Object<V>>> {
        match self.snapshot.get(resource, namespace, name).map_err(Error::Retry)? {
            Some(reference) => Ok(self.read_refs(vec![reference])?.pop()),
            None => Ok(None),
        }
    }

    /// The objects that a query finds, by namespace and name.
    pub fn list<V: View>(&self, query: Query) -> Result<Vec<Object<V>>> {
        self.check::<V>()?;
        self.read_refs(self.refs::<V>(query)?)
    }

    /// References of the objects that a query finds, unread: enough to count.
    pub fn refs<V: View>(&self, query: Query) -> Result<Vec<ObjectRef>> {
        self.refs_of(V::RESOURCE, query)
    }

    fn refs_of(&self, resource: Resource, query: Query) -> Result<Vec<ObjectRef>> {
        let resources = match query.resources {
            Which::All => contract::ResourceSet::All,
            Which::OfView if resource == EVERY => contract::ResourceSet::All,
            Which::OfView => match self.number(resource)? {
                0 => return Ok(Vec::new()),
                number => contract::ResourceSet::One(number),
            },
            Which::These(ids) => {
                let mut numbers = Vec::with_capacity(ids.len());
                for id in ids {
                    match self.number(id)? {
                        0 => {}
                        number => numbers.push(number),
                    }
                }
                if numbers.is_empty() {
                    return Ok(Vec::new());
                }
                Query::set_of(numbers)
            }
        };
        let query = contract::Query {
            resources,
            namespace: query.namespace,
            index: query.index,
            labels: query.labels,
        };
        self.snapshot.list(&query).map_err(Error::Retry)
    }

    /// Views of objects by reference. The references must be of this round.
    pub fn read_refs<V: FromJson + 'static>(&self, refs: Vec<ObjectRef>) -> Result<Vec<Object<V>>> {
        view::read(self.snapshot, refs)
    }

    /// All resources of the cluster. A new one wakes the key.
    pub fn resources(&self) -> Vec<ResourceInfo> {
        self.snapshot.resources()
    }

    /// Moves whenever [`Ctx::resources`] would answer otherwise.
    pub fn resources_version(&self) -> u32 {
        self.snapshot.resources_version()
    }

    /// Number of a resource that the manifest names; 0 where the cluster lacks it.
    pub fn number(&self, resource: impl Into<ResourceId>) -> Result<u32> {
        self.number_of(resource.into())
    }

    fn number_of(&self, resource: ResourceId) -> Result<u32> {
        match resource {
            ResourceId::Number(number) => Ok(number),
            ResourceId::Named(resource) => self
                .declaration
                .position(resource)
                .and_then(|at| self.request.resources.get(at).copied())
                .ok_or_else(|| Error::Terminal(format!("{resource} is not declared in the manifest"))),
        }
    }

    /// Asks past the cache. Unanswered, the error ends this round, and the host
    /// calls again with the answer; the inner result is the answer.
    pub fn look_up(&self, ask: Ask) -> Result<Result<String, Failure>> {
        let mut answers = self.look_up_all([ask])?;
        answers.pop().ok_or_else(|| Error::retry("a lookup vanished"))
    }

    /// Asks several things at once. Answers come in the order of the asks.
    pub fn look_up_all(&self, asks: impl IntoIterator<Item = Ask>) -> Result<Vec<Result<String, Failure>>> {
        self.look_up_these(asks.into_iter().collect())
    }

    fn look_up_these(&self, asks: Vec<Ask>) -> Result<Vec<Result<String, Failure>>> {
        let mut answers = Vec::new();
        let mut unanswered: Vec<contract::Lookup> = Vec::new();
        for ask in asks {
            let id = ask.id();
            match self.request.answers.iter().find(|answer| answer.id == id) {
                Some(answer) => answers.push(answer.result.clone()),
                None if unanswered.iter().any(|lookup| lookup.id == id) => {}
                None => unanswered.push(contract::Lookup { id, ask: ask.to_wire(self)? }),
            }
        }
        if unanswered.is_empty() { Ok(answers) } else { Err(Error::Lookups(unanswered)) }
    }

    /// Reads an object past the cache.
    pub fn get_live<V: View>(&self, namespace: &str, name: &str) -> Result<Result<V, Failure>> {
        match self.look_up(Ask::get(V::RESOURCE, namespace, name))? {
            Ok(text) => from_json(&text)
                .map(Ok)
                .map_err(|e| Error::Retry(format!("cannot read {} {namespace}/{name}: {e}", V::RESOURCE))),
            Err(failure) => Ok(Err(failure)),
        }
    }

    /// Reads an object past the cache; None if there is none. Where that cannot
    /// be told, the key is tried again.
    pub fn find_live<T: FromJson>(&self, ask: Ask) -> Result<Option<T>> {
        let what = ask.subject();
        match self.look_up(ask)? {
            Ok(text) => from_json(&text)
                .map(Some)
                .map_err(|e| Error::Retry(format!("cannot read {what} as the API server has it: {e}"))),
            Err(failure) if failure.status == 404 => Ok(None),
            Err(failure) => Err(Error::Retry(format!("cannot look for {what}: {}", failure.message))),
        }
    }

    /// Writes a line to the manager's log.
    pub fn log(&self, level: Level, message: &str) {
        self.snapshot.log(level, message);
    }

    /// A view that was not declared would find its fields pruned and take them
    /// for empty.
    fn check<V: 'static>(&self) -> Result<()> {
        self.check_type(TypeId::of::<V>(), std::any::type_name::<V>())
    }

    fn check_type(&self, view: TypeId, name: &str) -> Result<()> {
        if self.declaration.covers(view) {
            return Ok(());
        }
        Err(Error::Terminal(format!("view {name} is not declared in the manifest")))
    }
}
