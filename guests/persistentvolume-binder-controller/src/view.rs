//! What is read of volumes, claims and classes. Pods are seen as all users of
//! volumes are.

use coxswain_sdk::claim::HasMetadata;
use coxswain_sdk::quantity::Quantity;
use coxswain_sdk::resource::{PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, STORAGE_CLASSES};
use coxswain_sdk::selector::LabelSelector;
use coxswain_sdk::volumes::ClaimRef;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};
use serde::Serialize;
use serde_json::Value;

/// A volume.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Volume {
    /// Metadata.
    pub metadata: ObjectMeta<VolumeAnnotations>,
    /// Spec.
    pub spec: VolumeSpec,
    /// Status.
    pub status: VolumeStatus,
}

/// Annotations of volumes. That they are there is what mostly matters.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct VolumeAnnotations {
    /// That the claim reference was set here, not by whoever made the volume.
    #[serde(rename = "pv.kubernetes.io/bound-by-controller")]
    pub bound_by_controller: Option<String>,
    /// Who provisioned it, if it was not made by hand.
    #[serde(rename = "pv.kubernetes.io/provisioned-by")]
    pub provisioned_by: Option<String>,
    /// The CSI driver that took over from what was built in.
    #[serde(rename = "pv.kubernetes.io/migrated-to")]
    pub migrated_to: Option<String>,
    /// The class, as it was once written.
    #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
    pub beta_class: Option<String>,
    /// The size that the file system still has.
    #[serde(rename = "volume.alpha.kubernetes.io/pre-resize-capacity")]
    pub pre_resize_capacity: Option<String>,
}

/// What is read of a volume's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// What it holds.
    pub capacity: Capacity,
    /// How it may be mounted.
    pub access_modes: Vec<String>,
    /// The claim it is for.
    pub claim_ref: Option<ClaimRef>,
    /// What becomes of it once the claim is gone.
    pub persistent_volume_reclaim_policy: String,
    /// Its class.
    pub storage_class_name: String,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<String>,
    /// Its class of attributes.
    pub volume_attributes_class_name: Option<String>,
    /// A directory of the node.
    pub host_path: Option<HostPath>,
    /// An export.
    pub nfs: Option<Nfs>,
    /// A CSI volume.
    pub csi: Option<Csi>,
    /// A disk of a storage network, by fibre.
    pub fc: Option<Value>,
    /// The same, by IP.
    pub iscsi: Option<Value>,
}

/// How much something holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(default)]
pub struct Capacity {
    /// Bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Quantity>,
}

/// A directory of the node.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct HostPath {
    /// Its path.
    pub path: String,
}

/// An export.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Nfs {
    /// The server.
    pub server: String,
    /// The path there.
    pub path: String,
}

/// A CSI volume.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Csi {
    /// The driver.
    pub driver: String,
}

/// What is read of a volume's status, and written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(default)]
pub struct VolumeStatus {
    /// `Pending`, `Available`, `Bound`, `Released` or `Failed`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// Why.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

impl View for Volume {
    const RESOURCE: Resource = PERSISTENT_VOLUMES;
}

impl HasMetadata for Volume {
    type Annotations = VolumeAnnotations;

    fn metadata(&self) -> &ObjectMeta<VolumeAnnotations> {
        &self.metadata
    }
}

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
    /// That the claim was bound once.
    #[serde(rename = "pv.kubernetes.io/bind-completed")]
    pub bind_completed: Option<String>,
    /// That the volume was chosen here, not by the user.
    #[serde(rename = "pv.kubernetes.io/bound-by-controller")]
    pub bound_by_controller: Option<String>,
    /// The node that the scheduler wants the volume for.
    #[serde(rename = "volume.kubernetes.io/selected-node")]
    pub selected_node: Option<String>,
    /// Who is to provision.
    #[serde(rename = "volume.kubernetes.io/storage-provisioner")]
    pub provisioner: Option<String>,
    /// The same, as it was once written.
    #[serde(rename = "volume.beta.kubernetes.io/storage-provisioner")]
    pub beta_provisioner: Option<String>,
    /// The CSI driver that took over from what was built in.
    #[serde(rename = "pv.kubernetes.io/migrated-to")]
    pub migrated_to: Option<String>,
    /// The class, as it was once written.
    #[serde(rename = "volume.beta.kubernetes.io/storage-class")]
    pub beta_class: Option<String>,
}

/// What is read of a claim's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// The volume.
    pub volume_name: String,
    /// How it is to be mounted.
    pub access_modes: Vec<String>,
    /// How much it is to hold.
    pub resources: Requests,
    /// Labels that the volume must have.
    pub selector: Option<LabelSelector>,
    /// The class; None leaves it to the default.
    pub storage_class_name: Option<String>,
    /// `Filesystem` or `Block`.
    pub volume_mode: Option<String>,
    /// The class of attributes.
    pub volume_attributes_class_name: Option<String>,
    /// What it is to be filled with.
    pub data_source: Option<DataSource>,
}

/// What a volume is to be filled with.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct DataSource {
    /// Name of a snapshot, or another claim.
    #[allow(dead_code, reason = "that there is one is what matters")]
    pub name: String,
}

/// Resources asked for.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Requests {
    /// At least.
    pub requests: Capacity,
}

/// What is read of a claim's status, and written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub phase: String,
    /// How the volume may be mounted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
    /// What it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Capacity>,
    /// Its class of attributes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current_volume_attributes_class_name: Option<String>,
}

impl View for Claim {
    const RESOURCE: Resource = PERSISTENT_VOLUME_CLAIMS;
}

impl HasMetadata for Claim {
    type Annotations = ClaimAnnotations;

    fn metadata(&self) -> &ObjectMeta<ClaimAnnotations> {
        &self.metadata
    }
}

/// A storage class.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Class {
    /// Metadata.
    pub metadata: ObjectMeta<ClassAnnotations>,
    /// Who provisions.
    pub provisioner: String,
    /// `Immediate` or `WaitForFirstConsumer`.
    pub volume_binding_mode: Option<String>,
    /// What becomes of its volumes once their claims are gone.
    pub reclaim_policy: Option<String>,
    /// How its volumes are mounted.
    pub mount_options: Vec<String>,
}

/// Annotations of storage classes.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ClassAnnotations {
    /// Whether claims that name no class get this one.
    #[serde(rename = "storageclass.kubernetes.io/is-default-class")]
    pub is_default: Option<String>,
    /// The same, as it was once written.
    #[serde(rename = "storageclass.beta.kubernetes.io/is-default-class")]
    pub beta_is_default: Option<String>,
}

impl View for Class {
    const RESOURCE: Resource = STORAGE_CLASSES;
}
