//! ResourceClaims: their number, and the devices they ask for by class.
//!
//! A claim that was made for the extended resources of a pod counts only for
//! what the pod is not charged for itself.

use std::collections::BTreeMap;

use coxswain_sdk::meta::null_is_default;
use coxswain_sdk::quantity::{Family, Quantity};
use coxswain_sdk::{Object, ObjectMeta, Resource, Time, View};
use serde::Deserialize;

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
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceClaim {
    metadata: ObjectMeta<Annotations>,
    spec: Spec,
}

impl View for DeviceClaim {
    const RESOURCE: Resource = RESOURCE_CLAIMS;
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "resource.kubernetes.io/extended-resource-claim")]
    extended: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    #[serde(deserialize_with = "null_is_default")]
    devices: Devices,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Devices {
    #[serde(deserialize_with = "null_is_default")]
    requests: Vec<Request>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Request {
    exactly: Option<Exactly>,
    #[serde(deserialize_with = "null_is_default")]
    first_available: Vec<Exactly>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Exactly {
    device_class_name: String,
    allocation_mode: String,
    count: i64,
}

impl Exactly {
    /// Devices in the worst case. A mode of the future counts for none.
    fn devices(&self) -> i64 {
        match self.allocation_mode.as_str() {
            "ExactCount" => self.count.max(0),
            "All" => ALL_DEVICES,
            _ => 0,
        }
    }
}

/// A class of devices.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct DeviceClass {
    metadata: ObjectMeta,
    spec: ClassSpec,
}

impl View for DeviceClass {
    const RESOURCE: Resource = DEVICE_CLASSES;
}

#[derive(Debug, Default, Deserialize)]
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
    pods: &BTreeMap<&str, &Pod>,
    now: Time,
) -> List {
    let extended: BTreeMap<&str, &str> = classes
        .iter()
        .filter_map(|class| Some((&*class.metadata.name, class.spec.extended_resource_name.as_deref()?)))
        .collect();
    let mut used = List::from([(OBJECTS.to_owned(), list::count(claims.len()))]);
    for claim in claims {
        let devices = devices(claim);
        let pod = charged_pod(claim, claims, pods);
        let charged = pod.map(|pod| pods::usage([pod], 1, now)).unwrap_or_default();
        let mut by_resource = List::new();
        for (class, number) in &devices {
            let number = Quantity::new(*number, Family::Decimal);
            list::add_one(&mut used, &format!("{class}{OF_CLASS}"), number);
            if class.is_empty() {
                continue;
            }
            by_resource.insert(format!("{REQUESTS}{DEVICE_CLASS}{class}"), number);
            if let Some(resource) = extended.get(class) {
                by_resource.insert(format!("{REQUESTS}{resource}"), number);
            }
        }
        for (name, number) in by_resource {
            let rest = number - charged.get(&name).copied().unwrap_or_default();
            if rest > Quantity::ZERO {
                list::add_one(&mut used, &name, rest);
            }
        }
    }
    used
}

/// Devices by class that a claim asks for.
fn devices(claim: &DeviceClaim) -> BTreeMap<&str, i64> {
    let mut sum: BTreeMap<&str, i64> = BTreeMap::new();
    for request in &claim.spec.devices.requests {
        let mut most: BTreeMap<&str, i64> = BTreeMap::new();
        let alternatives = request.first_available.iter();
        let exactly = request.exactly.iter().filter(|_| request.first_available.is_empty());
        for one in alternatives.chain(exactly) {
            let highest = most.entry(&one.device_class_name).or_default();
            *highest = (*highest).max(one.devices());
        }
        for (class, number) in most {
            let total = sum.entry(class).or_default();
            *total = total.saturating_add(number);
        }
    }
    sum
}

/// The pod that a claim was made for, if it is the pod's only or first one.
fn charged_pod<'a>(
    claim: &Object<DeviceClaim>,
    claims: &[Object<DeviceClaim>],
    pods: &BTreeMap<&str, &'a Pod>,
) -> Option<&'a Pod> {
    let uid = pod_of(claim)?;
    let pod = *pods.get(uid)?;
    let is_it = match &pod.extended_claim {
        Some(name) => *name == claim.metadata.name,
        None => claims.iter().filter(|other| pod_of(other) == Some(uid)).all(|other| {
            let age = |claim: &DeviceClaim| (claim.metadata.creation_timestamp, claim.metadata.name.clone());
            age(other) >= age(claim)
        }),
    };
    is_it.then_some(pod)
}

/// Uid of the pod for whose extended resources a claim was made.
fn pod_of(claim: &DeviceClaim) -> Option<&str> {
    let owner =
        claim.metadata.controller().filter(|owner| owner.kind == "Pod" && owner.api_version == "v1")?;
    (claim.metadata.annotations.extended.as_deref() == Some("true")).then_some(&*owner.uid)
}
