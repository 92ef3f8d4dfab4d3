//! What is kept of a node: a line for each thing. Lines that cannot be read are
//! left out; it is only a hint.

use std::collections::BTreeMap;

use coxswain_sdk::Time;
use coxswain_sdk::taints::Taint;

/// What is kept of a node.
#[derive(Debug, Default, PartialEq)]
pub struct Memory {
    /// When each taint, by key and what it says of its time, was first seen.
    pub taints: BTreeMap<(String, String), Time>,
    /// Pods that wait or go, by uid.
    pub pods: BTreeMap<String, Waiting>,
}

/// A pod that waits to be deleted, or whose deletion has begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
    /// Whether its deletion has begun, so that nothing is called off any more.
    pub going: bool,
}

impl Memory {
    /// Reads what was written.
    pub fn read(text: &str) -> Self {
        let mut memory = Self::default();
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["taint", key, added, seen] => {
                    if let Ok(seen) = seen.parse() {
                        let seen = Time::from_unix_millis(seen);
                        memory.taints.insert(((*key).to_owned(), (*added).to_owned()), seen);
                    }
                }
                [word @ ("waits" | "goes"), namespace, name, uid] => {
                    let going = *word == "goes";
                    let waiting =
                        Waiting { namespace: (*namespace).to_owned(), name: (*name).to_owned(), going };
                    memory.pods.insert((*uid).to_owned(), waiting);
                }
                _ => {}
            }
        }
        memory
    }

    /// When a taint was first seen.
    pub fn seen(&self, taint: &Taint) -> Option<Time> {
        self.taints.get(&identity(taint)).copied()
    }

    /// Notes when a taint was first seen.
    pub fn note(&mut self, taint: &Taint, seen: Time) {
        self.taints.insert(identity(taint), seen);
    }

    /// As text; empty if there is nothing to keep.
    pub fn write(&self) -> String {
        let mut lines = Vec::new();
        for ((key, added), seen) in &self.taints {
            let millis = seen.unix_millis().to_string();
            lines.push(["taint", key, added, &millis].join(" "));
        }
        for (uid, waiting) in &self.pods {
            let word = if waiting.going { "goes" } else { "waits" };
            lines.push([word, &waiting.namespace, &waiting.name, uid].join(" "));
        }
        lines.join("\n")
    }
}

/// A taint that was taken off and put on again is another one, if it says when.
fn identity(taint: &Taint) -> (String, String) {
    (taint.key.clone(), taint.time_added.map_or_else(|| "-".to_owned(), |time| time.to_string()))
}
