//! The admin endpoint, `/localcluster/`, where it is switched on: faults, compaction, and what others add to it.
//!
//! In: requests by somebody who is allowed to. Out: JSON. `host/docs/cluster.md` shows each with curl.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use http::Method;
use serde_json::{Value, json};

use super::Rest;
use super::http::{Request, Response};
use super::respond::object_response;
use crate::faults::Rule;
use crate::status::Status;

/// First segment of its paths.
pub(super) const ADMIN: &str = "localcluster";

/// Answers a request below the admin endpoint; the segments behind its name are given.
pub type AdminHandler = Arc<
    dyn Fn(Request, Vec<String>) -> Pin<Box<dyn Future<Output = Result<Value, Status>> + Send>> + Send + Sync,
>;

impl Rest {
    pub(super) fn is_admin(&self, segments: &[String]) -> bool {
        self.admin_endpoint && segments.first().is_some_and(|first| first == ADMIN)
    }

    /// Answers; `segments` are those of the whole path.
    pub(super) async fn admin(&self, request: Request, segments: &[String]) -> Result<Response, Status> {
        let rest: Vec<&str> = segments[1..].iter().map(String::as_str).collect();
        let value = match (rest.as_slice(), &request.method) {
            (["faults"], &Method::GET) => {
                let rules = self.faults.list();
                let rules: Vec<_> =
                    rules.into_iter().map(|(id, rule)| json!({"id": id, "rule": rule})).collect();
                json!({ "faults": rules })
            }
            (["faults"], &Method::POST) => {
                let rule =
                    Rule::parse(&request.body).map_err(|error| Status::bad_request(error.to_string()))?;
                json!({ "id": self.faults.add(rule) })
            }
            (["faults"], &Method::DELETE) => {
                self.faults.clear();
                json!({})
            }
            (["faults", id], &Method::DELETE) => {
                if !id.parse().is_ok_and(|id| self.faults.remove(id)) {
                    return Err(Status::not_found("", "faults", id));
                }
                json!({})
            }
            (["compact"], &Method::POST) => {
                let rv = self.store.version();
                self.store.compact(rv);
                json!({ "resourceVersion": rv.to_string() })
            }
            (["faults" | "compact"], _) => return Err(Status::method_not_allowed()),
            _ => match self.extra_admin.get() {
                Some(handler) => handler(request, segments[1..].to_vec()).await?,
                None => return Err(Status::no_such_resource()),
            },
        };
        Ok(object_response(200, value.to_string().into(), false))
    }

    /// Adds paths below the admin endpoint, as for commands to simulated nodes. Only the first call counts.
    pub fn extend_admin(&self, handler: AdminHandler) {
        // A second handler would be a mistake of this crate; the first one stays.
        let _ = self.extra_admin.set(handler);
    }
}
