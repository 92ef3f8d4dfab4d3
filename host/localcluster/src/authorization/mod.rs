//! Who may do what: the RBAC authorizer, off by default, and what is asked of it.
//!
//! In: a user and what is asked for. Out: allowed or the refusal in the words of the real server. Invariant: a decision
//! is made on the roles and bindings as they are stored at that moment; `system:masters` may do everything.

mod attributes;
mod certificates;
mod escalation;
mod impersonation;
mod policy;
mod rule;

use std::fmt;
use std::str::FromStr;

pub(crate) use attributes::Attributes;
pub(crate) use policy::Policies;

use policy::{NoRole, aggregate};
use rule::Rule;
use serde_json::{Value, json};

use crate::rest::Rest;
use crate::rest::strategy::User;
use crate::status::Status;

/// Who may ask for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AuthorizationMode {
    /// Whoever is known may do everything; nobody else gets in.
    #[default]
    AlwaysAllow,
    /// Roles and bindings decide. Requests without a credential are `system:anonymous`.
    Rbac,
}

/// A mode that is not served.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is no authorization mode; AlwaysAllow and RBAC are")]
pub struct UnknownMode(String);

impl FromStr for AuthorizationMode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        match text {
            "AlwaysAllow" => Ok(Self::AlwaysAllow),
            "RBAC" => Ok(Self::Rbac),
            other => Err(UnknownMode(other.to_owned())),
        }
    }
}

impl fmt::Display for AuthorizationMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::Rbac => "RBAC",
        })
    }
}

/// What came of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Decision {
    /// Whether.
    pub(crate) allowed: bool,
    /// Why, or what went wrong on the way; may be empty.
    pub(crate) reason: String,
}

/// Members of this group may do everything.
const PRIVILEGED: &str = "system:masters";
/// Paths that everybody may read, whatever the roles say.
const ALWAYS_ALLOWED: &[&str] = &["/healthz", "/livez", "/readyz"];

pub(crate) fn is_privileged(user: &User) -> bool {
    user.groups.iter().any(|group| group == PRIVILEGED)
}

/// The user of requests that show no credential.
pub(crate) fn anonymous() -> User {
    User { name: "system:anonymous".into(), groups: vec!["system:unauthenticated".into()], ..User::default() }
}

impl Rest {
    /// What the roles in the store say, whatever the mode is.
    pub(crate) fn decide(&self, user: &User, asked: &Attributes) -> Decision {
        if is_privileged(user) {
            return Decision { allowed: true, reason: String::new() };
        }
        self.policies.current(self).decide(user, asked)
    }

    /// The status of a SelfSubjectRulesReview: what somebody may do in a namespace.
    pub(crate) fn rules_of(&self, user: &User, namespace: &str) -> Value {
        let found = self.policies.current(self).rules(user, namespace);
        let (paths, resources): (Vec<_>, Vec<_>) =
            found.rules.iter().partition(|rule| !rule.paths.is_empty());
        let mut resources: Vec<Value> = resources.into_iter().map(Rule::to_value).collect();
        let mut paths: Vec<Value> = paths.into_iter().map(Rule::to_value).collect();
        if is_privileged(user) {
            let [everything, everywhere] = Rule::everything();
            for (rules, all) in [(&mut resources, everything), (&mut paths, everywhere)] {
                let all = all.to_value();
                if !rules.contains(&all) {
                    rules.push(all);
                }
            }
        }
        let mut status = json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false});
        let missing: Vec<String> = found.missing.iter().map(NoRole::of_kind).collect();
        if !missing.is_empty() {
            status["evaluationError"] = aggregate(&missing).into();
        }
        status
    }

    /// Refuses what the roles do not allow, if the cluster was started with RBAC.
    pub(crate) fn authorize(&self, user: &User, asked: &Attributes) -> Result<(), Status> {
        if self.authorization == AuthorizationMode::AlwaysAllow {
            return Ok(());
        }
        if asked.path.as_deref().is_some_and(|path| ALWAYS_ALLOWED.contains(&path)) {
            return Ok(());
        }
        let decision = self.decide(user, asked);
        if decision.allowed { Ok(()) } else { Err(asked.forbidden(user, &decision.reason)) }
    }
}
