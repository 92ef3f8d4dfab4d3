//! What the server does by itself as time goes by: history is compacted, events expire, its lease is renewed.
//!
//! Invariant: whoever follows a watch or walks a list within five minutes is never cut off by it.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::bootstrap;
use crate::rest::options::DeleteOptions;
use crate::rest::{InProcess, Target};

/// History older than this goes, at the next round.
const COMPACT_EVERY: Duration = Duration::from_secs(300);
/// Expired events are looked for this often.
const SWEEP_EVERY: Duration = Duration::from_secs(60);
/// The server's own lease is renewed this often, well before it ends.
const RENEW_EVERY: Duration = Duration::from_secs(1200);
/// Events live this long after they were last seen.
const EVENT_LIFE: SignedDuration = SignedDuration::from_hours(1);

/// Runs until cancelled.
pub async fn run(api: InProcess, address: SocketAddr, cancel: CancellationToken) {
    let mut compact = tokio::time::interval(COMPACT_EVERY);
    let mut sweep = tokio::time::interval(SWEEP_EVERY);
    let mut renew = tokio::time::interval_at(Instant::now() + RENEW_EVERY, RENEW_EVERY);
    let mut keep_from = 0;
    loop {
        tokio::select! {
            () = cancel.cancelled() => return,
            _ = compact.tick() => {
                let store = api.rest().store();
                store.compact(keep_from);
                keep_from = store.version();
            }
            _ = sweep.tick() => expire_events(&api).await,
            _ = renew.tick() => {
                if let Err(error) = bootstrap::renew_identity(&api, address) {
                    tracing::warn!(%error, "the lease of the API server is not renewed");
                }
            }
        }
    }
}

async fn expire_events(api: &InProcess) {
    let all = Target::new("v1", "events");
    let (events, _) = match api.list(&all, "", "").await {
        Ok(found) => found,
        Err(error) => {
            tracing::warn!(%error, "events cannot be listed, so none expire");
            return;
        }
    };
    let now = api.rest().now();
    for event in events.iter().filter(|event| is_over(event, now)) {
        let text = |key: &str| event["metadata"][key].as_str().unwrap_or_default();
        let target = all.in_namespace(text("namespace")).named(text("name"));
        let options = DeleteOptions {
            // One that was seen again meanwhile stays.
            resource_version: Some(text("resourceVersion").to_owned()),
            ..DeleteOptions::default()
        };
        if let Err(error) = api.delete(&target, &options) {
            tracing::debug!(%error, "an event that expired was changed or deleted by somebody else");
        }
    }
}

/// The newest of its times is more than a life ago.
fn is_over(event: &Value, now: Timestamp) -> bool {
    let times = [
        &event["metadata"]["creationTimestamp"],
        &event["lastTimestamp"],
        &event["eventTime"],
        &event["series"]["lastObservedTime"],
    ];
    let newest = times.iter().filter_map(|time| time.as_str()?.parse::<Timestamp>().ok()).max();
    newest.is_some_and(|newest| now.duration_since(newest) > EVENT_LIFE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_event_lives_on_while_it_is_seen_again() {
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().expect("time");
        let event = |last: &str| json!({"metadata": {"creationTimestamp": "2026-01-01T09:00:00Z"}, "lastTimestamp": last});
        assert!(!is_over(&event("2026-01-01T11:30:00Z"), now));
        assert!(is_over(&event("2026-01-01T10:30:00Z"), now));
        assert!(!is_over(&json!({"metadata": {}}), now), "without a time it stays");
    }
}
