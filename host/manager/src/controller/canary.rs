//! A new version that has a share of the keys.
//!
//! In: a version whose key sources are those of the one that runs, and a share.
//! Out: which of the two reconciles a key. Kept: a key belongs to one version at
//! a time, always to the same one for the same share; queue, barriers and state
//! are the controller's, so they cross over in either direction.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Controller, Loaded};
use crate::{
    engine::short,
    key::{Cause, Key, Wake},
};

/// A version with a share of the keys.
pub struct Canary {
    loaded: Arc<Loaded>,
    percent: u8,
    since: jiff::Timestamp,
    until: jiff::Timestamp,
    reconciles: AtomicU64,
    through: AtomicBool,
    off: AtomicBool,
}

/// A canary, for `coxswain status`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CanaryStatus {
    /// Version, as the module calls itself.
    pub version: String,
    /// sha256 of the file.
    pub hash: String,
    /// Its share of the keys.
    pub percent: u8,
    /// Since when.
    pub since: jiff::Timestamp,
    /// When it goes live, if nothing speaks against it.
    pub until: jiff::Timestamp,
    /// Reconciles that it had.
    pub reconciles: u64,
}

impl CanaryStatus {
    /// One line, for people.
    pub fn summary(&self) -> String {
        let hash = short(&self.hash);
        format!(
            "{} ({hash}): has {}% of the keys and {} reconciles, goes live at {:.0}",
            self.version, self.percent, self.reconciles, self.until
        )
    }
}

/// Whether a key is in a share. Depends on nothing but its name, so that it
/// stays where it is over restarts, and a larger share holds all of a smaller one.
fn in_share(key: &Key, percent: u8) -> bool {
    let mut hash = Sha256::new();
    hash.update(key.namespace.as_bytes());
    hash.update([0]);
    hash.update(key.name.as_bytes());
    let [high, low, ..] = *hash.finalize().first_chunk::<32>().unwrap_or(&[0; 32]);
    u32::from(u16::from_be_bytes([high, low])) * 100 < u32::from(percent) << 16
}

impl Canary {
    /// A version that gets `percent` of the keys.
    pub fn new(
        loaded: Arc<Loaded>,
        percent: u8,
        since: jiff::Timestamp,
        until: jiff::Timestamp,
    ) -> Arc<Self> {
        let (reconciles, through, off) = (AtomicU64::new(0), AtomicBool::new(false), AtomicBool::new(false));
        Arc::new(Self { loaded, percent, since, until, reconciles, through, off })
    }

    /// The canary as it is now.
    pub fn status(&self) -> CanaryStatus {
        CanaryStatus {
            version: self.loaded.module.manifest().version.clone(),
            hash: self.loaded.module.hash().to_owned(),
            percent: self.percent,
            since: self.since,
            until: self.until,
            reconciles: self.reconciles.load(Ordering::Relaxed),
        }
    }

    /// Why it must not have keys any more, if something speaks against it.
    pub fn fault(&self) -> Option<String> {
        self.loaded.probation.last_strike()
    }

    /// Whether this is the version that has the share.
    pub fn is_of(&self, loaded: &Arc<Loaded>) -> bool {
        Arc::ptr_eq(&self.loaded, loaded)
    }

    /// Ends its time.
    pub fn let_through(&self) {
        self.through.store(true, Ordering::Relaxed);
    }

    /// Has its keys taken back.
    pub fn call_off(&self) {
        self.off.store(true, Ordering::Relaxed);
    }

    /// Whether [`Canary::call_off`] was called.
    pub fn is_called_off(&self) -> bool {
        self.off.load(Ordering::Relaxed)
    }

    /// Whether [`Canary::let_through`] was called.
    pub fn is_through(&self) -> bool {
        self.through.load(Ordering::Relaxed)
    }
}

impl Controller {
    /// The version that reconciles a key.
    pub(super) fn version_for(&self, key: &Key) -> Arc<Loaded> {
        let versions = self.versions.read();
        match versions.canary.as_ref().filter(|canary| in_share(key, canary.percent)) {
            Some(canary) => canary.loaded.clone(),
            None => versions.current.clone(),
        }
    }

    /// Counts a reconcile by a canary.
    pub(super) fn note_canary(&self, loaded: &Arc<Loaded>) {
        if let Some(canary) = self.versions.read().canary.as_ref().filter(|canary| canary.is_of(loaded)) {
            canary.reconciles.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The canary, if there is one.
    pub fn canary(&self) -> Option<Arc<Canary>> {
        self.versions.read().canary.clone()
    }

    /// Whether a version can share the keys with the one that runs: both number
    /// and make them alike.
    pub fn can_share_keys(&self, loaded: &Loaded) -> bool {
        loaded.module.manifest().sources == self.current().module.manifest().sources
    }

    /// Gives a version its share of the keys. It must be able to share them.
    pub fn start_canary(&self, canary: &Arc<Canary>) {
        canary.loaded.probation.excuse(self.struck.excuses(None));
        canary.loaded.view.adopt(&self.current().view);
        let before = self.versions.write().canary.replace(canary.clone());
        // Not under the lock: a version that goes lets go of its part in the store.
        drop(before);
        self.wake_share(canary);
    }

    /// Takes the keys back; they are looked at anew by the version that runs.
    pub fn end_canary(&self) {
        let canary = self.versions.write().canary.take();
        if let Some(canary) = canary {
            self.current().view.adopt(&canary.loaded.view);
            self.wake_share(&canary);
        }
    }

    fn wake_share(&self, canary: &Canary) {
        let keys = self.current().view.keys();
        keys.iter()
            .filter(|key| in_share(key, canary.percent))
            .for_each(|key| self.queue.wake(key, Cause::Bulk));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_about_as_large_as_asked_for_and_stays() {
        let key = |n: u32| Key {
            source: 0,
            resource: 1,
            namespace: format!("ns-{}", n % 7).into(),
            name: format!("web-{n}").into(),
        };
        let share = |percent| -> Vec<u32> { (0..10_000).filter(|n| in_share(&key(*n), percent)).collect() };
        assert!(share(0).is_empty());
        assert_eq!(share(100).len(), 10_000);
        let ten = share(10);
        assert!((900..1100).contains(&ten.len()), "{}", ten.len());
        let twenty = share(20);
        assert!(ten.iter().all(|n| twenty.contains(n)));
    }
}
