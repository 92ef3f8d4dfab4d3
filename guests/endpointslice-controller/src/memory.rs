//! What is kept from one reconcile of a service to the next.

use coxswain_sdk::FromJson;
use coxswain_sdk::endpoints::address::Family;
use serde::Serialize;

/// What is kept; see the crate's documentation for why.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(default)]
pub struct Memory {
    /// What was last told about topology hints, for each family.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub told: Vec<Told>,
    /// What was told about pods whose nodes are not there.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub left_out: String,
    /// Whether the namespace takes no more slices.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub namespace_terminating: bool,
}

/// Something that was told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(default)]
pub struct Told {
    family: Family,
    text: String,
}

impl Memory {
    /// Remembers what is told about a family, or that nothing is. Returns whether
    /// it is news.
    pub fn tell(&mut self, family: Family, text: Option<&str>) -> bool {
        let told = text.map(|text| Told { family, text: text.to_owned() });
        let is_news = told.as_ref().is_some_and(|told| !self.told.contains(told));
        self.told.retain(|told| told.family != family);
        self.told.extend(told);
        is_news
    }

    /// Whether this is what was last told about a family.
    pub fn was_told(&self, family: Family, text: &str) -> bool {
        self.told.iter().any(|told| told.family == family && told.text == text)
    }
}
