//! What the executor reads of an answer: metadata and little else.

use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};

/// The parts of an object, or of a Status, that settle a write.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Head {
    #[serde(deserialize_with = "nullable")]
    pub(super) kind: String,
    #[serde(deserialize_with = "nullable")]
    pub(super) metadata: HeadMeta,
    #[serde(deserialize_with = "nullable")]
    pub(super) details: HeadDetails,
    /// Only looked into where it may matter: it can be anything.
    spec: Option<Box<RawValue>>,
    /// Of the answer to a delete-collection.
    #[serde(deserialize_with = "nullable")]
    pub(super) items: Vec<HeadItem>,
}

/// Metadata.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct HeadMeta {
    #[serde(deserialize_with = "nullable")]
    pub(super) namespace: String,
    #[serde(deserialize_with = "nullable")]
    pub(super) name: String,
    #[serde(deserialize_with = "nullable")]
    pub(super) uid: String,
    #[serde(deserialize_with = "nullable")]
    pub(super) resource_version: String,
    pub(super) deletion_timestamp: Option<String>,
    pub(super) deletion_grace_period_seconds: Option<i64>,
    #[serde(deserialize_with = "nullable")]
    pub(super) finalizers: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub(super) owner_references: Vec<HeadOwner>,
}

/// An owner reference.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(super) struct HeadOwner {
    #[serde(deserialize_with = "nullable")]
    pub(super) uid: String,
    #[serde(deserialize_with = "nullable")]
    pub(super) controller: bool,
}

/// The details of a Status.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HeadDetails {
    #[serde(deserialize_with = "nullable")]
    pub(super) uid: String,
}

/// An item of a list.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct HeadItem {
    #[serde(deserialize_with = "nullable")]
    pub(super) metadata: HeadMeta,
}

/// The API writes null for an empty list as well as leaving it out.
fn nullable<'de, D: Deserializer<'de>, T: DeserializeOwned + Default>(value: D) -> Result<T, D::Error> {
    Ok(Option::<T>::deserialize(value)?.unwrap_or_default())
}

impl Head {
    /// Reads an answer; one that cannot be read says nothing.
    pub(super) fn parse(body: &[u8]) -> Self {
        serde_json::from_slice(body).unwrap_or_default()
    }

    /// Whether nothing keeps the object any more: it is being deleted, without
    /// a finalizer and without grace.
    pub(super) fn vanishing(&self) -> bool {
        self.deleting()
            && self.metadata.finalizers.is_empty()
            && self.metadata.deletion_grace_period_seconds.unwrap_or(0) <= 0
            && !self.kept_by_spec()
    }

    /// Whether it has finalizers in its spec, where the oldest ones are.
    fn kept_by_spec(&self) -> bool {
        let spec = self.spec.as_ref().and_then(|spec| serde_json::from_str::<Value>(spec.get()).ok());
        let finalizers = spec.as_ref().and_then(|spec| spec.get("finalizers")?.as_array());
        finalizers.is_some_and(|finalizers| !finalizers.is_empty())
    }

    /// Whether the object is being deleted.
    pub(super) fn deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }

    /// Uid of the object, or of the one that a Status is about.
    pub(super) fn uid(&self) -> Option<&str> {
        [&self.metadata.uid, &self.details.uid].into_iter().find(|uid| !uid.is_empty()).map(String::as_str)
    }
}

/// Whether a live object is the one that a create meant to make: it has the
/// controller that was sent, or, where none was sent, any owner that was sent.
/// With no owners at all, only a name that we drew ourselves proves it.
pub(super) fn is_ours(sent: &[HeadOwner], live: &[HeadOwner], drawn: bool) -> bool {
    match sent.iter().find(|owner| owner.controller) {
        Some(controller) => live.iter().any(|owner| owner.controller && owner.uid == controller.uid),
        None if sent.is_empty() => drawn,
        None => sent.iter().any(|owner| live.iter().any(|l| l.uid == owner.uid)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owner(uid: &str, controller: bool) -> HeadOwner {
        HeadOwner { uid: uid.into(), controller }
    }

    #[test]
    fn nulls_are_empty() {
        let head = Head::parse(br#"{"kind":"Pod","metadata":{"name":"a","finalizers":null,"ownerReferences":null},"items":null}"#);
        assert_eq!(head.metadata.name, "a");
        assert!(head.metadata.finalizers.is_empty());
        assert_eq!(Head::parse(b"no JSON").metadata.name, "");
    }

    #[test]
    fn vanishing_needs_all_of_it() {
        let cases = [
            (r#"{"metadata":{}}"#, false),
            (r#"{"metadata":{"deletionTimestamp":"t"}}"#, true),
            (r#"{"metadata":{"deletionTimestamp":"t","deletionGracePeriodSeconds":0}}"#, true),
            (r#"{"metadata":{"deletionTimestamp":"t","deletionGracePeriodSeconds":30}}"#, false),
            (r#"{"metadata":{"deletionTimestamp":"t","finalizers":["x"]}}"#, false),
            (r#"{"metadata":{"deletionTimestamp":"t"},"spec":{"finalizers":["x"]}}"#, false),
            (r#"{"metadata":{"deletionTimestamp":"t"},"spec":{"finalizers":[]}}"#, true),
            (r#"{"metadata":{"deletionTimestamp":"t"},"spec":{"finalizers":{"of":"another kind"}}}"#, true),
            (r#"{"metadata":{"deletionTimestamp":"t"},"spec":"text"}"#, true),
            (r#"{"metadata":{"deletionTimestamp":"t"},"spec":null}"#, true),
        ];
        for (body, vanishing) in cases {
            assert_eq!(Head::parse(body.as_bytes()).vanishing(), vanishing, "{body}");
        }
    }

    #[test]
    fn ours_is_what_has_our_controller() {
        let cases = [
            (vec![owner("a", true)], vec![owner("a", true)], false, true),
            (vec![owner("a", true)], vec![owner("b", true)], true, false),
            (vec![owner("a", true)], vec![owner("a", false)], true, false),
            (vec![owner("a", false)], vec![owner("a", false), owner("b", true)], false, true),
            (vec![], vec![], false, false),
            (vec![], vec![], true, true),
        ];
        for (sent, live, drawn, ours) in cases {
            assert_eq!(is_ours(&sent, &live, drawn), ours, "{sent:?} {live:?}");
        }
    }
}
