//! What is read of Secrets and ServiceAccounts.

use coxswain_sdk::meta::null_is_default;
use coxswain_sdk::resource::{SECRETS, SERVICE_ACCOUNTS};
use coxswain_sdk::{ObjectMeta, Resource, View};
use serde::Deserialize;

/// Type of Secrets that hold a token.
pub(crate) const TOKEN: &str = "kubernetes.io/service-account-token";

/// A Secret that may hold a token; not the token itself.
#[derive(Debug, Deserialize)]
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

/// The account that a Secret is of.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Account {
    /// Its name.
    #[serde(rename = "kubernetes.io/service-account.name")]
    pub name: String,
    /// Its uid.
    #[serde(rename = "kubernetes.io/service-account.uid")]
    pub uid: String,
}

/// A ServiceAccount.
#[derive(Debug, Deserialize)]
pub struct ServiceAccount {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// References to Secrets; those made by Kubernetes itself are among them.
    #[serde(default, deserialize_with = "null_is_default")]
    pub secrets: Vec<Reference>,
}

/// A reference.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Reference {
    /// Name of what is referred to.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
}

impl View for ServiceAccount {
    const RESOURCE: Resource = SERVICE_ACCOUNTS;
}
