//! What is read of nodes, pods, claims, volumes, drivers and attachments.

use coxswain_sdk::condition::{self, BriefCondition};
use coxswain_sdk::resource::{
    CSI_DRIVERS, NODES, PERSISTENT_VOLUME_CLAIMS, PERSISTENT_VOLUMES, VOLUME_ATTACHMENTS,
};
use coxswain_sdk::volumes::{self, ClaimRef, ClaimSource};
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::attachable::{FC_PLUGIN, ISCSI_PLUGIN, csi_plugin};

/// A node.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Node {
    /// Metadata.
    pub metadata: ObjectMeta<NodeAnnotations>,
    /// Spec.
    pub spec: NodeSpec,
    /// Status.
    pub status: NodeStatus,
}

/// Annotations of nodes.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct NodeAnnotations {
    /// That its kubelet leaves attaching to the controller.
    #[serde(rename = "volumes.kubernetes.io/controller-managed-attach-detach")]
    pub managed: Option<String>,
}

/// What is read of a node's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct NodeSpec {
    /// Taints.
    pub taints: Vec<Taint>,
}

/// What is read of a taint.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Taint {
    /// Its key.
    pub key: String,
}

/// What is read of a node's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeStatus {
    /// Conditions.
    pub conditions: Vec<BriefCondition>,
    /// Volumes that may be mounted, as written here. Kept as they came, since the
    /// list is written as a whole.
    pub volumes_attached: Vec<Value>,
    /// Volumes that are, or are about to be, mounted, as the kubelet says.
    pub volumes_in_use: Vec<String>,
}

impl Node {
    /// Whether its kubelet says that it is ready.
    pub fn is_ready(&self) -> bool {
        condition::is_true(&self.status.conditions, "Ready")
    }

    /// Whether somebody has vouched for it being shut down.
    pub fn is_out_of_service(&self) -> bool {
        self.spec.taints.iter().any(|taint| taint.key == "node.kubernetes.io/out-of-service")
    }
}

impl View for Node {
    const RESOURCE: Resource = NODES;
}

/// A pod.
pub type Pod = volumes::Pod<PodVolume>;

/// What is read of a pod's volume.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct PodVolume {
    /// Name within the pod.
    pub name: String,
    /// The claim it is.
    pub persistent_volume_claim: Option<ClaimSource>,
    /// The template of the claim that is made for it, as it came.
    pub ephemeral: Option<Box<RawValue>>,
    /// Fibre Channel.
    pub fc: Option<Fc>,
    /// iSCSI.
    pub iscsi: Option<Iscsi>,
    /// A volume that a CSI driver makes for the pod.
    pub csi: Option<InlineCsi>,
    /// What was built in once, as it came.
    pub aws_elastic_block_store: Option<Value>,
    /// What was built in once, as it came.
    pub azure_disk: Option<Value>,
    /// What was built in once, as it came.
    pub cinder: Option<Value>,
    /// What was built in once, as it came.
    pub gce_persistent_disk: Option<Value>,
    /// What was built in once, as it came.
    pub portworx_volume: Option<Value>,
    /// What was built in once, as it came.
    pub vsphere_volume: Option<Value>,
}

/// What is read of a volume that a CSI driver makes for a pod.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct InlineCsi {
    /// The driver.
    pub driver: String,
}

impl PodVolume {
    /// The plugin of a volume that the pod names without a claim. None for what
    /// is never attached.
    pub fn plugin(&self) -> Option<String> {
        if let Some(csi) = &self.csi {
            return Some(csi_plugin(&csi.driver));
        }
        let built_in = self.fc.as_ref().map(|_| FC_PLUGIN).or(self.iscsi.as_ref().map(|_| ISCSI_PLUGIN));
        built_in.map(str::to_owned)
    }

    /// Name of its claim, in a pod of this name. None where it has no claim.
    pub fn claim_name(&self, pod: &str) -> Option<String> {
        let (named, template) = (self.persistent_volume_claim.as_ref(), self.ephemeral.as_deref());
        volumes::claim_name(pod, &self.name, named, template)
    }
}

/// A Fibre Channel volume.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Fc {
    /// Worldwide names of targets.
    #[serde(rename = "targetWWNs")]
    pub target_wwns: Vec<String>,
    /// Logical unit.
    pub lun: Option<i32>,
    /// Worldwide identifiers.
    pub wwids: Vec<String>,
}

/// An iSCSI volume.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Iscsi {
    /// Where the target is.
    pub target_portal: String,
    /// Its qualified name.
    pub iqn: String,
    /// Logical unit.
    pub lun: i32,
}

/// A claim.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Claim {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: ClaimSpec,
    /// Status.
    pub status: ClaimStatus,
}

/// What is read of a claim's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimSpec {
    /// The volume.
    pub volume_name: String,
}

/// What is read of a claim's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct ClaimStatus {
    /// `Pending`, `Bound` or `Lost`.
    pub phase: String,
}

impl View for Claim {
    const RESOURCE: Resource = PERSISTENT_VOLUME_CLAIMS;
}

/// A volume.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Volume {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: VolumeSpec,
}

/// What is read of a volume's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct VolumeSpec {
    /// How it may be mounted.
    pub access_modes: Vec<String>,
    /// The claim it is for.
    pub claim_ref: Option<ClaimRef>,
    /// CSI.
    pub csi: Option<Csi>,
    /// Fibre Channel.
    pub fc: Option<Fc>,
    /// iSCSI.
    pub iscsi: Option<Iscsi>,
    /// What was built in once.
    pub aws_elastic_block_store: Option<VolumeId>,
    /// What was built in once.
    pub azure_disk: Option<AzureDisk>,
    /// What was built in once.
    pub cinder: Option<VolumeId>,
    /// What was built in once.
    pub gce_persistent_disk: Option<GceDisk>,
    /// What was built in once.
    pub portworx_volume: Option<VolumeId>,
    /// What was built in once.
    pub vsphere_volume: Option<VsphereVolume>,
}

/// A volume known by an id.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct VolumeId {
    /// The id.
    #[serde(rename = "volumeID")]
    pub volume_id: String,
}

/// A disk of Azure.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct AzureDisk {
    /// Where it is.
    #[serde(rename = "diskURI")]
    pub disk_uri: String,
}

/// A disk of Google.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct GceDisk {
    /// Its name.
    pub pd_name: String,
}

/// A disk of vSphere.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct VsphereVolume {
    /// Its file.
    pub volume_path: String,
}

/// A CSI volume.
#[derive(Clone, Debug, Default, PartialEq, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct Csi {
    /// The driver.
    pub driver: String,
    /// What the driver calls it.
    pub volume_handle: String,
}

impl View for Volume {
    const RESOURCE: Resource = PERSISTENT_VOLUMES;
}

/// A CSI driver.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Driver {
    /// Spec.
    pub spec: DriverSpec,
}

/// What is read of a driver's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct DriverSpec {
    /// Whether its volumes are attached before they are mounted.
    pub attach_required: Option<bool>,
}

impl View for Driver {
    const RESOURCE: Resource = CSI_DRIVERS;
}

/// An attachment.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct Attachment {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// Spec.
    pub spec: AttachmentSpec,
    /// Status.
    pub status: AttachmentStatus,
}

/// What is read of an attachment's spec.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSpec {
    /// The driver.
    pub attacher: String,
    /// The node.
    pub node_name: String,
    /// What is attached.
    pub source: AttachmentSource,
}

/// What is attached.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentSource {
    /// A volume.
    pub persistent_volume_name: Option<String>,
    /// A volume that a pod names without a claim.
    pub inline_volume_spec: Option<InlineSpec>,
}

/// What is read of a volume that a pod names without a claim.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct InlineSpec {
    /// CSI.
    pub csi: Option<Csi>,
}

/// What is read of an attachment's status.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
pub struct AttachmentStatus {
    /// Whether the driver has attached it.
    pub attached: bool,
    /// Why it has not.
    pub attach_error: Option<AttachError>,
}

/// Why a driver could not attach.
#[derive(Clone, Debug, Default, FromJson)]
#[serde(default)]
pub struct AttachError {
    /// In words.
    pub message: String,
}

impl View for Attachment {
    const RESOURCE: Resource = VOLUME_ATTACHMENTS;
}
