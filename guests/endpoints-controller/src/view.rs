//! What is read of Endpoints.

use coxswain_sdk::endpoints::TRIGGER_TIME;
use coxswain_sdk::endpoints::subsets::Endpoints;
use coxswain_sdk::{FromJson, StringMap};

use crate::capacity::OVER_CAPACITY;

/// An Endpoints object, with the annotations that the controller writes.
pub type EndpointsObject = Endpoints<Own>;

/// The annotations that the controller writes.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Own {
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    trigger_time: Option<String>,
    #[serde(rename = "endpoints.kubernetes.io/over-capacity")]
    over_capacity: Option<String>,
}

impl Own {
    /// Those there are.
    pub fn to_map(&self) -> StringMap {
        let mut map = StringMap::new();
        for (key, value) in [(TRIGGER_TIME, &self.trigger_time), (OVER_CAPACITY, &self.over_capacity)] {
            if let Some(value) = value {
                map.insert(key.to_owned(), value.clone());
            }
        }
        map
    }

    /// What it says about its size.
    pub fn over_capacity(&self) -> Option<&str> {
        self.over_capacity.as_deref()
    }
}
