//! What the API server's refusals mean.

use crate::contract::Failure;

impl Failure {
    /// Whether a creation was refused since the namespace is going: there is no
    /// use in trying again, and nobody needs to be told.
    pub fn is_of_terminating_namespace(&self) -> bool {
        self.causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
}
