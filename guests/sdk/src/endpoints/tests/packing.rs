//! Which endpoint goes into which slice, and what is written of it.

use serde_json::{Value, json};

use super::{Slice, port, read};
use crate::contract::{ObjectRef, Verb};
use crate::endpoints::TRIGGER_TIME;
use crate::endpoints::address::Family;
use crate::endpoints::draft::{Draft, Owner, recycle};
use crate::endpoints::pack::{Packed, pack};
use crate::endpoints::slice::{Endpoint, Hints, Target, Trigger};
use crate::endpoints::wanted::Wanted;
use crate::meta::{OwnerReference, StringMap};
use crate::view::Object;

fn endpoint(name: &str) -> Endpoint {
    read(json!({
        "addresses": [format!("10.0.0.{name}")],
        "conditions": {"ready": true},
        "targetRef": {"kind": "Pod", "namespace": "a", "name": name},
    }))
}

#[test]
fn wanted_endpoints_come_out_as_they_went_in() {
    let mut wanted = Wanted::default();
    for name in ["1", "2", "3", "4"] {
        wanted.insert(endpoint(name));
    }
    let mut unready = endpoint("2");
    unready.conditions.ready = Some(false);
    wanted.insert(unready.clone());
    assert_eq!(wanted.len(), 4, "the same endpoint is there once");
    assert_eq!(wanted.get(&endpoint("2")), Some(&unready), "the later one counts");
    assert_eq!(wanted.remove(&endpoint("3")), Some(endpoint("3")));
    assert_eq!(wanted.remove(&endpoint("3")), None);
    assert_eq!(wanted.len(), 3);
    assert_eq!(wanted.next(), Some(endpoint("1")));
    wanted.insert(endpoint("1"));
    let rest: Vec<Endpoint> = wanted.by_ref().collect();
    assert_eq!(rest, [endpoint("1"), unready, endpoint("4")]);
    assert!(wanted.is_empty());
}

#[test]
fn endpoints_differ_by_addresses_name_and_target() {
    let mut wanted = Wanted::default();
    let base =
        json!({"addresses": ["b", "a"], "hostname": "h", "targetRef": {"namespace": "n", "name": "p"}});
    wanted.insert(read(base.clone()));
    for (change, same) in [
        (json!({"addresses": ["a", "b"]}), true),
        (json!({"nodeName": "x", "zone": "y"}), true),
        (json!({"addresses": ["a"]}), false),
        (json!({"addresses": ["a", "b", "c"]}), false),
        (json!({"hostname": null}), false),
        (json!({"targetRef": {"name": "q"}}), false),
        (json!({"targetRef": {"namespace": "m"}}), false),
        (json!({"targetRef": null}), false),
    ] {
        let mut other = base.clone();
        crate::merge::apply(&mut other, &change);
        assert_eq!(wanted.get(&read(other)).is_some(), same, "{change}");
    }
}

/// Slices by name, with the names of their endpoints.
fn slices(of: &[(&str, &[&str])]) -> Vec<Object<Slice>> {
    let slice = |(id, (name, endpoints)): (u32, &(&str, &[&str]))| {
        let endpoints: Vec<Endpoint> = endpoints.iter().map(|name| endpoint(name)).collect();
        let view: Slice = read(json!({
            "metadata": {"name": name, "uid": name, "labels": {"a": "1"},
                         "ownerReferences": [{"apiVersion": "v1", "kind": "Service", "uid": "web"}]},
            "addressType": "IPv4", "endpoints": endpoints,
        }));
        Object::new(ObjectRef { resource: 1, id, version: 1 }, view)
    };
    (0..).zip(of).map(slice).collect()
}

fn blank() -> Draft<Trigger> {
    Draft::new(Family::V4, Vec::new(), StringMap::from([("a".to_owned(), "1".to_owned())]))
}

/// What becomes of slices: `name: endpoints`, `-name` for one that goes, and
/// `=name` for one that stays as it is.
fn show(packed: &Packed<Trigger>) -> Vec<String> {
    let name = |endpoint: &Endpoint| endpoint.target_ref.clone().unwrap_or_default().name;
    let mut shown: Vec<String> = packed
        .drafts
        .iter()
        .map(|draft| {
            let slice = draft.seen.as_ref().map_or("new", |seen| &seen.metadata.name);
            let endpoints: Vec<String> = draft.endpoints.iter().map(name).collect();
            format!("{slice}: {}", endpoints.join(" "))
        })
        .collect();
    shown.extend(packed.doomed.iter().map(|slice| format!("-{}", slice.metadata.name)));
    shown.extend(packed.untouched.iter().map(|slice| format!("={}", slice.metadata.name)));
    shown
}

#[test]
fn packing_changes_as_few_slices_as_can_be() {
    type Case<'a> = (&'a str, &'a [(&'a str, &'a [&'a str])], &'a [&'a str], &'a [&'a str]);
    let cases: &[Case<'_>] = &[
        ("nothing", &[], &[], &[]),
        ("the first", &[], &["1"], &["new: 1"]),
        ("more than fit", &[], &["1", "2", "3", "4", "5"], &["new: 1 2 3 4", "new: 5"]),
        ("just as it is", &[("s", &["1", "2"])], &["2", "1"], &["=s"]),
        ("one goes", &[("s", &["1", "2"])], &["2"], &["s: 2"]),
        ("all go", &[("s", &["1", "2"])], &[], &["-s"]),
        ("an empty one stays", &[("s", &[])], &[], &["=s"]),
        ("an empty one is filled", &[("s", &[])], &["1"], &["s: 1"]),
        ("one more", &[("s", &["1", "2"])], &["1", "2", "3"], &["s: 1 2 3"]),
        ("no room left", &[("s", &["1", "2", "3", "4"])], &["1", "2", "3", "4", "5"], &["new: 5", "=s"]),
        (
            "into the one that changes anyway, though another has room",
            &[("r", &["1", "2"]), ("s", &["3", "4"])],
            &["1", "2", "3", "5"],
            &["s: 3 5", "=r"],
        ),
        (
            "the fullest of those that change first",
            &[("r", &["1", "x"]), ("s", &["2", "3", "y"])],
            &["1", "2", "3", "4", "5"],
            &["s: 2 3 4 5", "r: 1"],
        ),
        (
            "into the one left with the least room",
            &[("q", &["1"]), ("r", &["2", "3"]), ("s", &["4", "5", "6", "7"])],
            &["1", "2", "3", "4", "5", "6", "7", "8"],
            &["r: 2 3 8", "=q", "=s"],
        ),
        (
            "of equals the first",
            &[("q", &["1", "2"]), ("r", &["3", "4"])],
            &["1", "2", "3", "4", "5"],
            &["q: 1 2 5", "=r"],
        ),
        (
            "a new slice rather than two changes",
            &[("q", &["1", "2", "3"]), ("r", &["4", "5", "6"])],
            &["1", "2", "3", "4", "5", "6", "7", "8"],
            &["new: 7 8", "=q", "=r"],
        ),
        (
            "a full slice of new ones is a new slice",
            &[("s", &[])],
            &["1", "2", "3", "4"],
            &["new: 1 2 3 4", "=s"],
        ),
        (
            "half empty slices are not put together",
            &[("r", &["1"]), ("s", &["2"])],
            &["1", "2"],
            &["=r", "=s"],
        ),
        (
            "what is there twice stays once",
            &[("r", &["1", "2"]), ("s", &["2", "3"])],
            &["1", "2", "3"],
            &["s: 3", "=r"],
        ),
        (
            "one with too many keeps them",
            &[("s", &["1", "2", "3", "4", "5"])],
            &["1", "2", "3", "4", "5"],
            &["=s"],
        ),
    ];
    for (about, before, wanted_names, after) in cases {
        let mut wanted = Wanted::default();
        wanted_names.iter().for_each(|name| wanted.insert(endpoint(name)));
        let packed = pack(slices(before), wanted, 4, &blank(), |_| false);
        assert_eq!(show(&packed), *after, "{about}");
    }
}

#[test]
fn a_changed_endpoint_changes_its_slice_alone() {
    let before = slices(&[("r", &["1", "2"]), ("s", &["3", "4"])]);
    let mut wanted = Wanted::default();
    for name in ["1", "2", "3", "4"] {
        let mut endpoint = endpoint(name);
        endpoint.conditions.ready = Some(name != "3");
        wanted.insert(endpoint);
    }
    let packed = pack(before, wanted, 100, &blank(), |_| false);
    assert_eq!(show(&packed), ["s: 3 4", "=r"]);
    assert_eq!(packed.drafts[0].endpoints[0].conditions.ready, Some(false));
}

#[test]
fn changed_labels_reach_every_slice_and_keep_its_hints() {
    let mut view = (*slices(&[("s", &["1"])]).remove(0)).clone();
    view.endpoints[0].hints = Some(Hints::zone("z"));
    let slice = Object::new(ObjectRef { resource: 1, id: 9, version: 1 }, view);
    let mut wanted = Wanted::default();
    wanted.insert(endpoint("1"));
    let mut blank = blank();
    blank.labels.insert("b".to_owned(), "2".to_owned());
    let packed = pack(vec![slice], wanted, 100, &blank, |_| true);
    assert_eq!(packed.drafts[0].labels, blank.labels);
    assert_eq!(packed.drafts[0].endpoints[0].hints, Some(Hints::zone("z")));
}

/// Each endpoint is looked at a fixed number of times, so ten times as many take
/// about ten times as long; a hundred times would be caught.
#[test]
fn ten_thousand_endpoints_are_packed_in_linear_time() {
    let time = |count: usize| {
        let endpoint = |number: usize| -> Endpoint {
            let target = Target { name: format!("pod-{number}"), ..Target::default() };
            Endpoint {
                addresses: vec![format!("10.{}.{}.1", number / 250, number % 250)],
                target_ref: Some(target),
                ..Endpoint::default()
            }
        };
        let mut before = slices(&[]);
        for at in 0..count / 100 {
            let mut view = (*slices(&[("s", &[])]).remove(0)).clone();
            view.endpoints = (at * 100..at * 100 + 100).map(endpoint).collect();
            before.push(Object::new(ObjectRef { resource: 1, id: 0, version: 1 }, view));
        }
        let mut wanted = Wanted::default();
        (0..count).for_each(|number| wanted.insert(endpoint(number)));
        wanted.remove(&endpoint(count / 2));
        let start = std::time::Instant::now();
        let packed = pack(before, wanted, 100, &blank(), |_| false);
        assert_eq!((packed.drafts.len(), packed.untouched.len()), (1, count / 100 - 1));
        start.elapsed()
    };
    time(1_000);
    let (small, large) = (time(1_000), time(10_000));
    assert!(large < small * 60 + std::time::Duration::from_millis(20), "{small:?}, then {large:?}");
}

fn body(action: &crate::Action) -> Value {
    match action.verb() {
        Verb::Create(body) => serde_json::from_str(body).unwrap(),
        Verb::Patch(patch) => serde_json::from_str(&patch.body).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_what_differs_is_written() {
    let reference = OwnerReference { uid: "web".to_owned(), ..OwnerReference::default() };
    let owner = Owner { namespace: "a", name: "web", reference: &reference };
    let slice = slices(&[("s", &["1"])]).remove(0);
    assert!(Draft::of(&slice).write(owner).unwrap().is_none(), "nothing differs");
    assert!(!Draft::of(&slice).is_news(owner));

    let mut draft = Draft::of(&slice);
    draft.endpoints.push(endpoint("2"));
    assert!(draft.is_news(owner));
    let patch = body(&draft.write(owner).unwrap().unwrap());
    assert_eq!(patch, json!({"endpoints": [endpoint("1"), endpoint("2")]}));

    let mut draft = Draft::of(&slice);
    draft.labels = StringMap::from([("b".to_owned(), "2".to_owned())]);
    draft.ports = vec![port("p", Some(1), "TCP", None)];
    let patch = body(&draft.write(owner).unwrap().unwrap());
    let ports = json!([{"name": "p", "port": 1, "protocol": "TCP"}]);
    assert_eq!(patch, json!({"metadata": {"labels": {"a": null, "b": "2"}}, "ports": ports}));

    let mut draft = Draft::of(&slice);
    draft.annotations.insert(TRIGGER_TIME.to_owned(), "t".to_owned());
    assert!(!draft.is_news(owner), "a time alone is no reason to write");

    let other = OwnerReference { uid: "new".to_owned(), ..OwnerReference::default() };
    let patch = body(&Draft::of(&slice).write(Owner { reference: &other, ..owner }).unwrap().unwrap());
    assert_eq!(patch["metadata"]["ownerReferences"][0]["uid"], "new");

    let creation = body(&blank().write(owner).unwrap().unwrap());
    assert_eq!(creation["metadata"]["generateName"], "web-");
    assert_eq!((&creation["endpoints"], &creation["ports"]), (&json!([]), &json!([])));
}

#[test]
fn new_slices_take_the_place_of_old_ones() {
    for (creations, doomed, families_differ, left) in [
        (1, 1, false, (0, 0)),
        (2, 1, false, (1, 0)),
        (1, 2, false, (0, 1)),
        (1, 1, true, (1, 1)),
        (0, 1, false, (0, 1)),
    ] {
        let mut drafts = vec![blank(); creations];
        if families_differ {
            drafts.iter_mut().for_each(|draft| draft.family = Family::V6);
        }
        let mut doomed: Vec<_> = slices(&[("r", &["1"]), ("s", &["2"])]).into_iter().take(doomed).collect();
        recycle(&mut drafts, &mut doomed, |_| true);
        let new = drafts.iter().filter(|draft| draft.seen.is_none()).count();
        assert_eq!((new, doomed.len()), left, "{creations} {families_differ}");
    }
    let mut drafts = vec![blank()];
    let mut doomed = slices(&[("s", &["1"])]);
    recycle(&mut drafts, &mut doomed, |_| false);
    assert_eq!((drafts[0].seen.is_none(), doomed.len()), (true, 1), "unless they are not fit for it");
}
