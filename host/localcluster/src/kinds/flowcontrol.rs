//! Group `flowcontrol.apiserver.k8s.io`.

use serde_json::{Value, json};

use super::flowcontrol_rules::{conditions, level, schema};
use super::spec::{Generation, Spec, StatusMeta};
use super::value::{child, fill, int, items, present, text};
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

pub(super) fn spec(plural: &str) -> Spec {
    if plural == "flowschemas" { flow_schema() } else { priority_level() }
}

fn flow_schema() -> Spec {
    Spec {
        columns: Columns::Own(SCHEMAS, |object, now| {
            let spec = &object["spec"];
            let method = match text(&spec["distinguisherMethod"], "type") {
                "" => "<none>",
                method => method,
            };
            vec![
                name(object),
                json!(text(&spec["priorityLevelConfiguration"], "name")),
                json!(int(spec, "matchingPrecedence")),
                json!(method),
                age(object, now),
                json!(dangling(object)),
            ]
        }),
        generation: Generation::Spec,
        status_meta: StatusMeta::KeepAll,
        default: |object| super::value::fill_zero(child(object, "spec"), "matchingPrecedence", 1000),
        checks_meta: false,
        revalidates: true,
        validate: schema,
        validate_sub: |_, _, new| conditions(&new["status"]),
        ..Spec::new()
    }
}

const SCHEMAS: &[Column] = &[
    NAME,
    column("PriorityLevel"),
    column("MatchingPrecedence"),
    column("DistinguisherMethod"),
    AGE,
    column("MissingPL"),
];

/// Whether the priority level of a schema is missing.
fn dangling(schema: &Value) -> String {
    let conditions = items(&schema["status"], "conditions");
    let found = conditions.iter().find(|c| text(c, "type") == "Dangling");
    found.map_or("?".to_owned(), |c| text(c, "status").to_owned())
}

fn priority_level() -> Spec {
    const COLUMNS: &[Column] = &[
        NAME,
        column("Type"),
        column("NominalConcurrencyShares"),
        column("Queues"),
        column("HandSize"),
        column("QueueLengthLimit"),
        AGE,
    ];
    Spec {
        generation: Generation::Spec,
        status_meta: StatusMeta::KeepAll,
        checks_meta: false,
        revalidates: true,
        validate: level,
        validate_sub: |_, _, new| conditions(&new["status"]),
        default: |object| {
            let spec = child(object, "spec");
            if let Some(limited) = present(spec, "limited") {
                fill(limited, "nominalConcurrencyShares", 30);
                fill(limited, "lendablePercent", 0);
                if let Some(queues) = present(limited, "limitResponse").and_then(|r| present(r, "queuing")) {
                    super::value::fill_zero(queues, "handSize", 8);
                    super::value::fill_zero(queues, "queues", 64);
                    super::value::fill_zero(queues, "queueLengthLimit", 50);
                }
            }
            if let Some(exempt) = present(spec, "exempt") {
                fill(exempt, "nominalConcurrencyShares", 0);
                fill(exempt, "lendablePercent", 0);
            }
        },
        columns: Columns::Own(COLUMNS, |object, now| {
            let spec = &object["spec"];
            let queues = &spec["limited"]["limitResponse"]["queuing"];
            let or_none = |value: &Value| if value.is_null() { json!("<none>") } else { value.clone() };
            vec![
                name(object),
                json!(text(spec, "type")),
                or_none(&spec["limited"]["nominalConcurrencyShares"]),
                or_none(&queues["queues"]),
                or_none(&queues["handSize"]),
                or_none(&queues["queueLengthLimit"]),
                age(object, now),
            ]
        }),
        ..Spec::new()
    }
}
