//! A plain HTTPS client for an API server.
//!
//! In: a kubeconfig. Out: responses as they are, nothing decoded, nothing
//! repeated, so that tests see what a server says. Watches are streams of lines.

use std::{path::Path, sync::Arc, time::Duration};

use anyhow::{Context, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use bytes::Bytes;
use http::{HeaderMap, Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_rustls::HttpsConnector;
use hyper_util::{
    client::legacy::{Client as Pool, connect::HttpConnector},
    rt::TokioExecutor,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject};
use serde::Deserialize;

/// A request that takes longer than this has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// How to reach an API server.
#[derive(Clone, Debug, Default)]
pub struct Access {
    /// `https://host:port` or `http://host:port`.
    pub server: String,
    /// PEM of the authority that signed the server's certificate.
    pub ca: Vec<u8>,
    /// PEM of our certificate.
    pub certificate: Vec<u8>,
    /// PEM of its key.
    pub key: Vec<u8>,
    /// Bearer token.
    pub token: Option<String>,
}

impl Access {
    /// The current context of a kubeconfig.
    pub fn read(path: &Path) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, folder).with_context(|| format!("cannot use {}", path.display()))
    }

    fn parse(text: &str, folder: &Path) -> anyhow::Result<Self> {
        let file: Kubeconfig = serde_yaml::from_str(text)?;
        let context = find(file.contexts, &file.current_context, "context")?.context;
        let cluster = find(file.clusters, &context.cluster, "cluster")?.cluster;
        let user = find(file.users, &context.user, "user")?.user;
        Ok(Self {
            server: cluster.server.trim_end_matches('/').to_owned(),
            ca: pem(cluster.certificate_authority_data, cluster.certificate_authority, folder)?,
            certificate: pem(user.client_certificate_data, user.client_certificate, folder)?,
            key: pem(user.client_key_data, user.client_key, folder)?,
            token: user.token,
        })
    }

    fn tls(&self) -> anyhow::Result<rustls::ClientConfig> {
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&self.ca) {
            roots.add(certificate.context("certificate authority")?)?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        if self.certificate.is_empty() {
            return Ok(builder.with_no_client_auth());
        }
        let chain = CertificateDer::pem_slice_iter(&self.certificate)
            .collect::<Result<Vec<_>, _>>()
            .context("client certificate")?;
        let key = PrivateKeyDer::from_pem_slice(&self.key).context("client key")?;
        Ok(builder.with_client_auth_cert(chain, key)?)
    }
}

/// A client of one API server.
#[derive(Clone)]
pub struct Client {
    pool: Pool<HttpsConnector<HttpConnector>, Full<Bytes>>,
    server: Arc<str>,
    token: Option<Arc<str>>,
}

impl Client {
    /// Connects when first used.
    pub fn new(access: &Access) -> anyhow::Result<Self> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_tls_config(access.tls()?)
            .https_or_http()
            .enable_http1()
            .wrap_connector(tcp);
        Ok(Self {
            pool: Pool::builder(TokioExecutor::new()).build(connector),
            server: access.server.as_str().into(),
            token: access.token.as_deref().map(Into::into),
        })
    }

    /// Sends a request; returns when the head of the answer is there. `target`
    /// is path and query.
    pub async fn open(
        &self,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<Response<Incoming>> {
        let mut request = Request::builder().method(method).uri(format!("{}{target}", self.server));
        if let Some(map) = request.headers_mut() {
            *map = headers;
            if let Some(token) = &self.token {
                map.insert(http::header::AUTHORIZATION, format!("Bearer {token}").parse()?);
            }
        }
        let request = request.body(Full::new(body)).with_context(|| format!("not a request: {target}"))?;
        Ok(self.pool.request(request).await?)
    }

    /// Sends a request and reads the whole answer.
    pub async fn call(
        &self,
        method: Method,
        target: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> anyhow::Result<Response<Bytes>> {
        let what = format!("{method} {target}");
        let whole = async {
            let (parts, body) = self.open(method, target, headers, body).await?.into_parts();
            anyhow::Ok(Response::from_parts(parts, body.collect().await?.to_bytes()))
        };
        let answer = tokio::time::timeout(PATIENCE, whole).await;
        answer.with_context(|| format!("{what}: no answer within {PATIENCE:?}"))?.with_context(|| what)
    }
}

/// The lines of a body that has no end.
pub struct Lines {
    body: Incoming,
    rest: Vec<u8>,
}

impl Lines {
    /// Reads a body by lines.
    pub fn new(body: Incoming) -> Self {
        Self { body, rest: Vec::new() }
    }

    /// The next line that is not empty; none at the end, also when the
    /// connection broke.
    pub async fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            while let Some(end) = self.rest.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                if !line.trim_ascii().is_empty() {
                    return Some(line);
                }
            }
            let frame = self.body.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.rest.extend_from_slice(&data);
            }
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Kubeconfig {
    current_context: String,
    clusters: Vec<NamedCluster>,
    users: Vec<NamedUser>,
    contexts: Vec<NamedContext>,
}

#[derive(Deserialize)]
struct NamedCluster {
    name: String,
    cluster: Cluster,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    certificate_authority: Option<String>,
    certificate_authority_data: Option<String>,
}

#[derive(Deserialize)]
struct NamedUser {
    name: String,
    user: User,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct User {
    client_certificate: Option<String>,
    client_certificate_data: Option<String>,
    client_key: Option<String>,
    client_key_data: Option<String>,
    token: Option<String>,
}

#[derive(Deserialize)]
struct NamedContext {
    name: String,
    context: ContextOf,
}

#[derive(Deserialize)]
struct ContextOf {
    cluster: String,
    user: String,
}

trait Named {
    fn name(&self) -> &str;
}

macro_rules! named {
    ($($kind:ty),*) => {$(
        impl Named for $kind {
            fn name(&self) -> &str {
                &self.name
            }
        }
    )*};
}
named!(NamedCluster, NamedUser, NamedContext);

fn find<T: Named>(list: Vec<T>, name: &str, what: &str) -> anyhow::Result<T> {
    let found = list.into_iter().find(|item| item.name() == name);
    found.with_context(|| format!("the kubeconfig has no {what} {name:?}"))
}

fn pem(data: Option<String>, file: Option<String>, folder: &Path) -> anyhow::Result<Vec<u8>> {
    Ok(match (data, file) {
        (Some(data), _) => BASE64_STANDARD.decode(data.trim()).context("not base64")?,
        (None, Some(file)) => {
            let path = folder.join(file);
            std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?
        }
        (None, None) => Vec::new(),
    })
}

/// Headers from pairs.
pub fn headers<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> anyhow::Result<HeaderMap> {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        let (Ok(name), Ok(value)) = (name.parse::<http::HeaderName>(), value.parse::<http::HeaderValue>())
        else {
            bail!("not a header: {name}: {value}");
        };
        map.append(name, value);
    }
    Ok(map)
}
