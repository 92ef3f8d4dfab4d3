//! Annotations that Deployments and their ReplicaSets carry.
//!
//! They are part of the interface: `kubectl rollout` reads them, and another
//! deployment controller must be able to go on from them.

use coxswain_sdk::StringMap;

use crate::bounds::Bounds;

/// On a ReplicaSet: the number of the template it was last made current with.
/// On a Deployment: the number of its current template.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// On a ReplicaSet: the numbers it had before, separated by commas.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// On a ReplicaSet: the Deployment's size when this one was last scaled. A
/// change of the Deployment's size is told from a rollout by it.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// On a ReplicaSet: the Deployment's size with surge at that time. Shares are
/// taken of it.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// On a Deployment: the revision to return to; 0 is the one before.
pub const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

/// Annotations that are not copied between a Deployment and its ReplicaSets.
const OWN: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    ROLLBACK_TO,
];

/// Bytes that the history may take.
const HISTORY_LIMIT: usize = 2000;

/// A ReplicaSet's revision. 0 if it has none yet, None if it is no number.
pub fn revision(annotations: &StringMap) -> Option<i64> {
    annotations.get(REVISION).map_or(Some(0), |text| text.parse().ok())
}

/// The revision to return to, if somebody asked for it.
pub fn rollback_to(annotations: &StringMap) -> Option<i64> {
    annotations.get(ROLLBACK_TO)?.parse().ok()
}

/// The Deployment's size when this ReplicaSet was last scaled.
pub fn desired_replicas(annotations: &StringMap) -> Option<i64> {
    size(annotations, DESIRED_REPLICAS)
}

/// The Deployment's size with surge when this ReplicaSet was last scaled.
pub fn max_replicas(annotations: &StringMap) -> Option<i64> {
    size(annotations, MAX_REPLICAS)
}

fn size(annotations: &StringMap, key: &str) -> Option<i64> {
    let text = annotations.get(key)?;
    // Digits alone: no sign, as it is written.
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse::<i32>().ok().map(i64::from)
}

/// Notes the Deployment's size on a ReplicaSet. Returns whether anything changed.
pub fn set_sizes(annotations: &mut StringMap, bounds: &Bounds) -> bool {
    let desired = set(annotations, DESIRED_REPLICAS, bounds.replicas.to_string());
    let most = set(annotations, MAX_REPLICAS, bounds.most().to_string());
    desired || most
}

fn set(annotations: &mut StringMap, key: &str, value: String) -> bool {
    let changed = annotations.get(key) != Some(&value);
    if changed {
        annotations.insert(key.to_owned(), value);
    }
    changed
}

/// The annotations of the ReplicaSet with the current template: those of the
/// Deployment, and a revision of at least `at_least`, with the one before it in
/// the history. A revision that is no number is somebody else's: nothing is
/// touched then.
pub fn of_current(deployment: &StringMap, replica_set: &StringMap, at_least: i64) -> StringMap {
    let mut wanted = replica_set.clone();
    let before = replica_set.get(REVISION);
    let number = match before.map(String::as_str) {
        None | Some("") => 0,
        Some(text) => match text.parse::<i64>() {
            Ok(number) => number,
            Err(_) => return wanted,
        },
    };
    for (key, value) in deployment {
        if !OWN.contains(&key.as_str()) {
            wanted.insert(key.clone(), value.clone());
        }
    }
    if number < at_least {
        wanted.insert(REVISION.to_owned(), at_least.to_string());
        if let Some(before) = before {
            add_to_history(&mut wanted, before);
        }
    }
    wanted
}

/// Adds a revision to the history; the oldest make room for it.
fn add_to_history(annotations: &mut StringMap, revision: &str) {
    let history = annotations.get(REVISION_HISTORY).cloned().unwrap_or_default();
    let mut rest = history.as_str();
    // An empty first entry is what an empty history looks like.
    if rest.is_empty() || rest.starts_with(',') {
        annotations.insert(REVISION_HISTORY.to_owned(), revision.to_owned());
        return;
    }
    while rest.len() + 1 + revision.len() > HISTORY_LIMIT {
        match rest.split_once(',') {
            Some((_, younger)) => rest = younger,
            None => {
                // One entry fills it all: it gives way, if that is enough.
                if revision.len() <= HISTORY_LIMIT {
                    annotations.insert(REVISION_HISTORY.to_owned(), revision.to_owned());
                }
                return;
            }
        }
    }
    annotations.insert(REVISION_HISTORY.to_owned(), format!("{rest},{revision}"));
}

/// The annotations of a Deployment that returns to a ReplicaSet's template: its
/// own, and the ReplicaSet's in place of the others.
pub fn after_rollback(deployment: &StringMap, replica_set: &StringMap) -> StringMap {
    let own = deployment.iter().filter(|(key, _)| OWN.contains(&key.as_str()));
    let copied = replica_set.iter().filter(|(key, _)| !OWN.contains(&key.as_str()));
    let mut wanted = StringMap::new();
    for (key, value) in own.chain(copied) {
        wanted.insert(key.clone(), value.clone());
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(pairs: &[(&str, &str)]) -> StringMap {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn sizes_are_digits_within_range() {
        for (text, wanted) in [
            ("", None),
            ("abc", None),
            ("-1", None),
            ("+1", None),
            ("0", Some(0)),
            ("12", Some(12)),
            ("2147483647", Some(2_147_483_647)),
            ("2147483648", None),
            ("99999999999999999999", None),
        ] {
            assert_eq!(desired_replicas(&map(&[(DESIRED_REPLICAS, text)])), wanted, "{text}");
            assert_eq!(max_replicas(&map(&[(MAX_REPLICAS, text)])), wanted, "{text}");
        }
        assert_eq!(desired_replicas(&map(&[])), None);
    }

    #[test]
    fn sizes_are_noted_once() {
        let bounds = Bounds { replicas: 4, surge: 1, unavailable: 0, rolling: true };
        let mut annotations = map(&[(DESIRED_REPLICAS, "4")]);
        assert!(set_sizes(&mut annotations, &bounds));
        assert_eq!(annotations, map(&[(DESIRED_REPLICAS, "4"), (MAX_REPLICAS, "5")]));
        assert!(!set_sizes(&mut annotations, &bounds));
    }

    #[test]
    fn revisions_that_are_no_numbers_do_not_count() {
        for (text, wanted) in [("7", Some(7)), ("", None), ("x", None), ("9223372036854775808", None)] {
            assert_eq!(revision(&map(&[(REVISION, text)])), wanted, "{text}");
        }
        assert_eq!(revision(&map(&[])), Some(0));
        for (text, wanted) in [("0", Some(0)), ("3", Some(3)), ("", None), ("three", None)] {
            assert_eq!(rollback_to(&map(&[(ROLLBACK_TO, text)])), wanted, "{text}");
        }
    }

    #[test]
    fn the_current_replica_set_carries_what_the_deployment_does() {
        let deployment = map(&[
            ("note", "b"),
            ("kubectl.kubernetes.io/last-applied-configuration", "{}"),
            (REVISION, "9"),
            (ROLLBACK_TO, "1"),
            (DESIRED_REPLICAS, "8"),
        ]);
        for (what, before, at_least, wanted) in [
            ("first time", map(&[]), 1, map(&[("note", "b"), (REVISION, "1")])),
            (
                "nothing to do",
                map(&[("note", "b"), (REVISION, "2")]),
                2,
                map(&[("note", "b"), (REVISION, "2")]),
            ),
            (
                "its own stay",
                map(&[("x", "y"), (REVISION, "2")]),
                1,
                map(&[("note", "b"), ("x", "y"), (REVISION, "2")]),
            ),
            (
                "current again",
                map(&[("note", "a"), (REVISION, "1")]),
                3,
                map(&[("note", "b"), (REVISION, "3"), (REVISION_HISTORY, "1")]),
            ),
            (
                "and again",
                map(&[("note", "b"), (REVISION, "3"), (REVISION_HISTORY, "1")]),
                5,
                map(&[("note", "b"), (REVISION, "5"), (REVISION_HISTORY, "1,3")]),
            ),
            ("no number", map(&[(REVISION, "one")]), 3, map(&[(REVISION, "one")])),
            (
                "empty",
                map(&[(REVISION, "")]),
                3,
                map(&[("note", "b"), (REVISION, "3"), (REVISION_HISTORY, "")]),
            ),
        ] {
            assert_eq!(of_current(&deployment, &before, at_least), wanted, "{what}");
        }
    }

    #[test]
    fn the_history_drops_the_oldest_first() {
        let long: Vec<String> = (100..600).map(|n| n.to_string()).collect();
        let mut annotations = map(&[(REVISION_HISTORY, &long.join(","))]);
        assert_eq!(annotations[REVISION_HISTORY].len(), 1999);
        add_to_history(&mut annotations, "600");
        let history = &annotations[REVISION_HISTORY];
        assert!(history.starts_with("101,") && history.ends_with(",599,600"), "{history}");
        assert!(history.len() <= HISTORY_LIMIT);
        let mut annotations = map(&[(REVISION_HISTORY, &"1".repeat(3000))]);
        add_to_history(&mut annotations, "2");
        assert_eq!(annotations[REVISION_HISTORY], "2");
    }

    #[test]
    fn a_rollback_takes_the_annotations_along() {
        let deployment = map(&[("note", "edit"), ("more", "x"), (REVISION, "2"), (ROLLBACK_TO, "1")]);
        let old = map(&[("note", "create"), (REVISION, "1"), (DESIRED_REPLICAS, "3")]);
        let wanted = map(&[("note", "create"), (REVISION, "2"), (ROLLBACK_TO, "1")]);
        assert_eq!(after_rollback(&deployment, &old), wanted);
    }
}
