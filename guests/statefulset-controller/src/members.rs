//! Which pod is which: by ordinal, and those beyond.

use std::collections::BTreeMap;

use coxswain_sdk::Object;

use crate::view::{Pod, StatefulSet};

/// The pods of a StatefulSet.
#[derive(Debug, Default)]
pub struct Members {
    /// The wanted ones there are, by ordinal.
    pub replicas: BTreeMap<i64, Object<Pod>>,
    /// Those that are too many, by ordinal.
    pub condemned: BTreeMap<i64, Object<Pod>>,
}

impl Members {
    /// Sorts pods out. All must be members.
    pub fn of(set: &StatefulSet, pods: &[Object<Pod>]) -> Self {
        let mut members = Self::default();
        for pod in pods {
            if let Some(ordinal) = ordinal_of(&set.metadata.name, &pod.metadata.name) {
                let list = if set.wants(ordinal) { &mut members.replicas } else { &mut members.condemned };
                list.insert(ordinal, pod.clone());
            }
        }
        members
    }
}

/// Name of the pod of this ordinal.
pub fn name_of(set: &str, ordinal: i64) -> String {
    format!("{set}-{ordinal}")
}

/// Ordinal of the pod of this name; None if the set has no such pod.
pub fn ordinal_of(set: &str, pod: &str) -> Option<i64> {
    let digits = pod.strip_prefix(set)?.strip_prefix('-')?;
    let ordinal: i32 = digits.parse().ok()?;
    // As it would be written: neither "01" nor "+1" nor "-0".
    (ordinal >= 0 && ordinal.to_string() == digits).then(|| ordinal.into())
}
