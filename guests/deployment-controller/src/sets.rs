//! The ReplicaSets of a Deployment: as they are, and as they are to become.
//!
//! In: what was claimed. Out: the one with the current template apart from the
//! older ones, with room for changes, which become writes at the end. So
//! whatever decides about sizes is plain arithmetic.

use coxswain_sdk::condition::Condition;
use coxswain_sdk::sort::sorted_by;
use coxswain_sdk::{Object, StringMap, Time};

use crate::annotations::{revision, set_sizes};
use crate::bounds::Bounds;
use crate::template::Template;
use crate::view::{ReplicaSet, ReplicaSetStatus};

/// A ReplicaSet as it is to become.
#[derive(Clone, Debug)]
pub struct Set {
    /// As it is; None if it is about to be created.
    pub seen: Option<Object<ReplicaSet>>,
    /// Name.
    pub name: String,
    /// Size.
    pub replicas: i64,
    /// Annotations.
    pub annotations: StringMap,
    /// For how long a pod must be ready to be available.
    pub min_ready_seconds: i64,
}

impl From<Object<ReplicaSet>> for Set {
    fn from(seen: Object<ReplicaSet>) -> Self {
        Self {
            name: seen.metadata.name.clone(),
            replicas: size_of(&seen),
            annotations: seen.metadata.annotations.clone(),
            min_ready_seconds: seen.spec.min_ready_seconds,
            seen: Some(seen),
        }
    }
}

/// Size of a ReplicaSet as it is.
pub fn size_of(set: &ReplicaSet) -> i64 {
    i64::from(set.spec.replicas.unwrap_or(1))
}

impl Set {
    fn status(&self) -> Option<&ReplicaSetStatus> {
        self.seen.as_ref().map(|seen| &seen.status)
    }

    /// Its size before anything is done, or the one that it is created with.
    pub fn seen_size(&self) -> i64 {
        self.seen.as_ref().map_or(self.replicas, |seen| size_of(seen))
    }

    /// How many of its pods are available.
    pub fn available(&self) -> i64 {
        self.status().map_or(0, |status| status.available_replicas)
    }

    /// How many available pods it surely has. What is reported may be from before
    /// it shrank, and from before it grew again, so that pods are counted that
    /// are about to go. Those must not be given up for twice.
    pub fn surely_available(&self) -> i64 {
        let is_current =
            |seen: &Object<ReplicaSet>| seen.status.observed_generation >= seen.metadata.generation;
        if self.seen.as_ref().is_some_and(is_current) { self.available().min(self.replicas) } else { 0 }
    }

    /// How many of its pods are ready.
    pub fn ready(&self) -> i64 {
        self.status().map_or(0, |status| status.ready_replicas)
    }

    /// How many pods it has.
    pub fn actual(&self) -> i64 {
        self.status().map_or(0, |status| status.replicas)
    }

    /// How many of its pods are terminating; None if somebody looks after it
    /// who does not say.
    pub fn terminating(&self) -> Option<i64> {
        match self.status() {
            Some(status) if status.terminating_replicas.is_none() && status.observed_generation != 0 => None,
            status => Some(status.and_then(|status| status.terminating_replicas).unwrap_or(0)),
        }
    }

    /// The condition of this type.
    pub fn condition(&self, kind: &str) -> Option<&Condition> {
        coxswain_sdk::condition::find(&self.status()?.conditions, kind)
    }

    /// Its uid; none while it is about to be created.
    pub fn uid(&self) -> Option<&str> {
        self.seen.as_ref().map(|seen| seen.metadata.uid.as_str())
    }

    /// Whether it is meant to have pods.
    pub fn is_active(&self) -> bool {
        self.replicas > 0
    }

    /// Sorts by age, oldest first; one about to be created is the youngest.
    pub fn age(&self) -> (bool, Option<Time>, &str) {
        (self.seen.is_none(), self.seen.as_ref().and_then(|s| s.metadata.creation_timestamp), &self.name)
    }

    /// Changes the size, and notes the Deployment's size beside it. Returns
    /// whether the size changed.
    pub fn scale_to(&mut self, size: i64, bounds: &Bounds) -> bool {
        let changes = self.replicas != size;
        if changes {
            self.replicas = size;
            set_sizes(&mut self.annotations, bounds);
        }
        changes
    }

    /// As [`Set::scale_to`], and notes the Deployment's size in any case.
    pub fn scale_and_note(&mut self, size: i64, bounds: &Bounds) {
        self.replicas = size;
        set_sizes(&mut self.annotations, bounds);
    }
}

/// The ReplicaSets of a Deployment.
#[derive(Clone, Debug, Default)]
pub struct Sets {
    /// The one with the current template.
    pub new: Option<Set>,
    /// The others, oldest first.
    pub old: Vec<Set>,
}

impl Sets {
    /// Tells the one with this template from the others. Of several it is the
    /// oldest, so that the choice stays the same.
    pub fn sort_out(owned: Vec<Object<ReplicaSet>>, template: &Template) -> Self {
        let mut old = sorted_by(owned.into_iter().map(Set::from), |a, b| a.age().cmp(&b.age()));
        let has_template = |set: &Set| set.seen.as_ref().is_some_and(|seen| seen.spec.template == *template);
        let new = old.iter().position(has_template).map(|at| old.remove(at));
        Self { new, old }
    }

    /// All of them: the older ones first.
    pub fn all(&self) -> impl Iterator<Item = &Set> {
        self.old.iter().chain(&self.new)
    }

    /// All of them: the older ones first.
    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Set> {
        self.old.iter_mut().chain(&mut self.new)
    }

    /// Sum of the sizes.
    pub fn size(&self) -> i64 {
        self.all().map(|set| set.replicas).sum()
    }

    /// The highest revision among the older ones.
    pub fn newest_old_revision(&self) -> i64 {
        self.old.iter().filter_map(|set| revision(&set.annotations)).fold(0, i64::max)
    }
}

#[cfg(test)]
pub(crate) mod made {
    //! ReplicaSets for tables.

    use coxswain_sdk::contract::ObjectRef;
    use serde_json::json;

    use super::*;
    use crate::annotations::{DESIRED_REPLICAS, MAX_REPLICAS};

    /// One of this size, all of whose pods are available, made at this hour.
    pub fn set(name: &str, size: i64, hour: u32) -> Set {
        set_with(name, size, size, hour)
    }

    /// One of this size, so many of whose pods are available.
    pub fn set_with(name: &str, size: i64, available: i64, hour: u32) -> Set {
        let view = json!({
            "metadata": {"name": name, "uid": name, "creationTimestamp": format!("2026-01-01T{hour:02}:00:00Z")},
            "spec": {"replicas": size},
            "status": {"replicas": size, "readyReplicas": available, "availableReplicas": available},
        });
        let reference = ObjectRef { resource: 1, id: hour, version: 1 };
        Set::from(Object::new(reference, serde_json::from_value(view).unwrap()))
    }

    /// Changed since its status was written.
    pub fn stale(mut set: Set) -> Set {
        let seen = set.seen.as_ref().unwrap();
        let mut view = (**seen).clone();
        view.metadata.generation = view.status.observed_generation + 1;
        set.seen = Some(Object::new(seen.reference(), view));
        set
    }

    /// Says so many terminating pods.
    pub fn counting(mut set: Set, terminating: Option<i64>) -> Set {
        let seen = set.seen.as_ref().unwrap();
        let mut view = (**seen).clone();
        view.status.observed_generation = 1;
        view.status.terminating_replicas = terminating;
        set.seen = Some(Object::new(seen.reference(), view));
        set
    }

    /// Notes a Deployment's size.
    pub fn noted(mut set: Set, desired: i64, most: i64) -> Set {
        set.annotations.insert(DESIRED_REPLICAS.to_owned(), desired.to_string());
        set.annotations.insert(MAX_REPLICAS.to_owned(), most.to_string());
        set
    }

    /// A rolling update's bounds.
    pub fn bounds(replicas: i64, surge: i64, unavailable: i64) -> Bounds {
        Bounds { replicas, surge, unavailable, rolling: true }
    }

    /// Names and sizes, the older ones first.
    pub fn sizes(sets: &Sets) -> Vec<(&str, i64)> {
        sets.all().map(|set| (set.name.as_str(), set.replicas)).collect()
    }
}

#[cfg(test)]
mod tests {
    use coxswain_sdk::contract::ObjectRef;
    use serde_json::{Value, json};

    use super::*;

    fn object(id: u32, json: Value) -> Object<ReplicaSet> {
        let reference = ObjectRef { resource: 1, id, version: 1 };
        Object::new(reference, serde_json::from_value(json).unwrap())
    }

    fn named(id: u32, name: &str, made: &str, image: &str) -> Object<ReplicaSet> {
        object(
            id,
            json!({
                "metadata": {"name": name, "creationTimestamp": made},
                "spec": {"template": {"metadata": {"labels": {"pod-template-hash": name}}, "spec": {"image": image}}},
            }),
        )
    }

    #[test]
    fn the_oldest_with_the_template_is_current() {
        let (early, late) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
        let owned = vec![
            named(1, "d", late, "2"),
            named(2, "c", late, "1"),
            named(3, "b", early, "1"),
            named(4, "a", early, "2"),
        ];
        for (image, new, old) in [
            ("1", Some("b"), vec!["a", "c", "d"]),
            ("2", Some("a"), vec!["b", "c", "d"]),
            ("3", None, vec!["a", "b", "c", "d"]),
        ] {
            let template = Template::from(json!({"metadata": {"labels": {}}, "spec": {"image": image}}));
            let sets = Sets::sort_out(owned.clone(), &template);
            assert_eq!(sets.new.as_ref().map(|set| set.name.as_str()), new, "{image}");
            assert_eq!(sets.old.iter().map(|set| set.name.as_str()).collect::<Vec<_>>(), old, "{image}");
        }
    }

    #[test]
    fn terminating_pods_are_known_only_if_everybody_says() {
        for (status, wanted) in [
            (json!({}), Some(0)),
            (json!({"terminatingReplicas": 2}), Some(2)),
            (json!({"observedGeneration": 1, "terminatingReplicas": 0}), Some(0)),
            (json!({"observedGeneration": 1}), None),
        ] {
            let set = Set::from(object(1, json!({"metadata": {"name": "a"}, "status": status})));
            assert_eq!(set.terminating(), wanted, "{status}");
        }
    }

    #[test]
    fn a_size_is_noted_when_it_changes() {
        let bounds = made::bounds(3, 1, 0);
        let mut set = made::set("a", 3, 0);
        assert!(!set.scale_to(3, &bounds));
        assert!(set.annotations.is_empty());
        assert!(set.scale_to(2, &bounds));
        assert_eq!((set.replicas, set.annotations.len()), (2, 2));
    }
}
