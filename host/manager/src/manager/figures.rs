//! The manager at a scrape.

use std::{
    collections::HashMap,
    sync::{Arc, atomic::Ordering},
};

use super::{Manager, state_name};
use crate::{
    api::ApiClient,
    contract,
    controller::Controller,
    metrics::{LeaseFigures, Metrics, ResourceFigures, Scraped},
};

impl Manager {
    /// What is measured.
    pub fn metrics(&self) -> &Metrics {
        &self.shared.metrics
    }

    /// All metrics, as text.
    pub fn metrics_text(&self) -> String {
        self.shared.metrics.text(&self.figures())
    }

    /// How the controllers fare: an error is a reason for which a restart would
    /// help or, if asked whether the manager is `ready`, one to wait.
    pub fn health(&self, ready: bool) -> Vec<(String, Result<(), String>)> {
        let mut checks = Vec::new();
        if ready {
            let loaded = *self.first_load.borrow();
            checks.push((
                "modules".to_owned(),
                loaded.then_some(()).ok_or("not all modules are loaded yet".to_owned()),
            ));
        }
        let lease = match self.election().healthy_for() {
            Some(left) if left.is_zero() => Err("a lease could not be renewed for too long".to_owned()),
            _ => Ok(()),
        };
        checks.push(("leaderElection".to_owned(), lease));
        let ended: Vec<String> = {
            let controllers = self.controllers.lock();
            controllers
                .iter()
                .filter(|(_, one)| one.task.is_finished())
                .map(|(name, _)| name.clone())
                .collect()
        };
        for one in self.running_controllers() {
            let name = one.name();
            let waits = if ready { one.status().waiting_for } else { Vec::new() };
            let outcome = if ended.iter().any(|ended| ended == name) {
                Err("its loop has ended".to_owned())
            } else if waits.is_empty() {
                Ok(())
            } else {
                Err(format!("waits for {}", waits.join(", ")))
            };
            checks.push((name.to_owned(), outcome));
        }
        checks
    }

    /// Bytes of linear memory of each controller's instance.
    pub fn module_memory(&self) -> Vec<(String, usize)> {
        let memory = |one: &Arc<Controller>| (one.name().to_owned(), one.current().memory());
        self.running_controllers().iter().map(memory).collect()
    }

    /// The client of the API server.
    pub fn api(&self) -> &ApiClient {
        &self.api
    }

    /// The time, by the manager's clock.
    pub fn now(&self) -> jiff::Timestamp {
        self.config.clock.now()
    }

    /// When it started.
    pub fn started(&self) -> jiff::Timestamp {
        self.started
    }

    fn leases(&self) -> Vec<LeaseFigures> {
        let held = self.election().master_status();
        let mut leases: Vec<LeaseFigures> = held
            .into_iter()
            .map(|(name, held)| LeaseFigures { name, held, ..LeaseFigures::default() })
            .collect();
        self.election().counters(|name, counters| {
            let Some(lease) = leases.iter_mut().find(|lease| lease.name == name) else { return };
            lease.slow_renewals = counters.slow_renewals.load(Ordering::Relaxed);
            lease.terms = counters.terms.load(Ordering::Relaxed);
            lease.losses = counters.losses.load(Ordering::Relaxed);
        });
        leases
    }

    fn figures(&self) -> Scraped {
        let controllers = self.running_controllers();
        let informers: HashMap<u32, _> =
            self.informers.status().into_iter().map(|one| (one.number, (one.lists, one.watches))).collect();
        let resources = self.store.stats().into_iter().filter_map(|stats| {
            let name = self.registry.name(stats.resource)?;
            let (lists, watches) = informers.get(&stats.resource).copied().unwrap_or_default();
            Some(ResourceFigures {
                resource: contract::display_name(&name),
                state: state_name(self.registry.state(stats.resource)),
                objects: stats.objects,
                bytes: stats.bytes,
                lists,
                watches,
            })
        });
        let discovery = self.discovery.borrow().clone();
        Scraped {
            queues: controllers.iter().flat_map(|one| one.queue().working()).collect(),
            controllers: controllers.iter().map(|one| one.figures()).collect(),
            resources: resources.collect(),
            leases: self.leases(),
            refused: self.files.lock().refusals(&self.config.controllers_dir).len(),
            connected: discovery.complete && discovery.error.is_none(),
            events_dropped: self.events.dropped(),
            clock_jumps: self.clock_jumps.load(Ordering::Relaxed),
        }
    }
}
