//! Replays: recorded reconciles, decided once more by a module.
//!
//! In: a recording and a module. Out: for each reconcile whether the module
//! decides as the recorded one did, what it would do instead, or what the
//! recording lacks to tell. Invariant: each round is decided by a fresh
//! instance, so that what a module remembers between calls shows as a
//! difference.

mod fields;
mod show;
mod snapshot;

use std::{collections::BTreeSet, ops::ControlFlow, path::PathBuf, sync::Arc};

use serde::Serialize;

use super::{
    format::{Ended, ModuleLine},
    read::{Facts, ReadError, Recorded, Recording, Round},
    redact::Sensitive,
};
use crate::{
    clock,
    contract::{
        Answer, GroupResource, Level, Lookup, Manifest, OptionKind, Outcome, Request, ResourceInfo,
        SyncState, WireKey,
    },
    engine::{Fault, LogSink, Module},
    manager::options::as_handed,
    registry::is_wildcard,
};
use fields::Fields;
use snapshot::{Lacks, Replayed};

/// Rounds of lookups that one reconcile may take, as when it runs for real.
const MAX_ROUNDS: usize = 16;

/// What to replay.
#[derive(Clone, Debug, Default)]
pub struct ReplayOptions {
    /// Only this key (`namespace/name` or `name`).
    pub key: Option<String>,
    /// Differences and gaps that are told one by one; the rest is only counted.
    pub shown: usize,
}

/// What a replay found.
#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Report {
    /// The controller.
    pub controller: String,
    /// SHA-256 of the module that was replayed.
    pub hash: String,
    /// Hashes of the modules that were recorded.
    pub recorded: BTreeSet<String>,
    /// Reconciles that were replayed.
    pub reconciles: u64,
    /// Those decided in the same way, byte for byte.
    pub same: u64,
    /// Those decided otherwise.
    pub different: u64,
    /// Those for which the recording lacks something.
    pub incomplete: u64,
    /// Those that had not come to an end when they were recorded.
    pub unfinished: u64,
    /// Reconciles (of all controllers) that were not recorded for want of room.
    pub dropped: u64,
    /// Files that were cut off.
    pub cut: Vec<String>,
    /// Files that are damaged; what stands behind the damage is lost.
    pub damaged: Vec<String>,
    /// The first differences.
    pub differences: Vec<Difference>,
    /// The first gaps.
    pub gaps: Vec<Gap>,
}

/// A reconcile that was decided otherwise.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Difference {
    /// The key.
    pub key: String,
    /// When it was recorded.
    pub at: jiff::Timestamp,
    /// Hash of the module that was recorded.
    pub recorded: String,
    /// What was decided then (`-`) and now (`+`), as a unified diff.
    pub diff: String,
}

/// A reconcile for which the recording lacks something.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Gap {
    /// The key.
    pub key: String,
    /// When it was recorded.
    pub at: jiff::Timestamp,
    /// What is not recorded.
    pub not_recorded: Vec<String>,
}

/// Replays all that a recording holds of the module's controller. Blocking.
pub fn replay(recording: &Recording, module: &Module, options: &ReplayOptions) -> Result<Report, ReadError> {
    let name = module.manifest().name.clone();
    let mut replayer = Replayer {
        module,
        sensitive: Sensitive::of(module.manifest()),
        shown: options.shown,
        fields: None,
        report: Report { controller: name.clone(), hash: module.hash().to_owned(), ..Report::default() },
    };
    let facts = recording.each(
        |recorded| recorded == name,
        |recorded| {
            if options.key.as_ref().is_none_or(|key| *key == show_key(&recorded.key)) {
                replayer.one(Arc::new(recorded));
            }
            ControlFlow::Continue(())
        },
    )?;
    let mut report = replayer.report;
    report.dropped = facts.dropped;
    let places = |files: &[(PathBuf, u64)]| {
        files.iter().map(|(path, lines)| format!("{} after line {lines}", path.display())).collect()
    };
    report.cut = places(&facts.cut);
    report.damaged = places(&facts.damaged);
    Ok(report)
}

/// Which controllers a recording holds, and what else it says of itself.
pub fn survey(recording: &Recording) -> Result<Facts, ReadError> {
    recording.each(|_| false, |_| ControlFlow::Continue(()))
}

fn show_key(key: &WireKey) -> String {
    if key.namespace.is_empty() { key.name.clone() } else { format!("{}/{}", key.namespace, key.name) }
}

/// A replay under way.
struct Replayer<'a> {
    module: &'a Module,
    sensitive: Sensitive,
    shown: usize,
    /// The fields of the module last met; many reconciles in a row have the same.
    fields: Option<(Arc<ModuleLine>, Arc<[ResourceInfo]>, Arc<Fields>)>,
    report: Report,
}

impl Replayer<'_> {
    fn one(&mut self, recorded: Arc<Recorded>) {
        self.report.reconciles += 1;
        self.report.recorded.insert(recorded.module.hash.clone());
        let (key, at) = (show_key(&recorded.key), clock::from_wire(recorded.now));
        let then = recorded.rounds.last().and_then(|round| round.ended.clone());
        let Some(then) = then.filter(|then| !matches!(then, Ended::Outcome(Outcome::Lookups(_)))) else {
            self.report.unfinished += 1;
            return;
        };
        let mut lacks = Lacks::default();
        match self.run(&recorded, &mut lacks) {
            Some(now) if lacks.is_empty() && now == then => self.report.same += 1,
            Some(now) if lacks.is_empty() => {
                self.report.different += 1;
                if self.report.differences.len() < self.shown {
                    let diff = show::diff(&then, &now, &recorded);
                    let recorded = recorded.module.hash.clone();
                    self.report.differences.push(Difference { key, at, recorded, diff });
                }
            }
            _ => {
                self.report.incomplete += 1;
                if self.report.gaps.len() < self.shown {
                    self.report.gaps.push(Gap { key, at, not_recorded: lacks.into_texts() });
                }
            }
        }
    }

    /// What the module decides; none if the recording lacks too much to tell.
    fn run(&mut self, recorded: &Arc<Recorded>, lacks: &mut Lacks) -> Option<Ended> {
        let mut request = request(self.module.manifest(), recorded, lacks)?;
        for at in 0..MAX_ROUNDS {
            let round = recorded.rounds.get(at).or(recorded.rounds.last())?;
            request.primary = round.primary;
            request.resources = numbers(self.module.manifest(), recorded, round);
            let snapshot = Replayed::new(recorded.clone(), at, self.fields(recorded, round));
            let result = self.call(&request, snapshot, lacks);
            if !lacks.missing.is_empty() {
                return None;
            }
            let mut outcome = match result {
                Ok(Outcome::Lookups(asks)) if !asks.is_empty() => {
                    look_up(recorded, asks, &mut request, lacks)?;
                    continue;
                }
                Ok(outcome) => outcome,
                Err(fault) => return Some(Ended::from(&fault)),
            };
            if recorded.redacted {
                self.sensitive.outcome(&mut outcome, |number| name_of(recorded, number));
            }
            return Some(Ended::Outcome(outcome));
        }
        Some(Ended::Refused(format!("it asked for lookups in {MAX_ROUNDS} rounds and came to no plan")))
    }

    fn call(&self, request: &Request, snapshot: Replayed, lacks: &mut Lacks) -> Result<Outcome, Fault> {
        let mut instance = self.module.instantiate()?;
        let (result, snapshot) = instance.reconcile(request, Box::new(snapshot), Arc::new(Silent));
        if let Ok(replayed) = snapshot.into_any().downcast::<Replayed>() {
            lacks.extend(replayed.lacks);
        }
        result
    }

    fn fields(&mut self, recorded: &Recorded, round: &Round) -> Arc<Fields> {
        if let Some((module, resources, fields)) = &self.fields
            && Arc::ptr_eq(module, &recorded.module)
            && Arc::ptr_eq(resources, &round.resources)
        {
            return fields.clone();
        }
        let fields = Fields::new(&recorded.module.manifest, self.module.manifest(), &round.resources);
        let fields = Arc::new(fields);
        self.fields = Some((recorded.module.clone(), round.resources.clone(), fields.clone()));
        fields
    }
}

/// Adds the recorded answers to a request; none if one is missing.
fn look_up(recorded: &Recorded, asks: Vec<Lookup>, request: &mut Request, lacks: &mut Lacks) -> Option<()> {
    for lookup in asks {
        match answer(recorded, &lookup.ask) {
            Some((found, left_out)) => {
                if left_out {
                    lacks.left_out.insert(format!("the answer to {}", show::ask(&lookup.ask)));
                }
                request.answers.push(Answer { id: lookup.id, result: found.result.clone() });
            }
            None => {
                lacks.missing.insert(format!("the answer to {}", show::ask(&lookup.ask)));
            }
        }
    }
    lacks.missing.is_empty().then_some(())
}

/// The first request, in the terms of the module that is replayed.
fn request(manifest: &Manifest, recorded: &Recorded, lacks: &mut Lacks) -> Option<Request> {
    let then = &recorded.module.manifest;
    let source = then.sources.get(recorded.key.source as usize).map(|source| source.name.as_str())?;
    let Some(position) = manifest.sources.iter().position(|own| own.name == source) else {
        lacks.missing.insert(format!("keys for this module: it has no key source {source:?}"));
        return None;
    };
    let accepts = recorded.state_format == manifest.state_format
        || manifest.accepts_state_formats.contains(&recorded.state_format);
    let state = recorded.state.clone().filter(|_| accepts);
    Some(Request {
        key: WireKey { source: position as u32, ..recorded.key.clone() },
        primary: None,
        resources: Vec::new(),
        now: recorded.now,
        seed: recorded.seed,
        state_format: if state.is_some() { recorded.state_format } else { 0 },
        state,
        results: recorded.results.clone(),
        answers: Vec::new(),
        options: options(manifest, recorded),
    })
}

pub(super) fn options(manifest: &Manifest, recorded: &Recorded) -> Vec<String> {
    let then = &recorded.module.manifest.options;
    // Older hosts recorded decimals as they were given.
    let value = |name: &str| {
        let at = then.iter().position(|option| option.name == name)?;
        recorded.module.options.get(at).map(|value| as_handed(then[at].kind, value.clone()))
    };
    let default = |kind: OptionKind, default: &String| match kind {
        OptionKind::File => String::new(),
        _ => default.clone(),
    };
    manifest
        .options
        .iter()
        .map(|own| value(&own.name).unwrap_or_else(|| default(own.kind, &own.default)))
        .collect()
}

/// Numbers of the resources that the module's manifest names.
fn numbers(manifest: &Manifest, recorded: &Recorded, round: &Round) -> Vec<u32> {
    let names = |manifest: &Manifest| -> Vec<GroupResource> {
        let reads = manifest.reads.iter().map(|read| read.resource.clone());
        reads.chain(manifest.writes.iter().map(|write| write.resource.clone())).collect()
    };
    let (now, then) = (names(manifest), names(&recorded.module.manifest));
    let number = |name: &GroupResource| {
        if is_wildcard(name) {
            return 0;
        }
        if let Some(at) = then.iter().position(|own| own == name) {
            return round.numbers.get(at).copied().unwrap_or(0);
        }
        let mut served = round.resources.iter().filter(|info| info.state != SyncState::Absent);
        served
            .find(|info| {
                info.group == name.group && info.version == name.version && info.resource == name.resource
            })
            .map_or(0, |info| info.number)
    };
    now.iter().map(number).collect()
}

fn name_of(recorded: &Recorded, number: u32) -> Option<GroupResource> {
    let mut all = recorded.rounds.iter().flat_map(|round| round.resources.iter());
    let info = all.find(|info| info.number == number)?;
    Some(GroupResource {
        group: info.group.clone(),
        version: info.version.clone(),
        resource: info.resource.clone(),
    })
}

/// The recorded answer to a lookup, and whether it was left out.
fn answer<'a>(recorded: &'a Recorded, ask: &crate::contract::Ask) -> Option<(&'a Answer, bool)> {
    for (round, next) in recorded.rounds.iter().zip(recorded.rounds.iter().skip(1)) {
        let Some(Ended::Outcome(Outcome::Lookups(asks))) = &round.ended else { continue };
        let asked = asks.iter().filter(|lookup| lookup.ask == *ask);
        for lookup in asked {
            if let Some(answer) = next.answers.iter().find(|answer| answer.id == lookup.id) {
                return Some((answer, next.redacted.contains(&answer.id)));
            }
        }
    }
    None
}

/// Lines of replayed modules go nowhere: they were logged when it was real.
struct Silent;

impl LogSink for Silent {
    fn log(&self, _: Level, _: &str) {}
}
