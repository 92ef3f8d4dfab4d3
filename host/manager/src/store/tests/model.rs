//! Random changes and queries, compared with a model too simple to be wrong.

use std::collections::BTreeMap;

use rand::{Rng, SeedableRng, rngs::SmallRng};
use serde_json::{Value, json};

use super::support::*;
use crate::{
    contract::{KeyKind, Query},
    engine::SnapshotHost,
    store::Selector,
};

type Model = BTreeMap<(String, String), Value>;

fn random_pod(rng: &mut SmallRng) -> Value {
    let name = format!("{}/{}", ["a", "b", "c"][rng.random_range(0..3)], rng.random_range(0..12));
    let labels = match rng.random_range(0..4) {
        0 => json!({}),
        1 => json!({"app": "web"}),
        2 => json!({"app": "db", "tier": "x"}),
        _ => json!({"tier": "y"}),
    };
    let mut object = if rng.random_bool(0.5) {
        owned(&name, ["s", "t"][rng.random_range(0..2)])
    } else {
        pod(&name, json!({}))
    };
    object["metadata"]["labels"] = labels;
    if rng.random_bool(0.1) {
        object["metadata"]["uid"] = format!("{name}-{}", rng.random_range(0..3)).into();
    }
    object["spec"]["nodeName"] = ["n1", "n2", "n3"][rng.random_range(0..3)].into();
    object["status"]["phase"] = rng.random_range(0..3).into();
    object["status"]["beat"] = rng.random_range(0..1000).into();
    object
}

fn random_query(rng: &mut SmallRng) -> Query {
    let mut query = match rng.random_range(0..6) {
        0 => by(PODS, "owner", &[["uid-s", "uid-t", "uid-u"][rng.random_range(0..3)]]),
        1 => by(PODS, "node", &[["n1", "n2", "n4"][rng.random_range(0..3)]]),
        2 => by(PODS, "orphan", &["true"]),
        3 => by(PODS, "uid", &[&format!("uid-a-{}", rng.random_range(0..12))]),
        _ => all(PODS),
    };
    if rng.random_bool(0.5) {
        query.namespace = Some(["a", "b", "d"][rng.random_range(0..3)].into());
    }
    if rng.random_bool(0.5) {
        let selectors = ["app=web", "app in (web,db),tier", "!app", "tier notin (x)", "tier!=y,app=db", ""];
        query.labels = Some(selectors[rng.random_range(0..selectors.len())].into());
    }
    query
}

/// What a query shows of a module that sees the phase and the node.
fn expected(model: &Model, query: &Query) -> Vec<(String, Value, Value)> {
    let selector = Selector::parse(query.labels.as_deref().unwrap_or("")).unwrap();
    let fits = |object: &Value| {
        let metadata = &object["metadata"];
        let index = query.index.as_ref().is_none_or(|index| {
            let value = index.value[0].as_str();
            match index.index.as_str() {
                "owner" => metadata["ownerReferences"][0]["uid"] == value,
                "node" => object["spec"]["nodeName"] == value,
                "uid" => metadata["uid"] == value,
                _ => metadata.get("ownerReferences").is_none(),
            }
        });
        index
            && query.namespace.as_deref().is_none_or(|namespace| metadata["namespace"] == namespace)
            && selector.matches(|key| metadata["labels"][key].as_str())
    };
    model.values().filter(|object| fits(object)).map(essence).collect()
}

fn essence(object: &Value) -> (String, Value, Value) {
    let uid = object["metadata"]["uid"].as_str().unwrap().to_owned();
    (uid, object["status"]["phase"].clone(), object["spec"]["nodeName"].clone())
}

fn shown(snapshot: &mut crate::store::Snapshot, query: &Query) -> Vec<(String, Value, Value)> {
    let refs = snapshot.list(query).unwrap();
    snapshot.read(&refs).unwrap().iter().map(|json| essence(&serde_json::from_str(json).unwrap())).collect()
}

fn change(bench: &Bench, model: &mut Model, rng: &mut SmallRng) {
    let place = |object: &Value| {
        let part = |name| object["metadata"][name].as_str().unwrap().to_owned();
        (part("namespace"), part("name"))
    };
    match rng.random_range(0..20) {
        0 => {
            model.retain(|_, _| rng.random_bool(0.7));
            let objects: Vec<Value> = model.values().cloned().collect();
            bench.relist(PODS, &objects);
        }
        1..6 => {
            let Some(object) = model.values().nth(rng.random_range(0..model.len().max(1))).cloned() else {
                return;
            };
            model.remove(&place(&object));
            bench.delete(PODS, &object);
        }
        _ => {
            let object = random_pod(rng);
            model.insert(place(&object), object.clone());
            bench.put(PODS, &object);
        }
    }
}

#[test]
fn every_snapshot_shows_what_the_model_held_when_it_was_taken() {
    for seed in 0..20 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let bench = Bench::new();
        let pods = indexed(read("pods", &["status.phase"]), "node", &["spec.nodeName"]);
        let worker = bench.attach(&manifest(vec![pods], vec![KeyKind::Single("x".into())]));
        // Another module sees more, so that what is stored is more than a view.
        let wide = bench.attach(&manifest(vec![read("pods", &["status"])], vec![]));
        bench.all_synced();
        let mut model = Model::new();
        let mut pinned = Vec::new();
        for step in 0..400 {
            change(&bench, &mut model, rng);
            if rng.random_bool(0.05) {
                pinned.push((worker.view.snapshot(&single("x")), model.clone()));
            }
            if pinned.len() > 3 {
                pinned.swap_remove(rng.random_range(0..pinned.len()));
            }
            let query = random_query(rng);
            let mut now = worker.view.snapshot(&single("x"));
            assert_eq!(
                shown(&mut now, &query),
                expected(&model, &query),
                "seed {seed}, step {step}, {query:?}"
            );
            for (snapshot, then) in &mut pinned {
                assert_eq!(
                    shown(snapshot, &query),
                    expected(then, &query),
                    "pinned, seed {seed}, step {step}, {query:?}"
                );
            }
        }
        drop((pinned, wide));
        assert_eq!(bench.store.history.kept(), 0);
    }
}

/// Whatever a key reads, a change that alters an answer wakes it, and one that
/// alters neither an answer nor what a member of it shows does not.
#[test]
fn exactly_the_changes_of_an_answer_wake() {
    for seed in 100..140 {
        let rng = &mut SmallRng::seed_from_u64(seed);
        let bench = Bench::new();
        let pods = indexed(read("pods", &["status.phase"]), "node", &["spec.nodeName"]);
        let worker = bench.attach(&manifest(vec![pods], vec![KeyKind::Single("x".into())]));
        bench.all_synced();
        let mut model = Model::new();
        (0..20).for_each(|_| change(&bench, &mut model, rng));
        for step in 0..200 {
            let query = random_query(rng);
            worker.view.forget(&single("x"));
            let before = worker.reads(&single("x"), |snapshot| snapshot.list(&query).unwrap());
            worker.woken();
            let late = rng.random_bool(0.3);
            let mut running = worker.view.snapshot(&single("x"));
            if late {
                worker.view.forget(&single("x"));
                assert_eq!(running.list(&query).unwrap(), before);
            }
            change(&bench, &mut model, rng);
            if late {
                worker.view.commit(&single("x"), running.into_reads(), true);
            }
            let after = worker.view.snapshot(&single("x")).list(&query).unwrap();
            assert_eq!(
                !worker.woken().is_empty(),
                before != after,
                "seed {seed}, step {step}, late {late}, {query:?}"
            );
        }
    }
}
