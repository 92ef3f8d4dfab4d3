//! What a query finds in a snapshot.

use std::{hash::BuildHasher, sync::Arc};

use super::{Access, Snapshot, object_ref};
use crate::{
    contract::{ObjectRef, Query, ResourceSet},
    store::{
        Inner,
        intern::Hasher,
        object::{Labels, Record},
        selector::Selector,
        sources::Reader,
        subscriptions::{ANY, Interest, Point},
        table::{JOINT, Selected},
    },
};

/// A query, with its words looked up.
#[derive(Clone, Copy)]
struct Matcher<'a> {
    namespace: Option<&'a str>,
    index: Option<(Selected, &'a str)>,
    selector: Option<&'a Arc<Selector>>,
}

/// Tests labels; objects in a row often share one set of them.
struct LabelTest<'a> {
    selector: Option<&'a Arc<Selector>>,
    last: Option<(*const Labels, bool)>,
}

impl<'a> LabelTest<'a> {
    fn new(selector: Option<&'a Arc<Selector>>) -> Self {
        Self { selector, last: None }
    }

    fn admits(&mut self, record: &Record) -> bool {
        let Some(selector) = self.selector else { return true };
        let labels = Arc::as_ptr(&record.meta.labels);
        if let Some((_, admitted)) = self.last.filter(|(last, _)| *last == labels) {
            return admitted;
        }
        let admitted = selector.matches(|key| record.meta.labels.get(key));
        self.last = Some((labels, admitted));
        admitted
    }
}

impl Snapshot {
    /// Adds what a query finds in one resource, in order.
    fn find(
        &self,
        inner: &Inner,
        resource: u32,
        view: usize,
        query: &Matcher<'_>,
        found: &mut Vec<ObjectRef>,
    ) {
        let start = found.len();
        let objects = &inner.objects;
        let ids = objects.candidates(Some(resource), query.namespace, query.index);
        found.reserve(ids.len());
        if self.past.slots.is_empty() && query.selector.is_none() {
            found.extend(ids.iter().filter_map(|id| objects.get(*id)).map(|record| object_ref(record, view)));
            return;
        }
        let mut labels = LabelTest::new(query.selector);
        for record in
            ids.iter().filter(|id| !self.past.slots.contains_key(id)).filter_map(|id| objects.get(*id))
        {
            if labels.admits(record) {
                found.push(object_ref(record, view));
            }
        }
        let kept = found.len();
        for record in self.past.slots.values().flatten().filter(|record| record.resource == resource) {
            let namespace = query.namespace.is_none_or(|namespace| *record.meta.namespace == *namespace);
            let index = query.index.is_none_or(|(index, value)| objects.has_value(record, index, value));
            if namespace && index && labels.admits(record) {
                found.push(object_ref(record, view));
            }
        }
        if found.len() > kept {
            let order = |found: &ObjectRef| self.past.get(inner, found.id).map(|record| record.order());
            found[start..].sort_by(|a, b| order(a).cmp(&order(b)));
        }
    }

    /// Adds what an index over all resources finds for one value.
    fn find_everywhere(
        &self,
        inner: &Inner,
        views: &[(u32, usize)],
        query: &Matcher<'_>,
        found: &mut Vec<ObjectRef>,
    ) {
        let view_of =
            |resource| views.binary_search_by_key(&resource, |(own, _)| *own).ok().map(|at| views[at].1);
        let mut labels = LabelTest::new(query.selector);
        let mut fits = |record: &Record| {
            query.namespace.is_none_or(|namespace| *record.meta.namespace == *namespace)
                && labels.admits(record)
        };
        let ids = inner.objects.candidates(None, None, query.index);
        let now =
            ids.iter().filter(|id| !self.past.slots.contains_key(id)).filter_map(|id| inner.objects.get(*id));
        let then = self.past.slots.values().flatten();
        let then = then.filter(|record| {
            query.index.is_some_and(|(index, value)| inner.objects.has_value(record, index, value))
        });
        let mut records: Vec<&Arc<Record>> = now.collect();
        let kept = records.len();
        records.extend(then);
        if records.len() > kept {
            records.sort_by(|a, b| a.order().cmp(&b.order()));
        }
        for record in records {
            if fits(record)
                && let Some(view) = view_of(record.resource)
            {
                found.push(object_ref(record, view));
            }
        }
    }

    fn subscribe(&mut self, resource: u32, query: &Matcher<'_>) {
        let namespace = query.namespace;
        let pair = query.selector.and_then(|selector| selector.required_pair());
        let point = match (query.index, pair) {
            (Some((index, value)), _) => Point::Value { resource, index, namespace, value },
            (None, Some((key, value))) => Point::Label { resource, namespace, key, value },
            (None, None) => Point::Everything { resource, namespace },
        };
        self.interests.push(match query.selector {
            Some(selector) => {
                Interest::filtered(&point, selector.clone(), Hasher::default().hash_one(selector))
            }
            None => Interest::new(&point),
        });
    }

    pub(super) fn list_locked(&mut self, inner: &Inner, query: &Query) -> Result<Vec<ObjectRef>, String> {
        let selector = match query.labels.as_deref() {
            None | Some("") => None,
            Some(text) => Some(self.view.module.selector(text).map_err(|error| error.to_string())?),
        };
        let mut namespace = query.namespace.as_deref();
        let mut wanted =
            query.index.as_ref().map(|index| (&*index.index, index.value.join(JOINT), index.value.len()));
        if let Some((name, value, width)) = &wanted {
            if Selected::built_in(name).is_some() && *width != 1 {
                return Err(format!("a value of index `{name}` has one part, not {width}"));
            }
            if *name == "namespace" {
                if namespace.is_some_and(|namespace| namespace != value) {
                    return Ok(Vec::new());
                }
                namespace = query.index.as_ref().and_then(|index| index.value.first()).map(String::as_str);
                wanted = None;
            }
        }
        let matcher = |index| Matcher { namespace, index, selector: selector.as_ref() };
        let wanted = wanted.as_ref();
        let select = |reader: &Reader| -> Result<Option<(Selected, &str)>, String> {
            let Some((name, value, width)) = wanted else { return Ok(None) };
            match reader.index(name) {
                Some((index, parts)) if parts == *width => Ok(Some((index, value))),
                Some((_, parts)) => Err(format!("a value of index `{name}` has {parts} parts, not {width}")),
                None => Err(format!("index `{name}` is not declared by the module's manifest")),
            }
        };
        let mut found = Vec::new();
        let one;
        let numbers: &[u32] = match &query.resources {
            ResourceSet::One(number) => {
                one = [*number];
                &one
            }
            ResourceSet::Several(numbers) => numbers,
            ResourceSet::All => {
                let index = match wanted {
                    None => None,
                    Some((name, value, _)) => {
                        let index = Selected::built_in(name);
                        let index =
                            index.ok_or_else(|| format!("index `{name}` is not one over all resources"))?;
                        Some((index, value.as_str()))
                    }
                };
                let query = matcher(index);
                if let Some(reason) = self.denied_in_part(inner, namespace) {
                    return self.deny(reason);
                }
                self.list_all(inner, &query, &mut found);
                self.subscribe(ANY, &query);
                return Ok(found);
            }
        };
        let single = matches!(query.resources, ResourceSet::One(_));
        for &number in numbers {
            let reader = self.view.module.reader(&inner.objects, number);
            let view = match self.access(inner, number, namespace) {
                Access::Readable(reader) => Some(reader.view),
                Access::Empty => None,
                Access::Denied(reason) => return self.deny(reason),
                // Of several, those not synced are left out; an undeclared one is a mistake.
                Access::Refused(_) if !single && reader.is_some() => None,
                Access::Refused(reason) => return self.refuse(number, reason),
            };
            let Some(reader) = reader else { continue };
            let query = matcher(select(reader)?);
            self.subscribe(number, &query);
            if let Some(view) = view {
                self.find(inner, number, view, &query, &mut found);
            }
        }
        Ok(found)
    }

    /// Why a list over every resource would leave something out without a word:
    /// a resource that is granted in some namespaces, and not in all that the
    /// list is about. What is granted nowhere is none of the module's resources.
    fn denied_in_part(&self, inner: &Inner, namespace: Option<&str>) -> Option<String> {
        let module = &self.view.module;
        if module.grants.is_open() {
            return None;
        }
        let read =
            inner.objects.tables.keys().filter(|number| module.reader(&inner.objects, **number).is_some());
        read.filter(|number| module.is_granted(&self.view.store.registry, **number))
            // A namespace holds nothing that is outside of namespaces.
            .filter(|number| namespace.is_none() || self.view.store.registry.namespaced(**number))
            .find_map(|number| self.denied(*number, namespace))
    }

    fn list_all(&self, inner: &Inner, query: &Matcher<'_>, found: &mut Vec<ObjectRef>) {
        let module = &self.view.module;
        let readable = |(number, _): (&u32, &_)| match self.access(inner, *number, query.namespace) {
            Access::Readable(reader) => Some((*number, reader.view)),
            _ => None,
        };
        match query.index {
            Some((Selected::Uid | Selected::Owner | Selected::Controller, _)) => {
                let ids = inner.objects.candidates(None, None, query.index);
                if ids.is_empty() && self.past.slots.is_empty() {
                    return;
                }
                // Only the resources that were found have to be looked at.
                let now = ids.iter().filter_map(|id| inner.objects.get(*id));
                let mut numbers: Vec<u32> =
                    now.chain(self.past.slots.values().flatten()).map(|record| record.resource).collect();
                numbers.sort_unstable();
                numbers.dedup();
                let views: Vec<(u32, usize)> = numbers
                    .into_iter()
                    .filter(|number| module.reader(&inner.objects, *number).is_some())
                    .filter_map(|number| readable((&number, &())))
                    .collect();
                self.find_everywhere(inner, &views, query, found);
            }
            _ => {
                for number in inner.objects.tables.keys() {
                    if let Some((number, view)) = readable((number, &())) {
                        self.find(inner, number, view, query, found);
                    }
                }
            }
        }
    }
}
