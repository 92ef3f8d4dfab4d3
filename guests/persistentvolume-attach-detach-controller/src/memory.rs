//! What is kept of a node between reconciles, and why it cannot be derived.
//!
//! - Since when a volume waits to be detached: pods that wanted it are gone. A
//!   loss starts the wait for the kubelet anew.
//! - Volumes that were taken off the node's list to be detached: if the volume
//!   object is gone as well, nothing else tells that the attachment may go.
//! - Volumes that the kubelet had in use: once the node object is gone, so is
//!   that. A loss means that all are taken to be in use.
//! - What pods were told last about a volume. A loss repeats an event.

use std::collections::BTreeSet;

use coxswain_sdk::FromJson;
use litemap::LiteMap;
use serde::Serialize;

/// What is kept of a node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Memory {
    /// Whether the node was there while volumes were: if it no longer is, what
    /// the kubelet had in use is known all the same.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub seen: bool,
    /// When each volume was first seen to be unwanted, in Unix seconds.
    #[serde(skip_serializing_if = "LiteMap::is_empty")]
    pub unwanted: LiteMap<String, i64>,
    /// Volumes that were taken off the list to be detached.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub leaving: BTreeSet<String>,
    /// Attached volumes that the kubelet has in use.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub in_use: BTreeSet<String>,
    /// What was told last of a volume, and when.
    #[serde(skip_serializing_if = "LiteMap::is_empty")]
    pub told: LiteMap<String, Told>,
}

/// What was told, and when.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(default)]
pub struct Told {
    /// In words.
    pub text: String,
    /// In Unix seconds.
    pub at: i64,
}

impl Memory {
    /// Forgets volumes other than these.
    pub fn retain(&mut self, is_known: impl Fn(&str) -> bool) {
        self.unwanted.retain(|name, _| is_known(name));
        self.leaving.retain(|name| is_known(name));
        self.in_use.retain(|name| is_known(name));
        self.told.retain(|name, _| is_known(name));
    }
}
