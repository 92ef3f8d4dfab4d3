//! Secrets that hold a token of a ServiceAccount.
//!
//! Format: <https://kubernetes.io/docs/concepts/configuration/secret/#serviceaccount-token-secrets>.

use serde_json::{Map, Value};

use crate::meta::ObjectMeta;
use crate::read::FromJson;
use crate::resource::{Resource, SERVICE_ACCOUNTS};
use crate::view::View;

/// Type of such Secrets.
pub const TOKEN: &str = "kubernetes.io/service-account-token";
/// Annotation with the uid of the account.
pub const UID: &str = "kubernetes.io/service-account.uid";
/// Name of an index over [`NAME_PATH`].
pub const INDEX: &str = "service-account";
/// Path of the annotation with the name of the account. Each such Secret has it,
/// and hardly any other.
pub const NAME_PATH: &str = "metadata.annotations.\"kubernetes.io/service-account.name\"";

/// The account that a Secret is of, from its annotations.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
pub struct Account {
    /// Its name.
    #[serde(rename = "kubernetes.io/service-account.name")]
    pub name: String,
    /// Its uid; empty until the Secret is filled.
    #[serde(rename = "kubernetes.io/service-account.uid")]
    pub uid: String,
}

impl Account {
    /// Whether an account of this uid is meant, given that the name fits. A
    /// Secret that names no uid is of whoever has the name.
    pub fn is(&self, uid: &str) -> bool {
        self.uid.is_empty() || self.uid == uid
    }
}

/// A ServiceAccount.
#[derive(Debug, FromJson)]
pub struct ServiceAccount {
    /// Metadata.
    pub metadata: ObjectMeta,
    /// References to Secrets, as they are.
    #[serde(default)]
    pub secrets: Vec<Map<String, Value>>,
}

impl View for ServiceAccount {
    const RESOURCE: Resource = SERVICE_ACCOUNTS;
}

impl ServiceAccount {
    /// Whether it lists a Secret of this name.
    pub fn lists(&self, secret: &str) -> bool {
        self.secrets.iter().any(|reference| names(reference, secret))
    }
}

/// Whether a reference is to a Secret of this name.
pub fn names(reference: &Map<String, Value>, secret: &str) -> bool {
    reference.get("name").and_then(Value::as_str) == Some(secret)
}
