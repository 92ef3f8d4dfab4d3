//! Names of resources, in the form of the API's paths.

use crate::contract::GroupResource;

/// A resource by name. Numbers are given by the host and differ between
/// processes; names do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Resource {
    /// API group; empty for the core group.
    pub group: &'static str,
    /// API version.
    pub version: &'static str,
    /// Lower-case plural.
    pub plural: &'static str,
    /// Kind of its objects.
    pub kind: &'static str,
}

/// Every resource of the cluster, metadata only.
pub const EVERY: Resource = Resource::new("*", "", "*", "");
/// Pods.
pub const PODS: Resource = Resource::new("", "v1", "pods", "Pod");
/// ReplicationControllers.
pub const REPLICATION_CONTROLLERS: Resource =
    Resource::new("", "v1", "replicationcontrollers", "ReplicationController");
/// ReplicaSets.
pub const REPLICA_SETS: Resource = Resource::new("apps", "v1", "replicasets", "ReplicaSet");
/// Deployments.
pub const DEPLOYMENTS: Resource = Resource::new("apps", "v1", "deployments", "Deployment");
/// Nodes.
pub const NODES: Resource = Resource::new("", "v1", "nodes", "Node");
/// StatefulSets.
pub const STATEFUL_SETS: Resource = Resource::new("apps", "v1", "statefulsets", "StatefulSet");
/// Jobs.
pub const JOBS: Resource = Resource::new("batch", "v1", "jobs", "Job");
/// CronJobs.
pub const CRON_JOBS: Resource = Resource::new("batch", "v1", "cronjobs", "CronJob");
/// PodDisruptionBudgets.
pub const POD_DISRUPTION_BUDGETS: Resource =
    Resource::new("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget");
/// PersistentVolumes.
pub const PERSISTENT_VOLUMES: Resource = Resource::new("", "v1", "persistentvolumes", "PersistentVolume");
/// PersistentVolumeClaims.
pub const PERSISTENT_VOLUME_CLAIMS: Resource =
    Resource::new("", "v1", "persistentvolumeclaims", "PersistentVolumeClaim");
/// StorageClasses.
pub const STORAGE_CLASSES: Resource = Resource::new("storage.k8s.io", "v1", "storageclasses", "StorageClass");
/// VolumeAttributesClasses.
pub const VOLUME_ATTRIBUTES_CLASSES: Resource =
    Resource::new("storage.k8s.io", "v1", "volumeattributesclasses", "VolumeAttributesClass");
/// VolumeAttachments.
pub const VOLUME_ATTACHMENTS: Resource =
    Resource::new("storage.k8s.io", "v1", "volumeattachments", "VolumeAttachment");
/// CSIDrivers.
pub const CSI_DRIVERS: Resource = Resource::new("storage.k8s.io", "v1", "csidrivers", "CSIDriver");
/// ControllerRevisions.
pub const CONTROLLER_REVISIONS: Resource =
    Resource::new("apps", "v1", "controllerrevisions", "ControllerRevision");
/// DaemonSets.
pub const DAEMON_SETS: Resource = Resource::new("apps", "v1", "daemonsets", "DaemonSet");
/// Leases.
pub const LEASES: Resource = Resource::new("coordination.k8s.io", "v1", "leases", "Lease");
/// Services.
pub const SERVICES: Resource = Resource::new("", "v1", "services", "Service");
/// Endpoints.
pub const ENDPOINTS: Resource = Resource::new("", "v1", "endpoints", "Endpoints");
/// EndpointSlices.
pub const ENDPOINT_SLICES: Resource =
    Resource::new("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice");
/// ServiceCIDRs.
pub const SERVICE_CIDRS: Resource = Resource::new("networking.k8s.io", "v1", "servicecidrs", "ServiceCIDR");
/// IPAddresses.
pub const IP_ADDRESSES: Resource = Resource::new("networking.k8s.io", "v1", "ipaddresses", "IPAddress");
/// ClusterRoles.
pub const CLUSTER_ROLES: Resource =
    Resource::new("rbac.authorization.k8s.io", "v1", "clusterroles", "ClusterRole");
/// ConfigMaps.
pub const CONFIG_MAPS: Resource = Resource::new("", "v1", "configmaps", "ConfigMap");
/// Secrets.
pub const SECRETS: Resource = Resource::new("", "v1", "secrets", "Secret");
/// ServiceAccounts.
pub const SERVICE_ACCOUNTS: Resource = Resource::new("", "v1", "serviceaccounts", "ServiceAccount");
/// CertificateSigningRequests.
pub const CERTIFICATE_SIGNING_REQUESTS: Resource =
    Resource::new("certificates.k8s.io", "v1", "certificatesigningrequests", "CertificateSigningRequest");
/// Namespaces.
pub const NAMESPACES: Resource = Resource::new("", "v1", "namespaces", "Namespace");
/// ResourceQuotas.
pub const RESOURCE_QUOTAS: Resource = Resource::new("", "v1", "resourcequotas", "ResourceQuota");
/// ResourceClaims.
pub const RESOURCE_CLAIMS: Resource =
    Resource::new("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim");
/// ResourceClaimTemplates.
pub const RESOURCE_CLAIM_TEMPLATES: Resource =
    Resource::new("resource.k8s.io", "v1", "resourceclaimtemplates", "ResourceClaimTemplate");
/// ResourceSlices.
pub const RESOURCE_SLICES: Resource =
    Resource::new("resource.k8s.io", "v1", "resourceslices", "ResourceSlice");

impl Resource {
    /// A resource of this name.
    pub const fn new(
        group: &'static str,
        version: &'static str,
        plural: &'static str,
        kind: &'static str,
    ) -> Self {
        Self { group, version, plural, kind }
    }

    /// `apiVersion` of its objects: `apps/v1`, or `v1` in the core group.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_owned()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// The contract's form.
    pub fn to_wire(self) -> GroupResource {
        GroupResource {
            group: self.group.to_owned(),
            version: self.version.to_owned(),
            resource: self.plural.to_owned(),
        }
    }

    /// Whether this is that resource of the contract.
    pub fn is(&self, wire: &GroupResource) -> bool {
        self.group == wire.group && self.version == wire.version && self.plural == wire.resource
    }
}

impl std::fmt::Display for Resource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}", self.api_version(), self.plural)
    }
}

/// A resource by name, or by the host's number where only that is known (as in
/// controllers that read every resource).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceId {
    /// By name. The manifest's reads or writes name it.
    Named(Resource),
    /// By number, as in an [`crate::contract::ObjectRef`].
    Number(u32),
}

impl From<Resource> for ResourceId {
    fn from(resource: Resource) -> Self {
        Self::Named(resource)
    }
}

impl From<u32> for ResourceId {
    fn from(number: u32) -> Self {
        Self::Number(number)
    }
}
