//! Label and field selectors: parsed from queries and objects, and asked whether they match.
//!
//! In: text or a `LabelSelector`. Out: terms. Invariant: a selector prints as the text that parses to it.

mod fields;
mod labels;

pub use fields::FieldSelector;
pub use labels::LabelSelector;

use serde_json::Value;

use crate::kinds::value::{entries, items, text};

/// How a term compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// Equal, or one of several.
    In,
    /// None of them, or absent.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
    /// A larger whole number.
    GreaterThan,
    /// A smaller whole number.
    LessThan,
}

/// Whether a `LabelSelector` object selects labels. Null selects nothing, an empty one everything.
pub fn object_matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let pairs = entries(selector, "matchLabels").all(|(key, value)| labels.get(key) == Some(value));
    pairs
        && items(selector, "matchExpressions").iter().all(|e| {
            let value = labels.get(text(e, "key"));
            let listed = || value.is_some_and(|v| items(e, "values").contains(v));
            match text(e, "operator") {
                "In" => listed(),
                "NotIn" => !listed(),
                "Exists" => value.is_some(),
                "DoesNotExist" => value.is_none(),
                _ => false,
            }
        })
}

/// A `LabelSelector` object as text: `a=b,t in (x,y)`.
pub fn label_selector_text(selector: &Value) -> String {
    let mut terms: Vec<(String, String)> = entries(selector, "matchLabels")
        .map(|(k, v)| (k.clone(), format!("{k}={}", v.as_str().unwrap_or(""))))
        .collect();
    for e in items(selector, "matchExpressions") {
        let key = text(e, "key");
        let mut values: Vec<&str> = items(e, "values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match text(e, "operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    terms.into_iter().map(|t| t.1).collect::<Vec<_>>().join(",")
}
