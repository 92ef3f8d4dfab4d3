//! How many pods the owners of some pods want.

use std::collections::{BTreeMap, BTreeSet};

use coxswain_sdk::contract::{Failure, ResourceInfo};
use coxswain_sdk::{Ask, Ctx, FromJson, Object, OwnerReference, Result, View, from_json};

use crate::view::{Deployment, Pod, ReplicaSet, ReplicationController, Scaled, StatefulSet};

/// What the owners want.
#[derive(Debug, Default, PartialEq)]
pub struct Wanted {
    /// Pods in all.
    pub pods: i32,
    /// Names of pods that nobody owns; they are not counted.
    pub unmanaged: Vec<String>,
}

/// Why nobody can tell.
#[derive(Debug, PartialEq)]
pub struct Unknown {
    /// The reason.
    pub why: String,
    /// Whether asking again may help without anything that the cache shows.
    pub passing: bool,
}

/// Adds up what the owners of these pods want, each owner once.
pub fn wanted(ctx: &Ctx<'_>, pods: &[Object<Pod>]) -> Result<Result<Wanted, Unknown>> {
    let mut wanted = Wanted::default();
    // By uid of the pod's owner, which may belong to another in turn.
    let mut counted: BTreeMap<String, i32> = BTreeMap::new();
    let mut others: Vec<(&OwnerReference, &Pod)> = Vec::new();
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    for pod in pods {
        let Some(owner) = pod.metadata.controller() else {
            wanted.unmanaged.push(pod.metadata.name.clone());
            continue;
        };
        if !seen.insert(&owner.uid) {
            continue;
        }
        match cached(ctx, owner, &pod.metadata.namespace)? {
            Some((uid, replicas)) => drop(counted.insert(uid, replicas)),
            None => others.push((owner, pod)),
        }
    }
    match scales(ctx, &others)? {
        Ok(scales) => counted.extend(scales),
        Err(unknown) => return Ok(Err(unknown)),
    }
    wanted.pods = counted.values().fold(0, |sum: i32, replicas| sum.saturating_add(*replicas));
    Ok(Ok(wanted))
}

/// An owner that the cache has: whose size counts, and that size.
fn cached(ctx: &Ctx<'_>, owner: &OwnerReference, namespace: &str) -> Result<Option<(String, i32)>> {
    let group = owner.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    match (group, owner.kind.as_str()) {
        ("", "ReplicationController") => size_of(find::<ReplicationController>(ctx, owner, namespace)?),
        ("apps", "StatefulSet") => size_of(find::<StatefulSet>(ctx, owner, namespace)?),
        ("apps" | "extensions", "ReplicaSet") => {
            let Some(set) = find::<ReplicaSet>(ctx, owner, namespace)? else { return Ok(None) };
            let above =
                set.as_ref().as_ref().metadata.controller().filter(|above| above.kind == "Deployment");
            let deployment = match above {
                Some(above) => find::<Deployment>(ctx, above, namespace)?,
                None => None,
            };
            // A Deployment that is gone leaves the set's own size.
            if deployment.is_some() { size_of(deployment) } else { size_of(Some(set)) }
        }
        _ => Ok(None),
    }
}

fn size_of<V: AsRef<Scaled>>(found: Option<Object<V>>) -> Result<Option<(String, i32)>> {
    Ok(found.map(|object| {
        let scaled = object.as_ref().as_ref();
        (scaled.metadata.uid.clone(), scaled.replicas())
    }))
}

fn find<V: View + AsRef<Scaled>>(
    ctx: &Ctx<'_>,
    owner: &OwnerReference,
    namespace: &str,
) -> Result<Option<Object<V>>> {
    let found = ctx.get::<V>(namespace, &owner.name)?;
    Ok(found.filter(|object| object.as_ref().as_ref().metadata.uid == owner.uid))
}

/// A scale subresource.
#[derive(FromJson)]
struct Scale {
    #[serde(default)]
    metadata: ScaleMeta,
    #[serde(default)]
    spec: ScaleSpec,
}

#[derive(Default, FromJson)]
#[serde(default)]
struct ScaleMeta {
    uid: String,
}

#[derive(Default, FromJson)]
#[serde(default)]
struct ScaleSpec {
    replicas: i32,
}

/// The sizes of owners that only the API server knows, by uid.
fn scales(ctx: &Ctx<'_>, owners: &[(&OwnerReference, &Pod)]) -> Result<Result<Vec<(String, i32)>, Unknown>> {
    if owners.is_empty() {
        return Ok(Ok(Vec::new()));
    }
    let known = ctx.resources();
    let mut asked = Vec::with_capacity(owners.len());
    for (owner, pod) in owners {
        match resource_of(&known, owner) {
            Ok(resource) => asked.push((*owner, *pod, resource)),
            Err(why) => return Ok(Err(Unknown { why, passing: false })),
        }
    }
    let asks = asked.iter().map(|(owner, pod, resource)| Ask::Get {
        resource: resource.number.into(),
        namespace: pod.metadata.namespace.clone(),
        name: owner.name.clone(),
        subresource: "scale".to_owned(),
        metadata_only: false,
        uid: String::new(),
    });
    let answers = ctx.look_up_all(asks.collect::<Vec<_>>())?;
    let mut scales = Vec::with_capacity(asked.len());
    for ((owner, pod, resource), answer) in asked.into_iter().zip(answers) {
        let nobody = || Unknown {
            why: format!("found no controllers for pod {:?}", pod.metadata.name),
            passing: false,
        };
        let unknown = match answer.map(|text| from_json::<Scale>(&text)) {
            Ok(Ok(scale)) if scale.metadata.uid == owner.uid => {
                scales.push((scale.metadata.uid, scale.spec.replicas));
                continue;
            }
            Ok(Ok(_)) => nobody(),
            Ok(Err(why)) => {
                Unknown { why: format!("cannot read the scale of {}: {why}", owner.name), passing: true }
            }
            Err(failure) if failure.status == 404 => match has_scale(ctx, resource)? {
                Ok(true) => nobody(),
                Ok(false) => Unknown {
                    why: format!("{} does not implement the scale subresource", group_resource(resource)),
                    passing: false,
                },
                Err(failure) => Unknown { why: failure.message, passing: true },
            },
            Err(failure) => Unknown { why: failure.message, passing: true },
        };
        return Ok(Err(unknown));
    }
    Ok(Ok(scales))
}

/// The resource of an owner's kind: of its version, or else of its group.
fn resource_of<'a>(known: &'a [ResourceInfo], owner: &OwnerReference) -> Result<&'a ResourceInfo, String> {
    let OwnerReference { api_version, kind, .. } = owner;
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    if version.contains('/') {
        return Err(format!("unexpected GroupVersion string: {api_version}"));
    }
    let of_group = || known.iter().filter(|info| info.group == group && info.kind == *kind);
    of_group()
        .find(|info| info.version == version)
        .or_else(|| of_group().next())
        .ok_or_else(|| format!("no matches for kind {kind:?} in version {api_version:?}"))
}

/// `pods`, or `crews.example.com`.
fn group_resource(info: &ResourceInfo) -> String {
    let dot = if info.group.is_empty() { "" } else { "." };
    format!("{}{dot}{}", info.resource, info.group)
}

#[derive(FromJson)]
struct ResourceList {
    #[serde(default)]
    resources: Vec<Served>,
}

#[derive(Default, FromJson)]
#[serde(default)]
struct Served {
    name: String,
    kind: String,
}

/// Whether a resource has a scale subresource at all.
fn has_scale(ctx: &Ctx<'_>, info: &ResourceInfo) -> Result<Result<bool, Failure>> {
    let path = if info.group.is_empty() {
        format!("/api/{}", info.version)
    } else {
        format!("/apis/{}/{}", info.group, info.version)
    };
    let name = format!("{}/scale", info.resource);
    Ok(ctx.look_up(Ask::Raw(path))?.map(|text| {
        from_json::<ResourceList>(&text).is_ok_and(|list| {
            list.resources.iter().any(|served| served.name == name && served.kind == "Scale")
        })
    }))
}

#[cfg(test)]
mod tests {
    use coxswain_sdk::contract::{Scope, SyncState};

    use super::*;

    #[test]
    fn the_resource_of_an_owner_is_that_of_its_version_or_group() {
        let info = |number, group: &str, version: &str, resource: &str, kind: &str| ResourceInfo {
            number,
            group: group.to_owned(),
            version: version.to_owned(),
            resource: resource.to_owned(),
            kind: kind.to_owned(),
            scope: Scope::Namespaced,
            verbs: Vec::new(),
            state: SyncState::Uncached,
        };
        let known = [
            info(1, "", "v1", "configmaps", "ConfigMap"),
            info(2, "example.com", "v2", "crews", "Crew"),
            info(3, "example.com", "v1", "crews", "Crew"),
        ];
        for (api_version, kind, expected) in [
            ("v1", "ConfigMap", Ok("configmaps")),
            ("example.com/v1", "Crew", Ok("crews.example.com")),
            ("example.com/v3", "Crew", Ok("crews.example.com")),
            ("example.org/v1", "Crew", Err(r#"no matches for kind "Crew" in version "example.org/v1""#)),
            ("a/b/c", "Crew", Err("unexpected GroupVersion string: a/b/c")),
            ("", "Crew", Err(r#"no matches for kind "Crew" in version """#)),
        ] {
            let owner = OwnerReference {
                api_version: api_version.to_owned(),
                kind: kind.to_owned(),
                ..OwnerReference::default()
            };
            let found = resource_of(&known, &owner).map(group_resource);
            assert_eq!(found, expected.map(str::to_owned).map_err(str::to_owned), "{api_version} {kind}");
        }
        let v1 = OwnerReference {
            api_version: "example.com/v1".to_owned(),
            kind: "Crew".to_owned(),
            ..OwnerReference::default()
        };
        assert_eq!(resource_of(&known, &v1).map(|info| info.number), Ok(3));
    }
}
