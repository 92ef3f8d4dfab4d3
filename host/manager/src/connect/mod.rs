//! The client of the API server.
//!
//! kube's own, except for three things.
//!
//! Files are read again while we run: client certificate and key, the cluster's
//! authority, the token. When one has changed, new connections are made with it
//! and the old ones end with the requests under way on them.
//!
//! A client certificate is presented as it is. rustls checks one before it uses it, and refuses X.509 version 1, which
//! client-go and the API server take and which plain `openssl x509 -req` makes.
//! Whether a certificate is good is for the server to say.
//!
//! A request that has a time is not sent after it, even if the process was stopped
//! while it was on its way.

mod identity;
mod reload;
#[cfg(test)]
mod tests;
mod timely;

use std::{path::PathBuf, sync::Arc, time::Duration};

use kube::{Config, client::ConfigExt};
use tower::{BoxError, ServiceBuilder};

use crate::clock::{SharedClock, SystemClock};
use reload::Reloading;
pub(crate) use timely::NotAfter;

/// How long a connection may take to be made.
const CONNECT: Duration = Duration::from_secs(10);
/// Pause between probes of an idle connection, so that a dead peer is noticed.
const KEEPALIVE: Duration = Duration::from_secs(30);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configuration as a whole.
    #[error(transparent)]
    Kube(#[from] kube::Error),
    /// A file of the kubeconfig.
    #[error("cannot read {path}: {reason}")]
    File {
        /// Its path.
        path: String,
        /// Why not.
        reason: std::io::Error,
    },
    /// A certificate or key.
    #[error("the kubeconfig's {what} cannot be used: {reason}")]
    Identity {
        /// Which.
        what: &'static str,
        /// Why not.
        reason: String,
    },
}

/// What is read again while a client is used.
#[derive(Clone)]
pub struct Reload {
    /// File of the authority that the configuration holds the content of.
    pub authority: Option<PathBuf>,
    /// Pause between two looks at the files. A request that is answered with
    /// 401 has them looked at at once.
    pub period: Duration,
    /// Tells whether a certificate has ended.
    pub clock: SharedClock,
}

impl Default for Reload {
    fn default() -> Self {
        Self { authority: None, period: Duration::from_secs(10), clock: Arc::new(SystemClock) }
    }
}

/// Makes a client.
///
/// # Errors
///
/// A file cannot be read, or a certificate or key cannot be used.
pub fn client(config: Config, reload: Reload) -> Result<kube::Client, Error> {
    // Proxies and credential plugins are kube's affair.
    if config.proxy_url.is_some() || config.auth_info.exec.is_some() {
        return Ok(kube::Client::try_from(config)?);
    }
    let namespace = config.default_namespace.clone();
    let base = config.base_uri_layer();
    // A token from a file comes from us.
    let mut others = config.clone();
    others.auth_info.token_file = None;
    let auth = others.auth_layer()?;
    let service = ServiceBuilder::new()
        .layer(base)
        .option_layer(auth)
        .map_err(BoxError::from)
        .service(Reloading::new(config, reload)?);
    Ok(kube::Client::new(service, namespace))
}
