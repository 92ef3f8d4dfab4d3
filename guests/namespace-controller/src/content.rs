//! What a namespace contains.
//!
//! The cache tells what there is, and when it has gone. What it does not follow
//! is listed; and before a namespace is let go everything is listed, since an
//! object may have been made that the cache does not show yet.

use std::collections::BTreeMap;

use coxswain_sdk::contract::Failure;
use coxswain_sdk::{Ask, Ctx, FromJson, Query, Result, from_json};

use crate::kinds::{Kind, Kinds};
use crate::view::Item;

/// Objects listed at once; of more only the number counts.
const PAGE: u32 = 500;

/// What there is of one resource.
#[derive(Clone, Debug)]
pub struct Rest<'a> {
    /// The resource.
    pub kind: &'a Kind,
    /// Number of objects.
    pub count: u64,
    /// Number of objects by finalizer.
    pub finalizers: BTreeMap<String, u64>,
    /// Names of those not asked to go yet.
    pub fresh: Vec<String>,
}

impl<'a> Rest<'a> {
    fn new(kind: &'a Kind) -> Self {
        Self { kind, count: 0, finalizers: BTreeMap::new(), fresh: Vec::new() }
    }

    fn add(&mut self, item: &Item) {
        self.count += 1;
        for finalizer in &item.metadata.finalizers {
            *self.finalizers.entry(finalizer.clone()).or_default() += 1;
        }
        if !item.metadata.is_deleting() {
            self.fresh.push(item.metadata.name.clone());
        }
    }
}

/// What there is of each resource, in the order of the resources.
pub type Content<'a> = Vec<Rest<'a>>;

/// What the cache shows.
pub fn cached<'a>(ctx: &Ctx<'_>, kinds: &'a Kinds, namespace: &str) -> Result<Content<'a>> {
    let items = ctx.list::<Item>(Query::all().every_resource().namespace(namespace))?;
    let mut by_number: BTreeMap<u32, Vec<&Item>> = BTreeMap::new();
    for item in &items {
        by_number.entry(item.reference().resource).or_default().push(item.as_ref());
    }
    let mut content = Content::new();
    for kind in kinds.values().filter(|kind| kind.is_cached) {
        let Some(items) = by_number.get(&kind.number) else { continue };
        let mut rest = Rest::new(kind);
        items.iter().for_each(|item| rest.add(item));
        content.push(rest);
    }
    Ok(content)
}

/// What to ask to learn what there is of a resource.
pub fn ask(kind: &Kind, namespace: &str) -> Ask {
    Ask::List {
        resource: kind.number.into(),
        namespace: namespace.to_owned(),
        labels: String::new(),
        fields: String::new(),
        limit: PAGE,
        continue_from: String::new(),
        metadata_only: true,
    }
}

#[derive(FromJson)]
struct List {
    #[serde(default)]
    metadata: ListMeta,
    #[serde(default)]
    items: Vec<Item>,
}

#[derive(Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct ListMeta {
    remaining_item_count: Option<u64>,
}

/// What a list shows: nothing if the resource cannot be listed at all.
pub fn listed<'a>(kind: &'a Kind, answer: &Result<String, Failure>) -> Result<Rest<'a>, String> {
    let mut rest = Rest::new(kind);
    match answer {
        Ok(text) => {
            let list: List =
                from_json(text).map_err(|e| format!("cannot read a list of {}: {e}", kind.resource))?;
            list.items.iter().for_each(|item| rest.add(item));
            rest.count = rest.count.saturating_add(list.metadata.remaining_item_count.unwrap_or(0));
            Ok(rest)
        }
        Err(failure) if is_unsupported(failure) => Ok(rest),
        Err(failure) => Err(failure.message.clone()),
    }
}

/// Whether a failure says that there is no such thing, or nothing like it can
/// be done with it.
pub fn is_unsupported(failure: &Failure) -> bool {
    matches!(failure.status, 404 | 405)
}
