//! `--limit`: what each controller may use.

use coxswain::limits::{LimitRule, LimitRules};

/// Flags about limits.
#[derive(clap::Args)]
pub struct LimitArgs {
    /// Limit of a controller, or of all of them; may be given again. KIND is one of deadline (computing
    /// in one reconcile; default 5s), memory (256Mi), plan-actions (20000), plan-bytes (64Mi), lookups
    /// (per reconcile; 10000), log-lines (per second; 20) and state-bytes (per key; 4Mi).
    #[arg(long = "limit", value_name = "[CONTROLLER.]KIND=VALUE")]
    limits: Vec<LimitRule>,
}

impl LimitArgs {
    /// The rules they come to.
    pub fn rules(&self) -> LimitRules {
        LimitRules::new(self.limits.clone())
    }
}
