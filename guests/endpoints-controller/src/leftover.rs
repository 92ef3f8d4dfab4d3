//! Endpoints that a controller made, and whose service is gone.

use coxswain_sdk::endpoints::service::Service;
use coxswain_sdk::{Ctx, Plan, Result};

use crate::reconcile::deletion;
use crate::view::EndpointsObject;
use crate::{MANAGED_BY, MANAGER};

/// One reconcile of an Endpoints object.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(endpoints) = ctx.primary::<EndpointsObject>()? else { return Ok(plan) };
    let meta = &endpoints.metadata;
    let ours = meta.labels.get(MANAGED_BY).is_some_and(|manager| manager == MANAGER);
    if ours && !meta.is_deleting() && ctx.get::<Service>(&meta.namespace, &meta.name)?.is_none() {
        plan.then(deletion(&endpoints));
    }
    Ok(plan)
}
