//! Flags for what a new version goes through before it is live.

use std::path::PathBuf;

use coxswain::manager::{CanaryRule, Rollout};

/// Flags of `run` and `demo`.
#[derive(clap::Args)]
pub struct RolloutArgs {
    /// A candidate that computes beside a controller and writes nothing; its
    /// plans are compared (see `coxswain shadow`). The file is followed.
    #[arg(long = "shadow", value_name = "NAME=FILE", value_parser = shadow)]
    shadows: Vec<(String, PathBuf)>,
    /// A new version goes live once it has decided as the one that runs in so
    /// many reconciles; one that decides otherwise is held (see `coxswain
    /// promote`). 0: it is not compared.
    #[arg(long, value_name = "RECONCILES", default_value_t = 0)]
    swap_through_shadow: u64,
    /// A new version first has a share of the keys for a while; if it faults, it
    /// is refused.
    #[arg(long, value_name = "SHARE:TIME")]
    swap_canary: Option<CanaryRule>,
    /// The same for one controller, by its name or short name; wins over
    /// --swap-canary. May be given again.
    #[arg(long = "canary", value_name = "NAME=SHARE[:TIME]", value_parser = canary)]
    canaries: Vec<(String, CanaryRule)>,
}

fn canary(text: &str) -> Result<(String, CanaryRule), String> {
    match text.split_once('=') {
        Some((name, rule)) if !name.is_empty() => Ok((name.into(), rule.parse()?)),
        _ => Err("expected NAME=SHARE, such as job-controller=10%:5m".into()),
    }
}

fn shadow(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => Ok((name.into(), file.into())),
        _ => Err("expected NAME=FILE, such as job-controller=./job-controller.wasm".into()),
    }
}

impl RolloutArgs {
    /// As the manager takes it.
    pub fn rollout(&self) -> Rollout {
        Rollout {
            shadows: self.shadows.clone(),
            agreements: self.swap_through_shadow,
            canary: self.swap_canary,
            canaries: self.canaries.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_controller_may_have_a_share_of_its_own() {
        let rule = |percent, seconds| CanaryRule { percent, hold: Duration::from_secs(seconds) };
        let rollout = Rollout {
            canary: Some(rule(50, 60)),
            canaries: ["job=10%:1m", "job-controller=20"].map(|text| canary(text).unwrap()).into(),
            ..Rollout::default()
        };
        assert_eq!(rollout.canary("job-controller", &["job".into()]), Some(rule(20, 300)));
        assert_eq!(rollout.canary("other", &["job".into()]), Some(rule(10, 60)));
        assert_eq!(rollout.canary("other", &[]), Some(rule(50, 60)));
        for text in ["job", "=10%", "job=", "job=0%", "job=100%", "job=10%:soon"] {
            assert!(canary(text).is_err(), "{text}");
        }
    }
}
