//! From what metrics recommend to what is done: bounds, windows and rates.
//!
//! In: the size now, the size recommended, what is remembered. Out: the size to
//! set, and the conditions that say why. Pure.

use std::time::Duration;

use coxswain_sdk::quantity::Quantity;
use serde_json::Value;

use crate::memory::{Memory, Sample, length};

/// Reason and message of a condition, and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Says {
    /// `True` or `False`.
    pub holds: bool,
    /// Reason.
    pub reason: &'static str,
    /// Message.
    pub message: &'static str,
}

/// What comes of a recommendation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Normalized {
    /// The size to set.
    pub replicas: i32,
    /// Condition `AbleToScale`.
    pub able: Says,
    /// Condition `ScalingLimited`.
    pub limited: Says,
}

/// One direction of `spec.behavior`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rules {
    /// `Max`, `Min` or `Disabled`.
    pub select: String,
    /// How long recommendations are looked back on, in seconds.
    pub window: Option<i32>,
    /// Each: whether it is a percentage, its value, its period in seconds.
    pub policies: Vec<(bool, i32, i32)>,
    /// Tolerance of this direction.
    pub tolerance: Option<f64>,
}

impl Rules {
    /// From JSON. What the API server fills in is assumed where it is missing.
    pub fn read(rules: &Value) -> Self {
        let number = |value: &Value| i32::try_from(value.as_i64().unwrap_or(0)).unwrap_or(i32::MAX);
        let policies = rules["policies"].as_array().map_or(&[][..], Vec::as_slice);
        let tolerance = rules["tolerance"].as_str().and_then(|text| Quantity::parse(text).ok());
        Self {
            select: rules["selectPolicy"].as_str().unwrap_or("Max").to_owned(),
            window: rules["stabilizationWindowSeconds"].as_i64().and_then(|w| i32::try_from(w).ok()),
            policies: policies
                .iter()
                .map(|p| (p["type"] == "Percent", number(&p["value"]), number(&p["periodSeconds"])))
                .collect(),
            tolerance: tolerance.map(|t| t.scaled_value(-9) as f64 / 1e9),
        }
    }

    fn longest_period(&self) -> i64 {
        self.policies.iter().map(|(_, _, seconds)| i64::from(*seconds) * 1000).max().unwrap_or(0)
    }
}

/// Both directions.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Behavior {
    /// Upwards.
    pub up: Rules,
    /// Downwards.
    pub down: Rules,
}

impl Behavior {
    /// From `spec.behavior`.
    pub fn read(behavior: &Value) -> Self {
        Self { up: Rules::read(&behavior["scaleUp"]), down: Rules::read(&behavior["scaleDown"]) }
    }

    /// How far scalings are looked back on, in milliseconds: both directions look
    /// at both kinds.
    pub fn longest_period(&self) -> i64 {
        self.up.longest_period().max(self.down.longest_period())
    }
}

/// What a recommendation is held against.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// The size now.
    pub current: i32,
    /// The fewest replicas.
    pub min: i32,
    /// The most replicas.
    pub max: i32,
    /// Now, in milliseconds.
    pub now: i64,
    /// How long a higher recommendation keeps replicas, unless `behavior` says.
    pub downscale: Duration,
}

/// Applies windows, rates and bounds, and notes the recommendation.
pub fn normalize(
    recommended: i32,
    bounds: Bounds,
    behavior: Option<&Behavior>,
    memory: &mut Memory,
) -> Normalized {
    let (up, down) = windows(bounds, behavior);
    memory.forget(bounds.now, up.max(down));
    let stable = match behavior {
        Some(_) => between(recommended, bounds, up, down, memory),
        None => memory.recommended.iter().map(|sample| sample.0).fold(recommended, i32::max),
    };
    memory.recommend(recommended, bounds.now);
    let able = if stable == recommended {
        says(true, "ReadyForNewScale", "recommended size matches current size")
    } else if behavior.is_some() && recommended >= bounds.current {
        says(
            true,
            "ScaleUpStabilized",
            "recent recommendations were lower than current one, applying the lowest recent recommendation",
        )
    } else {
        says(
            true,
            "ScaleDownStabilized",
            "recent recommendations were higher than current one, applying the highest recent recommendation",
        )
    };
    let (replicas, reason, message) = match behavior {
        Some(behavior) => by_rate(stable, bounds, behavior, memory),
        None => by_factor(stable, bounds),
    };
    Normalized { replicas, able, limited: says(replicas != stable, reason, message) }
}

fn says(holds: bool, reason: &'static str, message: &'static str) -> Says {
    Says { holds, reason, message }
}

/// How far recommendations are looked back on, upwards and downwards.
fn windows(bounds: Bounds, behavior: Option<&Behavior>) -> (i64, i64) {
    let default = length(bounds.downscale);
    let millis = |seconds: i32| i64::from(seconds) * 1000;
    match behavior {
        Some(b) => (b.up.window.map_or(0, millis), b.down.window.map_or(default, millis)),
        None => (0, default),
    }
}

/// No lower than what was recommended within the upward window, no higher than
/// within the downward one; in between the size stays.
fn between(recommended: i32, bounds: Bounds, up: i64, down: i64, memory: &Memory) -> i32 {
    let (mut lowest, mut highest) = (recommended, recommended);
    for Sample(size, at) in &memory.recommended {
        if *at > bounds.now.saturating_sub(up) {
            lowest = lowest.min(*size);
        }
        if *at > bounds.now.saturating_sub(down) {
            highest = highest.max(*size);
        }
    }
    bounds.current.max(lowest).min(highest)
}

const WITHIN: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");
const TOO_MANY: (&str, &str) =
    ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) =
    ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const UP_LIMIT: (&str, &str) =
    ("ScaleUpLimit", "the desired replica count is increasing faster than the maximum scale rate");
const DOWN_LIMIT: (&str, &str) =
    ("ScaleDownLimit", "the desired replica count is decreasing faster than the maximum scale rate");

fn with(replicas: i32, (reason, message): (&'static str, &'static str)) -> (i32, &'static str, &'static str) {
    (replicas, reason, message)
}

/// Without `behavior`: at most double the size, or four.
fn by_factor(wanted: i32, bounds: Bounds) -> (i32, &'static str, &'static str) {
    let limit = bounds.current.saturating_mul(2).max(4);
    if wanted < bounds.min {
        return with(bounds.min, TOO_FEW);
    }
    let (most, why) = if bounds.max > limit { (limit, UP_LIMIT) } else { (bounds.max, TOO_MANY) };
    if wanted > most { with(most, why) } else { with(wanted, WITHIN) }
}

fn by_rate(
    wanted: i32,
    bounds: Bounds,
    behavior: &Behavior,
    memory: &Memory,
) -> (i32, &'static str, &'static str) {
    if wanted > bounds.current {
        let limit = rate(&behavior.up, bounds, memory, true).max(bounds.current);
        let (most, why) = if bounds.max > limit { (limit, UP_LIMIT) } else { (bounds.max, TOO_MANY) };
        if wanted > most {
            return with(most, why);
        }
    } else if wanted < bounds.current {
        let limit = rate(&behavior.down, bounds, memory, false).min(bounds.current);
        let (least, why) = if bounds.min < limit { (limit, DOWN_LIMIT) } else { (bounds.min, TOO_FEW) };
        if wanted < least {
            return with(least, why);
        }
    }
    with(wanted, WITHIN)
}

/// The size that policies allow to go to.
fn rate(rules: &Rules, bounds: Bounds, memory: &Memory, up: bool) -> i32 {
    if rules.select == "Disabled" {
        return bounds.current;
    }
    let changed = |samples: &[Sample], seconds: i32| -> i64 {
        let from = bounds.now.saturating_sub(i64::from(seconds) * 1000);
        samples.iter().filter(|sample| sample.1 > from).map(|sample| i64::from(sample.0)).sum()
    };
    let allowed = rules.policies.iter().map(|&(percent, value, seconds)| {
        let before =
            i64::from(bounds.current) - changed(&memory.added, seconds) + changed(&memory.removed, seconds);
        let share = f64::from(value) / 100.0;
        let size = match (percent, up) {
            (false, true) => before + i64::from(value),
            (false, false) => before - i64::from(value),
            // Rounded up, lest a small share of a small number never adds one.
            (true, true) => (before as f64 * (1.0 + share)).ceil() as i64,
            (true, false) => (before as f64 * (1.0 - share)) as i64,
        };
        i32::try_from(size).unwrap_or(if size < 0 { i32::MIN } else { i32::MAX })
    });
    // The largest change is the largest size upwards and the smallest downwards.
    let largest_size = (rules.select == "Min") != up;
    if largest_size { allowed.max().unwrap_or(i32::MIN) } else { allowed.min().unwrap_or(i32::MAX) }
}

/// Relative differences of a metric from its target that are not acted on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances {
    /// Below the target.
    pub down: f64,
    /// Above the target.
    pub up: f64,
}

impl Tolerances {
    /// The autoscaler's own, or else the default.
    pub fn of(behavior: Option<&Behavior>, default: f64) -> Self {
        let own = |rules: Option<&Rules>| rules.and_then(|rules| rules.tolerance).unwrap_or(default);
        Self { down: own(behavior.map(|b| &b.down)), up: own(behavior.map(|b| &b.up)) }
    }

    /// Whether a ratio of value to target calls for nothing.
    pub fn holds(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}
