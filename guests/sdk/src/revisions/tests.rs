use serde_json::{Value, json};

use super::*;
use crate::contract::ObjectRef;

fn template(image: &str) -> Value {
    json!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": image, "resources": {}}], "securityContext": {}},
    })
}

fn revision(name: &str, number: i64, data: &str) -> Object<Revision> {
    let revision = crate::from_json(&format!(
        r#"{{"metadata":{{"name":"{name}","creationTimestamp":"2026-01-01T00:00:00Z"}},"revision":{number},"data":{data}}}"#
    ));
    Object::new(ObjectRef { resource: 1, id: 1, version: 1 }, revision.unwrap())
}

/// As kube-controller-manager 1.36 wrote it for a StatefulSet.
const WRITTEN: &str = r#"{"spec":{"template":{"$patch":"replace","metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"img:1","imagePullPolicy":"IfNotPresent","name":"c","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}"#;

/// The template that it wrote this for, as the API server serves it.
const SERVED: &str = r#"{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"img:1","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","imagePullPolicy":"IfNotPresent"}],"restartPolicy":"Always","terminationGracePeriodSeconds":30,"dnsPolicy":"ClusterFirst","securityContext":{},"schedulerName":"default-scheduler"}}"#;

#[test]
fn the_bytes_are_those_of_kube_controller_manager() {
    let patch = TemplatePatch::of(&serde_json::from_str(SERVED).unwrap());
    assert_eq!(patch.text(), WRITTEN);
    assert_eq!(revision("a", 1, WRITTEN).data.text(), WRITTEN);
}

#[test]
fn metadata_is_written_as_go_does() {
    let text = |template| TemplatePatch::of(&template).text().to_owned();
    let empty = r#"{"spec":{"template":{"$patch":"replace","metadata":{},"spec":{}}}}"#;
    assert_eq!(text(json!({"spec": {}})), empty);
    assert_eq!(text(json!({"metadata": null, "spec": {}})), empty);
    assert_eq!(text(json!({"metadata": {"creationTimestamp": null}, "spec": {}})), empty);
    let claim = |metadata: Value| {
        json!({"metadata": {}, "spec": {"volumes": [{"name": "v", "ephemeral":
            {"volumeClaimTemplate": {"metadata": metadata, "spec": {}}}}]}})
    };
    assert_eq!(text(claim(json!({"creationTimestamp": null}))), text(claim(json!({}))));
    assert!(text(claim(json!({"creationTimestamp": "2026-01-01T00:00:00Z"}))).contains("2026"));
    for odd in [json!(null), json!(3), json!([])] {
        assert!(text(odd).starts_with(r#"{"spec":{"template":{"$patch":"replace","metadata":{}"#));
    }
}

/// Of a template that an API server before 1.34 served or stored (bug 134773).
#[test]
fn old_bytes_of_the_same_template_are_no_new_revision() {
    let old = WRITTEN.replace(r#""metadata":{"#, r#""metadata":{"creationTimestamp":null,"#);
    let wanted = TemplatePatch::of(&serde_json::from_str(SERVED).unwrap());
    let history = History::new(vec![revision("a", 1, &old)]);
    assert_ne!(history.revisions()[0].data, wanted);
    assert!(matches!(history.place_of(&wanted), Place::Latest(latest) if latest.metadata.name == "a"));
    // An API server that still serves the null makes no difference either.
    let served = SERVED.replace(r#""metadata":{"#, r#""metadata":{"creationTimestamp":null,"#);
    let wanted = TemplatePatch::of(&serde_json::from_str(&served).unwrap());
    assert_eq!(wanted.text(), WRITTEN);
    assert!(matches!(history.place_of(&wanted), Place::Latest(_)));
}

/// Of a release that filled in less: all that a later one adds.
#[test]
fn fields_that_are_filled_in_later_are_no_new_revision() {
    let early = r#"{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"image":"img:1","name":"c"}]}}}}"#;
    let wanted = TemplatePatch::of(&serde_json::from_str(SERVED).unwrap());
    assert!(matches!(History::new(vec![revision("a", 1, early)]).place_of(&wanted), Place::Latest(_)));
    // But what somebody chose is.
    let other = SERVED.replace("ClusterFirst", "Default");
    let wanted = TemplatePatch::of(&serde_json::from_str(&other).unwrap());
    assert!(matches!(History::new(vec![revision("a", 1, early)]).place_of(&wanted), Place::Nowhere));
}

#[test]
fn what_says_the_same_in_other_bytes() {
    let base = TemplatePatch::of(&template("i"));
    for (change, equal, same) in [
        (r#"{}"#, true, true),
        (r#"{"metadata":{"annotations":{}}}"#, false, true),
        (r#"{"spec":{"nodeSelector":{},"tolerations":[],"volumes":null}}"#, false, true),
        (r#"{"metadata":{"annotations":{"a":"b"}}}"#, false, false),
        (r#"{"spec":{"hostNetwork":true}}"#, false, false),
        (r#"{"spec":{"affinity":{}}}"#, false, false),
        (r#"{"spec":{"containers":[{"name":"c","image":"j"}]}}"#, false, false),
        (r#"{"spec":{"containers":[{"name":"c","image":"i"}]}}"#, false, true),
    ] {
        let mut other = template("i");
        crate::merge::apply(&mut other, &serde_json::from_str(change).unwrap());
        // A merge patch would drop the nulls.
        if change.contains("null") {
            other["spec"]["volumes"] = Value::Null;
        }
        let other = TemplatePatch::of(&other);
        assert_eq!((base == other, base.means_the_same(&other)), (equal, same), "{change}");
    }
}

#[test]
fn blanks_order_and_escapes_are_of_no_account() {
    let spaced = r#"{ "spec": {"template": {"spec": {"args": ["a\u003cb", 1.0]}, "metadata": {}, "$patch": "replace"} } }"#;
    let written = TemplatePatch::of(&json!({"spec": {"args": ["a<b", 1]}}));
    assert_eq!(revision("a", 1, spaced).data, written);
    assert!(written.text().contains(r"a\u003cb"));
}

#[test]
fn the_template_comes_back() {
    let template = revision("a", 1, WRITTEN).data.template().unwrap();
    assert_eq!(template.metadata.labels["app"], "web");
    assert!(template.spec.unwrap().get().starts_with(r#"{"containers":[{"image":"img:1""#));
    for broken in ["null", "{}", r#""text""#, r#"{"spec":{"template":[]}}"#] {
        assert!(revision("a", 1, broken).data.template().is_err(), "{broken}");
    }
}

/// Go's `fnv.New32`, then the characters that spell no words.
#[test]
fn hashes_are_those_of_kube_controller_manager() {
    let patch = revision("a", 1, WRITTEN).data.clone();
    assert_eq!(patch.hash(Some(0)), "8598d98d5b");
    assert_ne!(patch.hash(Some(0)), patch.hash(Some(1)));
    assert_ne!(patch.hash(Some(0)), patch.hash(None));
}

#[test]
fn names_keep_the_end_that_tells_them_apart() {
    assert_eq!(name_of("web", "h"), "web-h");
    assert_eq!(name_of(&"a".repeat(253), "h").len(), 225);
    assert_eq!(name_of(&"é".repeat(200), "h"), format!("{}-h", "é".repeat(111)));
}

#[test]
fn places_in_a_history() {
    let patch = |image| TemplatePatch::of(&template(image));
    let of = |name, number, image| revision(name, number, patch(image).text());
    let history = History::new(vec![of("c", 3, "c"), of("a", 1, "a"), of("b", 2, "b")]);
    let names: Vec<_> = history.revisions().iter().map(|r| r.metadata.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    assert_eq!(history.next_number(), 4);
    assert!(matches!(history.place_of(&patch("c")), Place::Latest(r) if r.metadata.name == "c"));
    assert!(matches!(history.place_of(&patch("a")), Place::Earlier(r) if r.metadata.name == "a"));
    assert!(matches!(history.place_of(&patch("d")), Place::Nowhere));
    assert!(matches!(History::default().place_of(&patch("d")), Place::Nowhere));
    assert_eq!(History::default().next_number(), 1);
    // The last of several equal ones counts; equal to the latest is the latest.
    let history = History::new(vec![of("a", 1, "a"), of("b", 2, "b"), of("c", 3, "a"), of("d", 4, "b")]);
    assert!(matches!(history.place_of(&patch("a")), Place::Earlier(r) if r.metadata.name == "c"));
    assert!(matches!(history.place_of(&patch("b")), Place::Latest(r) if r.metadata.name == "d"));
    // Numbers at their end stay there.
    let history = History::new(vec![of("a", i64::MAX, "a")]);
    assert_eq!(history.next_number(), i64::MAX);
}

#[test]
fn only_surplus_of_the_past_is_deleted() {
    let revisions = (1..=5).map(|n| revision(&format!("r{n}"), n, "{}")).collect();
    let history = History::new(revisions);
    for (limit, live, deleted) in [
        (10, vec!["r5"], vec![]),
        (2, vec!["r5"], vec!["r1", "r2"]),
        (0, vec!["r5", "r2"], vec!["r1", "r3", "r4"]),
        (1, vec!["r1", "r5"], vec!["r2", "r3"]),
        (-1, vec![], vec![]),
    ] {
        let surplus = history.surplus(limit, |r| live.contains(&r.metadata.name.as_str()));
        let names: Vec<_> = surplus.iter().map(|r| r.metadata.name.as_str()).collect();
        assert_eq!(names, deleted, "{limit} {live:?}");
    }
}

#[test]
fn the_order_is_by_number_age_and_name() {
    let at = |name: &str, number, age: &str| {
        let mut revision = Revision { revision: number, ..Revision::default() };
        revision.metadata.name = name.to_owned();
        revision.metadata.creation_timestamp = crate::Time::parse(age);
        revision
    };
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    for (a, b) in [
        (at("b", 1, new), at("a", 2, old)),
        (at("b", 1, old), at("a", 1, new)),
        (at("a", 1, old), at("b", 1, old)),
    ] {
        assert_eq!((a.compare(&b), b.compare(&a)), (Ordering::Less, Ordering::Greater));
    }
}
