//! Labels that nodes carry under an old and a new name.

use coxswain_sdk::StringMap;
use serde_json::{Map, Value};

/// New names, and the old ones that follow them.
const FOLLOWED: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

/// What is to be changed of the old labels. Where the new one is missing, the
/// old one is let be.
pub fn changes(labels: &StringMap) -> Map<String, Value> {
    let mut changes = Map::new();
    for (new, old) in FOLLOWED {
        if let Some(value) = labels.get(new)
            && labels.get(old) != Some(value)
        {
            changes.insert(old.to_owned(), Value::String(value.clone()));
        }
    }
    changes
}
