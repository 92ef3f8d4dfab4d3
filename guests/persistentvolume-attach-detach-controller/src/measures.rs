//! What is measured of volumes, under the names that kube-controller-manager has.
//!
//! Each node tells its part: what its pods want of it and what is attached to it.
//! Volumes of what was built in once, named by a pod itself, are not attached and
//! not told of.

use coxswain_sdk::contract::{Measure, Occasion};
use coxswain_sdk::{Declaration, Plan};
use litemap::LiteMap;

use crate::attachable::Attachable;

const IN_USE: &str = "storage_count_attachable_volumes_in_use";
const VOLUMES: &str = "attachdetach_controller_total_volumes";
// Named twice, as it is there.
const FORCED: &str = "attach_detach_controller_attachdetach_controller_forced_detaches";

/// Volumes of each plugin.
pub type ByPlugin = LiteMap<String, u32>;

/// Why a volume is detached that may be in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Force {
    /// The kubelet was waited for long enough.
    Timeout,
    /// Somebody has vouched for the node being shut down.
    OutOfService,
}

impl Force {
    fn reason(self) -> &'static str {
        match self {
            Self::Timeout => "timeout",
            Self::OutOfService => "out-of-service",
        }
    }

    /// Tag of the write.
    pub fn tag(self) -> String {
        format!("detach {}", self.reason())
    }
}

/// Declares the metrics.
pub fn declare(declaration: Declaration) -> Declaration {
    declaration
        .gauge(IN_USE, &["node", "volume_plugin"], "[ALPHA] Measure number of volumes in use")
        .gauge(VOLUMES, &["plugin_name", "state"], "[ALPHA] Number of volumes in A/D Controller")
        .counter(FORCED, &["reason"], "[ALPHA] Number of times the A/D Controller performed a forced detach")
}

/// Counts one more.
pub fn add(volumes: &mut ByPlugin, plugin: &str) {
    let count = volumes.get(plugin).copied().unwrap_or(0);
    volumes.insert(plugin.to_owned(), count.saturating_add(1));
}

/// Tells of the volumes that pods of a node name.
pub fn in_use(plan: &mut Plan, node: &str, volumes: &ByPlugin) {
    for (plugin, count) in volumes {
        plan.measure(IN_USE, &[node, plugin], f64::from(*count));
    }
}

/// Tells of the volumes that are to be attached, or of those that are.
pub fn volumes<'a>(plan: &mut Plan, state: &str, names: impl IntoIterator<Item = &'a str>) {
    let mut volumes = ByPlugin::new();
    for volume in names.into_iter().filter_map(Attachable::of_name) {
        add(&mut volumes, &volume.plugin());
    }
    for (plugin, count) in &volumes {
        plan.measure(VOLUMES, &[plugin, state], f64::from(*count));
    }
}

/// Counts what is detached by force, as it is.
pub fn forced(plan: &mut Plan, force: Force) {
    plan.measure_if(Occasion::Each(force.tag()), FORCED, &[force.reason()], Measure::Number(1.0));
}
