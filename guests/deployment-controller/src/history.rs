//! Old ReplicaSets that are kept for a return, and those that are not.

use coxswain_sdk::Object;
use coxswain_sdk::sort::sorted_by;

use crate::annotations::revision;
use crate::sets::Set;
use crate::view::ReplicaSet;

/// The old ones beyond the limit that can be deleted: the lowest revisions
/// first, and only those without pods.
pub fn surplus(old: &[Set], limit: Option<i32>) -> Vec<&Object<ReplicaSet>> {
    let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else { return Vec::new() };
    let kept = old.iter().filter(|set| set.seen.as_ref().is_some_and(|seen| !seen.metadata.is_deleting()));
    // Revisions that are no numbers sort as the oldest.
    let mut kept = sorted_by(kept, |a, b| {
        revision(&a.annotations).cmp(&revision(&b.annotations)).then_with(|| a.age().cmp(&b.age()))
    });
    let too_many = kept.len().saturating_sub(usize::try_from(limit).unwrap_or(0));
    kept.truncate(too_many);
    kept.into_iter().filter(|set| is_empty(set)).filter_map(|set| set.seen.as_ref()).collect()
}

/// Whether it has no pods, is to have none, and its status knows that.
fn is_empty(set: &Set) -> bool {
    set.seen.as_ref().is_some_and(|seen| {
        set.replicas == 0
            && seen.status.replicas == 0
            && seen.spec.replicas == Some(0)
            && seen.status.observed_generation >= seen.metadata.generation
    })
}

#[cfg(test)]
mod tests {
    use coxswain_sdk::contract::ObjectRef;
    use serde_json::{Value, json};

    use super::*;

    fn sets(changes: &[Value]) -> Vec<Set> {
        let set = |(i, change): (usize, &Value)| {
            let name = format!("s{i}");
            let mut json = json!({
                "metadata": {
                    "name": name,
                    "generation": 2,
                    "creationTimestamp": format!("2026-01-0{}T00:00:00Z", i + 1),
                    "annotations": {"deployment.kubernetes.io/revision": (i + 1).to_string()},
                },
                "spec": {"replicas": 0},
                "status": {"observedGeneration": 2},
            });
            coxswain_sdk::merge::apply(&mut json, change);
            let reference = ObjectRef { resource: 1, id: u32::try_from(i).unwrap(), version: 1 };
            Set::from(Object::new(reference, serde_json::from_value(json).unwrap()))
        };
        changes.iter().enumerate().map(set).collect()
    }

    #[test]
    fn the_lowest_revisions_without_pods_go() {
        let plain = json!({});
        let revised =
            |text: &str| json!({"metadata": {"annotations": {"deployment.kubernetes.io/revision": text}}});
        for (what, changes, limit, wanted) in [
            ("no limit", vec![plain.clone(); 3], None, vec![]),
            ("no limit by number", vec![plain.clone(); 3], Some(i32::MAX), vec![]),
            ("within", vec![plain.clone(); 3], Some(3), vec![]),
            ("two too many", vec![plain.clone(); 3], Some(1), vec!["s0", "s1"]),
            ("none is kept", vec![plain.clone(); 3], Some(0), vec!["s0", "s1", "s2"]),
            (
                "revision before age",
                vec![revised("9"), plain.clone(), plain.clone()],
                Some(1),
                vec!["s1", "s2"],
            ),
            ("ten after nine", vec![revised("10"), revised("9")], Some(1), vec!["s1"]),
            ("no number first", vec![plain.clone(), revised("x")], Some(1), vec!["s1"]),
            ("still wanted", vec![json!({"spec": {"replicas": 1}}), plain.clone()], Some(0), vec!["s1"]),
            ("still there", vec![json!({"status": {"replicas": 1}}), plain.clone()], Some(0), vec!["s1"]),
            (
                "not seen yet",
                vec![json!({"metadata": {"generation": 3}}), plain.clone()],
                Some(0),
                vec!["s1"],
            ),
            // One that is going anyway does not count; one that cannot go does.
            (
                "going",
                vec![json!({"metadata": {"deletionTimestamp": "2026-02-01T00:00:00Z"}}), plain.clone()],
                Some(1),
                vec![],
            ),
            ("in the way", vec![json!({"status": {"replicas": 1}}), plain.clone(), plain], Some(2), vec![]),
        ] {
            let sets = sets(&changes);
            let names: Vec<&str> =
                surplus(&sets, limit).iter().map(|set| set.metadata.name.as_str()).collect();
            assert_eq!(names, wanted, "{what}");
        }
    }
}
