//! Which key is due, and when.

use std::collections::{HashSet, VecDeque};

use tokio::time::Instant;

use super::{Dirty, Entry, Inner, Place, Priority, backoff};
use crate::key::{Cause, Key};

impl Inner {
    pub(super) fn has_ready(&self) -> bool {
        !self.normal.is_empty() || !self.low.is_empty()
    }

    /// A wake from outside, which counts if the key was not due already.
    pub(super) fn add(&mut self, key: &Key, cause: Cause, now: Instant) {
        let due = |entry: &Entry| match entry.place {
            Place::Idle => false,
            Place::Ready(_) => true,
            Place::Taken => !entry.dirty.is_clean(),
        };
        if !self.entries.get(key).is_some_and(due) {
            self.measure.added(key);
        }
        self.wake(key, cause, now);
    }

    pub(super) fn wake(&mut self, key: &Key, cause: Cause, now: Instant) {
        let entry = self.entries.entry(key.clone()).or_insert_with(Entry::new);
        if entry.place == Place::Taken {
            match cause {
                Cause::Primary { resource_version } => entry.dirty.primary = Some(resource_version),
                Cause::PrimaryGone => entry.dirty.gone = true,
                Cause::Read => entry.dirty.read = true,
                Cause::Bulk => entry.dirty.bulk = true,
            }
            return;
        }
        let backing_off = entry.backoff_until.is_some_and(|until| until > now);
        let foreign = match cause {
            Cause::Primary { resource_version } => !entry.own_writes.contains(&resource_version),
            Cause::PrimaryGone => true,
            Cause::Read | Cause::Bulk => false,
        };
        if foreign {
            // Somebody changed what we are asked to do: whatever went wrong before is no guide any more.
            entry.writing_plans = 0;
            entry.quiet_until = None;
            self.enqueue(key, Priority::Normal, now);
            return;
        }
        let from_elsewhere = matches!(cause, Cause::Read | Cause::Bulk);
        let mut at = now;
        if backing_off {
            let until = entry.backoff_until.unwrap_or(now);
            let capped = now + backoff::CAP_AFTER_WAKE;
            // That our own write is seen is no reason to hope for more.
            at = if from_elsewhere {
                until.min(entry.slowed_until.map_or(capped, |slowed| slowed.max(capped)))
            } else {
                until
            };
        }
        if let (true, Some(quiet)) = (from_elsewhere, entry.quiet_until) {
            at = at.max(quiet);
        }
        if let Some(rest) = entry.rest_until {
            at = at.max(rest);
        }
        if at > now {
            entry.held = true;
            self.schedule(key, at);
        } else {
            let priority = if cause == Cause::Bulk { Priority::Low } else { Priority::Normal };
            self.enqueue(key, priority, now);
        }
    }

    /// Makes the key due at a time, unless it is due before that.
    pub(super) fn schedule(&mut self, key: &Key, at: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        if matches!(entry.place, Place::Ready(_)) || entry.due.is_some_and(|due| due <= at) {
            return;
        }
        if let Some(due) = entry.due.replace(at) {
            self.due.remove(&(due, key.clone()));
        }
        self.due.insert((at, key.clone()));
    }

    pub(super) fn enqueue(&mut self, key: &Key, priority: Priority, now: Instant) {
        let Some(entry) = self.entries.get_mut(key) else { return };
        entry.held = false;
        if let Some(due) = entry.due.take() {
            self.due.remove(&(due, key.clone()));
        }
        match entry.place {
            Place::Taken => entry.dirty.read = true,
            Place::Ready(Priority::Normal) => {}
            Place::Ready(Priority::Low) if priority == Priority::Low => {}
            Place::Ready(Priority::Low) => {
                entry.place = Place::Ready(Priority::Normal);
                // The key stays in the low list as well; `pop` skips what is not ready there.
                self.normal.push_back(key.clone());
            }
            Place::Idle => {
                entry.place = Place::Ready(priority);
                entry.queued_at = now;
                self.measure.ready(key);
                match priority {
                    Priority::Normal => self.normal.push_back(key.clone()),
                    Priority::Low => self.low.push_back(key.clone()),
                }
            }
        }
    }

    /// Makes ready what is due.
    pub(super) fn promote(&mut self, now: Instant) {
        while let Some((at, _)) = self.due.first() {
            if *at > now {
                break;
            }
            let Some((_, key)) = self.due.pop_first() else { break };
            if let Some(entry) = self.entries.get_mut(&key) {
                entry.due = None;
            }
            self.enqueue(&key, Priority::Normal, now);
        }
    }

    pub(super) fn pop(&mut self, serial: &HashSet<u32>) -> Option<Key> {
        for priority in [Priority::Normal, Priority::Low] {
            let mut blocked = VecDeque::new();
            let mut found = None;
            loop {
                let list = if priority == Priority::Normal { &mut self.normal } else { &mut self.low };
                let Some(key) = list.pop_front() else { break };
                let ready = self.entries.get(&key).is_some_and(|e| e.place == Place::Ready(priority));
                if !ready {
                    continue;
                }
                if serial.contains(&key.source) && self.serial_taken.contains(&key.source) {
                    blocked.push_back(key);
                    continue;
                }
                found = Some(key);
                break;
            }
            let list = if priority == Priority::Normal { &mut self.normal } else { &mut self.low };
            while let Some(key) = blocked.pop_back() {
                list.push_front(key);
            }
            if let Some(key) = found {
                if serial.contains(&key.source) {
                    self.serial_taken.insert(key.source);
                }
                if let Some(entry) = self.entries.get_mut(&key) {
                    entry.place = Place::Taken;
                    entry.dirty = Dirty::default();
                    self.measure.taken(&key, entry.queued_at);
                }
                return Some(key);
            }
        }
        None
    }

    pub(super) fn drop_if_blank(&mut self, key: &Key, now: Instant) {
        if self.entries.get(key).is_some_and(|e| e.is_blank(now)) {
            self.entries.remove(key);
        }
    }
}
