//! What an operator watches and holds controllers with: recordings and a policy.

use std::{path::PathBuf, sync::Arc, time::Duration};

use super::Manager;
use crate::{key::Cause, recording::RecordConfig};

/// How often the policy is looked at for new content.
const POLICY_PERIOD: Duration = Duration::from_secs(2);

/// How controllers are overseen. Nothing is recorded and everything that
/// manifests declare is allowed, unless it says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Oversight {
    /// Where and how to record.
    pub record: Option<RecordConfig>,
    /// A file that says what controllers may do; followed for changes.
    pub policy: Option<PathBuf>,
}

impl Manager {
    /// Follows the policy until the manager stops.
    pub(super) async fn follow_policy(self: Arc<Self>) {
        // Names that no module has are only known once all are loaded.
        self.first_load().await;
        let mut ticks = tokio::time::interval(POLICY_PERIOD);
        loop {
            tokio::select! {
                _ = ticks.tick() => {}
                () = self.cancel.cancelled() => return,
            }
            let manager = self.clone();
            let reload = move || manager.policies.reload(&manager.known_names());
            let Ok(changed) = tokio::task::spawn_blocking(reload).await else { continue };
            if changed.is_empty() {
                continue;
            }
            self.store.grants_changed();
            for name in changed {
                if let Some(controller) = self.controller(&name) {
                    controller.current().view.rekey(Cause::Bulk);
                }
            }
        }
    }
}
