//! What can be measured from the history.

use std::{
    collections::{HashMap, HashSet},
    time::Instant,
};

use serde_json::{Value, json};

use super::{Change, Happened, Known};
use crate::parity::object::{self, dig, text};

/// Moments that a scenario named.
pub type Marks = HashMap<String, Instant>;

/// Whether a pod counts.
fn counts(what: &str) -> Option<fn(&Value) -> bool> {
    let active = |o: &Value| !object::is_terminal(o) && !object::is_deleting(o);
    Some(match what {
        "all" => |_| true,
        "active" => active,
        "not-terminal" => |o| !object::is_terminal(o),
        "ready" => |o| object::is_ready(o) && !object::is_deleting(o),
        "terminating" => object::is_deleting,
        "unready-active" => |o| !object::is_ready(o) && !object::is_terminal(o) && !object::is_deleting(o),
        _ => return None,
    })
}

/// The value of an observation: a number or a list.
pub fn measure(known: &Known, namespace: &str, spec: &Value, marks: &Marks) -> anyhow::Result<Value> {
    let resource = spec["resource"].as_str().unwrap_or("pods");
    let mark = |key: &str| match spec[key].as_str() {
        None => Ok(None),
        Some(name) => match marks.get(name) {
            Some(at) => Ok(Some(*at)),
            None => anyhow::bail!("no mark is called {name:?}"),
        },
    };
    let window = Window { start: mark("from")?, end: mark("to")? };
    let selector = text(&spec["select"]);
    let rows = known.past(resource, namespace).iter();
    let rows: Vec<&Happened> =
        rows.filter(|h| window.until(h.at) && object::selected(&h.object, selector)).collect();
    let by = spec["by"].as_str().unwrap_or("metadata.name");
    let kind = text(&spec["measure"]);
    if let Some((pick, what)) = kind.split_once('-').filter(|(pick, _)| matches!(*pick, "max" | "min")) {
        let amount: Box<dyn Fn(&Value) -> i64> = match (what, counts(what)) {
            ("sum", _) => Box::new(move |o| dig(o, by).and_then(Value::as_i64).unwrap_or_default()),
            (_, Some(member)) => Box::new(move |o| i64::from(member(o))),
            _ => anyhow::bail!("there is no measure {kind:?}"),
        };
        return Ok(extreme(&rows, &window, pick == "max", amount).into());
    }
    let mut found = series(&rows, &window, kind, by)?;
    if spec["sort"].as_bool().unwrap_or_default() {
        found.sort_by_key(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned));
    }
    Ok(if kind.ends_with("-count") { found.len().into() } else { found.into() })
}

struct Window {
    start: Option<Instant>,
    end: Option<Instant>,
}

impl Window {
    fn begun(&self, at: Instant) -> bool {
        self.start.is_none_or(|start| at >= start)
    }

    fn until(&self, at: Instant) -> bool {
        self.end.is_none_or(|end| at <= end)
    }
}

/// The highest or lowest sum over all living objects.
fn extreme(rows: &[&Happened], window: &Window, highest: bool, amount: impl Fn(&Value) -> i64) -> i64 {
    let mut living: HashMap<&str, i64> = HashMap::new();
    let mut best: Option<i64> = None;
    for row in rows {
        let begun = window.begun(row.at);
        if begun && best.is_none() {
            best = Some(living.values().sum());
        }
        let uid = text(&row.object["metadata"]["uid"]);
        match row.change {
            Change::Deleted => drop(living.remove(uid)),
            _ => drop(living.insert(uid, amount(&row.object))),
        }
        let now = living.values().sum();
        best = best.map(|best| if highest { best.max(now) } else { best.min(now) });
    }
    best.unwrap_or_else(|| living.values().sum())
}

/// What happened first to each object, or every value of a field.
fn series(rows: &[&Happened], window: &Window, kind: &str, by: &str) -> anyhow::Result<Vec<Value>> {
    let mut out: Vec<Value> = Vec::new();
    if kind == "values" {
        for row in rows {
            let value = dig(&row.object, by).cloned().unwrap_or_default();
            if window.begun(row.at) && out.last() != Some(&value) {
                out.push(value);
            }
        }
        return Ok(out);
    }
    let hit: fn(&Happened) -> bool = match kind {
        "created" | "created-count" => |h| h.change == Change::Added,
        "deleted" | "deleted-count" => |h| h.change == Change::Deleted || object::is_deleting(&h.object),
        "removed" => |h| h.change == Change::Deleted,
        "ready-order" => |h| h.change != Change::Deleted && object::is_ready(&h.object),
        other => anyhow::bail!("there is no measure {other:?}"),
    };
    let mut seen = HashSet::new();
    for row in rows {
        if hit(row) && seen.insert(text(&row.object["metadata"]["uid"])) && window.begun(row.at) {
            out.push(shown(&row.object, by));
        }
    }
    Ok(out)
}

fn shown(object: &Value, by: &str) -> Value {
    let entry = |map: &str, key: &str| object["metadata"][map].get(key).cloned().unwrap_or_else(|| json!(""));
    if let Some(key) = by.strip_prefix("label:") {
        entry("labels", key)
    } else if let Some(key) = by.strip_prefix("annotation:") {
        entry("annotations", key)
    } else {
        dig(object, by).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(uid: &str, ready: bool) -> Value {
        let status = if ready { "True" } else { "False" };
        json!({"metadata": {"namespace": "n", "name": uid, "uid": uid, "labels": {"app": "a"}, "resourceVersion": "1"},
            "status": {"conditions": [{"type": "Ready", "status": status}]}})
    }

    #[test]
    fn extremes_orders_and_windows() {
        let mut known = Known::default();
        known.note("pods", Change::Added, pod("a", false));
        known.note("pods", Change::Added, pod("b", false));
        known.note("pods", Change::Modified, pod("b", true));
        known.note("pods", Change::Modified, pod("a", true));
        std::thread::sleep(std::time::Duration::from_millis(2));
        let marks = Marks::from([("later".to_owned(), Instant::now())]);
        known.note("pods", Change::Deleted, pod("a", true));
        known.note("pods", Change::Added, pod("c", false));
        let value = |spec: Value| measure(&known, "n", &spec, &marks).unwrap();
        assert_eq!(value(json!({"measure": "max-all"})), 2);
        assert_eq!(value(json!({"measure": "min-ready", "from": "later"})), 1);
        assert_eq!(value(json!({"measure": "max-ready", "to": "later"})), 2);
        assert_eq!(value(json!({"measure": "ready-order"})), json!(["b", "a"]));
        assert_eq!(value(json!({"measure": "created", "from": "later"})), json!(["c"]));
        assert_eq!(value(json!({"measure": "created-count", "select": "app=a", "by": "label:app"})), 3);
        assert_eq!(value(json!({"measure": "deleted"})), json!(["a"]));
        assert_eq!(value(json!({"measure": "max-all", "select": "app=z"})), 0);
        assert!(measure(&known, "n", &json!({"measure": "most"}), &marks).is_err());
        assert!(measure(&known, "n", &json!({"measure": "created", "from": "nowhere"}), &marks).is_err());
    }
}
