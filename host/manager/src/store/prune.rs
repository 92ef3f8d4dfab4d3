//! Decoding with pruning: what nobody declared is skipped, not built.
//!
//! In: an object's JSON as the server sent it, and a [`FieldTree`]. Out: a
//! parsed metadata record and compact JSON of what is kept. The same machinery
//! projects what is stored onto what one module declared, and finds the values
//! of indexes.

use std::{borrow::Cow, fmt, sync::Arc};

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{
    intern::Interner,
    object::{Content, Labels, Meta, Object, Owners, ResourceVersion, text},
    path::{FieldTree, Part, is_never_kept},
    words::Dictionary,
};

/// Bytes that are no object of the API.
#[derive(Debug, thiserror::Error)]
#[error("not an object of the API: {0}")]
pub struct PruneError(#[from] serde_json::Error);

/// What is kept of a resource's objects: the union of what all modules declare.
pub struct PruneSpec {
    pub(super) tree: FieldTree,
    generation: u64,
    interner: Arc<Interner>,
    dictionary: Dictionary,
}

impl fmt::Debug for PruneSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PruneSpec").field("tree", &self.tree).field("generation", &self.generation).finish()
    }
}

impl PruneSpec {
    pub(super) fn new(tree: FieldTree, generation: u64, interner: Arc<Interner>) -> Self {
        let dictionary = Dictionary::of(&tree);
        Self { tree, generation, interner, dictionary }
    }

    /// Another when fields were added, or the resource was let go of in between, so that the objects must be listed
    /// again.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether nothing but metadata is kept, so that metadata is all to ask for.
    pub fn metadata_only(&self) -> bool {
        self.tree.is_metadata_only()
    }

    /// Decodes one object.
    pub fn prune(self: &Arc<Self>, raw: &[u8]) -> Result<Object, PruneError> {
        let mut deserializer = serde_json::Deserializer::from_slice(raw);
        let mut top = Top { interner: &self.interner, tree: &self.tree, metadata: None, out: vec![b'{'] };
        deserializer.deserialize_map(&mut top)?;
        deserializer.end()?;
        let missing = || <serde_json::Error as serde::de::Error>::missing_field("metadata");
        let (meta, metadata) = top.metadata.ok_or_else(missing)?;
        top.out.push(b'}');
        let content = Content::new(&metadata, &top.out, &self.dictionary).ok_or_else(|| {
            <serde_json::Error as serde::de::Error>::custom("the text is not UTF-8, or longer than 4 GiB")
        })?;
        Ok(Object { meta, content, spec: self.clone() })
    }
}

/// The top of an object.
struct Top<'a> {
    interner: &'a Interner,
    tree: &'a FieldTree,
    metadata: Option<(Meta, Vec<u8>)>,
    out: Vec<u8>,
}

impl<'de> Visitor<'de> for &mut Top<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key.0 {
                "metadata" => {
                    let tree = self.tree.field("metadata");
                    self.metadata = Some(map.next_value_seed(Metadata { interner: self.interner, tree })?);
                }
                "apiVersion" | "kind" => {
                    map.next_value::<IgnoredAny>()?;
                }
                name => member(&mut map, &mut self.out, name, self.tree.field(name))?,
            }
        }
        Ok(())
    }
}

/// Writes the member `name` of a map if it is kept, or else skips it.
fn member<'de, A: MapAccess<'de>>(
    map: &mut A,
    out: &mut Vec<u8>,
    name: &str,
    tree: Option<&FieldTree>,
) -> Result<(), A::Error> {
    let Some(tree) = tree else { return map.next_value::<IgnoredAny>().map(drop) };
    if out.last() != Some(&b'{') {
        out.push(b',');
    }
    text(out, name);
    out.push(b':');
    map.next_value_seed(Keep { tree, out })
}

/// The metadata: a record, and the JSON of what the record lacks.
struct Metadata<'a> {
    interner: &'a Interner,
    tree: Option<&'a FieldTree>,
}

impl<'de> DeserializeSeed<'de> for Metadata<'_> {
    type Value = (Meta, Vec<u8>);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Metadata<'_> {
    type Value = (Meta, Vec<u8>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("metadata")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut name, mut namespace, mut uid, mut resource_version) = (None, None, None, None);
        let (mut labels, mut owners, mut finalizers) = (None, None, None);
        let (mut generation, mut deleting) = (0, false);
        let mut out = vec![b'{'];
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key.0 {
                "name" => name = Some(map.next_value::<Text<'de>>()?),
                "namespace" => namespace = map.next_value::<Option<Text<'de>>>()?,
                "uid" => uid = map.next_value::<Option<Text<'de>>>()?,
                "resourceVersion" => resource_version = map.next_value::<Option<Text<'de>>>()?,
                "labels" => labels = map.next_value_seed(LabelsSeed(self.interner))?,
                "ownerReferences" => owners = map.next_value::<Option<Owners>>()?,
                "finalizers" => finalizers = map.next_value::<Option<Vec<Text<'de>>>>()?,
                never if is_never_kept(never) => map.next_value::<IgnoredAny>().map(drop)?,
                kept @ ("generation" | "deletionTimestamp") => {
                    let raw = map.next_value::<&'de RawValue>()?.get();
                    if raw != "null" {
                        deleting |= kept == "deletionTimestamp";
                        if kept == "generation" {
                            generation = raw.parse().map_err(serde::de::Error::custom)?;
                        }
                        if out.len() > 1 {
                            out.push(b',');
                        }
                        text(&mut out, kept);
                        out.push(b':');
                        out.extend_from_slice(raw.as_bytes());
                    }
                }
                other => member(&mut map, &mut out, other, self.tree.and_then(|tree| tree.field(other)))?,
            }
        }
        out.push(b'}');
        let name = name.ok_or_else(|| serde::de::Error::missing_field("metadata.name"))?.0;
        let intern = |text: &Option<Text<'_>>| self.interner.text(text.as_ref().map_or("", |text| &text.0));
        let meta = Meta {
            name: Arc::from(&*name),
            namespace: intern(&namespace),
            uid: uid.map_or_else(|| Arc::from(""), |uid| Arc::from(&*uid.0)),
            resource_version: ResourceVersion::new(
                resource_version.as_ref().map_or("", |version| &version.0),
            ),
            generation,
            labels: self.interner.labels(labels.unwrap_or_default()),
            owners: self.interner.owners(owners.unwrap_or_default()),
            finalizers: self.interner.list(
                finalizers
                    .unwrap_or_default()
                    .iter()
                    .map(|finalizer| self.interner.text(&finalizer.0))
                    .collect(),
            ),
            deleting,
        };
        Ok((meta, out))
    }
}

struct LabelsSeed<'a>(&'a Interner);

impl<'de> DeserializeSeed<'de> for LabelsSeed<'_> {
    type Value = Option<Labels>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for LabelsSeed<'_> {
    type Value = Option<Labels>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("labels")
    }

    fn visit_none<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut labels = Vec::new();
        while let Some((key, value)) = map.next_entry::<Text<'de>, Option<Text<'de>>>()? {
            labels.push((self.0.text(&key.0), self.0.text(value.as_ref().map_or("", |value| &value.0))));
        }
        Ok(Some(Labels(labels.into())))
    }
}

/// A string, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
#[serde(transparent)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Writes what a tree keeps of a value.
struct Keep<'a> {
    tree: &'a FieldTree,
    out: &'a mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for Keep<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        if self.tree.is_whole() {
            compact(<&RawValue as serde::Deserialize>::deserialize(deserializer)?.get(), self.out);
            return Ok(());
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Keep<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        self.out.push(b'{');
        while let Some(key) = map.next_key::<Text<'de>>()? {
            member(&mut map, self.out, &key.0, self.tree.field(&key.0))?;
        }
        self.out.push(b'}');
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        self.out.push(b'[');
        if let Some(tree) = self.tree.each() {
            let start = self.out.len();
            loop {
                let before = self.out.len();
                if before > start {
                    self.out.push(b',');
                }
                if seq.next_element_seed(Keep { tree, out: self.out })?.is_none() {
                    self.out.truncate(before);
                    break;
                }
            }
        } else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
        }
        self.out.push(b']');
        Ok(())
    }

    // A plain value where the path would go deeper: it says as much as there is.
    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.out.extend_from_slice(if value { b"true" } else { b"false" });
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.out.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.out.extend_from_slice(value.to_string().as_bytes());
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.out.extend_from_slice(serde_json::Value::from(value).to_string().as_bytes());
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        text(self.out, value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        self.out.extend_from_slice(b"null");
        Ok(())
    }
}

/// JSON without the space between its tokens.
fn compact(json: &str, out: &mut Vec<u8>) {
    let bytes = json.as_bytes();
    let (mut quoted, mut escaped, mut start) = (false, false, 0);
    for (at, &byte) in bytes.iter().enumerate() {
        if quoted {
            quoted = escaped || byte != b'"';
            escaped = !escaped && byte == b'\\';
        } else if byte == b'"' {
            quoted = true;
        } else if byte.is_ascii_whitespace() {
            out.extend_from_slice(&bytes[start..at]);
            start = at + 1;
        }
    }
    out.extend_from_slice(&bytes[start..]);
}

/// Writes what `tree` keeps of stored content, in the same form: the metadata's
/// rest, then the object's. Says where the second begins.
pub(super) fn project(content: &Content, tree: &FieldTree, out: &mut Vec<u8>) -> usize {
    let nothing = FieldTree::default();
    let mut stored = Vec::new();
    content.metadata(&mut stored);
    keep_stored(&stored, tree.field("metadata").unwrap_or(&nothing), out);
    let split = out.len();
    stored.clear();
    content.rest(&mut stored);
    keep_stored(&stored, tree, out);
    split
}

fn keep_stored(json: &[u8], tree: &FieldTree, out: &mut Vec<u8>) {
    let start = out.len();
    let mut deserializer = serde_json::Deserializer::from_slice(json);
    if (Keep { tree, out: &mut *out }).deserialize(&mut deserializer).is_err() {
        // Stored content was written by this module; were it ever damaged, an
        // empty object is still JSON.
        out.truncate(start);
        out.extend_from_slice(b"{}");
    }
}

/// Adds the plain values that a path finds: texts as they are, numbers and
/// booleans as JSON writes them.
pub(super) fn values(json: &str, path: &[Part], found: &mut Vec<String>) {
    // An object that cannot be read has no values; see above.
    let _ = Find { path, found }.deserialize(&mut serde_json::Deserializer::from_str(json));
}

struct Find<'a> {
    path: &'a [Part],
    found: &'a mut Vec<String>,
}

impl Find<'_> {
    fn add(self, value: impl ToString) {
        if self.path.is_empty() {
            self.found.push(value.to_string());
        }
    }
}

impl<'de> DeserializeSeed<'de> for Find<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Find<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match self.path {
                [Part::Field(name), rest @ ..] if **name == *key.0 => {
                    map.next_value_seed(Find { path: rest, found: self.found })?;
                }
                _ => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        if let [Part::Each, rest @ ..] = self.path {
            while seq.next_element_seed(Find { path: rest, found: self.found })?.is_some() {}
        } else {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
        }
        Ok(())
    }

    fn visit_bool<E>(self, value: bool) -> Result<(), E> {
        self.add(value);
        Ok(())
    }

    fn visit_i64<E>(self, value: i64) -> Result<(), E> {
        self.add(value);
        Ok(())
    }

    fn visit_u64<E>(self, value: u64) -> Result<(), E> {
        self.add(value);
        Ok(())
    }

    fn visit_f64<E>(self, value: f64) -> Result<(), E> {
        self.add(value);
        Ok(())
    }

    fn visit_str<E>(self, value: &str) -> Result<(), E> {
        self.add(value);
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
