//! What is read.

use coxswain_sdk::meta::null_is_default;
use coxswain_sdk::resource::{SECRETS, SERVICE_ACCOUNTS};
use coxswain_sdk::{ObjectMeta, Resource, View};
use serde::Deserialize;
use serde_json::{Map, Value};

/// Type of Secrets that hold a token.
pub(crate) const TOKEN: &str = "kubernetes.io/service-account-token";

/// A Secret that may hold a token.
#[derive(Debug, Deserialize)]
pub struct TokenSecret {
    /// Metadata.
    pub metadata: ObjectMeta<Account>,
    /// Type.
    #[serde(default, rename = "type")]
    pub kind: String,
    /// Content.
    #[serde(default, deserialize_with = "null_is_default")]
    pub data: Data,
}

impl View for TokenSecret {
    const RESOURCE: Resource = SECRETS;
}

/// The account that a Secret is of.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Its name.
    #[serde(rename = "kubernetes.io/service-account.name")]
    pub name: String,
    /// Its uid; empty until the Secret is filled.
    #[serde(rename = "kubernetes.io/service-account.uid")]
    pub uid: String,
}

/// Content of a token Secret, in base64.
#[derive(Debug, Default, Deserialize)]
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

/// A ServiceAccount.
#[derive(Debug, Deserialize)]
pub struct ServiceAccount {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// References to Secrets, as they are.
    #[serde(default, deserialize_with = "null_is_default")]
    pub secrets: Vec<Map<String, Value>>,
}

impl View for ServiceAccount {
    const RESOURCE: Resource = SERVICE_ACCOUNTS;
}

impl ServiceAccount {
    /// Whether it lists a Secret of this name.
    pub(crate) fn lists(&self, secret: &str) -> bool {
        self.secrets.iter().any(|reference| names(reference, secret))
    }
}

/// Whether a reference is to a Secret of this name.
pub(crate) fn names(reference: &Map<String, Value>, secret: &str) -> bool {
    reference.get("name").and_then(Value::as_str) == Some(secret)
}
