//! Phases, reasons and annotations, as users and other components know them.

/// Phase of a volume nobody has seen yet, and of a claim that is not bound.
pub const PENDING: &str = "Pending";
/// Phase of a volume that waits for a claim.
pub const AVAILABLE: &str = "Available";
/// Phase of both once they belong together.
pub const BOUND: &str = "Bound";
/// Phase of a volume whose claim is gone.
pub const RELEASED: &str = "Released";
/// Phase of a volume that could not be reclaimed.
pub const FAILED: &str = "Failed";
/// Phase of a claim whose volume is gone.
pub const LOST: &str = "Lost";

/// Annotation: the reference was set here.
pub const BOUND_BY_CONTROLLER: &str = "pv.kubernetes.io/bound-by-controller";
/// Annotation: the claim was bound once.
pub const BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
/// Annotation: who provisioned it.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";
/// Annotation: a CSI driver took over.
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";
/// Annotation: who is to provision.
pub const PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";
/// Annotation: the same, as it was once written.
pub const BETA_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";

/// Finalizer of volumes that the manager itself deletes.
pub const IN_TREE_FINALIZER: &str = "kubernetes.io/pv-controller";
/// Finalizer of volumes that an external provisioner deletes.
pub const EXTERNAL_FINALIZER: &str = "external-provisioner.volume.kubernetes.io/finalizer";

/// Reason of events about claims that find no volume.
pub const FAILED_BINDING: &str = "FailedBinding";
/// Reason of events about a claim and a volume that do not fit.
pub const VOLUME_MISMATCH: &str = "VolumeMismatch";
/// Reason of events about volumes that could not be scrubbed.
pub const FAILED_RECYCLE: &str = "VolumeFailedRecycle";
/// Reason of events about volumes that were.
pub const RECYCLED: &str = "VolumeRecycled";
/// Reason of events about volumes that could not be deleted.
pub const FAILED_DELETE: &str = "VolumeFailedDelete";
/// Reason of events about claims that a provisioner was asked to serve.
pub const EXTERNAL_PROVISIONING: &str = "ExternalProvisioning";
/// Reason of events about claims that nobody can provision for.
pub const PROVISIONING_FAILED: &str = "ProvisioningFailed";
/// Reason of events about claims that were provisioned for.
pub const PROVISIONING_SUCCEEDED: &str = "ProvisioningSucceeded";
/// Reason of events about claims that wait for a pod.
pub const WAIT_FOR_CONSUMER: &str = "WaitForFirstConsumer";
/// Reason of events about claims whose pod waits for a node.
pub const WAIT_FOR_SCHEDULING: &str = "WaitForPodScheduled";
/// Reason of events about claims that lost their volume.
pub const CLAIM_LOST: &str = "ClaimLost";
/// Reason of events about claims whose volume is another's.
pub const CLAIM_MISBOUND: &str = "ClaimMisbound";
/// Reason of events about volumes with a policy that is none.
pub const UNKNOWN_POLICY: &str = "VolumeUnknownReclaimPolicy";
