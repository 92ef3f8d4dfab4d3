//! What an autoscaler scales.
//!
//! In: a reference of any kind. Out: the resource that has the kind, and its
//! scale as it is now.

use coxswain_sdk::Ask;
use coxswain_sdk::contract::ResourceInfo;
use coxswain_sdk::selector::Selector;
use coxswain_sdk::sort::sort_by_key;
use coxswain_sdk::{Ctx, FromJson, Result, from_json};

use crate::view::TargetRef;

/// The scale of a target.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Scale {
    /// What is wanted.
    pub spec: Wanted,
    /// What is there.
    pub status: There,
}

impl Scale {
    /// How many replicas are wanted, and how many are there.
    pub fn sizes(&self) -> (i32, i32) {
        (self.spec.replicas, self.status.replicas)
    }
}

/// What is wanted.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Wanted {
    /// Replicas.
    pub replicas: i32,
}

/// What is there.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct There {
    /// Replicas.
    pub replicas: i32,
    /// Selector of the pods, as text.
    pub selector: String,
}

/// Group and version of an `apiVersion`.
fn group_of(api_version: &str) -> Result<&str, String> {
    match api_version.split('/').collect::<Vec<_>>().as_slice() {
        [_] => Ok(""),
        [group, _] => Ok(group),
        _ => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

/// Whether a reference has a version of the form that versions have, or how not.
pub fn is_version(target: &TargetRef) -> Result<(), String> {
    group_of(&target.api_version).map(drop)
}

/// The resources of a kind, in whatever version, the one of the reference first.
fn resources_of<'a>(known: &'a [ResourceInfo], target: &TargetRef) -> Result<Vec<&'a ResourceInfo>, String> {
    let group = group_of(&target.api_version)?;
    let version = target.api_version.rsplit('/').next().unwrap_or_default();
    let fits = |info: &&ResourceInfo| info.group == group && info.kind == target.kind;
    let mut found: Vec<_> = known.iter().filter(fits).collect();
    if found.is_empty() {
        return Err(format!("no matches for kind {:?} in group {group:?}", target.kind));
    }
    sort_by_key(&mut found, |info| info.version != version);
    Ok(found)
}

/// The scale of a target and the number of its resource, or why there is none.
pub fn scale(ctx: &Ctx<'_>, namespace: &str, target: &TargetRef) -> Result<Result<(u32, Scale), String>> {
    let known = ctx.resources();
    let resources = match resources_of(&known, target) {
        Ok(resources) => resources,
        Err(why) => return Ok(Err(why)),
    };
    let mut first = None;
    for info in resources {
        let ask = Ask::Get {
            resource: info.number.into(),
            namespace: namespace.to_owned(),
            name: target.name.clone(),
            subresource: "scale".to_owned(),
            metadata_only: false,
            uid: String::new(),
        };
        let why = match ctx.look_up(ask)? {
            Ok(text) => match read_scale(&text) {
                Ok(scale) => return Ok(Ok((info.number, scale))),
                Err(error) => error,
            },
            Err(failure) => failure.message,
        };
        first.get_or_insert(why);
    }
    Ok(Err(first.unwrap_or_else(|| "unrecognized resource".to_owned())))
}

/// A scale whose selector is one, if it has any.
fn read_scale(text: &str) -> Result<Scale, String> {
    let scale: Scale = from_json(text)?;
    if let Err(error) = scale.status.selector.parse::<Selector>() {
        return Err(format!(
            "received an object from a /scale endpoint which was not convertible to autoscaling Scale: \
             failed to parse target selector: {error}"
        ));
    }
    Ok(scale)
}

/// A kind's resource as the custom metrics API names it: `services`, `ingresses.networking.k8s.io`.
pub fn metric_resource(ctx: &Ctx<'_>, object: &TargetRef) -> Result<String, String> {
    let known = ctx.resources();
    let found = resources_of(&known, object)?;
    let info = found.first().ok_or("unrecognized resource")?;
    let dot = if info.group.is_empty() { "" } else { "." };
    Ok([&info.resource, dot, &info.group].concat())
}
