//! Versions of a custom resource between which a webhook converts.
//!
//! In: objects of one version. Out: the same in another, as the webhook answers, or why not in the words of the real
//! server. Invariant: whoever cannot be converted is never shown as if it were; what a request needs is converted in one
//! call before it is carried out, and remembered by content.

use std::collections::HashMap;
use std::sync::{OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::kinds::value::{flag, items, text};
use crate::rest::strategy::{Kind, Lookup};
use crate::rest::{Call, Rest};
use crate::status::Status;
use crate::storage::Range;
use crate::webhook::Webhook;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Conversions that are remembered; all are forgotten beyond.
const REMEMBERED: usize = 1 << 16;

type Key = [u8; 32];

/// The webhook that converts between a version and the stored one.
pub struct ConversionWebhook {
    webhook: Webhook,
    /// This version and that of the stored objects, with the group.
    own: String,
    stored: String,
    kind: String,
    done: Mutex<HashMap<Key, Value>>,
    /// Where services are looked up for those that convert while they write an answer.
    rest: OnceLock<Weak<Rest>>,
}

/// Which way to convert.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the stored version.
    FromStored,
    /// To the stored version.
    ToStored,
}

impl ConversionWebhook {
    /// None for the stored version, and where versions differ in name only.
    pub(super) fn of(crd: &Value, version: &Value) -> Option<Self> {
        let spec = &crd["spec"];
        if text(&spec["conversion"], "strategy") != "Webhook" || flag(version, "storage") {
            return None;
        }
        let storage = items(spec, "versions").iter().find(|v| flag(v, "storage"));
        let named = |version: Option<&Value>| {
            format!("{}/{}", text(spec, "group"), version.map_or("", |v| text(v, "name")))
        };
        Some(Self {
            webhook: Webhook::of(&spec["conversion"]["webhook"]["clientConfig"]),
            own: named(Some(version)),
            stored: named(storage),
            kind: text(&spec["names"], "kind").to_owned(),
            done: Mutex::default(),
            rest: OnceLock::new(),
        })
    }

    fn key(object: &Value, direction: Direction) -> Key {
        let mut hash = Sha256::new();
        hash.update([u8::from(direction == Direction::ToStored)]);
        hash.update(object.to_string());
        hash.finalize().into()
    }

    /// An object in the other version; none if it cannot be converted.
    pub(super) fn converted(&self, object: &Value, direction: Direction) -> Option<Value> {
        if let Some(done) = self.done.lock().get(&Self::key(object, direction)) {
            return Some(done.clone());
        }
        let rest = self.rest.get()?.upgrade()?;
        if let Err(error) = self.convert(&*rest, std::slice::from_ref(object), direction) {
            tracing::warn!(%error, "an object is left in the version in which it is stored");
        }
        self.done.lock().get(&Self::key(object, direction)).cloned()
    }

    /// Converts objects that have no kind and apiVersion, and remembers what they become.
    pub(crate) fn convert(
        &self,
        lookup: &dyn Lookup,
        objects: &[Value],
        direction: Direction,
    ) -> Result<(), Status> {
        let (from, to) = match direction {
            Direction::FromStored => (&self.stored, &self.own),
            Direction::ToStored => (&self.own, &self.stored),
        };
        let left: Vec<(Key, &Value)> = {
            let done = self.done.lock();
            let keyed = objects.iter().map(|object| (Self::key(object, direction), object));
            keyed.filter(|(key, _)| !done.contains_key(key)).collect()
        };
        if left.is_empty() {
            return Ok(());
        }
        let sent = left.iter().map(|(_, object)| {
            let mut whole = (*object).clone();
            whole["apiVersion"] = from.clone().into();
            whole["kind"] = self.kind.clone().into();
            whole
        });
        let uid = format!("{:x}", u128::from_be_bytes(left[0].0[..16].try_into().unwrap_or_default()));
        let review = json!({
            "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
            "request": {"uid": uid, "desiredAPIVersion": to, "objects": sent.collect::<Vec<_>>()},
        });
        let failed = |why: String| {
            Status::server_error(format!("conversion webhook for {from}, Kind={} failed: {why}", self.kind))
        };
        let answer = self.webhook.call(lookup, &review, TIMEOUT).map_err(failed)?;
        let response = &answer["response"];
        if text(response, "uid") != uid {
            return Err(failed(format!("expected response.uid={uid:?}, got {:?}", text(response, "uid"))));
        }
        let result = &response["result"];
        if text(result, "status") != "Success" {
            return Err(failed(text(result, "message").to_owned()));
        }
        let made = items(response, "convertedObjects");
        if made.len() != left.len() {
            let why = format!("expected {} converted objects, got {}", left.len(), made.len());
            return Err(Status::server_error(format!(
                "conversion webhook for {from}, Kind={} returned {why}",
                self.kind
            )));
        }
        let mut converted = Vec::with_capacity(left.len());
        for (i, ((key, old), new)) in left.into_iter().zip(made).enumerate() {
            let wrong = |why: String| {
                Status::server_error(format!(
                    "conversion webhook for {from}, Kind={} returned invalid converted object at index {i}: {why}",
                    self.kind
                ))
            };
            if text(new, "apiVersion") != *to {
                return Err(wrong(format!(
                    "invalid groupVersion (expected {to}, received {})",
                    text(new, "apiVersion")
                )));
            }
            converted.push((key, taken(old, new)));
        }
        let mut done = self.done.lock();
        if done.len() + converted.len() > REMEMBERED {
            done.clear();
        }
        done.extend(converted);
        Ok(())
    }
}

/// A converted object without kind and apiVersion. Of the metadata a webhook may change labels and annotations only.
fn taken(old: &Value, new: &Value) -> Value {
    let mut object = new.clone();
    crate::rest::drop_type_meta(&mut object);
    let mut metadata = old["metadata"].clone();
    for key in ["labels", "annotations"] {
        match (&new["metadata"][key], metadata.as_object_mut()) {
            (Value::Null, Some(metadata)) => drop(metadata.remove(key)),
            (given, Some(metadata)) => drop(metadata.insert(key.into(), given.clone())),
            (_, None) => {}
        }
    }
    object["metadata"] = metadata;
    object
}

impl Rest {
    /// Converts what a request will read; reads of what is not there need nothing.
    pub(crate) fn check_conversion(
        self: &std::sync::Arc<Self>,
        call: &Call,
        creates: bool,
    ) -> Result<(), Status> {
        let Some(webhook) = call.kind.strategy.conversion_webhook() else { return Ok(()) };
        webhook.rest.get_or_init(|| std::sync::Arc::downgrade(self));
        let table = self.table(&call.kind);
        if !call.name.is_empty() {
            return match table.get(&call.key()) {
                Some(stored) => webhook.convert(&**self, &[stored.value()], Direction::FromStored),
                None => Ok(()),
            };
        }
        if creates {
            return Ok(());
        }
        let prefix = if call.namespace.is_empty() { String::new() } else { format!("{}/", call.namespace) };
        let range = Range { prefix: &prefix, ..Default::default() };
        let Ok(listing) = table.list(&range, &|_, _| true) else { return Ok(()) };
        let all: Vec<Value> = listing.items.iter().map(|(_, stored)| stored.value()).collect();
        webhook.convert(&**self, &all, Direction::FromStored)
    }

    /// Converts an object that is about to be stored.
    pub(crate) fn check_storable(&self, kind: &Kind, object: &Value) -> Result<(), Status> {
        match kind.strategy.conversion_webhook() {
            Some(webhook) => webhook.convert(self, std::slice::from_ref(object), Direction::ToStored),
            None => Ok(()),
        }
    }
}
