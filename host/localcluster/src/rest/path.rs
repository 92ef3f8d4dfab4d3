//! From a URL path to what it names.
//!
//! In: the path as sent. Out: a route. Invariant: segments are decoded once, after splitting off nothing: an encoded
//! slash separates as a plain one does, because the real server sees decoded paths only.

use percent_encoding::percent_decode_str;

/// What a path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Route {
    /// `/api`.
    Core,
    /// `/apis`.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    Version {
        /// Empty for core.
        group: String,
        /// Version.
        version: String,
    },
    /// Below a version.
    Resource(ResourcePath),
    /// Anything else, split.
    Other(Vec<String>),
}

/// A resource, an object or a subresource.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourcePath {
    /// Empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Old form of a watch: `/watch/` behind the version.
    pub watch: bool,
    /// Set for `/namespaces/NAMESPACE/…`.
    pub namespace: Option<String>,
    /// Plural name.
    pub plural: String,
    /// Name of an object.
    pub name: Option<String>,
    /// Subresource.
    pub sub: Option<String>,
    /// Whatever follows.
    pub rest: Vec<String>,
}

/// None if the percent-encoding is broken.
pub fn route(raw: &str) -> Option<Route> {
    if broken_encoding(raw) {
        return None;
    }
    let path = percent_decode_str(raw).decode_utf8().ok()?;
    let trimmed = path.strip_prefix('/').unwrap_or(&path);
    let trimmed = trimmed.strip_suffix('/').unwrap_or(trimmed);
    let segments: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
    let (group, rest) = match segments.as_slice() {
        ["api"] => return Some(Route::Core),
        ["apis"] => return Some(Route::Groups),
        ["apis", group] => return Some(Route::Group((*group).into())),
        ["api", rest @ ..] => ("", rest),
        ["apis", group, rest @ ..] => (*group, rest),
        other => return Some(Route::Other(other.iter().map(|s| (*s).into()).collect())),
    };
    let [version, rest @ ..] = rest else { return None };
    let mut found =
        ResourcePath { group: group.into(), version: (*version).into(), ..ResourcePath::default() };
    let mut rest = rest;
    if let ["watch", tail @ ..] = rest {
        found.watch = true;
        rest = tail;
    }
    match rest {
        [] if !found.watch => {
            return Some(Route::Version { group: found.group, version: found.version });
        }
        ["namespaces", namespace, sub @ ("status" | "finalize")] if group.is_empty() => {
            found.plural = "namespaces".into();
            found.name = Some((*namespace).into());
            found.sub = Some((*sub).into());
            return Some(Route::Resource(found));
        }
        ["namespaces", namespace, tail @ ..] if !tail.is_empty() => {
            found.namespace = Some((*namespace).into());
            rest = tail;
        }
        _ => {}
    }
    let mut tail = rest.iter().map(|s| (*s).to_owned());
    found.plural = tail.next().unwrap_or_default();
    found.name = tail.next();
    found.sub = tail.next();
    found.rest = tail.collect();
    Some(Route::Resource(found))
}

fn broken_encoding(raw: &str) -> bool {
    let bytes = raw.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| {
        let hex = |offset| bytes.get(at + offset).is_some_and(u8::is_ascii_hexdigit);
        *byte == b'%' && !(hex(1) && hex(2))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resource(path: &str) -> ResourcePath {
        match route(path) {
            Some(Route::Resource(found)) => found,
            other => panic!("{path}: {other:?}"),
        }
    }

    #[test]
    fn paths_name_what_the_real_server_reads_in_them() {
        let pod = resource("/api/v1/namespaces/a/pods/p/status");
        assert_eq!((pod.namespace.as_deref(), pod.plural.as_str()), (Some("a"), "pods"));
        assert_eq!((pod.name.as_deref(), pod.sub.as_deref()), (Some("p"), Some("status")));
        let ns = resource("/api/v1/namespaces/a/finalize");
        assert_eq!((ns.plural.as_str(), ns.sub.as_deref()), ("namespaces", Some("finalize")));
        let ns = resource("/api/v1/namespaces/a");
        assert_eq!((ns.plural.as_str(), ns.name.as_deref()), ("namespaces", Some("a")));
        let watch = resource("/apis/apps/v1/watch/namespaces/a/deployments/d");
        assert!(watch.watch);
        assert_eq!(watch.name.as_deref(), Some("d"));
        assert_eq!(resource("/api/v1/nodes/").plural, "nodes");
        assert_eq!(resource("/api/v1/nodes/a%2Fb").sub.as_deref(), Some("b"));
    }

    #[test]
    fn other_paths_are_told_apart() {
        assert_eq!(route("/apis"), Some(Route::Groups));
        assert_eq!(route("/apis/apps/"), Some(Route::Group("apps".into())));
        assert_eq!(route("/api/v1"), Some(Route::Version { group: String::new(), version: "v1".into() }));
        assert_eq!(route("/"), Some(Route::Other(Vec::new())));
        assert_eq!(route("/api/v1/pods/%zz"), None);
        assert_eq!(route("/api/v1/pods/%"), None);
    }
}
