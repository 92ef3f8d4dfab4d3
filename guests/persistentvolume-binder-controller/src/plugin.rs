//! What the manager could do to a volume itself: next to nothing.
//!
//! Volumes of CSI drivers are made and deleted outside. Of what is left, a
//! directory of the node can be deleted in name only, and directories and
//! exports can be scrubbed by a pod.

use coxswain_sdk::migration::PREFIX;

use crate::view::Volume;

/// Directories of the node.
pub const HOST_PATH: &str = "kubernetes.io/host-path";
/// Those that exist, but can neither provision nor delete.
const PASSIVE: [&str; 1] = ["kubernetes.io/nfs"];
const DELETABLE_BELOW: &str = "/tmp/";

/// Why nobody here provisions for a built-in name. None if directories of the
/// node are asked for.
pub fn refuses_to_provision(name: &str) -> Option<String> {
    match name {
        HOST_PATH => None,
        name if PASSIVE.contains(&name) => Some("no provisionable volume plugin matched".to_owned()),
        name => Some(format!("no volume plugin matched name: {name}")),
    }
}

/// How a volume is deleted.
#[derive(Debug, PartialEq)]
pub enum Deletion {
    /// By somebody else.
    External,
    /// Not at all.
    Impossible(String),
    /// There is nothing to delete but the object.
    ObjectOnly,
}

/// How a volume is deleted. Who provisioned it deletes it; otherwise its source
/// decides.
pub fn deletion(volume: &Volume) -> Deletion {
    let annotations = &volume.metadata.annotations;
    match annotations.provisioned_by.as_deref() {
        None | Some("") => {}
        Some(HOST_PATH) => return host_path(volume),
        Some(name) if !name.starts_with(PREFIX) => return Deletion::External,
        Some(name) if PASSIVE.contains(&name) => {
            return Deletion::Impossible("no deletable volume plugin matched".to_owned());
        }
        Some(name) => return Deletion::Impossible(format!("no volume plugin matched name: {name}")),
    }
    if annotations.migrated_to.is_some() || volume.spec.csi.is_some() {
        return Deletion::External;
    }
    if volume.spec.host_path.is_some() {
        return host_path(volume);
    }
    let trouble = if volume.spec.nfs.is_some() {
        "no deletable volume plugin matched"
    } else {
        "no volume plugin matched"
    };
    let name = &volume.metadata.name;
    Deletion::Impossible(format!("error getting deleter volume plugin for volume {name:?}: {trouble}"))
}

/// Directories are for trying things out on one machine. No guest can reach
/// one, so what is in it stays.
fn host_path(volume: &Volume) -> Deletion {
    let Some(source) = &volume.spec.host_path else {
        let name = &volume.metadata.name;
        return Deletion::Impossible(format!(
            "failed to create deleter for volume {name:?}: spec.PersistentVolumeSource.HostPath is nil"
        ));
    };
    let below = source.path.split_once(DELETABLE_BELOW).is_some_and(|(_, rest)| !rest.is_empty());
    if below {
        return Deletion::ObjectOnly;
    }
    let path = &source.path;
    Deletion::Impossible(format!("host_path deleter only supports /tmp/.+ but received provided {path}"))
}
