//! Volumes of what was built in once: the CSI volume that each has become.
//!
//! The drivers that took over find the volume by a handle made of its old
//! source. Azure files are left out: their driver attaches nothing.

use coxswain_sdk::migration::{AWS_EBS, AZURE_DISK, CINDER, GCE_PD, PORTWORX, VSPHERE};
use serde_json::{Map, Value, json};

use crate::view::{Csi, PodVolume, Volume};

const ZONE_LABELS: [&str; 2] = ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];
/// Between the zones of a volume that is in several.
const ZONE_SEPARATOR: &str = "__";

const ONCE: &str = "ReadWriteOnce";

/// A volume that a pod names without a claim, as its driver takes it.
#[derive(Clone, Debug, PartialEq)]
pub struct Inline {
    /// The CSI volume that it is.
    pub csi: Csi,
    /// Its name in words to users.
    pub title: String,
    /// How it may be mounted.
    pub access_mode: &'static str,
    /// The spec that a volume object would have.
    pub spec: Value,
}

/// The CSI volume that a pod's volume has become, if it was built in once.
pub fn inline(volume: &PodVolume) -> Option<Inline> {
    let text = |source: &Value, field: &str| source[field].as_str().unwrap_or_default().to_owned();
    let partition = |source: &Value| source["partition"].as_i64().unwrap_or_default();
    let mut attributes = Map::new();
    let (kind, source, handle, name) = if let Some(source) = &volume.aws_elastic_block_store {
        attributes.insert("partition".to_owned(), json!(partition(source).to_string()));
        let handle = aws_handle(&text(source, "volumeID"))?;
        (AWS_EBS, source, handle.clone(), handle)
    } else if let Some(source) = &volume.gce_persistent_disk {
        let number = Some(partition(source)).filter(|number| *number != 0);
        attributes.insert("partition".to_owned(), json!(number.map(|n| n.to_string()).unwrap_or_default()));
        let disk = text(source, "pdName");
        (GCE_PD, source, gce_disk("zones/UNSPECIFIED", &disk), disk)
    } else if let Some(source) = &volume.azure_disk {
        const MANAGED: &str = "managed";
        if source["kind"].as_str().is_some_and(|kind| !kind.eq_ignore_ascii_case(MANAGED)) {
            return None;
        }
        attributes.insert("kind".to_owned(), json!(MANAGED));
        for (field, attribute) in [("cachingMode", "cachingmode"), ("fsType", "fstype")] {
            if let Some(value) = source[field].as_str().filter(|value| !value.is_empty()) {
                attributes.insert(attribute.to_owned(), json!(value));
            }
        }
        let place = text(source, "diskURI");
        (AZURE_DISK, source, place.clone(), place)
    } else {
        let (kind, source, field) = if let Some(source) = &volume.cinder {
            (CINDER, source, "volumeID")
        } else if let Some(source) = &volume.vsphere_volume {
            (VSPHERE, source, "volumePath")
        } else {
            (PORTWORX, volume.portworx_volume.as_ref()?, "volumeID")
        };
        let handle = text(source, field);
        (kind, source, handle.clone(), handle)
    };
    let is_read_only = source["readOnly"].as_bool().unwrap_or_default();
    let is_read_by_many = is_read_only && [GCE_PD, PORTWORX].contains(&kind);
    let access_mode = if is_read_by_many { "ReadOnlyMany" } else { ONCE };
    let mut csi = json!({ "driver": kind.driver, "volumeHandle": handle });
    if is_read_only && ![PORTWORX, VSPHERE].contains(&kind) {
        csi["readOnly"] = json!(true);
    }
    if let Some(filesystem) = source["fsType"].as_str().filter(|filesystem| !filesystem.is_empty()) {
        csi["fsType"] = json!(filesystem);
    }
    if !attributes.is_empty() {
        csi["volumeAttributes"] = Value::Object(attributes);
    }
    // No block device can be named without a claim.
    let spec = json!({ "csi": csi, "accessModes": [access_mode], "volumeMode": "Filesystem" });
    let title = if kind == AZURE_DISK { name } else { format!("{}-{name}", kind.driver) };
    let csi = Csi { driver: kind.driver.to_owned(), volume_handle: handle };
    Some(Inline { csi, title, access_mode, spec })
}

/// The CSI volume that a volume is, whatever its source says.
pub fn csi_of(volume: &Volume) -> Option<Csi> {
    let spec = &volume.spec;
    let made = |driver: &str, handle: String| Some(Csi { driver: driver.to_owned(), volume_handle: handle });
    if let Some(csi) = &spec.csi {
        Some(csi.clone())
    } else if let Some(source) = &spec.aws_elastic_block_store {
        made(AWS_EBS.driver, aws_handle(&source.volume_id)?)
    } else if let Some(source) = &spec.gce_persistent_disk {
        made(GCE_PD.driver, gce_handle(volume, &source.pd_name)?)
    } else if let Some(source) = &spec.azure_disk {
        made(AZURE_DISK.driver, source.disk_uri.clone())
    } else if let Some(source) = &spec.cinder {
        made(CINDER.driver, source.volume_id.clone())
    } else if let Some(source) = &spec.vsphere_volume {
        made(VSPHERE.driver, source.volume_path.clone())
    } else if let Some(source) = &spec.portworx_volume {
        made(PORTWORX.driver, source.volume_id.clone())
    } else {
        None
    }
}

/// Access modes as the driver takes them. No disk of Google is written by many
/// nodes, nor written by one and read by others, though both could once be asked
/// for.
pub fn access_modes(volume: &Volume) -> Vec<String> {
    let modes = &volume.spec.access_modes;
    let writes = modes.iter().any(|mode| mode == ONCE || mode == "ReadWriteMany");
    if volume.spec.gce_persistent_disk.is_some() && writes {
        return vec![ONCE.to_owned()];
    }
    modes.clone()
}

/// `vol-1`, or `aws://ZONE/vol-1`.
fn aws_handle(id: &str) -> Option<String> {
    let Some(rest) = id.strip_prefix("aws://") else { return Some(id.to_owned()) };
    let (_, path) = rest.split_once('/')?;
    let name = path.trim_matches('/');
    (name.starts_with("vol-") && !name.contains('/')).then(|| name.to_owned())
}

/// Where a disk is, as far as its labels tell.
fn gce_handle(volume: &Volume, disk: &str) -> Option<String> {
    let labels = &volume.metadata.labels;
    let zones = ZONE_LABELS.iter().find_map(|label| labels.get(*label).filter(|zones| !zones.is_empty()));
    let place = match zones.map(|zones| zones.split(ZONE_SEPARATOR).collect::<Vec<_>>()).as_deref() {
        None => "zones/UNSPECIFIED".to_owned(),
        Some([zone]) => format!("zones/{zone}"),
        Some(zones) => {
            // A zone is its region and one part more.
            let mut regions: Vec<&str> = zones
                .iter()
                .map(|zone| zone.rsplit_once('-').map(|(region, _)| region))
                .collect::<Option<_>>()?;
            regions.dedup();
            let [region] = regions.as_slice() else { return None };
            format!("regions/{region}")
        }
    };
    Some(gce_disk(&place, disk))
}

fn gce_disk(place: &str, disk: &str) -> String {
    format!("projects/UNSPECIFIED/{place}/disks/{disk}")
}
