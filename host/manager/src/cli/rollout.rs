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
        }
    }
}
