//! Watch: from a version, from the present, with initial events, bookmarks and selectors.
//!
//! In: a table's history. Out: batches of items. Invariant: a watcher holds no events of its own; one that falls behind
//! the history is told so with a 410 and ends, it never skips.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use super::options::ListOptions;
use super::read::{FUTURE_WAIT, Filter, parse_version, prefix};
use super::strategy::Kind;
use super::{Call, Rest};
use crate::faults::WatchState;
use crate::status::Status;
use crate::storage::{Change, Event, Range, Stored, Table};

/// Events taken from the history at once.
const BATCH: usize = 256;
/// Bookmarks come about this often.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// The last bookmark comes this long before the end.
const BOOKMARK_BEFORE_END: Duration = Duration::from_secs(2);
/// Shortest life of a watch that names no timeout; up to twice as long.
const LIFE: u64 = 1800;

/// Something for the client.
#[derive(Clone, Debug)]
pub enum Item {
    /// An object under a version.
    Event {
        /// As what it is sent.
        change: Change,
        /// The object.
        object: Arc<Stored>,
        /// The version to show instead of the object's own: it left the selection without being deleted.
        rv: Option<u64>,
    },
    /// Nothing happened up to this version.
    Bookmark {
        /// Version.
        rv: u64,
        /// The initial events are complete.
        initial_end: bool,
    },
    /// The end.
    Error(Status),
}

/// The receiving end of a watch.
pub struct Watcher {
    kind: Arc<Kind>,
    table: Arc<Table>,
    filter: Filter,
    prefix: String,
    position: u64,
    /// A version from the future that the initial events wait for.
    awaited: Option<u64>,
    initial: VecDeque<Arc<Stored>>,
    mark_initial_end: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    end: Instant,
    changed: watch::Receiver<u64>,
    faults: watch::Receiver<WatchState>,
    faults_at_start: WatchState,
    done: bool,
}

impl Rest {
    /// Starts a watch.
    pub fn watch(&self, call: &Call, options: &ListOptions) -> Result<Watcher, Status> {
        let kind = &call.kind;
        let mut fields = options.field_selector.clone();
        if !call.name.is_empty() {
            let term = format!("metadata.name={}", call.name);
            fields = if fields.is_empty() { term } else { format!("{fields},{term}") };
        }
        let filter = Filter::parse(kind, &options.label_selector, &fields)?;
        let given = options.resource_version.as_str();
        let version = parse_version(given).map_err(Status::server_error)?;
        let table = self.table(kind);
        let changed = table.subscribe();
        let prefix = prefix(call);
        let from_present = version == 0 || options.send_initial_events == Some(true);
        let initial_wanted = from_present && options.send_initial_events != Some(false);
        let mut position = version;
        let mut initial = VecDeque::new();
        let future = version > table.version();
        if !future && (from_present || options.send_initial_events == Some(false) && version == 0) {
            let range = Range { prefix: &prefix, ..Range::default() };
            let listing = table.list(&range, &|key, object| filter.matches(key, object)).unwrap_or_default();
            position = listing.rv.max(version);
            if initial_wanted {
                initial = listing.items.into_iter().map(|(_, object)| object).collect();
            }
        }
        let now = Instant::now();
        let life = match options.timeout_seconds {
            Some(seconds) if seconds > 0 => Duration::from_secs(seconds),
            _ => Duration::from_secs(LIFE + self.entropy.below(LIFE)),
        };
        let end = now + life;
        let spread = Duration::from_millis(self.entropy.below(5000));
        let last_call = life.checked_sub(BOOKMARK_BEFORE_END).map(|d| now + d);
        let next_bookmark = match last_call {
            Some(last_call) => last_call.min(now + BOOKMARK_EVERY + spread),
            None => end,
        };
        let faults = self.faults.watch_state(&kind.storage);
        let faults_at_start = *faults.borrow();
        Ok(Watcher {
            kind: kind.clone(),
            table,
            filter,
            prefix,
            position,
            awaited: (future && initial_wanted).then_some(version),
            initial,
            mark_initial_end: options.bookmarks && initial_wanted,
            bookmarks: options.bookmarks,
            next_bookmark,
            end,
            faults_at_start,
            changed,
            faults,
            done: false,
        })
    }
}

impl Watcher {
    /// The kind in whose version events are sent.
    pub fn kind(&self) -> &Arc<Kind> {
        &self.kind
    }

    /// The next items, at least one; none at the end. Cancelling loses nothing.
    pub async fn next(&mut self) -> Option<Vec<Item>> {
        loop {
            if self.done {
                return None;
            }
            let fault = *self.faults.borrow_and_update();
            if fault.closings != self.faults_at_start.closings {
                self.done = true;
                return None;
            }
            if fault.expiries != self.faults_at_start.expiries {
                self.done = true;
                let text = format!("too old resource version: {} (injected)", self.position);
                return Some(vec![Item::Error(Status::expired(text))]);
            }
            if !fault.delay.is_zero() {
                // Events go on gathering in the history meanwhile.
                tokio::time::sleep(fault.delay).await;
            }
            if let Some(version) = self.awaited {
                // Later events up to that version are not sent either, as by the real server: a client that asks for it
                // without initial events gets nothing until the version is reached.
                if !self.reaches(version).await {
                    self.done = true;
                    let current = self.table.version();
                    return Some(vec![Item::Error(Status::version_too_large(version, current))]);
                }
                self.awaited = None;
                let range = Range { prefix: &self.prefix, ..Range::default() };
                let matches = |key: &str, object: &Stored| self.filter.matches(key, object);
                let listing = self.table.list(&range, &matches).unwrap_or_default();
                self.position = listing.rv;
                self.initial = listing.items.into_iter().map(|(_, object)| object).collect();
            }
            if !self.initial.is_empty() {
                let upto = self.initial.len().min(BATCH);
                let items = self.initial.drain(..upto);
                let added = |object| Item::Event { change: Change::Added, object, rv: None };
                return Some(items.map(added).collect());
            }
            if self.mark_initial_end {
                self.mark_initial_end = false;
                return Some(vec![Item::Bookmark { rv: self.position, initial_end: true }]);
            }
            self.changed.mark_unchanged();
            match self.table.events_after(self.position, BATCH) {
                Err(compacted) => {
                    self.done = true;
                    let text = format!("too old resource version: {} ({})", self.position, compacted.floor);
                    return Some(vec![Item::Error(Status::expired(text))]);
                }
                Ok(batch) => {
                    let items: Vec<_> = batch.events.iter().filter_map(|event| self.item(event)).collect();
                    self.position = batch.reached;
                    if !items.is_empty() {
                        return Some(items);
                    }
                    if !batch.events.is_empty() {
                        continue;
                    }
                }
            }
            let bookmark_at = if self.bookmarks { self.next_bookmark } else { self.end };
            tokio::select! {
                result = self.changed.changed() => if result.is_err() {
                    self.done = true;
                },
                // The loop's head looks at what changed.
                result = self.faults.changed() => if result.is_err() {
                    self.done = true;
                },
                () = sleep_until(bookmark_at.min(self.end)) => {
                    if Instant::now() >= self.end {
                        self.done = true;
                    } else {
                        self.next_bookmark = self.following_bookmark();
                        return Some(vec![Item::Bookmark { rv: self.position, initial_end: false }]);
                    }
                }
            }
        }
    }

    /// Waits a little for a version.
    async fn reaches(&self, version: u64) -> bool {
        let deadline = Instant::now() + FUTURE_WAIT;
        while self.table.version() < version {
            if Instant::now() >= deadline {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        true
    }

    fn following_bookmark(&self) -> Instant {
        let now = Instant::now();
        match self.end.checked_sub(BOOKMARK_BEFORE_END) {
            Some(last) if now < last => last.min(now + BOOKMARK_EVERY),
            _ => self.end,
        }
    }

    /// An event as this watcher's selection sees it.
    fn item(&self, event: &Arc<Event>) -> Option<Item> {
        if !event.key.starts_with(&self.prefix) {
            return None;
        }
        let whole = |change| Some(Item::Event { change, object: event.object.clone(), rv: None });
        if self.filter.is_everything() {
            return whole(event.change);
        }
        let now = event.change != Change::Deleted && self.filter.matches(&event.key, &event.object);
        let previous = event.previous.as_ref();
        let before = previous.filter(|object| self.filter.matches(&event.key, object));
        match (before, now) {
            (None, false) => None,
            (None, true) => whole(Change::Added),
            (Some(_), true) => whole(Change::Modified),
            (Some(_), false) if event.change == Change::Deleted => whole(Change::Deleted),
            (Some(old), false) => {
                Some(Item::Event { change: Change::Deleted, object: old.clone(), rv: Some(event.rv) })
            }
        }
    }
}
