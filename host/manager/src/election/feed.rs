//! Leases, as a watch tells of them.
//!
//! In: the API server's watch. Out: for each lease of interest what it is now.
//! Kept: what the watch says is only ever a reason to look; a lease is taken on
//! the word of a read and of its resourceVersion. A watch costs the server less
//! than the reads it replaces, and tells of a release at once. Where it is not
//! allowed, the electors read every few seconds, as client-go does.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use tokio::{sync::watch, time::sleep};

use super::{
    client::{LeaseClient, WATCH},
    config::Timing,
    record::Lease,
};
use crate::{
    api::ApiError,
    entropy::Entropy,
    informer::{
        stream::Stream,
        wire::{self, Event},
    },
};

/// The longest pause between two watches that come to nothing.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// What is seen of a lease.
#[derive(Clone, Debug, Default)]
pub(super) struct Sight {
    /// Whether changes are told as they happen.
    pub(super) live: bool,
    /// The newest that was told.
    pub(super) lease: Option<Arc<Lease>>,
    /// Whether it was deleted after that.
    pub(super) gone: bool,
}

/// Leases by name, for as many electors as there are.
#[derive(Default)]
pub(super) struct Feed {
    sights: Mutex<HashMap<String, watch::Sender<Sight>>>,
    live: Mutex<bool>,
}

impl Feed {
    /// What is seen of a lease from now on.
    pub(super) fn follow(&self, name: &str) -> watch::Receiver<Sight> {
        let mut sights = self.sights.lock();
        let live = *self.live.lock();
        // A lease that nobody followed until now may have been told of: it is read anyway.
        sights
            .entry(name.to_owned())
            .or_insert_with(|| watch::Sender::new(Sight { live, ..Sight::default() }))
            .subscribe()
    }

    fn set_live(&self, live: bool) {
        let sights = self.sights.lock();
        *self.live.lock() = live;
        for sight in sights.values() {
            sight.send_if_modified(|sight| std::mem::replace(&mut sight.live, live) != live);
        }
    }

    fn tell(&self, lease: Lease, there: bool) {
        if let Some(sight) = self.sights.lock().get(lease.name()) {
            sight.send_modify(|sight| {
                sight.lease = Some(Arc::new(lease));
                sight.gone = !there;
            });
        }
    }

    /// Watches until it is dropped: one lease, or all of the namespace.
    pub(super) async fn run(
        self: Arc<Self>,
        client: LeaseClient,
        only: Option<String>,
        timing: Timing,
        entropy: Entropy,
    ) {
        let mut pause = timing.retry;
        loop {
            match client.watch(only.as_deref(), timing.request()).await {
                Ok(response) => {
                    self.set_live(true);
                    let mut stream = Stream::new(response.into_body(), WATCH);
                    while let Ok(Some(range)) = stream.next().await {
                        pause = timing.retry;
                        if !self.take(stream.line(range)) {
                            break;
                        }
                    }
                    self.set_live(false);
                }
                Err(error) => {
                    if pause == timing.retry {
                        explain(&error);
                    }
                    pause = (pause * 2).min(LONGEST_PAUSE).max(error.retry_after.unwrap_or_default());
                }
            }
            sleep(pause.mul_f64(0.5 + entropy.next_fraction())).await;
        }
    }

    /// Takes a line in; false if the watch is of no more use.
    fn take(&self, line: &[u8]) -> bool {
        let told = match wire::parse_event(line) {
            Ok(Event::Added(object) | Event::Modified(object)) => Some((object, true)),
            Ok(Event::Deleted(object)) => Some((object, false)),
            Ok(Event::Bookmark { .. } | Event::Unknown(_)) => None,
            Ok(Event::Error(_)) | Err(_) => return false,
        };
        if let Some((object, there)) = told
            && let Ok(lease) = Lease::read(object.as_bytes())
        {
            self.tell(lease, there);
        }
        true
    }
}

fn explain(error: &ApiError) {
    if error.failure.status == 403 {
        tracing::info!(%error, "may not watch leases, so they are read every few seconds; grant list and watch for quicker handovers");
    } else {
        tracing::debug!(%error, "leases cannot be watched at the moment");
    }
}
