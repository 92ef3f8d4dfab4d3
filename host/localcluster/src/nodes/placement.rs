//! Which node a pod goes to: the one that runs the fewest pods of its namespace
//! among those it fits, by name where several do.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use serde_json::Value;

use super::{annotations::OWN, fit};

/// The nodes, each namespace's pods on them, and the pods placed.
#[derive(Default)]
pub struct Placement {
    nodes: BTreeMap<String, Value>,
    /// Nodes that only take pods of one namespace.
    own: HashMap<String, BTreeSet<String>>,
    /// Per namespace, nodes by load.
    order: HashMap<String, Order>,
    placed: HashMap<String, (String, String)>,
}

#[derive(Default)]
struct Order {
    load: HashMap<String, usize>,
    by_load: BTreeSet<(usize, String)>,
}

impl Order {
    fn add(&mut self, node: &str, by: isize) {
        let load = self.load.get(node).copied().unwrap_or(0);
        let known = self.by_load.remove(&(load, node.to_owned()));
        let load = load.saturating_add_signed(by);
        self.load.insert(node.to_owned(), load);
        if known {
            self.by_load.insert((load, node.to_owned()));
        }
    }
}

impl Placement {
    /// Takes a new or changed node. True if pods that found no place may find
    /// one now.
    pub fn set_node(&mut self, node: Value) -> bool {
        let name = node["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        let same = |a: &Value, b: &Value| {
            a["spec"] == b["spec"] && a["metadata"]["labels"] == b["metadata"]["labels"]
        };
        let before = self.nodes.get(&name);
        if before.is_some_and(|before| same(before, &node)) {
            return false;
        }
        if before.is_none() {
            for order in self.order.values_mut() {
                let load = order.load.get(&name).copied().unwrap_or(0);
                order.by_load.insert((load, name.clone()));
            }
        }
        for owners in self.own.values_mut() {
            owners.remove(&name);
        }
        if let Some(namespace) = node["metadata"]["labels"][OWN].as_str() {
            self.own.entry(namespace.to_owned()).or_default().insert(name.clone());
        }
        // Only what decides about placement is kept.
        let kept = serde_json::json!({
            "metadata": {"name": name, "labels": node["metadata"]["labels"]}, "spec": node["spec"]});
        self.nodes.insert(name, kept);
        true
    }

    /// Forgets a node.
    pub fn remove_node(&mut self, name: &str) {
        self.nodes.remove(name);
        for owners in self.own.values_mut() {
            owners.remove(name);
        }
        for order in self.order.values_mut() {
            let load = order.load.get(name).copied().unwrap_or(0);
            order.by_load.remove(&(load, name.to_owned()));
        }
    }

    /// Notes that a pod is on a node.
    pub fn place(&mut self, uid: &str, namespace: &str, node: &str) {
        let now = (namespace.to_owned(), node.to_owned());
        if self.placed.get(uid) == Some(&now) {
            return;
        }
        self.unplace(uid);
        self.order(namespace).add(node, 1);
        self.placed.insert(uid.to_owned(), now);
    }

    /// Notes that a pod is gone.
    pub fn unplace(&mut self, uid: &str) {
        if let Some((namespace, node)) = self.placed.remove(uid) {
            self.order(&namespace).add(&node, -1);
        }
    }

    /// Where a pod was placed.
    pub fn node_of(&self, uid: &str) -> Option<&str> {
        self.placed.get(uid).map(|(_, node)| node.as_str())
    }

    /// The node for a pod; none if it fits nowhere.
    pub fn choose(&mut self, pod: &Value) -> Option<String> {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or_default();
        self.order(namespace);
        let order = self.order.get(namespace)?;
        let none = BTreeSet::new();
        let own: HashSet<&String> = self.own.get(namespace).unwrap_or(&none).iter().collect();
        let fits = |name: &String| self.nodes.get(name).is_some_and(|node| fit::fits(pod, node));
        let by_load = || order.by_load.iter().map(|(_, name)| name);
        let mine =
            if own.is_empty() { None } else { by_load().filter(|n| own.contains(n)).find(|n| fits(n)) };
        mine.or_else(|| by_load().find(|n| fits(n))).cloned()
    }

    fn order(&mut self, namespace: &str) -> &mut Order {
        let nodes = &self.nodes;
        self.order.entry(namespace.to_owned()).or_insert_with(|| Order {
            load: HashMap::new(),
            by_load: nodes.keys().map(|name| (0, name.clone())).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn node(name: &str, own: Option<&str>) -> Value {
        let labels = own.map_or(json!({}), |ns| json!({OWN: ns}));
        json!({"metadata": {"name": name, "labels": labels}, "spec": {}})
    }

    fn pod(namespace: &str) -> Value {
        json!({"metadata": {"namespace": namespace}, "spec": {}})
    }

    #[test]
    fn pods_of_a_namespace_are_spread() {
        let mut placement = Placement::default();
        for name in ["b", "a"] {
            assert!(placement.set_node(node(name, None)));
        }
        assert!(!placement.set_node(node("a", None)), "nothing new");
        let mut chosen = Vec::new();
        for uid in ["1", "2", "3"] {
            let name = placement.choose(&pod("ns")).unwrap();
            placement.place(uid, "ns", &name);
            chosen.push(name);
        }
        assert_eq!(chosen, ["a", "b", "a"]);
        assert_eq!(placement.choose(&pod("other")).as_deref(), Some("a"), "each namespace for itself");
        placement.unplace("1");
        placement.unplace("3");
        assert_eq!(placement.choose(&pod("ns")).as_deref(), Some("a"));
        placement.remove_node("a");
        assert_eq!(placement.choose(&pod("ns")).as_deref(), Some("b"));
    }

    #[test]
    fn a_namespace_prefers_nodes_of_its_own() {
        let mut placement = Placement::default();
        placement.set_node(node("a", None));
        placement.set_node(node("z", Some("ns")));
        for uid in ["1", "2"] {
            assert_eq!(placement.choose(&pod("ns")).as_deref(), Some("z"));
            placement.place(uid, "ns", "z");
        }
        assert_eq!(placement.choose(&pod("other")).as_deref(), Some("a"));
    }
}
