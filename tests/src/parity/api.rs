//! The API as scenarios use it: resources by plural name, objects as JSON.
//!
//! In: names and objects. Out: objects, or the server's Status. Kept: what is
//! served is read from aggregated discovery, and read again when a name is not
//! known.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method};
use parking_lot::RwLock;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use super::object::{list, text};
use crate::client::{Client, headers};

const DISCOVERY: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const IN_NAMES: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Why a call failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// The server said no.
    #[error("{what}: {code} {reason}: {message}")]
    Refused {
        /// Method and path.
        what: String,
        /// HTTP status.
        code: u16,
        /// Reason of the Status.
        reason: String,
        /// Message of the Status.
        message: String,
    },
    /// There was no answer.
    #[error("{0:#}")]
    NoAnswer(anyhow::Error),
    /// The resource or kind is not served.
    #[error("the server does not know {0}")]
    Unknown(String),
}

/// A resource that is served.
#[derive(Clone, Debug)]
pub struct Entry {
    /// `/api/v1` or `/apis/GROUP/VERSION`.
    pub prefix: String,
    /// Plural name.
    pub resource: String,
    /// Kind.
    pub kind: String,
    /// Whether its objects are in namespaces.
    pub namespaced: bool,
    /// `v1` or `GROUP/VERSION`.
    pub api_version: String,
}

impl Entry {
    /// Path of the collection, of an object, or of a subresource.
    pub fn path(&self, namespace: &str, name: &str, sub: &str) -> String {
        let mut path = self.prefix.clone();
        if self.namespaced && !namespace.is_empty() {
            path += &format!("/namespaces/{namespace}");
        }
        path += &format!("/{}", self.resource);
        if !name.is_empty() {
            path += &format!("/{}", utf8_percent_encode(name, IN_NAMES));
        }
        if !sub.is_empty() {
            path += &format!("/{sub}");
        }
        path
    }
}

/// How a patch is to be understood.
pub fn patch_type(name: &str) -> anyhow::Result<&'static str> {
    Ok(match name {
        "" | "merge" => "application/merge-patch+json",
        "json" => "application/json-patch+json",
        "strategic" => "application/strategic-merge-patch+json",
        "apply" => "application/apply-patch+yaml",
        other => {
            anyhow::bail!("{other:?} is not a type of patch; there are merge, json, strategic and apply")
        }
    })
}

#[derive(Default)]
struct Tables {
    plurals: HashMap<String, Arc<Entry>>,
    kinds: HashMap<(String, String), Arc<Entry>>,
}

/// A client that knows what is served.
pub struct Api {
    client: Client,
    tables: RwLock<Tables>,
}

impl Api {
    /// Over a client.
    pub fn new(client: Client) -> Self {
        Self { client, tables: RwLock::default() }
    }

    /// The client below.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Sends a request; the answer's code and body, whatever they are.
    pub async fn raw(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        kind: &str,
        extra: &HeaderMap,
    ) -> Result<(u16, Value), ApiError> {
        let mut head = headers([("user-agent", "parity-harness"), ("accept", "application/json")])
            .map_err(ApiError::NoAnswer)?;
        if body.is_some() {
            head.extend(headers([("content-type", kind)]).map_err(ApiError::NoAnswer)?);
        }
        head.extend(extra.clone());
        let body = body.map(|value| Bytes::from(value.to_string())).unwrap_or_default();
        let answer = self.client.call(method, path, head, body).await.map_err(ApiError::NoAnswer)?;
        let doc = match answer.body() {
            bytes if bytes.is_empty() => json!({}),
            bytes => serde_json::from_slice(bytes)
                .unwrap_or_else(|_| json!({"message": String::from_utf8_lossy(bytes)})),
        };
        Ok((answer.status().as_u16(), doc))
    }

    /// Sends a request; a refusal is an error. 429 is tried again a few times,
    /// save for evictions, where it is the answer.
    pub async fn call(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
        kind: &str,
        extra: &HeaderMap,
    ) -> Result<Value, ApiError> {
        let mut attempt = 0;
        let (code, doc) = loop {
            attempt += 1;
            let (code, doc) = self.raw(method.clone(), path, body, kind, extra).await?;
            if code != 429 || path.ends_with("/eviction") || attempt > 5 {
                break (code, doc);
            }
            tokio::time::sleep(Duration::from_millis(300)).await;
        };
        if code < 400 {
            return Ok(doc);
        }
        Err(ApiError::Refused {
            what: format!("{method} {path}"),
            code,
            reason: text(&doc["reason"]).into(),
            message: text(&doc["message"]).into(),
        })
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Result<Value, ApiError> {
        self.call(Method::GET, path, None, "", &HeaderMap::new()).await
    }

    /// Creates an object in a namespace, unless it names its own.
    pub async fn create(
        &self,
        object: &Value,
        namespace: &str,
        extra: &HeaderMap,
    ) -> Result<Value, ApiError> {
        let entry = self.entry_of(object).await?;
        let own = text(&object["metadata"]["namespace"]);
        let path = entry.path(if own.is_empty() { namespace } else { own }, "", "");
        self.call(Method::POST, &path, Some(object), "application/json", extra).await
    }

    /// Reads what is served.
    async fn discover(&self) -> Result<(), ApiError> {
        let mut tables = Tables::default();
        let accept = headers([("accept", DISCOVERY)]).map_err(ApiError::NoAnswer)?;
        for root in ["/api", "/apis"] {
            let doc = self.call(Method::GET, root, None, "", &accept).await?;
            for group in list(&doc["items"]) {
                for version in list(&group["versions"]) {
                    tables.add(text(&group["metadata"]["name"]), version);
                }
            }
        }
        *self.tables.write() = tables;
        Ok(())
    }

    /// A resource by its plural name, `pods` or `events.events.k8s.io`.
    pub async fn entry(&self, plural: &str) -> Result<Arc<Entry>, ApiError> {
        let known = || self.tables.read().plurals.get(plural).cloned();
        if let Some(entry) = known() {
            return Ok(entry);
        }
        self.discover().await?;
        known().ok_or_else(|| ApiError::Unknown(plural.into()))
    }

    /// The resource of an object. One that was just defined may take a moment.
    pub async fn entry_of(&self, object: &Value) -> Result<Arc<Entry>, ApiError> {
        let key = (text(&object["apiVersion"]).to_owned(), text(&object["kind"]).to_owned());
        for _ in 0..20 {
            if let Some(entry) = self.tables.read().kinds.get(&key).cloned() {
                return Ok(entry);
            }
            self.discover().await?;
            if !self.tables.read().kinds.contains_key(&key) {
                tokio::time::sleep(Duration::from_millis(250)).await;
            }
        }
        Err(ApiError::Unknown(format!("{} {}", key.0, key.1)))
    }
}

impl Tables {
    fn add(&mut self, group: &str, version: &Value) {
        let number = text(&version["version"]);
        let api_version = if group.is_empty() { number.to_owned() } else { format!("{group}/{number}") };
        let root = if group.is_empty() { "api" } else { "apis" };
        for resource in list(&version["resources"]) {
            // An aggregated API may list subresources only; those have no verbs.
            if !list(&resource["verbs"]).iter().any(|verb| verb == "list" || verb == "create") {
                continue;
            }
            let entry = Arc::new(Entry {
                prefix: format!("/{root}/{api_version}"),
                resource: text(&resource["resource"]).into(),
                kind: text(&resource["responseKind"]["kind"]).into(),
                namespaced: resource["scope"] == "Namespaced",
                api_version: api_version.clone(),
            });
            self.kinds.insert((api_version.clone(), entry.kind.clone()), entry.clone());
            let group = if group.is_empty() { "core" } else { group };
            for name in [entry.resource.clone(), format!("{}.{group}", entry.resource)] {
                self.plurals.entry(name).or_insert_with(|| entry.clone());
            }
        }
    }
}
