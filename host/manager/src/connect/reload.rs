//! A pool of connections that is made anew when files change.
//!
//! Kept: what cannot be used never replaces what can. While certificate and key
//! are exchanged one after the other, the old pair goes on. Each thing that is
//! wrong is said once.

use std::{
    path::{Path, PathBuf},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use http::{HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::TokioExecutor,
};
use kube::{
    Config,
    client::{Body, ConfigExt},
};
use parking_lot::Mutex;
use rustls::{
    pki_types::{CertificateDer, pem::PemObject},
    sign::SingleCertAndKey,
};
use tokio::time::Instant;
use tower::{BoxError, Service};

use super::{CONNECT, Error, KEEPALIVE, NotAfter, Reload, identity, timely::Timely};

type Https = Pool<HttpsConnector<HttpConnector>, Timely>;

/// Sends requests over whatever the files say now.
#[derive(Clone)]
pub(super) struct Reloading(Arc<Shared>);

struct Shared {
    config: Config,
    reload: Reload,
    state: Mutex<State>,
}

struct State {
    pool: Https,
    token: Option<HeaderValue>,
    /// What the files held when last looked at.
    content: Content,
    looked: Option<Instant>,
    trouble: Option<String>,
}

/// Content of the files.
#[derive(Clone, Default, PartialEq, Eq)]
struct Content {
    /// Of those that connections are made with.
    connection: Vec<Vec<u8>>,
    token: Option<Vec<u8>>,
}

impl Reloading {
    pub(super) fn new(config: Config, reload: Reload) -> Result<Self, Error> {
        let content = read(&config, &reload)?;
        let pool = pool(&config, &reload, false)?;
        let token = content.token.as_deref().map(bearer).transpose()?;
        let state = State { pool, token, content, looked: Some(Instant::now()), trouble: None };
        Ok(Self(Arc::new(Shared { config, reload, state: Mutex::new(state) })))
    }
}

impl Shared {
    /// The connections, and the token that goes with a request.
    fn now(&self) -> (Https, Option<HeaderValue>) {
        let mut state = self.state.lock();
        if state.looked.is_none_or(|looked| looked.elapsed() >= self.reload.period) {
            state.looked = Some(Instant::now());
            if let Err(error) = self.look(&mut state) {
                let trouble = error.to_string();
                if state.trouble.as_ref() != Some(&trouble) {
                    tracing::warn!("{trouble}; what was read before goes on");
                    state.trouble = Some(trouble);
                }
            }
        }
        (state.pool.clone(), state.token.clone())
    }

    fn look(&self, state: &mut State) -> Result<(), Error> {
        let content = read(&self.config, &self.reload)?;
        if content == state.content {
            state.trouble = None;
            return Ok(());
        }
        if content.connection != state.content.connection {
            state.pool = pool(&self.config, &self.reload, true)?;
            tracing::info!("the certificates for the API server were read again");
        }
        if content.token != state.content.token {
            state.token = content.token.as_deref().map(bearer).transpose()?;
            tracing::info!("the token for the API server was read again");
        }
        state.content = content;
        state.trouble = None;
        Ok(())
    }
}

impl Service<Request<Body>> for Reloading {
    type Response = Response<Incoming>;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let shared = self.0.clone();
        let (pool, token) = shared.now();
        if let Some(token) = token {
            request.headers_mut().entry(header::AUTHORIZATION).or_insert(token);
        }
        let until = request.extensions_mut().remove::<NotAfter>();
        let request = request.map(|content| Timely::new(content, until, shared.reload.clock.clone()));
        Box::pin(async move {
            let response = pool.request(request).await?;
            if response.status() == StatusCode::UNAUTHORIZED {
                shared.state.lock().looked = None;
            }
            Ok(response)
        })
    }
}

fn read(config: &Config, reload: &Reload) -> Result<Content, Error> {
    let auth = &config.auth_info;
    let file = |path: &Path| {
        std::fs::read(path).map_err(|reason| Error::File { path: path.display().to_string(), reason })
    };
    let named = |path: &Option<String>| path.as_ref().filter(|path| !path.is_empty()).map(PathBuf::from);
    // Data wins over a file.
    let certificate = named(&auth.client_certificate).filter(|_| auth.client_certificate_data.is_none());
    let key = named(&auth.client_key).filter(|_| auth.client_key_data.is_none());
    let paths = [certificate, key, reload.authority.clone()];
    let connection = paths.into_iter().flatten().map(|path| file(&path)).collect::<Result<_, _>>()?;
    let token = named(&auth.token_file).map(|path| file(&path)).transpose()?;
    Ok(Content { connection, token })
}

fn bearer(token: &[u8]) -> Result<HeaderValue, Error> {
    let unusable = |reason: String| Error::Identity { what: "tokenFile", reason };
    let text = std::str::from_utf8(token).map_err(|error| unusable(error.to_string()))?.trim();
    if text.is_empty() {
        return Err(unusable("it is empty".into()));
    }
    let mut header =
        HeaderValue::from_str(&format!("Bearer {text}")).map_err(|error| unusable(error.to_string()))?;
    header.set_sensitive(true);
    Ok(header)
}

/// Makes connections. `again`: the authority's file has newer content than the
/// configuration.
fn pool(config: &Config, reload: &Reload, again: bool) -> Result<Https, Error> {
    let mut anonymous = config.clone();
    let auth = &mut anonymous.auth_info;
    (auth.client_certificate, auth.client_certificate_data) = (None, None);
    (auth.client_key, auth.client_key_data) = (None, None);
    if let Some(path) = reload.authority.as_ref().filter(|_| again) {
        anonymous.root_cert = Some(authority(path)?);
    }
    let mut tls = anonymous.rustls_client_config()?;
    if let Some(own) = identity::identity(&config.auth_info)? {
        if let Some(end) = identity::end(&own).filter(|end| *end <= reload.clock.now()) {
            tracing::error!("the kubeconfig's client certificate has expired at {end}; renew it");
        }
        tls.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(own));
    }
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
    Ok(Pool::builder(TokioExecutor::new()).build(https.enable_http1().wrap_connector(tcp)))
}

fn authority(path: &Path) -> Result<Vec<Vec<u8>>, Error> {
    let unusable = |reason: String| Error::Identity { what: "certificate-authority", reason };
    let pem =
        std::fs::read(path).map_err(|reason| Error::File { path: path.display().to_string(), reason })?;
    let certificates = CertificateDer::pem_slice_iter(&pem)
        .map(|one| one.map(|der| der.to_vec()))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| unusable(error.to_string()))?;
    if certificates.is_empty() {
        return Err(unusable(format!("there is no certificate in {}", path.display())));
    }
    Ok(certificates)
}
