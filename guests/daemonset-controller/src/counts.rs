//! How many pods may be missing or too many during an update.

use coxswain_sdk::intstr::IntOrString;

use crate::view::UpdateStrategy;

/// How an update goes about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Somebody else deletes the pods, or nobody.
    Not,
    /// Old pods are deleted; so many may be unavailable.
    Unavailable(usize),
    /// New pods are made beside the old ones, so many at most.
    Surge(usize),
}

const ROLLING: &str = "RollingUpdate";

/// Whether two pods may be on a node during an update.
pub fn allows_surge(strategy: &UpdateStrategy) -> bool {
    surge(strategy, 1).is_ok_and(|surge| surge > 0)
}

/// How an update of pods on so many nodes goes about.
pub fn way(strategy: &UpdateStrategy, nodes: usize) -> Result<Way, String> {
    if strategy.kind != ROLLING {
        return Ok(Way::Not);
    }
    let surge = surge(strategy, nodes).map_err(|e| format!("invalid value for MaxSurge: {e}"))?;
    if surge > 0 {
        return Ok(Way::Surge(surge));
    }
    let rolling = strategy.rolling_update.as_ref();
    let unavailable = scaled(rolling.and_then(|rolling| rolling.max_unavailable.as_ref()), nodes)
        .map_err(|e| format!("invalid value for MaxUnavailable: {e}"))?;
    // Neither would mean that nothing ever gets on.
    Ok(Way::Unavailable(if nodes > 0 { unavailable.max(1) } else { unavailable }))
}

fn surge(strategy: &UpdateStrategy, nodes: usize) -> Result<usize, String> {
    if strategy.kind != ROLLING {
        return Ok(0);
    }
    scaled(strategy.rolling_update.as_ref().and_then(|rolling| rolling.max_surge.as_ref()), nodes)
}

fn scaled(number: Option<&IntOrString>, nodes: usize) -> Result<usize, String> {
    let Some(number) = number else { return Ok(0) };
    let nodes = i32::try_from(nodes).unwrap_or(i32::MAX);
    Ok(usize::try_from(number.scaled(nodes, true)?).unwrap_or(0))
}
