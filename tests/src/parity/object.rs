//! What is asked of an object again and again.

use std::time::Duration;

use serde_json::Value;

/// Prefix of the annotations that steer simulated pods.
pub const SIM: &str = "sim.coxswain.dev/";

/// Text of a field; empty for anything else.
pub fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Namespace of an object; empty if it has none.
pub fn namespace(object: &Value) -> &str {
    text(&object["metadata"]["namespace"])
}

/// Name of an object.
pub fn name(object: &Value) -> &str {
    text(&object["metadata"]["name"])
}

/// resourceVersion of an object; 0 if it has none.
pub fn version(object: &Value) -> u64 {
    text(&object["metadata"]["resourceVersion"]).parse().unwrap_or_default()
}

/// Items of a list; none for anything else.
pub fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A field of a condition; empty if there is no such condition.
pub fn condition<'a>(object: &'a Value, kind: &str, field: &str) -> &'a str {
    let found = list(&object["status"]["conditions"]).iter().rev().find(|c| c["type"] == kind);
    found.map(|c| text(&c[field])).unwrap_or_default()
}

/// Whether its condition Ready is True.
pub fn is_ready(object: &Value) -> bool {
    list(&object["status"]["conditions"]).iter().any(|c| c["type"] == "Ready" && c["status"] == "True")
}

/// Whether it is a pod that has ended.
pub fn is_terminal(object: &Value) -> bool {
    matches!(text(&object["status"]["phase"]), "Succeeded" | "Failed")
}

/// Whether its deletion has begun.
pub fn is_deleting(object: &Value) -> bool {
    !text(&object["metadata"]["deletionTimestamp"]).is_empty()
}

/// Whether its controller has seen its newest spec.
pub fn is_current(object: &Value) -> bool {
    object["status"].is_object()
        && object["status"].get("observedGeneration") == object["metadata"].get("generation")
}

/// The value at a dotted path; numbers go into lists.
pub fn dig<'a>(object: &'a Value, path: &str) -> Option<&'a Value> {
    let found = path.split('.').try_fold(object, |at, part| match at {
        Value::Array(items) => items.get(part.parse::<usize>().ok()?),
        other => other.get(part),
    });
    found.filter(|value| !value.is_null())
}

/// Whether labels fit a selector of `a=b`, `a!=b`, `a` and `!a`, joined by commas.
pub fn selected(object: &Value, selector: &str) -> bool {
    let labels = &object["metadata"]["labels"];
    selector.split(',').map(str::trim).filter(|part| !part.is_empty()).all(|part| {
        let has = |key: &str, value: &str| labels.get(key).and_then(Value::as_str) == Some(value);
        if let Some((key, value)) = part.split_once("!=") {
            !has(key, value)
        } else if let Some((key, value)) = part.split_once('=') {
            has(key, value)
        } else if let Some(key) = part.strip_prefix('!') {
            labels.get(key).is_none()
        } else {
            labels.get(part).is_some()
        }
    })
}

/// Lays `extra` over `base`: objects are merged, everything else is replaced.
pub fn merge(base: &mut Value, extra: &Value) {
    let Some(fields) = extra.as_object() else { return };
    if !base.is_object() {
        *base = Value::Object(Default::default());
    }
    for (key, value) in fields {
        match base.get_mut(key) {
            Some(below) if below.is_object() && value.is_object() => merge(below, value),
            _ => base[key.as_str()] = value.clone(),
        }
    }
}

/// A time such as `300ms`, `1.5s` or `2m`; a bare number is seconds.
pub fn duration(value: &Value) -> anyhow::Result<Duration> {
    let seconds = match value {
        Value::Number(n) => n.as_f64().unwrap_or_default(),
        Value::String(text) => {
            let units = [("ms", 0.001), ("s", 1.0), ("m", 60.0), ("h", 3600.0), ("", 1.0)];
            let parsed = units
                .iter()
                .find_map(|(unit, factor)| Some(text.strip_suffix(unit)?.parse::<f64>().ok()? * factor));
            parsed.ok_or_else(|| anyhow::anyhow!("{text:?} is not a time; write 300ms, 1.5s or 2m"))?
        }
        other => anyhow::bail!("{other} is not a time; write 300ms, 1.5s or 2m"),
    };
    Duration::try_from_secs_f64(seconds).map_err(|error| anyhow::anyhow!("{value} is not a time: {error}"))
}

/// A time, or another if it is not given.
pub fn duration_or(value: &Value, other: Duration) -> anyhow::Result<Duration> {
    match value {
        Value::Null => Ok(other),
        Value::String(text) if text.is_empty() => Ok(other),
        value => duration(value),
    }
}

/// Compact JSON with sorted keys, whatever map serde_json is built with.
pub fn canonical(value: &Value) -> String {
    match value {
        Value::Array(items) => format!("[{}]", items.iter().map(canonical).collect::<Vec<_>>().join(",")),
        Value::Object(fields) => {
            let mut keys: Vec<&String> = fields.keys().collect();
            keys.sort();
            let entry =
                |key: &&String| format!("{}:{}", Value::String((*key).clone()), canonical(&fields[*key]));
            format!("{{{}}}", keys.iter().map(entry).collect::<Vec<_>>().join(","))
        }
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn selectors() {
        let object = json!({"metadata": {"labels": {"a": "1", "b": "2"}}});
        for (selector, fits) in [
            ("", true),
            ("a=1", true),
            ("a=2", false),
            ("a=1, b!=3", true),
            ("c", false),
            ("!c,a", true),
            ("c!=1", true),
        ] {
            assert_eq!(selected(&object, selector), fits, "{selector}");
        }
        assert!(!selected(&json!({"metadata": {}}), "a"));
    }

    #[test]
    fn times() {
        let ms = |value: Value| duration(&value).unwrap().as_millis();
        assert_eq!(
            [ms(json!("300ms")), ms(json!("1.5s")), ms(json!("2m")), ms(json!(3)), ms(json!("4"))],
            [300, 1500, 120_000, 3000, 4000]
        );
        assert!(
            duration(&json!("soon")).is_err()
                && duration(&json!("-1s")).is_err()
                && duration(&json!([])).is_err()
        );
    }

    #[test]
    fn paths_and_merging() {
        let mut base = json!({"a": {"b": [1, {"c": 2}], "d": 1}});
        assert_eq!(dig(&base, "a.b.1.c"), Some(&json!(2)));
        assert_eq!(dig(&base, "a.b.9"), None);
        merge(&mut base, &json!({"a": {"b": null, "e": {"f": 1}}}));
        assert_eq!(base, json!({"a": {"b": null, "d": 1, "e": {"f": 1}}}));
    }
}
