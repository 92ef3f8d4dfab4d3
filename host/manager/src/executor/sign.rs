//! The keys that `sign` lookups may name.

use crate::contract::{Failure, SignWhat};

/// Keys that only the host holds.
pub trait SigningKeys: Send + Sync {
    /// Signs with the key of this name. The answer is JSON.
    fn sign(&self, key: &str, what: &SignWhat) -> Result<String, Failure>;
}

/// No key at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoSigningKeys;

impl SigningKeys for NoSigningKeys {
    fn sign(&self, key: &str, _what: &SignWhat) -> Result<String, Failure> {
        Err(super::refused("NotFound", format!("no signing key named {key:?} is configured")))
    }
}
