//! Printer columns of CustomResourceDefinitions: JSON paths evaluated over an object.

use serde_json::{Value, json};

use crate::kinds::value::{int, text};
use crate::patch::go::go_number;
use crate::table::since;

/// A printer column.
#[derive(Clone, Debug, PartialEq)]
pub struct PrinterColumn {
    /// Heading.
    pub name: String,
    /// OpenAPI type.
    pub ty: String,
    /// OpenAPI format.
    pub format: String,
    /// For people.
    pub description: String,
    /// Zero is always shown.
    pub priority: i64,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Key(String),
    Index(i64),
    All,
    /// `[?(@.key=="value")]`
    Filter(Vec<String>, String),
}

impl PrinterColumn {
    /// From one of `additionalPrinterColumns`.
    pub fn new(column: &Value) -> Self {
        Self {
            name: text(column, "name").into(),
            ty: text(column, "type").into(),
            format: text(column, "format").into(),
            description: text(column, "description").into(),
            priority: int(column, "priority"),
            steps: parse(text(column, "jsonPath")),
        }
    }

    /// The column every definition without columns of its own has.
    pub fn age() -> Self {
        Self::new(&json!({
            "name": "Age",
            "type": "date",
            "jsonPath": ".metadata.creationTimestamp",
            "description": "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
        }))
    }

    /// The cell of an object.
    pub fn cell(&self, object: &Value, now: &str) -> Value {
        let found = evaluate(&self.steps, object);
        let Some(value) = found.first() else { return Value::Null };
        match (self.ty.as_str(), value) {
            ("integer", Value::Number(n)) => {
                n.as_i64().or_else(|| n.as_f64().map(|n| n as i64)).map_or(Value::Null, Value::from)
            }
            ("number", Value::Number(n)) => go_number(n),
            ("boolean", Value::Bool(b)) => (*b).into(),
            ("date", Value::String(then)) if then.is_empty() => "<unknown>".into(),
            ("date", Value::String(then)) if then.parse::<jiff::Timestamp>().is_err() => "<invalid>".into(),
            ("date", Value::String(then)) => since(then, now).into(),
            ("string", value) => show(value).into(),
            _ => Value::Null,
        }
    }
}

fn show(value: &Value) -> String {
    match value {
        Value::String(s) => s.clone(),
        other => other.to_string(),
    }
}

/// The values a path leads to.
fn evaluate<'v>(steps: &[Step], from: &'v Value) -> Vec<&'v Value> {
    let mut at = vec![from];
    for step in steps {
        at = at
            .into_iter()
            .flat_map(|value| -> Vec<&Value> {
                match (step, value) {
                    (Step::Key(key), _) => value.get(key).into_iter().collect(),
                    (Step::Index(i), Value::Array(items)) => {
                        let i = if *i < 0 { items.len() as i64 + i } else { *i };
                        usize::try_from(i).ok().and_then(|i| items.get(i)).into_iter().collect()
                    }
                    (Step::All, Value::Array(items)) => items.iter().collect(),
                    (Step::All, Value::Object(map)) => map.values().collect(),
                    (Step::Filter(path, want), Value::Array(items)) => items
                        .iter()
                        .filter(|item| {
                            let found = path.iter().fold(*item, |v, key| &v[key.as_str()]);
                            show(found) == *want
                        })
                        .collect(),
                    _ => Vec::new(),
                }
            })
            .collect();
    }
    at
}

/// Parses the dialect of JSON path that definitions use; what it cannot read leads nowhere.
fn parse(path: &str) -> Vec<Step> {
    let mut out = Vec::new();
    let mut rest = path.trim().trim_start_matches('$');
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('.') {
            let mut key = String::new();
            let mut chars = after.char_indices().peekable();
            let mut end = after.len();
            while let Some((i, c)) = chars.next() {
                match c {
                    '\\' => key.extend(chars.next().map(|n| n.1)),
                    '.' | '[' => {
                        end = i;
                        break;
                    }
                    c => key.push(c),
                }
            }
            match key.as_str() {
                "" => {}
                "*" => out.push(Step::All),
                _ => out.push(Step::Key(key)),
            }
            rest = &after[end..];
        } else if let Some(after) = rest.strip_prefix('[') {
            let Some(end) = after.find(']') else { break };
            out.push(bracket(&after[..end]));
            rest = &after[end + 1..];
        } else {
            break;
        }
    }
    out
}

fn bracket(inner: &str) -> Step {
    let inner = inner.trim();
    if inner == "*" {
        return Step::All;
    }
    if let Ok(index) = inner.parse() {
        return Step::Index(index);
    }
    let filter = inner.strip_prefix("?(@").and_then(|f| f.strip_suffix(')'));
    if let Some((path, value)) = filter.and_then(|f| f.split_once("==")) {
        let path = path.trim().split('.').filter(|p| !p.is_empty()).map(str::to_owned).collect();
        return Step::Filter(path, value.trim().trim_matches(['"', '\'']).to_owned());
    }
    Step::Key(inner.trim_matches(['"', '\'']).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_lead_to_cells() {
        let object = json!({"spec": {"n": 2, "l": ["a", "b"]}, "status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        for (ty, path, want) in [
            ("integer", ".spec.n", json!(2)),
            ("string", ".spec.l[1]", json!("b")),
            ("string", ".spec.l[*]", json!("a")),
            ("string", ".status.conditions[?(@.type==\"Ready\")].status", json!("True")),
            ("string", ".none", json!(null)),
        ] {
            let column = PrinterColumn::new(&json!({"name": "x", "type": ty, "jsonPath": path}));
            assert_eq!(column.cell(&object, ""), want, "{path}");
        }
    }
}
