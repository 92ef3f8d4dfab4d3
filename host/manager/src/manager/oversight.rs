//! What an operator watches and holds controllers with: recordings and a policy.

use std::path::PathBuf;

use crate::recording::RecordConfig;

/// How controllers are overseen. Nothing is recorded and everything that
/// manifests declare is allowed, unless it says otherwise.
#[derive(Clone, Debug, Default)]
pub struct Oversight {
    /// Where and how to record.
    pub record: Option<RecordConfig>,
    /// A file that says what controllers may do; followed for changes.
    pub policy: Option<PathBuf>,
}
