//! What is read of Secrets.

use coxswain_sdk::resource::SECRETS;
use coxswain_sdk::service_account::Account;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

/// A Secret that may hold a token; not the token itself.
#[derive(Debug, FromJson)]
pub struct TokenSecret {
    /// Metadata.
    pub metadata: ObjectMeta<Account>,
    /// Type.
    #[serde(default, rename = "type")]
    pub kind: String,
}

impl View for TokenSecret {
    const RESOURCE: Resource = SECRETS;
}
