//! Metadata of objects: what is always kept, and owner references.

use std::ops::{Deref, DerefMut, Index};

use litemap::LiteMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::read::{Failed, FromJson, Reader, through_serde};
use crate::resource::Resource;
use crate::sort::lite_map_of;
use crate::time::Time;

/// Labels, or annotations: a map that is a sorted list, since they are few and
/// mostly come in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StringMap(LiteMap<String, String>);

/// For what a map can do. To be written it must be the `StringMap`.
impl Deref for StringMap {
    type Target = LiteMap<String, String>;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for StringMap {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}

impl StringMap {
    /// None.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Index<&str> for StringMap {
    type Output = String;

    fn index(&self, key: &str) -> &String {
        self.0.get(key).unwrap_or_else(|| panic!("there is no {key:?}"))
    }
}

impl FromIterator<(String, String)> for StringMap {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(items: I) -> Self {
        Self(lite_map_of(items))
    }
}

impl<const N: usize> From<[(String, String); N]> for StringMap {
    fn from(items: [(String, String); N]) -> Self {
        items.into_iter().collect()
    }
}

impl Extend<(String, String)> for StringMap {
    fn extend<I: IntoIterator<Item = (String, String)>>(&mut self, items: I) {
        for (key, value) in items {
            self.insert(key, value);
        }
    }
}

impl IntoIterator for StringMap {
    type Item = (String, String);
    type IntoIter = std::vec::IntoIter<(String, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl<'a> IntoIterator for &'a StringMap {
    type Item = (&'a String, &'a String);
    type IntoIter = <&'a LiteMap<String, String> as IntoIterator>::IntoIter;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// An object, also where it is empty: the list's own way would be an empty array.
impl Serialize for StringMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self)
    }
}

impl<'de> Deserialize<'de> for StringMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        through_serde(deserializer)
    }
}

impl FromJson for StringMap {
    fn blank() -> Self {
        Self::default()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        self.0.read(reader)
    }
}

/// Metadata that the host always keeps. Annotations are kept only if asked for:
/// `ObjectMeta<StringMap>` reads all of them; `ObjectMeta<Mine>`, with a struct
/// whose fields are renamed to annotation keys, only those.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ObjectMeta<A = NoAnnotations> {
    /// Name.
    pub name: String,
    /// Namespace; empty for objects of the cluster.
    pub namespace: String,
    /// Uid.
    pub uid: String,
    /// Labels.
    pub labels: StringMap,
    /// Owners.
    pub owner_references: Vec<OwnerReference>,
    /// Finalizers.
    pub finalizers: Vec<String>,
    /// When it is, or was, to be gone.
    pub deletion_timestamp: Option<Time>,
    /// How many seconds it was given to go.
    pub deletion_grace_period_seconds: Option<i64>,
    /// Version of its spec.
    pub generation: i64,
    /// When it was made.
    pub creation_timestamp: Option<Time>,
    /// Annotations, if asked for.
    pub annotations: A,
}

/// Whether a field is as it would be read if it were absent, so that it need not
/// be written.
pub fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl<A> ObjectMeta<A> {
    /// The owner that is the controller.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.owner_references.iter().find(|owner| owner.is_controller())
    }

    /// Whether the object of this uid is the controller.
    pub fn is_controlled_by(&self, uid: &str) -> bool {
        self.controller().is_some_and(|owner| owner.uid == uid)
    }

    /// Whether it was asked to go.
    pub fn is_deleting(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// When it was asked to go: its deletion timestamp is when it is to be gone.
    pub fn asked_to_go(&self) -> Option<Time> {
        let grace = self.deletion_grace_period_seconds.unwrap_or(0).max(0);
        Some(Time::from_unix(self.deletion_timestamp?.unix().saturating_sub(grace)))
    }
}

/// Asks for no annotations.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoAnnotations;

impl FromJson for NoAnnotations {
    fn blank() -> Self {
        Self
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        reader.skip()
    }
}

/// A reference to an owner.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct OwnerReference {
    /// API version of the owner.
    pub api_version: String,
    /// Kind of the owner.
    pub kind: String,
    /// Name of the owner.
    pub name: String,
    /// Uid of the owner.
    pub uid: String,
    /// Whether the owner is the controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<bool>,
    /// Whether a foreground deletion of the owner waits for this object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub block_owner_deletion: Option<bool>,
}

impl OwnerReference {
    /// A reference that makes the owner the controller.
    pub fn controller(resource: Resource, name: &str, uid: &str) -> Self {
        Self {
            api_version: resource.api_version(),
            kind: resource.kind.to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            controller: Some(true),
            block_owner_deletion: Some(true),
        }
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let mut json = Map::new();
        for (field, text) in [
            ("apiVersion", &self.api_version),
            ("kind", &self.kind),
            ("name", &self.name),
            ("uid", &self.uid),
        ] {
            json.insert(field.to_owned(), Value::String(text.clone()));
        }
        for (field, flag) in
            [("controller", self.controller), ("blockOwnerDeletion", self.block_owner_deletion)]
        {
            if let Some(flag) = flag {
                json.insert(field.to_owned(), Value::Bool(flag));
            }
        }
        Value::Object(json)
    }

    /// Whether the owner is the controller.
    pub fn is_controller(&self) -> bool {
        self.controller == Some(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_an_object_even_if_there_are_none() {
        let mut labels = StringMap::new();
        assert_eq!(serde_json::to_string(&labels).unwrap(), "{}");
        labels.extend([("b".to_owned(), "1".to_owned()), ("a".to_owned(), "2".to_owned())]);
        labels.extend([("b".to_owned(), "3".to_owned())]);
        assert_eq!(serde_json::to_string(&labels).unwrap(), r#"{"a":"2","b":"3"}"#);
        assert_eq!(crate::from_json::<StringMap>(r#"{"b":"3","a":"2"}"#).unwrap(), labels);
        assert_eq!(labels["b"], "3");
        assert_eq!(
            labels,
            StringMap::from([("b", "3"), ("a", "2")].map(|(k, v)| (k.to_owned(), v.to_owned())))
        );
    }

    #[test]
    fn an_object_was_asked_to_go_its_grace_before_it_is_gone() {
        for (grace, wanted) in [
            (r#","deletionGracePeriodSeconds":30"#, "2026-01-01T00:00:00Z"),
            (r#","deletionGracePeriodSeconds":0"#, "2026-01-01T00:00:30Z"),
            (r#","deletionGracePeriodSeconds":-9223372036854775808"#, "2026-01-01T00:00:30Z"),
            ("", "2026-01-01T00:00:30Z"),
        ] {
            let text = format!(r#"{{"deletionTimestamp":"2026-01-01T00:00:30Z"{grace}}}"#);
            let meta: ObjectMeta = serde_json::from_str(&text).unwrap();
            assert_eq!(meta.asked_to_go(), Time::parse(wanted), "{text}");
        }
        assert_eq!(<ObjectMeta>::default().asked_to_go(), None);
    }

    #[test]
    fn a_reference_is_the_same_json_by_hand_as_by_serde() {
        let mine = OwnerReference::controller(crate::resource::SERVICES, "web", "u");
        let others = OwnerReference { controller: Some(false), block_owner_deletion: None, ..mine.clone() };
        for reference in [mine, others, OwnerReference::default()] {
            assert_eq!(reference.to_json(), serde_json::to_value(&reference).unwrap());
        }
    }
}
