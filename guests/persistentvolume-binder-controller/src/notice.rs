//! Events about what lasts: said once, and again after the sync period.
//!
//! Kept between reconciles: what was said last, and when. It cannot be derived,
//! for events are not read. If it is lost, something is said once more.

use std::time::Duration;

use coxswain_sdk::{Ctx, Event, FromJson, Plan, Time, from_json};
use serde::Serialize;

#[derive(Debug, FromJson, Serialize)]
struct Said {
    what: String,
    at: i64,
}

/// Adds events that tell of a state, and comes back to tell of it again.
/// `what` stands for their content.
pub fn tell(ctx: &Ctx<'_>, plan: &mut Plan, period: Duration, what: &str, events: Vec<Event>) {
    let now = ctx.now();
    if let Some(said) = last(ctx) {
        let again = Time::from_unix(said.at) + period;
        if said.what == what && now < again && said.at <= now.unix() {
            plan.come_back(again);
            return;
        }
    }
    remember(plan, now, what);
    for event in events {
        plan.event(event);
    }
    plan.come_back(now + period);
}

/// When this was said last, if nothing else was said since.
pub fn said_at(ctx: &Ctx<'_>, what: &str) -> Option<Time> {
    last(ctx).filter(|said| said.what == what).map(|said| Time::from_unix(said.at))
}

/// Notes that this was said now.
pub fn remember(plan: &mut Plan, now: Time, what: &str) {
    let said = Said { what: what.to_owned(), at: now.unix() };
    // A text and a number always have a JSON form.
    plan.keep(serde_json::to_string(&said).unwrap_or_default());
}

/// Forgets what was said, for it no longer holds.
pub fn forget(ctx: &Ctx<'_>, plan: &mut Plan) {
    if ctx.state().is_some() {
        plan.clear();
    }
}

fn last(ctx: &Ctx<'_>) -> Option<Said> {
    from_json(ctx.state()?).ok()
}
