//! What a request asks for, as authorizers see it.
//!
//! In: method, path and query. Out: attributes. Invariant: they depend on the request alone, not on what is served, so
//! that a refusal tells nobody what exists.

use http::Method;
use percent_encoding::percent_decode_str;

use crate::rest::Request;
use crate::rest::options::Query;
use crate::rest::strategy::User;
use crate::selector::FieldSelector;
use crate::status::Status;

/// What somebody wants to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Attributes {
    pub(crate) verb: String,
    pub(crate) group: String,
    pub(crate) resource: String,
    pub(crate) sub: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// Set for paths outside resources.
    pub(crate) path: Option<String>,
}

/// Subresources of a namespace: what follows a namespace's name otherwise is a resource in it.
const OF_NAMESPACES: &[&str] = &["status", "finalize"];

impl Attributes {
    /// Of a request.
    pub(crate) fn of(request: &Request) -> Self {
        let path = percent_decode_str(&request.path).decode_utf8_lossy();
        let method = request.method.as_str().to_ascii_lowercase();
        let outside = || Self { verb: method.clone(), path: Some(path.to_string()), ..Self::default() };
        let trimmed = path.trim_matches('/');
        let parts: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
        let (group, rest) = match parts.as_slice() {
            ["api", _version, rest @ ..] if !rest.is_empty() => ("", rest),
            ["apis", group, _version, rest @ ..] if !rest.is_empty() => (*group, rest),
            _ => return outside(),
        };
        let (by_path, rest) = match rest {
            [verb @ ("watch" | "proxy"), rest @ ..] if !rest.is_empty() => (Some(*verb), rest),
            ["watch" | "proxy"] => return outside(),
            rest => (None, rest),
        };
        let verb = by_path.unwrap_or(match request.method {
            Method::POST => "create",
            Method::GET | Method::HEAD => "get",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            _ => "",
        });
        let mut found = Self { verb: verb.into(), group: group.into(), ..Self::default() };
        let mut rest = rest;
        if let ["namespaces", namespace, tail @ ..] = rest {
            found.namespace = (*namespace).into();
            if tail.first().is_some_and(|first| !OF_NAMESPACES.contains(first)) {
                rest = tail;
            }
        }
        let mut rest = rest.iter().map(|part| (*part).to_owned());
        found.resource = rest.next().unwrap_or_default();
        found.name = rest.next().unwrap_or_default();
        if by_path.is_none() {
            found.sub = rest.next().unwrap_or_default();
        }
        found.of_collection(&request.query);
        found
    }

    /// Without a name it is about all: list, watch or delete of a collection.
    fn of_collection(&mut self, query: &str) {
        if !self.name.is_empty() {
            return;
        }
        match self.verb.as_str() {
            "delete" => self.verb = "deletecollection".into(),
            "get" => {
                let query = Query::parse(query);
                let watch = query.flag("watch").unwrap_or(false);
                self.verb = if watch { "watch" } else { "list" }.into();
                let fields = query.text("fieldSelector").unwrap_or_default();
                let selector = FieldSelector::parse(fields).unwrap_or_default();
                let name = selector.required("metadata.name").unwrap_or_default();
                if !matches!(name, "." | "..") && !name.contains(['/', '%']) {
                    self.name = name.to_owned();
                }
            }
            _ => {}
        }
    }

    /// `pods` or `pods/status`.
    pub(crate) fn combined(&self) -> String {
        if self.sub.is_empty() { self.resource.clone() } else { format!("{}/{}", self.resource, self.sub) }
    }

    /// 403, in the words of the real server.
    pub(crate) fn forbidden(&self, user: &User, reason: &str) -> Status {
        let (who, verb) = (&user.name, &self.verb);
        let text = match &self.path {
            Some(path) => format!("User {who:?} cannot {verb} path {path:?}"),
            None => {
                let (resource, group) = (self.combined(), &self.group);
                let whereabouts = match self.namespace.as_str() {
                    "" => "at the cluster scope".to_owned(),
                    namespace => format!("in the namespace {namespace:?}"),
                };
                format!(
                    "User {who:?} cannot {verb} resource {resource:?} in API group {group:?} {whereabouts}"
                )
            }
        };
        let mut text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        if !reason.is_empty() {
            text.push_str(": ");
            text.push_str(reason);
        }
        Status::forbidden(&self.group, &self.resource, &self.name, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(method: Method, target: &str) -> Attributes {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        Attributes::of(&Request { method, path: path.into(), query: query.into(), ..Request::default() })
    }

    #[test]
    fn requests_are_read_as_the_real_server_reads_them() {
        let show = |method: Method, target: &str| {
            let a = of(method, target);
            let path = a.path.clone().unwrap_or_default();
            [a.verb.clone(), a.group.clone(), a.combined(), a.namespace, a.name, path].join(" ")
        };
        for (method, target, expected) in [
            (Method::GET, "/api/v1/namespaces/a/pods/p/log", "get  pods/log a p "),
            (Method::GET, "/api/v1/namespaces/a", "get  namespaces a a "),
            (Method::PUT, "/api/v1/namespaces/a/finalize", "update  namespaces/finalize a a "),
            (Method::GET, "/api/v1/namespaces", "list  namespaces   "),
            (Method::GET, "/apis/apps/v1/deployments?watch=1", "watch apps deployments   "),
            (Method::GET, "/api/v1/pods?watch=0", "list  pods   "),
            (Method::GET, "/api/v1/pods?fieldSelector=metadata.name%3Dx", "list  pods  x "),
            (Method::GET, "/api/v1/watch/namespaces/a/pods/p", "watch  pods a p "),
            (
                Method::DELETE,
                "/apis/apps/v1/namespaces/a/deployments",
                "deletecollection apps deployments a  ",
            ),
            (Method::POST, "/api/v1/namespaces/a/pods/p/eviction", "create  pods/eviction a p "),
            (Method::GET, "/apis/apps/v1", "get     /apis/apps/v1"),
            (Method::GET, "/metrics", "get     /metrics"),
            (Method::POST, "/", "post     /"),
            (Method::GET, "/apis/no.such/v1/foos", "list no.such foos   "),
        ] {
            assert_eq!(show(method, target), expected, "{target}");
        }
    }
}
