//! What is an address, which ports belong together, and what packing changes.

use std::net::IpAddr;

use serde_json::{Value, json};

use super::address::{self, Family, family_of};
use super::draft::{Draft, Owner, recycle};
use super::pack::{Packed, pack};
use super::pod::Pod;
use super::port::{self, In, Port, PortKey};
use super::service::{Service, same_but_reserved};
use super::slice::{Endpoint, EndpointSlice, Hints, Named, Target, Trigger};
use super::subsets::{Subset, Subsets, mean_the_same};
use super::wanted::Wanted;
use crate::contract::{ObjectRef, Verb};
use crate::meta::{OwnerReference, StringMap};
use crate::paths::{Fields, fields_of};
use crate::reader::from_json;
use crate::view::Object;

type Slice = EndpointSlice<Trigger>;

fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    from_json(&value.to_string()).unwrap_or_else(|e| panic!("{e}: {value}"))
}

#[test]
fn addresses_are_read_leniently_and_written_in_their_usual_form() {
    for (text, form, family) in [
        ("10.0.0.1", Some("10.0.0.1"), Some(Family::V4)),
        ("010.000.00.01", Some("10.0.0.1"), Some(Family::V4)),
        ("0.0.0.0", Some("0.0.0.0"), Some(Family::V4)),
        ("::ffff:10.0.0.1", Some("10.0.0.1"), Some(Family::V4)),
        ("2001:0db8:0:0::0001", Some("2001:db8::1"), Some(Family::V6)),
        ("::", Some("::"), Some(Family::V6)),
        ("256.0.0.1", None, None),
        ("0000000256.0.0.1", None, None),
        ("1.2.3", None, None),
        ("1.2.3.4.5", None, None),
        ("1..2.3", None, None),
        ("1.2.3.-4", None, None),
        ("1.2.3.+4", None, None),
        ("", None, None),
        ("None", None, None),
        ("::1%eth0", None, None),
    ] {
        let read = address::parse(text).map(|address: IpAddr| address.to_string());
        assert_eq!(read.as_deref(), form, "{text}");
        assert_eq!(family_of(text), family, "{text}");
    }
}

fn port(name: &str, number: Option<i32>, protocol: &str, app: Option<&str>) -> Port {
    Port {
        name: name.to_owned(),
        port: number,
        protocol: protocol.to_owned(),
        app_protocol: app.map(str::to_owned),
    }
}

/// The order was taken from the dumps of kube-controller-manager.
#[test]
fn ports_are_in_the_order_of_their_hashes() {
    let http = port("http", Some(8080), "TCP", None);
    let dns = port("", Some(53), "UDP", Some("a\"b"));
    let ports = port::in_order([dns.clone(), http.clone()], In::Subset);
    assert_eq!(ports, [http.clone(), dns], "25304a33... before ca8e854e...");
    let h2 = port("", Some(0), "UDP", Some("kubernetes.io/h2c"));
    let ports = port::in_order([h2.clone(), http.clone()], In::Slice);
    assert_eq!(ports, [http, h2], "0e874d56... before 72471497...");
}

#[test]
fn ports_share_a_key_whatever_their_order() {
    let (a, b) = (port("a", Some(1), "TCP", None), port("b", Some(2), "UDP", None));
    assert_eq!(PortKey::of(&[a.clone(), b.clone()]), PortKey::of(&[b.clone(), a.clone()]));
    for other in [
        port("a", Some(1), "UDP", None),
        port("a", Some(2), "TCP", None),
        port("x", Some(1), "TCP", None),
        port("a", Some(1), "TCP", Some("http")),
        port("a", None, "TCP", None),
    ] {
        assert_ne!(PortKey::of(std::slice::from_ref(&a)), PortKey::of(&[other]));
    }
    // What the API fills in makes no difference.
    let bare: Port = read(json!({"port": 1, "name": null, "protocol": ""}));
    assert_eq!(PortKey::of(&[bare]), PortKey::of(&[port("", Some(1), "TCP", None)]));
}

#[test]
fn a_service_port_is_found_on_the_pod() {
    let pod: Pod = read(json!({"spec": {
        "containers": [
            {"ports": [{"name": "http", "containerPort": 8080}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]},
            {"ports": [{"name": "http", "containerPort": 9090}, {"name": "admin", "containerPort": 81}]},
        ],
        "initContainers": [
            {"ports": [{"name": "once", "containerPort": 1}]},
            {"restartPolicy": "Always", "ports": [{"name": "side", "containerPort": 2}, {"name": "http", "containerPort": 3}]},
        ],
    }}));
    for (target, protocol, found) in [
        (json!(8000), "TCP", Some(8000)),
        (json!(0), "TCP", Some(0)),
        (Value::Null, "TCP", Some(0)),
        (json!("http"), "TCP", Some(8080)),
        (json!("http"), "UDP", None),
        (json!("dns"), "UDP", Some(53)),
        (json!("dns"), "TCP", None),
        (json!("admin"), "TCP", Some(81)),
        (json!("side"), "TCP", Some(2)),
        (json!("once"), "TCP", None),
        (json!("8080"), "TCP", None),
        (json!(""), "TCP", None),
    ] {
        let service: Service =
            read(json!({"spec": {"ports": [{"targetPort": target, "protocol": protocol}]}}));
        assert_eq!(pod.port_for(&service.spec.ports[0]), found, "{target} {protocol}");
    }
}

#[test]
fn a_pod_counts_while_it_has_an_address_and_has_not_ended() {
    for (status, counts) in [
        (json!({"phase": "Running", "podIP": "10.0.0.1"}), true),
        (json!({"phase": "Running", "podIPs": [{"ip": "10.0.0.1"}]}), true),
        (json!({"phase": "Pending", "podIP": "10.0.0.1"}), true),
        (json!({"phase": "Unknown", "podIP": "10.0.0.1"}), true),
        (json!({"phase": "Failed", "podIP": "10.0.0.1"}), false),
        (json!({"phase": "Succeeded", "podIP": "10.0.0.1"}), false),
        (json!({"phase": "Running"}), false),
        (json!({"phase": "Running", "podIP": "", "podIPs": null}), false),
    ] {
        let pod: Pod = read(json!({"status": status}));
        assert_eq!(pod.has_endpoint(), counts, "{status}");
    }
}

#[test]
fn a_pod_has_a_name_within_its_subdomain_only() {
    let service: Service = read(json!({"metadata": {"name": "db", "namespace": "a"}}));
    for (namespace, hostname, subdomain, name) in [
        ("a", "db-0", "db", Some("db-0")),
        ("a", "", "db", None),
        ("a", "db-0", "other", None),
        ("a", "db-0", "", None),
        ("b", "db-0", "db", None),
    ] {
        let pod: Pod = read(json!({
            "metadata": {"namespace": namespace},
            "spec": {"hostname": hostname, "subdomain": subdomain},
        }));
        assert_eq!(pod.hostname_in(&service), name, "{namespace} {hostname} {subdomain}");
    }
}

#[test]
fn a_service_has_the_families_it_says_or_those_of_its_address() {
    use Family::{V4, V6};
    for (spec, families) in [
        (json!({"ipFamilies": ["IPv4"]}), vec![V4]),
        (json!({"ipFamilies": ["IPv6"], "clusterIP": "10.0.0.1"}), vec![V6]),
        (json!({"ipFamilies": ["IPv6", "IPv4"]}), vec![V4, V6]),
        (json!({"ipFamilies": ["IPv4", "IPv4"]}), vec![V4]),
        (json!({"clusterIP": "10.0.0.1"}), vec![V4]),
        (json!({"clusterIP": "fd00::1"}), vec![V6]),
        (json!({"clusterIP": "nonsense"}), vec![V4]),
        (json!({"clusterIP": "None"}), vec![V4, V6]),
        (json!({"ipFamilies": ["IPv5"], "clusterIP": "None"}), vec![V4, V6]),
        (json!({}), vec![V4, V6]),
    ] {
        let service: Service = read(json!({"spec": spec}));
        assert_eq!(service.families(), families, "{spec}");
    }
}

#[test]
fn endpoints_are_made_only_for_a_selector() {
    for (spec, made) in [
        (json!({"selector": {"a": "b"}}), Some("a=b")),
        (json!({"selector": {"a": "b"}, "type": "ExternalName"}), None),
        (json!({"selector": {}}), None),
        (json!({"selector": null}), None),
        (json!({}), None),
    ] {
        let service: Service = read(json!({"spec": spec}));
        let selector = service.selector().map(|selector| selector.to_string());
        assert_eq!(selector.as_deref(), made, "{spec}");
    }
}

#[test]
fn the_annotations_ask_for_hints() {
    let (old, mode) = ("service.kubernetes.io/topology-aware-hints", "service.kubernetes.io/topology-mode");
    for (annotations, auto) in [
        (json!({}), false),
        (json!({"other": "auto"}), false),
        (json!({old: "auto"}), true),
        (json!({old: "Auto"}), true),
        (json!({old: "aUto"}), false),
        (json!({old: "enabled"}), false),
        (json!({mode: "auto"}), true),
        (json!({mode: "Auto"}), true),
        (json!({mode: "aUto"}), false),
        (json!({mode: "disabled"}), false),
        (json!({mode: "disabled", old: "auto"}), true),
        (json!({mode: "auto", old: "disabled"}), false),
    ] {
        let service: Service = read(json!({"metadata": {"annotations": annotations}}));
        assert_eq!(service.metadata.annotations.is_auto(), auto, "{annotations}");
    }
}

#[test]
fn labels_are_copied_but_for_those_that_say_what_a_slice_is() {
    const NAME: &str = "kubernetes.io/service-name";
    const MANAGER: &str = "endpointslice.kubernetes.io/managed-by";
    const HEADLESS: &str = "service.kubernetes.io/headless";
    let own = json!({"team": "x", NAME: "evil", MANAGER: "evil", HEADLESS: "evil"});
    for (address, labels) in [
        ("10.0.0.1", json!({"team": "x", NAME: "web", MANAGER: "m"})),
        ("None", json!({"team": "x", NAME: "web", MANAGER: "m", HEADLESS: ""})),
        ("", json!({"team": "x", NAME: "web", MANAGER: "m", HEADLESS: ""})),
    ] {
        let service: Service =
            read(json!({"metadata": {"name": "web", "labels": own}, "spec": {"clusterIP": address}}));
        assert_eq!(json!(service.slice_labels("m")), labels, "{address}");
    }
    let labels = |value: Value| -> StringMap { serde_json::from_value(value).unwrap() };
    for (some, others, same) in [
        (json!({"a": "1"}), json!({"a": "1", NAME: "x", HEADLESS: ""}), true),
        (json!({"a": "1"}), json!({"a": "2"}), false),
        (json!({"a": "1"}), json!({}), false),
        (json!({MANAGER: "x"}), json!({}), true),
    ] {
        assert_eq!(
            same_but_reserved(&labels(some.clone()), &labels(others.clone())),
            same,
            "{some} {others}"
        );
    }
}

#[test]
fn what_is_replaced_whole_is_kept_whole() {
    let Fields::Paths(paths) = fields_of::<Slice>() else { panic!("the whole slice is read") };
    let trigger = "metadata.annotations.\"endpoints.kubernetes.io/last-change-trigger-time\"";
    assert_eq!(paths, ["addressType", "endpoints", trigger, "ports"]);
    let Fields::Paths(paths) = fields_of::<super::subsets::Endpoints<StringMap>>() else { panic!("whole") };
    assert_eq!(paths, ["metadata.annotations", "subsets"]);
}

#[test]
fn slices_read_back_as_they_are_written() {
    let endpoint = Endpoint {
        addresses: vec!["10.0.0.1".to_owned()],
        conditions: super::slice::Conditions { ready: Some(true), serving: None, terminating: Some(false) },
        hostname: Some("a".to_owned()),
        target_ref: Some(Target { kind: "Pod".to_owned(), uid: "u".to_owned(), ..Target::default() }),
        node_name: Some("n".to_owned()),
        zone: Some("z".to_owned()),
        hints: Some(Hints { for_zones: vec![Named { name: "z".to_owned() }], for_nodes: Vec::new() }),
    };
    let text = json!(endpoint);
    assert_eq!(read::<Endpoint>(text.clone()), endpoint);
    assert_eq!(text["hints"], json!({"forZones": [{"name": "z"}]}));
    // What is absent, null or unknown is no error.
    let read: Slice = read(json!({
        "addressType": "FQDN", "ports": null,
        "endpoints": [{"addresses": null, "conditions": null, "hints": {"forNodes": null}, "future": [{}]}],
    }));
    assert_eq!(read.family(), None);
    assert_eq!(read.endpoints, [Endpoint { hints: Some(Hints::default()), ..Endpoint::default() }]);
}

#[test]
fn endpoints_say_the_same_unless_something_else_than_hints_or_versions_differs() {
    let base = json!({
        "conditions": {"ready": true}, "nodeName": "n", "zone": "z",
        "targetRef": {"kind": "Pod", "name": "p", "resourceVersion": "1"},
    });
    let with = |path: &str, value: Value| {
        let mut changed = base.clone();
        *changed.pointer_mut(path).unwrap_or_else(|| panic!("{path}")) = value;
        read::<Endpoint>(changed)
    };
    let plain: Endpoint = read(base.clone());
    for (path, value, same) in [
        ("/nodeName", json!("n"), true),
        ("/targetRef/resourceVersion", json!("2"), true),
        ("/targetRef/resourceVersion", json!(""), true),
        ("/targetRef/name", json!("q"), false),
        ("/targetRef", Value::Null, false),
        ("/nodeName", json!("m"), false),
        ("/nodeName", Value::Null, false),
        ("/zone", json!("y"), false),
        ("/conditions/ready", json!(false), false),
        ("/conditions", json!({"ready": true, "serving": true}), false),
    ] {
        let changed = with(path, value.clone());
        assert_eq!(plain.says_the_same(&changed), same, "{path} {value}");
        assert_eq!(changed.says_the_same(&plain), same, "{path} {value}");
    }
}

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
    assert!(!Draft::of(&slice).is_news(owner).unwrap());

    let mut draft = Draft::of(&slice);
    draft.endpoints.push(endpoint("2"));
    assert!(draft.is_news(owner).unwrap());
    let patch = body(&draft.write(owner).unwrap().unwrap());
    assert_eq!(patch, json!({"endpoints": [endpoint("1"), endpoint("2")]}));

    let mut draft = Draft::of(&slice);
    draft.labels = StringMap::from([("b".to_owned(), "2".to_owned())]);
    draft.ports = vec![port("p", Some(1), "TCP", None)];
    let patch = body(&draft.write(owner).unwrap().unwrap());
    let ports = json!([{"name": "p", "port": 1, "protocol": "TCP"}]);
    assert_eq!(patch, json!({"metadata": {"labels": {"a": null, "b": "2"}}, "ports": ports}));

    let mut draft = Draft::of(&slice);
    draft.annotations.insert(super::TRIGGER_TIME.to_owned(), "t".to_owned());
    assert!(!draft.is_news(owner).unwrap(), "a time alone is no reason to write");

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

fn canonical(subsets: &Value) -> Value {
    let subsets: Vec<Subset> = read(subsets.clone());
    json!(Subsets::of(&subsets).finish())
}

#[test]
fn subsets_have_one_canonical_form() {
    let p = |name: &str, number: i32| json!({"name": name, "port": number, "protocol": "TCP"});
    let a = |ip: &str| json!({"ip": ip});
    let (p1, p2) = (p("a", 1), p("b", 2));
    for (about, before, after) in [
        ("nothing", json!([]), json!([])),
        ("no address", json!([{"ports": [p1]}]), json!([])),
        (
            "addresses are sorted",
            json!([{"addresses": [a("2"), a("1")], "ports": [p1]}]),
            json!([{"addresses": [a("1"), a("2")], "ports": [p1]}]),
        ),
        (
            "the same ports are put together",
            json!([{"addresses": [a("1")], "ports": [p1]}, {"notReadyAddresses": [a("2")], "ports": [p1]}]),
            json!([{"addresses": [a("1")], "notReadyAddresses": [a("2")], "ports": [p1]}]),
        ),
        (
            "the same addresses are put together",
            json!([{"addresses": [a("1")], "ports": [p1]}, {"addresses": [a("1")], "ports": [p2]}]),
            json!([{"addresses": [a("1")], "ports": [p1, p2]}]),
        ),
        (
            "ready on one port and not on the other",
            json!([{"addresses": [a("1")], "ports": [p1]}, {"notReadyAddresses": [a("1")], "ports": [p2]}]),
            json!([{"addresses": [a("1")], "ports": [p1]}, {"notReadyAddresses": [a("1")], "ports": [p2]}]),
        ),
        (
            "what is not ready once is not ready",
            json!([{"addresses": [a("1")], "ports": [p1]}, {"notReadyAddresses": [a("1")], "ports": [p1]}]),
            json!([{"notReadyAddresses": [a("1")], "ports": [p1]}]),
        ),
        (
            "no ports at all",
            json!([{"addresses": [a("2")]}, {"addresses": [a("1")], "ports": []}]),
            json!([{"addresses": [a("1"), a("2")]}]),
        ),
        (
            "pods that share an address",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "v"}}, {"ip": "1", "targetRef": {"uid": "u"}}], "ports": [p1]}]),
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}, {"ip": "1", "targetRef": {"uid": "v"}}], "ports": [p1]}]),
        ),
    ] {
        let mut formed = canonical(&before);
        for subset in formed.as_array_mut().unwrap() {
            // Their order is that of hashes, which another test is about.
            if let Some(ports) = subset.get_mut("ports").and_then(Value::as_array_mut) {
                ports.sort_by_key(|port| port["name"].to_string());
            }
        }
        assert_eq!(formed, after, "{about}");
        assert_eq!(canonical(&after), canonical(&canonical(&after)), "{about}");
    }
}

#[test]
fn subsets_are_compared_whatever_their_order_and_versions() {
    let p = json!([{"port": 1}]);
    let base = json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u", "resourceVersion": "1"}}, {"ip": "2"}], "ports": p}]);
    for (about, other, same) in [
        ("itself", base.clone(), true),
        ("none", json!([]), false),
        (
            "another order",
            json!([{"addresses": [{"ip": "2"}], "ports": p}, {"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}], "ports": p}]),
            true,
        ),
        (
            "another address",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}, {"ip": "3"}], "ports": p}]),
            false,
        ),
        (
            "another pod",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "v"}}, {"ip": "2"}], "ports": p}]),
            false,
        ),
        (
            "another port",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}, {"ip": "2"}], "ports": [{"port": 2}]}]),
            false,
        ),
        (
            "another state",
            json!([{"addresses": [{"ip": "1", "targetRef": {"uid": "u"}}], "notReadyAddresses": [{"ip": "2"}], "ports": p}]),
            false,
        ),
    ] {
        let (one, two): (Vec<Subset>, Vec<Subset>) = (read(base.clone()), read(other));
        assert_eq!(mean_the_same(&one, &two), same, "{about}");
        assert_eq!(mean_the_same(&two, &one), same, "{about}");
    }
}
