//! Namespaces as controllers see them that put something into each.

use crate::meta::ObjectMeta;
use crate::read::FromJson;
use crate::resource::{NAMESPACES, Resource};
use crate::view::View;

/// A namespace.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Namespace {
    /// Metadata.
    pub metadata: ObjectMeta,
    status: NamespaceStatus,
}

#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
struct NamespaceStatus {
    phase: String,
}

impl View for Namespace {
    const RESOURCE: Resource = NAMESPACES;
}

impl Namespace {
    /// Whether it takes new objects, as far as the cache knows.
    pub fn is_active(&self) -> bool {
        self.status.phase == "Active"
    }
}
