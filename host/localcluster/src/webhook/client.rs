//! One call of a webhook over HTTPS.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::{Handle, Runtime, RuntimeFlavor};

use crate::endpoints;
use crate::kinds::value::{items, text};
use crate::rest::strategy::Lookup;

/// Longest answer that is read.
const MAX_ANSWER: usize = 16 << 20;

/// Calls run on a thread of their own: those who wait for them are not async.
static CALLS: LazyLock<std::io::Result<Runtime>> = LazyLock::new(|| {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).thread_name("webhook-calls").enable_all().build()
});

/// A webhook that can be called.
#[derive(Clone, Debug)]
pub(crate) struct Webhook {
    /// As messages show it, without the query.
    address: String,
    /// Host of the address; of a service its name in the cluster.
    host: String,
    port: u16,
    /// Namespace and name of the service, if it is one.
    service: Option<(String, String)>,
    path: String,
    bundle: String,
}

impl Webhook {
    /// From a `clientConfig`, or from the service and `caBundle` of an APIService.
    pub(crate) fn of(config: &Value) -> Self {
        let bundle = text(config, "caBundle").to_owned();
        let service = &config["service"];
        if service.is_object() {
            let (name, namespace) = (text(service, "name"), text(service, "namespace"));
            let port = service["port"].as_u64().and_then(|port| u16::try_from(port).ok()).unwrap_or(443);
            let host = format!("{name}.{namespace}.svc");
            let path = text(service, "path").to_owned();
            return Self {
                address: format!("https://{host}:{port}{path}"),
                host,
                port,
                service: Some((namespace.to_owned(), name.to_owned())),
                path,
                bundle,
            };
        }
        let url = text(config, "url");
        let parsed: http::Uri = url.parse().unwrap_or_default();
        let host = parsed.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        Self {
            address: url.to_owned(),
            host,
            port: parsed.port_u16().unwrap_or(443),
            service: None,
            path: parsed.path().to_owned(),
            bundle,
        }
    }

    /// Sends a review and returns the answer's JSON. A failure says what was sent and what went wrong.
    pub(crate) fn call(
        &self,
        lookup: &dyn Lookup,
        review: &Value,
        timeout: Duration,
    ) -> Result<Value, String> {
        let query = format!("timeout={}s", timeout.as_secs());
        let failed = |why: String| format!("Post \"{}?{query}\": {why}", self.address);
        let (host, port) = self.place(lookup).map_err(failed)?;
        let runtime = CALLS.as_ref().map_err(|error| failed(error.to_string()))?;
        let (path, name, bundle) = (format!("{}?{query}", self.path), self.host.clone(), self.bundle.clone());
        let body = Bytes::from(review.to_string());
        let (send, answer) = std::sync::mpsc::sync_channel(1);
        runtime.spawn(async move {
            let call = post(&host, port, &name, &path, &bundle, body);
            let outcome = match tokio::time::timeout(timeout, call).await {
                Ok(outcome) => outcome,
                Err(_) => Err(Failure::Transport("context deadline exceeded".to_owned())),
            };
            // Nobody is left to be told if the caller is gone.
            let _ = send.send(outcome);
        });
        match waiting(|| answer.recv()) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Failure::Transport(why))) => Err(failed(why)),
            Ok(Err(Failure::Answer(why))) => Err(why),
            Err(_) => Err(failed("the call was given up".to_owned())),
        }
    }

    /// Where to connect to. A service's own address leads nowhere in a cluster without a network, so its endpoints are
    /// called.
    fn place(&self, lookup: &dyn Lookup) -> Result<(String, u16), String> {
        let Some((namespace, name)) = &self.service else { return Ok((self.host.clone(), self.port)) };
        let service = lookup.get("", "services", namespace, name);
        let service = service.ok_or_else(|| format!("service {name:?} not found"))?;
        if text(&service["spec"], "type") == "ExternalName" {
            return Ok((text(&service["spec"], "externalName").to_owned(), self.port));
        }
        let ports = items(&service["spec"], "ports");
        let Some(port) = ports.iter().find(|p| p["port"] == self.port) else {
            return Err(format!("no service port {} found for service {name:?}", self.port));
        };
        let target = text(port, "name");
        let slices = endpoints::slices(lookup, namespace, name);
        let found = slices.iter().flat_map(|slice| endpoints::ready(slice, target));
        let older = lookup.get("", "endpoints", namespace, name).unwrap_or_default();
        let old = items(&older, "subsets").iter().flat_map(|subset| {
            let number = endpoints::port(subset, target);
            items(subset, "addresses").iter().filter_map(move |a| Some((text(a, "ip").to_owned(), number?)))
        });
        found.chain(old).next().ok_or_else(|| format!("no endpoints available for service {name:?}"))
    }
}

/// Why a call brought no JSON.
enum Failure {
    /// There was no answer.
    Transport(String),
    /// There was one, of no use.
    Answer(String),
}

/// Waits without keeping other tasks of a worker thread from going on.
fn waiting<T>(wait: impl FnOnce() -> T) -> T {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(wait)
        }
        _ => wait(),
    }
}

async fn post(
    host: &str,
    port: u16,
    name: &str,
    path: &str,
    bundle: &str,
    body: Bytes,
) -> Result<Value, Failure> {
    let transport = |why: String| Failure::Transport(why);
    let stream = TcpStream::connect((host, port)).await.map_err(|error| {
        let place = if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") };
        transport(match host.parse::<IpAddr>() {
            Ok(_) => format!("dial tcp {place}: connect: {}", go_words(&error)),
            // Names that are not found, and those whose addresses do not answer.
            Err(_) if error.kind() == std::io::ErrorKind::ConnectionRefused => {
                format!("dial tcp {place}: connect: connection refused")
            }
            Err(_) => format!("dial tcp: lookup {host}: no such host"),
        })
    })?;
    let server = ServerName::try_from(name.to_owned()).map_err(|error| transport(error.to_string()))?;
    let connector = tokio_rustls::TlsConnector::from(Arc::new(tls(bundle).map_err(transport)?));
    let stream =
        connector.connect(server, stream).await.map_err(|error| transport(tls_words(&error, name)))?;
    let handshake = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| transport(error.to_string()))?;
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "the connection to a webhook ended");
        }
    });
    let request =
        http::Request::post(if path.starts_with('/') { path.to_owned() } else { format!("/{path}") })
            .header(http::header::HOST, format!("{name}:{port}"))
            .header(http::header::CONTENT_TYPE, "application/json")
            .header(http::header::ACCEPT, "application/json, */*")
            .header(http::header::USER_AGENT, "kube-apiserver-admission")
            .body(Full::new(body))
            .map_err(|error| transport(error.to_string()))?;
    let response = sender.send_request(request).await.map_err(|error| {
        transport(if error.is_incomplete_message() { "EOF".to_owned() } else { error.to_string() })
    })?;
    let code = response.status();
    let read = Limited::new(response.into_body(), MAX_ANSWER).collect().await;
    let bytes = read.map_err(|error| transport(error.to_string()))?.to_bytes();
    if !code.is_success() {
        return Err(Failure::Answer(refusal(code.as_u16(), &bytes)));
    }
    serde_json::from_slice(&bytes)
        .map_err(|_| Failure::Answer("couldn't get version/kind; json parse error: invalid JSON".to_owned()))
}

/// What a code other than success is called.
fn refusal(code: u16, body: &[u8]) -> String {
    let said = serde_json::from_slice::<Value>(body).unwrap_or_default();
    let message = text(&said, "message");
    if text(&said, "kind") == "Status" && !message.is_empty() {
        return message.to_owned();
    }
    match code {
        404 => "the server could not find the requested resource".to_owned(),
        401 => "the server has asked for the client to provide credentials".to_owned(),
        403 => "forbidden: ".to_owned() + String::from_utf8_lossy(body).trim(),
        405 => "the server does not allow this method on the requested resource".to_owned(),
        429 => "the server has received too many requests and has asked us to try again later".to_owned(),
        503 => "the server is currently unable to handle the request".to_owned(),
        504 => "the server was unable to return a response in the time allotted, but may still be processing the request"
            .to_owned(),
        500..=599 => format!(
            "an error on the server ({:?}) has prevented the request from succeeding",
            String::from_utf8_lossy(body).trim()
        ),
        _ => "the server rejected our request for an unknown reason".to_owned(),
    }
}

fn tls(bundle: &str) -> Result<rustls::ClientConfig, String> {
    let pem = STANDARD.decode(bundle).map_err(|error| format!("caBundle: {error}"))?;
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| format!("caBundle: {error}"))?;
        roots.add(certificate).map_err(|error| format!("caBundle: {error}"))?;
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    Ok(config.with_root_certificates(roots).with_no_client_auth())
}

fn go_words(error: &std::io::Error) -> String {
    use std::io::ErrorKind as Kind;
    match error.kind() {
        Kind::ConnectionRefused => "connection refused".to_owned(),
        Kind::HostUnreachable => "no route to host".to_owned(),
        Kind::NetworkUnreachable => "network is unreachable".to_owned(),
        Kind::TimedOut => "connection timed out".to_owned(),
        _ => error.to_string(),
    }
}

/// Why no trusted connection came about.
fn tls_words(error: &std::io::Error, name: &str) -> String {
    use rustls::{CertificateError, Error};
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<Error>());
    let why = match inner {
        Some(Error::InvalidMessage(_)) => {
            return "http: server gave HTTP response to HTTPS client".to_owned();
        }
        Some(Error::InvalidCertificate(why)) => why,
        _ if error.kind() == std::io::ErrorKind::UnexpectedEof => return "EOF".to_owned(),
        _ => return error.to_string(),
    };
    let detail = match why {
        CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
            match name.parse::<IpAddr>() {
                Ok(_) => {
                    format!("cannot validate certificate for {name} because it doesn't contain any IP SANs")
                }
                Err(_) => format!("certificate is valid for other names, not {name}"),
            }
        }
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "certificate has expired or is not yet valid".to_owned()
        }
        _ => "certificate signed by unknown authority".to_owned(),
    };
    format!("tls: failed to verify certificate: x509: {detail}")
}
