//! Running until every key has been decided once, and telling what was decided.

use std::{sync::Arc, time::Duration};

use futures::stream::{self, StreamExt};
use http::{Method, header};
use serde_json::Value;
use tokio::time::Instant;

use super::Manager;
use crate::{
    api::object_path,
    contract::{self, SyncState},
    controller::Controller,
    plans::{Act, Change, Sensitive, Shown, changes, join},
    preview::{Decision, Failure, NotRun, Planned, PlannedEvent, Preview, Report},
    registry::is_wildcard,
};

/// Pause between two looks at how far controllers have come.
const LOOK: Duration = Duration::from_millis(50);
/// How long an API server that answers nothing is asked.
const CONNECT: Duration = Duration::from_secs(10);
/// How long a resource that cannot be listed is waited for.
const FAILED: Duration = Duration::from_secs(3);
/// Objects that are fetched so that their patches can be shown as changes;
/// past these, patches are shown as they are.
const FETCHED: usize = 1000;
/// Objects fetched at once.
const TOGETHER: usize = 16;
/// How long one of them may take.
const FETCH: Duration = Duration::from_secs(10);

/// How far a controller has come.
enum Progress {
    Done,
    /// It cannot run, and whether that is as it should be.
    NotRun(String, bool),
    Waits(String),
}

impl Manager {
    /// Waits until every controller has decided about every key, for as long as
    /// `limit`, and tells what they decided. For a manager whose gate and
    /// observer are `preview`. The error says why nothing can be found out.
    pub async fn preview(&self, preview: &Preview, limit: Duration) -> Result<Report, String> {
        let started = Instant::now();
        let (mut first_loaded, mut cached) = (false, false);
        let not_run = loop {
            let discovery = self.discovery.borrow().clone();
            let elapsed = started.elapsed();
            if let Some(error) =
                discovery.error.filter(|_| !discovery.complete && elapsed > CONNECT.min(limit))
            {
                return Err(format!("the API server at {} does not answer: {error}", self.server));
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
                if waits.is_empty() {
                    break Ok(not_run);
                }
                if elapsed >= limit {
                    not_run.extend(waits);
                    break Err(not_run);
                }
            } else if elapsed >= limit {
                let what = if first_loaded { "the API server's resources" } else { "the controllers" };
                return Err(format!(
                    "{what} were not loaded within {limit:?}; give more time with --timeout"
                ));
            }
            tokio::time::sleep(LOOK).await;
        };
        Ok(self.report(preview, not_run).await)
    }

    fn running_controllers(&self) -> Vec<Arc<Controller>> {
        self.controllers.lock().values().map(|one| one.controller.clone()).collect()
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

    /// `not_run` is an error if time ran out.
    async fn report(&self, preview: &Preview, not_run: Result<Vec<NotRun>, Vec<NotRun>>) -> Report {
        let controllers = self.running_controllers();
        let manifests: Vec<_> = controllers.iter().map(|c| c.current().module.manifest().clone()).collect();
        let sensitive = Sensitive::of(manifests.iter().flat_map(|manifest| &manifest.reads));
        let complete = not_run.is_ok();
        let mut report = Report {
            server: self.server.clone(),
            complete,
            not_run: not_run.unwrap_or_else(|not_run| not_run),
            ..Report::default()
        };
        for refusal in self.files.lock().refusals(&self.config.controllers_dir) {
            report.not_run.push(NotRun { controller: refusal.file, reason: refusal.reason, expected: false });
        }
        for (controller, key, decision) in preview.decisions() {
            report.keys += 1;
            let key = key.to_string();
            let failure = |reason, retried| Failure {
                controller: controller.clone(),
                key: key.clone(),
                reason,
                retried,
            };
            match decision {
                Decision::Nothing => {}
                Decision::Plan(plan) => {
                    self.add_plan(
                        &mut report,
                        &controller,
                        &key,
                        &Shown::new(&plan, &self.registry, &sensitive),
                    );
                }
                Decision::GaveUp(reason) => report.failures.push(failure(reason, false)),
                Decision::Failed(reason) | Decision::Faulted(reason) => {
                    report.failures.push(failure(reason, true));
                }
            }
        }
        self.add_changes(&mut report, &sensitive).await;
        report
    }

    fn add_plan(&self, report: &mut Report, controller: &str, key: &str, shown: &Shown) {
        let event = |when, event: &crate::plans::Told| PlannedEvent {
            controller: controller.to_owned(),
            key: key.to_owned(),
            when,
            event: event.clone(),
        };
        report.events.extend(shown.events.iter().map(|told| event("always", told)));
        for (step, stage) in (1..).zip(&shown.steps) {
            for act in &stage.actions {
                report.events.extend(act.on_success.iter().map(|told| event("success", told)));
                report.events.extend(act.on_failure.iter().map(|told| event("failure", told)));
                report.actions.push(Planned {
                    controller: controller.to_owned(),
                    key: key.to_owned(),
                    step,
                    act: act.clone(),
                    changes: None,
                });
            }
        }
    }

    /// Fetches what is patched, and says what would change.
    async fn add_changes(&self, report: &mut Report, sensitive: &Sensitive) {
        let patched = |planned: &&mut Planned| matches!(planned.act.verb.as_str(), "patch" | "update");
        let fetched = report.actions.iter_mut().filter(patched).take(FETCHED);
        stream::iter(fetched)
            .for_each_concurrent(TOGETHER, async |planned| {
                planned.changes = self.changes(&planned.act, sensitive).await;
            })
            .await;
    }

    async fn changes(&self, act: &Act, sensitive: &Sensitive) -> Option<Vec<Change>> {
        let numbered = self.registry.all();
        let info = numbered.iter().find(|info| {
            let (group, version, resource) =
                (info.group.clone(), info.version.clone(), info.resource.clone());
            contract::display_name(&contract::GroupResource { group, version, resource }) == act.resource
        })?;
        let name = self.registry.name(info.number)?;
        let path = object_path(&name, &act.namespace, &act.name, &act.subresource);
        let headers = [(header::ACCEPT, "application/json")];
        let fetched = self.api.send(Method::GET, &path, &headers, bytes::Bytes::new(), FETCH).await;
        let fetched = fetched
            .inspect_err(|error| {
                tracing::debug!(object = join(&act.namespace, &act.name), %error, "its patch is shown as it is");
            })
            .ok()?;
        let mut before: Value = serde_json::from_slice(&fetched.body).ok()?;
        sensitive.redact(&name, &mut before);
        changes(act, &before)
    }
}
