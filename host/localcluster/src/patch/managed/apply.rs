//! Server-side apply.

use serde_json::{Value, json};

use super::compare::{compare, fields};
use super::entries::{Manager, Managers, Owned};
use super::merge::{merge, remove as take_away};
use super::set::{Element, FieldSet, show};
use super::shape::{Node, Shape, item_element};
use super::{blank, store, strip, written};
use crate::crd::Nulls;
use crate::kinds::value::{remove, text};
use crate::patch::{PatchOptions, Patched, go, keep_type, redecode};
use crate::rest::strategy::Kind;
use crate::schema::{FieldValidation, decode_any, yaml};
use crate::status::{Cause, Status};

/// Applies a configuration (YAML or JSON) to `old`, or to nothing.
pub fn apply_ssa(
    kind: &Kind,
    old: Option<&Value>,
    patch: &[u8],
    options: &PatchOptions,
) -> Result<Patched, Status> {
    let (config, repeated) = parse(patch, options.validation)?;
    if !config["metadata"]["managedFields"].is_null() {
        return Err(Status::bad_request("metadata.managedFields must be nil"));
    }
    check_type(kind, &config)?;
    let creating = old.is_none();
    let mut live = old.cloned().unwrap_or_else(|| (*blank(kind)).clone());
    let mut managers = Managers::decode(&live["metadata"]["managedFields"]).unwrap_or_default();
    remove(&mut live["metadata"], "managedFields");
    keep_type(kind, &mut live);
    let node = Node::root(kind);
    check_typed(kind, node, &config)?;
    if managers.is_empty() && !creating {
        before_first_apply(kind, &live, &mut managers, &options.now);
    }
    let writer = Manager {
        name: options.field_manager.clone(),
        operation: "Apply".into(),
        api_version: kind.api_version(),
        subresource: options.sub.clone(),
    };
    let named = fields(node, &config);
    let wanted = strip(kind, &options.sub, named.clone());
    let last = managers.find(&writer).map(|o| (o.fields.clone(), o.time.clone()));
    managers.all.retain(|o| o.manager != writer);
    let merged = merge(node, &live, &config);
    let merged = prune(node, merged, last.as_ref().map(|l| &l.0), &managers, &named);
    let found = compare(node, &live, &merged);
    let touched = written(kind, &options.sub, found.modified.joined(found.added));
    let removed = written(kind, &options.sub, found.removed);
    conflicts(&managers, &touched, options.force)?;
    for owned in &mut managers.all {
        owned.fields = owned.fields.difference(&touched).difference(&removed);
    }
    managers.all.retain(|o| !o.fields.is_empty());
    let unchanged = merged == live;
    let time = match (&last, unchanged) {
        (Some((_, time)), true) => time.clone(),
        (None, true) if !creating => Value::Null,
        _ => json!(options.now),
    };
    managers.all.push(Owned { manager: writer, fields: wanted, time });
    let (mut object, notes) = redecode(kind, &merged, Nulls::Kept);
    if let Some(error) = notes.type_error {
        return Err(Status::server_error(format!("failed to convert new object: {error}")));
    }
    kind.strategy.default(kind, &mut object);
    store(&managers, &mut object);
    keep_type(kind, &mut object);
    let warnings = match options.validation {
        FieldValidation::Ignore => Vec::new(),
        _ => repeated.into_iter().chain(notes.strict).collect(),
    };
    Ok(Patched { object, warnings })
}

/// The configuration that is applied, and which of its keys come twice.
fn parse(patch: &[u8], validation: FieldValidation) -> Result<(Value, Vec<String>), Status> {
    let refuse = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
    let convert = |error: String| refuse(format!("error converting YAML to JSON: {error}"));
    // Most are JSON, which is YAML that is quick to read.
    if let Ok((value @ Value::Object(_), repeated)) = decode_any(patch) {
        if repeated.is_empty() {
            return Ok((value, repeated));
        }
    }
    let read = yaml::to_json(patch).map_err(convert)?;
    if validation == FieldValidation::Strict && !read.repeated.is_empty() {
        return Err(Status::bad_request(format!(
            "error strict decoding YAML: error converting YAML to JSON: {}",
            yaml::repeated_error(&read.repeated)
        )));
    }
    let value: Value = serde_json::from_slice(&read.json).map_err(|e| refuse(e.to_string()))?;
    match value {
        Value::Object(_) => Ok((value, read.repeated)),
        Value::Null => Ok((json!({}), read.repeated)),
        other => Err(refuse(format!(
            "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            go::json_type(&other)
        ))),
    }
}

fn check_type(kind: &Kind, config: &Value) -> Result<(), Status> {
    let (version, name) = (text(config, "apiVersion"), text(config, "kind"));
    if version == kind.api_version() && name == kind.kind {
        return Ok(());
    }
    let version =
        if version.contains('/') || version.is_empty() { version.to_owned() } else { format!("/{version}") };
    let version = if version.is_empty() { "/".to_owned() } else { version };
    Err(Status::bad_request(format!("invalid object type: {version}, Kind={name}")))
}

/// Unknown fields and items told apart by nothing are refused. Values stay as they are sent: another form of a quantity
/// than the stored one is another value.
fn check_typed(kind: &Kind, node: Node<'_>, config: &Value) -> Result<(), Status> {
    let mut errors = Vec::new();
    check_fields(node, config, &mut Vec::new(), &mut errors);
    if errors.is_empty() {
        return Ok(());
    }
    let errors = match errors.as_slice() {
        [one] => one.clone(),
        many => format!("errors:{}", many.iter().map(|e| format!("\n  {e}")).collect::<String>()),
    };
    let meta = &config["metadata"];
    let namespace = text(meta, "namespace");
    let gvk = match kind.group.as_str() {
        "" => format!("/{}, Kind={}", kind.version, kind.kind),
        group => format!("{group}/{}, Kind={}", kind.version, kind.kind),
    };
    Err(Status::server_error(format!(
        "failed to create typed patch object ({namespace}/{}; {gvk}): {errors}",
        text(meta, "name")
    )))
}

fn check_fields(node: Node<'_>, value: &Value, path: &mut Vec<Element>, errors: &mut Vec<String>) {
    if let Some(wanted) = node.mismatch(value) {
        errors.push(format!("{}: expected {wanted}", show(path)));
        return;
    }
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                path.push(Element::Field(key.clone()));
                if node.knows(key) {
                    check_fields(node.child(key), value, path, errors);
                } else {
                    errors.push(format!("{}: field not declared in schema", show(path)));
                }
                path.pop();
            }
        }
        Value::Array(list) => {
            let shape = node.shape(value);
            let mut seen: Vec<Element> = Vec::new();
            for (i, item) in list.iter().enumerate() {
                let Some(element) = item_element(node, &shape, item) else {
                    if let Shape::Keyed(keys) = &shape {
                        errors.push(format!(
                            "{}: element {i}: associative list with keys has an element that omits all key fields {keys:?} \
                             (and doesn't have default values for any key fields)",
                            show(path)
                        ));
                    }
                    check_fields(node.item(), item, path, errors);
                    continue;
                };
                if seen.contains(&element) {
                    errors.push(format!("{}: duplicate entries for key {element}", show(path)));
                }
                path.push(element.clone());
                seen.push(element);
                check_fields(node.item(), item, path, errors);
                path.pop();
            }
        }
        _ => {}
    }
}

/// An object that nobody is known to own parts of belongs to whoever came before.
fn before_first_apply(kind: &Kind, live: &Value, managers: &mut Managers, now: &str) {
    let found = compare(Node::root(kind), &blank(kind), live);
    let fields = strip(kind, "", found.added.joined(found.modified));
    if !fields.is_empty() {
        let manager = Manager {
            name: "before-first-apply".into(),
            operation: "Update".into(),
            api_version: kind.api_version(),
            subresource: String::new(),
        };
        managers.all.push(Owned { manager, fields, time: json!(now) });
    }
}

/// Takes away what the manager applied before, wants no longer, and nobody else owns.
fn prune(
    node: Node<'_>,
    merged: Value,
    last: Option<&FieldSet>,
    others: &Managers,
    wanted: &FieldSet,
) -> Value {
    let Some(last) = last.filter(|l| !l.is_empty()) else { return merged };
    let mut kept = wanted.with_parents();
    for owned in &others.all {
        kept = kept.union(&owned.fields.with_parents());
    }
    let gone = last.with_parents().difference(&kept);
    take_away(node, &merged, &gone)
}

fn conflicts(managers: &Managers, touched: &FieldSet, force: bool) -> Result<(), Status> {
    if force {
        return Ok(());
    }
    let mut found: Vec<(String, String)> = managers
        .all
        .iter()
        .flat_map(|owned| {
            let paths = owned.fields.intersection(touched).paths();
            let who = owned.manager.show();
            paths.into_iter().map(move |path| (who.clone(), show(&path)))
        })
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    let message = match found.as_slice() {
        [] => return Ok(()),
        [(who, path)] => format!("Apply failed with 1 conflict: conflict with {who}: {path}"),
        many => {
            let mut lines: Vec<String> = Vec::new();
            let mut current = "";
            for (who, path) in many {
                if who != current {
                    lines.push(format!("conflicts with {who}:"));
                    current = who;
                }
                lines.push(format!("- {path}"));
            }
            format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
        }
    };
    let causes = found
        .into_iter()
        .map(|(who, field)| Cause {
            reason: "FieldManagerConflict".into(),
            message: format!("conflict with {who}"),
            field,
        })
        .collect();
    Err(Status::apply_conflict(message, causes))
}
