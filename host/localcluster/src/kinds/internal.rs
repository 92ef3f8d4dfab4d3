//! Values as the server holds them inside, which some messages show: fields have Go's names, and what is absent is
//! printed too.
//!
//! In: a published value. Out: its internal form as JSON text. Invariant: fields come in the order of the Go type.

use std::sync::LazyLock;

use serde_json::Value;

use super::difference::unified;
use super::value::items;
use crate::schema::types::unpack;

/// Internal types by name: `[printed name, published name, type, flags]` for each field.
static TYPES: LazyLock<Value> = LazyLock::new(|| unpack(include_bytes!("../../data/internal.json.gz")));

enum Node {
    Text(String),
    Object(Vec<(String, Node)>),
    List(Vec<Node>),
}

/// A value of an internal type on one line.
pub(super) fn shown(ty: &str, value: &Value) -> String {
    let mut out = String::new();
    structure(ty, value, &Value::Null).write(&mut out, None);
    out
}

/// A pod template on one line.
pub(super) fn pod_template(template: &Value) -> String {
    shown("PodTemplateSpec", template)
}

/// How one value of an internal type differs from another, as a unified diff.
pub(super) fn difference(ty: &str, old: &Value, new: &Value) -> String {
    let pretty = |spec: &Value| {
        let mut out = String::new();
        structure(ty, spec, &Value::Null).write(&mut out, Some(0));
        out.push('\n');
        out
    };
    let (old, new) = (pretty(old), pretty(new));
    unified(&old, &new)
}

/// A structure that is published and internal with the same fields, under their Go names.
pub(super) fn capitalised(fields: &[&str], value: &Value) -> String {
    let parts: Vec<String> = fields
        .iter()
        .map(|field| {
            let name = format!("{}{}", field[..1].to_uppercase(), &field[1..]);
            let shown = match &value[*field] {
                Value::Object(inner) => {
                    let keys: Vec<&str> = inner.keys().map(String::as_str).collect();
                    capitalised(&keys, &value[*field])
                }
                other => other.to_string(),
            };
            format!("\"{name}\":{shown}")
        })
        .collect();
    format!("{{{}}}", parts.join(","))
}

/// How pods are replaced, as the internal type of workloads has it.
pub(super) fn strategy(strategy: &Value, fields: &[&str]) -> String {
    let rolling = &strategy["rollingUpdate"];
    let rolling = if rolling.is_object() { capitalised(fields, rolling) } else { "null".to_owned() };
    let ty = strategy["type"].as_str().unwrap_or("");
    format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", Value::from(ty))
}

fn structure(name: &str, value: &Value, parent: &Value) -> Node {
    let mut out = Vec::new();
    // Metadata is embedded: its fields, and only they, keep their published names.
    let embeds = items(&TYPES, name).iter().any(|field| field[0] == "creationTimestamp");
    for field in items(&TYPES, name) {
        let text = |i: usize| field[i].as_str().unwrap_or("");
        let (printed, published, ty, flags) = (text(0), text(1), text(2), text(3));
        let found = match published.strip_prefix('^') {
            Some(above) => &parent[above],
            None if published.is_empty() => &Value::Null,
            None if embeds && printed.starts_with(|c: char| c.is_ascii_lowercase()) => {
                &value["metadata"][published]
            }
            None => &value[published],
        };
        if found.is_null() && flags.contains('o') {
            continue;
        }
        let node = if found.is_null() && flags.contains('p') {
            Node::Text("null".into())
        } else {
            typed(ty, found, value)
        };
        out.push((printed.to_owned(), node));
    }
    Node::Object(out)
}

fn typed(ty: &str, value: &Value, parent: &Value) -> Node {
    if let Some(item) = ty.strip_prefix("[]") {
        return match value.as_array() {
            Some(list) => Node::List(list.iter().map(|v| typed(item, v, &Value::Null)).collect()),
            None => Node::Text("null".into()),
        };
    }
    if let Some(item) = ty.strip_prefix("{}") {
        return match value.as_object() {
            Some(map) => {
                Node::Object(map.iter().map(|(k, v)| (k.clone(), typed(item, v, &Value::Null))).collect())
            }
            None => Node::Text("null".into()),
        };
    }
    let zero = |text: &str| Node::Text(if value.is_null() { text.to_owned() } else { value.to_string() });
    match ty {
        "string" => zero("\"\""),
        "bool" => zero("false"),
        "number" => zero("0"),
        "value" => zero("null"),
        name => structure(name, value, parent),
    }
}

impl Node {
    fn write(&self, out: &mut String, indent: Option<usize>) {
        let (open, close, count) = match self {
            Self::Text(text) => return out.push_str(text),
            Self::Object(fields) => ('{', '}', fields.len()),
            Self::List(list) => ('[', ']', list.len()),
        };
        out.push(open);
        for i in 0..count {
            if i > 0 {
                out.push(',');
            }
            new_line(out, indent.map(|depth| depth + 1));
            let inner = match self {
                Self::Object(fields) => {
                    out.push_str(&Value::from(fields[i].0.as_str()).to_string());
                    out.push_str(if indent.is_some() { ": " } else { ":" });
                    &fields[i].1
                }
                Self::List(list) => &list[i],
                Self::Text(_) => return,
            };
            inner.write(out, indent.map(|depth| depth + 1));
        }
        if count > 0 {
            new_line(out, indent);
        }
        out.push(close);
    }
}

fn new_line(out: &mut String, indent: Option<usize>) {
    if let Some(depth) = indent {
        out.push('\n');
        out.extend(std::iter::repeat_n(' ', depth));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn absent_fields_are_printed_too() {
        let shown = pod_template(
            &json!({"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}}),
        );
        assert!(shown.starts_with("{"), "{shown}");
        assert!(shown.contains("\"Containers\":[{\"Name\":\"c\",\"Image\":\"\",\"Command\":null"), "{shown}");
        let old = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]});
        let mut new = old.clone();
        new["containers"][0]["resources"]["requests"]["cpu"] = "2".into();
        let selector = json!({"selector": {"matchLabels": {"a": "b"}}});
        let shown = super::shown("PersistentVolumeClaimSpec", &selector);
        assert!(shown.contains(r#""Selector":{"matchLabels":{"a":"b"}}"#), "{shown}");
        let diff = difference("PodSpec", &old, &new);
        assert!(diff.contains("-     \"cpu\": \"1\"\n+     \"cpu\": \"2\"\n"), "{diff}");
    }
}
