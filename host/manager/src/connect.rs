//! The client of the API server.
//!
//! kube's own, except for one thing: a client certificate is presented as it
//! is. rustls checks one before it uses it, and refuses X.509 version 1, which
//! client-go and the API server take and which plain `openssl x509 -req` makes.
//! Whether a certificate is good is for the server to say.

use std::{sync::Arc, time::Duration};

use base64::Engine;
use hyper_util::{
    client::legacy::{Client as HttpClient, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Config,
    client::{Body, ConfigExt},
    config::AuthInfo,
};
use rustls::{
    ClientConfig,
    crypto::ring::sign::any_supported_type,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    sign::{CertifiedKey, SingleCertAndKey},
};
use secrecy::ExposeSecret;
use tower::{BoxError, ServiceBuilder};

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
    #[error("cannot read {path}: {source}")]
    File {
        /// Its path.
        path: String,
        /// Why not.
        #[source]
        source: std::io::Error,
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

/// Makes a client.
pub fn client(config: Config) -> Result<kube::Client, Error> {
    // Proxies and credential plugins are kube's affair.
    if config.proxy_url.is_some() || config.auth_info.exec.is_some() {
        return Ok(kube::Client::try_from(config)?);
    }
    let tls = tls_config(&config)?;
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(config.connect_timeout.unwrap_or(CONNECT)));
    tcp.set_keepalive(Some(KEEPALIVE));
    let mut https = hyper_rustls::HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = rustls::pki_types::ServerName::try_from(name.clone())
            .map_err(|e| Error::Identity { what: "tls-server-name", reason: e.to_string() })?;
        https = https.with_server_name_resolver(hyper_rustls::FixedServerNameResolver::new(name));
    }
    // One connection a watch: with HTTP/2 all would share the server's limit of streams.
    let http =
        HttpClient::builder(TokioExecutor::new()).build::<_, Body>(https.enable_http1().wrap_connector(tcp));
    let namespace = config.default_namespace.clone();
    let service = ServiceBuilder::new()
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer()?)
        .map_err(BoxError::from)
        .service(http);
    Ok(kube::Client::new(service, namespace))
}

fn tls_config(config: &Config) -> Result<ClientConfig, Error> {
    let mut anonymous = config.clone();
    let auth = &mut anonymous.auth_info;
    (auth.client_certificate, auth.client_certificate_data) = (None, None);
    (auth.client_key, auth.client_key_data) = (None, None);
    let mut tls = anonymous.rustls_client_config()?;
    if let Some(identity) = identity(&config.auth_info)? {
        tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(identity));
    }
    Ok(tls)
}

fn identity(auth: &AuthInfo) -> Result<Option<CertifiedKey>, Error> {
    let certificate = load(
        auth.client_certificate_data.as_deref(),
        auth.client_certificate.as_deref(),
        "client-certificate",
    )?;
    let key_data = auth.client_key_data.as_ref().map(|data| data.expose_secret());
    let key = load(key_data, auth.client_key.as_deref(), "client-key")?;
    let missing =
        |what| Error::Identity { what, reason: "it is missing, though the other half is there".into() };
    match (certificate, key) {
        (None, None) => Ok(None),
        (Some(_), None) => Err(missing("client-key")),
        (None, Some(_)) => Err(missing("client-certificate")),
        (Some(certificate), Some(key)) => certified(&certificate, &key).map(Some),
    }
}

fn certified(certificate: &[u8], key: &[u8]) -> Result<CertifiedKey, Error> {
    let unusable =
        |what, reason: &dyn std::fmt::Display| Error::Identity { what, reason: reason.to_string() };
    let chain = CertificateDer::pem_slice_iter(certificate)
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| unusable("client-certificate", &e))?;
    if chain.is_empty() {
        return Err(unusable("client-certificate", &"there is no certificate in it"));
    }
    let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| unusable("client-key", &e))?;
    let key = any_supported_type(&key).map_err(|e| unusable("client-key", &e))?;
    Ok(CertifiedKey::new(chain, key))
}

/// Data wins over a file, as client-go has it.
fn load(data: Option<&str>, path: Option<&str>, what: &'static str) -> Result<Option<Vec<u8>>, Error> {
    if let Some(data) = data.filter(|data| !data.is_empty()) {
        let decoded = base64::engine::general_purpose::STANDARD
            .decode(data.trim())
            .map_err(|e| Error::Identity { what, reason: format!("not base64: {e}") })?;
        return Ok(Some(decoded));
    }
    match path.filter(|path| !path.is_empty()) {
        Some(path) => {
            std::fs::read(path).map(Some).map_err(|source| Error::File { path: path.to_owned(), source })
        }
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_1_certificate_is_presented() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name).display().to_string();
        // What a small CA script makes: without extensions, openssl writes version 1.
        let script = format!(
            "cd {} && openssl req -newkey rsa:2048 -nodes -keyout k -out r -subj /CN=a && openssl x509 -req -in r -signkey k -out c -days 1",
            dir.path().display()
        );
        let made = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
        assert!(made.status.success(), "openssl is needed: {}", String::from_utf8_lossy(&made.stderr));
        let auth = AuthInfo {
            client_certificate: Some(path("c")),
            client_key: Some(path("k")),
            ..AuthInfo::default()
        };
        assert!(identity(&auth).unwrap().is_some());
    }

    #[test]
    fn what_is_wrong_with_an_identity_is_said() {
        let auth = |certificate: Option<&str>, key: Option<&str>| AuthInfo {
            client_certificate: certificate.map(str::to_owned),
            client_key: key.map(str::to_owned),
            ..AuthInfo::default()
        };
        assert!(identity(&AuthInfo::default()).unwrap().is_none());
        let error = identity(&auth(Some("/does/not/exist"), None)).unwrap_err().to_string();
        assert!(error.starts_with("cannot read /does/not/exist"), "{error}");
        let empty = tempfile::NamedTempFile::new().unwrap();
        let path = empty.path().to_str();
        let error = identity(&auth(path, path)).unwrap_err().to_string();
        assert!(error.contains("there is no certificate in it"), "{error}");
        let error = identity(&auth(path, None)).unwrap_err().to_string();
        assert!(error.contains("client-key") && error.contains("missing"), "{error}");
    }
}
