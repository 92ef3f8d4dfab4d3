//! What is kept, as text: a line for each thing. Lines that cannot be read are
//! left out; it is only a hint.

use std::collections::{BTreeMap, BTreeSet};

use crate::range::Taken;

/// What is kept.
#[derive(Debug, Default, PartialEq)]
pub struct Memory {
    /// For each range, the share to look at next.
    pub next: BTreeMap<usize, u64>,
    /// How often in a row a node could not be written.
    pub failed: BTreeMap<String, u32>,
    /// Nodes that were told that there is nothing left.
    pub told: BTreeSet<String>,
    /// Which shares of each range were taken, by how the range is written.
    pub taken: BTreeMap<String, Taken>,
}

impl Memory {
    /// Reads what was written.
    pub fn read(text: &str) -> Self {
        let mut memory = Self::default();
        for line in text.lines() {
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["next", range, share] => {
                    if let (Ok(range), Ok(share)) = (range.parse(), share.parse()) {
                        memory.next.insert(range, share);
                    }
                }
                ["failed", node, times] => {
                    if let Ok(times) = times.parse() {
                        memory.failed.insert((*node).to_owned(), times);
                    }
                }
                ["taken", range, runs @ ..] => {
                    let runs = runs.iter().filter_map(|run| {
                        let (first, last) = run.split_once('-')?;
                        Some((first.parse().ok()?, last.parse().ok()?)).filter(|(first, last)| first <= last)
                    });
                    memory.taken.insert((*range).to_owned(), Taken::new(runs.collect()));
                }
                ["told", node] => {
                    memory.told.insert((*node).to_owned());
                }
                _ => {}
            }
        }
        memory
    }

    /// As text; empty if there is nothing to keep.
    pub fn write(&self) -> String {
        let mut lines = Vec::new();
        for (range, share) in &self.next {
            lines.push(["next", &range.to_string(), &share.to_string()].join(" "));
        }
        for (node, times) in &self.failed {
            lines.push(["failed", node, &times.to_string()].join(" "));
        }
        for node in &self.told {
            lines.push(["told", node].join(" "));
        }
        for (range, taken) in &self.taken {
            let mut line = ["taken ", range].concat();
            for (first, last) in taken.runs() {
                line.extend([" ", &first.to_string(), "-", &last.to_string()]);
            }
            lines.push(line);
        }
        lines.join("\n")
    }
}
