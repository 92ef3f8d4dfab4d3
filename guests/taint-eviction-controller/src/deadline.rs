//! When a pod must leave a node.

use std::time::Duration;

use coxswain_sdk::Time;
use coxswain_sdk::taints::{Taint, Toleration};

/// A taint, and since when the pods of the node have had to bear it.
#[derive(Clone, Copy, Debug)]
pub struct Borne<'a> {
    /// The taint.
    pub taint: &'a Taint,
    /// Since when.
    pub since: Time,
}

/// When a pod must leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// It need not.
    Never,
    /// It may stay until then.
    At(Time),
    /// One of the taints is not tolerated at all.
    AtOnce,
}

/// When a pod with these tolerations, which came to the node at that time, must
/// leave: the earliest of what the taints give. Of several tolerations of a
/// taint the first counts.
pub fn deadline(borne: &[Borne<'_>], tolerations: &[Toleration], bound_at: Option<Time>) -> Deadline {
    let mut earliest: Option<Time> = None;
    for Borne { taint, since } in borne {
        let Some(toleration) = tolerations.iter().find(|toleration| toleration.tolerates(taint)) else {
            return Deadline::AtOnce;
        };
        let Some(seconds) = toleration.toleration_seconds else { continue };
        let Some(seconds) = u64::try_from(seconds).ok().filter(|seconds| *seconds > 0) else {
            return Deadline::AtOnce;
        };
        let since = bound_at.map_or(*since, |bound| bound.max(*since));
        let at = since + Duration::from_secs(seconds);
        earliest = Some(earliest.map_or(at, |before| before.min(at)));
    }
    earliest.map_or(Deadline::Never, Deadline::At)
}
