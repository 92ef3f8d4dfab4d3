//! What followed from what.
//!
//! In: reconciles that did something, with what they read. Out: their actions,
//! numbered, each with those it follows from: whose objects, as they had left
//! them, its reconcile read, and the key's reconcile before it had not; or
//! whose deletion it was the first to miss. The order depends on what followed
//! from what, on names, and on nothing that differs from run to run.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use crate::{contract::Plan, executor::Done, key::Key};

/// Resource, namespace and name.
pub(crate) type Name = (u32, Arc<str>, Arc<str>);

/// A reconcile that did something.
#[derive(Debug)]
pub(crate) struct Ran {
    /// Name of the controller.
    pub(crate) controller: String,
    /// The key.
    pub(crate) key: Key,
    /// What it came to.
    pub(crate) plan: Arc<Plan>,
    /// What of that was done.
    pub(crate) done: Vec<Done>,
    /// resourceVersions it read that are newer than the key's reconcile before.
    pub(crate) read: Vec<u64>,
    /// What that one read, and this one did not find.
    pub(crate) gone: Vec<Name>,
}

/// A reconcile in its place.
#[derive(Debug)]
pub(crate) struct Scene {
    /// Name of the controller.
    pub(crate) controller: String,
    /// The key.
    pub(crate) key: Key,
    /// What it came to.
    pub(crate) plan: Arc<Plan>,
    /// What was done, by place in the plan: its number, and the write.
    pub(crate) done: BTreeMap<usize, (usize, Done)>,
    /// Numbers of the actions that it follows from.
    pub(crate) follows: Vec<usize>,
}

/// All of them, in order.
#[derive(Debug, Default)]
pub(crate) struct Story(pub(crate) Vec<Scene>);

impl Story {
    /// `ran` in the order in which they ended.
    pub(crate) fn new(ran: &[Ran]) -> Self {
        let mut left = Causes::default();
        let mut causes: Vec<BTreeSet<(usize, usize)>> = Vec::new();
        let placed: Vec<BTreeMap<usize, &Done>> = ran.iter().map(places).collect();
        // An action is known by its versions before anybody that read it ends, if not always in that order.
        for (at, places) in placed.iter().enumerate() {
            left.versions(at, places);
        }
        for (at, (one, places)) in ran.iter().zip(&placed).enumerate() {
            causes.push(left.of(at, one));
            left.names(at, one, places);
        }
        let waves = waves(ran, &causes);
        let mut order: Vec<usize> = (0..ran.len()).collect();
        order.sort_by_key(|&at| (waves[at], &ran[at].controller, ran[at].key.to_string(), at));
        let mut numbers: HashMap<(usize, usize), usize> = HashMap::new();
        for &at in &order {
            for &place in placed[at].keys() {
                numbers.insert((at, place), numbers.len() + 1);
            }
        }
        let scene = |&at: &usize| {
            let one = &ran[at];
            let done =
                placed[at].iter().map(|(&place, done)| (place, (numbers[&(at, place)], (*done).clone())));
            let mut follows: Vec<usize> =
                causes[at].iter().filter_map(|cause| numbers.get(cause).copied()).collect();
            follows.sort_unstable();
            Scene {
                controller: one.controller.clone(),
                key: one.key.clone(),
                plan: one.plan.clone(),
                done: done.collect(),
                follows,
            }
        };
        Self(order.iter().map(scene).collect())
    }
}

/// Places in the plan of what was done.
fn places(one: &Ran) -> BTreeMap<usize, &Done> {
    let mut by_tag: HashMap<&str, Vec<&Done>> = HashMap::new();
    for done in one.done.iter().rev() {
        by_tag.entry(&done.tag).or_default().push(done);
    }
    let actions = one.plan.steps.iter().flat_map(|step| &step.actions).enumerate();
    actions.filter_map(|(place, action)| Some((place, by_tag.get_mut(action.tag.as_str())?.pop()?))).collect()
}

/// Which action, by reconcile and place, left what behind.
#[derive(Default)]
struct Causes {
    by_version: HashMap<u64, (usize, usize)>,
    by_name: HashMap<Name, (usize, usize)>,
}

impl Causes {
    fn versions(&mut self, at: usize, places: &BTreeMap<usize, &Done>) {
        for (&place, done) in places {
            if let Some(version) = done.version {
                // A write that changed nothing left what another had written.
                self.by_version.entry(version).or_insert((at, place));
            }
        }
    }

    fn names(&mut self, at: usize, one: &Ran, places: &BTreeMap<usize, &Done>) {
        let actions = one.plan.steps.iter().flat_map(|step| &step.actions).enumerate();
        for (place, action) in actions {
            if let Some(done) = places.get(&place) {
                let name = (action.resource, action.namespace.as_str().into(), done.name.as_str().into());
                self.by_name.insert(name, (at, place));
            }
        }
    }

    fn of(&self, at: usize, one: &Ran) -> BTreeSet<(usize, usize)> {
        let read = one.read.iter().filter_map(|version| self.by_version.get(version));
        let gone = one.gone.iter().filter_map(|name| self.by_name.get(name));
        read.chain(gone).filter(|(by, _)| *by != at).copied().collect()
    }
}

/// How many steps each reconcile is from the beginning; never before an earlier one of its key.
fn waves(ran: &[Ran], causes: &[BTreeSet<(usize, usize)>]) -> Vec<usize> {
    let mut waves = vec![0; ran.len()];
    let mut of_key: HashMap<(&str, &Key), usize> = HashMap::new();
    for (at, one) in ran.iter().enumerate() {
        let after = causes[at].iter().map(|(by, _)| waves[*by] + 1).max().unwrap_or_default();
        let key = of_key.entry((&one.controller, &one.key)).or_default();
        *key = after.max(*key);
        waves[at] = *key;
    }
    waves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{Action, DeleteOptions, OnFailure, Pace, Precondition, StateChange, Step, Verb};

    fn ran(controller: &str, key: &str, tags: &[(&str, u64)], read: &[u64], gone: &[&str]) -> Ran {
        let verb = Verb::Delete(DeleteOptions { propagation: None, grace_seconds: None });
        let action = |(tag, _): &(&str, u64)| Action {
            tag: (*tag).into(),
            resource: 1,
            namespace: "a".into(),
            name: (*tag).into(),
            subresource: String::new(),
            verb: verb.clone(),
            precondition: Precondition::None,
            on_success: None,
            on_failure: None,
        };
        let actions = tags.iter().map(action).collect();
        let plan = Plan {
            steps: vec![Step { actions, pace: Pace::Together, on_failure: OnFailure::Stop }],
            events: Vec::new(),
            not_before: None,
            quiet: 0,
            state: StateChange::Keep,
            metrics: Vec::new(),
        };
        let done = |(tag, version): &(&str, u64)| Done {
            tag: (*tag).into(),
            name: (*tag).into(),
            version: Some(*version).filter(|version| *version > 0),
        };
        Ran {
            controller: controller.into(),
            key: Key { source: 0, resource: 1, namespace: "a".into(), name: key.into() },
            plan: Arc::new(plan),
            done: tags.iter().map(done).collect(),
            read: read.to_vec(),
            gone: gone.iter().map(|name| (1, "a".into(), (*name).into())).collect(),
        }
    }

    fn told(story: &Story) -> Vec<(String, Vec<usize>, Vec<usize>)> {
        let scene = |scene: &Scene| {
            let numbers = scene.done.values().map(|(number, _)| *number).collect();
            (scene.key.name.to_string(), numbers, scene.follows.clone())
        };
        story.0.iter().map(scene).collect()
    }

    #[test]
    fn an_action_follows_from_those_whose_objects_it_read() {
        let story = Story::new(&[
            ran("z", "late", &[("t", 7)], &[], &[]),
            ran("deployment", "web", &[("set", 10), ("status", 11)], &[3], &[]),
            // It reads what it wrote itself, and what the one before it left.
            ran("replicaset", "set", &[("p1", 12), ("p2", 13)], &[10], &[]),
            ran("replicaset", "set", &[("counts", 14)], &[12, 13], &[]),
            ran("deployment", "web", &[("status", 15)], &[14, 11], &[]),
        ]);
        let expected = [
            ("web", vec![1, 2], vec![]),
            ("late", vec![3], vec![]),
            ("set", vec![4, 5], vec![1]),
            ("set", vec![6], vec![4, 5]),
            ("web", vec![7], vec![2, 6]),
        ];
        let expected: Vec<_> =
            expected.into_iter().map(|(key, n, after)| (key.to_owned(), n, after)).collect();
        assert_eq!(told(&story), expected);
    }

    #[test]
    fn an_action_follows_from_the_deletion_it_missed() {
        let story = Story::new(&[
            ran("gc", "b", &[("owner", 0)], &[], &[]),
            ran("gc", "a", &[("child", 0)], &[], &["owner", "somebody"]),
        ]);
        assert_eq!(told(&story), [("b".into(), vec![1], vec![]), ("a".into(), vec![2], vec![1])]);
    }
}
