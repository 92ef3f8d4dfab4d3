//! Scenarios: what informers put in, what snapshots show, whom a change wakes.

mod model;
mod reading;
mod support;
mod waking;
