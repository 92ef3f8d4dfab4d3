//! Volumes that are attached to nodes: their names, and who attaches them.

use coxswain_sdk::{Ctx, Result};
use sha2::{Digest, Sha256};

use crate::migration::csi_of;
use crate::view::{Csi, Driver, Fc, Iscsi, Volume};

const CSI: &str = "kubernetes.io/csi/";
const FC: &str = "kubernetes.io/fc/";
const ISCSI: &str = "kubernetes.io/iscsi/";
/// The plugin of Fibre Channel volumes.
pub const FC_PLUGIN: &str = "kubernetes.io/fc";
/// The plugin of iSCSI volumes.
pub const ISCSI_PLUGIN: &str = "kubernetes.io/iscsi";

/// A volume that is attached before it is mounted.
#[derive(Clone, Debug, PartialEq)]
pub struct Attachable {
    /// Name that nodes list it under.
    pub name: String,
    /// The CSI driver that attaches it, and what that calls it. None where the
    /// node itself does, and only the list has to say so.
    pub driver: Option<(String, String)>,
}

impl Attachable {
    /// What a volume is, if it is attachable at all.
    pub fn of_volume(ctx: &Ctx<'_>, volume: &Volume) -> Result<Option<Self>> {
        let spec = &volume.spec;
        if let Some(csi) = csi_of(volume) {
            return Self::of_csi(ctx, &csi);
        }
        Ok(spec.fc.as_ref().and_then(Self::fc).or_else(|| spec.iscsi.as_ref().map(Self::iscsi)))
    }

    /// What a volume of a CSI driver is, if the driver attaches its volumes.
    pub fn of_csi(ctx: &Ctx<'_>, csi: &Csi) -> Result<Option<Self>> {
        let needs = ctx.get::<Driver>("", &csi.driver)?.is_none_or(|driver| {
            // Attaching is the default of a driver that does not say.
            driver.spec.attach_required != Some(false)
        });
        Ok(needs.then(|| Self::csi(&csi.driver, &csi.volume_handle)))
    }

    /// A volume of a CSI driver.
    pub fn csi(driver: &str, handle: &str) -> Self {
        Self { name: format!("{CSI}{driver}^{handle}"), driver: Some((driver.to_owned(), handle.to_owned())) }
    }

    /// A Fibre Channel volume.
    pub fn fc(fc: &Fc) -> Option<Self> {
        let name = match fc.lun {
            Some(lun) if !fc.target_wwns.is_empty() => format!("{FC}[{}]:{lun}", fc.target_wwns.join(" ")),
            _ if !fc.wwids.is_empty() => format!("{FC}[{}]", fc.wwids.join(" ")),
            _ => return None,
        };
        Some(Self { name, driver: None })
    }

    /// An iSCSI volume.
    pub fn iscsi(iscsi: &Iscsi) -> Self {
        let name = format!("{ISCSI}{}:{}:{}", iscsi.target_portal, iscsi.iqn, iscsi.lun);
        Self { name, driver: None }
    }

    /// What a node lists. None for what is not ours to judge.
    pub fn of_name(name: &str) -> Option<Self> {
        if let Some(rest) = name.strip_prefix(CSI) {
            // No driver's name has such a mark, but a handle may.
            let (driver, handle) = rest.split_once('^')?;
            return Some(Self::csi(driver, handle));
        }
        let passive = name.starts_with(FC) || name.starts_with(ISCSI);
        passive.then(|| Self { name: name.to_owned(), driver: None })
    }

    /// The plugin that it is of.
    pub fn plugin(&self) -> String {
        match &self.driver {
            Some((driver, _)) => csi_plugin(driver),
            None if self.name.starts_with(FC) => FC_PLUGIN.to_owned(),
            None => ISCSI_PLUGIN.to_owned(),
        }
    }

    /// Name of the object that has it attached to a node.
    pub fn attachment_name(&self, node: &str) -> Option<String> {
        let (driver, handle) = self.driver.as_ref()?;
        let mut hash = Sha256::new();
        for part in [handle, driver, node] {
            hash.update(part.as_bytes());
        }
        let digits = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        Some(format!("csi-{digits}"))
    }
}

/// The plugin of volumes of a CSI driver, as it is called in full.
pub fn csi_plugin(driver: &str) -> String {
    format!("kubernetes.io/csi:{driver}")
}

/// The plugin of what a volume object is of, attachable or not. None for what is
/// of neither sort.
pub fn plugin_of(volume: &Volume) -> Option<String> {
    let spec = &volume.spec;
    let built_in = || spec.fc.as_ref().map(|_| FC_PLUGIN).or(spec.iscsi.as_ref().map(|_| ISCSI_PLUGIN));
    csi_of(volume).map(|csi| csi_plugin(&csi.driver)).or_else(|| built_in().map(str::to_owned))
}

/// Whether a volume may be attached to several nodes at once. One that does not
/// say is left to its driver.
pub fn is_shareable(access_modes: &[String]) -> bool {
    access_modes.is_empty()
        || access_modes.iter().any(|mode| matches!(mode.as_str(), "ReadWriteMany" | "ReadOnlyMany"))
}
