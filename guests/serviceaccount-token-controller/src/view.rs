//! What is read.

use coxswain_sdk::resource::SECRETS;
use coxswain_sdk::service_account::Account;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, View};

/// A Secret that may hold a token.
#[derive(Debug, FromJson)]
pub struct TokenSecret {
    /// Metadata.
    pub metadata: ObjectMeta<Account>,
    /// Type.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Content.
    #[serde(default)]
    pub data: Data,
}

impl View for TokenSecret {
    const RESOURCE: Resource = SECRETS;
}

/// Content of a token Secret, in base64.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct Data {
    /// The token.
    pub token: String,
    /// What verifies the API server.
    #[serde(rename = "ca.crt")]
    pub ca: String,
    /// The namespace.
    pub namespace: String,
}
