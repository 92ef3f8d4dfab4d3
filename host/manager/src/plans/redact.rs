//! What a module calls sensitive does not leave the process.

use serde_json::Value;

use crate::{
    contract::{GroupResource, Read},
    store::{FieldTree, parse_path},
};

/// What stands in the place of a sensitive value.
const REDACTED: &str = "(redacted)";

/// Fields whose values are not to be shown, by resource.
#[derive(Clone, Debug, Default)]
pub struct Sensitive(Vec<(GroupResource, FieldTree)>);

impl Sensitive {
    /// What some reads call sensitive.
    pub fn of<'a>(reads: impl IntoIterator<Item = &'a Read>) -> Self {
        let sensitive = reads.into_iter().filter(|read| !read.sensitive.is_empty()).map(|read| {
            let paths = read.sensitive.iter().filter_map(|path| parse_path(path).ok()).flatten();
            (read.resource.clone(), FieldTree::new(paths))
        });
        Self(sensitive.collect())
    }

    /// Takes the values out of an object, or of a patch of one, and leaves the fields.
    pub fn redact(&self, resource: &GroupResource, body: &mut Value) {
        for (of, tree) in &self.0 {
            if of.group == resource.group && of.resource == resource.resource {
                redact(tree, body);
                redact_operations(tree, body);
            }
        }
    }
}

fn redact(tree: &FieldTree, value: &mut Value) {
    if tree.is_whole() {
        hide(value);
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, value) in fields.iter_mut() {
                if let Some(below) = tree.field(name) {
                    redact(below, value);
                }
            }
        }
        Value::Array(elements) => {
            if let Some(below) = tree.each() {
                elements.iter_mut().for_each(|element| redact(below, element));
            }
        }
        _ => {}
    }
}

/// A JSON patch names the field in a path.
fn redact_operations(tree: &FieldTree, body: &mut Value) {
    let Value::Array(operations) = body else { return };
    for operation in operations {
        let Some(path) = operation.get("path").and_then(Value::as_str) else { continue };
        let mut at = Some(tree);
        for part in path.split('/').skip(1) {
            let Some(tree) = at.filter(|tree| !tree.is_whole()) else { break };
            let part = part.replace("~1", "/").replace("~0", "~");
            at = tree.field(&part).or_else(|| tree.each());
        }
        if let (Some(tree), Some(value)) = (at.cloned(), operation.get_mut("value")) {
            redact(&tree, value);
        }
    }
}

/// Keeps the names of fields: which there are is rarely a secret and often the point.
fn hide(value: &mut Value) {
    match value {
        Value::Object(fields) => fields.values_mut().for_each(hide),
        Value::Null => {}
        value => *value = REDACTED.into(),
    }
}
