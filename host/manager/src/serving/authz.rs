//! What who asks may have: the API server says.

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::json;

use super::{Serving, User, authn::ask, ttl::Remembered, user::PRIVILEGED};
use crate::{
    api::{ApiClient, ApiError},
    manager::Manager,
};

const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// What the API server said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// Yes.
    Allowed,
    /// No, and perhaps why.
    Denied(String),
}

/// Finds out what somebody may have.
pub(super) struct Authorizer {
    api: ApiClient,
    manager: Arc<Manager>,
    always: Vec<String>,
    allowed_ttl: Duration,
    denied_ttl: Duration,
    decisions: Remembered<(User, String, String), Decision>,
}

impl Authorizer {
    pub(super) fn new(config: &Serving, api: ApiClient, manager: Arc<Manager>) -> Self {
        Self {
            api,
            manager,
            always: config.always_allow_paths.clone(),
            allowed_ttl: config.authorized_ttl,
            denied_ttl: config.unauthorized_ttl,
            decisions: Remembered::new(),
        }
    }

    /// Whether a path is open to all, whoever they are.
    pub(super) fn is_open(&self, path: &str) -> bool {
        let path = path.trim_start_matches('/');
        self.always.iter().map(|open| open.trim_start_matches('/')).any(|open| match open.strip_suffix('*') {
            Some(prefix) => path.starts_with(prefix),
            None => path == open,
        })
    }

    /// Whether a user may do `verb` (a method in lower case) to a path.
    pub(super) async fn decide(&self, user: &User, verb: &str, path: &str) -> Result<Decision, ApiError> {
        if user.groups.iter().any(|group| group == PRIVILEGED) {
            return Ok(Decision::Allowed);
        }
        let question = (user.clone(), verb.to_owned(), path.to_owned());
        if let Some(known) = self.decisions.get(&question) {
            return Ok(known);
        }
        let mut spec = json!({
            "user": user.name,
            "groups": user.groups,
            "nonResourceAttributes": {"path": path, "verb": verb},
        });
        if !user.uid.is_empty() {
            spec["uid"] = user.uid.as_str().into();
        }
        if !user.extra.is_empty() {
            spec["extra"] = json!(user.extra);
        }
        let body =
            json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
        let answer = ask(&self.api, PATH, &body, |status, took| {
            self.manager.metrics().reviews.authorization(status, took);
        })
        .await?;
        let review: Review = serde_json::from_slice(&answer).map_err(|e| {
            ApiError::no_answer(format!("the answer to a SubjectAccessReview cannot be read: {e}"))
        })?;
        let (decision, ttl) = if review.status.allowed && !review.status.denied {
            (Decision::Allowed, self.allowed_ttl)
        } else {
            (Decision::Denied(review.status.reason), self.denied_ttl)
        };
        self.decisions.put(question, decision.clone(), ttl);
        Ok(decision)
    }
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    allowed: bool,
    denied: bool,
    reason: String,
}
