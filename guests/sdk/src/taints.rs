//! Taints of nodes, and the tolerations of pods.
//!
//! Rules: <https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/>.

use serde::ser::{Serialize, Serializer};
use serde_json::{Map, Value};

use crate::meta::ObjectMeta;
use crate::read::{Failed, FromJson, Reader, optional_time, texts};
use crate::resource::{NODES, Resource};
use crate::time::Time;
use crate::view::View;

/// Effect that keeps pods from being scheduled.
pub const NO_SCHEDULE: &str = "NoSchedule";
/// Effect that also removes pods that run already.
pub const NO_EXECUTE: &str = "NoExecute";

/// Key of the taint of a node that says it is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// Key of the taint of a node that is heard of no more.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// Key of the taint of a node that takes no pods.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// Key of the taint of a node that runs out of memory.
pub const MEMORY_PRESSURE: &str = "node.kubernetes.io/memory-pressure";
/// Key of the taint of a node that runs out of disk.
pub const DISK_PRESSURE: &str = "node.kubernetes.io/disk-pressure";
/// Key of the taint of a node that runs out of process ids.
pub const PID_PRESSURE: &str = "node.kubernetes.io/pid-pressure";
/// Key of the taint of a node without network.
pub const NETWORK_UNAVAILABLE: &str = "node.kubernetes.io/network-unavailable";

/// A taint. Fields that this type does not name survive.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Taint {
    /// Key.
    pub key: String,
    /// Value; often empty.
    pub value: String,
    /// `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub effect: String,
    /// When it was put on, if that is known.
    pub time_added: Option<Time>,
    /// Whatever else there is.
    pub rest: Map<String, Value>,
}

/// Read as a map, which keeps the list of taints whole in the cache; else it
/// could not be patched.
impl FromJson for Taint {
    fn blank() -> Self {
        Self::default()
    }

    fn read(&mut self, reader: Reader<'_, '_>) -> Result<(), Failed> {
        const OF: &str = "taint";
        let [mut key, mut value, mut effect, mut added] = [const { String::new() }; 4];
        let rest = texts(
            reader,
            OF,
            &mut [
                ("key", &mut key),
                ("value", &mut value),
                ("effect", &mut effect),
                ("timeAdded", &mut added),
            ],
        )?;
        let time_added = optional_time(OF, &added)?;
        *self = Self { key, value, effect, time_added, rest };
        Ok(())
    }
}

impl Serialize for Taint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = self.rest.clone();
        let mut put = |field: &str, text: String| fields.insert(field.to_owned(), Value::String(text));
        put("key", self.key.clone());
        put("effect", self.effect.clone());
        if !self.value.is_empty() {
            put("value", self.value.clone());
        }
        if let Some(time) = self.time_added {
            put("timeAdded", time.to_string());
        }
        fields.serialize(serializer)
    }
}

impl Taint {
    /// A taint without a value that is put on now.
    pub fn new(key: &str, effect: &str, now: Time) -> Self {
        Self {
            key: key.to_owned(),
            effect: effect.to_owned(),
            time_added: Some(now.whole_seconds()),
            ..Self::default()
        }
    }

    /// Whether it is the taint of this key and effect, of which a node has at
    /// most one.
    pub fn is(&self, key: &str, effect: &str) -> bool {
        self.key == key && self.effect == effect
    }
}

/// Whether one of the taints has this key and effect.
pub fn has(taints: &[Taint], key: &str, effect: &str) -> bool {
    taints.iter().any(|taint| taint.is(key, effect))
}

/// A node, as far as its taints (and its labels) say what may run on it: no
/// heartbeat changes that.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct TaintedNode {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: TaintedNodeSpec,
}

/// What is read of a node's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct TaintedNodeSpec {
    /// Taints.
    pub taints: Vec<Taint>,
}

impl View for TaintedNode {
    const RESOURCE: Resource = NODES;
}

/// A toleration of a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// Key; empty for all.
    pub key: String,
    /// `Exists`, or `Equal`, which may be left out.
    pub operator: String,
    /// Value that the taint must have, for `Equal`.
    pub value: String,
    /// Effect; empty for all.
    pub effect: String,
    /// For how long a `NoExecute` taint is borne; for ever if not given.
    pub toleration_seconds: Option<i64>,
}

impl Toleration {
    /// Tolerates whatever value a taint of this key and effect has, for ever.
    pub fn exists(key: &str, effect: &str) -> Self {
        Self {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            effect: effect.to_owned(),
            ..Self::default()
        }
    }

    /// Whether it tolerates a taint. An unknown operator tolerates nothing.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if !self.effect.is_empty() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator.as_str() {
            "" | "Equal" => self.value == taint.value,
            "Exists" => true,
            _ => false,
        }
    }
}

/// The first taint of one of these effects that no toleration tolerates.
pub fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    effects: &[&str],
) -> Option<&'a Taint> {
    let mut of_effect = taints.iter().filter(|taint| effects.contains(&taint.effect.as_str()));
    of_effect.find(|taint| !tolerations.iter().any(|toleration| toleration.tolerates(taint)))
}

#[cfg(test)]
mod tests;
