//! The permissions that modules amount to, as RBAC rules.
//!
//! In: manifests. Out: ClusterRoles that allow what the host asks of the API
//! server for these modules, and no more. Invariant: what RBAC cannot say as
//! narrowly as a manifest is said as narrowly as RBAC can.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::{
    Resource,
    api::{
        core::v1::ServiceAccount,
        rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use crate::{
    contract::{GroupResource, LookupRule, Manifest},
    grants::request_of_path,
    registry::is_wildcard,
};

/// Group of roles and bindings.
const GROUP: &str = "rbac.authorization.k8s.io";
/// Verbs in the order people are used to.
const ORDER: [&str; 8] = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// Who runs, and how it is called.
#[derive(Clone, Debug)]
pub struct Holder {
    /// What names of roles begin with.
    pub prefix: String,
    /// Namespace of the service account.
    pub namespace: String,
    /// Name of the service account.
    pub service_account: String,
}

/// The leases of leader election.
#[derive(Clone, Debug)]
pub struct Leases {
    /// Their namespace.
    pub namespace: String,
    /// Their names.
    pub names: Vec<String>,
}

/// Permissions under construction, by group, resource (with subresource) and
/// object names.
#[derive(Default)]
struct Rules {
    resources: BTreeMap<(String, String, Vec<String>), BTreeSet<String>>,
    paths: BTreeSet<String>,
}

impl Rules {
    fn add(&mut self, resource: &GroupResource, subresource: &str, names: &[&str], verbs: &[&str]) {
        let (group, mut name) = (resource.group.clone(), resource.resource.clone());
        if !subresource.is_empty() {
            name = format!("{name}/{subresource}");
        }
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        let known = self.resources.entry((group, name, names)).or_default();
        known.extend(verbs.iter().map(|verb| (*verb).to_owned()));
    }

    fn raw(&mut self, prefix: &str) {
        // A path into a resource is judged as a request for that resource; others by their text.
        match request_of_path(prefix).filter(|_| !prefix.ends_with('/')) {
            Some(request) => match &request.name {
                Some(name) => self.add(&request.resource, &request.subresource, &[name], &["get"]),
                None => self.add(&request.resource, "", &[], &["get", "list"]),
            },
            None => {
                let parts: Vec<&str> = prefix.split('/').filter(|part| !part.is_empty()).collect();
                let group = match parts.as_slice() {
                    ["apis", group, ..] => Some((*group).to_owned()),
                    ["api", _, ..] => Some(String::new()),
                    _ => None,
                };
                if let Some(group) = group {
                    let every = GroupResource { group, version: String::new(), resource: "*".to_owned() };
                    self.add(&every, "", &[], &["get", "list"]);
                }
                self.paths.insert(format!("{prefix}*"));
            }
        }
    }

    /// Resources of one group with the same verbs share a rule.
    fn into_rules(self) -> Vec<PolicyRule> {
        let mut shared: BTreeMap<(String, Vec<String>, Vec<String>), Vec<String>> = BTreeMap::new();
        for ((group, resource, names), verbs) in self.resources {
            let place = |verb: &String| {
                (ORDER.iter().position(|known| known == verb).unwrap_or(ORDER.len()), verb.clone())
            };
            let mut verbs: Vec<String> = verbs.into_iter().collect();
            verbs.sort_by_key(place);
            shared.entry((group, verbs, names)).or_default().push(resource);
        }
        let some = |list: Vec<String>| (!list.is_empty()).then_some(list);
        let mut rules: Vec<PolicyRule> = shared
            .into_iter()
            .map(|((group, verbs, names), resources)| PolicyRule {
                api_groups: Some(vec![group]),
                resources: Some(resources),
                resource_names: some(names),
                verbs,
                non_resource_urls: None,
            })
            .collect();
        rules.sort_by(|a, b| (&a.api_groups, &a.resources).cmp(&(&b.api_groups, &b.resources)));
        if !self.paths.is_empty() {
            rules.push(PolicyRule {
                non_resource_urls: Some(self.paths.into_iter().collect()),
                verbs: vec!["get".to_owned()],
                ..PolicyRule::default()
            });
        }
        rules
    }
}

/// What the host asks of the API server for a module.
pub fn rules(manifest: &Manifest) -> Vec<PolicyRule> {
    let mut rules = Rules::default();
    for read in &manifest.reads {
        rules.add(&read.resource, "", &[], &["list", "watch"]);
    }
    for write in &manifest.writes {
        for verb in &write.verbs {
            match verb.split_once(':') {
                Some((verb, name)) => rules.add(&write.resource, &write.subresource, &[name], &[verb]),
                None => rules.add(&write.resource, &write.subresource, &[], &[verb]),
            }
        }
        // A write whose answer was lost is settled by a look at the object.
        let reads_all = is_wildcard(&write.resource) && !write.subresource.is_empty();
        if settles(&write.verbs) && !reads_all {
            rules.add(&write.resource, "", &[], &["get"]);
        }
    }
    for lookup in &manifest.lookups {
        match lookup {
            LookupRule::Get(rule) => rules.add(&rule.resource, &rule.subresource, &[], &["get"]),
            LookupRule::List(resource) => rules.add(resource, "", &[], &["list"]),
            LookupRule::Review(resource) => rules.add(resource, "", &[], &["create"]),
            LookupRule::Raw(prefix) => rules.raw(prefix),
            LookupRule::Sign(_) => {}
        }
    }
    let events = GroupResource { group: String::new(), version: "v1".into(), resource: "events".into() };
    rules.add(&events, "", &[], &["create", "patch"]);
    rules.into_rules()
}

/// Whether the host writes with one of these verbs. Others are what the API
/// server asks for besides, and `update` of finalizers is one of them.
fn settles(verbs: &[String]) -> bool {
    verbs.iter().any(|verb| matches!(verb.as_str(), "create" | "patch" | "update" | "delete"))
}

impl Holder {
    fn subjects(&self) -> Option<Vec<Subject>> {
        Some(vec![Subject {
            kind: <ServiceAccount as Resource>::KIND.to_owned(),
            name: self.service_account.clone(),
            namespace: Some(self.namespace.clone()),
            api_group: None,
        }])
    }

    fn named(&self, name: &str, namespace: Option<&str>) -> ObjectMeta {
        ObjectMeta {
            name: Some(format!("{}{name}", self.prefix)),
            namespace: namespace.map(str::to_owned),
            ..ObjectMeta::default()
        }
    }

    fn role_ref(&self, kind: &str, name: &str) -> RoleRef {
        RoleRef {
            api_group: Some(GROUP.to_owned()),
            kind: kind.to_owned(),
            name: format!("{}{name}", self.prefix),
        }
    }

    /// Role and binding of a module.
    pub fn for_module(&self, manifest: &Manifest) -> (ClusterRole, ClusterRoleBinding) {
        let name = &manifest.name;
        let role = ClusterRole {
            metadata: self.named(name, None),
            rules: Some(rules(manifest)),
            aggregation_rule: None,
        };
        let binding = ClusterRoleBinding {
            metadata: self.named(name, None),
            role_ref: self.role_ref(<ClusterRole as Resource>::KIND, name),
            subjects: self.subjects(),
        };
        (role, binding)
    }

    /// Role and binding of leader election.
    pub fn for_leases(&self, leases: &Leases) -> (Role, RoleBinding) {
        const NAME: &str = "leader-election";
        let rule = |verbs: &[&str], names: Option<Vec<String>>| PolicyRule {
            api_groups: Some(vec!["coordination.k8s.io".to_owned()]),
            resources: Some(vec!["leases".to_owned()]),
            resource_names: names,
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            non_resource_urls: None,
        };
        let namespace = Some(leases.namespace.as_str());
        let role = Role {
            metadata: self.named(NAME, namespace),
            rules: Some(vec![
                // What does not exist yet has no name that RBAC could compare,
                // nor has a watch of several leases.
                rule(if leases.names.len() > 1 { &["list", "watch", "create"] } else { &["create"] }, None),
                rule(&["get", "list", "watch", "update"], Some(leases.names.clone())),
            ]),
        };
        let binding = RoleBinding {
            metadata: self.named(NAME, namespace),
            role_ref: self.role_ref(<Role as Resource>::KIND, NAME),
            subjects: self.subjects(),
        };
        (role, binding)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{ClientLimits, Read, ResourceRule, WriteRule};

    fn resource(text: &str) -> GroupResource {
        let (name, group) = text.split_once('.').unwrap_or((text, ""));
        GroupResource { group: group.into(), version: "v1".into(), resource: name.into() }
    }

    fn manifest(writes: &[(&str, &str, &[&str])], lookups: Vec<LookupRule>) -> Manifest {
        let write = |(name, subresource, verbs): &(&str, &str, &[&str])| WriteRule {
            resource: resource(name),
            subresource: (*subresource).into(),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        };
        Manifest {
            name: "thing-controller".into(),
            aliases: vec![],
            version: "1".into(),
            state_format: 1,
            accepts_state_formats: vec![],
            sources: vec![],
            reads: vec![Read {
                resource: resource("things.example"),
                optional: false,
                fields: vec![],
                whole: true,
                sensitive: vec![],
                indexes: vec![],
            }],
            writes: writes.iter().map(write).collect(),
            lookups,
            options: vec![],
            event_component: String::new(),
            concurrency: 0,
            concurrency_flag: String::new(),
            client_limits: ClientLimits { qps: 0, burst: 0 },
            metrics: Vec::new(),
        }
    }

    fn show(rules: &[PolicyRule]) -> Vec<String> {
        let list = |list: &Option<Vec<String>>| list.as_deref().unwrap_or_default().join(",");
        rules
            .iter()
            .map(|rule| {
                if let Some(urls) = &rule.non_resource_urls {
                    return format!("{} {}", rule.verbs.join(","), urls.join(","));
                }
                let (groups, names) = (list(&rule.api_groups), list(&rule.resource_names));
                format!("{} {:?} {} {names}", rule.verbs.join(","), groups, list(&rule.resources))
                    .trim_end()
                    .to_owned()
            })
            .collect()
    }

    #[test]
    fn manifests_become_rules() {
        let writes: &[(&str, &str, &[&str])] = &[
            ("things.example", "status", &["patch"]),
            ("pods", "", &["create", "delete"]),
            ("things.example", "finalizers", &["update"]),
            ("roles.example", "", &["patch", "escalate"]),
            ("signers.example", "", &["approve:example.com/a", "approve:example.com/b"]),
        ];
        let lookups = vec![
            LookupRule::Get(ResourceRule { resource: resource("pods"), subresource: "log".into() }),
            LookupRule::List(resource("nodes")),
            LookupRule::Review(resource("reviews.example")),
            LookupRule::Sign("ca".into()),
            LookupRule::Raw("/apis/metrics.example/".into()),
            LookupRule::Raw("/apis/".into()),
            LookupRule::Raw("/api/v1/namespaces/kube-system/configmaps/one".into()),
        ];
        assert_eq!(
            show(&rules(&manifest(writes, lookups))),
            [
                "get \"\" configmaps one",
                "create,patch \"\" events",
                "list \"\" nodes",
                "get,create,delete \"\" pods",
                "get \"\" pods/log",
                "create \"example\" reviews",
                "get,patch,escalate \"example\" roles",
                "approve \"example\" signers example.com/a",
                "approve \"example\" signers example.com/b",
                "get,list,watch \"example\" things",
                "update \"example\" things/finalizers",
                "patch \"example\" things/status",
                "get,list \"metrics.example\" *",
                "get /apis/*,/apis/metrics.example/*",
            ]
        );
    }

    #[test]
    fn roles_are_bound_to_the_service_account() {
        let holder = Holder { prefix: "x:".into(), namespace: "ns".into(), service_account: "sa".into() };
        let (role, binding) = holder.for_module(&manifest(&[], vec![]));
        assert_eq!(role.metadata.name.as_deref(), Some("x:thing-controller"));
        assert_eq!(
            (binding.role_ref.kind.as_str(), binding.role_ref.name.as_str()),
            ("ClusterRole", "x:thing-controller")
        );
        let subject = &binding.subjects.unwrap()[0];
        assert_eq!(
            (subject.kind.as_str(), subject.name.as_str(), subject.namespace.as_deref()),
            ("ServiceAccount", "sa", Some("ns"))
        );
        let (role, _) =
            holder.for_leases(&Leases { namespace: "kube-system".into(), names: vec!["lock".into()] });
        assert_eq!(
            show(&role.rules.unwrap()),
            [
                "create \"coordination.k8s.io\" leases",
                "get,list,watch,update \"coordination.k8s.io\" leases lock"
            ]
        );
    }
}
