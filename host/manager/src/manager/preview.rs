//! Letting controllers work on a copy of the cluster until nothing is left to
//! do, and telling what they did.

use std::time::Duration;

use serde_json::Value;
use tokio::time::Instant;

use super::Manager;
use crate::{
    api::query_escape,
    contract::{self, SyncState},
    controller::Controller,
    executor::tell::fill_in,
    plans::{Act, Change, Sensitive, Shown, Told, changes},
    preview::{Decision, Failure, NotRun, Planned, PlannedEvent, Preview, Report, Sandbox, Scene},
    registry::is_wildcard,
};

/// Pause between two looks at how far controllers have come.
const LOOK: Duration = Duration::from_millis(50);
/// How long an API server that answers nothing is asked.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a resource that cannot be listed is waited for.
const FAILED: Duration = Duration::from_secs(3);

/// How far a controller has come.
enum Progress {
    Done,
    /// It cannot run, and whether that is as it should be.
    NotRun(String, bool),
    Waits(String),
}

impl Manager {
    /// Waits until every controller has decided about every key and nothing is
    /// left to do, for as long as `limit`, and tells what was done. For a manager
    /// that was started with `preview`. The error says why nothing can be found
    /// out.
    pub async fn preview(&self, preview: &Preview, limit: Duration) -> Result<Report, String> {
        let started = Instant::now();
        let Some(sandbox) = self.sandbox.clone() else {
            return Err("this manager works on the cluster itself".into());
        };
        let (mut first_loaded, mut cached, mut rested) = (false, false, None);
        let (not_run, stopped) = loop {
            let discovery = self.discovery.borrow().clone();
            let elapsed = started.elapsed();
            if let Some(error) =
                discovery.error.filter(|_| !discovery.complete && elapsed > CONNECT.min(limit))
            {
                let why = error.strip_prefix("no answer: ").unwrap_or(&error);
                return Err(format!("the API server at {} does not answer: {why}", self.server));
            }
            first_loaded = first_loaded || tokio::time::timeout(LOOK, self.first_load()).await.is_ok();
            if first_loaded && discovery.complete {
                cached = cached || self.all_cached(started);
                if cached {
                    preview.all_cached();
                }
                let (mut not_run, mut waits) = (Vec::new(), Vec::new());
                for controller in self.running_controllers() {
                    let note = |reason: String, expected, to: &mut Vec<_>| {
                        to.push(NotRun { controller: controller.name().to_owned(), reason, expected });
                    };
                    match self.preview_progress(&controller, preview, cached, started) {
                        Progress::Done => {}
                        Progress::NotRun(reason, expected) => note(reason, expected, &mut not_run),
                        Progress::Waits(reason) => note(reason, false, &mut waits),
                    }
                }
                if preview.is_stopped() && self.has_settled() {
                    let why = format!("{} writes were tried, and there are more", preview.most_writes());
                    break (not_run, Some(format!("{why}; allow more with --max-writes")));
                }
                // At rest is what is at rest twice, with nothing in between.
                let rests = self.at_rest(&sandbox).filter(|_| waits.is_empty());
                if rests.is_some() && rests == rested {
                    break (not_run, None);
                }
                rested = rests;
                if elapsed >= limit {
                    not_run.extend(waits);
                    let why = format!("time ran out after {limit:?}");
                    break (not_run, Some(format!("{why}; give more with --timeout")));
                }
            } else if elapsed >= limit {
                let what = if first_loaded { "the API server's resources" } else { "the controllers" };
                return Err(format!(
                    "{what} were not loaded within {limit:?}; give more time with --timeout"
                ));
            }
            tokio::time::sleep(LOOK).await;
        };
        let mut report = self.report(preview, &sandbox, not_run, stopped);
        if !report.actions.is_empty() {
            report.not_asked = sandbox.admission().await;
        }
        Ok(report)
    }

    /// Whether a namespace is there, as far as the API server says; who may not look is not told otherwise.
    pub async fn has_namespace(&self, name: &str) -> bool {
        let path = format!("/api/v1/namespaces/{}", query_escape(name));
        !matches!(self.api.get(&path, CONNECT).await, Err(error) if error.failure.status == 404)
    }

    /// Whether nothing is being listed any more.
    fn all_cached(&self, started: Instant) -> bool {
        self.store.wanted().into_iter().all(|number| match self.registry.state(number) {
            SyncState::Synced | SyncState::Absent => true,
            SyncState::Failed => started.elapsed() > FAILED,
            SyncState::Syncing | SyncState::Uncached => false,
        })
    }

    fn preview_progress(
        &self,
        controller: &Controller,
        preview: &Preview,
        cached: bool,
        started: Instant,
    ) -> Progress {
        let loaded = controller.current();
        let name = |number: u32| {
            self.registry.name(number).map(|name| contract::display_name(&name)).unwrap_or_default()
        };
        if let Some(number) = loaded.view.waiting_for().into_iter().next() {
            return match self.registry.state(number) {
                SyncState::Absent => {
                    Progress::NotRun(format!("the cluster does not serve {}", name(number)), true)
                }
                SyncState::Failed if started.elapsed() > FAILED => {
                    let status = self.informers.status().into_iter().find(|one| one.number == number);
                    let trouble = status.and_then(|one| one.trouble).unwrap_or_default();
                    Progress::NotRun(format!("{} cannot be listed: {trouble}", name(number)), false)
                }
                _ => Progress::Waits(format!("{} is still being listed", name(number))),
            };
        }
        if !loaded.view.is_ready() {
            return Progress::Waits("it is still getting ready".into());
        }
        // What reads every resource decides differently before all of them are there.
        let reads_all = loaded.module.manifest().reads.iter().any(|read| is_wildcard(&read.resource));
        if reads_all && !cached {
            return Progress::Waits("the cluster's resources are still being listed".into());
        }
        let keys = loaded.view.keys();
        match preview.undecided(controller.name(), &keys) {
            0 => Progress::Done,
            left => Progress::Waits(format!("{left} of {} keys are not decided", keys.len())),
        }
    }

    /// Whether no key is under way.
    fn has_settled(&self) -> bool {
        self.running_controllers().iter().all(|controller| controller.queue().is_drained())
    }

    /// What has happened so far, if nothing goes on: no key is due, and the
    /// caches show all that was written.
    fn at_rest(&self, sandbox: &Sandbox) -> Option<(u64, u64)> {
        let mut woken = 0;
        for controller in self.running_controllers() {
            if !controller.current().view.is_ready() {
                continue;
            }
            let stats = controller.queue().stats();
            if stats.ready + stats.taken + stats.held > 0 {
                return None;
            }
            woken += stats.adds;
        }
        let behind = |number: u32| {
            let Some(name) = self.registry.name(number) else { return false };
            let written = sandbox.last_change(&name.group, &name.version, &name.resource);
            let synced = self.registry.state(number) == SyncState::Synced;
            synced && written.is_some_and(|written| self.store.observed(number) < Some(written))
        };
        if self.store.wanted().into_iter().any(behind) {
            return None;
        }
        Some((woken, sandbox.version()))
    }

    fn report(
        &self,
        preview: &Preview,
        sandbox: &Sandbox,
        not_run: Vec<NotRun>,
        stopped: Option<String>,
    ) -> Report {
        let controllers = self.running_controllers();
        let manifests: Vec<_> = controllers.iter().map(|c| c.current().module.manifest().clone()).collect();
        let sensitive = Sensitive::of(manifests.iter().flat_map(|manifest| &manifest.reads));
        let mut report = Report {
            server: self.server.clone(),
            complete: stopped.is_none(),
            stopped,
            not_run,
            ..Report::default()
        };
        for refusal in self.files.lock().refusals(&self.config.controllers_dir) {
            report.not_run.push(NotRun { controller: refusal.file, reason: refusal.reason, expected: false });
        }
        for (resource, reason) in sandbox.troubles() {
            let reason =
                format!("writes are played as if there were none, for they cannot be read: {reason}");
            report.not_run.push(NotRun { controller: resource, reason, expected: false });
        }
        for (controller, key, decision) in preview.decisions() {
            report.keys += 1;
            let key = key.to_string();
            let failure = |reason, retried| Failure { controller, key, reason, retried };
            match decision {
                Decision::Settled => {}
                Decision::GaveUp(reason) => report.failures.push(failure(reason, false)),
                Decision::Failed(reason) | Decision::Faulted(reason) => {
                    report.failures.push(failure(reason, true));
                }
            }
        }
        for scene in preview.story().0 {
            self.add_scene(&mut report, sandbox, &sensitive, &scene);
        }
        report
    }

    fn add_scene(&self, report: &mut Report, sandbox: &Sandbox, sensitive: &Sensitive, scene: &Scene) {
        let shown = Shown::new(&scene.plan, &self.registry, sensitive);
        let key = scene.key.to_string();
        let event = |when, event: &Told, name: &str| PlannedEvent {
            controller: scene.controller.clone(),
            key: key.clone(),
            when,
            event: Told { message: fill_in(&event.message, name, ""), ..event.clone() },
        };
        report.events.extend(shown.events.iter().map(|told| event("always", told, "")));
        let acts = (1..)
            .zip(&shown.steps)
            .flat_map(|(step, stage)| stage.actions.iter().map(move |act| (step, act)));
        for (place, (step, act)) in acts.enumerate() {
            let Some((number, done)) = scene.done.get(&place) else { continue };
            report.events.extend(act.on_success.iter().map(|told| event("success", told, &done.name)));
            let mut act = act.clone();
            if act.name.ends_with('*') {
                act.name.clone_from(&done.name);
            }
            let changes = done.version.and_then(|version| self.changes(&act, version, sandbox, sensitive));
            report.actions.push(Planned {
                number: *number,
                follows: scene.follows.clone(),
                controller: scene.controller.clone(),
                key: key.clone(),
                step,
                act,
                changes,
            });
        }
    }

    fn changes(
        &self,
        act: &Act,
        version: u64,
        sandbox: &Sandbox,
        sensitive: &Sensitive,
    ) -> Option<Vec<Change>> {
        if !matches!(act.verb.as_str(), "patch" | "update") {
            return None;
        }
        let numbered = self.registry.all();
        let name = numbered.iter().filter_map(|info| self.registry.name(info.number));
        let name = name.into_iter().find(|name| contract::display_name(name) == act.resource)?;
        let shown = |object: &Value| {
            let mut object = object.clone();
            sensitive.redact(&name, &mut object);
            object
        };
        sandbox.with_written(version, |written| {
            Some(changes(&shown(written.before.as_ref()?), &shown(&written.after)))
        })?
    }
}
