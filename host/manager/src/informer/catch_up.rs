//! Catching up: a cache that was kept warm while somebody else led must not be
//! acted upon before it shows all that they wrote.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Informers, Target, label};
use crate::contract::SyncState;

/// Up to so many objects, a list is quicker than the bookmark of a watch, which
/// an API server sends after a second or two.
const SMALL: usize = 5_000;
/// How often the state of a resource is looked at while one waits for it.
const LOOK: Duration = Duration::from_secs(1);
/// The pause before the server is asked again where things stand; doubled up to
/// [`LOOK`].
const PAUSE: Duration = Duration::from_millis(100);

impl Informers {
    /// Waits until the cache of a resource shows what was written before `since`.
    /// Returns also once the resource has no cache to wait for: it is absent, or
    /// cannot be listed.
    pub async fn catch_up(&self, resource: u32, since: Instant) {
        let registry = &self.0.registry;
        let followed = || matches!(registry.state(resource), SyncState::Synced | SyncState::Syncing);
        let listed_since = || self.0.lists_begun.lock().get(&resource).is_some_and(|begun| *begun >= since);
        let name = registry.name(resource).map(|name| label(&name)).unwrap_or_default();
        let mut pause = PAUSE;
        let mut latest = None;
        while followed() && !listed_since() {
            if registry.state(resource) == SyncState::Syncing {
                // Its first list is on its way; what comes after it is not.
                let mut progress = self.0.store.progress();
                if registry.state(resource) == SyncState::Syncing {
                    let _ = timeout(LOOK, progress.changed()).await;
                }
                continue;
            }
            let version = match latest {
                Some(version) => version,
                None => match self.latest(resource).await {
                    Ok(version) => *latest.insert(version.parse().unwrap_or(0)),
                    Err(error) if error.failure.status == 404 => return,
                    Err(error) => {
                        tracing::warn!(resource = name, %error, "cannot learn how far the cache is behind; trying on");
                        sleep(error.retry_after.unwrap_or(pause).max(pause)).await;
                        pause = (pause * 2).min(LOOK);
                        continue;
                    }
                },
            };
            let by_list = self.0.store.count(resource) <= SMALL;
            let reached = timeout(LOOK, self.come_to(resource, Target { version, by_list })).await;
            if reached.is_ok() {
                return;
            }
        }
    }
}
