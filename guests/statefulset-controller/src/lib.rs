//! The statefulset controller: keeps pods with names and volumes of their own.
//!
//! One reconcile looks at a StatefulSet, its pods, its revisions and the claims
//! of its pods, and plans the next moves:
//!
//! | file | part |
//! |---|---|
//! | [`reconcile`] | the order of things |
//! | [`revision`] | which revisions are current and wanted |
//! | [`members`] | which pod is which, and which are too many |
//! | [`work`] | what each pod needs, one at a time or all at once |
//! | [`update`] | which pods go because their revision is outdated |
//! | [`pods`], [`claims`] | how pods and their claims are made and put right |
//! | [`ownership`] | who owns a claim, by the retention policy |
//! | [`status`] | counts |
//! | [`measures`] | what is measured |
//!
//! Nothing is kept between reconciles. What is planned is planned on a cache
//! that shows all earlier writes, so two moves that must follow one another may
//! simply be two reconciles.

mod claims;
mod measures;
mod members;
mod ownership;
mod pods;
mod reconcile;
mod revision;
mod status;
#[cfg(test)]
mod tests;
mod update;
mod view;
mod work;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::gates::{self, Stage, is_on};
use coxswain_sdk::resource::{CONTROLLER_REVISIONS, PERSISTENT_VOLUME_CLAIMS, PODS, STATEFUL_SETS};
use coxswain_sdk::revisions::Revision;
use coxswain_sdk::{Controller, Ctx, Declaration, Plan, Result};

pub use view::{Claim, Pod, StatefulSet};

/// Feature gate: whether `maxUnavailable` counts. Beta, and off in Kubernetes
/// 1.36.
pub const MAX_UNAVAILABLE: &str = "MaxUnavailableStatefulSet";

/// Whether several pods may be unavailable.
pub fn several_unavailable(ctx: &Ctx<'_>) -> Result<bool> {
    Ok(is_on(ctx.option(gates::OPTION)?, MAX_UNAVAILABLE, Stage::Beta))
}

/// The controller.
#[derive(Debug)]
pub struct StatefulSetController;

impl Controller for StatefulSetController {
    fn declare() -> Declaration {
        measures::declare(Declaration::new("statefulset-controller"))
            .alias("statefulset")
            .version(env!("CARGO_PKG_VERSION"))
            .concurrency(5, "concurrent-statefulset-syncs")
            .keys_objects("statefulsets", &[STATEFUL_SETS])
            .queue("statefulset")
            .read::<StatefulSet>()
            .read::<Pod>()
            .read::<Claim>()
            .read::<Revision>()
            .write(PODS, "", &["create", "delete", "patch"])
            .write(PERSISTENT_VOLUME_CLAIMS, "", &["create", "patch"])
            .write(CONTROLLER_REVISIONS, "", &["create", "delete", "patch"])
            .write(STATEFUL_SETS, "status", &["patch"])
            // What is made has an owner reference that blocks the owner's deletion.
            .write(STATEFUL_SETS, "finalizers", &["update"])
            .write(PODS, "finalizers", &["update"])
            .lookup_get(STATEFUL_SETS, "")
            .lookup_get(CONTROLLER_REVISIONS, "")
            .option(
                gates::OPTION,
                OptionKind::TextList,
                "MaxUnavailableStatefulSet=false",
                "Features to switch on or off.",
            )
    }

    fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
        reconcile::reconcile(ctx)
    }
}

coxswain_sdk::export!(StatefulSetController);
