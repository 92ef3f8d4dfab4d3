//! The pods of a DaemonSet: which node each is for, and how it is doing.

use std::cmp::Ordering;

use coxswain_sdk::node_affinity::NAME_FIELD;
use coxswain_sdk::revisions::REVISION_HASH_LABEL;
use coxswain_sdk::sort::sorted_by;
use coxswain_sdk::{Object, Time, pod};
use litemap::LiteMap;

use crate::view::Pod;

/// Label of pods with the generation of the template they are of.
pub const GENERATION_LABEL: &str = "pod-template-generation";

/// Pods by the node that they are for.
pub type ByNode<'a> = LiteMap<&'a str, Vec<&'a Object<Pod>>>;

/// Sorts pods by the node that they are for. Those that ended and are being
/// deleted are of no account any more; nor are those that are for no node.
pub fn by_node(pods: &[Object<Pod>]) -> ByNode<'_> {
    let mut nodes = ByNode::new();
    for pod in pods {
        if let Some(node) = pod.node()
            && !(pod.is_terminal() && pod.metadata.is_deleting())
        {
            nodes.entry(node).or_default().push(pod);
        }
    }
    nodes
}

/// The oldest first; before them those that are bound.
pub fn oldest_first<'a>(pods: impl IntoIterator<Item = &'a Object<Pod>>) -> Vec<&'a Object<Pod>> {
    sorted_by(pods, |a, b| compare(a, b))
}

fn compare(a: &Pod, b: &Pod) -> Ordering {
    let key = |pod: &Pod| (pod.spec.node_name.is_empty(), pod.metadata.creation_timestamp);
    key(a).cmp(&key(b)).then_with(|| a.metadata.name.cmp(&b.metadata.name))
}

impl Pod {
    /// The node that it runs on, or is to run on.
    pub fn node(&self) -> Option<&str> {
        if !self.spec.node_name.is_empty() {
            return Some(&self.spec.node_name);
        }
        let terms = &self.spec.affinity.node_affinity.required.node_selector_terms;
        let mut fields = terms.iter().flat_map(|term| &term.match_fields);
        let named = fields.find(|field| field.key == NAME_FIELD && field.operator == "In")?;
        match named.values.as_slice() {
            [name] => Some(name),
            _ => None,
        }
    }

    /// Whether it ended for good.
    pub fn is_terminal(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether it is ready.
    pub fn is_ready(&self) -> bool {
        pod::ready(&self.status.conditions).is_some()
    }

    /// Whether it has been ready for so many seconds.
    pub fn is_available(&self, min_ready_seconds: i32, now: Time) -> bool {
        pod::is_available(&self.status.conditions, min_ready_seconds, now)
    }

    /// Whether it is of this revision, or of this generation of the template.
    pub fn is_of(&self, hash: &str, generation: Option<i64>) -> bool {
        let labels = &self.metadata.labels;
        let of_hash = !hash.is_empty() && labels.get(REVISION_HASH_LABEL).is_some_and(|label| label == hash);
        let of_generation =
            || generation.is_some_and(|g| labels.get(GENERATION_LABEL) == Some(&g.to_string()));
        of_hash || of_generation()
    }
}
