//! Plain discovery: one document for each group version.

use std::collections::HashSet;

use futures::{StreamExt, stream};
use serde::{Deserialize, de::DeserializeOwned};

use super::{Found, TIMEOUT, or_default};
use crate::{
    api::{ApiClient, ApiError},
    contract::{GroupResource, Scope},
    registry::{Discovered, GroupVersion},
};

const AT_ONCE: usize = 8;

/// Asks for the groups, then for each of their versions. What does not answer
/// is reported; what is not found has no resources.
pub(super) async fn discover(api: &ApiClient) -> Result<Found, ApiError> {
    let core: Versions = get(api, "/api").await?;
    let groups: Groups = get(api, "/apis").await?;
    // In order of preference within each group.
    let mut versions: Vec<GroupVersion> =
        core.versions.into_iter().map(|version| GroupVersion { group: String::new(), version }).collect();
    for mut group in groups.groups {
        // Stable, so that the others keep the server's order.
        group.versions.sort_by_key(|v| v.version != group.preferred_version.version);
        versions.extend(
            group
                .versions
                .into_iter()
                .map(|v| GroupVersion { group: group.name.clone(), version: v.version }),
        );
    }

    let answers: Vec<_> = stream::iter(versions)
        .map(|version| async move {
            let base = if version.group.is_empty() { "/api" } else { "/apis" };
            let answer = get::<Resources>(api, &format!("{base}/{version}")).await;
            (version, answer)
        })
        .buffered(AT_ONCE)
        .collect()
        .await;

    let mut found = Found::default();
    let mut seen = HashSet::new();
    for (version, answer) in answers {
        match answer {
            Ok(resources) => found.resources.extend(resources.read(&version, &mut seen)),
            Err(error) if error.failure.status == 404 => {}
            Err(_) => found.unanswered.push(version),
        }
    }
    Ok(found)
}

async fn get<T: DeserializeOwned>(api: &ApiClient, path: &str) -> Result<T, ApiError> {
    let response = api.get(path, TIMEOUT).await?;
    serde_json::from_slice(&response.body).map_err(|e| {
        ApiError::no_answer(format!("{path} was answered with an unreadable discovery document: {e}"))
    })
}

#[derive(Deserialize)]
struct Versions {
    #[serde(default, deserialize_with = "or_default")]
    versions: Vec<String>,
}

#[derive(Deserialize)]
struct Groups {
    #[serde(default, deserialize_with = "or_default")]
    groups: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Group {
    name: String,
    #[serde(default, deserialize_with = "or_default")]
    versions: Vec<Version>,
    #[serde(default, deserialize_with = "or_default")]
    preferred_version: Version,
}

#[derive(Default, Deserialize)]
struct Version {
    #[serde(default, deserialize_with = "or_default")]
    version: String,
}

#[derive(Deserialize)]
struct Resources {
    #[serde(default, deserialize_with = "or_default")]
    resources: Vec<Resource>,
}

#[derive(Deserialize)]
struct Resource {
    name: String,
    kind: String,
    namespaced: bool,
    #[serde(default, deserialize_with = "or_default")]
    verbs: Vec<String>,
}

impl Resources {
    /// Without subresources, whose names have a slash.
    fn read(self, version: &GroupVersion, seen: &mut HashSet<(String, String)>) -> Vec<Discovered> {
        self.resources
            .into_iter()
            .filter(|resource| !resource.name.contains('/'))
            .map(|resource| Discovered {
                preferred: seen.insert((version.group.clone(), resource.name.clone())),
                name: GroupResource {
                    group: version.group.clone(),
                    version: version.version.clone(),
                    resource: resource.name,
                },
                kind: resource.kind,
                scope: if resource.namespaced { Scope::Namespaced } else { Scope::Cluster },
                verbs: resource.verbs,
            })
            .collect()
    }
}
