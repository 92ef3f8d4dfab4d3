//! Which nodes a DaemonSet's pods belong on.

use coxswain_sdk::node_affinity;
use coxswain_sdk::taints::{NO_EXECUTE, NO_SCHEDULE, TaintedNode, untolerated};

use crate::template::Template;

/// What a node is for a DaemonSet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// A pod is to run here.
    Wanted,
    /// None is to be made here, but one that runs may stay.
    Tolerated,
    /// No pod belongs here.
    Excluded,
}

impl Placement {
    /// What a node is for a DaemonSet with this template.
    pub fn of(template: &Template, node: &TaintedNode) -> Self {
        let name = &node.metadata.name;
        let named = template.node_name();
        let fits =
            node_affinity::allows(template.node_selector(), template.required(), name, &node.metadata.labels);
        if (!named.is_empty() && named != name) || !fits {
            return Self::Excluded;
        }
        let (taints, tolerations) = (&node.spec.taints, template.tolerations());
        if untolerated(taints, tolerations, &[NO_EXECUTE]).is_some() {
            Self::Excluded
        } else if untolerated(taints, tolerations, &[NO_SCHEDULE]).is_some() {
            Self::Tolerated
        } else {
            Self::Wanted
        }
    }
}
