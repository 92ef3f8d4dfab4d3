//! Aggregated discovery: two documents that name every resource.

use std::collections::HashSet;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};
use serde::Deserialize;

use super::{Found, TIMEOUT, or_default};
use crate::{
    api::{ApiClient, ApiError},
    contract::{GroupResource, Scope},
    registry::{Discovered, GroupVersion},
};

const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// What one round yields.
pub(super) enum Answer {
    Found(Found),
    Unchanged,
    /// The server knows plain discovery only.
    NotSupported,
}

/// The documents as last read.
#[derive(Default)]
pub(super) struct Cached {
    /// Of `/api` and of `/apis`.
    documents: [Option<Document>; 2],
    /// Whether one of them is new since the last answer; kept here, since the
    /// other may fail in the same round.
    changed: bool,
}

struct Document {
    etag: String,
    groups: GroupList,
}

/// Asks for both documents, and for each only if it is another than last time.
pub(super) async fn discover(api: &ApiClient, cached: &mut Cached) -> Result<Answer, ApiError> {
    for (path, slot) in ["/api", "/apis"].into_iter().zip(&mut cached.documents) {
        match fetch(api, path, slot.as_ref()).await? {
            Fetched::Unchanged => {}
            Fetched::NotSupported => {
                *slot = None;
                return Ok(Answer::NotSupported);
            }
            Fetched::New(document) => {
                *slot = Some(document);
                cached.changed = true;
            }
        }
    }
    if !std::mem::take(&mut cached.changed) {
        return Ok(Answer::Unchanged);
    }
    let mut found = Found::default();
    for document in cached.documents.iter().flatten() {
        document.groups.collect(&mut found);
    }
    Ok(Answer::Found(found))
}

enum Fetched {
    New(Document),
    Unchanged,
    NotSupported,
}

async fn fetch(api: &ApiClient, path: &str, last: Option<&Document>) -> Result<Fetched, ApiError> {
    let mut headers = vec![(header::ACCEPT, ACCEPT)];
    if let Some(last) = last.filter(|last| !last.etag.is_empty()) {
        headers.push((header::IF_NONE_MATCH, &last.etag));
    }
    let response = match api.send(Method::GET, path, &headers, Bytes::new(), TIMEOUT).await {
        Err(error) if error.failure.status == 406 => return Ok(Fetched::NotSupported),
        result => result?,
    };
    if response.status == StatusCode::NOT_MODIFIED && last.is_some() {
        return Ok(Fetched::Unchanged);
    }
    if !is_aggregated(&response.headers) {
        return Ok(Fetched::NotSupported);
    }
    let groups = serde_json::from_slice(&response.body).map_err(|e| {
        ApiError::no_answer(format!("{path} was answered with an unreadable discovery document: {e}"))
    })?;
    let etag =
        response.headers.get(header::ETAG).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
    Ok(Fetched::New(Document { etag, groups }))
}

/// A server that does not know the document answers with the plain one, and
/// says so in the content type.
fn is_aggregated(headers: &HeaderMap) -> bool {
    headers
        .get(header::CONTENT_TYPE)
        .and_then(|v| v.to_str().ok())
        .is_some_and(|v| v.contains("APIGroupDiscoveryList"))
}

#[derive(Deserialize)]
struct GroupList {
    #[serde(default, deserialize_with = "or_default")]
    items: Vec<Group>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default, deserialize_with = "or_default")]
    metadata: GroupMeta,
    #[serde(default, deserialize_with = "or_default")]
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
struct GroupMeta {
    /// Empty or absent for the core group.
    #[serde(default, deserialize_with = "or_default")]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<Resource>,
    #[serde(default, deserialize_with = "or_default")]
    freshness: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    #[serde(default, deserialize_with = "or_default")]
    response_kind: Kind,
    #[serde(default, deserialize_with = "or_default")]
    scope: String,
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
}

#[derive(Default, Deserialize)]
struct Kind {
    #[serde(default, deserialize_with = "or_default")]
    kind: String,
}

impl GroupList {
    fn collect(&self, found: &mut Found) {
        for group in &self.items {
            // Versions come in the group's order of preference, and the first
            // that has a resource is the one that a wildcard reads.
            let mut seen = HashSet::new();
            for version in &group.versions {
                let name = &group.metadata.name;
                if version.freshness == "Stale" {
                    found
                        .unanswered
                        .push(GroupVersion { group: name.clone(), version: version.version.clone() });
                }
                for resource in &version.resources {
                    if resource.response_kind.kind.is_empty() {
                        continue;
                    }
                    found.resources.push(Discovered {
                        name: GroupResource {
                            group: name.clone(),
                            version: version.version.clone(),
                            resource: resource.resource.clone(),
                        },
                        kind: resource.response_kind.kind.clone(),
                        scope: if resource.scope == "Namespaced" {
                            Scope::Namespaced
                        } else {
                            Scope::Cluster
                        },
                        verbs: resource.verbs.clone(),
                        preferred: seen.insert(resource.resource.as_str()),
                    });
                }
            }
        }
    }
}
