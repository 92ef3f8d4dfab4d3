//! Kinds of volumes that were built into Kubernetes once, and the CSI drivers
//! that took over.

/// A kind of volume that was built in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltIn {
    /// Its name as a provisioner.
    pub name: &'static str,
    /// The driver that took over.
    pub driver: &'static str,
}

/// Volumes of Amazon.
pub const AWS_EBS: BuiltIn = BuiltIn { name: "kubernetes.io/aws-ebs", driver: "ebs.csi.aws.com" };
/// Disks of Azure.
pub const AZURE_DISK: BuiltIn = BuiltIn { name: "kubernetes.io/azure-disk", driver: "disk.csi.azure.com" };
/// File shares of Azure.
pub const AZURE_FILE: BuiltIn = BuiltIn { name: "kubernetes.io/azure-file", driver: "file.csi.azure.com" };
/// Volumes of OpenStack.
pub const CINDER: BuiltIn = BuiltIn { name: "kubernetes.io/cinder", driver: "cinder.csi.openstack.org" };
/// Disks of Google.
pub const GCE_PD: BuiltIn = BuiltIn { name: "kubernetes.io/gce-pd", driver: "pd.csi.storage.gke.io" };
/// Volumes of Portworx.
pub const PORTWORX: BuiltIn = BuiltIn { name: "kubernetes.io/portworx-volume", driver: "pxd.portworx.com" };
/// Volumes of vSphere.
pub const VSPHERE: BuiltIn =
    BuiltIn { name: "kubernetes.io/vsphere-volume", driver: "csi.vsphere.vmware.com" };

/// All of them.
pub const ALL: [BuiltIn; 7] = [AWS_EBS, AZURE_DISK, AZURE_FILE, CINDER, GCE_PD, PORTWORX, VSPHERE];

/// Prefix of the names of what is, or was, built in.
pub const PREFIX: &str = "kubernetes.io/";

/// The driver that took over from a provisioner of this name.
pub fn driver_of(provisioner: &str) -> Option<&'static str> {
    ALL.iter().find(|kind| kind.name == provisioner).map(|kind| kind.driver)
}
