//! Storage classes: which one an object has, which one is the default.

use coxswain_sdk::{Ctx, Error, Object, Query, Result};

use crate::view::{Claim, Class, Volume};

const WAIT_FOR_FIRST_CONSUMER: &str = "WaitForFirstConsumer";

/// Class of a claim; empty if it has none. The annotation comes first.
pub fn of_claim(claim: &Claim) -> &str {
    let field = claim.spec.storage_class_name.as_deref();
    claim.metadata.annotations.beta_class.as_deref().or(field).unwrap_or_default()
}

/// Whether a claim says anything about its class, be it that it wants none.
pub fn is_chosen(claim: &Claim) -> bool {
    claim.metadata.annotations.beta_class.is_some() || claim.spec.storage_class_name.is_some()
}

/// Class of a volume; empty if it has none. The annotation comes first.
pub fn of_volume(volume: &Volume) -> &str {
    volume.metadata.annotations.beta_class.as_deref().unwrap_or(&volume.spec.storage_class_name)
}

/// Whether claims of this class wait for a pod.
pub fn waits_for_consumer(ctx: &Ctx<'_>, class: &str) -> Result<bool> {
    if class.is_empty() {
        return Ok(false);
    }
    let Some(found) = ctx.get::<Class>("", class)? else { return Ok(false) };
    match found.volume_binding_mode.as_deref() {
        Some(mode) => Ok(mode == WAIT_FOR_FIRST_CONSUMER),
        None => Err(Error::Terminal(format!("VolumeBindingMode not set for StorageClass {class:?}"))),
    }
}

/// Name of the class for claims that leave it open: of several default ones the
/// newest, of equally new ones the first by name.
pub fn default_name(ctx: &Ctx<'_>) -> Result<Option<String>> {
    let classes = ctx.list::<Class>(Query::all())?;
    Ok(newest_default(&classes).map(|class| class.metadata.name.clone()))
}

pub(crate) fn newest_default(classes: &[Object<Class>]) -> Option<&Object<Class>> {
    let is_true = |value: &Option<String>| value.as_deref() == Some("true");
    let defaults = classes.iter().filter(|class| {
        is_true(&class.metadata.annotations.is_default)
            || is_true(&class.metadata.annotations.beta_is_default)
    });
    defaults.min_by(|a, b| {
        let (a, b) = (&a.metadata, &b.metadata);
        b.creation_timestamp.cmp(&a.creation_timestamp).then_with(|| a.name.cmp(&b.name))
    })
}
