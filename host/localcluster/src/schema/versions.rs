//! Bodies in another version of a group, or of another kind: what they are told.

use super::schema;
use crate::status::Status;

/// Whether a body of this version and kind may be taken for the one wanted.
pub(super) fn check_type(api_version: &str, kind: &str, given: &str, given_kind: &str) -> Result<(), Status> {
    let same_version = given.is_empty() || given == api_version;
    let same_kind = given_kind.is_empty() || given_kind == kind;
    if same_version && same_kind {
        return Ok(());
    }
    let version = if given.is_empty() { api_version } else { given };
    let name = if given_kind.is_empty() { kind } else { given_kind };
    let short = version.rsplit('/').next().unwrap_or(version);
    if name == kind && is_same(api_version, version, name) {
        return Err(Status::bad_request(format!(
            "the API version in the data ({version}) does not match the expected API version ({api_version})"
        )));
    }
    let error = if schema().kind(version, name).is_some() {
        not_convertible(api_version, kind, version, name)
    } else {
        not_registered(version, name)
    };
    Err(Status::bad_request(format!("{name} in version {short:?} cannot be handled as a {kind}: {error}")))
}

/// Versions that are read and no longer served, with the kinds in them.
const FORMER: [(&str, &[&str]); 24] = [
    (
        "admissionregistration.k8s.io/v1beta1",
        &["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"],
    ),
    ("apiextensions.k8s.io/v1beta1", &["CustomResourceDefinition"]),
    ("apiregistration.k8s.io/v1beta1", &["APIService"]),
    ("apps/v1beta1", &["ControllerRevision", "Deployment", "StatefulSet"]),
    ("apps/v1beta2", &["ControllerRevision", "DaemonSet", "Deployment", "ReplicaSet", "StatefulSet"]),
    ("authentication.k8s.io/v1beta1", &["TokenReview"]),
    (
        "authorization.k8s.io/v1beta1",
        &[
            "LocalSubjectAccessReview",
            "SelfSubjectAccessReview",
            "SelfSubjectRulesReview",
            "SubjectAccessReview",
        ],
    ),
    ("batch/v1beta1", &["CronJob"]),
    ("certificates.k8s.io/v1beta1", &["CertificateSigningRequest"]),
    ("coordination.k8s.io/v1beta1", &["Lease"]),
    ("discovery.k8s.io/v1beta1", &["EndpointSlice"]),
    ("events.k8s.io/v1beta1", &["Event"]),
    ("extensions/v1beta1", &["DaemonSet", "Deployment", "Ingress", "NetworkPolicy", "ReplicaSet"]),
    ("flowcontrol.apiserver.k8s.io/v1beta1", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("flowcontrol.apiserver.k8s.io/v1beta2", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("flowcontrol.apiserver.k8s.io/v1beta3", &["FlowSchema", "PriorityLevelConfiguration"]),
    ("networking.k8s.io/v1beta1", &["Ingress", "IngressClass", "IPAddress", "ServiceCIDR"]),
    ("node.k8s.io/v1beta1", &["RuntimeClass"]),
    ("node.k8s.io/v1alpha1", &["RuntimeClass"]),
    ("policy/v1beta1", &["PodDisruptionBudget"]),
    ("rbac.authorization.k8s.io/v1alpha1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("rbac.authorization.k8s.io/v1beta1", &["ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"]),
    ("scheduling.k8s.io/v1beta1", &["PriorityClass"]),
    (
        "storage.k8s.io/v1beta1",
        &[
            "CSIDriver",
            "CSINode",
            "CSIStorageCapacity",
            "StorageClass",
            "VolumeAttachment",
            "VolumeAttributesClass",
        ],
    ),
];

/// Whether a kind of another version is the same one: of the same group, or of one that the kind moved from.
fn is_same(api_version: &str, given: &str, kind: &str) -> bool {
    let known = FORMER.iter().any(|(version, kinds)| *version == given && kinds.contains(&kind))
        || schema().kind(given, kind).is_some();
    let group = |version: &str| version.split_once('/').map_or(String::new(), |(group, _)| group.to_owned());
    let (here, there) = (group(api_version), group(given));
    let moved = there == "extensions" && matches!(here.as_str(), "apps" | "networking.k8s.io");
    let events = kind == "Event" && (here.is_empty() || there.is_empty());
    known && (here == there || moved || events)
}

/// What a kind is told that is not the one wanted.
pub(crate) fn not_convertible(api_version: &str, kind: &str, version: &str, name: &str) -> String {
    let short = version.rsplit('/').next().unwrap_or(version);
    format!("converting ({short}.{name}) to ({}.{kind}): unknown conversion", package_of(api_version))
}

/// What a kind that does not exist is called.
pub(crate) fn not_registered(version: &str, name: &str) -> String {
    format!(
        "no kind {name:?} is registered for version {version:?} in scheme \
         \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\""
    )
}

/// Name of the package that holds the internal types of a group.
fn package_of(api_version: &str) -> &str {
    match api_version.split_once('/') {
        None => "core",
        Some((group, _)) => group.split('.').next().unwrap_or(group),
    }
}
