//! The API without HTTP, for what runs in the same process: simulated nodes, the namespace and CRD loops, tests.
//!
//! In: objects as JSON. Out: the same. Invariant: every call goes through the same code as one from the network.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::answer::{Answer, Outcome};
use super::options::{DeleteOptions, ListOptions, WriteOptions};
use super::render::set_version;
use super::strategy::{Kind, User};
use super::update::Change as Update;
use super::watch::{Item, Watcher};
use super::{Call, Object, Rest, add_type_meta};
use crate::patch::PatchType;
use crate::schema::{self, Body};
use crate::status::Status;
use crate::storage::Change;

/// A handle on the API, as an administrator under a name.
#[derive(Clone)]
pub struct InProcess {
    rest: Arc<Rest>,
    manager: String,
    user: User,
}

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
pub enum WatchEvent {
    /// New or newly selected.
    Added(Value),
    /// Changed.
    Modified(Value),
    /// Gone or no longer selected.
    Deleted(Value),
    /// Nothing happened up to this version; the flag says that the initial events are complete.
    Bookmark(String, bool),
    /// The end: list again.
    Error(Status),
}

/// A running watch.
pub struct Watching {
    watcher: Watcher,
    ready: VecDeque<Item>,
}

impl Watching {
    /// The next event; none at the end.
    pub async fn next(&mut self) -> Option<WatchEvent> {
        while self.ready.is_empty() {
            self.ready.extend(self.watcher.next().await?);
        }
        let kind = self.watcher.kind().clone();
        Some(match self.ready.pop_front()? {
            Item::Event { change, object, rv } => {
                let mut value = Object::Stored(object).whole(&kind);
                if let Some(rv) = rv {
                    set_version(&mut value, rv);
                }
                match change {
                    Change::Added => WatchEvent::Added(value),
                    Change::Modified => WatchEvent::Modified(value),
                    Change::Deleted => WatchEvent::Deleted(value),
                }
            }
            Item::Bookmark { rv, initial_end } => WatchEvent::Bookmark(rv.to_string(), initial_end),
            Item::Error(status) => WatchEvent::Error(status),
        })
    }
}

impl InProcess {
    /// `manager` is the field manager of its writes.
    pub fn new(rest: Arc<Rest>, manager: &str) -> Self {
        let user = User {
            name: format!("system:{manager}"),
            uid: String::new(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..User::default()
        };
        Self { rest, manager: manager.into(), user }
    }

    /// The REST layer behind it.
    pub fn rest(&self) -> &Arc<Rest> {
        &self.rest
    }

    /// A resource by `v1` or `apps/v1` and plural name.
    pub fn kind(&self, api_version: &str, plural: &str) -> Result<Arc<Kind>, Status> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kinds = self.rest.registry.kinds();
        kinds.find(group, version, plural).cloned().ok_or_else(Status::no_such_resource)
    }

    fn call(&self, target: &Target<'_>) -> Result<Call, Status> {
        Ok(Call {
            kind: self.kind(target.api_version, target.plural)?,
            namespace: target.namespace.into(),
            name: target.name.into(),
            sub: target.sub.into(),
            user: self.user.clone(),
            write: WriteOptions { manager: self.manager.clone(), ..WriteOptions::default() },
        })
    }

    /// Creates an object.
    pub fn create(&self, target: &Target<'_>, object: &Value) -> Result<Value, Status> {
        let call = self.call(target)?;
        let text = object.to_string();
        let decoded = schema::decode(&call.kind, &Body::from_json(text.as_bytes()), call.write.validation)?;
        value_of(self.rest.create(&call, decoded.object, decoded.warnings)?)
    }

    /// Reads an object.
    pub fn get(&self, target: &Target<'_>) -> Result<Value, Status> {
        let call = self.call(target)?;
        let stored = self.rest.table(&call.kind).get(&call.key());
        let stored = stored.ok_or_else(|| call.kind.not_found(&call.name))?;
        Ok(Object::Stored(stored).whole(&call.kind))
    }

    /// Lists objects: items with kind and apiVersion, and the version to watch from.
    pub async fn list(
        &self,
        target: &Target<'_>,
        label_selector: &str,
        field_selector: &str,
    ) -> Result<(Vec<Value>, String), Status> {
        let call = self.call(target)?;
        let options = ListOptions {
            label_selector: label_selector.into(),
            field_selector: field_selector.into(),
            ..ListOptions::default()
        };
        match self.rest.list(&call, &options).await?.outcome {
            Outcome::List(list) => {
                let items = list.items.iter().map(|item| item.whole(&call.kind)).collect();
                Ok((items, list.rv.to_string()))
            }
            _ => Err(Status::internal("a list did not answer with a list")),
        }
    }

    /// Replaces an object, or the part of it that `sub` names.
    pub fn update(&self, target: &Target<'_>, object: &Value) -> Result<Value, Status> {
        let call = self.call(target)?;
        let text = object.to_string();
        let decoded = schema::decode(&call.kind, &Body::from_json(text.as_bytes()), call.write.validation)?;
        value_of(self.rest.update(&call, &Update::Put(decoded.object), decoded.warnings)?)
    }

    /// Patches an object, or the part of it that `sub` names.
    pub fn patch(&self, target: &Target<'_>, patch_type: PatchType, patch: &Value) -> Result<Value, Status> {
        let call = self.call(target)?;
        let text = patch.to_string();
        value_of(self.rest.update(&call, &Update::Patch(patch_type, text.as_bytes()), Vec::new())?)
    }

    /// Deletes an object; the answer is the object or a Status.
    pub fn delete(&self, target: &Target<'_>, options: &DeleteOptions) -> Result<Value, Status> {
        value_of(self.rest.delete(&self.call(target)?, options)?)
    }

    /// Watches objects.
    pub fn watch(&self, target: &Target<'_>, options: &ListOptions) -> Result<Watching, Status> {
        let watcher = self.rest.watch(&self.call(target)?, options)?;
        Ok(Watching { watcher, ready: VecDeque::new() })
    }

    /// Binds a pod to a node.
    pub fn bind(&self, namespace: &str, pod: &str, node: &str) -> Result<(), Status> {
        let target = Target::new("v1", "pods").in_namespace(namespace).named(pod).sub("binding");
        let binding = json!({"target": {"kind": "Node", "name": node}});
        self.rest.bind(&self.call(&target)?, &binding).map(drop)
    }
}

/// Runs `follow`, which ends when its watch does, again and again until cancelled: it looks from the start each time.
pub(crate) async fn keep_following<F: Future<Output = ()>>(
    cancel: CancellationToken,
    mut follow: impl FnMut() -> F,
) {
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            () = follow() => {}
        }
        tokio::select! {
            () = cancel.cancelled() => return,
            () = tokio::time::sleep(Duration::from_millis(50)) => {}
        }
    }
}

/// What an in-process call is about.
#[derive(Clone, Copy, Debug, Default)]
pub struct Target<'a> {
    /// `v1` or `apps/v1`.
    pub api_version: &'a str,
    /// Plural name.
    pub plural: &'a str,
    /// Empty for cluster scope or all namespaces.
    pub namespace: &'a str,
    /// Empty for a collection.
    pub name: &'a str,
    /// Subresource that is a view of the object: `status`, `finalize`…; empty for the object.
    pub sub: &'a str,
}

impl<'a> Target<'a> {
    /// All objects of a resource.
    pub const fn new(api_version: &'a str, plural: &'a str) -> Self {
        Self { api_version, plural, namespace: "", name: "", sub: "" }
    }

    /// Within a namespace.
    pub fn in_namespace(self, namespace: &'a str) -> Self {
        Self { namespace, ..self }
    }

    /// One object.
    pub fn named(self, name: &'a str) -> Self {
        Self { name, ..self }
    }

    /// Through a subresource.
    pub fn sub(self, sub: &'a str) -> Self {
        Self { sub, ..self }
    }
}

fn value_of(answer: Answer) -> Result<Value, Status> {
    match answer.outcome {
        Outcome::Object(object) => {
            let mut value = object.value(&answer.kind);
            add_type_meta(&answer.kind, &mut value);
            Ok(value)
        }
        Outcome::Other(value) => Ok(value),
        Outcome::Text(text) => Ok(text.into()),
        Outcome::Empty | Outcome::List(_) | Outcome::Watch(_) => Ok(Value::Null),
    }
}
