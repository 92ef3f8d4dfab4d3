//! The options of the controller.

use std::time::Duration;

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::{Ctx, Declaration, Result};

const MONITOR_PERIOD: &str = "node-monitor-period";
const MONITOR_GRACE: &str = "node-monitor-grace-period";
const STARTUP_GRACE: &str = "node-startup-grace-period";
const EVICTION_RATE: &str = "node-eviction-rate";
const SECONDARY_RATE: &str = "secondary-node-eviction-rate";
const LARGE_CLUSTER: &str = "large-cluster-size-threshold";
const UNHEALTHY_ZONE: &str = "unhealthy-zone-threshold";

/// What the operator says.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How often the health of nodes is looked at.
    pub period: Duration,
    /// After how long without a sign of life a node is not heard of any more.
    pub grace: Duration,
    /// The same of a node that never told about itself.
    pub startup_grace: Duration,
    /// Nodes tainted a second, in a healthy zone.
    pub rate: f64,
    /// The same in a large zone that is partly down.
    pub secondary_rate: f64,
    /// Up to how many nodes a zone is small.
    pub large: i64,
    /// From which share of nodes that are not ready a zone is partly down.
    pub unhealthy: f64,
}

/// Declares the options.
pub fn declare(declared: Declaration) -> Declaration {
    declared
        .option(MONITOR_PERIOD, OptionKind::Duration, "5s", "how often the health of nodes is looked at")
        .option(
            MONITOR_GRACE,
            OptionKind::Duration,
            "50s",
            "after how long without a sign of life a node is taken for dead",
        )
        .option(STARTUP_GRACE, OptionKind::Duration, "1m", "the same of a node that never told about itself")
        .option(
            EVICTION_RATE,
            OptionKind::Decimal,
            "0.1",
            "nodes a second whose pods are evicted, in a healthy zone",
        )
        .option(
            SECONDARY_RATE,
            OptionKind::Decimal,
            "0.01",
            "nodes a second whose pods are evicted, in a large zone that is partly down; none in a small one",
        )
        .option(LARGE_CLUSTER, OptionKind::Integer, "50", "up to how many nodes a zone is small")
        .option(
            UNHEALTHY_ZONE,
            OptionKind::Decimal,
            "0.55",
            "share of nodes not ready (at least three) from which on a zone is partly down",
        )
}

impl Settings {
    /// Shortest period: shorter ones would do nothing but burn processors.
    const SHORTEST: Duration = Duration::from_millis(100);

    /// As the operator has it.
    pub fn of(ctx: &Ctx<'_>) -> Result<Self> {
        Ok(Self {
            period: ctx.option_duration(MONITOR_PERIOD)?.max(Self::SHORTEST),
            grace: ctx.option_duration(MONITOR_GRACE)?,
            startup_grace: ctx.option_duration(STARTUP_GRACE)?,
            rate: ctx.option_decimal(EVICTION_RATE)?,
            secondary_rate: ctx.option_decimal(SECONDARY_RATE)?,
            large: ctx.option_as(LARGE_CLUSTER)?,
            unhealthy: ctx.option_decimal(UNHEALTHY_ZONE)?,
        })
    }
}
