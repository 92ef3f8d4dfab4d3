//! Nobody grants what they do not have: the check of writes to roles and bindings.
//!
//! In: a role or a binding about to be written. Out: nothing or 403. Invariant: only the verbs `escalate` and `bind` (or
//! being privileged) let somebody grant more than they hold.

use std::collections::BTreeSet;

use serde_json::Value;

use super::attributes::Attributes;
use super::policy::{GROUP, Policy};
use super::rule::{Rule, quoted};
use super::{AuthorizationMode, is_privileged};
use crate::rest::{Call, Rest};
use crate::status::Status;

impl Rest {
    /// Refuses a role or binding that would grant more than its writer has. `old` is absent for a new object.
    pub(crate) fn check_grant(&self, call: &Call, old: Option<&Value>, new: &Value) -> Result<(), Status> {
        if self.authorization == AuthorizationMode::AlwaysAllow
            || call.kind.group != GROUP
            || is_privileged(&call.user)
            || old.is_some_and(|old| differs_for_collector_only(old, new))
        {
            return Ok(());
        }
        let policy = self.policies.current(self);
        match call.kind.plural.as_str() {
            "roles" | "clusterroles" => check_role(&policy, call, old, new),
            "rolebindings" | "clusterrolebindings" => check_binding(&policy, call, new),
            _ => Ok(()),
        }
    }

    /// Refuses a PUT or an apply that creates if its sender may not create.
    pub(crate) fn check_create_by_update(&self, call: &Call) -> Result<(), Status> {
        let asked = Attributes {
            verb: "create".into(),
            group: call.kind.group.clone(),
            resource: call.kind.plural.clone(),
            namespace: call.namespace.clone(),
            name: call.name.clone(),
            ..Attributes::default()
        };
        self.authorize(&call.user, &asked)
    }
}

fn may(policy: &Policy, call: &Call, verb: &str, resource: &str, name: &str) -> bool {
    let asked = Attributes {
        verb: verb.into(),
        group: GROUP.into(),
        resource: resource.into(),
        namespace: call.namespace.clone(),
        name: name.into(),
        ..Attributes::default()
    };
    policy.decide(&call.user, &asked).allowed
}

fn forbidden(call: &Call, object: &Value, why: &str) -> Status {
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    Status::forbidden(GROUP, &call.kind.plural, name, why)
}

fn check_role(policy: &Policy, call: &Call, old: Option<&Value>, new: &Value) -> Result<(), Status> {
    if may(policy, call, "escalate", &call.kind.plural, &call.name) {
        return Ok(());
    }
    let rules: Vec<Rule> =
        new["rules"].as_array().map(|rules| rules.iter().map(Rule::of).collect()).unwrap_or_default();
    confirm_no_escalation(policy, call, &rules).map_err(|why| forbidden(call, new, &why))?;
    let gathers = |role: &Value| {
        let selectors = role["aggregationRule"]["clusterRoleSelectors"].as_array();
        selectors.is_some_and(|list| !list.is_empty())
    };
    // A rule that gathers can gather anything.
    if (gathers(new) || old.is_some_and(gathers))
        && confirm_no_escalation(policy, call, &Rule::everything()).is_err()
    {
        return Err(forbidden(call, new, "must have cluster-admin privileges to use the aggregationRule"));
    }
    Ok(())
}

fn check_binding(policy: &Policy, call: &Call, new: &Value) -> Result<(), Status> {
    let kind = new["roleRef"]["kind"].as_str().unwrap_or_default();
    let name = new["roleRef"]["name"].as_str().unwrap_or_default();
    let resource = match kind {
        "Role" => "roles",
        "ClusterRole" => "clusterroles",
        // Refused as invalid later.
        _ => return Ok(()),
    };
    if may(policy, call, "bind", resource, name) {
        return Ok(());
    }
    // The real server says that the binding is missing, by the name of the role.
    let rules = policy.role(kind, name, &call.namespace).map_err(|_| call.kind.not_found(name))?;
    confirm_no_escalation(policy, call, rules).map_err(|why| forbidden(call, new, &why))
}

/// The error lists what is missing.
fn confirm_no_escalation(policy: &Policy, call: &Call, wanted: &[Rule]) -> Result<(), String> {
    let held = policy.rules(&call.user, &call.namespace);
    let parts = wanted.iter().flat_map(Rule::parts);
    let missing: Vec<Rule> = parts.filter(|part| !held.rules.iter().any(|rule| rule.covers(part))).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let shown: BTreeSet<String> = compact(missing).iter().map(Rule::show).collect();
    let shown: Vec<String> = shown.into_iter().collect();
    let mut text = format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        call.user.name,
        quoted(&call.user.groups),
        shown.join("\n"),
    );
    if !held.missing.is_empty() {
        let errors: Vec<String> = held.missing.iter().map(super::policy::NoRole::of_resource).collect();
        let shown = super::policy::aggregate(&errors);
        text.push_str(&format!("; resolution errors: [{shown}]"));
    }
    Err(text)
}

/// Joins rules that differ only in their verb.
fn compact(rules: Vec<Rule>) -> Vec<Rule> {
    let mut compacted: Vec<Rule> = Vec::new();
    for rule in rules {
        let same = |other: &&mut Rule| {
            rule.paths.is_empty()
                && (&other.groups, &other.resources, &other.names)
                    == (&rule.groups, &rule.resources, &rule.names)
        };
        match compacted.iter_mut().find(same) {
            Some(other) => other.verbs.extend(rule.verbs),
            None => compacted.push(rule),
        }
    }
    compacted
}

/// Whether a change touches only what the garbage collector changes.
fn differs_for_collector_only(old: &Value, new: &Value) -> bool {
    let without = |object: &Value| {
        let mut object = object.clone();
        if let Some(meta) = crate::rest::meta_mut(&mut object) {
            for field in ["ownerReferences", "finalizers", "managedFields", "selfLink"] {
                meta.remove(field);
            }
        }
        crate::rest::drop_type_meta(&mut object);
        object
    };
    without(old) == without(new)
}
