//! How a reconcile ends without a plan.

use crate::contract::Lookup;

/// Why there is no plan. `?` carries it to the entry point.
#[derive(Clone, Debug, PartialEq)]
pub enum Error {
    /// These lookups must be answered first; the host calls again with the
    /// answers. Made by the lookup calls of [`crate::Ctx`].
    Lookups(Vec<Lookup>),
    /// It went wrong; try again after the key's backoff.
    Retry(String),
    /// It went wrong, and trying again would change nothing until something
    /// that was read changes.
    Terminal(String),
}

/// Result of whatever may end a reconcile early.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Try again later, for this reason.
    pub fn retry(reason: impl Into<String>) -> Self {
        Self::Retry(reason.into())
    }

    /// Give up until something changes, for this reason.
    pub fn terminal(reason: impl Into<String>) -> Self {
        Self::Terminal(reason.into())
    }
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Lookups(lookups) => write!(f, "{} lookups are not answered yet", lookups.len()),
            Self::Retry(reason) | Self::Terminal(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Error {}
