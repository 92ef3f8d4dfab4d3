//! Whom the cluster says to trust: the ConfigMap that API servers publish for
//! those that serve beside them.

use std::time::Duration;

use super::config::RequestHeader;
use crate::api::{ApiClient, ApiError};

/// Where it is. A path of the API, no kind that a controller would be about.
const PATH: &str = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
const TIMEOUT: Duration = Duration::from_secs(10);

/// What the cluster says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Published {
    /// Authorities of client certificates, as PEM; empty: none.
    pub(super) client_ca: String,
    /// Authorities of proxies' certificates, as PEM; empty: none.
    pub(super) proxy_ca: String,
    /// Names of headers.
    pub(super) headers: RequestHeader,
}

/// Asks the cluster.
pub(super) async fn look_up(api: &ApiClient) -> Result<Published, ApiError> {
    #[derive(serde::Deserialize)]
    struct Map {
        #[serde(default)]
        data: std::collections::BTreeMap<String, String>,
    }
    let answer = api.get(PATH, TIMEOUT).await?;
    let map: Map = serde_json::from_slice(&answer.body)
        .map_err(|e| ApiError::no_answer(format!("not readable: {e}")))?;
    let text = |name: &str| map.data.get(name).cloned().unwrap_or_default();
    let list = |name: &str| -> Result<Vec<String>, ApiError> {
        match map.data.get(name).filter(|value| !value.is_empty()) {
            None => Ok(Vec::new()),
            Some(value) => serde_json::from_str(value)
                .map_err(|e| ApiError::no_answer(format!("{name} is no list of texts in JSON: {e}"))),
        }
    };
    Ok(Published {
        client_ca: text("client-ca-file"),
        proxy_ca: text("requestheader-client-ca-file"),
        headers: RequestHeader {
            client_ca_file: None,
            username_headers: list("requestheader-username-headers")?,
            uid_headers: list("requestheader-uid-headers")?,
            group_headers: list("requestheader-group-headers")?,
            extra_headers_prefixes: list("requestheader-extra-headers-prefix")?,
            allowed_names: list("requestheader-allowed-names")?,
        },
    })
}
