//! What would be done, for people and for programs.

use std::fmt::Write;

use serde::Serialize;

use crate::plans::{Act, Change, Told};

/// What controllers would do.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The API server.
    pub server: String,
    /// Whether everything was found out that there was to find out.
    pub complete: bool,
    /// Why not, if it ended before all was at rest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stopped: Option<String>,
    /// Keys that were reconciled.
    pub keys: usize,
    /// What would be written, each after what it follows from.
    pub actions: Vec<Planned>,
    /// Events that would be recorded.
    pub events: Vec<PlannedEvent>,
    /// Keys that came to no plan.
    pub failures: Vec<Failure>,
    /// Controllers that could not run, or files that could not be used.
    pub not_run: Vec<NotRun>,
    /// Webhooks and policies of the cluster that were not asked, and that may
    /// refuse or change what would be written.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_asked: Vec<String>,
}

/// A write that would be made.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Planned {
    /// Counts the actions, from 1 on.
    pub number: usize,
    /// Numbers of the actions that it follows from: the controller saw what they
    /// had done. None: it follows from the cluster as it is.
    pub follows: Vec<usize>,
    /// The controller.
    pub controller: String,
    /// The key it decided this for.
    pub key: String,
    /// Which step of the plan it belongs to, from 1 on.
    pub step: usize,
    /// The write.
    #[serde(flatten)]
    pub act: Act,
    /// What it changes of the object, where that can be told.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub changes: Option<Vec<Change>>,
}

/// An event that would be recorded.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PlannedEvent {
    /// The controller.
    pub controller: String,
    /// The key it decided this for.
    pub key: String,
    /// `always`, or `success` if it tells of a write.
    pub when: &'static str,
    /// The event.
    #[serde(flatten)]
    pub event: Told,
}

/// A key that came to no plan.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Failure {
    /// The controller.
    pub controller: String,
    /// The key.
    pub key: String,
    /// Why.
    pub reason: String,
    /// Whether the controller would try again by itself. One that gives up
    /// waits for a change of what it read.
    pub retried: bool,
}

/// A controller that could not run.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NotRun {
    /// The controller, or the file.
    pub controller: String,
    /// Why not.
    pub reason: String,
    /// Whether it would not run under `coxswain run` either, so that nothing is
    /// missing here.
    pub expected: bool,
}

impl Report {
    /// Keeps what concerns objects in a namespace, and objects of the cluster
    /// only as far as they keep a controller from deciding.
    pub fn retain_namespace(&mut self, namespace: &str) {
        let of_namespace = |key: &str| !key.contains('/') || key.split('/').next() == Some(namespace);
        self.actions.retain(|planned| planned.act.namespace == namespace);
        self.events.retain(|planned| of_namespace(&planned.key));
        self.failures.retain(|failure| of_namespace(&failure.key));
    }

    /// Exit code: 0 nothing would be done, 2 something would, 1 not everything
    /// could be found out.
    pub fn exit_code(&self) -> u8 {
        let failed = self.failures.iter().any(|failure| failure.retried);
        let missing = self.not_run.iter().any(|one| !one.expected);
        match (self.complete && !failed && !missing, self.actions.is_empty()) {
            (false, _) => 1,
            (true, true) => 0,
            (true, false) => 2,
        }
    }

    /// For people: a line for each action, then what it changes.
    pub fn to_text(&self, events: bool) -> String {
        let mut text = String::new();
        let number = self.actions.iter().map(|a| a.number.to_string().len()).max().unwrap_or_default();
        let width = |texts: &mut dyn Iterator<Item = usize>| texts.max().unwrap_or_default();
        let controller = width(&mut self.actions.iter().map(|a| a.controller.len()));
        let key = width(&mut self.actions.iter().map(|a| a.key.len()));
        for planned in &self.actions {
            let act = &planned.act;
            let _ = write!(
                text,
                "{:>number$}  {:controller$}  {:key$}  {:<6}  {}",
                planned.number,
                planned.controller,
                planned.key,
                act.verb,
                act.object()
            );
            if let Some(kind) = act.patch_type.as_deref().filter(|kind| *kind != "merge") {
                let _ = write!(text, "  ({kind} patch)");
            }
            if !planned.follows.is_empty() {
                let _ = write!(text, "  (after {})", ranges(&planned.follows));
            }
            text.push('\n');
            match (&planned.changes, act.verb.as_str(), &act.body) {
                (Some(changes), ..) if changes.is_empty() => text.push_str("    (changes nothing)\n"),
                (Some(changes), ..) => {
                    for change in changes {
                        let _ = writeln!(text, "    {change}");
                    }
                }
                (None, "patch" | "delete" | "deletecollection", Some(body)) => {
                    let _ = writeln!(text, "    {body}");
                }
                _ => {}
            }
        }
        if events {
            for planned in &self.events {
                let Told { about, kind, reason, message } = &planned.event;
                let _ = writeln!(
                    text,
                    "{}  {}  event  {about}: {kind} {reason}: {message}",
                    planned.controller, planned.key
                );
            }
        }
        self.add_troubles(&mut text);
        if !self.not_asked.is_empty() {
            let names = self.not_asked.join(", ");
            let _ = writeln!(text, "Not asked, and may refuse or change what would be written: {names}.");
        }
        if let Some(stopped) = &self.stopped {
            let _ = writeln!(text, "Not all was found out: {stopped}.");
        }
        let controllers: std::collections::BTreeSet<_> = self.actions.iter().map(|a| &a.controller).collect();
        let _ = match self.actions.len() {
            0 => writeln!(text, "Nothing would be done ({} keys reconciled).", self.keys),
            n => writeln!(
                text,
                "{n} action{} would be taken by {} controller{} ({} keys reconciled).",
                if n == 1 { "" } else { "s" },
                controllers.len(),
                if controllers.len() == 1 { "" } else { "s" },
                self.keys
            ),
        };
        text
    }

    fn add_troubles(&self, text: &mut String) {
        for failure in &self.failures {
            let what = if failure.retried { "fails, and would be tried again" } else { "gave up" };
            let _ = writeln!(text, "{}  {}  {what}: {}", failure.controller, failure.key, failure.reason);
        }
        for one in &self.not_run {
            let _ = writeln!(text, "{}  not run: {}", one.controller, one.reason);
        }
    }
}

/// Numbers in ascending order: `1-3, 7`.
fn ranges(numbers: &[usize]) -> String {
    let runs = numbers.chunk_by(|a, b| a + 1 == *b);
    let run = |run: &[usize]| match run {
        [one] => one.to_string(),
        [first, .., last] => format!("{first}-{last}"),
        [] => String::new(),
    };
    runs.map(run).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_numbers_are_told_in_few_words() {
        assert_eq!(ranges(&[1]), "1");
        assert_eq!(ranges(&[1, 2, 3, 7, 9, 10]), "1-3, 7, 9-10");
    }

    #[test]
    fn the_exit_code_tells_what_to_think_of_it() {
        let mut report = Report { complete: true, ..Report::default() };
        assert_eq!(report.exit_code(), 0);
        let not_run = |expected| NotRun { controller: "c".into(), reason: "r".into(), expected };
        report.not_run.push(not_run(true));
        let failure =
            |retried| Failure { controller: "c".into(), key: "k".into(), reason: "r".into(), retried };
        report.failures.push(failure(false));
        assert_eq!(report.exit_code(), 0, "what a controller leaves alone is no work");
        let mut failing = report.clone();
        failing.failures.push(failure(true));
        assert_eq!(failing.exit_code(), 1);
        let mut partial = report.clone();
        partial.not_run.push(not_run(false));
        assert_eq!(partial.exit_code(), 1);
        report.complete = false;
        assert_eq!(report.exit_code(), 1);
    }
}
