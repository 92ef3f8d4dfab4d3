//! What the monitor remembers, as text: a line for each thing, so that
//! thousands of nodes are read and written in a few milliseconds. Lines that
//! cannot be read are left out; it is only a hint.

use std::fmt::Write as _;
use std::time::Duration;

use coxswain_sdk::Time;
use litemap::LiteMap;

use crate::health::Health;
use crate::zones::Limiter;

/// What is remembered.
#[derive(Debug, Default)]
pub struct Memory<'a> {
    /// Whether all zones were down.
    pub all_down: bool,
    /// The limiter of each zone.
    pub zones: LiteMap<&'a str, Limiter>,
    /// Uid and health of each node, by name.
    pub nodes: LiteMap<&'a str, (&'a str, Health)>,
}

const ALL_DOWN: &str = "all-down";
const NONE: &str = "-";

impl<'a> Memory<'a> {
    /// Reads what was written.
    pub fn read(text: &'a str) -> Self {
        let mut memory = Self::default();
        for line in text.lines() {
            if line == ALL_DOWN {
                memory.all_down = true;
            } else if let Some((name, limiter)) = zone(line) {
                memory.zones.insert(name, limiter);
            } else if let Some((name, known)) = node(line) {
                memory.nodes.insert(name, known);
            }
        }
        memory
    }
}

fn zone(line: &str) -> Option<(&str, Limiter)> {
    let mut fields = line.strip_prefix("zone ")?.split(' ');
    let name = fields.next()?;
    Some((name, Limiter { rate: fields.next()?.parse().ok()?, next: time(fields.next()?)? }))
}

fn node(line: &str) -> Option<(&str, (&str, Health))> {
    let mut fields = line.strip_prefix("node ")?.split(' ');
    let (name, uid) = (fields.next()?, fields.next()?);
    let alive = time(fields.next()?)?;
    let mut optional = || match fields.next()? {
        NONE => Some(None),
        text => Some(Some(time(text)?)),
    };
    let (heartbeat, renewed) = (optional()?, optional()?);
    Some((name, (uid, Health { alive, heartbeat, renewed })))
}

/// Microseconds: what a lease is renewed in.
fn time(text: &str) -> Option<Time> {
    let micros: i64 = text.parse().ok()?;
    let rest = Duration::from_micros(micros.rem_euclid(1_000_000).unsigned_abs());
    Some(Time::from_unix(micros.div_euclid(1_000_000)) + rest)
}

fn micros(time: Time) -> i64 {
    let micros = time.total_nanos().div_euclid(1000);
    i64::try_from(micros).unwrap_or(i64::MAX)
}

/// Writes a memory.
#[derive(Debug, Default)]
pub struct Writer {
    text: String,
}

impl Writer {
    /// Notes whether all zones are down.
    pub fn all_down(&mut self, all_down: bool) {
        if all_down {
            self.line(format_args!("{ALL_DOWN}"));
        }
    }

    /// Notes the limiter of a zone.
    pub fn zone(&mut self, name: &str, limiter: &Limiter) {
        self.line(format_args!("zone {name} {} {}", limiter.rate, micros(limiter.next)));
    }

    /// Notes the health of a node.
    pub fn node(&mut self, name: &str, uid: &str, health: &Health) {
        self.line(format_args!("node {name} {uid} {}", micros(health.alive)));
        for time in [health.heartbeat, health.renewed] {
            // Writing to a string cannot fail.
            let _ = match time {
                None => write!(self.text, " {NONE}"),
                Some(time) => write!(self.text, " {}", micros(time)),
            };
        }
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let _ = self.text.write_fmt(line);
    }

    /// The text.
    pub fn finish(self) -> String {
        self.text
    }
}
