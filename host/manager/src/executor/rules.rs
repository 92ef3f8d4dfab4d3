//! What a module may write and ask for, by its manifest.
//!
//! In: declared rules. Out: yes or no for one request. Invariant: whatever is
//! not declared is refused; a rule for every resource covers no subresource
//! but the one it names.

use super::check::place;
use crate::{
    contract::{Ask, GroupResource, LookupRule, Verb, WriteRule},
    grants::{Access, Grants, Place, request_of_path},
    registry::{Registry, is_wildcard},
};

/// The RBAC verb of an action.
pub(crate) fn rbac_verb(verb: &Verb) -> &'static str {
    match verb {
        Verb::Create(_) => "create",
        Verb::Patch(_) => "patch",
        Verb::Replace(_) => "update",
        Verb::Delete(_) => "delete",
        Verb::DeleteCollection(_) => "deletecollection",
    }
}

fn covers(rule: &GroupResource, resource: &GroupResource) -> bool {
    is_wildcard(rule) || (rule.group == resource.group && rule.resource == resource.resource)
}

/// Whether some rule allows a write of the object of this name.
pub(super) fn may_write(
    rules: &[WriteRule],
    resource: &GroupResource,
    subresource: &str,
    name: &str,
    verb: &str,
) -> bool {
    let allows = |declared: &String| match declared.split_once(':') {
        Some((declared, only)) => declared == verb && only == name,
        None => declared == verb,
    };
    rules.iter().any(|rule| {
        covers(&rule.resource, resource) && rule.subresource == subresource && rule.verbs.iter().any(allows)
    })
}

/// Whether some rule allows a lookup; the text says what is missing.
pub(super) fn may_ask(rules: &[LookupRule], ask: &Ask, registry: &Registry) -> Result<(), String> {
    let name = |number: u32| registry.name(number).ok_or(format!("there is no resource number {number}"));
    let (allowed, what) = match ask {
        Ask::Get(get) => {
            let resource = name(get.resource)?;
            let allowed = rules.iter().any(|rule| match rule {
                LookupRule::Get(rule) => {
                    covers(&rule.resource, &resource) && rule.subresource == get.subresource
                }
                _ => false,
            });
            let slash = if get.subresource.is_empty() { "" } else { "/" };
            (allowed, format!("get of {}{slash}{}", show(&resource), get.subresource))
        }
        Ask::List(list) => {
            let resource = name(list.resource)?;
            let allowed =
                rules.iter().any(|rule| matches!(rule, LookupRule::List(rule) if covers(rule, &resource)));
            (allowed, format!("list of {}", show(&resource)))
        }
        Ask::Raw(path) => {
            check_raw(path)?;
            // A prefix that ends before any resource is for discovery, not for
            // every object of the cluster.
            let resource = request_of_path(path).is_some();
            let allowed = rules.iter().any(|rule| {
                matches!(rule, LookupRule::Raw(prefix)
                    if path.starts_with(prefix.as_str()) && (!resource || names_group(prefix)))
            });
            (allowed, format!("raw {path}"))
        }
        Ask::Review(review) => {
            let allowed = rules.iter().any(|rule| {
                matches!(rule, LookupRule::Review(rule) if covers(rule, &review.resource) && !is_wildcard(rule))
            });
            (allowed, format!("review {}", show(&review.resource)))
        }
        Ask::Sign(sign) => {
            let allowed = rules.iter().any(|rule| matches!(rule, LookupRule::Sign(key) if *key == sign.key));
            (allowed, format!("sign {}", sign.key))
        }
    };
    if allowed { Ok(()) } else { Err(format!("the manifest declares no lookup that allows: {what}")) }
}

/// Whether a prefix names the group whose resources it is about.
fn names_group(prefix: &str) -> bool {
    let parts: Vec<&str> = prefix.split('/').skip(1).collect();
    match parts.as_slice() {
        ["apis", group, _, ..] => !group.is_empty(),
        ["api", version, _, ..] => !version.is_empty(),
        _ => false,
    }
}

/// Whether the operator grants a lookup; the text says what he does not.
pub(super) fn grants_ask(grants: &Grants, ask: &Ask, registry: &Registry) -> Result<(), String> {
    if grants.is_open() {
        return Ok(());
    }
    let granted = |access: Access<'_>, what: String| {
        if grants.allow(&access) {
            return Ok(());
        }
        Err(format!("the operator's policy does not grant {what}"))
    };
    let of = |verb, resource: &GroupResource, subresource: &str, place| {
        let slash = if subresource.is_empty() { "" } else { "/" };
        let what = format!("{verb} of {}{slash}{subresource}{}", show(resource), crate::grants::show(place));
        granted(Access::Resource { verb, resource, subresource, place }, what)
    };
    let name = |number: u32| registry.name(number).ok_or(format!("there is no resource number {number}"));
    match ask {
        Ask::Get(get) => {
            of("get", &name(get.resource)?, &get.subresource, place(registry, get.resource, &get.namespace))
        }
        Ask::List(list) => {
            of("list", &name(list.resource)?, "", place(registry, list.resource, &list.namespace))
        }
        Ask::Raw(path) => match request_of_path(path) {
            None => {
                granted(Access::Path(path.split('?').next().unwrap_or_default()), format!("get of {path}"))
            }
            Some(request) => {
                let place = match &request.namespace {
                    Some(namespace) => Place::Namespace(namespace),
                    // Nothing is known of resources that discovery does not list: the wider of the two.
                    None => match registry.resolve(&request.resource) {
                        Some(number) => place(registry, number, ""),
                        None => Place::Everywhere,
                    },
                };
                of(request.verb, &request.resource, &request.subresource, place)
            }
        },
        Ask::Review(review) => {
            let place = match review.namespace.as_str() {
                "" => Place::Cluster,
                namespace => Place::Namespace(namespace),
            };
            of("create", &review.resource, "", place)
        }
        Ask::Sign(sign) => granted(Access::Sign(&sign.key), format!("signing with {}", sign.key)),
    }
}

/// Whether a raw path means what it says, so that comparing its beginning is
/// enough.
fn check_raw(path: &str) -> Result<(), String> {
    let (route, _) = path.split_once('?').unwrap_or((path, ""));
    let plain = route.starts_with('/')
        && !path.contains('#')
        && path.bytes().all(|b| b.is_ascii_graphic())
        && !route.contains('%')
        && !route.contains('\\')
        && route.split('/').skip(1).all(|part| part != "." && part != "..")
        && !route.contains("//");
    if plain {
        Ok(())
    } else {
        Err(format!("raw lookups take an absolute path without dots, escapes or empty parts, not {path:?}"))
    }
}

/// A resource for people: `pods`, `deployments.apps`.
pub(super) fn show(resource: &GroupResource) -> String {
    if resource.group.is_empty() {
        resource.resource.clone()
    } else {
        format!("{}.{}", resource.resource, resource.group)
    }
}

/// Checks a part of a request path: it stands for one segment and nothing else.
pub(super) fn check_segment(what: &str, value: &str) -> Result<(), String> {
    if value == "."
        || value == ".."
        || value.contains(['/', '%', '?', '#', '\\'])
        || value.chars().any(char::is_control)
    {
        return Err(format!("{value:?} cannot be a {what}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::ResourceRule;

    fn resource(group: &str, resource: &str) -> GroupResource {
        GroupResource { group: group.into(), version: "v1".into(), resource: resource.into() }
    }

    #[test]
    fn writes_need_resource_subresource_and_verb() {
        let rules = [
            WriteRule {
                resource: resource("", "pods"),
                subresource: String::new(),
                verbs: vec!["create".into()],
            },
            WriteRule {
                resource: resource("apps", "deployments"),
                subresource: "status".into(),
                verbs: vec!["patch".into()],
            },
            WriteRule {
                resource: resource("*", "*"),
                subresource: String::new(),
                verbs: vec!["delete".into()],
            },
        ];
        let cases = [
            ("", "pods", "", "create", true),
            ("", "pods", "", "patch", false),
            ("", "pods", "status", "create", false),
            ("other", "pods", "", "create", false),
            ("apps", "deployments", "status", "patch", true),
            ("apps", "deployments", "", "patch", false),
            ("any.example", "things", "", "delete", true),
            ("any.example", "things", "status", "delete", false),
        ];
        for (group, name, subresource, verb, allowed) in cases {
            assert_eq!(
                may_write(&rules, &resource(group, name), subresource, "x", verb),
                allowed,
                "{group}/{name}/{subresource} {verb}"
            );
        }
    }

    #[test]
    fn raw_paths_cannot_leave_their_prefix() {
        let registry = Registry::new();
        let rules = [LookupRule::Raw("/apis/metrics.example/".into())];
        let ask = |path: &str| may_ask(&rules, &Ask::Raw(path.into()), &registry);
        assert_eq!(ask("/apis/metrics.example/v1/nodes?limit=1"), Ok(()));
        for path in [
            "/apis/metrics.example/../../api/v1/secrets",
            "/apis/metrics.example/%2e%2e/x",
            "/apis/metrics.example//x",
            "/api/v1/secrets",
            "apis/metrics.example/v1",
            "/apis/metrics.example/v1#x",
            "/apis/metrics.example/v1 HTTP/1.1",
        ] {
            assert!(ask(path).is_err(), "{path}");
        }
    }

    #[test]
    fn a_prefix_for_discovery_reaches_no_objects() {
        let registry = Registry::new();
        let cases = [
            ("/api", "/apis/apps/v1", true),
            ("/api", "/api/v1/secrets", false),
            ("/apis/", "/apis/apps/v1/deployments", false),
            ("/apis/apps/v1/", "/apis/apps/v1/deployments", true),
            ("/api/v1/namespaces/n/configmaps/c", "/api/v1/namespaces/n/configmaps/c", true),
        ];
        for (prefix, path, allowed) in cases {
            let rules = [LookupRule::Raw(prefix.into())];
            assert_eq!(
                may_ask(&rules, &Ask::Raw(path.into()), &registry).is_ok(),
                allowed,
                "{prefix} {path}"
            );
        }
    }

    #[test]
    fn a_verb_may_be_for_one_object_alone() {
        let rules = [WriteRule {
            resource: resource("", "pods"),
            subresource: String::new(),
            verbs: vec!["patch:one".into()],
        }];
        let may = |name: &str, verb: &str| may_write(&rules, &resource("", "pods"), "", name, verb);
        assert!(may("one", "patch") && !may("two", "patch") && !may("one", "delete"));
    }

    #[test]
    fn lookups_need_their_rule() {
        let registry = Registry::new();
        let pods = registry.declare(&resource("", "pods"));
        let rules =
            [LookupRule::Get(ResourceRule { resource: resource("", "pods"), subresource: "scale".into() })];
        let get = |subresource: &str| {
            let ask = Ask::Get(crate::contract::GetLookup {
                resource: pods,
                namespace: "ns".into(),
                name: "a".into(),
                subresource: subresource.into(),
                metadata_only: false,
                uid: String::new(),
            });
            may_ask(&rules, &ask, &registry)
        };
        assert_eq!(get("scale"), Ok(()));
        assert!(get("").unwrap_err().contains("get of pods"));
    }
}
