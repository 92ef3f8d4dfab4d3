//! Asks the API server, again and again, which resources it serves.
//!
//! In: discovery answers. Out: the registry's table. Invariant: a group version
//! that does not answer keeps what it had; only an answer takes a resource away.

mod aggregated;
mod plain;
#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use tokio::{
    sync::watch,
    time::{Instant, sleep, sleep_until},
};
use tokio_util::sync::CancellationToken;

use crate::{
    api::{ApiClient, ApiError},
    registry::{Discovered, GroupVersion, Registry},
};
use aggregated::Cached;

const TIMEOUT: Duration = Duration::from_secs(60);
/// Discovery that is asked for comes at once, but no more often than this.
const SHORTEST: Duration = Duration::from_millis(500);

/// How often discovery runs unless the operator says otherwise.
pub const DEFAULT_INTERVAL: Duration = Duration::from_secs(5);

/// How discovery fares.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DiscoveryStatus {
    /// Whether it ever succeeded. Until then the registry knows no resources.
    pub complete: bool,
    /// Why the last try came to nothing, if it did.
    pub error: Option<String>,
    /// Group versions that do not answer, such as those of an aggregated API
    /// server that is away. They keep what they had.
    pub unanswered: Vec<String>,
}

/// What one round found.
#[derive(Debug, Default)]
struct Found {
    resources: Vec<Discovered>,
    unanswered: Vec<GroupVersion>,
}

/// Aggregated API servers are anybody's: where a list or a name is null, there is none.
fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + serde::Deserialize<'de>,
{
    Ok(<Option<T> as serde::Deserialize>::deserialize(deserializer)?.unwrap_or_default())
}

/// Runs discovery every `interval`, and when the registry is asked for one,
/// until cancelled. Its fate is told through `status`.
pub async fn run(
    api: ApiClient,
    registry: Arc<Registry>,
    interval: Duration,
    status: watch::Sender<DiscoveryStatus>,
    cancel: CancellationToken,
) {
    cancel
        .run_until_cancelled(Discovery { api, registry, status, cached: Cached::default() }.run(interval))
        .await;
}

struct Discovery {
    api: ApiClient,
    registry: Arc<Registry>,
    status: watch::Sender<DiscoveryStatus>,
    cached: Cached,
}

impl Discovery {
    async fn run(mut self, interval: Duration) {
        loop {
            let began = Instant::now();
            let result = self.round().await;
            let asked = result.as_ref().err().and_then(|error| error.retry_after);
            self.settle(result);
            sleep(SHORTEST).await;
            tokio::select! {
                () = sleep_until(began + interval.max(asked.unwrap_or_default().min(TIMEOUT))) => {}
                () = self.registry.discovery_requested() => {}
            }
        }
    }

    /// None if nothing has changed.
    async fn round(&mut self) -> Result<Option<Found>, ApiError> {
        match aggregated::discover(&self.api, &mut self.cached).await? {
            aggregated::Answer::Found(found) => Ok(Some(found)),
            aggregated::Answer::Unchanged => Ok(None),
            aggregated::Answer::NotSupported => plain::discover(&self.api).await.map(Some),
        }
    }

    /// Takes a round's result over, and says a word where matters have changed:
    /// not for each try, since a server that is away stays so for a while.
    fn settle(&mut self, result: Result<Option<Found>, ApiError>) {
        let before = self.status.borrow().clone();
        let mut now = before.clone();
        match result {
            Ok(found) => {
                now.complete = true;
                now.error = None;
                if let Some(found) = found {
                    let mut unanswered: Vec<String> =
                        found.unanswered.iter().map(ToString::to_string).collect();
                    unanswered.sort();
                    now.unanswered = unanswered;
                    let diff = self.registry.update_except(found.resources, &found.unanswered);
                    if before.complete && !(diff.appeared.is_empty() && diff.vanished.is_empty()) {
                        tracing::info!(appeared = %self.names(&diff.appeared), vanished = %self.names(&diff.vanished), "resources changed");
                    }
                }
                if !before.complete {
                    tracing::info!(
                        resources = self.registry.all().len(),
                        "discovered the cluster's resources"
                    );
                } else if before.error.is_some() {
                    tracing::info!("the API server answers again");
                }
                if before.unanswered != now.unanswered {
                    if now.unanswered.is_empty() {
                        tracing::info!("all API groups answer");
                    } else {
                        tracing::warn!(
                            groups = now.unanswered.join(", "),
                            "API groups do not answer discovery; their resources stay as they were"
                        );
                    }
                }
            }
            Err(error) => {
                now.error = Some(error.to_string());
                // The text of an error may differ from try to try; whether there
                // is one, and of which status, is a change of state.
                if before.error.is_none() || !same_kind(&before, &error) {
                    let what = if before.complete { "resources stay as they were" } else { "waiting for it" };
                    tracing::warn!(%error, "the API server does not answer discovery; {what}");
                }
            }
        }
        self.status.send_if_modified(|status| {
            let changed = *status != now;
            *status = now;
            changed
        });
    }

    fn names(&self, numbers: &[u32]) -> String {
        let names = numbers.iter().filter_map(|&number| self.registry.name(number));
        names.map(|name| crate::informer::label(&name)).collect::<Vec<_>>().join(", ")
    }
}

/// Whether an error is of the kind that the status tells already.
fn same_kind(before: &DiscoveryStatus, error: &ApiError) -> bool {
    let head = |text: &str| text.split(':').next().unwrap_or_default().to_owned();
    before.error.as_deref().map(head) == Some(head(&error.to_string()))
}
