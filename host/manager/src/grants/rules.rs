//! The rules of a policy, and what they allow.
//!
//! In: rules as the operator wrote them. Out: yes or no for one access.
//! Invariant: what a rule does not clearly allow it does not allow, and what it
//! may deny in part it denies; so a list over all namespaces is not granted
//! where only some are.

use serde::Deserialize;

use crate::contract::GroupResource;

/// What is to be done.
#[derive(Clone, Copy, Debug)]
pub enum Access<'a> {
    /// Something with a resource.
    Resource {
        /// Verb, as in RBAC.
        verb: &'a str,
        /// The resource.
        resource: &'a GroupResource,
        /// Subresource; empty for the object itself.
        subresource: &'a str,
        /// Where.
        place: Place<'a>,
    },
    /// GET of a path that is about no resource.
    Path(&'a str),
    /// A signature with a key.
    Sign(&'a str),
}

/// Where objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place<'a> {
    /// Outside of namespaces.
    Cluster,
    /// In this namespace.
    Namespace(&'a str),
    /// In every namespace.
    Everywhere,
    /// In at least one namespace, whichever.
    Somewhere,
}

/// Rules about one or more controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Name or alias of a controller; `*` is every controller.
    pub name: String,
    /// If given: nothing else is allowed.
    #[serde(default)]
    pub allow: Option<Vec<Rule>>,
    /// Not allowed, whatever else is said.
    #[serde(default)]
    pub deny: Vec<Rule>,
}

/// One rule. What it leaves out it does not restrict.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// `get`, `list`, `watch`, `create`, `patch`, `update`, `delete`,
    /// `deletecollection`, `sign`, or `*`.
    #[serde(default)]
    pub verbs: Option<Vec<String>>,
    /// `pods`, `deployments.apps`, `pods/status`, `pods/*`, `*/scale`,
    /// `*.apps`, or `*`.
    #[serde(default)]
    pub resources: Option<Vec<String>>,
    /// Names of namespaces; an ending `*` stands for any ending. Says nothing
    /// about objects outside of namespaces.
    #[serde(default)]
    pub namespaces: Option<Vec<String>>,
    /// Paths that are about no resource; an ending `*` stands for any ending.
    #[serde(default)]
    pub paths: Option<Vec<String>>,
    /// Names of signing keys, or `*`.
    #[serde(default)]
    pub keys: Option<Vec<String>>,
}

pub(super) const VERBS: [&str; 10] =
    ["*", "get", "list", "watch", "create", "patch", "update", "delete", "deletecollection", "sign"];

/// Whether rules as a whole allow something.
pub(super) fn allow(entries: &[Entry], access: &Access<'_>) -> bool {
    entries.iter().all(|entry| {
        let allowed = entry.allow.as_ref().is_none_or(|rules| rules.iter().any(|rule| rule.allows(access)));
        allowed && !entry.deny.iter().any(|rule| rule.denies(access))
    })
}

impl Rule {
    fn allows(&self, access: &Access<'_>) -> bool {
        self.is_about(access) && self.namespaces_allow(access)
    }

    fn denies(&self, access: &Access<'_>) -> bool {
        self.is_about(access) && self.namespaces_deny(access)
    }

    fn is_about(&self, access: &Access<'_>) -> bool {
        let verb = match access {
            Access::Resource { verb, .. } => verb,
            Access::Path(_) => "get",
            Access::Sign(_) => "sign",
        };
        if self.verbs.as_ref().is_some_and(|verbs| !verbs.iter().any(|v| v == "*" || v == verb)) {
            return false;
        }
        if self.resources.is_none() && self.paths.is_none() && self.keys.is_none() {
            return true;
        }
        let any = |list: &Option<Vec<String>>, fits: &dyn Fn(&str) -> bool| {
            list.as_ref().is_some_and(|list| list.iter().any(|one| fits(one)))
        };
        match access {
            Access::Resource { resource, subresource, .. } => {
                any(&self.resources, &|pattern| names(pattern, resource, subresource))
            }
            Access::Path(path) => any(&self.paths, &|pattern| fits(pattern, path)),
            Access::Sign(key) => any(&self.keys, &|pattern| pattern == "*" || pattern == *key),
        }
    }

    fn namespaces_allow(&self, access: &Access<'_>) -> bool {
        let (Some(namespaces), Access::Resource { place, .. }) = (&self.namespaces, access) else {
            return true;
        };
        match place {
            Place::Cluster | Place::Somewhere => true,
            Place::Namespace(name) => namespaces.iter().any(|pattern| fits(pattern, name)),
            Place::Everywhere => namespaces.iter().any(|pattern| pattern == "*"),
        }
    }

    fn namespaces_deny(&self, access: &Access<'_>) -> bool {
        let Some(namespaces) = &self.namespaces else { return true };
        let Access::Resource { place, .. } = access else { return false };
        match place {
            Place::Cluster => false,
            Place::Namespace(name) => namespaces.iter().any(|pattern| fits(pattern, name)),
            Place::Everywhere => true,
            Place::Somewhere => namespaces.iter().any(|pattern| pattern == "*"),
        }
    }
}

/// Whether a pattern, which may end in `*`, fits a text.
fn fits(pattern: &str, text: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == text, |start| text.starts_with(start))
}

fn names(pattern: &str, resource: &GroupResource, subresource: &str) -> bool {
    if pattern == "*" {
        return true;
    }
    let (of, sub) = pattern.split_once('/').unwrap_or((pattern, ""));
    let (name, group) = of.split_once('.').unwrap_or((of, ""));
    let every = name == "*";
    let group_fits = if every && group.is_empty() { true } else { group == resource.group };
    // All of a group is all of it, subresources included.
    let sub_fits = sub == subresource
        || (sub == "*" && !subresource.is_empty())
        || (every && sub.is_empty() && !group.is_empty());
    (every || name == resource.resource) && group_fits && sub_fits
}

/// What is wrong with the rules of an entry.
pub(super) fn problems(entry: &Entry) -> Vec<String> {
    let mut problems = Vec::new();
    let rules = entry.allow.iter().flatten().chain(&entry.deny);
    let mut check = |what: &str, list: &Option<Vec<String>>, good: &dyn Fn(&str) -> bool, expected: &str| {
        let Some(list) = list else { return };
        if list.is_empty() {
            problems
                .push(format!("{}: an empty list of {what} fits nothing; leave it out for all", entry.name));
        }
        for bad in list.iter().filter(|one| !good(one)) {
            problems.push(format!("{}: {what}: {bad:?}: expected {expected}", entry.name));
        }
    };
    let word = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
    };
    let star_or = |text: &str| text == "*" || word(text);
    let resource = |text: &str| {
        let (of, sub) = text.split_once('/').unwrap_or((text, "*"));
        let (name, group) = of.split_once('.').unwrap_or((of, ""));
        star_or(name)
            && (group.is_empty() != of.contains('.'))
            && (group.is_empty() || group.split('.').all(word))
            && star_or(sub)
    };
    for rule in rules {
        check("verbs", &rule.verbs, &|verb| VERBS.contains(&verb), &format!("one of {}", VERBS.join(", ")));
        check(
            "resources",
            &rule.resources,
            &resource,
            "the lower-case plural, with its group and subresource, such as pods, deployments.apps, pods/status, or *",
        );
        check(
            "namespaces",
            &rule.namespaces,
            &|name| name == "*" || word(name.strip_suffix('*').unwrap_or(name)),
            "the name of a namespace, or its beginning and *",
        );
        check(
            "paths",
            &rule.paths,
            &|path| path.starts_with('/') || path == "*",
            "a path that begins with /",
        );
        check("keys", &rule.keys, &star_or, "the name of a key, or *");
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(resources: &[&str], verbs: &[&str], namespaces: &[&str]) -> Rule {
        let list = |list: &[&str]| (!list.is_empty()).then(|| list.iter().map(|s| (*s).to_owned()).collect());
        Rule {
            verbs: list(verbs),
            resources: list(resources),
            namespaces: list(namespaces),
            ..Rule::default()
        }
    }

    fn resource(text: &str) -> GroupResource {
        let (name, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource { group: group.into(), version: "v1".into(), resource: name.into() }
    }

    #[test]
    fn patterns_name_resources() {
        let table = [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/*", "pods", "status", true),
            ("pods/*", "pods", "", false),
            ("pods", "pods.metrics.example", "", false),
            ("deployments.apps", "deployments.apps", "", true),
            ("deployments", "deployments.apps", "", false),
            ("*/scale", "deployments.apps", "scale", true),
            ("*/scale", "deployments.apps", "", false),
            ("*.apps", "deployments.apps", "status", true),
            ("*.apps", "pods", "", false),
            ("*", "deployments.apps", "scale", true),
        ];
        for (pattern, name, sub, expected) in table {
            assert_eq!(names(pattern, &resource(name), sub), expected, "{pattern} {name}/{sub}");
        }
    }

    #[test]
    fn all_entries_must_agree_and_a_denial_wins() {
        let entry = |allow: Option<Vec<Rule>>, deny: Vec<Rule>| Entry { name: "*".into(), allow, deny };
        let pods = resource("pods");
        let get = |place| Access::Resource { verb: "get", resource: &pods, subresource: "", place };
        let here = get(Place::Namespace("here"));
        assert!(allow(&[], &here));
        assert!(allow(&[entry(None, vec![])], &here));
        assert!(!allow(&[entry(Some(vec![]), vec![])], &here));
        let some = entry(Some(vec![rule(&["pods"], &["get"], &[])]), vec![]);
        assert!(allow(std::slice::from_ref(&some), &here));
        let deny = entry(None, vec![rule(&["pods"], &[], &["her*"])]);
        assert!(!allow(&[some, deny], &here));
    }

    #[test]
    fn places_are_allowed_only_as_a_whole_and_denied_also_in_part() {
        let pods = resource("pods");
        let access = |place| Access::Resource { verb: "list", resource: &pods, subresource: "", place };
        let in_a = rule(&[], &[], &["a"]);
        let table = [
            (Place::Namespace("a"), true, true),
            (Place::Namespace("b"), false, false),
            (Place::Everywhere, false, true),
            (Place::Somewhere, true, false),
            (Place::Cluster, true, false),
        ];
        for (place, allows, denies) in table {
            assert_eq!(in_a.allows(&access(place)), allows, "{place:?}");
            assert_eq!(in_a.denies(&access(place)), denies, "{place:?}");
        }
    }

    #[test]
    fn rules_about_resources_say_nothing_about_keys_and_paths() {
        let pods = rule(&["pods"], &[], &[]);
        assert!(!pods.allows(&Access::Sign("ca")) && !pods.allows(&Access::Path("/healthz")));
        let everything = Rule::default();
        assert!(everything.allows(&Access::Sign("ca")) && everything.denies(&Access::Path("/healthz")));
        let metrics = Rule { paths: Some(vec!["/metrics/*".into()]), ..Rule::default() };
        assert!(metrics.allows(&Access::Path("/metrics/x")) && !metrics.allows(&Access::Path("/healthz")));
    }
}
