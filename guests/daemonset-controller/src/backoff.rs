//! How long to wait before a failed pod is replaced: a second on its node at
//! first, then twice as long each time, up to a quarter of an hour. Otherwise a
//! kubelet that refuses a pod would be asked without end.

use std::time::Duration;

use coxswain_sdk::Time;
use litemap::LiteMap;

const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// After this time without a failure all is forgotten.
const FORGOTTEN: Duration = Duration::from_secs(2 * 15 * 60);

const NAMESPACE_TERMINATING: &str = "namespace-terminating";

/// What is kept of a DaemonSet. Lines that cannot be read are left out; it is
/// only a hint.
#[derive(Debug, Default, PartialEq)]
pub struct Memory {
    /// Whether the namespace is going: no pod can be made in it any more.
    pub namespace_terminating: bool,
    generation: i64,
    /// When a failed pod was last replaced on a node, and how long to wait then.
    failures: LiteMap<String, (Time, Duration)>,
}

impl Memory {
    /// Reads what was written. What it says of failures of another generation is
    /// of no account: that was another template.
    pub fn read(text: &str, generation: i64, now: Time) -> Self {
        let mut memory = Self { generation, ..Self::default() };
        let mut same_generation = false;
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                [NAMESPACE_TERMINATING] => memory.namespace_terminating = true,
                ["generation", number] => same_generation = number.parse() == Ok(generation),
                ["failed", node, at, wait] if same_generation => {
                    if let (Ok(at), Ok(wait)) = (at.parse(), wait.parse()) {
                        let (at, wait) = (Time::from_unix_millis(at), Duration::from_millis(wait));
                        memory.failures.insert((*node).to_owned(), (at, wait.min(LONGEST)));
                    }
                }
                _ => {}
            }
        }
        memory.failures.retain(|_, (at, _)| now.since(*at) <= FORGOTTEN);
        memory
    }

    /// As text; empty if there is nothing to keep.
    pub fn write(&self) -> String {
        let mut lines = Vec::new();
        if self.namespace_terminating {
            lines.push(NAMESPACE_TERMINATING.to_owned());
        }
        if !self.failures.is_empty() {
            lines.push(["generation ", &self.generation.to_string()].concat());
        }
        for (node, (at, wait)) in &self.failures {
            let at = at.unix_millis().to_string();
            lines.push(["failed", node, &at, &wait.as_millis().to_string()].join(" "));
        }
        lines.join("\n")
    }

    /// Until when failed pods of a node stay; None if they need not.
    pub fn waits_until(&self, node: &str, now: Time) -> Option<Time> {
        let (at, wait) = self.failures.get(node)?;
        Some(*at + *wait).filter(|until| *until > now)
    }

    /// Notes that a failed pod of a node is replaced now.
    pub fn replaced(&mut self, node: &str, now: Time) {
        let before = self.failures.get(node).map(|(_, wait)| *wait);
        let wait = before.map_or(FIRST, |wait| wait.saturating_mul(2).min(LONGEST));
        self.failures.insert(node.to_owned(), (now, wait));
    }
}
