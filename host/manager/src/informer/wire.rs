//! Lists and watch events, as far as an informer reads them.
//!
//! In: JSON as the API server sends it. Out: raw objects for the store to prune,
//! with apiVersion and kind in place. Objects are never built as JSON values.

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
pub(super) enum Event<'a> {
    Added(&'a str),
    Modified(&'a str),
    Deleted(&'a str),
    Bookmark { resource_version: String, initial_events_end: bool },
    Error(Failure),
    Unknown(String),
}

/// Reads one line of a watch.
pub(super) fn parse_event(line: &[u8]) -> Result<Event<'_>, serde_json::Error> {
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

/// What objects of a resource are: their apiVersion and kind, and whether only
/// their metadata is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) metadata_only: bool,
}

impl Stamp {
    /// The object with its apiVersion and kind: items of a list often carry
    /// none, and where only metadata was asked for they name the wrong ones.
    pub(super) fn apply<'a>(&self, raw: &'a str) -> Result<Cow<'a, str>, serde_json::Error> {
        if self.metadata_only {
            #[derive(Deserialize)]
            struct Partial<'a> {
                #[serde(borrow)]
                metadata: &'a RawValue,
            }
            let partial: Partial = serde_json::from_str(raw)?;
            return Ok(Cow::Owned(format!("{}\"metadata\":{}}}", self.head()?, partial.metadata.get())));
        }
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Head<'a> {
            #[serde(borrow, default)]
            api_version: Option<&'a RawValue>,
            #[serde(borrow, default)]
            kind: Option<&'a RawValue>,
        }
        let head: Head = serde_json::from_str(raw)?;
        if head.api_version.is_some() && head.kind.is_some() {
            return Ok(Cow::Borrowed(raw));
        }
        // An object by now, so there is a brace; what follows it is a field, for
        // an object without any is refused by the store in any case.
        let rest = raw.trim_start().strip_prefix('{').unwrap_or_default();
        Ok(Cow::Owned(format!("{}{rest}", self.head()?)))
    }

    fn head(&self) -> Result<String, serde_json::Error> {
        Ok(format!(
            "{{\"apiVersion\":{},\"kind\":{},",
            serde_json::to_string(&self.api_version)?,
            serde_json::to_string(&self.kind)?
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(metadata_only: bool) -> Stamp {
        Stamp { api_version: "apps/v1".into(), kind: "Deployment".into(), metadata_only }
    }

    #[test]
    fn items_without_a_kind_are_given_one() {
        let raw = r#" {"metadata":{"name":"a"},"spec":{}}"#;
        assert_eq!(
            stamp(false).apply(raw).unwrap(),
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{}}"#
        );
    }

    #[test]
    fn objects_that_say_what_they_are_are_left_alone() {
        let raw = r#"{"kind":"X","apiVersion":"y/v1","metadata":{"name":"a"}}"#;
        assert!(matches!(stamp(false).apply(raw).unwrap(), Cow::Borrowed(same) if same == raw));
    }

    #[test]
    fn partial_metadata_is_given_the_kind_of_its_resource() {
        let raw = r#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{"name":"a"},"spec":1}"#;
        assert_eq!(
            stamp(true).apply(raw).unwrap(),
            r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"}}"#
        );
    }

    #[test]
    fn what_is_no_object_is_an_error() {
        for raw in ["1", "[]", "null", "{", r#"{"metadata"}"#] {
            assert!(stamp(false).apply(raw).is_err() || raw == "[]", "{raw}");
            assert!(stamp(true).apply(raw).is_err(), "{raw}");
        }
    }

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
