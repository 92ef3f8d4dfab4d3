//! Where answers differ from the recorded ones.

use std::{collections::BTreeMap, fmt};

use serde_json::{Map, Value};

use super::{Case, Subset};
use crate::parity::object::canonical;

/// A place where the server says something else.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Step and pointer.
    path: String,
    golden: Option<Value>,
    server: Option<Value>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = |value: &Option<Value>| match value {
            None => "<absent>".to_owned(),
            Some(value) => value.to_string().chars().take(400).collect(),
        };
        write!(f, "/{}\n    golden: {}\n    server: {}", self.path, short(&self.golden), short(&self.server))
    }
}

/// Compares all exchanges of a case.
pub(super) fn compare(case: &Case, golden: &Value, played: &Value) -> anyhow::Result<Vec<Difference>> {
    let steps = |exchanges: &Value| -> Vec<String> {
        let all = exchanges.as_array().into_iter().flatten();
        all.map(|exchange| exchange["step"].as_str().unwrap_or_default().to_owned()).collect()
    };
    let (want, have) = (steps(golden), steps(played));
    anyhow::ensure!(want == have, "the golden file has steps {want:?}, the case {have:?}");
    let mut comparing = Comparing { case, out: Vec::new() };
    for (i, step) in want.into_iter().enumerate() {
        for part in ["status", "headers", "events", "ended", "body"] {
            let (golden, server) = (golden[i]["response"].get(part), played[i]["response"].get(part));
            if golden.is_some() || server.is_some() {
                // A part that is not there compares as null.
                let none = Value::Null;
                let path = vec![step.clone(), part.to_owned()];
                comparing.pair(Some(golden.unwrap_or(&none)), Some(server.unwrap_or(&none)), path);
            }
        }
    }
    Ok(comparing.out)
}

struct Comparing<'a> {
    case: &'a Case,
    out: Vec<Difference>,
}

fn segments(pointer: &str) -> Vec<&str> {
    pointer.trim_matches('/').split('/').collect()
}

fn begins(path: &[String], pointer: &str) -> bool {
    let want = segments(pointer);
    path.len() >= want.len() && want.iter().zip(path).all(|(want, have)| *want == "*" || want == have)
}

/// Whether it names the client's certificate, which is another in each run.
fn is_fingerprint(text: &str) -> bool {
    let digits = text.strip_prefix("X509SHA256=").unwrap_or_default();
    digits.len() == 64 && digits.bytes().all(|b| b.is_ascii_hexdigit())
}

fn escape(segment: &str) -> String {
    segment.replace('~', "~0").replace('/', "~1")
}

impl Comparing<'_> {
    fn subset(&self, path: &[String]) -> Option<&Subset> {
        self.case.subset.iter().find(|rule| segments(&rule.at).len() == path.len() && begins(path, &rule.at))
    }

    fn pair(&mut self, golden: Option<&Value>, server: Option<&Value>, path: Vec<String>) {
        if self.case.ignore.iter().any(|pointer| begins(&path, pointer)) {
            return;
        }
        let below = |segment: &str| path.iter().cloned().chain([escape(segment)]).collect::<Vec<_>>();
        match (golden, server) {
            (Some(Value::Object(a)), Some(Value::Object(b))) => {
                let keys = |map: &Map<String, Value>| map.keys().cloned().collect::<Vec<_>>();
                let all: std::collections::BTreeSet<String> = keys(a).into_iter().chain(keys(b)).collect();
                for key in all {
                    self.pair(a.get(&key), b.get(&key), below(&key));
                }
            }
            (Some(Value::Array(a)), Some(Value::Array(b))) => {
                if let Some(rule) = self.subset(&path) {
                    let (mine, theirs) = (keyed(a, &rule.by), keyed(b, &rule.by));
                    let wanted: std::collections::BTreeSet<String> =
                        theirs.keys().cloned().chain(rule.need.iter().cloned()).collect();
                    for key in wanted {
                        self.pair(mine.get(&key).copied(), theirs.get(&key).copied(), below(&key));
                    }
                    return;
                }
                let (mut a, mut b) = (a.clone(), b.clone());
                // Managers are ordered by the second in which they wrote: on a slow machine by another one.
                let by_time = path.last().is_some_and(|last| last == "managedFields");
                if by_time || self.case.unordered.iter().any(|pointer| begins(&path, pointer)) {
                    a.sort_by_cached_key(canonical);
                    b.sort_by_cached_key(canonical);
                }
                for i in 0..a.len().max(b.len()) {
                    self.pair(a.get(i), b.get(i), below(&i.to_string()));
                }
            }
            (a, b) if a == b => {}
            (Some(Value::String(a)), Some(Value::String(b))) if is_fingerprint(a) && is_fingerprint(b) => {}
            (a, b) => {
                self.out.push(Difference { path: path.join("/"), golden: a.cloned(), server: b.cloned() })
            }
        }
    }
}

/// Items by what tells them apart.
fn keyed<'v>(items: &'v [Value], by: &str) -> BTreeMap<String, &'v Value> {
    let key = |item: &Value| {
        let found = segments(by).into_iter().try_fold(item, |at, part| at.get(part.replace("~1", "/")));
        found.map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).unwrap_or_default()
    };
    items.iter().map(|item| (key(item), item)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn differences(rules: Value, golden: Value, server: Value) -> Vec<String> {
        let mut case = json!({"family": "f", "audience": "handed", "about": "a", "steps": []});
        case.as_object_mut().unwrap().extend(rules.as_object().unwrap().clone());
        let case: Case = serde_json::from_value(case).unwrap();
        let exchange = |body: Value| json!([{"step": "s", "response": {"status": 200, "body": body}}]);
        let found = compare(&case, &exchange(golden), &exchange(server)).unwrap();
        found.into_iter().map(|d| d.path).collect()
    }

    #[test]
    fn what_differs() {
        let none = json!({});
        assert!(differences(none.clone(), json!({"a": [1, null]}), json!({"a": [1, null]})).is_empty());
        assert_eq!(differences(none.clone(), json!({"a": 1}), json!({"a": 1.0})), ["s/body/a"]);
        assert_eq!(differences(none.clone(), json!({"a": null}), json!({})), ["s/body/a"]);
        assert_eq!(differences(none.clone(), json!([1]), json!([1, 2])), ["s/body/1"]);
        assert_eq!(differences(none, json!({"x/y": 1}), json!({"x/y": 2})), ["s/body/x~1y"]);
    }

    #[test]
    fn what_may_differ() {
        let managers = |all: Value| json!({"metadata": {"managedFields": all}});
        let none = json!({});
        assert!(
            differences(none.clone(), managers(json!(["a", "b"])), managers(json!(["b", "a"]))).is_empty()
        );
        assert_eq!(differences(none, managers(json!(["a", "b"])), managers(json!(["b", "c"]))).len(), 2);
        assert!(
            differences(json!({"ignore": ["/*/body/a"]}), json!({"a": 1}), json!({"a": {"b": 2}})).is_empty()
        );
        assert!(differences(json!({"unordered": ["/s/body"]}), json!([1, 2]), json!([2, 1])).is_empty());
        let rule = json!({"subset": [{"at": "/s/body", "by": "name", "need": ["b"]}]});
        let item = |name: &str, value: u8| json!({"name": name, "value": value});
        let golden = json!([item("a", 1), item("b", 2), item("c", 3)]);
        assert!(differences(rule.clone(), golden.clone(), json!([item("b", 2)])).is_empty());
        assert_eq!(differences(rule.clone(), golden.clone(), json!([item("a", 1)])), ["s/body/b"]);
        assert_eq!(differences(rule.clone(), golden.clone(), json!([item("b", 9)])), ["s/body/b/value"]);
        assert_eq!(differences(rule, golden, json!([item("b", 2), item("d", 4)])), ["s/body/d"]);
    }
}
