//! Roles and bindings, read from the store when they have changed, and the rules that they give to somebody.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::Decision;
use super::attributes::Attributes;
use super::rule::Rule;
use crate::rest::Rest;
use crate::rest::strategy::{Lookup, User};
use crate::status::qualified;

pub(super) const GROUP: &str = "rbac.authorization.k8s.io";
const TABLES: [&str; 4] = ["clusterroles", "clusterrolebindings", "roles", "rolebindings"];

/// The roles and bindings of the moment, parsed once.
#[derive(Default)]
pub(crate) struct Policies(Mutex<Option<([u64; 4], Arc<Policy>)>>);

/// All roles and bindings.
#[derive(Default)]
pub(crate) struct Policy {
    cluster_roles: HashMap<String, Vec<Rule>>,
    cluster_bindings: Vec<Binding>,
    /// By namespace and name.
    roles: HashMap<(String, String), Vec<Rule>>,
    /// By namespace, in the order of their names.
    bindings: HashMap<String, Vec<Binding>>,
}

struct Binding {
    name: String,
    /// Empty for a binding of the whole cluster.
    namespace: String,
    role_kind: String,
    role: String,
    subjects: Vec<Subject>,
}

struct Subject {
    kind: String,
    name: String,
    namespace: String,
}

/// A binding that names a role that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NoRole {
    kind: String,
    name: String,
}

impl NoRole {
    /// As the authorizer says it, who names the kind.
    pub(super) fn of_kind(&self) -> String {
        format!("{} {:?} not found", qualified(GROUP, &self.kind.to_lowercase()), self.name)
    }

    /// As the storage says it, which names the resource.
    pub(super) fn of_resource(&self) -> String {
        format!("{} {:?} not found", qualified(GROUP, &format!("{}s", self.kind.to_lowercase())), self.name)
    }
}

/// The rules of a user in a namespace, and what is missing.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) rules: Vec<Rule>,
    pub(super) missing: Vec<NoRole>,
}

impl Policies {
    /// What is stored now.
    pub(crate) fn current(&self, rest: &Rest) -> Arc<Policy> {
        let versions = TABLES.map(|plural| rest.last_change(GROUP, plural));
        let mut cached = self.0.lock();
        match &*cached {
            Some((of, policy)) if *of == versions => policy.clone(),
            _ => {
                // Read after the versions were taken: what changes meanwhile is read again next time.
                let policy = Arc::new(Policy::read(rest));
                *cached = Some((versions, policy.clone()));
                policy
            }
        }
    }
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

fn rules_of(role: &Value) -> Vec<Rule> {
    role["rules"].as_array().map(|rules| rules.iter().map(Rule::of).collect()).unwrap_or_default()
}

impl Binding {
    fn of(object: &Value) -> Self {
        let subjects = object["subjects"].as_array().map(Vec::as_slice).unwrap_or_default();
        Self {
            name: text(&object["metadata"], "name"),
            namespace: text(&object["metadata"], "namespace"),
            role_kind: text(&object["roleRef"], "kind"),
            role: text(&object["roleRef"], "name"),
            subjects: subjects
                .iter()
                .map(|s| Subject {
                    kind: text(s, "kind"),
                    name: text(s, "name"),
                    namespace: text(s, "namespace"),
                })
                .collect(),
        }
    }

    /// The first subject that is this user.
    fn subject_of(&self, user: &User) -> Option<&Subject> {
        self.subjects.iter().find(|subject| match subject.kind.as_str() {
            "User" => subject.name == user.name,
            "Group" => user.groups.contains(&subject.name),
            "ServiceAccount" => {
                let account = user.name.strip_prefix("system:serviceaccount:");
                let namespace = self.home_of(subject);
                !namespace.is_empty()
                    && account.and_then(|a| a.split_once(':')) == Some((namespace, &subject.name))
            }
            _ => false,
        })
    }

    /// The namespace of a service account: the binding's own where none is said.
    fn home_of<'a>(&'a self, subject: &'a Subject) -> &'a str {
        if subject.namespace.is_empty() { &self.namespace } else { &subject.namespace }
    }

    /// `ClusterRoleBinding "b" of ClusterRole "r" to User "u"`.
    fn describe(&self, subject: &Subject) -> String {
        let (kind, name) = if self.namespace.is_empty() {
            ("ClusterRoleBinding", self.name.clone())
        } else {
            ("RoleBinding", format!("{}/{}", self.name, self.namespace))
        };
        let who = match subject.kind.as_str() {
            "ServiceAccount" => format!("{}/{}", subject.name, self.home_of(subject)),
            _ => subject.name.clone(),
        };
        format!("{kind} {name:?} of {} {:?} to {} {who:?}", self.role_kind, self.role, subject.kind)
    }
}

impl Policy {
    fn read(rest: &Rest) -> Self {
        let list = |plural| Lookup::list(rest, GROUP, plural, "");
        let mut policy = Self::default();
        for role in list("clusterroles") {
            policy.cluster_roles.insert(text(&role["metadata"], "name"), rules_of(&role));
        }
        for role in list("roles") {
            let key = (text(&role["metadata"], "namespace"), text(&role["metadata"], "name"));
            policy.roles.insert(key, rules_of(&role));
        }
        policy.cluster_bindings = list("clusterrolebindings").iter().map(Binding::of).collect();
        for binding in list("rolebindings").iter().map(Binding::of) {
            policy.bindings.entry(binding.namespace.clone()).or_default().push(binding);
        }
        policy
    }

    /// The rules of a role that a binding in `namespace` (empty: of the cluster) names.
    pub(super) fn role(&self, kind: &str, name: &str, namespace: &str) -> Result<&[Rule], NoRole> {
        let found = match kind {
            "Role" => self.roles.get(&(namespace.to_owned(), name.to_owned())),
            _ => self.cluster_roles.get(name),
        };
        found.map(Vec::as_slice).ok_or_else(|| NoRole { kind: kind.to_owned(), name: name.to_owned() })
    }

    /// Shows each rule that a user has in a namespace, until `visit` says that it has seen enough.
    fn visit<'a>(
        &'a self,
        user: &User,
        namespace: &str,
        visit: &mut dyn FnMut(&'a Binding, &'a Subject, Result<&'a Rule, NoRole>) -> bool,
    ) {
        let local = self.bindings.get(namespace).map(Vec::as_slice).unwrap_or_default();
        for binding in self.cluster_bindings.iter().chain(local) {
            let Some(subject) = binding.subject_of(user) else { continue };
            match self.role(&binding.role_kind, &binding.role, &binding.namespace) {
                Ok(rules) => {
                    if !rules.iter().all(|rule| visit(binding, subject, Ok(rule))) {
                        return;
                    }
                }
                Err(missing) => {
                    visit(binding, subject, Err(missing));
                }
            }
        }
    }

    /// Whether the roles allow it.
    pub(super) fn decide(&self, user: &User, asked: &Attributes) -> Decision {
        let mut allowed_by = None;
        let mut missing: Vec<String> = Vec::new();
        self.visit(user, &asked.namespace, &mut |binding, subject, rule| match rule {
            Ok(rule) if rule.allows(asked) => {
                allowed_by = Some(binding.describe(subject));
                false
            }
            Ok(_) => true,
            Err(error) => {
                let text = error.of_kind();
                if !missing.contains(&text) {
                    missing.push(text);
                }
                true
            }
        });
        if let Some(by) = allowed_by {
            return Decision { allowed: true, reason: format!("RBAC: allowed by {by}") };
        }
        let reason =
            if missing.is_empty() { String::new() } else { format!("RBAC: {}", aggregate(&missing)) };
        Decision { allowed: false, reason }
    }

    /// All rules of a user in a namespace.
    pub(super) fn rules(&self, user: &User, namespace: &str) -> Rules {
        let mut found = Rules::default();
        self.visit(user, namespace, &mut |_, _, rule| {
            match rule {
                Ok(rule) => found.rules.push(rule.clone()),
                Err(error) => found.missing.push(error),
            }
            true
        });
        found
    }
}

/// Several errors as one.
pub(super) fn aggregate(errors: &[String]) -> String {
    match errors {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}
