//! What a key reads, in words.
//!
//! In: a key. Out: its reads, as far as something is there to be read. Nothing
//! is kept for this: subscriptions are hashes, and what they mean is found by
//! looking which objects of the cache they touch. So it takes as long as looking
//! at all objects that the module reads; it is for people who ask about one key.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{
    module::ModuleView,
    subscriptions::{ANY, Interest, Missed, Point},
    table::Selected,
};
use crate::{contract::display_name, key::Key};

/// Objects that are named of a read.
const NAMED: usize = 20;

/// Reads of a key's last reconcile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadsNow {
    /// Those that find something now.
    pub found: Vec<ReadNow>,
    /// How many find nothing now: a name that is not there, an empty list.
    pub empty: usize,
}

/// A read that finds something.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadNow {
    /// Of which resource.
    pub resource: String,
    /// How: by name, by an owner, by a label, …
    pub by: String,
    /// How many objects it finds.
    pub objects: usize,
    /// The first of them.
    pub first: Vec<String>,
}

impl ModuleView {
    /// What a key reads; none if nothing is remembered of it.
    pub fn reads_now(&self, key: &Key) -> Option<ReadsNow> {
        let interests = self.module.subscriptions.lock().interests(key)?;
        let missed = Missed::new(&interests);
        // By resource and point; a selector is a read of its own.
        let mut found: BTreeMap<(u32, (u64, u64)), ReadNow> = BTreeMap::new();
        let registry = &self.store.registry;
        let inner = self.store.inner.read();
        for (resource, table) in &inner.objects.tables {
            if self.module.reader(&inner.objects, *resource).is_none() {
                continue;
            }
            for record in table.all.iter().filter_map(|id| inner.objects.get(*id)) {
                missed.each_touched(record, &inner.objects, |point, interest| {
                    let read = found.entry((*resource, interest.identity())).or_insert_with(|| ReadNow {
                        resource: registry
                            .name(*resource)
                            .map(|name| display_name(&name))
                            .unwrap_or_default(),
                        by: by(point, interest),
                        objects: 0,
                        first: Vec::new(),
                    });
                    read.objects += 1;
                    if read.first.len() < NAMED {
                        let (namespace, name) = (&record.meta.namespace, &record.meta.name);
                        read.first.push(match namespace.is_empty() {
                            true => name.to_string(),
                            false => format!("{namespace}/{name}"),
                        });
                    }
                });
            }
        }
        drop(inner);
        let full = |interest: &&Interest| found.keys().any(|(_, identity)| *identity == interest.identity());
        let empty = interests.len() - interests.iter().filter(full).count();
        Some(ReadsNow { found: found.into_values().collect(), empty })
    }
}

fn by(point: &Point<'_>, interest: &Interest) -> String {
    let place = |resource: &u32, namespace: &Option<&str>| {
        let everywhere = if *resource == ANY { " in any resource" } else { "" };
        namespace.map_or_else(|| everywhere.to_owned(), |name| format!("{everywhere} in namespace {name}"))
    };
    let text = match point {
        Point::Name { .. } => "name".to_owned(),
        Point::Value { resource, index, namespace, value } => {
            let what = match index {
                Selected::Uid => format!("uid {value}"),
                Selected::Owner => format!("owner {value}"),
                Selected::Controller => format!("controller {value}"),
                Selected::Orphan => "having no controller".to_owned(),
                Selected::Namespace => format!("namespace {value}"),
                Selected::Deleting => "being deleted".to_owned(),
                Selected::Declared(_) => format!("index value {:?}", value.replace(super::table::JOINT, ",")),
            };
            what + &place(resource, namespace)
        }
        Point::Label { resource, namespace, key, value } => {
            format!("label {key}={value}{}", place(resource, namespace))
        }
        Point::Everything { resource, namespace } => format!("all{}", place(resource, namespace)),
        Point::Resources | Point::Refused { .. } => String::new(),
    };
    if interest.is_filtered() { format!("{text}, with a selector") } else { text }
}
