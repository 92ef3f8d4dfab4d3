//! The garbage collector: deletes what has lost all its owners, and carries out
//! foreground and orphan deletion.
//!
//! In: metadata of every resource. Out: deletions, and patches of owner
//! references and finalizers. It keeps no graph: the host's owner and uid
//! indexes, and the subscriptions to them, are the graph. An owner that the
//! cache does not show counts as gone only after the API server said so.
//!
//! Rules: <https://kubernetes.io/docs/concepts/architecture/garbage-collection/>.

mod dependents;
mod kinds;
mod owners;
mod reconcile;
#[cfg(test)]
mod tests;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::resource::EVERY;
use coxswain_sdk::{Controller, Ctx, Declaration, FromJson, ObjectMeta, Plan, Resource, Result, View};

/// What is read of every object.
#[derive(Debug, FromJson)]
#[serde(rename_all = "camelCase")]
pub struct Node {
    /// API version.
    #[serde(default)]
    pub api_version: String,
    /// Kind.
    #[serde(default)]
    pub kind: String,
    /// Metadata.
    pub metadata: ObjectMeta,
}

impl View for Node {
    const RESOURCE: Resource = EVERY;
}

/// Finalizer of an object whose dependents go first.
pub const FOREGROUND: &str = "foregroundDeletion";
/// Finalizer of an object whose dependents stay.
pub const ORPHAN: &str = "orphan";

impl Node {
    fn has_finalizer(&self, finalizer: &str) -> bool {
        self.metadata.finalizers.iter().any(|f| f == finalizer)
    }

    /// Whether it waits for its dependents to go.
    fn waits_for_dependents(&self) -> bool {
        self.metadata.is_deleting() && self.has_finalizer(FOREGROUND)
    }
}

/// The controller.
#[derive(Debug)]
pub struct GarbageCollector;

impl Controller for GarbageCollector {
    fn declare() -> Declaration {
        Declaration::new("garbage-collector-controller")
            .alias("garbagecollector")
            .version(env!("CARGO_PKG_VERSION"))
            .service_account("generic-garbage-collector")
            .concurrency(20, "concurrent-gc-syncs")
            .client_limits(2, 1)
            .keys_indexed("objects", &[EVERY], &["owner", "deleting"])
            .queue("garbage_collector_attempt_to_delete")
            .read::<Node>()
            .write(EVERY, "", &["delete", "patch"])
            .lookup_get(EVERY, "")
            .option("enable-garbage-collector", OptionKind::Boolean, "true", "collect garbage")
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(GarbageCollector);
