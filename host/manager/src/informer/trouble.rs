//! What keeps an informer from following its resource.

use std::time::Duration;

use crate::{api::ApiError, contract::Failure};

/// Why a list or a watch came to nothing.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    /// The server refused, or did not answer.
    #[error("{0}")]
    Api(#[from] ApiError),
    /// The connection ended in the middle.
    #[error("connection lost: {0}")]
    Cut(String),
    /// What came is not what the API sends. Asking again will hardly help, but
    /// passing over it would leave the cache wrong without a word.
    #[error("unreadable answer: {0}")]
    Unreadable(String),
    /// The server took a streaming list for a plain watch.
    #[error("the server does not stream lists: {0}")]
    NoStreamingList(&'static str),
}

impl Trouble {
    /// The server has forgotten the resourceVersion that was asked for.
    pub(super) fn expired(&self) -> bool {
        matches!(self, Self::Api(error) if is_expired(&error.failure))
    }

    /// The server does not know the parameters of a streaming list. A resource
    /// that refuses for another reason will refuse the plain list as well.
    pub(super) fn no_streaming_list(&self) -> bool {
        match self {
            Self::NoStreamingList(_) => true,
            Self::Api(error) => {
                matches!(error.failure.status, 400 | 422) || error.failure.reason == "Invalid"
            }
            Self::Cut(_) | Self::Unreadable(_) => false,
        }
    }

    /// The server said no, and will go on saying it until somebody changes
    /// something: as opposed to being busy, away or behind.
    pub(super) fn refused(&self) -> bool {
        matches!(self, Self::Api(error) if (400..500).contains(&error.failure.status)
            && !matches!(error.failure.status, 408 | 410 | 429))
    }

    /// The resource is not there.
    pub(super) fn not_found(&self) -> bool {
        matches!(self, Self::Api(error) if error.failure.status == 404)
    }

    /// How long the server asked us to wait.
    pub(super) fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Api(error) => error.retry_after,
            _ => None,
        }
    }
}

/// Whether a Status says that a resourceVersion, or a continue token, is too old.
pub(super) fn is_expired(failure: &Failure) -> bool {
    failure.status == 410 || matches!(failure.reason.as_str(), "Expired" | "Gone")
}
