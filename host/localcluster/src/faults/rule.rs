//! A rule: which requests, how often, and what befalls them.

use std::time::Duration;

use http::Method;
use serde::{Deserialize, Serialize};

use super::Verdict;
use crate::rest::Request;
use crate::rest::path::{Route, route};
use crate::status::Status;

/// A rule as the admin endpoint takes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Rule {
    /// Which requests; everything that is left out matches anything.
    #[serde(default)]
    pub on: Selection,
    /// How likely each of them is met.
    #[serde(default = "certain")]
    pub probability: f64,
    /// How many are met before the rule ends; without it, it stays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    /// What befalls them.
    pub action: Action,
}

fn certain() -> f64 {
    1.0
}

/// Why a rule cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("not a fault rule: {0}; see the documentation of coxswain_localcluster::faults::Rule")]
pub struct RuleError(#[from] serde_json::Error);

impl Rule {
    /// From JSON.
    pub fn parse(text: &[u8]) -> Result<Self, RuleError> {
        Ok(serde_json::from_slice(text)?)
    }
}

/// Which requests a rule is about.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Selection {
    /// `get`, `list`, `watch`, `create`, `update`, `patch` or `delete`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// API group; empty for core.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Plural name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Subresource; empty for the object itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subresource: Option<String>,
    /// Namespace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of an object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Start of the User-Agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_agent: Option<String>,
}

impl Selection {
    pub(super) fn is_resource(&self, group: &str, plural: &str) -> bool {
        self.group.as_deref().is_none_or(|g| g == group)
            && self.resource.as_deref().is_none_or(|r| r == plural)
    }

    pub(super) fn covers(&self, request: &Request) -> bool {
        let Some(Route::Resource(path)) = route(&request.path) else { return false };
        let named = path.name.is_some();
        let watch = path.watch || (!named && watches(&request.query));
        let verb = match request.method {
            Method::GET if watch => "watch",
            Method::GET if named => "get",
            Method::GET => "list",
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => return false,
        };
        let is = |wanted: &Option<String>, given: Option<&str>| {
            wanted.as_deref().is_none_or(|w| w == given.unwrap_or_default())
        };
        let agent = request.headers.get(http::header::USER_AGENT).and_then(|v| v.to_str().ok());
        let agent = agent.unwrap_or_default();
        (self.verbs.is_empty() || self.verbs.iter().any(|v| v == verb))
            && self.is_resource(&path.group, &path.plural)
            && is(&self.subresource, path.sub.as_deref())
            && is(&self.namespace, path.namespace.as_deref())
            && is(&self.name, path.name.as_deref())
            && self.user_agent.as_deref().is_none_or(|start| agent.starts_with(start))
    }
}

fn watches(query: &str) -> bool {
    query.split('&').any(|pair| matches!(pair, "watch=1" | "watch=true" | "watch"))
}

/// What befalls a request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "camelCase", rename_all_fields = "camelCase", deny_unknown_fields)]
pub enum Action {
    /// It waits first. Adds up with other rules.
    Latency {
        /// How long.
        milliseconds: u64,
    },
    /// 409 Conflict.
    Conflict,
    /// 429 with Retry-After.
    TooManyRequests {
        /// The wait asked for.
        retry_after_seconds: u32,
    },
    /// 401 Unauthorized.
    Unauthorized,
    /// 403 Forbidden.
    Forbidden,
    /// 503 with Retry-After, unless that is 0.
    Unavailable {
        /// The wait asked for.
        #[serde(default)]
        retry_after_seconds: u32,
    },
    /// 500.
    ServerError,
    /// 410 Expired.
    Expired,
    /// The connection is cut before anything happens.
    CutConnection,
    /// It is carried out and the connection cut before the answer.
    LoseAnswer,
    /// Open watches end now.
    CloseWatches,
    /// Open watches are told 410 and end now.
    ExpireWatches,
    /// Events reach watches this much later, until set to 0 or cleared.
    DelayWatches {
        /// How long.
        milliseconds: u64,
    },
}

impl Action {
    /// About open watches: it happens once, when given.
    pub(super) fn is_signal(&self) -> bool {
        matches!(self, Self::CloseWatches | Self::ExpireWatches | Self::DelayWatches { .. })
    }

    /// The verdict, or a wait before the next rule.
    pub(super) fn verdict(&self) -> Result<Verdict, Duration> {
        Ok(match self {
            Self::Latency { milliseconds } => return Err(Duration::from_millis(*milliseconds)),
            Self::Conflict => Verdict::Refuse(Status::conflict("", "objects", "injected", "injected fault")),
            Self::TooManyRequests { retry_after_seconds } => {
                Verdict::Refuse(Status::too_many_requests("injected fault", *retry_after_seconds))
            }
            Self::Unauthorized => Verdict::Refuse(Status::unauthorized()),
            Self::Unavailable { retry_after_seconds } => {
                Verdict::Refuse(Status::unavailable("injected fault", *retry_after_seconds))
            }
            Self::Forbidden => {
                Verdict::Refuse(Status::forbidden("", "objects", "injected", "injected fault"))
            }
            Self::ServerError => Verdict::Refuse(Status::internal("injected fault")),
            Self::Expired => Verdict::Refuse(Status::expired("injected fault")),
            Self::CutConnection => Verdict::Cut,
            Self::LoseAnswer => Verdict::LoseAnswer,
            Self::CloseWatches | Self::ExpireWatches | Self::DelayWatches { .. } => Verdict::Pass,
        })
    }
}
