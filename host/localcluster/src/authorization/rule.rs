//! One rule of a role: what it allows, and whether it covers another.

use serde_json::{Value, json};

use super::attributes::Attributes;

/// A PolicyRule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Rule {
    pub(super) verbs: Vec<String>,
    pub(super) groups: Vec<String>,
    pub(super) resources: Vec<String>,
    pub(super) names: Vec<String>,
    pub(super) paths: Vec<String>,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == wanted)
}

fn matches(list: &[String], wanted: &str) -> bool {
    list.iter().any(|entry| entry == "*" || entry == wanted)
}

fn path_matches(pattern: &str, path: &str) -> bool {
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

/// `["a" "b"]`: a list of texts as Go's `%q` prints it.
pub(super) fn quoted(list: &[String]) -> String {
    let texts: Vec<String> = list.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

impl Rule {
    pub(super) fn of(value: &Value) -> Self {
        let list = |key: &str| -> Vec<String> {
            let list = value[key].as_array().map(Vec::as_slice).unwrap_or_default();
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        Self {
            verbs: list("verbs"),
            groups: list("apiGroups"),
            resources: list("resources"),
            names: list("resourceNames"),
            paths: list("nonResourceURLs"),
        }
    }

    /// As a review shows it.
    pub(super) fn to_value(&self) -> Value {
        if !self.paths.is_empty() {
            return json!({"verbs": self.verbs, "nonResourceURLs": self.paths});
        }
        let mut value = json!({"verbs": self.verbs, "apiGroups": self.groups, "resources": self.resources});
        if !self.names.is_empty() {
            value["resourceNames"] = json!(self.names);
        }
        value
    }

    /// `verbs` on everything in all groups.
    pub(super) fn everything() -> [Self; 2] {
        let star = || vec!["*".to_owned()];
        [
            Self { verbs: star(), groups: star(), resources: star(), ..Self::default() },
            Self { verbs: star(), paths: star(), ..Self::default() },
        ]
    }

    pub(super) fn allows(&self, asked: &Attributes) -> bool {
        if !matches(&self.verbs, &asked.verb) {
            return false;
        }
        if let Some(path) = &asked.path {
            return self.paths.iter().any(|pattern| path_matches(pattern, path));
        }
        let resource = self.resources.iter().any(|entry| {
            entry == "*"
                || match entry.split_once('/') {
                    None => asked.sub.is_empty() && *entry == asked.resource,
                    Some((resource, sub)) => {
                        !asked.sub.is_empty()
                            && sub == asked.sub
                            && (resource == "*" || resource == asked.resource)
                    }
                }
        });
        resource
            && matches(&self.groups, &asked.group)
            && (self.names.is_empty() || has(&self.names, &asked.name))
    }

    /// The same as rules of one verb on one thing each.
    pub(super) fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        let one = |text: &String| vec![text.clone()];
        for group in &self.groups {
            for resource in &self.resources {
                for verb in &self.verbs {
                    let part = Self {
                        verbs: one(verb),
                        groups: one(group),
                        resources: one(resource),
                        ..Self::default()
                    };
                    if self.names.is_empty() {
                        parts.push(part);
                    } else {
                        parts.extend(self.names.iter().map(|name| Self { names: one(name), ..part.clone() }));
                    }
                }
            }
        }
        for path in &self.paths {
            let part = |verb| Self { verbs: one(verb), paths: one(path), ..Self::default() };
            parts.extend(self.verbs.iter().map(part));
        }
        parts
    }

    /// Whether this rule allows all that `part`, one of [`Rule::parts`], does.
    pub(super) fn covers(&self, part: &Self) -> bool {
        let all = |own: &[String], other: &[String]| other.iter().all(|entry| has(own, entry));
        let resources = has(&self.resources, "*")
            || part.resources.iter().all(|resource| {
                let any = resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
                has(&self.resources, resource) || any.is_some_and(|any| has(&self.resources, &any))
            });
        let names = self.names.is_empty() || (!part.names.is_empty() && all(&self.names, &part.names));
        let paths =
            part.paths.iter().all(|path| self.paths.iter().any(|pattern| path_matches(pattern, path)));
        (has(&self.verbs, "*") || all(&self.verbs, &part.verbs))
            && (has(&self.groups, "*") || all(&self.groups, &part.groups))
            && resources
            && names
            && paths
    }

    /// `{APIGroups:["apps"], Resources:["deployments"], Verbs:["get" "list"]}`.
    pub(super) fn show(&self) -> String {
        let fields = [
            ("APIGroups", &self.groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.names),
            ("Verbs", &self.verbs),
        ];
        let shown: Vec<String> = fields
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{}", quoted(list)))
            .collect();
        format!("{{{}}}", shown.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(verbs: &[&str], resources: &[&str], names: &[&str]) -> Rule {
        Rule::of(&json!({"apiGroups": [""], "verbs": verbs, "resources": resources, "resourceNames": names}))
    }

    fn asked(verb: &str, resource: &str, sub: &str, name: &str) -> Attributes {
        Attributes {
            verb: verb.into(),
            resource: resource.into(),
            sub: sub.into(),
            name: name.into(),
            ..Attributes::default()
        }
    }

    #[test]
    fn subresources_are_named_apart_from_their_resource() {
        assert!(rule(&["get"], &["pods"], &[]).allows(&asked("get", "pods", "", "a")));
        assert!(!rule(&["get"], &["pods"], &[]).allows(&asked("get", "pods", "log", "a")));
        assert!(rule(&["get"], &["pods/log"], &[]).allows(&asked("get", "pods", "log", "a")));
        assert!(!rule(&["get"], &["pods/log"], &[]).allows(&asked("get", "pods", "", "a")));
        assert!(rule(&["get"], &["*/scale"], &[]).allows(&asked("get", "pods", "scale", "a")));
        assert!(!rule(&["get"], &["*/scale"], &[]).allows(&asked("get", "pods", "status", "a")));
        assert!(rule(&["*"], &["*"], &[]).allows(&asked("patch", "pods", "status", "a")));
    }

    #[test]
    fn names_limit_what_is_allowed() {
        assert!(rule(&["get"], &["pods"], &["a"]).allows(&asked("get", "pods", "", "a")));
        assert!(!rule(&["get"], &["pods"], &["a"]).allows(&asked("get", "pods", "", "b")));
        assert!(!rule(&["list"], &["pods"], &["a"]).allows(&asked("list", "pods", "", "")));
    }

    #[test]
    fn paths_match_by_prefix_where_they_end_in_a_star() {
        let rule = Rule::of(&json!({"verbs": ["get"], "nonResourceURLs": ["/api/*", "/version"]}));
        let allows = |path: &str| {
            rule.allows(&Attributes { verb: "get".into(), path: Some(path.into()), ..Attributes::default() })
        };
        assert!(allows("/api/v1") && allows("/version"));
        assert!(!allows("/api") && !allows("/version/"));
    }

    #[test]
    fn a_rule_covers_what_it_allows_and_nothing_more() {
        let named = rule(&["get"], &["pods"], &["a"]);
        let all = rule(&["get", "list"], &["pods"], &[]);
        assert!(all.covers(&named) && !named.covers(&rule(&["get"], &["pods"], &[])));
        assert!(rule(&["*"], &["*/log"], &[]).covers(&rule(&["get"], &["pods/log"], &[])));
        assert!(!rule(&["*"], &["pods"], &[]).covers(&rule(&["get"], &["pods/log"], &[])));
        let [resources, paths] = Rule::everything();
        assert!(resources.covers(&named) && !paths.covers(&named));
        assert_eq!(all.parts().len(), 2);
        assert_eq!(
            named.show(),
            r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}"#
        );
    }
}
