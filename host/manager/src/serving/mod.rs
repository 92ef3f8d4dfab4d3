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
mod names;
mod pages;
mod profile;
mod routes;
mod tls;
mod ttl;
mod user;

use std::{net::SocketAddr, path::Path, sync::Arc, time::Duration};

use tokio_util::sync::CancellationToken;

pub use config::{NamedPair, RequestHeader, Serving, TlsVersion};
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

/// Judges what the flags say before anything is started: certificates, keys,
/// cipher suites, authorities, kubeconfigs.
///
/// # Errors
///
/// Names the flag.
pub async fn judge(config: &Serving) -> Result<(), Error> {
    // What is given for endpoints that there are not is none the better for it.
    tls::config(config, names::Certificates::load(config)?)?;
    authority::judge(config)?;
    for (flag, path) in [
        ("--authentication-kubeconfig", &config.authentication_kubeconfig),
        ("--authorization-kubeconfig", &config.authorization_kubeconfig),
    ] {
        if let Some(path) = path {
            kubeconfig(flag, path).await?;
        }
    }
    Ok(())
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
    let certificates = names::Certificates::load(&config)?;
    let speech =
        listen::Speech::new(tls::config(&config, certificates.clone())?, certificates.clone(), &config);
    let kubeconfig = config.authentication_kubeconfig.as_deref();
    let authentication = client_of("--authentication-kubeconfig", kubeconfig, &manager).await?;
    let kubeconfig = config.authorization_kubeconfig.as_deref();
    let authorization = client_of("--authorization-kubeconfig", kubeconfig, &manager).await?;
    let authorities = authority::Authorities::load(&config, &authentication, manager.clone()).await?;
    let app = Arc::new(App {
        authn: authn::Authenticator::new(&config, authorities.clone(), authentication, manager.clone()),
        authz: authz::Authorizer::new(&config, authorization, manager.clone()),
        health: Health::new(manager.clone(), checks),
        manager: manager.clone(),
        config,
    });
    tokio::spawn(certificates.follow(manager, cancel.clone()));
    tokio::spawn(authorities.follow(cancel.clone()));
    tokio::spawn(listen::serve(listener, speech, routes::router(app), cancel));
    Ok(Some(bound))
}

/// The client that asks for reviews: of its own kubeconfig, or the manager's.
async fn client_of(flag: &str, path: Option<&Path>, manager: &Arc<Manager>) -> Result<ApiClient, Error> {
    let Some(path) = path else { return Ok(manager.api().clone()) };
    let config = kubeconfig(flag, path).await?;
    let client = connect::client(config, connect::Reload::default()).map_err(|e| unusable(flag, path, &e))?;
    Ok(ApiClient::new(client, "coxswain").measured(manager.metrics().client.clone()))
}

async fn kubeconfig(flag: &str, path: &Path) -> Result<kube::Config, Error> {
    let file = kube::config::Kubeconfig::read_from(path).map_err(|e| unusable(flag, path, &e))?;
    kube::Config::from_custom_kubeconfig(file, &Default::default())
        .await
        .map_err(|e| unusable(flag, path, &e))
}

fn unusable(flag: &str, path: &Path, error: &dyn std::fmt::Display) -> Error {
    Error::flag(format!("{flag}={}", path.display()), format!("the kubeconfig cannot be used: {error}"))
}
