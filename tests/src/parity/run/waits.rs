//! Waits, and the choice of objects that steps work on.

use std::time::{Duration, Instant};

use anyhow::bail;
use serde_json::Value;

use super::Run;
use crate::parity::{
    expr::Exprs,
    object::{self, duration_or, list, text},
    recorder::Known,
};

/// How long a choice of objects may take to come true.
const CHOICE: Duration = Duration::from_secs(5);

/// A resource, perhaps a name, and a namespace.
pub(super) struct Place {
    pub resource: String,
    pub namespace: String,
    pub name: String,
}

/// What a wait is for.
struct Condition<'s> {
    place: Place,
    spec: &'s Value,
    that: Exprs,
    wanted: Exprs,
}

impl Condition<'_> {
    fn holds(&self, known: &Known) -> bool {
        let Place { resource, namespace, name } = &self.place;
        let gone = self.spec["gone"].as_bool().unwrap_or_default();
        if !name.is_empty() {
            if !known.fresh(resource, namespace, name) {
                return false;
            }
            let object = known.object(resource, namespace, name);
            return if gone { object.is_none() } else { object.is_some_and(|o| self.that.hold(o)) };
        }
        let parts = list(&self.spec["names"]);
        let named =
            |o: &Value| parts.is_empty() || parts.iter().any(|part| object::name(o).contains(text(part)));
        let objects = known.list(resource, namespace, text(&self.spec["select"]));
        let objects: Vec<_> = objects.into_iter().filter(|o| self.wanted.hold(o) && named(o)).collect();
        if gone {
            return objects.is_empty();
        }
        let good = objects.iter().filter(|o| self.that.hold(o)).count() as u64;
        let all = objects.len() as u64;
        if self.spec["total"].as_u64().is_some_and(|total| total != all) {
            return false;
        }
        match (self.spec["count"].as_u64(), self.spec["at-least"].as_u64()) {
            (Some(count), _) => good == count,
            (_, Some(least)) => good >= least,
            _ => all > 0 && good == all,
        }
    }
}

impl Run<'_> {
    /// Where a step works: `deployments/web`, or `deployments`.
    pub(super) async fn place(&self, spec: &Value) -> anyhow::Result<Place> {
        let on = text(&spec["on"]);
        let (resource, name) = on.split_once('/').unwrap_or((on, ""));
        if resource.is_empty() {
            bail!("on: a resource is missing");
        }
        let entry = self.plane.api.entry(resource).await?;
        let namespace = match (entry.namespaced, spec["ns"].as_str()) {
            (false, _) => "",
            (true, Some(other)) => other,
            (true, None) => &self.namespace,
        };
        self.plane.recorder.add(resource).await?;
        Ok(Place { resource: resource.into(), namespace: namespace.into(), name: name.into() })
    }

    /// The names a step works on: one by name, or a choice by selector.
    pub(super) async fn pick(&self, spec: &Value) -> anyhow::Result<(Place, Vec<String>)> {
        let place = self.place(spec).await?;
        if !place.name.is_empty() {
            let names = vec![place.name.clone()];
            return Ok((place, names));
        }
        let wanted = Exprs::read(&spec["where"])?;
        let choose = |known: &Known| -> Vec<_> {
            let objects = known.list(&place.resource, &place.namespace, text(&spec["select"]));
            objects.into_iter().filter(|o| wanted.hold(o)).collect()
        };
        self.plane.recorder.wait(CHOICE, |known| !choose(known).is_empty()).await;
        let mut chosen = choose(&self.plane.recorder.known());
        if spec["sort"] == "created" {
            chosen.sort_by_key(|o| {
                (text(&o["metadata"]["creationTimestamp"]).to_owned(), object::name(o).to_owned())
            });
        }
        let number = |key: &str| spec[key].as_u64().map(|n| n as usize);
        chosen.truncate(number("first").unwrap_or(usize::MAX));
        if let Some(index) = number("index") {
            chosen = chosen.into_iter().skip(index).take(1).collect();
        }
        if chosen.is_empty() && !spec["none-ok"].as_bool().unwrap_or_default() {
            bail!("nothing is selected by {spec}");
        }
        let names = chosen.iter().map(|o| object::name(o).to_owned()).collect();
        Ok((place, names))
    }

    async fn condition<'s>(&self, spec: &'s Value) -> anyhow::Result<Condition<'s>> {
        let place = self.place(spec).await?;
        Ok(Condition { place, spec, that: Exprs::read(&spec["that"])?, wanted: Exprs::read(&spec["where"])? })
    }

    /// Whether a wait would be over now. The resource must be watched.
    pub(super) fn condition_now(&self, spec: &Value) -> anyhow::Result<bool> {
        let on = text(&spec["on"]);
        let (resource, name) = on.split_once('/').unwrap_or((on, ""));
        let known = self.plane.recorder.known();
        // Objects without a namespace are kept under none.
        let cluster_wide = known.all(resource).any(|o| object::namespace(o).is_empty());
        let namespace = if cluster_wide { "" } else { spec["ns"].as_str().unwrap_or(&self.namespace) };
        let place = Place { resource: resource.into(), namespace: namespace.into(), name: name.into() };
        let condition = Condition {
            place,
            spec,
            that: Exprs::read(&spec["that"])?,
            wanted: Exprs::read(&spec["where"])?,
        };
        Ok(condition.holds(&known))
    }

    /// Waits; an optional wait may fail.
    pub(super) async fn wait(&mut self, spec: &Value) -> anyhow::Result<()> {
        let condition = self.condition(spec).await?;
        let hold = duration_or(&spec["hold"], Duration::ZERO)?;
        let mut limit = duration_or(&spec["timeout"], Duration::from_secs(15))?;
        let optional = spec["optional"].as_bool().unwrap_or_default();
        let right = self.scenario.right.as_ref().and_then(|right| right.waits.get(text(&spec["name"])));
        if !optional || right.is_some_and(|right| right == true) {
            limit *= self.plane.patience();
        }
        let end = Instant::now() + limit;
        let recorder = &self.plane.recorder;
        let came = loop {
            let left = end.saturating_duration_since(Instant::now());
            let mut came = recorder.wait(left, |known| condition.holds(known)).await;
            if came && hold > Duration::ZERO {
                let broken = recorder.wait(hold, |known| !condition.holds(known)).await;
                if broken && Instant::now() < end {
                    continue;
                }
                came = !broken;
            }
            break came;
        };
        if let Some(name) = spec["name"].as_str() {
            self.waits.insert(name.into(), came.into());
        }
        if !came && !optional {
            bail!("in vain: {spec}\n{}", self.look(&condition.place));
        }
        Ok(())
    }

    /// Waits for what must not come.
    pub(super) async fn never(&mut self, spec: &Value) -> anyhow::Result<()> {
        let condition = self.condition(spec).await?;
        let time = duration_or(&spec["for"], Duration::from_secs(3))?;
        if self.plane.recorder.wait(time, |known| condition.holds(known)).await {
            self.violations.push(text(&spec["name"]).into());
        }
        Ok(())
    }

    /// What a wait in vain last saw.
    fn look(&self, place: &Place) -> String {
        let known = self.plane.recorder.known();
        let objects = match place.name.as_str() {
            "" => known.list(&place.resource, &place.namespace, ""),
            name => known.object(&place.resource, &place.namespace, name).cloned().into_iter().collect(),
        };
        let shown: Vec<String> =
            objects.iter().take(5).map(|o| format!("    {} {}", object::name(o), o["status"])).collect();
        format!("there are {} {}:\n{}", objects.len(), place.resource, shown.join("\n"))
    }
}
