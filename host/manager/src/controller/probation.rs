//! Whether a version of a module is fit to go on.
//!
//! In: how its reconciles end. Out: one notice, if its first ones go wrong too
//! often, and a pause before the next one while nothing but faults comes of it,
//! whatever the key. One key alone says little about a version: an object may be
//! to blame. One that already went wrong under the version before says nothing.

use std::{
    collections::HashSet,
    sync::atomic::{AtomicBool, AtomicU32, Ordering},
    time::Duration,
};

use parking_lot::Mutex;

use crate::key::Key;

/// Reconciles after which a version has proved itself.
pub const FIRST: u32 = 200;
/// Strikes among them that end it, if they are more than a few in a hundred.
const STRIKES: u32 = 3;
/// One strike in so many reconciles is the least share that counts.
const SHARE: u32 = 10;
/// Keys that must have gone wrong, if others went well.
const KEYS: usize = 2;
/// Keys that must have gone wrong in a row for the controller as a whole to be
/// slowed. Fewer wait for their own backoff alone.
const KEYS_IN_A_ROW: usize = 3;
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// Told once, with the reason, when a version is found unfit.
pub type Unfit = Box<dyn Fn(String) + Send + Sync>;

/// How one version does.
#[derive(Default)]
pub struct Probation {
    excused: Mutex<HashSet<Key>>,
    unfit: Option<Unfit>,
    reconciles: AtomicU32,
    strikes: AtomicU32,
    fair: AtomicU32,
    /// Faults since anything else came of a reconcile.
    in_a_row: AtomicU32,
    keys: Mutex<Keys>,
    told: AtomicBool,
    last: Mutex<String>,
}

/// Keys that went wrong; as many as matter.
#[derive(Default)]
struct Keys {
    ever: HashSet<Key>,
    in_a_row: HashSet<Key>,
}

impl Probation {
    /// A version under watch.
    pub fn new(unfit: Unfit) -> Self {
        Self { unfit: Some(unfit), ..Self::default() }
    }

    /// Counts nothing against the version that happens to these keys.
    pub fn excuse(&self, keys: HashSet<Key>) {
        *self.excused.lock() = keys;
    }

    /// If the version was found unfit: the keys that had gone wrong before it came.
    /// What it made of the others says nothing of its successor.
    pub fn struck_before(&self) -> Option<HashSet<Key>> {
        self.told.load(Ordering::Relaxed).then(|| self.excused.lock().clone())
    }

    /// A reconcile came to an outcome, whichever.
    pub fn fair(&self) {
        self.reconciles.fetch_add(1, Ordering::Relaxed);
        self.fair.fetch_add(1, Ordering::Relaxed);
        if self.in_a_row.load(Ordering::Relaxed) > 0 {
            self.in_a_row.store(0, Ordering::Relaxed);
            self.keys.lock().in_a_row.clear();
        }
    }

    /// A reconcile ended by a fault of the module, or by a plan that cannot be
    /// carried out.
    pub fn strike(&self, key: &Key, reason: &str) {
        let reconciles = self.reconciles.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        self.in_a_row.fetch_add(1, Ordering::Relaxed);
        *self.last.lock() = format!("{key}: {reason}");
        {
            let mut keys = self.keys.lock();
            if keys.in_a_row.len() < KEYS_IN_A_ROW {
                keys.in_a_row.insert(key.clone());
            }
        }
        if self.excused.lock().contains(key) {
            return;
        }
        let strikes = self.strikes.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        let keys = {
            let mut keys = self.keys.lock();
            if keys.ever.len() < KEYS {
                keys.ever.insert(key.clone());
            }
            keys.ever.len()
        };
        let enough = strikes >= STRIKES && strikes.saturating_mul(SHARE) >= reconciles;
        let widely = keys >= KEYS || self.fair.load(Ordering::Relaxed) == 0;
        if reconciles <= FIRST && enough && widely {
            if !self.told.swap(true, Ordering::Relaxed) {
                if let Some(unfit) = &self.unfit {
                    unfit(format!(
                        "{strikes} of its first {reconciles} reconciles failed, the last one of {key}: {reason}"
                    ));
                }
            }
        }
    }

    /// What was last held against the version.
    pub fn last_strike(&self) -> Option<String> {
        let struck = self.strikes.load(Ordering::Relaxed) > 0;
        struck.then(|| self.last.lock().clone())
    }

    /// Whether nothing has been held against the version.
    pub fn is_clean(&self) -> bool {
        self.strikes.load(Ordering::Relaxed) == 0 || self.reconciles.load(Ordering::Relaxed) > FIRST
    }

    /// How long the controller waits before its next reconcile: no time, unless
    /// faults are all that has come of it. If some keys do well, those that do not
    /// wait for their own backoff, and nobody waits for them.
    pub fn pause(&self) -> Duration {
        let in_a_row = self.in_a_row.load(Ordering::Relaxed);
        // Nearly always it is none, and there is no need to look further.
        if in_a_row == 0
            || self.fair.load(Ordering::Relaxed) > 0
            || self.keys.lock().in_a_row.len() < KEYS_IN_A_ROW
        {
            return Duration::ZERO;
        }
        match in_a_row.saturating_sub(KEYS_IN_A_ROW as u32 - 1) {
            0 => Duration::ZERO,
            n => FIRST_PAUSE.saturating_mul(1u32.checked_shl(n - 1).unwrap_or(u32::MAX)).min(LONGEST_PAUSE),
        }
    }

    /// What to tell the operator while the controller is slowed.
    pub fn trouble(&self) -> Option<String> {
        let pause = self.pause();
        if pause.is_zero() {
            return None;
        }
        let in_a_row = self.in_a_row.load(Ordering::Relaxed);
        let last = self.last.lock().clone();
        Some(format!("its last {in_a_row} reconciles all failed; it is slowed to one in {pause:?} ({last})"))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn key(name: &str) -> Key {
        Key { source: 0, resource: 1, namespace: "default".into(), name: name.into() }
    }

    fn watched() -> (Probation, Arc<Mutex<Vec<String>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = told.clone();
        (Probation::new(Box::new(move |reason| to.lock().push(reason))), told)
    }

    fn strikes(probation: &Probation, names: &[&str]) {
        names.iter().for_each(|name| probation.strike(&key(name), "trap"));
    }

    #[test]
    fn three_strikes_at_once_are_told_once() {
        let (probation, told) = watched();
        probation.fair();
        strikes(&probation, &["a", "b"]);
        assert!(told.lock().is_empty());
        strikes(&probation, &["a", "b"]);
        let expected = "3 of its first 4 reconciles failed, the last one of default/a: trap";
        assert_eq!(*told.lock(), [expected]);
        assert!(!probation.is_clean());
    }

    #[test]
    fn one_key_is_to_blame_itself_if_others_do_well() {
        let (probation, told) = watched();
        probation.fair();
        strikes(&probation, &["a"; 50]);
        assert!(told.lock().is_empty());
        // A controller that has only one key has no others.
        let (probation, told) = watched();
        strikes(&probation, &["a"; 3]);
        assert_eq!(told.lock().len(), 1);
    }

    #[test]
    fn few_among_many_and_late_ones_are_borne() {
        let (probation, told) = watched();
        (0..60).for_each(|_| probation.fair());
        strikes(&probation, &["a", "b", "c", "d"]);
        (0..FIRST).for_each(|_| probation.fair());
        (0..FIRST).for_each(|_| strikes(&probation, &["a", "b"]));
        assert!(told.lock().is_empty());
        assert!(probation.is_clean(), "it has proved itself");
    }

    #[test]
    fn what_went_wrong_before_is_not_held_against_it() {
        let (probation, told) = watched();
        probation.excuse([key("a"), key("b")].into());
        strikes(&probation, &["a", "b", "a", "b"]);
        assert!(told.lock().is_empty() && probation.is_clean());
        assert_eq!(probation.struck_before(), None, "it is not unfit");
        strikes(&probation, &["c", "d", "c"]);
        assert_eq!(told.lock().len(), 1);
        assert_eq!(probation.struck_before(), Some([key("a"), key("b")].into()));
    }

    #[test]
    fn a_version_that_only_fails_is_slowed_and_one_success_ends_it() {
        let (probation, _) = watched();
        strikes(&probation, &["a"; 50]);
        assert_eq!(
            (probation.pause(), probation.trouble()),
            (Duration::ZERO, None),
            "its own backoff will do"
        );
        let (probation, _) = watched();
        strikes(&probation, &["a", "b"]);
        assert_eq!(probation.pause(), Duration::ZERO);
        strikes(&probation, &["c"]);
        assert_eq!(probation.pause(), Duration::from_millis(100));
        strikes(&probation, &["a"]);
        assert_eq!(probation.pause(), Duration::from_millis(200));
        assert!(probation.trouble().unwrap().contains("its last 4 reconciles all failed"));
        strikes(&probation, &["a"; 40]);
        assert_eq!(probation.pause(), LONGEST_PAUSE);
        probation.fair();
        assert_eq!(probation.pause(), Duration::ZERO);
        strikes(&probation, &["a", "b", "c", "d"]);
        assert_eq!(probation.pause(), Duration::ZERO, "it is not the module as a whole");
    }
}
