//! The published types of the built-in kinds: which fields exist, and how each is encoded and merged.
//!
//! In: `data/schema.json.gz` (see `data/README.md`). Out: an arena of structures, read once. Invariant: every
//! `StructId` handed out points into the arena.

use std::collections::HashMap;
use std::io::Read;
use std::sync::LazyLock;

use flate2::read::GzDecoder;
use serde_json::Value;

/// Index of a structure in the arena.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StructId(u32);

/// The type of a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// Text.
    String,
    /// True or false.
    Bool,
    /// 32 bit integer.
    I32,
    /// 64 bit integer.
    I64,
    /// Floating point.
    F64,
    /// Base64 text.
    Bytes,
    /// RFC 3339 in whole seconds.
    Time,
    /// RFC 3339 with microseconds.
    MicroTime,
    /// Text of a Go duration.
    Duration,
    /// Amount with a suffix.
    Quantity,
    /// Number or text.
    IntOrString,
    /// Anything at all, kept as it is.
    Any,
    /// List of one type.
    List(Box<Type>),
    /// Map from text to one type.
    Map(Box<Type>),
    /// Structure.
    Struct(StructId),
}

/// How a list is merged by server-side apply.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum ListKind {
    /// Replaced as a whole.
    #[default]
    Atomic,
    /// Each value is an item of its own.
    Set,
    /// Items are told apart by these keys.
    Map(Vec<String>),
}

/// One JSON field of a structure; fields of embedded structures are among those of the structure.
#[derive(Clone, Debug)]
pub struct Field {
    /// JSON name.
    pub name: String,
    /// Its type.
    pub ty: Type,
    /// Left out when empty.
    pub omit_empty: bool,
    /// Left out when zero, which also concerns structures.
    pub omit_zero: bool,
    /// Absent and empty are different.
    pub pointer: bool,
    /// Strategic merge: `merge` and/or `retainKeys`.
    pub merge: bool,
    /// Strategic merge takes a structure as a whole: `replace`.
    pub replace: bool,
    /// Strategic merge clears what the patch does not name.
    pub retain_keys: bool,
    /// Strategic merge: which key tells items apart.
    pub merge_key: Option<String>,
    /// Server-side apply: how a list is merged.
    pub list: ListKind,
    /// Server-side apply: a map or structure that has one owner.
    pub atomic: bool,
    /// Server-side apply: a structure of which each field has its owner here, whatever its type says.
    pub granular: bool,
    /// Name of the Go type in decoding errors.
    pub go: Option<String>,
    /// Name of the Go type of the items of a list or map in decoding errors.
    pub go_item: Option<String>,
    /// What decoding errors call the field: after the embedded structures it comes from.
    pub go_path: String,
    /// Its value where it is left out, by the OpenAPI document.
    pub default: Option<Value>,
    /// Field number in protobuf.
    pub number: u32,
    /// Its feature is off.
    pub closed: bool,
}

/// Fields of features that a server with default settings does not have: they are dropped before anything is stored.
const CLOSED: [(&str, &str); 8] = [
    ("PodSpec", "schedulingGroup"),
    ("VolumeProjection", "clusterTrustBundle"),
    ("VolumeProjection", "podCertificate"),
    ("NodeSpec", "configSource"),
    ("NodeStatus", "config"),
    ("CSIDriverSpec", "preventPodSchedulingIfMissing"),
    ("LeaseSpec", "strategy"),
    ("LeaseSpec", "preferredHolder"),
];

/// A structure embedded in protobuf as a message of its own though its JSON fields are inlined.
#[derive(Clone, Debug)]
pub struct Embedded {
    /// Field number in protobuf.
    pub number: u32,
    /// The structure.
    pub id: StructId,
}

/// A structure.
#[derive(Clone, Debug, Default)]
pub struct Struct {
    /// Name in the OpenAPI document, as `io.k8s.api.core.v1.Pod`.
    pub name: String,
    /// Fields in the order of the Go type.
    pub fields: Vec<Field>,
    /// Field numbers by JSON name.
    by_name: HashMap<String, usize>,
    /// Server-side apply treats it as one value.
    pub atomic: bool,
    /// Messages of protobuf that JSON inlines.
    pub embedded: Vec<Embedded>,
    /// Fields that clients must send, for the OpenAPI document.
    pub required: Vec<String>,
}

impl Struct {
    /// The field of that JSON name.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.by_name.get(name).map(|i| &self.fields[*i])
    }

    /// `v1.Pod`: package and type as Go prints them.
    pub fn go_name(&self) -> String {
        let mut parts = self.name.rsplitn(3, '.');
        let (ty, package) = (parts.next().unwrap_or(""), parts.next().unwrap_or(""));
        format!("{package}.{ty}")
    }

    /// `Pod`.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('.').next().unwrap_or("")
    }
}

/// All structures.
#[derive(Debug, Default)]
pub struct Schema {
    structs: Vec<Struct>,
    kinds: HashMap<String, StructId>,
    names: HashMap<String, StructId>,
}

static SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let data = unpack(include_bytes!("../../data/schema.json.gz"));
    Schema::load(&data)
});

/// Unpacks one of the data files, which are part of the program: a damaged one yields `null`.
pub(crate) fn unpack(packed: &[u8]) -> Value {
    let mut text = Vec::new();
    match GzDecoder::new(packed).read_to_end(&mut text) {
        Ok(_) => serde_json::from_slice(&text).unwrap_or_default(),
        Err(_) => Value::Null,
    }
}

/// The schema of the built-in kinds.
pub fn schema() -> &'static Schema {
    &SCHEMA
}

impl Schema {
    /// The structure of a kind; `api_version` as in objects.
    pub fn kind(&self, api_version: &str, kind: &str) -> Option<StructId> {
        self.kinds.get(&format!("{api_version}/{kind}")).copied()
    }

    /// A structure by its OpenAPI name.
    pub fn named(&self, name: &str) -> Option<StructId> {
        self.names.get(name).copied()
    }

    /// The structure behind an id.
    pub fn get(&self, id: StructId) -> &Struct {
        &self.structs[id.0 as usize]
    }

    /// All kinds, as `apps/v1/Deployment`.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, StructId)> {
        self.kinds.iter().map(|(name, id)| (name.as_str(), *id))
    }

    fn load(data: &Value) -> Self {
        let mut out = Self::default();
        let Some(types) = data["types"].as_object() else { return out };
        for (i, name) in types.keys().enumerate() {
            out.names.insert(name.clone(), StructId(i as u32));
        }
        for (name, ty) in types {
            let mut it = Struct {
                name: name.clone(),
                atomic: ty["map"] == "atomic",
                required: strings(&ty["required"]),
                ..Struct::default()
            };
            out.collect(types, ty, &mut it, true, "");
            it.by_name = it.fields.iter().enumerate().map(|(i, f)| (f.name.clone(), i)).collect();
            out.structs.push(it);
        }
        if let Some(kinds) = data["kinds"].as_object() {
            for (name, ty) in kinds {
                if let Some(id) = ty.as_str().and_then(|t| out.named(t)) {
                    out.kinds.insert(name.clone(), id);
                }
            }
        }
        out
    }

    fn collect(
        &self,
        types: &serde_json::Map<String, Value>,
        ty: &Value,
        into: &mut Struct,
        outermost: bool,
        within: &str,
    ) {
        for entry in ty["fields"].as_array().into_iter().flatten() {
            let (name, type_name) = (text(&entry[0]), text(&entry[1]));
            let flags = text(&entry[2]);
            let number = entry[3].as_u64().unwrap_or(0) as u32;
            if name.is_empty() {
                let Some(inner) = types.get(type_name) else { continue };
                if let (true, true, Some(id)) = (outermost, number > 0, self.named(type_name)) {
                    into.embedded.push(Embedded { number, id });
                }
                let embedded = type_name.rsplit('.').next().unwrap_or("");
                self.collect(types, inner, into, false, &format!("{within}{embedded}."));
                continue;
            }
            let extra = &entry[4];
            let strategy = text(&extra["strategy"]);
            let list = match text(&extra["list"]) {
                "set" => ListKind::Set,
                "map" => ListKind::Map(strings(&extra["keys"])),
                _ => ListKind::Atomic,
            };
            into.fields.push(Field {
                name: name.to_owned(),
                ty: self.parse(type_name),
                omit_empty: flags.contains('o'),
                omit_zero: flags.contains('z'),
                pointer: flags.contains('p'),
                merge: strategy.split(',').any(|s| s == "merge"),
                replace: strategy.split(',').any(|s| s == "replace"),
                retain_keys: strategy.split(',').any(|s| s == "retainKeys"),
                merge_key: extra["key"].as_str().map(str::to_owned),
                list,
                atomic: extra["map"] == "atomic",
                granular: extra["map"] == "granular",
                go: extra["go"].as_str().map(str::to_owned),
                go_item: extra["item"].as_str().map(str::to_owned),
                go_path: format!("{within}{name}"),
                default: extra.get("default").cloned(),
                closed: CLOSED.contains(&(into.name.rsplit('.').next().unwrap_or(""), name)),
                // Numbers inside an embedded message are not numbers of this one.
                number: if outermost { number } else { 0 },
            });
        }
    }

    fn parse(&self, name: &str) -> Type {
        if let Some(item) = name.strip_prefix("[]") {
            return Type::List(Box::new(self.parse(item)));
        }
        if let Some(item) = name.strip_prefix("{}") {
            return Type::Map(Box::new(self.parse(item)));
        }
        match name {
            "string" => Type::String,
            "bool" => Type::Bool,
            "i32" => Type::I32,
            "i64" => Type::I64,
            "f64" => Type::F64,
            "bytes" => Type::Bytes,
            "time" => Type::Time,
            "microtime" => Type::MicroTime,
            "duration" => Type::Duration,
            "quantity" => Type::Quantity,
            "intorstring" => Type::IntOrString,
            _ => self.named(name).map_or(Type::Any, Type::Struct),
        }
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("")
}

fn strings(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(|v| text(v).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_type_is_known() {
        let s = schema();
        assert!(s.structs.len() > 500);
        let pod = s.get(s.kind("v1", "Pod").expect("pods exist"));
        assert_eq!(pod.go_name(), "v1.Pod");
        let Some(Type::Struct(spec)) = pod.field("spec").map(|f| f.ty.clone()) else {
            panic!("spec is a structure")
        };
        let containers = s.get(spec).field("containers").expect("containers");
        assert_eq!(containers.list, ListKind::Map(vec!["name".into()]));
        assert_eq!(containers.merge_key.as_deref(), Some("name"));
        assert!(pod.field("kind").is_some(), "embedded fields are inlined");
    }
}
