use super::*;
use crate::contract::{ClientLimits, Index, IndexValues, IndexedObjects, KeySource, OptionSpec, WriteRule};

fn resource(group: &str, version: &str, resource: &str) -> GroupResource {
    GroupResource { group: group.into(), version: version.into(), resource: resource.into() }
}

fn source(name: &str, keys: KeyKind) -> KeySource {
    KeySource { name: name.into(), keys, serial: false, queue: String::new() }
}

fn read(resource: GroupResource) -> Read {
    Read { resource, optional: false, fields: vec![], whole: false, sensitive: vec![], indexes: vec![] }
}

fn option(name: &str, kind: OptionKind, default: &str) -> OptionSpec {
    OptionSpec { name: name.into(), kind, default: default.into(), help: "Help.".into() }
}

fn sound() -> Manifest {
    let pods = resource("", "v1", "pods");
    Manifest {
        name: "widget-controller".into(),
        aliases: vec!["widget".into()],
        version: "1".into(),
        state_format: 0,
        accepts_state_formats: vec![],
        sources: vec![
            source("pods", KeyKind::Objects(vec![pods.clone()])),
            source(
                "orphans",
                KeyKind::IndexedObjects(IndexedObjects {
                    resources: vec![pods.clone()],
                    indexes: vec!["orphan".into(), "node".into()],
                }),
            ),
            source(
                "nodes",
                KeyKind::IndexValues(IndexValues { resource: pods.clone(), index: "node".into() }),
            ),
            source("one", KeyKind::Single("one".into())),
        ],
        reads: vec![Read {
            fields: vec![
                "spec.nodeName".into(),
                "status.conditions[*].{type,status}".into(),
                r#"metadata.annotations."example.com/x""#.into(),
            ],
            indexes: vec![Index { name: "node".into(), paths: vec!["spec.nodeName".into()] }],
            ..read(pods.clone())
        }],
        writes: vec![WriteRule { resource: pods, subresource: "status".into(), verbs: vec!["patch".into()] }],
        lookups: vec![LookupRule::Raw("/apis/metrics.k8s.io/".into()), LookupRule::Sign("ca".into())],
        options: vec![
            option("period", OptionKind::Duration, "1m30s"),
            option("on", OptionKind::Boolean, "true"),
        ],
        event_component: String::new(),
        concurrency: 0,
        concurrency_flag: "concurrent-widget-syncs".into(),
        client_limits: ClientLimits { qps: 0, burst: 0 },
        metrics: Vec::new(),
    }
}

/// What is wrong after a change to a sound manifest.
fn problems(change: impl FnOnce(&mut Manifest)) -> String {
    let mut manifest = sound();
    change(&mut manifest);
    validate(&manifest).err().unwrap_or_default().join("; ")
}

#[test]
fn a_sound_manifest_passes() {
    assert_eq!(problems(|_| {}), "");
    assert_eq!(problems(|m| m.reads.push(read(resource("*", "", "*")))), "");
}

#[test]
fn each_mistake_is_named() {
    let cases: [(fn(&mut Manifest), &str); 16] = [
        (|m| m.name = "Widget".into(), "name `Widget`"),
        (|m| m.aliases.push("widget".into()), "`widget` is named twice"),
        (|m| m.sources.clear(), "nothing to reconcile"),
        (|m| m.sources.push(source("pods", KeyKind::Single("x".into()))), "`pods` is named twice"),
        (
            |m| m.sources.push(source("y", KeyKind::Objects(vec![resource("", "v1", "nodes")]))),
            "v1/nodes is not among the reads",
        ),
        (
            |m| m.sources.push(source("y", KeyKind::Objects(vec![resource("", "v2", "pods")]))),
            "v2/pods is not among the reads",
        ),
        (
            |m| {
                m.sources.push(source(
                    "y",
                    KeyKind::IndexValues(IndexValues {
                        resource: resource("", "v1", "pods"),
                        index: "nod".into(),
                    }),
                ))
            },
            "index `nod` is neither built in nor declared",
        ),
        (|m| m.reads[0].fields.push("spec..x".into()), "field path `spec..x`"),
        (
            |m| m.reads[0].indexes.push(Index { name: "uid".into(), paths: vec!["spec.x".into()] }),
            "taken by a built-in index",
        ),
        (|m| m.reads.push(m.reads[0].clone()), "`v1/pods` is named twice"),
        (|m| m.reads.push(Read { whole: true, ..read(resource("*", "", "*")) }), "metadata only"),
        (|m| m.reads.push(read(resource("example.com", "v1", "Widget"))), "not a resource"),
        (|m| m.writes[0].verbs.push("get".into()), "unknown verb `get`"),
        (
            |m| m.options.push(option("n", OptionKind::Integer, "ten")),
            "the default `ten` is not a whole number",
        ),
        (|m| m.options.push(option("concurrent-widget-syncs", OptionKind::Text, "")), "is named twice"),
        (|m| m.lookups.push(LookupRule::Raw("/a/../b".into())), "raw `/a/../b`"),
    ];
    for (change, expected) in cases {
        let found = problems(change);
        assert!(found.contains(expected), "expected {expected:?} in {found:?}");
        assert!(!found.contains("; "), "one mistake, one problem: {found}");
    }
}

#[test]
fn all_mistakes_are_named_at_once() {
    let found = problems(|m| {
        m.name.clear();
        m.options[0].default = "soon".into();
    });
    assert!(found.contains("name ``") && found.contains("`soon` is not a duration"), "{found}");
}

#[test]
fn defaults_are_written_as_modules_are_given_them() {
    for (kind, default, good) in [
        (OptionKind::Decimal, "0.5", true),
        (OptionKind::Decimal, "1", true),
        (OptionKind::Decimal, "2e3", true),
        (OptionKind::Decimal, "-2e3", false),
        (OptionKind::Decimal, ".5", false),
        (OptionKind::Decimal, "+1", false),
        (OptionKind::Decimal, "NaN", false),
        (OptionKind::Boolean, "true", true),
        (OptionKind::Boolean, "T", false),
        (OptionKind::Integer, "-3", true),
        (OptionKind::Duration, "1m30s", true),
        (OptionKind::Duration, "90", false),
        (OptionKind::Duration, "-1m", false),
    ] {
        assert_eq!(check_option(kind, default).is_ok(), good, "{kind:?} {default:?}");
    }
}
