//! What is read of claims and volumes.

use coxswain_sdk::migration::{self, BuiltIn};
use coxswain_sdk::quantity::Quantity;
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

/// A claim.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Claim {
    /// Metadata.
    pub metadata: ObjectMeta<ClaimAnnotations>,
    /// Spec.
    pub spec: ClaimSpec,
    /// Status.
    pub status: ClaimStatus,
}

/// Annotations of claims.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ClaimAnnotations {
    /// Who is to resize.
    #[serde(rename = "volume.kubernetes.io/storage-resizer")]
    pub resizer: Option<String>,
}

/// What is read of a claim's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// The volume.
    pub volume_name: String,
    /// How much it is to hold.
    pub resources: Requests,
}

/// Resources asked for.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Requests {
    /// At least.
    pub requests: Capacity,
}

/// How much something holds.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Capacity {
    /// Bytes.
    pub storage: Option<Quantity>,
}

/// What is read of a claim's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
    /// How much it holds.
    pub capacity: Capacity,
}

impl Claim {
    /// The size asked for.
    pub fn wants(&self) -> Quantity {
        self.spec.resources.requests.storage.unwrap_or(Quantity::ZERO)
    }

    /// The size there is.
    pub fn has(&self) -> Quantity {
        self.status.capacity.storage.unwrap_or(Quantity::ZERO)
    }
}

impl View for Claim {
    const RESOURCE: Resource = PERSISTENT_VOLUME_CLAIMS;
}

/// A volume.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Volume {
    /// Metadata.
    pub metadata: ObjectMeta<VolumeAnnotations>,
    /// Spec.
    pub spec: VolumeSpec,
}

/// Annotations of volumes.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct VolumeAnnotations {
    /// The size that the file system still has.
    #[serde(rename = "volume.alpha.kubernetes.io/pre-resize-capacity")]
    pub pre_resize_capacity: Option<String>,
}

/// What is read of a volume's spec: the claim, and whether its source is one
/// that was built in once. Of a source the field is read that it must have.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// The claim it is for.
    pub claim_ref: Option<ClaimRef>,
    aws_elastic_block_store: Option<VolumeId>,
    azure_disk: Option<DiskName>,
    azure_file: Option<ShareName>,
    cinder: Option<VolumeId>,
    gce_persistent_disk: Option<PdName>,
    portworx_volume: Option<VolumeId>,
    vsphere_volume: Option<VolumePath>,
}

/// A reference to a claim.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ClaimRef {
    /// Namespace.
    pub namespace: String,
    /// Uid.
    pub uid: String,
}

macro_rules! sources {
    ($($name:ident { $field:ident as $key:literal })*) => {$(
        #[derive(Clone, Debug, Default, FromJson)]
        #[serde(default)]
        struct $name {
            #[serde(rename = $key)]
            #[allow(dead_code, reason = "that the source is there is what matters")]
            $field: String,
        }
    )*};
}

sources! {
    VolumeId { id as "volumeID" }
    DiskName { name as "diskName" }
    ShareName { name as "shareName" }
    PdName { name as "pdName" }
    VolumePath { path as "volumePath" }
}

impl VolumeSpec {
    /// The kind of volume that was built in, if its source is such a one.
    pub fn migrated(&self) -> Option<BuiltIn> {
        let sources = [
            (self.aws_elastic_block_store.is_some(), migration::AWS_EBS),
            (self.azure_disk.is_some(), migration::AZURE_DISK),
            (self.azure_file.is_some(), migration::AZURE_FILE),
            (self.cinder.is_some(), migration::CINDER),
            (self.gce_persistent_disk.is_some(), migration::GCE_PD),
            (self.portworx_volume.is_some(), migration::PORTWORX),
            (self.vsphere_volume.is_some(), migration::VSPHERE),
        ];
        sources.into_iter().find(|(there, _)| *there).map(|(_, kind)| kind)
    }
}

impl View for Volume {
    const RESOURCE: Resource = PERSISTENT_VOLUMES;
}
