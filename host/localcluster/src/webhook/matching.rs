//! Which requests a webhook or a policy is about.

use serde_json::Value;

use crate::kinds::value::{items, text};
use crate::rest::strategy::Lookup;
use crate::selector;

/// A request, as rules and selectors see it.
#[derive(Clone, Copy)]
pub(crate) struct Attributes<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub operation: &'a str,
    /// Group, version and plural name, as requested.
    pub resource: (&'a str, &'a str, &'a str),
    /// Versions in which the same objects are served.
    pub served: &'a [(String, String)],
    /// Subresource, may be empty.
    pub sub: &'a str,
    /// Empty for cluster scope.
    pub namespace: &'a str,
    /// Name, may be empty.
    pub name: &'a str,
    /// What is to be stored; null if nothing is.
    pub object: &'a Value,
    /// What is stored; null if nothing is.
    pub old: &'a Value,
}

impl Attributes<'_> {
    fn is_namespace(&self) -> bool {
        self.resource.0.is_empty() && self.resource.2 == "namespaces"
    }
}

/// Whether `namespaceSelector`, `objectSelector` and the rules at `rules` select a request, less what `excluded` selects.
pub(crate) fn matches_resources(
    lookup: &dyn Lookup,
    of: &Value,
    rules: &str,
    attributes: &Attributes<'_>,
) -> bool {
    let equivalent = text(of, "matchPolicy") != "Exact";
    let any = |key: &str| items(of, key).iter().any(|rule| rule_matches(rule, attributes, equivalent));
    (items(of, rules).is_empty() && rules == "resourceRules" || any(rules))
        && !any("excludeResourceRules")
        && objects_match(&of["objectSelector"], attributes)
        && namespace_matches(lookup, &of["namespaceSelector"], attributes)
}

fn rule_matches(rule: &Value, attributes: &Attributes<'_>, equivalent: bool) -> bool {
    let lists = |key: &str, wanted: &str| items(rule, key).iter().any(|v| v == "*" || v == wanted);
    let names = items(rule, "resourceNames");
    let (group, version, plural) = attributes.resource;
    let here = lists("apiGroups", group) && lists("apiVersions", version);
    let elsewhere =
        || attributes.served.iter().any(|(g, v)| lists("apiGroups", g) && lists("apiVersions", v));
    let namespaced = !attributes.namespace.is_empty() && !attributes.is_namespace();
    (here || equivalent && elsewhere())
        && lists("operations", attributes.operation)
        && match text(rule, "scope") {
            "Namespaced" => namespaced,
            "Cluster" => !namespaced,
            _ => true,
        }
        && items(rule, "resources").iter().filter_map(Value::as_str).any(|pattern| {
            let (resource, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
            // `*` alone is every resource, without subresources; `*/*` is all there is.
            (resource == "*" || resource == plural) && (sub == attributes.sub || sub == "*")
        })
        && (names.is_empty() || names.iter().any(|name| name == attributes.name))
}

fn objects_match(selector: &Value, attributes: &Attributes<'_>) -> bool {
    let empty = |value: &Value| value.as_object().is_none_or(serde_json::Map::is_empty);
    if empty(&selector["matchLabels"]) && items(selector, "matchExpressions").is_empty() {
        return true;
    }
    let labelled = |object: &Value| {
        object.is_object() && selector::object_matches(selector, &object["metadata"]["labels"])
    };
    labelled(attributes.object) || labelled(attributes.old)
}

/// Namespaces are selected by their own labels; what lives in none is never left out.
fn namespace_matches(lookup: &dyn Lookup, selector: &Value, attributes: &Attributes<'_>) -> bool {
    if selector.is_null() {
        return true;
    }
    if attributes.is_namespace() {
        let own = if attributes.object.is_object() { attributes.object } else { attributes.old };
        return selector::object_matches(selector, &own["metadata"]["labels"]);
    }
    if attributes.namespace.is_empty() {
        return true;
    }
    let namespace = lookup.get("", "namespaces", "", attributes.namespace).unwrap_or_default();
    selector::object_matches(selector, &namespace["metadata"]["labels"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    struct Nothing;
    impl Lookup for Nothing {
        fn get(&self, _: &str, plural: &str, _: &str, name: &str) -> Option<Value> {
            (plural == "namespaces").then(|| json!({"metadata": {"labels": {"name": name}}}))
        }
        fn list(&self, _: &str, _: &str, _: &str) -> Vec<Value> {
            Vec::new()
        }
        fn modify(
            &self,
            _: &str,
            _: &str,
            _: &str,
            _: &str,
            _: &mut dyn FnMut(&mut Value) -> Result<bool, crate::status::Status>,
        ) -> Result<bool, crate::status::Status> {
            Ok(false)
        }
    }

    #[test]
    fn rules_and_selectors_say_what_is_meant() {
        let object = json!({"metadata": {"labels": {"a": "b"}}});
        let served = [("autoscaling".to_owned(), "v1".to_owned())];
        let check = |rule: Value, more: Value, sub: &str, namespace: &str| {
            let mut of = json!({"rules": [rule]});
            for (key, value) in more.as_object().into_iter().flatten() {
                of[key] = value.clone();
            }
            let attributes = Attributes {
                operation: "CREATE",
                resource: ("autoscaling", "v2", "scalers"),
                served: &served,
                sub,
                namespace,
                name: "n",
                object: &object,
                old: &Value::Null,
            };
            matches_resources(&Nothing, &of, "rules", &attributes)
        };
        let rule = |version: &str, resource: &str, operation: &str, scope: &str| json!({"apiGroups": ["autoscaling"], "apiVersions": [version], "resources": [resource], "operations": [operation], "scope": scope});
        let plain = |resource: &str| rule("v2", resource, "*", "*");
        for (rule, more, sub, namespace, want) in [
            (plain("scalers"), json!({}), "", "x", true),
            (plain("scalers"), json!({}), "status", "x", false),
            (plain("*"), json!({}), "status", "x", false),
            (plain("*/*"), json!({}), "status", "x", true),
            (plain("scalers/*"), json!({}), "", "x", true),
            (plain("*/status"), json!({}), "status", "x", true),
            (rule("v1", "scalers", "*", "*"), json!({}), "", "x", true),
            (rule("v1", "scalers", "*", "*"), json!({"matchPolicy": "Exact"}), "", "x", false),
            (rule("v2", "scalers", "DELETE", "*"), json!({}), "", "x", false),
            (rule("v2", "scalers", "CREATE", "Cluster"), json!({}), "", "x", false),
            (rule("v2", "scalers", "CREATE", "Namespaced"), json!({}), "", "", false),
            (plain("scalers"), json!({"objectSelector": {"matchLabels": {"a": "c"}}}), "", "x", false),
            (plain("scalers"), json!({"objectSelector": {"matchLabels": {"a": "b"}}}), "", "x", true),
            (plain("scalers"), json!({"namespaceSelector": {"matchLabels": {"name": "y"}}}), "", "x", false),
            (plain("scalers"), json!({"namespaceSelector": {"matchLabels": {"name": "y"}}}), "", "", true),
            (plain("scalers"), json!({"namespaceSelector": {"matchLabels": {"name": "x"}}}), "", "x", true),
        ] {
            assert_eq!(
                check(rule.clone(), more.clone(), sub, namespace),
                want,
                "{rule} {more} {sub:?} {namespace:?}"
            );
        }
    }
}
