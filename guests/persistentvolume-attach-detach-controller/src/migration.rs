//! Volumes of what was built in once: the CSI volume that each has become.
//!
//! The drivers that took over find the volume by a handle made of its old
//! source. Azure files are left out: their driver attaches nothing.

use coxswain_sdk::migration::{AWS_EBS, AZURE_DISK, CINDER, GCE_PD, PORTWORX, VSPHERE};

use crate::view::{Csi, Volume};

const ZONE_LABELS: [&str; 2] = ["failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"];
/// Between the zones of a volume that is in several.
const ZONE_SEPARATOR: &str = "__";

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
    const ONCE: &str = "ReadWriteOnce";
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
    Some(format!("projects/UNSPECIFIED/{place}/disks/{disk}"))
}
