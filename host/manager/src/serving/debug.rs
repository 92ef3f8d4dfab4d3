//! What the controllers are at.

use std::sync::Arc;

use serde_json::{Value, json};

use super::health::values;
use crate::manager::Manager;

/// Keys that are shown of one controller unless more are asked for.
const SHOWN: usize = 100;
/// Keys that are shown at most.
const MOST: usize = 5000;

/// All controllers, in figures.
pub(super) fn all(manager: &Arc<Manager>) -> Value {
    json!({"controllers": manager.status().controllers})
}

/// One controller, by its name or an alias: its keys that are not at rest, and what its last reconciles
/// came to. `?key=namespace/name` asks for one key, at rest or not, with all that it reads; `?limit=` for
/// more of them.
pub(super) fn one(manager: &Arc<Manager>, name: &str, query: &str) -> Option<Value> {
    let controller = manager.called(name)?;
    let limit = values(query, "limit").pop().and_then(|limit| limit.parse().ok()).unwrap_or(SHOWN).min(MOST);
    let wanted = values(query, "key").pop();
    let keys = controller.about(wanted.as_deref(), limit);
    let mut recent = controller.recent();
    recent.retain(|one| wanted.as_ref().is_none_or(|wanted| one.key.contains(wanted)));
    recent.truncate(limit);
    Some(json!({"controller": controller.status(), "keys": keys, "recent": recent}))
}
