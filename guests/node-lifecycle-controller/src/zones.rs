//! Zones, and how fast the nodes of each are tainted.
//!
//! Pods of a node that is not ready are evicted by a taint. Where many nodes
//! fail at once it is rather the network, or us: then nodes are tainted slowly,
//! or not at all.

use std::time::Duration;

use coxswain_sdk::{StringMap, Time};
use litemap::LiteMap;

use crate::settings::Settings;

/// Shortest time between two nodes of a zone.
const SHORTEST: Duration = Duration::from_millis(100);
/// Longest one that makes a difference.
const LONGEST: f64 = 1e9;

/// Name of the zone of a node with these labels; `-` if it is in none. It
/// contains no blank.
pub fn zone_of(labels: &StringMap) -> String {
    let label = |old: &str, new: &str| {
        labels.get(old).or_else(|| labels.get(new)).map(String::as_str).unwrap_or_default()
    };
    let region = label("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region");
    let zone = label("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone");
    if region.is_empty() && zone.is_empty() { "-".to_owned() } else { [region, ":", zone].concat() }
}

/// How many nodes of a zone are ready, and how many are not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Census {
    pub ready: usize,
    pub not_ready: usize,
}

/// How a zone is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Condition {
    Normal,
    PartlyDown,
    Down,
}

impl Census {
    /// Counts a node.
    pub fn count(&mut self, ready: bool) {
        if ready {
            self.ready += 1;
        } else {
            self.not_ready += 1;
        }
    }

    /// How the zone is doing.
    pub fn condition(self, settings: &Settings) -> Condition {
        let Self { ready, not_ready } = self;
        let share = not_ready as f64 / (ready + not_ready).max(1) as f64;
        if ready == 0 && not_ready > 0 {
            Condition::Down
        } else if not_ready > 2 && share >= settings.unhealthy {
            Condition::PartlyDown
        } else {
            Condition::Normal
        }
    }

    /// Nodes tainted a second.
    fn rate(self, settings: &Settings) -> f64 {
        match self.condition(settings) {
            Condition::Normal | Condition::Down => settings.rate,
            Condition::PartlyDown => {
                let size = i64::try_from(self.ready + self.not_ready).unwrap_or(i64::MAX);
                if size > settings.large { settings.secondary_rate } else { 0.0 }
            }
        }
    }
}

/// Whether there are zones and all of them are down: then it is us who see
/// nothing, and nobody is evicted.
pub fn all_down(zones: &LiteMap<String, Census>, settings: &Settings) -> bool {
    !zones.is_empty() && zones.values().all(|census| census.condition(settings) == Condition::Down)
}

/// Nodes a second that are tainted in a zone. A zone of which no node counts is
/// a healthy one.
pub fn rate(census: Option<Census>, all_down: bool, settings: &Settings) -> f64 {
    let rate = match census {
        None => settings.rate,
        Some(_) if all_down => 0.0,
        Some(census) => census.rate(settings),
    };
    // Whatever is no positive number tolerates no node.
    if rate > 0.0 { rate } else { 0.0 }
}

/// Lets one node pass at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limiter {
    /// Nodes a second.
    pub rate: f64,
    /// From when on the next one may pass.
    pub next: Time,
}

impl Limiter {
    /// A limiter that has let nobody pass yet.
    pub fn new(rate: f64, now: Time) -> Self {
        Self { rate, next: now }
    }

    /// Changes the rate. Who has to wait waits anew.
    pub fn set_rate(&mut self, rate: f64, now: Time) {
        if self.rate == rate {
            return;
        }
        let waits = self.rate <= 0.0 || now < self.next;
        self.rate = rate;
        self.next = if waits { now + self.interval() } else { now };
    }

    /// Whether one may pass now.
    pub fn pass(&mut self, now: Time) -> bool {
        let passes = self.rate > 0.0 && now >= self.next;
        if passes {
            self.next = now + self.interval();
        }
        passes
    }

    /// When one may pass, if ever.
    pub fn next_chance(&self) -> Option<Time> {
        (self.rate > 0.0).then_some(self.next)
    }

    fn interval(&self) -> Duration {
        if self.rate <= 0.0 {
            return Duration::ZERO;
        }
        Duration::from_secs_f64((1.0 / self.rate).min(LONGEST)).max(SHORTEST)
    }
}
