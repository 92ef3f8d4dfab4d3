//! What is kept from one reconcile to the next: only a hint.

use coxswain_sdk::{Ctx, Time};

use crate::view::CronJob;

/// What was kept.
#[derive(Debug, Default, PartialEq)]
pub struct Memory {
    /// The run whose Job was to be made, until its record is written.
    pub made: Option<Time>,
    /// UIDs of the active Jobs that were seen.
    pub seen: Vec<String>,
    /// What the spec said about times.
    pub times: Option<String>,
}

impl Memory {
    /// Reads what was kept.
    pub fn of(ctx: &Ctx<'_>) -> Self {
        let mut lines = ctx.state().unwrap_or_default().splitn(3, '\n');
        let (made, seen) = (lines.next().unwrap_or_default(), lines.next().unwrap_or_default());
        Self {
            made: Time::parse(made),
            seen: seen.split_terminator(' ').map(str::to_owned).collect(),
            times: lines.next().map(str::to_owned),
        }
    }

    /// The run that was made, unless that failed or is recorded.
    pub fn unrecorded(&self, ctx: &Ctx<'_>, cron_job: &CronJob, tag: &str) -> Option<Time> {
        let failed = ctx.results().iter().any(|result| result.tag == tag);
        let last = cron_job.status.last_schedule_time;
        self.made.filter(|made| !failed && last.is_none_or(|last| *made > last))
    }
}

/// What is to be kept.
pub fn text(made: Option<Time>, seen: &[&str], times: &str) -> String {
    format!("{}\n{}\n{times}", made.map(|made| made.to_string()).unwrap_or_default(), seen.join(" "))
}
