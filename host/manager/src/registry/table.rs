//! The registry's table, without locks.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Discovered, DiscoveryDiff, GroupVersion};
use crate::contract::{GroupResource, ResourceInfo, Scope, SyncState};

/// What names a resource in a map.
type NameKey = (String, String, String);

fn key(name: &GroupResource) -> NameKey {
    (name.group.clone(), name.version.clone(), name.resource.clone())
}

/// A numbered resource.
pub(super) struct Entry {
    pub(super) name: GroupResource,
    declared: bool,
    state: SyncState,
    /// As last served; kept after it vanished, since objects of it may still be
    /// spoken of.
    last: Option<Discovered>,
}

/// All tables; `entries[n - 1]` is number n.
#[derive(Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    numbers: HashMap<NameKey, u32>,
    /// Everything that is served, in all versions, so that a later declaration
    /// of a version that no wildcard reads is answered at once.
    served: HashMap<NameKey, Discovered>,
    pub(super) version: u32,
}

impl Table {
    pub(super) fn entry(&self, number: u32) -> Option<&Entry> {
        self.entries.get((number as usize).checked_sub(1)?)
    }

    fn entry_mut(&mut self, number: u32) -> Option<&mut Entry> {
        self.entries.get_mut((number as usize).checked_sub(1)?)
    }

    pub(super) fn served(&self, number: u32) -> Option<&Discovered> {
        self.entry(number)?.last.as_ref()
    }

    pub(super) fn state(&self, number: u32) -> SyncState {
        self.entry(number).map_or(SyncState::Absent, |entry| entry.state)
    }

    pub(super) fn resolve(&self, name: &GroupResource) -> Option<u32> {
        let number = *self.numbers.get(&key(name))?;
        (self.state(number) != SyncState::Absent).then_some(number)
    }

    pub(super) fn declare(&mut self, name: &GroupResource) -> u32 {
        let number = match self.numbers.get(&key(name)) {
            Some(&number) => number,
            None => self.number(name.clone()),
        };
        let entry = &mut self.entries[number as usize - 1];
        // A number that discovery gave is listed already, unless it is absent
        // or not the preferred version.
        let listed = entry.listed();
        entry.declared = true;
        if !listed {
            self.version += 1;
        }
        number
    }

    fn number(&mut self, name: GroupResource) -> u32 {
        let number = self.entries.len() as u32 + 1;
        let last = self.served.get(&key(&name)).cloned();
        let state = if last.is_some() { SyncState::Uncached } else { SyncState::Absent };
        self.numbers.insert(key(&name), number);
        self.entries.push(Entry { name, declared: false, state, last });
        number
    }

    pub(super) fn set_state(&mut self, number: u32, state: SyncState) {
        let Some(entry) = self.entry_mut(number) else { return };
        if entry.state == SyncState::Absent || state == SyncState::Absent || entry.state == state {
            return;
        }
        entry.state = state;
        if entry.listed() {
            self.version += 1;
        }
    }

    pub(super) fn info(&self, number: u32) -> Option<ResourceInfo> {
        self.entry(number).map(|entry| entry.info(number))
    }

    pub(super) fn list(&self) -> Arc<[ResourceInfo]> {
        (1..)
            .zip(&self.entries)
            .filter(|(_, entry)| entry.listed())
            .map(|(number, entry)| entry.info(number))
            .collect()
    }

    pub(super) fn update(
        &mut self,
        discovered: Vec<Discovered>,
        unanswered: &[GroupVersion],
    ) -> DiscoveryDiff {
        let served = self.merge(discovered, unanswered);
        let mut diff = DiscoveryDiff::default();
        let mut changed = false;

        for (number, entry) in (1..).zip(&mut self.entries) {
            let was_listed = entry.listed();
            match served.get(&key(&entry.name)) {
                None => {
                    if entry.state != SyncState::Absent {
                        entry.state = SyncState::Absent;
                        diff.vanished.push(number);
                        changed |= was_listed;
                    }
                }
                Some(now) => {
                    if entry.state == SyncState::Absent {
                        entry.state = SyncState::Uncached;
                        diff.appeared.push(number);
                        changed = true;
                    } else if entry
                        .last
                        .as_ref()
                        .is_some_and(|last| last.kind != now.kind || last.scope != now.scope)
                    {
                        entry.state = SyncState::Uncached;
                        diff.vanished.push(number);
                        diff.appeared.push(number);
                        changed = true;
                    }
                    if entry.last.as_ref() != Some(now) {
                        entry.last = Some(now.clone());
                        changed |= was_listed || entry.listed();
                    }
                }
            }
        }

        self.served = served;
        let mut fresh: Vec<GroupResource> = self
            .served
            .values()
            .filter(|d| d.preferred && !self.numbers.contains_key(&key(&d.name)))
            .map(|d| d.name.clone())
            .collect();
        // By name, so that the numbers do not depend on the map's order.
        fresh.sort_by_cached_key(key);
        for name in fresh {
            diff.appeared.push(self.number(name));
            changed = true;
        }
        if changed {
            self.version += 1;
        }
        diff
    }

    /// What is served now: the discovered, and what is kept of group versions
    /// that did not answer. Of two preferred versions, one of them kept, the
    /// kept one stays so: else a hiccup would move wildcard readers back and
    /// forth.
    fn merge(
        &self,
        discovered: Vec<Discovered>,
        unanswered: &[GroupVersion],
    ) -> HashMap<NameKey, Discovered> {
        let unanswered: HashSet<(&str, &str)> =
            unanswered.iter().map(|gv| (gv.group.as_str(), gv.version.as_str())).collect();
        let kept: Vec<&Discovered> = self
            .served
            .values()
            .filter(|d| unanswered.contains(&(d.name.group.as_str(), d.name.version.as_str())))
            .collect();
        let kept_preferred: HashSet<(&str, &str)> = kept
            .iter()
            .filter(|d| d.preferred)
            .map(|d| (d.name.group.as_str(), d.name.resource.as_str()))
            .collect();
        let mut served = HashMap::with_capacity(discovered.len());
        for mut found in discovered {
            if kept_preferred.contains(&(found.name.group.as_str(), found.name.resource.as_str())) {
                found.preferred = false;
            }
            served.insert(key(&found.name), found);
        }
        for old in kept {
            served.insert(key(&old.name), old.clone());
        }
        served
    }
}

impl Entry {
    fn listed(&self) -> bool {
        self.declared
            || (self.state != SyncState::Absent && self.last.as_ref().is_some_and(|last| last.preferred))
    }

    fn info(&self, number: u32) -> ResourceInfo {
        let (kind, scope, verbs) = match &self.last {
            Some(last) => (last.kind.clone(), last.scope, last.verbs.clone()),
            None => (String::new(), Scope::Namespaced, Vec::new()),
        };
        ResourceInfo {
            number,
            group: self.name.group.clone(),
            version: self.name.version.clone(),
            resource: self.name.resource.clone(),
            kind,
            scope,
            verbs,
            state: self.state,
        }
    }
}
