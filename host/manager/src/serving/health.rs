//! Whether the process is well.
//!
//! In: named checks. Out: the answers of `/healthz`, `/livez` and `/readyz`, in
//! the form that Kubernetes' programs give them. A check of `/healthz` and
//! `/livez` fails only where a restart would help; `/readyz` also waits for
//! modules and caches.

use std::sync::Arc;

use http::StatusCode;
use percent_encoding::percent_decode_str;

use crate::manager::Manager;

/// A check that is not the manager's own, such as that of the lease.
#[derive(Clone)]
pub struct Check {
    /// Its name, as `?verbose` shows it.
    pub name: String,
    /// The check; an error is the reason, for the log.
    pub test: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl Check {
    /// A check of this name.
    pub fn new(name: &str, test: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        Self { name: name.to_owned(), test: Arc::new(test) }
    }
}

/// Which question is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Healthz,
    Livez,
    Readyz,
}

impl Kind {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Healthz => "healthz",
            Self::Livez => "livez",
            Self::Readyz => "readyz",
        }
    }
}

/// All checks of a process.
pub struct Health {
    manager: Arc<Manager>,
    checks: Vec<Check>,
}

type Outcome = (String, Result<(), String>);

impl Health {
    /// The manager's own checks, and others.
    pub fn new(manager: Arc<Manager>, checks: Vec<Check>) -> Self {
        Self { manager, checks }
    }

    /// Answers a question: the status and the text.
    pub(super) fn answer(&self, kind: Kind, part: Option<&str>, query: &str) -> (StatusCode, String) {
        let mut outcomes: Vec<Outcome> = vec![("ping".to_owned(), Ok(()))];
        outcomes.extend(self.checks.iter().map(|check| (check.name.clone(), (check.test)())));
        outcomes.extend(self.manager.health(kind == Kind::Readyz));
        if let Some(part) = part {
            let Some((name, outcome)) = outcomes.into_iter().find(|(name, _)| name == part) else {
                return (StatusCode::NOT_FOUND, format!("there is no check {part:?}\n"));
            };
            self.manager.metrics().health.observe(&name, kind.word(), outcome.is_ok());
            return match outcome {
                Ok(()) => (StatusCode::OK, "ok".to_owned()),
                Err(reason) => {
                    (StatusCode::INTERNAL_SERVER_ERROR, format!("internal server error: {reason}\n"))
                }
            };
        }
        let excluded = values(query, "exclude");
        for (name, outcome) in outcomes.iter().filter(|(name, _)| !excluded.contains(name)) {
            self.manager.metrics().health.observe(name, kind.word(), outcome.is_ok());
            if let Err(reason) = outcome {
                tracing::warn!(check = name, reason, "{} fails", kind.word());
            }
        }
        render(kind, &outcomes, &excluded, has(query, "verbose"))
    }
}

/// The answer in the form that Kubernetes' programs give it. Reasons are in the
/// log: whoever may see this may not see those.
fn render(kind: Kind, outcomes: &[Outcome], excluded: &[String], verbose: bool) -> (StatusCode, String) {
    let kind = kind.word();
    let (mut text, mut failed) = (String::new(), false);
    for (name, outcome) in outcomes {
        let line = if excluded.contains(name) {
            format!("[+]{name} excluded: ok\n")
        } else if outcome.is_ok() {
            format!("[+]{name} ok\n")
        } else {
            failed = true;
            format!("[-]{name} failed: reason withheld\n")
        };
        text.push_str(&line);
    }
    let unknown: Vec<&str> = excluded
        .iter()
        .filter(|name| !outcomes.iter().any(|(known, _)| known == *name))
        .map(String::as_str)
        .collect();
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        text.push_str(&format!(
            "warn: some health checks cannot be excluded: no matches for {}\n",
            names.join(",")
        ));
    }
    match (failed, verbose) {
        (true, _) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{text}{kind} check failed\n")),
        (false, true) => (StatusCode::OK, format!("{text}{kind} check passed\n")),
        (false, false) => (StatusCode::OK, "ok".to_owned()),
    }
}

/// Whether a query has a parameter, with a value or without.
pub(super) fn has(query: &str, name: &str) -> bool {
    query.split('&').any(|part| part.split('=').next() == Some(name))
}

/// The values of a parameter.
pub(super) fn values(query: &str, name: &str) -> Vec<String> {
    let pairs = query.split('&').filter_map(|part| part.split_once('='));
    pairs
        .filter(|(key, _)| *key == name)
        .map(|(_, value)| percent_decode_str(&value.replace('+', " ")).decode_utf8_lossy().into_owned())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_look_like_those_of_kubernetes() {
        let good = || ("ping".to_owned(), Ok(()));
        let bad = || ("leaderElection".to_owned(), Err("the lease is lost".to_owned()));
        let say = |outcomes: &[Outcome], query: &str| {
            render(Kind::Healthz, outcomes, &values(query, "exclude"), has(query, "verbose"))
        };
        assert_eq!(say(&[good()], ""), (StatusCode::OK, "ok".to_owned()));
        assert_eq!(
            say(&[good()], "verbose"),
            (StatusCode::OK, "[+]ping ok\nhealthz check passed\n".to_owned())
        );
        let failed = "[+]ping ok\n[-]leaderElection failed: reason withheld\nhealthz check failed\n";
        assert_eq!(say(&[good(), bad()], ""), (StatusCode::INTERNAL_SERVER_ERROR, failed.to_owned()));
        assert_eq!(say(&[good(), bad()], "exclude=leaderElection"), (StatusCode::OK, "ok".to_owned()));
        let (_, text) = say(&[good()], "verbose&exclude=no%2Fcheck");
        assert!(text.contains("no matches for \"no/check\""), "{text}");
    }
}
