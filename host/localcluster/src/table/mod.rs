//! Tables, as `kubectl get` shows them.
//!
//! In: the columns of a kind and an object. Out: column definitions and cells. Invariant: as many cells as columns.

mod age;
pub mod pod;

pub use age::{duration, since};

use serde_json::{Value, json};

use crate::kinds::value::{items, text};
use crate::rest::strategy::Kind;

/// A column.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// OpenAPI type.
    pub ty: &'static str,
    /// OpenAPI format.
    pub format: &'static str,
    /// Zero is always shown, one only in wide output.
    pub priority: u8,
}

/// The columns of a kind and how its cells are made.
#[derive(Clone)]
pub enum Columns {
    /// Name and time of creation, for kinds without columns of their own.
    NameAndCreation,
    /// Own columns; cells are made from the object and the present time.
    Own(&'static [Column], fn(&Value, &str) -> Vec<Value>),
    /// Columns of a CustomResourceDefinition.
    Custom(Vec<crate::crd::PrinterColumn>),
}

/// The columns of kinds without own ones.
pub static NAME_AND_CREATION: Columns = Columns::NameAndCreation;

/// A text column.
pub const fn column(name: &'static str) -> Column {
    Column { name, ty: "string", format: "", priority: 0 }
}

/// A number column.
pub const fn number(name: &'static str) -> Column {
    Column { name, ty: "integer", format: "", priority: 0 }
}

/// A column that is true or false.
pub const fn boolean(name: &'static str) -> Column {
    Column { name, ty: "boolean", format: "", priority: 0 }
}

/// A text column of wide output.
pub const fn wide(name: &'static str) -> Column {
    Column { name, ty: "string", format: "", priority: 1 }
}

/// The column that holds the name.
pub const NAME: Column = Column { name: "Name", ty: "string", format: "name", priority: 0 };
/// The column that holds the age.
pub const AGE: Column = column("Age");

/// `columnDefinitions` of a kind.
pub fn columns(kind: &Kind) -> Value {
    let definition = |name: &str, ty: &str, format: &str, priority: i64, description: &str| json!({"name": name, "type": ty, "format": format, "description": description, "priority": priority});
    let list = match kind.strategy.columns() {
        Columns::NameAndCreation => vec![
            definition("Name", "string", "name", 0, NAME_DOC),
            definition("Created At", "date", "", 0, CREATED_DOC),
        ],
        Columns::Own(columns, _) => columns
            .iter()
            .map(|c| {
                let doc = match c.name {
                    "Name" => NAME_DOC,
                    "Age" => CREATED_DOC,
                    other => other,
                };
                definition(c.name, c.ty, c.format, c.priority.into(), doc)
            })
            .collect(),
        Columns::Custom(columns) => {
            let mut list = vec![definition("Name", "string", "name", 0, NAME_DOC)];
            list.extend(
                columns.iter().map(|c| definition(&c.name, &c.ty, &c.format, c.priority, &c.description)),
            );
            list
        }
    };
    Value::Array(list)
}

const NAME_DOC: &str = "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names";
const CREATED_DOC: &str = "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata";

/// The cells of an object; `now` is RFC 3339.
pub fn cells(kind: &Kind, object: &Value, now: &str) -> Vec<Value> {
    match kind.strategy.columns() {
        Columns::NameAndCreation => {
            let meta = &object["metadata"];
            vec![meta["name"].clone(), meta["creationTimestamp"].clone()]
        }
        Columns::Own(_, cells) => cells(object, now),
        Columns::Custom(columns) => {
            let mut out = vec![object["metadata"]["name"].clone()];
            out.extend(columns.iter().map(|c| c.cell(object, now)));
            out
        }
    }
}

/// `conditions` of an object's row: finished pods have one.
pub fn conditions(kind: &Kind, object: &Value) -> Vec<Value> {
    if kind.group.is_empty() && kind.plural == "pods" { pod::conditions(object) } else { Vec::new() }
}

/// The object behind a row: as the server holds it, without what only the versioned form carries.
pub fn shown(kind: &Kind, object: &Value) -> Value {
    let mut out = json!({"metadata": object["metadata"]});
    if kind.group == "apps" && kind.plural == "daemonsets" {
        if let Some(Value::Object(annotations)) = out["metadata"].get_mut("annotations") {
            annotations.remove("deprecated.daemonset.template.generation");
            if annotations.is_empty() {
                crate::kinds::value::remove(&mut out["metadata"], "annotations");
            }
        }
    }
    out
}

/// Age of an object as a cell.
pub fn age(object: &Value, now: &str) -> Value {
    json!(since(text(&object["metadata"], "creationTimestamp"), now))
}

/// Name of an object as a cell.
pub fn name(object: &Value) -> Value {
    object["metadata"]["name"].clone()
}

/// Names and images of the containers of a pod template, as two cells.
pub fn containers(template: &Value) -> [Value; 2] {
    let join = |key| {
        let all: Vec<&str> = items(&template["spec"], "containers").iter().map(|c| text(c, key)).collect();
        json!(all.join(","))
    };
    [join("name"), join("image")]
}
