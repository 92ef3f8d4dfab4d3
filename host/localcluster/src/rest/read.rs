//! Get and list, now, not older than a version, or at a version.

use std::sync::Arc;
use std::time::Duration;

use super::answer::{Answer, List, Object, Outcome};
use super::options::ListOptions;
use super::page_token::PageToken;
use super::strategy::Kind;
use super::{Call, Rest};
use crate::selector::{FieldSelector, LabelSelector};
use crate::status::Status;
use crate::storage::{Compacted, Range, Stored, Table};

/// So long a read waits for a version the server has not reached.
pub(super) const FUTURE_WAIT: Duration = Duration::from_secs(3);

/// Parsed selectors of one request.
pub struct Filter {
    labels: LabelSelector,
    fields: FieldSelector,
}

impl Filter {
    /// Parses both; the fields must be ones that the kind knows.
    pub fn parse(kind: &Kind, labels: &str, fields: &str) -> Result<Self, Status> {
        let labels = LabelSelector::parse(labels).map_err(Status::bad_request)?;
        let fields = FieldSelector::parse(fields).map_err(Status::bad_request)?;
        for label in fields.terms().iter().map(|term| term.field.as_str()) {
            let common = matches!(label, "metadata.name" | "metadata.namespace");
            if !common && !kind.strategy.supports_field(label) {
                if let Some(message) = kind.strategy.unknown_field(label) {
                    return Err(Status::bad_request(message));
                }
                return Err(Status::bad_request(if kind.custom || kind.strategy.has_fields() {
                    format!("field label not supported: {label}")
                } else {
                    format!(
                        "{label:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\""
                    )
                }));
            }
        }
        Ok(Self { labels, fields })
    }

    /// Whether it lets everything through.
    pub fn is_everything(&self) -> bool {
        self.labels.is_everything() && self.fields.is_everything()
    }

    /// Whether it asks for a name.
    fn names_one(&self) -> bool {
        self.fields.terms().iter().any(|term| term.field == "metadata.name" && term.equal)
    }

    /// Whether an object passes.
    pub fn matches(&self, key: &str, object: &Stored) -> bool {
        if self.is_everything() {
            return true;
        }
        let (namespace, name) = key.rsplit_once('/').unwrap_or(("", key));
        let field = |field: &str| match field {
            "metadata.name" => name,
            "metadata.namespace" => namespace,
            other => object.field(other).unwrap_or_default(),
        };
        self.labels.matches(&|label| object.label(label))
            && self.fields.terms().iter().all(|t| (field(&t.field) == t.value) == t.equal)
    }
}

/// `namespace/`, or nothing for all.
pub(super) fn prefix(call: &Call) -> String {
    if call.namespace.is_empty() { String::new() } else { format!("{}/", call.namespace) }
}

impl Rest {
    /// One object. Any version given is a lower bound.
    pub async fn get(&self, call: &Call, resource_version: &str) -> Result<Answer, Status> {
        let version = parse_version(resource_version).map_err(Status::server_error)?;
        let table = self.table(&call.kind);
        self.wait_for(version).await?;
        let stored = table.get(&call.key()).ok_or_else(|| call.kind.not_found(&call.name))?;
        Ok(Answer::ok(&call.kind, Outcome::Object(Object::Stored(stored))))
    }

    /// A list or a page of one.
    pub async fn list(&self, call: &Call, options: &ListOptions) -> Result<Answer, Status> {
        let kind = &call.kind;
        let filter = Filter::parse(kind, &options.label_selector, &options.field_selector)?;
        let prefix = prefix(call);
        let mut range = Range { prefix: &prefix, limit: options.limit, ..Range::default() };
        let start;
        let table = self.table(kind);
        let mut version = 0;
        if options.continue_token.is_empty() {
            version = parse_version(&options.resource_version)
                .map_err(|why| Status::bad_request(format!("invalid resource version: {why}")))?;
            if options.resource_version == "0" {
                // Any version will do: the answer comes from a cache there, in one piece.
                range.limit = 0;
            }
            self.wait_for(version).await?;
            // A page at a version is that version's, unless the client takes any newer one.
            let exact =
                options.version_match == "Exact" || (options.limit > 0 && options.version_match.is_empty());
            if version > 0 && exact {
                range.at = Some(version);
            }
        } else {
            if !matches!(options.resource_version.as_str(), "" | "0") {
                return Err(Status::bad_request(
                    "specifying resource version is not allowed when using continue",
                ));
            }
            let token = PageToken::decode(&options.continue_token)?;
            start = format!("{prefix}{}", token.start);
            range.start = Some(&start);
            range.at = token.version;
            if options.resource_version == "0" {
                range.limit = 0;
            }
        }
        let matches = |key: &str, object: &Stored| filter.matches(key, object);
        let listing = table.list(&range, &matches).map_err(|Compacted { .. }| {
            expired(range.start.and_then(|s| s.strip_prefix(prefix.as_str())), version)
        })?;
        let mut list = List { rv: listing.rv, ..List::default() };
        // One name leads to one object at most, so there is no next page.
        if listing.behind > 0 && !filter.names_one() {
            let last = listing.items.last().map_or("", |(key, _)| key);
            let relative = last.strip_prefix(prefix.as_str()).unwrap_or(last);
            let next = PageToken { version: Some(listing.rv), start: format!("{relative}\0") };
            list.continue_token = next.encode();
            list.remaining = filter.is_everything().then_some(listing.behind);
        }
        list.items = listing.items.into_iter().map(|(_, o)| Object::Stored(o)).collect();
        Ok(Answer::ok(kind, Outcome::List(list)))
    }

    /// Waits a little for a version from the future.
    pub(super) async fn wait_for(&self, version: u64) -> Result<(), Status> {
        let reached = || self.store.version() >= version;
        let deadline = tokio::time::Instant::now() + FUTURE_WAIT;
        while !reached() {
            if tokio::time::Instant::now() >= deadline {
                return Err(Status::version_too_large(version, self.store.version()));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }

    /// Objects of a namespace or of all that pass a filter; for collections.
    pub(super) fn matching(&self, call: &Call, filter: &Filter) -> (Arc<Table>, crate::storage::Listing) {
        let table = self.table(&call.kind);
        let prefix = prefix(call);
        let range = Range { prefix: &prefix, ..Range::default() };
        // The present is never compacted.
        let listing = table.list(&range, &|key, object| filter.matches(key, object)).unwrap_or_default();
        (table, listing)
    }
}

/// A version in a read: empty and 0 mean any. The error is a text that reads differ in wrapping.
pub(super) fn parse_version(text: &str) -> Result<u64, String> {
    if text.is_empty() {
        return Ok(0);
    }
    text.parse().map_err(|_| {
        format!(
            "resourceVersion: Invalid value: {text:?}: strconv.ParseUint: parsing {text:?}: invalid syntax"
        )
    })
}

fn expired(start: Option<&str>, version: u64) -> Status {
    match start {
        Some(start) => {
            let mut status = Status::expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
            );
            status.continue_token = Some(PageToken { version: None, start: start.to_owned() }.encode());
            status
        }
        None => Status::expired(format!("The resourceVersion for the provided list is too old: {version}")),
    }
}
