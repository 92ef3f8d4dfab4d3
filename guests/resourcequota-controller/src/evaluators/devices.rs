//! ResourceClaims: their number, and the devices they ask for by class.
//!
//! A claim that was made for the extended resources of a pod counts only for
//! what the pod is not charged for itself.

use coxswain_sdk::quantity::{Family, Quantity};
use coxswain_sdk::{FromJson, Object, ObjectMeta, OwnerReference, Resource, Time, View};
use serde_json::Value;

use super::pod_view::Pod;
use super::{DEVICE_CLASS, REQUESTS, is_extended_request, pods};
use crate::list::{self, List};

/// ResourceClaims.
pub const RESOURCE_CLAIMS: Resource =
    Resource::new("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim");
/// DeviceClasses.
pub const DEVICE_CLASSES: Resource = Resource::new("resource.k8s.io", "v1", "deviceclasses", "DeviceClass");

const OBJECTS: &str = "count/resourceclaims.resource.k8s.io";
const OF_CLASS: &str = ".deviceclass.resource.k8s.io/devices";
/// Devices that a request for all of them is charged for.
const ALL_DEVICES: i64 = 32;

/// A claim of devices.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct DeviceClaim {
    metadata: Metadata,
    spec: Spec,
}

impl View for DeviceClaim {
    const RESOURCE: Resource = RESOURCE_CLAIMS;
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    creation_timestamp: Option<Time>,
    owner_references: Vec<OwnerReference>,
    annotations: Annotations,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "resource.kubernetes.io/extended-resource-claim")]
    extended: Option<String>,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Spec {
    devices: Devices,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Devices {
    /// Few and small, so kept whole.
    requests: Vec<Value>,
}

/// Class of devices that is asked for, and their number in the worst case. A
/// mode of the future counts for none.
fn asked(request: &Value) -> (&str, i64) {
    let number = match request["allocationMode"].as_str() {
        Some("ExactCount") => request["count"].as_i64().unwrap_or(0).max(0),
        Some("All") => ALL_DEVICES,
        _ => 0,
    };
    (request["deviceClassName"].as_str().unwrap_or_default(), number)
}

/// A class of devices.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct DeviceClass {
    metadata: ObjectMeta,
    spec: ClassSpec,
}

impl View for DeviceClass {
    const RESOURCE: Resource = DEVICE_CLASSES;
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct ClassSpec {
    extended_resource_name: Option<String>,
}

/// Whether a name of a quota is counted from claims whatever classes there are.
pub fn counts(name: &str) -> bool {
    name == OBJECTS || name.ends_with(OF_CLASS)
}

/// Whether a name of a quota may be counted from claims, if a class says so.
pub fn may_count(name: &str) -> bool {
    is_extended_request(name)
}

/// Whether a name of a quota is that of a resource which some class stands for.
pub fn counts_by_class(name: &str, classes: &[Object<DeviceClass>]) -> bool {
    let Some(resource) = name.strip_prefix(REQUESTS).filter(|_| is_extended_request(name)) else {
        return false;
    };
    classes.iter().any(|class| {
        class.spec.extended_resource_name.as_deref() == Some(resource)
            || resource.strip_prefix(DEVICE_CLASS) == Some(&class.metadata.name)
    })
}

/// What the claims of a namespace use.
pub fn usage(
    claims: &[Object<DeviceClaim>],
    classes: &[Object<DeviceClass>],
    pods: &[Object<Pod>],
    now: Time,
) -> List {
    let extended = |name: &str| {
        let class = classes.iter().find(|class| class.metadata.name == name)?;
        class.spec.extended_resource_name.as_deref()
    };
    let mut used = List::default();
    used.set(OBJECTS, list::count(claims.len()));
    for claim in claims {
        let pod = charged_pod(claim, claims, pods);
        let charged = pod.map(|pod| pods::usage([pod], 1, now)).unwrap_or_default();
        let mut by_resource = List::default();
        for (class, number) in devices(claim).iter() {
            used.add(&[class, OF_CLASS].concat(), number);
            if class.is_empty() {
                continue;
            }
            by_resource.set(&[REQUESTS, DEVICE_CLASS, class].concat(), number);
            if let Some(resource) = extended(class) {
                by_resource.set(&[REQUESTS, resource].concat(), number);
            }
        }
        for (name, number) in by_resource.iter() {
            let rest = number - charged.get(name).unwrap_or_default();
            if rest > Quantity::ZERO {
                used.add(name, rest);
            }
        }
    }
    used
}

/// Devices by class that a claim asks for.
fn devices(claim: &DeviceClaim) -> List {
    let mut sum = List::default();
    for request in &claim.spec.devices.requests {
        let alternatives = request["firstAvailable"].as_array().filter(|list| !list.is_empty());
        let exactly =
            Some(&request["exactly"]).filter(|exactly| exactly.is_object() && alternatives.is_none());
        let mut most = List::default();
        for one in alternatives.into_iter().flatten().chain(exactly) {
            let (class, number) = asked(one);
            let mut single = List::default();
            single.set(class, Quantity::new(number, Family::Decimal));
            most.raise(&single);
        }
        sum.add_all(&most);
    }
    sum
}

/// The pod that a claim was made for, if it is the pod's only or first one.
fn charged_pod<'a>(
    claim: &DeviceClaim,
    claims: &[Object<DeviceClaim>],
    pods: &'a [Object<Pod>],
) -> Option<&'a Pod> {
    let uid = pod_of(claim)?;
    let pod = pods.iter().find(|pod| pod.uid == uid)?;
    let is_it = match &pod.extended_claim {
        Some(name) => *name == claim.metadata.name,
        None => claims.iter().filter(|other| pod_of(other) == Some(uid)).all(|other| {
            let age = |claim: &DeviceClaim| (claim.metadata.creation_timestamp, claim.metadata.name.clone());
            age(other) >= age(claim)
        }),
    };
    is_it.then_some(pod.as_ref())
}

/// Uid of the pod for whose extended resources a claim was made.
fn pod_of(claim: &DeviceClaim) -> Option<&str> {
    if claim.metadata.annotations.extended.as_deref() != Some("true") {
        return None;
    }
    let owner = claim.metadata.owner_references.iter().find(|owner| owner.is_controller())?;
    (owner.kind == "Pod" && owner.api_version == "v1").then_some(&*owner.uid)
}
