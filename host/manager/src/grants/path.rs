//! What a path of the API asks for.
//!
//! The API server decides by the form of a path whether it is about a resource
//! (and which), or about none; grants must read it in the same way, or a raw
//! path would be a way around them. Rules: `RequestInfoFactory` of
//! k8s.io/apiserver.

use crate::contract::GroupResource;

/// A request for a resource.
#[derive(Clone, Debug, PartialEq)]
pub struct ResourceRequest {
    /// The resource.
    pub resource: GroupResource,
    /// Subresource; empty for the object itself. Whatever follows it belongs to
    /// it and is not told apart.
    pub subresource: String,
    /// Namespace; none if the request is for the cluster or all namespaces.
    pub namespace: Option<String>,
    /// Name; none for a collection.
    pub name: Option<String>,
    /// `get`, `list` or `watch`.
    pub verb: &'static str,
}

/// Reads a path of a GET, query included. None: it is about no resource.
pub fn request_of_path(path: &str) -> Option<ResourceRequest> {
    let (route, query) = path.split_once('?').unwrap_or((path, ""));
    let mut parts = route.split('/').filter(|part| !part.is_empty());
    let group = match parts.next()? {
        "api" => "",
        "apis" => parts.next()?,
        _ => return None,
    };
    let version = parts.next()?.to_owned();
    let mut parts = parts.peekable();
    // The oldest form of a watch: /api/v1/watch/…, and of a proxy.
    let legacy = parts.next_if(|part| matches!(*part, "watch" | "proxy"));
    let mut namespace = None;
    let mut rest: Vec<&str> = parts.collect();
    if rest.first() == Some(&"namespaces") && rest.len() > 1 {
        namespace = Some(rest[1].to_owned());
        // What follows a namespace is in it, but for its own subresources.
        if rest.len() > 2 && !matches!(rest[2], "status" | "finalize") {
            rest.drain(..2);
        }
    }
    let resource = (*rest.first()?).to_owned();
    let name = rest.get(1).map(|name| (*name).to_owned());
    let watches = legacy == Some("watch")
        || query.split('&').any(|pair| matches!(pair, "watch" | "watch=true" | "watch=1" | "watch=True"));
    let verb = match (&name, watches) {
        (_, true) => "watch",
        (Some(_), false) => "get",
        (None, false) => "list",
    };
    Some(ResourceRequest {
        resource: GroupResource { group: group.to_owned(), version, resource },
        subresource: rest.get(2).map(|sub| (*sub).to_owned()).unwrap_or_default(),
        namespace,
        name,
        verb,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_read_as_the_api_server_reads_them() {
        let table = [
            ("/api/v1/nodes", Some("list nodes ")),
            ("/api/v1/nodes/a", Some("get nodes a")),
            ("/api/v1/nodes/a/status", Some("get nodes/status a")),
            ("/api/v1/namespaces", Some("list namespaces ")),
            ("/api/v1/namespaces/n", Some("get namespaces n/n")),
            ("/api/v1/namespaces/n/status", Some("get namespaces/status n/n")),
            ("/api/v1/namespaces/n/pods?limit=1", Some("list pods n/")),
            ("/api/v1/namespaces/n/pods?watch=true", Some("watch pods n/")),
            ("/api/v1/watch/namespaces/n/pods", Some("watch pods n/")),
            ("/apis/apps/v1/namespaces/n/deployments/web/scale", Some("get deployments.apps/scale n/web")),
            ("/apis/m.example/v1/namespaces/n/pods/*/per-second", Some("get pods.m.example/per-second n/*")),
            ("/api", None),
            ("/api/v1", None),
            ("/apis/apps/v1/", None),
            ("/healthz", None),
            ("/openapi/v3", None),
        ];
        for (path, expected) in table {
            let got = request_of_path(path).map(|request| {
                let slash = if request.subresource.is_empty() { "" } else { "/" };
                let dot = if request.resource.group.is_empty() { "" } else { "." };
                let namespace = request.namespace.map(|n| format!("{n}/")).unwrap_or_default();
                format!(
                    "{} {}{dot}{}{slash}{} {namespace}{}",
                    request.verb,
                    request.resource.resource,
                    request.resource.group,
                    request.subresource,
                    request.name.unwrap_or_default()
                )
            });
            assert_eq!(got.as_deref(), expected, "{path}");
        }
    }
}
