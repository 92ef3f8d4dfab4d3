//! One informer: lists a resource and follows it, until it is cancelled.
//!
//! In: answers of the API server. Out: objects, deletions and bookmarks in the
//! store, the state in the registry. Invariant: what the store holds was true at
//! the resourceVersion that it has observed; doubt leads to a new list, which
//! replaces the old at once.

use std::{convert::Infallible, sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

use super::{
    Shared, Target,
    backoff::Backoff,
    reader::{Listed, Reader, unreadable},
    stream::Stream,
    trouble::Trouble,
    wire::{self, Event},
};
use crate::{
    api::ApiError,
    contract::{GroupResource, SyncState},
    store::Object,
    traces::{WatchEvent, attribute},
};

/// So many relists in a row may fail before what is cached counts as failed.
const PATIENCE: u32 = 4;
/// A watch that lived for so long did its work, even if nothing happened.
const LONG_LIVED: Duration = Duration::from_secs(30);
/// How long a watch lasts that is opened for the sake of a bookmark: the server
/// sends one shortly before the end.
const SHORT_WATCH: Duration = Duration::from_secs(5);
/// A server need not know that nothing happened to a resource; after so many
/// watches without that bookmark a list says where things stand.
const SHORT_WATCHES: u32 = 2;

/// An informer's state.
pub(super) struct Follower {
    shared: Arc<Shared>,
    number: u32,
    name: GroupResource,
    backoff: Backoff,
    /// Whether lists are asked for as streams; until the server does not know them.
    streaming: bool,
    /// Lists that failed since the last one that did not.
    failures: u32,
    /// Up to where somebody waits for the cache to come.
    target: watch::Receiver<Target>,
    /// Watches opened for a bookmark that did not come.
    short_watches: u32,
    /// Ticks when the union of fields may have changed.
    wanted: watch::Receiver<u64>,
    /// Last resourceVersion passed.
    resource_version: String,
}

/// How a watch ended.
enum End {
    /// Go on where it ended.
    Reopen,
    /// The same, after a while.
    ReopenLater(Option<Trouble>),
    /// List anew.
    Relist,
    /// The same, after a while.
    RelistLater(Trouble),
}

impl Follower {
    pub(super) fn new(
        shared: Arc<Shared>,
        number: u32,
        name: GroupResource,
        target: watch::Receiver<Target>,
    ) -> Self {
        let backoff = Backoff::new(shared.entropy.clone());
        let wanted = shared.store.wanted_changes();
        let resource_version = String::new();
        Self {
            shared,
            number,
            name,
            backoff,
            streaming: true,
            failures: 0,
            target,
            short_watches: 0,
            wanted,
            resource_version,
        }
    }

    pub(super) async fn run(mut self) -> Infallible {
        loop {
            self.wanted.mark_unchanged();
            let spec = self.shared.store.prune_spec(self.number);
            let reader = Reader::new(self.shared.api.clone(), &self.name, spec);
            let begun = Instant::now();
            match self.list(&reader).await {
                Ok((listed, stream)) => {
                    self.shared.lists_begun.lock().insert(self.number, begun);
                    self.listed(listed);
                    self.follow(&reader, stream).await;
                }
                Err(trouble) => {
                    self.failures = self.failures.saturating_add(1);
                    self.report(&trouble, self.failures >= PATIENCE);
                    self.pause(Some(&trouble)).await;
                }
            }
        }
    }

    async fn list(&mut self, reader: &Reader) -> Result<(Listed, Option<Stream>), Trouble> {
        if self.streaming {
            match reader.list_streaming(self.promise()).await {
                Ok((listed, stream)) => {
                    self.shared.status.count(self.number, 0, 1);
                    return Ok((listed, Some(stream)));
                }
                Err(trouble) if trouble.no_streaming_list() => {
                    tracing::debug!(resource = %self.label(), %trouble, "listing in pages");
                    self.streaming = false;
                }
                Err(trouble) => return Err(trouble),
            }
        }
        Ok((reader.list().await?, None))
    }

    fn listed(&mut self, listed: Listed) {
        self.failures = 0;
        tracing::debug!(resource = %self.label(), objects = listed.objects.len(), resource_version = listed.resource_version, "listed");
        self.shared.store.replace(self.number, listed.objects, &listed.resource_version);
        self.resource_version = listed.resource_version;
        self.shared.status.count(self.number, 1, 0);
        self.synced();
    }

    /// Watches, over as many connections as it takes, until a list is due.
    async fn follow(&mut self, reader: &Reader, mut stream: Option<Stream>) {
        loop {
            if self.fields_changed(reader) || self.short_watches >= SHORT_WATCHES {
                self.short_watches = 0;
                return;
            }
            let mut open = match stream.take() {
                Some(open) => open,
                None => match self.watch(reader).await {
                    Ok(open) => {
                        self.shared.status.count(self.number, 0, 1);
                        self.synced();
                        open
                    }
                    Err(trouble) if trouble.expired() => {
                        self.pause(Some(&trouble)).await;
                        return;
                    }
                    Err(trouble) => {
                        // What is cached stays true as of its resourceVersion;
                        // only a refusal means that it will not be followed.
                        self.report(&trouble, false);
                        self.pause(Some(&trouble)).await;
                        continue;
                    }
                },
            };
            let end = self.drain(reader, &mut open).await;
            if open.lines > 0 || open.age() >= LONG_LIVED {
                self.backoff.reset();
            }
            match end {
                End::Reopen => {}
                End::ReopenLater(trouble) => {
                    if let Some(trouble) = &trouble {
                        self.report(trouble, false);
                    }
                    self.pause(trouble.as_ref()).await;
                }
                End::Relist => return,
                End::RelistLater(trouble) => {
                    // To be forgotten is in the ordinary run of things.
                    if !trouble.expired() {
                        self.report(&trouble, matches!(trouble, Trouble::Unreadable(_)));
                    }
                    self.pause(Some(&trouble)).await;
                    return;
                }
            }
        }
    }

    async fn watch(&mut self, reader: &Reader) -> Result<Stream, Trouble> {
        let promise = self.promise();
        reader.watch(&self.resource_version, promise).await
    }

    /// Reads one connection to its end.
    async fn drain(&mut self, reader: &Reader, stream: &mut Stream) -> End {
        loop {
            let next = tokio::select! {
                next = stream.next() => next,
                Ok(()) = self.wanted.changed() => {
                    if self.fields_changed(reader) { return End::Relist }
                    continue;
                }
                Ok(()) = self.target.changed() => {
                    if self.is_behind() {
                        return if self.target.borrow().by_list { End::Relist } else { End::Reopen };
                    }
                    continue;
                }
            };
            match next {
                Ok(Some(range)) => {
                    if let Err(end) = self.apply(reader, stream.line(range)) {
                        return end;
                    }
                }
                Ok(None)
                    if stream.ran_its_time()
                        || (stream.lines > 0 && stream.age() >= Duration::from_secs(1)) =>
                {
                    return End::Reopen;
                }
                Ok(None) => return End::ReopenLater(None),
                Err(trouble @ Trouble::Unreadable(_)) => return End::RelistLater(trouble),
                Err(trouble) => return End::ReopenLater(Some(trouble)),
            }
        }
    }

    fn apply(&mut self, reader: &Reader, line: &[u8]) -> Result<(), End> {
        let store = &self.shared.store;
        match wire::parse_event(line).map_err(|e| End::RelistLater(unreadable(e)))? {
            Event::Added(raw) | Event::Modified(raw) => {
                let object = reader.object(raw).map_err(End::RelistLater)?;
                let _event = self.traced("added or modified", &object);
                self.resource_version = object.resource_version().to_string();
                store.upsert(self.number, object);
            }
            Event::Deleted(raw) => {
                let object = reader.object(raw).map_err(End::RelistLater)?;
                let _event = self.traced("deleted", &object);
                self.resource_version = object.resource_version().to_string();
                store.remove(self.number, &object);
            }
            Event::Bookmark { resource_version, .. } => {
                store.bookmark(self.number, &resource_version);
                self.resource_version = resource_version;
            }
            Event::Error(failure) => {
                let trouble = Trouble::Api(ApiError { failure, retry_after: None });
                return Err(if trouble.expired() {
                    End::RelistLater(trouble)
                } else {
                    End::ReopenLater(Some(trouble))
                });
            }
            Event::Unknown(kind) => {
                tracing::warn!(resource = %self.label(), kind, "watch event of an unknown type passed over");
            }
        }
        Ok(())
    }

    /// Whoever is woken while this is held was woken by this event.
    fn traced(&self, kind: &'static str, object: &Object) -> WatchEvent {
        WatchEvent::begin(|| {
            vec![
                attribute("k8s.watch.event", kind),
                attribute("k8s.resource", self.label()),
                attribute("k8s.namespace.name", object.namespace().to_owned()),
                attribute("k8s.object.name", object.name().to_owned()),
                attribute("k8s.object.resource_version", object.resource_version().to_string()),
            ]
        })
    }

    fn fields_changed(&self, reader: &Reader) -> bool {
        self.shared.store.prune_spec(self.number).generation() != reader.generation()
    }

    fn is_behind(&self) -> bool {
        self.shared.store.observed(self.number).unwrap_or(0) < self.target.borrow().version
    }

    /// How long the next watch is to last: five to ten minutes, so that they do
    /// not all end together; less if somebody waits for a bookmark.
    fn promise(&mut self) -> Duration {
        self.target.mark_unchanged();
        if self.is_behind() {
            self.short_watches += 1;
            return SHORT_WATCH;
        }
        self.short_watches = 0;
        Duration::from_secs_f64(300.0 + 300.0 * self.shared.entropy.next_fraction())
    }

    async fn pause(&mut self, trouble: Option<&Trouble>) {
        sleep(self.backoff.next(trouble.and_then(Trouble::retry_after))).await;
    }

    fn label(&self) -> String {
        super::label(&self.name)
    }

    fn synced(&self) {
        if self.shared.set(self.number, SyncState::Synced, None) {
            tracing::info!(resource = %self.label(), "synced");
        }
    }

    /// Notes what is wrong. Before the first list anything means failed; later,
    /// the cache serves on unless the server refuses, or `lasting` says so.
    fn report(&self, trouble: &Trouble, lasting: bool) {
        if trouble.not_found() {
            self.shared.registry.request_discovery();
        }
        let first = self.resource_version.is_empty();
        let state = if first || lasting || trouble.refused() {
            SyncState::Failed
        } else {
            self.shared.registry.state(self.number)
        };
        if self.shared.set(self.number, state, Some(trouble.to_string())) {
            let state = if state == SyncState::Failed { "failed" } else { "serving what is cached" };
            tracing::warn!(resource = %self.label(), %trouble, "{state}; trying on");
        }
    }
}
