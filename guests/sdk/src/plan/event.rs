//! Events: what users are told of a plan.

use super::served;
use crate::contract::{self, EventKind, EventTarget};
use crate::ctx::Ctx;
use crate::error::Result;
use crate::meta::ObjectMeta;
use crate::resource::ResourceId;
use crate::view::View;

/// An event to record.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    about: About,
    kind: EventKind,
    reason: String,
    message: String,
}

/// What events are about.
#[derive(Clone, Debug, PartialEq)]
pub struct About {
    resource: ResourceId,
    namespace: String,
    name: String,
    uid: String,
}

impl About {
    /// An object.
    pub fn new<A>(resource: impl Into<ResourceId>, meta: &ObjectMeta<A>) -> Self {
        Self {
            resource: resource.into(),
            namespace: meta.namespace.clone(),
            name: meta.name.clone(),
            uid: meta.uid.clone(),
        }
    }

    /// An object of a view's resource.
    pub fn of<V: View, A>(meta: &ObjectMeta<A>) -> Self {
        Self::new(V::RESOURCE, meta)
    }

    /// A Normal event about it.
    pub fn normal(&self, reason: &str, message: impl Into<String>) -> Event {
        Event {
            about: self.clone(),
            kind: EventKind::Normal,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }

    /// A Warning event about it.
    pub fn warning(&self, reason: &str, message: impl Into<String>) -> Event {
        Event {
            about: self.clone(),
            kind: EventKind::Warning,
            reason: reason.to_owned(),
            message: message.into(),
        }
    }
}

impl Event {
    pub(super) fn into_wire(self, ctx: &Ctx<'_>) -> Result<contract::Event> {
        Ok(contract::Event {
            about: EventTarget {
                resource: served(ctx, self.about.resource)?,
                namespace: self.about.namespace,
                name: self.about.name,
                uid: self.about.uid,
            },
            kind: self.kind,
            reason: self.reason,
            message: self.message,
        })
    }
}
