//! The controller's options.

use std::time::Duration;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::{Ctx, Declaration, Result};

const NO_FORCE: &str = "disable-force-detach-on-timeout";
const NO_SYNC: &str = "disable-attach-detach-reconcile-sync";
const SYNC_PERIOD: &str = "attach-detach-reconcile-sync-period";

/// What the operator says.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Whether volumes in use are left to nodes that do not answer.
    pub no_force: bool,
    /// Whether what a node lists is checked against the attachments.
    pub verify: bool,
}

/// Declares the options.
pub fn declare(declaration: Declaration) -> Declaration {
    declaration
        .option(
            NO_FORCE,
            OptionKind::Boolean,
            "false",
            "Never detach a volume that a node has in use, however long it has not answered; only the taint \
             node.kubernetes.io/out-of-service then does.",
        )
        .option(
            NO_SYNC,
            OptionKind::Boolean,
            "false",
            "Do not check that what a node lists as attached still is.",
        )
        .option(
            SYNC_PERIOD,
            OptionKind::Duration,
            "1m",
            "Kept for compatibility: what a node lists is checked whenever an attachment changes. Less than a \
             second turns the check off.",
        )
}

impl Options {
    /// The options of a reconcile.
    pub fn of(ctx: &Ctx<'_>) -> Result<Self> {
        let period = ctx.option_duration(SYNC_PERIOD)?;
        Ok(Self {
            no_force: ctx.option_as(NO_FORCE)?,
            verify: !ctx.option_as::<bool>(NO_SYNC)? && period >= Duration::from_secs(1),
        })
    }
}
