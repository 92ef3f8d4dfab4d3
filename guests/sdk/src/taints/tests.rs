use serde_json::json;

use super::*;
use crate::read::FromJson;

fn taint(key: &str, value: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), value: value.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}

#[test]
fn a_toleration_matches_by_effect_key_and_value() {
    let tainted = taint("k", "v", NO_EXECUTE);
    for (toleration, tolerates) in [
        (json!({"key": "k", "value": "v", "effect": "NoExecute"}), true),
        (json!({"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}), true),
        (json!({"key": "k", "operator": "Equal", "value": "w"}), false),
        (json!({"key": "k", "operator": "Equal"}), false),
        (json!({"key": "k", "operator": "Exists"}), true),
        (json!({"key": "k", "operator": "Exists", "effect": "NoSchedule"}), false),
        (json!({"key": "other", "operator": "Exists"}), false),
        (json!({"operator": "Exists"}), true),
        (json!({"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}), true),
        (json!({"value": "v"}), true),
        (json!({}), false),
        (json!({"key": "k", "operator": "Gt", "value": "1"}), false),
        (json!({"key": "k", "operator": "exists"}), false),
    ] {
        let parsed: Toleration = serde_json::from_value(toleration.clone()).unwrap();
        assert_eq!(parsed.tolerates(&tainted), tolerates, "{toleration}");
    }
    let valueless: Toleration = serde_json::from_value(json!({"key": "k", "operator": "Equal"})).unwrap();
    assert!(valueless.tolerates(&taint("k", "", NO_SCHEDULE)));
}

#[test]
fn only_taints_of_the_effects_asked_for_count() {
    let taints =
        [taint("soft", "", "PreferNoSchedule"), taint("a", "", NO_SCHEDULE), taint("b", "", NO_EXECUTE)];
    let of = |tolerations: &[Toleration], effects: &[&str]| {
        untolerated(&taints, tolerations, effects).map(|taint| taint.key.clone())
    };
    assert_eq!(of(&[], &[NO_SCHEDULE, NO_EXECUTE]).as_deref(), Some("a"));
    assert_eq!(of(&[], &[NO_EXECUTE]).as_deref(), Some("b"));
    let a = Toleration::exists("a", NO_SCHEDULE);
    assert_eq!(of(std::slice::from_ref(&a), &[NO_SCHEDULE, NO_EXECUTE]).as_deref(), Some("b"));
    let b = Toleration::exists("b", NO_EXECUTE);
    assert_eq!(of(&[a, b], &[NO_SCHEDULE, NO_EXECUTE]), None);
    assert_eq!(of(&[], &[]), None);
}

#[test]
fn taints_are_kept_whole_and_written_as_they_came() {
    for json in [
        json!({"key": "k", "effect": "NoSchedule"}),
        json!({"key": "k", "value": "v", "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"}),
        json!({"key": "k", "effect": "NoSchedule", "news": {"a": [1]}}),
    ] {
        let parsed: Taint = crate::from_json(&json.to_string()).unwrap();
        assert_eq!(serde_json::to_value(parsed).unwrap(), json);
    }
    #[derive(FromJson)]
    #[allow(dead_code, reason = "only the shape counts")]
    struct Spec {
        taints: Vec<Taint>,
    }
    let whole = crate::paths::Fields::Paths(vec!["taints".to_owned()]);
    assert_eq!(crate::paths::fields_of::<Spec>(), whole);
    for bad in [json!({"key": 5}), json!({"key": "k", "timeAdded": "yesterday"}), json!([])] {
        assert!(crate::from_json::<Taint>(&bad.to_string()).is_err(), "{bad}");
    }
}

#[test]
fn a_new_taint_says_when_it_was_put_on() {
    let now = Time::parse("2026-01-01T00:00:00.9Z").unwrap();
    let taint = Taint::new(UNREACHABLE, NO_EXECUTE, now);
    assert_eq!(
        serde_json::to_value(&taint).unwrap(),
        json!({"key": UNREACHABLE, "effect": "NoExecute", "timeAdded": "2026-01-01T00:00:00Z"})
    );
    assert!(has(std::slice::from_ref(&taint), UNREACHABLE, NO_EXECUTE));
    assert!(!has(&[taint], UNREACHABLE, NO_SCHEDULE));
}
