//! The permissions that modules amount to, as RBAC rules.
//!
//! In: manifests. Out: ClusterRoles that allow what the host asks of the API
//! server for these modules, and no more. Invariant: what RBAC cannot say as
//! narrowly as a manifest is said as narrowly as RBAC can.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

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
    grants::{self, Access, Entry, Place, Policy, request_of_path},
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

/// Roles and bindings of one module.
#[derive(Clone, Debug)]
pub struct Permissions {
    /// In all namespaces and outside of them; none if nothing is needed there.
    pub everywhere: Option<(ClusterRole, ClusterRoleBinding)>,
    /// In single namespaces.
    pub namespaces: Vec<(Role, RoleBinding)>,
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
struct Part {
    resources: BTreeMap<(String, String, Vec<String>), BTreeSet<String>>,
    paths: BTreeSet<String>,
}

/// Permissions of a module, as far as a policy grants them.
struct Rules<'a> {
    policy: &'a [Entry],
    /// In all namespaces, and outside of them.
    cluster: Part,
    /// In one namespace.
    namespaces: BTreeMap<String, Part>,
}

/// Where something is granted, as far as RBAC can say it.
enum Granted {
    Nowhere,
    Everywhere,
    In(Vec<String>),
}

impl<'a> Rules<'a> {
    fn new(policy: &'a [Entry]) -> Self {
        Self { policy, cluster: Part::default(), namespaces: BTreeMap::new() }
    }

    /// RBAC knows no patterns and no denials: what is granted in more than named
    /// namespaces is granted in all, and the host keeps to the policy.
    fn granted(&self, verb: &str, resource: &GroupResource, subresource: &str) -> Granted {
        fn allow(policy: &[Entry], what: (&str, &GroupResource, &str), place: Place<'_>) -> bool {
            let (verb, resource, subresource) = what;
            grants::allow(policy, &Access::Resource { verb, resource, subresource, place })
        }
        let what = (verb, resource, subresource);
        let in_one = |name: &str| allow(self.policy, what, Place::Namespace(name));
        let named = Policy::namespaces(self.policy);
        // Some namespace that the policy does not name, and one that each pattern fits.
        let others = std::iter::once(OTHER.to_owned())
            .chain(named.iter().filter_map(|name| Some(format!("{}{OTHER}", name.strip_suffix('*')?))));
        let cluster = !is_namespaced(resource) && allow(self.policy, what, Place::Cluster);
        let everywhere = || allow(self.policy, what, Place::Everywhere);
        if cluster || everywhere() || others.into_iter().any(|one| in_one(&one)) {
            return Granted::Everywhere;
        }
        let named = named.iter().filter(|name| in_one(name));
        let named: Vec<String> = named.filter(|name| !name.ends_with('*')).cloned().collect();
        if named.is_empty() { Granted::Nowhere } else { Granted::In(named) }
    }

    fn add(&mut self, resource: &GroupResource, subresource: &str, names: &[&str], verbs: &[&str]) {
        for verb in verbs {
            match self.granted(verb, resource, subresource) {
                Granted::Nowhere => {}
                Granted::Everywhere => self.cluster.add(resource, subresource, names, verb),
                Granted::In(namespaces) => {
                    for namespace in namespaces {
                        let part = self.namespaces.entry(namespace).or_default();
                        part.add(resource, subresource, names, verb);
                    }
                }
            }
        }
    }

    /// What is cached is watched in all namespaces, if it may be read in any.
    fn watched(&mut self, resource: &GroupResource) {
        let verbs = ["list", "watch"];
        if verbs.iter().all(|verb| !matches!(self.granted(verb, resource, ""), Granted::Nowhere)) {
            verbs.iter().for_each(|verb| self.cluster.add(resource, "", &[], verb));
        }
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
                if grants::allow(self.policy, &Access::Path(prefix)) {
                    self.cluster.paths.insert(format!("{prefix}*"));
                }
            }
        }
    }
}

/// A namespace that nobody has.
const OTHER: &str = "0-any-other";

/// Whether objects of a resource are surely in namespaces. Of a custom resource
/// nobody knows here.
fn is_namespaced(resource: &GroupResource) -> bool {
    static NAMESPACED: LazyLock<BTreeSet<(String, String)>> = LazyLock::new(|| {
        let kinds = coxswain_localcluster::kinds::builtin();
        let namespaced = kinds.iter().filter(|kind| kind.namespaced);
        namespaced.map(|kind| (kind.group.clone(), kind.plural.clone())).collect()
    });
    NAMESPACED.contains(&(resource.group.clone(), resource.resource.clone()))
}

impl Part {
    fn add(&mut self, resource: &GroupResource, subresource: &str, names: &[&str], verb: &str) {
        let (group, mut name) = (resource.group.clone(), resource.resource.clone());
        if !subresource.is_empty() {
            name = format!("{name}/{subresource}");
        }
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        self.resources.entry((group, name, names)).or_default().insert(verb.to_owned());
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
    rules_within(manifest, &[]).0
}

/// The same within the entries of a policy: in all namespaces, and in single
/// ones.
pub fn rules_within(
    manifest: &Manifest,
    policy: &[Entry],
) -> (Vec<PolicyRule>, BTreeMap<String, Vec<PolicyRule>>) {
    let mut rules = Rules::new(policy);
    for read in &manifest.reads {
        rules.watched(&read.resource);
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
    let in_one = |(namespace, part): (String, Part)| (namespace, part.into_rules());
    (rules.cluster.into_rules(), rules.namespaces.into_iter().map(in_one).collect())
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

    /// Roles and bindings of a module within the entries of a policy.
    pub fn for_module_within(&self, manifest: &Manifest, policy: &[Entry]) -> Permissions {
        let name = &manifest.name;
        let (cluster, namespaces) = rules_within(manifest, policy);
        let (mut role, binding) = self.for_module(manifest);
        let everywhere = (!cluster.is_empty()).then(|| {
            role.rules = Some(cluster);
            (role, binding)
        });
        let in_one = |(namespace, rules): (String, Vec<PolicyRule>)| {
            let metadata = self.named(name, Some(&namespace));
            let role = Role { metadata: metadata.clone(), rules: Some(rules) };
            let role_ref = self.role_ref(<Role as Resource>::KIND, name);
            (role, RoleBinding { metadata, role_ref, subjects: self.subjects() })
        };
        Permissions { everywhere, namespaces: namespaces.into_iter().map(in_one).collect() }
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
mod tests;
