//! What is an address, what counts of pods and services, and which ports belong
//! together.

mod packing;
mod subsets;

use std::net::IpAddr;

use serde_json::{Value, json};

use super::address::{self, Family, family_of};
use super::pod::Pod;
use super::port::{self, In, Port, PortKey};
use super::service::{Service, same_but_reserved};
use super::slice::{Endpoint, EndpointSlice, Hints, Named, Target, Trigger};
use crate::meta::StringMap;
use crate::paths::{Fields, fields_of};
use crate::read::FromJson;
use crate::reader::from_json;

type Slice = EndpointSlice<Trigger>;

fn read<T: FromJson>(value: Value) -> T {
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
