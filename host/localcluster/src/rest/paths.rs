//! Paths outside the API groups: health, version, OpenAPI.

use bytes::Bytes;
use http::{Method, header};
use serde_json::json;

use super::http::{Body, Request, Response};
use super::registry::Kinds;
use super::respond::{cached, not_found, object_response};
use super::{Rest, health, negotiate};
use crate::discovery;
use crate::status::Status;

impl Rest {
    /// Paths that need no credential.
    pub(super) fn open_path(
        &self,
        request: &Request,
        segments: &[String],
    ) -> Option<Result<Response, Status>> {
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let response = match segments.as_slice() {
            ["version"] => {
                if let Err(status) = negotiate::json_only(request.header(header::ACCEPT)) {
                    return Some(Err(status));
                }
                let body = discovery::version().to_string();
                object_response(200, body.into(), false)
            }
            ["healthz" | "livez" | "readyz", ..] if request.path.ends_with('/') => not_found(),
            [endpoint @ ("healthz" | "livez" | "readyz")] => health::all(endpoint, &request.query),
            [endpoint @ ("healthz" | "livez" | "readyz"), check @ ..] => {
                health::one(endpoint, &check.join("/"))
            }
            _ => return None,
        };
        if request.method != Method::GET && matches!(segments.as_slice(), ["version"]) {
            return Some(Err(Status::method_not_allowed()));
        }
        Some(Ok(response))
    }

    /// Paths that need one.
    pub(super) fn other_path(&self, request: &Request, segments: &[String]) -> Result<Response, Status> {
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        let kinds = self.registry.kinds();
        match segments.as_slice() {
            [] => {
                let mut paths = vec!["/api".to_owned(), "/api/v1".into(), "/apis".into()];
                for kind in kinds.all().iter().filter(|kind| !kind.group.is_empty()) {
                    paths.push(format!("/apis/{}", kind.group));
                    paths.push(format!("/apis/{}/{}", kind.group, kind.version));
                }
                paths
                    .extend(["healthz", "livez", "openapi/v3", "readyz", "version"].map(|p| format!("/{p}")));
                paths.sort();
                paths.dedup();
                Ok(object_response(200, json!({ "paths": paths }).to_string().into(), false))
            }
            ["openapi", "v3"] => {
                let body = discovery::openapi_index(&kinds).to_string();
                let tag = discovery::hash(body.as_bytes());
                let mut response = self.openapi(request, body.into(), &tag);
                // Nobody says there what it is, so it is taken for text.
                let text = http::HeaderValue::from_static("text/plain; charset=utf-8");
                response.headers_mut().insert(header::CONTENT_TYPE, text);
                Ok(response)
            }
            ["openapi", "v3", "api", version] => Ok(self.openapi_document(request, &kinds, "", version)),
            ["openapi", "v3", "apis", group, version] => {
                Ok(self.openapi_document(request, &kinds, group, version))
            }
            _ => Ok(not_found()),
        }
    }

    fn openapi_document(&self, request: &Request, kinds: &Kinds, group: &str, version: &str) -> Response {
        if !kinds.versions(group).is_some_and(|all| all.iter().any(|v| v == version)) {
            let mut response = Response::new(Body::Full(Bytes::new()));
            *response.status_mut() = http::StatusCode::NOT_FOUND;
            return response;
        }
        let (body, tag) = discovery::openapi_document(kinds, group, version);
        self.openapi(request, body, &tag)
    }

    fn openapi(&self, request: &Request, body: Bytes, tag: &str) -> Response {
        let mut response = cached(request, body, tag, "application/json");
        if request.query.split('&').any(|pair| pair.starts_with("hash=")) {
            // The hash is in the address, so the content behind it never changes.
            let headers = response.headers_mut();
            headers.insert(header::CACHE_CONTROL, http::HeaderValue::from_static("public, immutable"));
            let year = self.clock.now().saturating_add(jiff::SignedDuration::from_hours(24 * 365));
            if let Ok(year) = year {
                let text = year.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
                if let Ok(value) = http::HeaderValue::from_str(&text) {
                    headers.insert(header::EXPIRES, value);
                }
            }
        }
        response
    }
}
