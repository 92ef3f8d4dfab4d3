//! The endpoints of `--secure-port`: health, metrics, configuration, profiles.
//!
//! In: requests over TLS. Out: answers for those who may have them. Who asks is
//! recognised by a client certificate, by the headers of an authenticating
//! proxy, or by a token that the API server reviews; what they may do is the API
//! server's to say, except for paths that are open to all
//! (<https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/>
//! has the same for another component). Invariant: nothing here can stop the
//! controllers; whatever the API server answers is survived.

mod authn;
mod authority;
mod authz;
mod certificate;
mod config;
mod debug;
mod health;
mod listen;
mod lookup;
mod pages;
mod profile;
mod routes;
mod tls;
mod ttl;
mod user;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

pub use config::{RequestHeader, Serving, TlsVersion};
pub use health::{Check, Health};
pub use user::User;

use crate::{api::ApiClient, connect, manager::Manager};

/// Pause between two looks at certificates, keys and authorities on disk.
const RELOAD: Duration = Duration::from_secs(5);

/// Why there are no endpoints.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The port cannot be had.
    #[error("cannot listen on {address}: {source}; choose another with --secure-port, or 0 for none")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// A flag, a file or a certificate is of no use.
    #[error("{flag}: {reason}")]
    Flag {
        /// The flag, with its dashes and, where that helps, its value.
        flag: String,
        /// Why not, and what to do.
        reason: String,
    },
    /// The cluster does not say whom to trust.
    #[error(
        "the authentication configuration cannot be read from the cluster: {0}; let this identity read the ConfigMap extension-apiserver-authentication in kube-system, or give --authentication-skip-lookup, or --authentication-tolerate-lookup-failure"
    )]
    Lookup(String),
}

impl Error {
    fn flag(flag: impl Into<String>, reason: impl ToString) -> Self {
        Self::Flag { flag: flag.into(), reason: reason.to_string() }
    }
}

/// What the endpoints know.
struct App {
    manager: Arc<Manager>,
    health: Health,
    authn: authn::Authenticator,
    authz: authz::Authorizer,
    config: Serving,
}

/// Starts the endpoints of a manager; they go on until cancelled. Says where
/// they are, or nothing if there are none.
pub async fn start(
    manager: Arc<Manager>,
    config: Serving,
    checks: Vec<Check>,
    cancel: CancellationToken,
) -> Result<Option<SocketAddr>, Error> {
    let Some(listener) = listen::bind(&config).await? else { return Ok(None) };
    let bound = listener.local_addr().map_err(|e| Error::flag("--secure-port", e))?;
    let certificate = certificate::Certificate::load(&config, manager.clone())?;
    let tls = tls::config(&config, certificate.clone())?;
    let kubeconfig = config.authentication_kubeconfig.as_deref();
    let authentication = client_of("--authentication-kubeconfig", kubeconfig, &manager).await?;
    let kubeconfig = config.authorization_kubeconfig.as_deref();
    let authorization = client_of("--authorization-kubeconfig", kubeconfig, &manager).await?;
    let authorities = authority::Authorities::load(&config, &authentication, manager.clone()).await?;
    let app = Arc::new(App {
        authn: authn::Authenticator::new(&config, authorities.clone(), authentication, manager.clone()),
        authz: authz::Authorizer::new(&config, authorization, manager.clone()),
        health: Health::new(manager.clone(), checks),
        manager,
        config,
    });
    tokio::spawn(certificate.follow(cancel.clone()));
    tokio::spawn(authorities.follow(cancel.clone()));
    tokio::spawn(listen::serve(listener, tls, routes::router(app), cancel));
    Ok(Some(bound))
}

/// The client that asks for reviews: of its own kubeconfig, or the manager's.
async fn client_of(
    flag: &'static str,
    kubeconfig: Option<&Path>,
    manager: &Arc<Manager>,
) -> Result<ApiClient, Error> {
    let Some(path) = kubeconfig else { return Ok(manager.api().clone()) };
    let given = format!("{flag}={}", path.display());
    let unusable =
        |reason: String| Error::flag(given.clone(), format!("the kubeconfig cannot be used: {reason}"));
    let file = kube::config::Kubeconfig::read_from(path).map_err(|e| unusable(e.to_string()))?;
    let config = kube::Config::from_custom_kubeconfig(file, &Default::default())
        .await
        .map_err(|e| unusable(e.to_string()))?;
    let client = connect::client(config, connect::Reload::default()).map_err(|e| unusable(e.to_string()))?;
    Ok(ApiClient::new(client, "coxswain").measured(manager.metrics().client.clone()))
}
