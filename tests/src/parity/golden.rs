//! A run against what the reference did.
//!
//! In: a golden file, the result of a run. Out: a verdict with reasons. Kept:
//! state, waits and results must be equal; texts of conditions are only noted;
//! observations of maxima may be lower and of minima higher; events may lack
//! what the reference did not always do; writes are bounded.

use std::{collections::BTreeMap, fmt::Write, path::Path};

use anyhow::Context;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::{
    object::{canonical, dig, list, text},
    run::Outcome,
};

/// Writes may exceed the reference's by this factor and this number.
const WRITES: (f64, f64) = (1.25, 2.0);

/// What the reference did.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Golden {
    state: Map<String, Value>,
    waits: Value,
    results: Value,
    observations: Map<String, Value>,
    bounds: BTreeMap<String, String>,
    violations: Vec<String>,
    events: BTreeMap<String, u64>,
    optional_events: BTreeMap<String, u64>,
    writes: BTreeMap<String, u64>,
}

impl Golden {
    /// From a file.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read(path).with_context(|| format!("no golden file {}", path.display()))?;
        serde_json::from_slice(&text).with_context(|| format!("{} is not a golden file", path.display()))
    }

    /// What is wrong with a run, and what is only worth a note.
    fn compare(&self, now: &Outcome) -> Compared {
        let mut found = Compared::default();
        let empty_if_none = |value: &Value| if value.is_null() { json!({}) } else { value.clone() };
        for (part, golden, now) in
            [("waits", &self.waits, &now.waits), ("results", &self.results, &now.results)]
        {
            differences(&empty_if_none(golden), &Value::Object(now.clone()), part, &mut found.wrong);
        }
        let allowed: Vec<&str> = self.violations.iter().map(|v| before_colon(v)).collect();
        for violation in &now.violations {
            if !allowed.contains(&before_colon(violation)) {
                found.wrong.push(format!("violation: {violation}"));
            }
        }
        self.compare_observations(now, &mut found.wrong);
        let (golden_state, golden_texts) = without_messages(&self.state);
        let (state, texts) = without_messages(&now.state);
        compare_states(&golden_state, &state, &mut found.wrong);
        if golden_texts != texts {
            let only = |a: &[String], b: &[String]| {
                a.iter().filter(|text| !b.contains(text)).map(String::as_str).collect::<Vec<_>>().join(" | ")
            };
            found.notes.push(format!(
                "messages: only golden: {}; only now: {}",
                only(&golden_texts, &texts),
                only(&texts, &golden_texts)
            ));
        }
        for event in self.events.keys().filter(|e| !now.events.contains_key(*e)) {
            found.wrong.push(format!("event missing: {event}"));
        }
        for event in now.events.keys() {
            if !self.events.contains_key(event) && !self.optional_events.contains_key(event) {
                found.wrong.push(format!("event extra: {event}"));
            }
        }
        for (what, number) in &now.writes {
            let golden = self.writes.get(what).copied().unwrap_or_default();
            if *number as f64 > golden as f64 * WRITES.0 + WRITES.1 {
                found.wrong.push(format!("writes {what}: {number}, golden {golden}"));
            }
        }
        found
    }

    fn compare_observations(&self, now: &Outcome, wrong: &mut Vec<String>) {
        let mut names: Vec<&String> = self.observations.keys().chain(now.observations.keys()).collect();
        names.sort();
        names.dedup();
        for name in names {
            let golden = self.observations.get(name).unwrap_or(&Value::Null);
            let now = now.observations.get(name).unwrap_or(&Value::Null);
            let within = match (self.bounds.get(name).map(String::as_str), golden.as_f64(), now.as_f64()) {
                (Some("max"), Some(golden), Some(now)) => now <= golden,
                (Some("min"), Some(golden), Some(now)) => now >= golden,
                _ => golden == now,
            };
            if !within {
                wrong.push(format!("observation {name}: golden {golden} / now {now}"));
            }
        }
    }
}

#[derive(Default)]
struct Compared {
    wrong: Vec<String>,
    notes: Vec<String>,
}

/// Whether a run is good, and why.
#[derive(Debug)]
pub struct Verdict {
    /// It is.
    pub passed: bool,
    /// What to know about it.
    pub lines: Vec<String>,
}

/// Judges a run. `present` says of a report about the reference's behaviour
/// that it is still true: then the right outcome passes, and so does the same
/// fault. A report of something that was mended needs both.
pub fn judge(golden: &Golden, now: &Outcome, present: bool) -> Verdict {
    let Compared { wrong, notes } = golden.compare(now);
    let verdict = |passed: bool, first: Option<String>, wrong: Vec<String>| Verdict {
        passed,
        lines: first.into_iter().chain(wrong).chain(notes.iter().map(|n| format!("note: {n}"))).collect(),
    };
    match &now.wrong {
        None => verdict(wrong.is_empty(), None, wrong),
        Some(faults) if faults.is_empty() && present => {
            let writes: Vec<String> = wrong.into_iter().filter(|line| line.starts_with("writes")).collect();
            verdict(writes.is_empty(), Some("right outcome".into()), writes)
        }
        Some(faults) if faults.is_empty() => verdict(wrong.is_empty(), None, wrong),
        Some(faults) if present => {
            let first = format!("same fault as the reference: {}", faults.join("; "));
            verdict(wrong.is_empty(), Some(first), wrong)
        }
        Some(faults) => verdict(false, Some(format!("wrong outcome: {}", faults.join("; "))), wrong),
    }
}

fn before_colon(text: &str) -> &str {
    text.split(':').next().unwrap_or_default()
}

/// Lines that say where two values differ.
fn differences(golden: &Value, now: &Value, path: &str, out: &mut Vec<String>) {
    match (golden, now) {
        (Value::Object(a), Value::Object(b)) => {
            let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
            keys.sort();
            keys.dedup();
            for key in keys {
                let path = format!("{path}.{key}");
                match (a.get(key), b.get(key)) {
                    (Some(a), Some(b)) => differences(a, b, &path, out),
                    (Some(a), None) => out.push(format!("{path}: only golden: {}", short(a))),
                    (None, Some(b)) => out.push(format!("{path}: only now: {}", short(b))),
                    (None, None) => {}
                }
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (i, (a, b)) in a.iter().zip(b).enumerate() {
                differences(a, b, &format!("{path}[{i}]"), out);
            }
        }
        (a, b) if a == b => {}
        (a, b) => out.push(format!("{path}: golden {} / now {}", short(a), short(b))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(300) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Entries are counts and objects: equal objects are matched first, the rest in order.
fn compare_states(golden: &Map<String, Value>, now: &Map<String, Value>, out: &mut Vec<String>) {
    let mut resources: Vec<&String> = golden.keys().chain(now.keys()).collect();
    resources.sort();
    resources.dedup();
    for resource in resources {
        let rows = |state: &Map<String, Value>| -> Vec<(String, u64, Value)> {
            let rows = state.get(resource).map(list).unwrap_or_default().iter();
            rows.map(|row| {
                (canonical(&row["object"]), row["count"].as_u64().unwrap_or(1), row["object"].clone())
            })
            .collect()
        };
        let (golden, now) = (rows(golden), rows(now));
        for (key, count, object) in &golden {
            if let Some((_, other, _)) =
                now.iter().find(|(k, ..)| k == key).filter(|(_, other, _)| other != count)
            {
                let name = dig(object, "metadata.name").map(text).unwrap_or_default();
                out.push(format!("state {resource}: {name}: count golden {count} / now {other}"));
            }
        }
        let without = |a: &[(String, u64, Value)], b: &[(String, u64, Value)]| -> Vec<(u64, Value)> {
            let rest = a.iter().filter(|(key, ..)| !b.iter().any(|(k, ..)| k == key));
            rest.map(|(_, count, object)| (*count, object.clone())).collect()
        };
        let (left, right) = (without(&golden, &now), without(&now, &golden));
        for i in 0..left.len().max(right.len()) {
            match (left.get(i), right.get(i)) {
                (Some((a, golden)), Some((b, now))) => {
                    if a != b {
                        out.push(format!("state {resource}[{i}]: count golden {a} / now {b}"));
                    }
                    differences(golden, now, &format!("state {resource}[{i}]"), out);
                }
                (Some((n, golden)), None) => {
                    out.push(format!("state {resource}: missing now (x{n}): {}", short(golden)))
                }
                (None, Some((n, now))) => {
                    out.push(format!("state {resource}: extra now (x{n}): {}", short(now)))
                }
                (None, None) => {}
            }
        }
    }
}

/// A state without texts called `message`, with rows that became equal joined;
/// and the texts apart.
fn without_messages(state: &Map<String, Value>) -> (Map<String, Value>, Vec<String>) {
    let mut texts = Vec::new();
    let clean = state.iter().map(|(resource, rows)| {
        let mut table: BTreeMap<String, (u64, Value)> = BTreeMap::new();
        for row in list(rows) {
            let object = take_messages(&without_harness(&row["object"]), &mut texts);
            table.entry(canonical(&object)).or_insert((0, object)).0 += row["count"].as_u64().unwrap_or(1);
        }
        let rows = table.into_values().map(|(count, object)| json!({"count": count, "object": object}));
        (resource.clone(), rows.collect())
    });
    let clean = clean.collect();
    texts.sort();
    texts.dedup();
    (clean, texts)
}

/// A certificate request names who asked: the harness, which is another
/// administrator here than where the reference was recorded.
fn without_harness(object: &Value) -> Value {
    let mut object = object.clone();
    if object["kind"] != "CertificateSigningRequest" {
        return object;
    }
    let ours = !text(&object["spec"]["username"]).starts_with("system:");
    if let Some(spec) = object["spec"].as_object_mut().filter(|_| ours) {
        ["username", "extra", "uid", "groups"].iter().for_each(|key| drop(spec.remove(*key)));
    }
    object
}

fn take_messages(value: &Value, texts: &mut Vec<String>) -> Value {
    match value {
        Value::Object(fields) => {
            let mut out = Map::new();
            for (key, below) in fields {
                match below {
                    Value::String(message) if key == "message" => texts.push(message.clone()),
                    below => drop(out.insert(key.clone(), take_messages(below, texts))),
                }
            }
            Value::Object(out)
        }
        Value::Array(items) => items.iter().map(|item| take_messages(item, texts)).collect(),
        other => other.clone(),
    }
}

/// Lines of a verdict, one under the other.
pub fn report(lines: &[String]) -> String {
    let mut out = String::new();
    for line in lines.iter().take(40) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {line}");
    }
    if lines.len() > 40 {
        let _ = writeln!(out, "  … and {} more", lines.len() - 40);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn golden() -> Golden {
        serde_json::from_value(json!({
            "waits": {"a": true}, "results": {}, "observations": {"most": 3, "order": ["x"]}, "bounds": {"most": "max"},
            "violations": ["known"], "events": {"Pod Normal A": 1}, "optionalEvents": {"Pod Normal B": 1},
            "writes": {"pods create": 4},
            "state": {"pods": [{"count": 2, "object": {"metadata": {"name": "p"}, "message": "m"}}]},
        }))
        .unwrap()
    }

    fn same() -> Outcome {
        let map = |value: Value| value.as_object().unwrap().clone();
        Outcome {
            waits: map(json!({"a": true})),
            observations: map(json!({"most": 3, "order": ["x"]})),
            events: [("Pod Normal A".to_owned(), 9)].into(),
            writes: [("pods create".to_owned(), 7)].into(),
            state: map(
                json!({"pods": [{"count": 2, "object": {"metadata": {"name": "p"}, "message": "other"}}]}),
            ),
            ..Outcome::default()
        }
    }

    fn count(counts: &mut BTreeMap<String, u64>, what: &str, number: u64) {
        counts.insert(what.to_owned(), number);
    }

    fn wrong(change: impl FnOnce(&mut Outcome)) -> Vec<String> {
        let mut now = same();
        change(&mut now);
        let verdict = judge(&golden(), &now, false);
        assert_eq!(verdict.passed, verdict.lines.iter().all(|line| line.starts_with("note: ")));
        verdict.lines.into_iter().filter(|line| !line.starts_with("note: ")).collect()
    }

    #[test]
    fn tolerance() {
        assert!(wrong(|_| {}).is_empty());
        assert!(wrong(|now| drop(now.observations.insert("most".into(), json!(2)))).is_empty());
        assert_eq!(
            wrong(|now| drop(now.observations.insert("most".into(), json!(4)))),
            ["observation most: golden 3 / now 4"]
        );
        assert_eq!(wrong(|now| drop(now.observations.insert("order".into(), json!(["y"])))).len(), 1);
        assert!(wrong(|now| count(&mut now.events, "Pod Normal B", 1)).is_empty());
        assert_eq!(wrong(|now| count(&mut now.events, "Pod Normal C", 1)), ["event extra: Pod Normal C"]);
        assert_eq!(wrong(|now| now.events.clear()), ["event missing: Pod Normal A"]);
        assert_eq!(
            wrong(|now| count(&mut now.writes, "pods create", 8)),
            ["writes pods create: 8, golden 4"]
        );
        assert!(wrong(|now| count(&mut now.writes, "pods delete", 2)).is_empty());
        assert_eq!(wrong(|now| count(&mut now.writes, "pods delete", 3)).len(), 1);
        assert!(wrong(|now| now.violations.push("known: here too".into())).is_empty());
        assert_eq!(wrong(|now| now.violations.push("new".into())), ["violation: new"]);
        assert_eq!(wrong(|now| drop(now.waits.remove("a"))), ["waits.a: only golden: true"]);
        assert_eq!(
            wrong(|now| now.state["pods"][0]["object"]["metadata"]["name"] = json!("q")),
            [r#"state pods[0].metadata.name: golden "p" / now "q""#]
        );
        assert_eq!(
            wrong(|now| now.state["pods"][0]["count"] = json!(1)),
            ["state pods: p: count golden 2 / now 1"]
        );
    }

    #[test]
    fn reports_about_the_reference() {
        let mut now = same();
        now.wrong = Some(Vec::new());
        now.events.clear();
        assert!(judge(&golden(), &now, true).passed, "the right outcome need not equal the reference");
        assert!(!judge(&golden(), &now, false).passed, "what was mended must equal it");
        now.wrong = Some(vec!["fault".into()]);
        assert!(!judge(&golden(), &now, true).passed, "neither right nor the same fault");
        let mut now = same();
        now.wrong = Some(vec!["fault".into()]);
        assert!(judge(&golden(), &now, true).passed && !judge(&golden(), &now, false).passed);
        now.wrong = Some(Vec::new());
        now.writes.insert("pods create".into(), 99);
        assert!(!judge(&golden(), &now, true).passed, "writes are bounded in any case");
    }
}
