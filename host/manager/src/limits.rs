//! What one controller may use, and how often it asked for more.
//!
//! In: the operator's `--limit` flags. Out: the limits of each controller, and
//! counts of what went past them. Kept: going past a limit costs the reconcile
//! in which it happened (for log lines: the line), and is counted by kind.

use std::{
    collections::BTreeMap,
    fmt,
    str::FromStr,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    contract::{Action, Event, Lookup, Plan, StateChange, Verb},
    goflag,
};

/// What one controller may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Wall time that the module may compute in one reconcile, all rounds of
    /// lookups together. Waiting for answers does not count.
    pub deadline: Duration,
    /// Added to the deadline of an instance's first call, in which language
    /// runtimes set themselves up. As long as the deadline, unless a program
    /// that embeds the engine says otherwise.
    pub first_call: Duration,
    /// Bytes of linear memory, over all memories of the component.
    pub memory: usize,
    /// Actions in one plan.
    pub plan_actions: usize,
    /// Bytes of one plan: bodies, names and events.
    pub plan_bytes: usize,
    /// Lookups in one reconcile, all rounds together.
    pub lookups: usize,
    /// Log lines a second in the long run; five times as many at once.
    pub log_lines: u32,
    /// Bytes of state kept for one key.
    pub state_bytes: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(5),
            first_call: Duration::from_secs(5),
            memory: 256 << 20,
            plan_actions: 20_000,
            plan_bytes: 64 << 20,
            lookups: 10_000,
            log_lines: 20,
            state_bytes: 4 << 20,
        }
    }
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LimitKind {
    /// [`Limits::deadline`].
    Deadline,
    /// [`Limits::memory`].
    Memory,
    /// [`Limits::plan_actions`].
    PlanActions,
    /// [`Limits::plan_bytes`].
    PlanBytes,
    /// [`Limits::lookups`].
    Lookups,
    /// [`Limits::log_lines`].
    LogLines,
    /// [`Limits::state_bytes`].
    StateBytes,
}

/// The least that memory can be limited to.
const LEAST_MEMORY: u64 = 2 << 20;

impl LimitKind {
    /// All kinds, in the order of [`LimitHits`].
    pub const ALL: [Self; 7] = [
        Self::Deadline,
        Self::Memory,
        Self::PlanActions,
        Self::PlanBytes,
        Self::Lookups,
        Self::LogLines,
        Self::StateBytes,
    ];

    /// Its name, in flags, in the status and in metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Deadline => "deadline",
            Self::Memory => "memory",
            Self::PlanActions => "plan-actions",
            Self::PlanBytes => "plan-bytes",
            Self::Lookups => "lookups",
            Self::LogLines => "log-lines",
            Self::StateBytes => "state-bytes",
        }
    }
}

/// How often a controller went past its limits, by kind.
#[derive(Debug, Default)]
pub struct LimitHits([AtomicU64; LimitKind::ALL.len()]);

impl LimitHits {
    /// Counts some.
    pub fn add(&self, kind: LimitKind, times: u64) {
        self.0[kind as usize].fetch_add(times, Ordering::Relaxed);
    }

    /// How often so far.
    pub fn of(&self, kind: LimitKind) -> u64 {
        self.0[kind as usize].load(Ordering::Relaxed)
    }

    /// The kinds that were hit at all, by name.
    pub fn by_name(&self) -> BTreeMap<String, u64> {
        let all = LimitKind::ALL.into_iter().map(|kind| (kind.name().to_owned(), self.of(kind)));
        all.filter(|(_, times)| *times > 0).collect()
    }
}

/// A module asked for more than it may have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}; raise it with --limit {}=… if that is meant", .kind.name())]
pub struct Exceeded {
    /// Which limit.
    pub kind: LimitKind,
    message: String,
}

impl Limits {
    /// Whether a plan is small enough, the state it keeps included.
    pub fn check_plan(&self, plan: &Plan) -> Result<(), Exceeded> {
        let exceeded = |kind, message| Err(Exceeded { kind, message });
        let actions: usize = plan.steps.iter().map(|step| step.actions.len()).sum();
        if actions > self.plan_actions {
            let message =
                format!("the plan holds {actions} actions, more than its limit of {}", self.plan_actions);
            return exceeded(LimitKind::PlanActions, message);
        }
        let of_actions = plan.steps.iter().flat_map(|step| &step.actions).map(action_bytes);
        let bytes: usize = of_actions.chain(plan.events.iter().map(event_bytes)).sum();
        if bytes > self.plan_bytes {
            let message = format!("the plan has {bytes} bytes, more than its limit of {}", self.plan_bytes);
            return exceeded(LimitKind::PlanBytes, message);
        }
        match &plan.state {
            StateChange::Set(state) if state.len() > self.state_bytes => exceeded(
                LimitKind::StateBytes,
                format!(
                    "the plan keeps {} bytes of state, more than the key's limit of {}",
                    state.len(),
                    self.state_bytes
                ),
            ),
            _ => Ok(()),
        }
    }

    /// Whether a reconcile that has had so many answers may ask for more.
    pub fn check_lookups(&self, answered: usize, asked: &[Lookup]) -> Result<(), Exceeded> {
        let all = answered.saturating_add(asked.len());
        if all <= self.lookups {
            return Ok(());
        }
        let message =
            format!("the reconcile asked for {all} lookups, more than its limit of {}", self.lookups);
        Err(Exceeded { kind: LimitKind::Lookups, message })
    }
}

fn action_bytes(action: &Action) -> usize {
    let body = match &action.verb {
        Verb::Create(body) | Verb::Replace(body) => body.len(),
        Verb::Patch(patch) => patch.body.len(),
        Verb::Delete(_) => 0,
        Verb::DeleteCollection(options) => options.labels.len() + options.fields.len(),
    };
    let events = action.on_success.iter().chain(&action.on_failure).map(event_bytes);
    let names = [&action.tag, &action.namespace, &action.name, &action.subresource];
    body + names.map(String::len).iter().sum::<usize>() + events.sum::<usize>()
}

fn event_bytes(event: &Event) -> usize {
    event.reason.len() + event.message.len()
}

/// One `--limit` flag: `[CONTROLLER.]KIND=VALUE`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitRule {
    /// A controller, by name or alias; none: all of them.
    controller: Option<String>,
    kind: LimitKind,
    /// In nanoseconds, bytes or pieces.
    value: u64,
}

impl FromStr for LimitRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let form = || {
            let kinds: Vec<_> = LimitKind::ALL.iter().map(|kind| kind.name()).collect();
            format!("expected [CONTROLLER.]KIND=VALUE with KIND one of {}", kinds.join(", "))
        };
        let (what, value) = text.split_once('=').ok_or_else(form)?;
        // A controller's name may have dots in it.
        let (controller, kind) = match what.rsplit_once('.') {
            Some((controller, kind)) => (Some(controller).filter(|name| *name != "*"), kind),
            None => (None, what),
        };
        let kind = LimitKind::ALL.into_iter().find(|known| known.name() == kind).ok_or_else(form)?;
        if controller == Some("") {
            return Err(form());
        }
        let value = match kind {
            LimitKind::Deadline => nanoseconds(value)?,
            LimitKind::Memory | LimitKind::PlanBytes | LimitKind::StateBytes => bytes(value)?,
            LimitKind::PlanActions | LimitKind::Lookups | LimitKind::LogLines => {
                value.parse().map_err(|_| format!("{value:?} is no whole number"))?
            }
        };
        if value == 0 && kind == LimitKind::Deadline {
            return Err("a deadline of 0 would let no controller run".to_owned());
        }
        if value < LEAST_MEMORY && kind == LimitKind::Memory {
            return Err(format!(
                "a memory of {value} bytes would let no controller run, whose stack alone takes most of a \
                 megabyte: give at least {LEAST_MEMORY} (2Mi)"
            ));
        }
        Ok(Self { controller: controller.map(str::to_owned), kind, value })
    }
}

impl fmt::Display for LimitRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(controller) = &self.controller {
            write!(f, "{controller}.")?;
        }
        match self.kind {
            LimitKind::Deadline => write!(f, "deadline={:?}", Duration::from_nanos(self.value)),
            kind => write!(f, "{}={}", kind.name(), self.value),
        }
    }
}

fn nanoseconds(value: &str) -> Result<u64, String> {
    let nanoseconds =
        goflag::duration(value).ok().and_then(|duration| u64::try_from(duration.as_nanos()).ok());
    nanoseconds.ok_or_else(|| format!("{value:?} is no duration such as 500ms, 5s or 1m30s"))
}

/// Bytes, with the suffixes of Kubernetes quantities.
fn bytes(value: &str) -> Result<u64, String> {
    const SUFFIXES: [(&str, u64); 6] = [
        ("Ki", 1 << 10),
        ("Mi", 1 << 20),
        ("Gi", 1 << 30),
        ("k", 1_000),
        ("M", 1_000_000),
        ("G", 1_000_000_000),
    ];
    let (number, unit) = SUFFIXES
        .iter()
        .find_map(|(suffix, unit)| value.strip_suffix(suffix).map(|number| (number, *unit)))
        .unwrap_or((value, 1));
    let number: Option<u64> = number.parse().ok();
    number
        .and_then(|number| number.checked_mul(unit))
        .ok_or_else(|| format!("{value:?} is no number of bytes such as 65536, 64Ki or 256Mi"))
}

/// All `--limit` flags. What names a controller wins over what names all; of
/// two that say the same the later one wins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LimitRules(Vec<LimitRule>);

impl LimitRules {
    /// These rules.
    pub fn new(rules: Vec<LimitRule>) -> Self {
        Self(rules)
    }

    /// The limits of a controller of this name and these aliases.
    pub fn limits(&self, name: &str, aliases: &[String]) -> Limits {
        let is_called = |word: &str| word == name || aliases.iter().any(|alias| alias == word);
        let mut limits = Limits::default();
        for named in [false, true] {
            let rules = self.0.iter().filter(|rule| match &rule.controller {
                None => !named,
                Some(controller) => named && is_called(controller),
            });
            rules.for_each(|rule| rule.apply(&mut limits));
        }
        limits
    }

    /// Controllers that the flags name.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|rule| rule.controller.as_deref())
    }
}

impl LimitRule {
    fn apply(&self, limits: &mut Limits) {
        let pieces = usize::try_from(self.value).unwrap_or(usize::MAX);
        match self.kind {
            LimitKind::Deadline => {
                limits.deadline = Duration::from_nanos(self.value);
                limits.first_call = limits.deadline;
            }
            LimitKind::Memory => limits.memory = pieces,
            LimitKind::PlanActions => limits.plan_actions = pieces,
            LimitKind::PlanBytes => limits.plan_bytes = pieces,
            LimitKind::Lookups => limits.lookups = pieces,
            LimitKind::LogLines => limits.log_lines = u32::try_from(self.value).unwrap_or(u32::MAX),
            LimitKind::StateBytes => limits.state_bytes = pieces,
        }
    }
}

/// The limits of a controller, for `coxswain status --json`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LimitsStatus {
    /// Seconds of computing in a reconcile.
    pub deadline_seconds: f64,
    /// Bytes of linear memory.
    pub memory_bytes: usize,
    /// Actions in a plan.
    pub plan_actions: usize,
    /// Bytes of a plan.
    pub plan_bytes: usize,
    /// Lookups in a reconcile.
    pub lookups: usize,
    /// Log lines a second.
    pub log_lines: u32,
    /// Bytes of state of a key.
    pub state_bytes: usize,
}

impl From<Limits> for LimitsStatus {
    fn from(limits: Limits) -> Self {
        Self {
            deadline_seconds: limits.deadline.as_secs_f64(),
            memory_bytes: limits.memory,
            plan_actions: limits.plan_actions,
            plan_bytes: limits.plan_bytes,
            lookups: limits.lookups,
            log_lines: limits.log_lines,
            state_bytes: limits.state_bytes,
        }
    }
}

#[cfg(test)]
mod tests;
