//! What an executor is set up with.

use std::{sync::Arc, time::Duration};

use super::signing::{NoSigningKeys, SigningKeys};
use crate::{contract::Manifest, grants::Grants};

/// Settings of one controller's executor.
#[derive(Clone)]
pub struct ExecutorConfig {
    /// The controller's name.
    pub controller: String,
    /// Field manager of its writes; the controller's name unless changed.
    pub field_manager: String,
    /// Source component of its events.
    pub event_component: String,
    /// What the module declared.
    pub manifest: Arc<Manifest>,
    /// What the operator grants.
    pub grants: Arc<Grants>,
    /// Requests a second, before the manifest's multiple. 0 or less: no limit.
    pub qps: f64,
    /// Requests at once after a quiet time, before the manifest's multiple.
    pub burst: u32,
    /// How long one write may take. Must end before a lost lease would.
    pub request_timeout: Duration,
    /// Requests under way at once, of one step.
    pub together: usize,
    /// The keys of `sign` lookups.
    pub signing: Arc<dyn SigningKeys>,
    /// Where actions are counted.
    pub metrics: Option<crate::metrics::ControllerSeries>,
}

impl ExecutorConfig {
    /// The defaults for a module.
    pub fn new(manifest: Arc<Manifest>) -> Self {
        let controller = manifest.name.clone();
        let event_component = if manifest.event_component.is_empty() {
            controller.clone()
        } else {
            manifest.event_component.clone()
        };
        let grants = Grants::everything(&controller);
        Self {
            field_manager: controller.clone(),
            controller,
            event_component,
            manifest,
            grants,
            qps: 20.0,
            burst: 30,
            request_timeout: Duration::from_secs(10),
            together: 16,
            signing: Arc::new(NoSigningKeys),
            metrics: None,
        }
    }
}
