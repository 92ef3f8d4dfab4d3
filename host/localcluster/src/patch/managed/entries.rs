//! `metadata.managedFields`: who owns which fields.

use serde_json::{Map, Value, json};

use super::set::FieldSet;

/// Who wrote, and how.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Manager {
    /// Name.
    pub name: String,
    /// `Apply` or `Update`.
    pub operation: String,
    /// Version the fields are written in.
    pub api_version: String,
    /// Subresource; empty for the object itself.
    pub subresource: String,
}

impl Manager {
    /// As conflicts name it.
    pub fn show(&self) -> String {
        let mut out = format!("{:?}", self.name);
        if !self.subresource.is_empty() {
            out.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == "Update" {
            out.push_str(&format!(" using {}", self.api_version));
        }
        out
    }
}

/// The fields of one manager.
#[derive(Clone, Debug)]
pub struct Owned {
    /// Whose.
    pub manager: Manager,
    /// Which.
    pub fields: FieldSet,
    /// Since when; null if unknown.
    pub time: Value,
}

/// All managers of an object.
#[derive(Clone, Debug, Default)]
pub struct Managers {
    /// In no particular order.
    pub all: Vec<Owned>,
}

impl Managers {
    /// From the list in the metadata; none if it is malformed.
    pub fn decode(list: &Value) -> Option<Self> {
        let mut out = Self::default();
        for entry in list.as_array().map_or(&[][..], Vec::as_slice) {
            let text = |key: &str| entry[key].as_str().unwrap_or("").to_owned();
            let manager = Manager {
                name: text("manager"),
                operation: text("operation"),
                api_version: text("apiVersion"),
                subresource: text("subresource"),
            };
            let known = matches!(manager.operation.as_str(), "Apply" | "Update");
            if !known || manager.api_version.is_empty() || entry["fieldsType"] != "FieldsV1" {
                return None;
            }
            let fields = match &entry["fieldsV1"] {
                Value::Null => FieldSet::default(),
                fields => FieldSet::decode(fields)?,
            };
            out.all.push(Owned { manager, fields, time: entry["time"].clone() });
        }
        Some(out)
    }

    /// The list for the metadata: applies first, then by time and name.
    pub fn encode(&self) -> Vec<Value> {
        let mut all: Vec<&Owned> = self.all.iter().filter(|o| !o.fields.is_empty()).collect();
        all.sort_by(|a, b| {
            let key = |o: &Owned| {
                (
                    o.manager.operation.clone(),
                    o.time.as_str().unwrap_or("").to_owned(),
                    o.manager.name.clone(),
                    o.manager.api_version.clone(),
                    o.manager.subresource.clone(),
                )
            };
            // A missing time sorts before all others.
            key(a).cmp(&key(b))
        });
        all.into_iter()
            .map(|owned| {
                let mut out = Map::new();
                out.insert("manager".into(), owned.manager.name.clone().into());
                out.insert("operation".into(), owned.manager.operation.clone().into());
                out.insert("apiVersion".into(), owned.manager.api_version.clone().into());
                if !owned.time.is_null() {
                    out.insert("time".into(), owned.time.clone());
                }
                out.insert("fieldsType".into(), json!("FieldsV1"));
                out.insert("fieldsV1".into(), owned.fields.encode());
                if !owned.manager.subresource.is_empty() {
                    out.insert("subresource".into(), owned.manager.subresource.clone().into());
                }
                Value::Object(out)
            })
            .collect()
    }

    /// The entry of a manager.
    pub fn find(&mut self, manager: &Manager) -> Option<&mut Owned> {
        self.all.iter_mut().find(|o| o.manager == *manager)
    }

    /// Whether anybody owns anything.
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
