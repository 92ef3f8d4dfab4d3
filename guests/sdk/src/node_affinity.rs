//! Which nodes a pod may run on, by its node selector and its required node
//! affinity.
//!
//! Rules: <https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/>.

use crate::meta::StringMap;
use crate::read::FromJson;
use crate::selector::has_all;

/// Terms, one of which must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelector {
    /// The terms.
    pub node_selector_terms: Vec<NodeSelectorTerm>,
}

/// Requirements, all of which must hold. A term without any matches no node.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeSelectorTerm {
    /// Requirements of labels.
    pub match_expressions: Vec<NodeRequirement>,
    /// Requirements of fields, of which `metadata.name` is the only one there is.
    pub match_fields: Vec<NodeRequirement>,
}

/// A requirement of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq, FromJson)]
#[serde(default)]
pub struct NodeRequirement {
    /// The label or field.
    pub key: String,
    /// `In`, `NotIn`, `Exists`, `DoesNotExist`, `Gt` or `Lt`.
    pub operator: String,
    /// Values.
    pub values: Vec<String>,
}

/// Field of a node's name.
pub const NAME_FIELD: &str = "metadata.name";

/// Whether a node of this name and these labels is one that a pod with this
/// node selector and required affinity may run on. A term that makes no sense
/// matches no node.
pub fn allows(selector: &StringMap, required: Option<&NodeSelector>, name: &str, labels: &StringMap) -> bool {
    has_all(labels, selector) && required.is_none_or(|required| required.matches(name, labels))
}

impl NodeSelector {
    /// Whether a node of this name and these labels fits one of the terms.
    pub fn matches(&self, name: &str, labels: &StringMap) -> bool {
        self.node_selector_terms.iter().any(|term| term.matches(name, labels))
    }
}

impl NodeSelectorTerm {
    /// Whether a node of this name and these labels fits.
    pub fn matches(&self, name: &str, labels: &StringMap) -> bool {
        let empty = self.match_expressions.is_empty() && self.match_fields.is_empty();
        // One requirement that makes no sense spoils the term, whatever the
        // others say.
        !empty
            && self.match_expressions.iter().all(|requirement| requirement.holds(labels) == Some(true))
            && self.match_fields.iter().all(|requirement| requirement.holds_for_name(name) == Some(true))
    }
}

impl NodeRequirement {
    /// Whether it holds for labels; None if it makes no sense.
    fn holds(&self, labels: &StringMap) -> Option<bool> {
        let label = labels.get(&self.key);
        let listed = || label.is_some_and(|label| self.values.contains(label));
        let numbers = || -> Option<Option<(i64, i64)>> {
            let [bound] = self.values.as_slice() else { return None };
            let bound: i64 = bound.parse().ok()?;
            Some(label.and_then(|label| label.parse().ok()).map(|label: i64| (label, bound)))
        };
        match self.operator.as_str() {
            "In" if !self.values.is_empty() => Some(listed()),
            "NotIn" if !self.values.is_empty() => Some(!listed()),
            "Exists" if self.values.is_empty() => Some(label.is_some()),
            "DoesNotExist" if self.values.is_empty() => Some(label.is_none()),
            "Gt" => Some(numbers()?.is_some_and(|(label, bound)| label > bound)),
            "Lt" => Some(numbers()?.is_some_and(|(label, bound)| label < bound)),
            _ => None,
        }
    }

    /// Whether it holds for the fields of a node of this name; None if it makes
    /// no sense.
    fn holds_for_name(&self, name: &str) -> Option<bool> {
        let [value] = self.values.as_slice() else { return None };
        let field = if self.key == NAME_FIELD { name } else { "" };
        match self.operator.as_str() {
            "In" => Some(field == value),
            "NotIn" => Some(field != value),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests;
