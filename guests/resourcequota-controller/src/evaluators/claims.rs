//! PersistentVolumeClaims: their number and size, in all and by storage class.

use coxswain_sdk::quantity::Quantity;
use coxswain_sdk::resource::PERSISTENT_VOLUME_CLAIMS;
use coxswain_sdk::{FromJson, Object, Resource, StringMap, View};

use crate::list::{self, List};
use crate::scopes;
use crate::view::ScopeRequirement;

const OBJECTS: &str = "count/persistentvolumeclaims";
const CLAIMS: &str = "persistentvolumeclaims";
const STORAGE: &str = "requests.storage";
const OF_CLASS: &str = ".storageclass.storage.k8s.io/";

/// A claim.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct Claim {
    metadata: Metadata,
    spec: Spec,
    status: Status,
}

impl View for Claim {
    const RESOURCE: Resource = PERSISTENT_VOLUME_CLAIMS;
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Metadata {
    annotations: Annotations,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Annotations {
    #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
    beta_class: Option<String>,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    storage_class_name: Option<String>,
    volume_attributes_class_name: Option<String>,
    resources: Resources,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Resources {
    requests: List,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Status {
    allocated_resources: List,
    current_volume_attributes_class_name: Option<String>,
    modify_volume_status: StringMap,
}

impl Claim {
    fn class(&self) -> &str {
        let class = self.metadata.annotations.beta_class.as_ref().or(self.spec.storage_class_name.as_ref());
        class.map_or("", String::as_str)
    }

    /// What is asked for, or has been allocated if that is more, in whole bytes.
    fn size(&self) -> Option<Quantity> {
        let asked = self.spec.resources.requests.get("storage")?;
        let size =
            self.status.allocated_resources.get("storage").map_or(asked, |allocated| asked.max(allocated));
        let whole = Quantity::new(size.value(), size.family());
        Some(if whole.value().unsigned_abs() < i64::MAX.unsigned_abs() { whole } else { size })
    }

    /// The attributes classes it names.
    fn attributes_classes(&self) -> Vec<&str> {
        let target = self.status.modify_volume_status.get("targetVolumeAttributesClassName");
        let named = self.spec.volume_attributes_class_name.iter();
        let named = named.chain(&self.status.current_volume_attributes_class_name).chain(target);
        named.map(String::as_str).filter(|name| !name.is_empty()).collect()
    }
}

/// Whether a name of a quota is counted from claims.
pub fn counts(name: &str) -> bool {
    let of_class = || {
        [CLAIMS, STORAGE]
            .iter()
            .any(|what| name.strip_suffix(what).is_some_and(|name| name.ends_with(OF_CLASS)))
    };
    matches!(name, OBJECTS | CLAIMS | STORAGE) || of_class()
}

/// What the claims of a namespace use that are in all scopes.
pub fn usage_in_scopes(claims: &[Object<Claim>], scopes: &[ScopeRequirement]) -> List {
    let counted = scopes::counted(claims.iter().map(AsRef::as_ref), scopes, fits);
    let mut used = List::default();
    used.set(OBJECTS, list::count(counted.len()));
    used.set(CLAIMS, list::count(counted.len()));
    for claim in counted {
        let class = claim.class();
        let mut add = |what: &str, quantity: Quantity| {
            if !class.is_empty() {
                used.add(&[class, OF_CLASS, what].concat(), quantity);
            }
        };
        add(CLAIMS, list::count(1));
        if let Some(size) = claim.size() {
            add(STORAGE, size);
            used.add(STORAGE, size);
        }
    }
    used
}

fn fits(claim: &Claim, requirement: &ScopeRequirement) -> Result<bool, String> {
    match requirement.scope_name.as_str() {
        "VolumeAttributesClass" => scopes::fits(requirement, &claim.attributes_classes()),
        _ => Ok(false),
    }
}
