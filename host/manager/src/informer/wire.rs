//! Lists and watch events, as far as an informer reads them.
//!
//! In: JSON as the API server sends it. Out: raw objects, for the store to prune.
//! They are never built as JSON values.

use std::borrow::Cow;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{api::parse_status, contract::Failure};

/// Accepts whole objects.
pub(super) const WHOLE: &str = "application/json";
/// Accepts an object's metadata; whole objects from servers that know no such thing.
pub(super) const METADATA: &str =
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
/// The same for lists.
pub(super) const METADATA_LIST: &str =
    "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// A page of a list.
#[derive(Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: ListMeta,
    /// `null` is what an empty list of some servers says.
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

/// Metadata of a list.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct ListMeta {
    pub(super) resource_version: String,
    pub(super) r#continue: String,
}

/// One event of a watch.
pub(crate) enum Event<'a> {
    Added(&'a str),
    Modified(&'a str),
    Deleted(&'a str),
    Bookmark { resource_version: String, initial_events_end: bool },
    Error(Failure),
    Unknown(String),
}

/// Reads one line of a watch.
pub(crate) fn parse_event(line: &[u8]) -> Result<Event<'_>, serde_json::Error> {
    #[derive(Deserialize)]
    struct Envelope<'a> {
        #[serde(borrow)]
        r#type: Cow<'a, str>,
        #[serde(borrow)]
        object: &'a RawValue,
    }
    #[derive(Deserialize)]
    struct Bookmark<'a> {
        #[serde(borrow)]
        metadata: BookmarkMeta<'a>,
    }
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct BookmarkMeta<'a> {
        resource_version: String,
        #[serde(borrow, default)]
        annotations: Option<Annotations<'a>>,
    }
    #[derive(Deserialize)]
    struct Annotations<'a> {
        #[serde(borrow, rename = "k8s.io/initial-events-end", default)]
        initial_events_end: Option<Cow<'a, str>>,
    }

    let envelope: Envelope = serde_json::from_slice(line)?;
    let object = envelope.object.get();
    Ok(match &*envelope.r#type {
        "ADDED" => Event::Added(object),
        "MODIFIED" => Event::Modified(object),
        "DELETED" => Event::Deleted(object),
        "BOOKMARK" => {
            let bookmark: Bookmark = serde_json::from_str(object)?;
            Event::Bookmark {
                initial_events_end: bookmark
                    .metadata
                    .annotations
                    .and_then(|a| a.initial_events_end)
                    .is_some_and(|value| value == "true"),
                resource_version: bookmark.metadata.resource_version,
            }
        }
        "ERROR" => Event::Error(parse_status(http::StatusCode::INTERNAL_SERVER_ERROR, object.as_bytes())),
        other => Event::Unknown(other.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bookmarks_tell_the_end_of_the_initial_events() {
        let plain = br#"{"type":"BOOKMARK","object":{"kind":"Pod","metadata":{"resourceVersion":"7","creationTimestamp":null}}}"#;
        assert!(matches!(
            parse_event(plain).unwrap(),
            Event::Bookmark { resource_version, initial_events_end: false } if resource_version == "7"
        ));
        let end = br#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"8","annotations":{"k8s.io/initial-events-end":"true"}}}}"#;
        assert!(matches!(
            parse_event(end).unwrap(),
            Event::Bookmark { resource_version, initial_events_end: true } if resource_version == "8"
        ));
    }

    #[test]
    fn errors_carry_the_status() {
        let line = br#"{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired","message":"too old"}}"#;
        let Event::Error(failure) = parse_event(line).unwrap() else { panic!("not an error") };
        assert_eq!((failure.status, failure.reason.as_str()), (410, "Expired"));
    }
}
