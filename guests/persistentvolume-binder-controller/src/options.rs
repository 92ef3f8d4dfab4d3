//! The controller's options.

use std::time::Duration;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::{Ctx, Declaration, Result};

/// What the operator says.
#[derive(Clone, Debug)]
pub struct Options {
    /// After so long what lasts is told again, and what failed is tried again.
    pub sync_period: Duration,
    /// Whether provisioners are asked for volumes.
    pub dynamic_provisioning: bool,
    /// Whether directories of the node are made into volumes.
    pub host_path_provisioning: bool,
    /// How long a pod may take to scrub a directory.
    pub host_path: Limits,
    /// How long a pod may take to scrub an export.
    pub nfs: Limits,
}

/// How long a pod may take to scrub a volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Seconds at least.
    pub minimum: i64,
    /// Seconds for each GiB.
    pub increment: i64,
}

const SYNC_PERIOD: &str = "pvclaimbinder-sync-period";
const DYNAMIC_PROVISIONING: &str = "enable-dynamic-provisioning";
const HOST_PATH_PROVISIONING: &str = "enable-hostpath-provisioner";
const MINIMUM_NFS: &str = "pv-recycler-minimum-timeout-nfs";
const INCREMENT_NFS: &str = "pv-recycler-increment-timeout-nfs";
const MINIMUM_HOST_PATH: &str = "pv-recycler-minimum-timeout-hostpath";
const INCREMENT_HOST_PATH: &str = "pv-recycler-timeout-increment-hostpath";

/// Declares the options.
pub fn declare(declaration: Declaration) -> Declaration {
    declaration
        .option(
            SYNC_PERIOD,
            OptionKind::Duration,
            "15s",
            "How often what keeps a claim or a volume waiting is reported and tried again.",
        )
        .option(
            DYNAMIC_PROVISIONING,
            OptionKind::Boolean,
            "true",
            "Whether external provisioners are asked for volumes that claims need.",
        )
        .option(
            HOST_PATH_PROVISIONING,
            OptionKind::Boolean,
            "false",
            "Make volumes of directories of the node for classes of kubernetes.io/host-path; for trying things out on one machine.",
        )
        .option(
            MINIMUM_NFS,
            OptionKind::Integer,
            "300",
            "Seconds that a pod has at least for scrubbing an NFS volume.",
        )
        .option(
            INCREMENT_NFS,
            OptionKind::Integer,
            "30",
            "Seconds for each GiB that a pod has for scrubbing an NFS volume.",
        )
        .option(
            MINIMUM_HOST_PATH,
            OptionKind::Integer,
            "60",
            "Seconds that a pod has at least for scrubbing a directory; for trying things out on one machine.",
        )
        .option(
            INCREMENT_HOST_PATH,
            OptionKind::Integer,
            "30",
            "Seconds for each GiB that a pod has for scrubbing a directory; for trying things out on one machine.",
        )
}

impl Options {
    /// The options of a reconcile.
    pub fn of(ctx: &Ctx<'_>) -> Result<Self> {
        // A deadline below one second is none that the API server accepts.
        let limits = |minimum, increment| -> Result<Limits> {
            let minimum = ctx.option_as::<i64>(minimum)?.max(1);
            Ok(Limits { minimum, increment: ctx.option_as::<i64>(increment)?.max(0) })
        };
        Ok(Self {
            // Less than a second would be a hot loop.
            sync_period: ctx.option_duration(SYNC_PERIOD)?.max(Duration::from_secs(1)),
            dynamic_provisioning: ctx.option_as(DYNAMIC_PROVISIONING)?,
            host_path_provisioning: ctx.option_as(HOST_PATH_PROVISIONING)?,
            host_path: limits(MINIMUM_HOST_PATH, INCREMENT_HOST_PATH)?,
            nfs: limits(MINIMUM_NFS, INCREMENT_NFS)?,
        })
    }
}
