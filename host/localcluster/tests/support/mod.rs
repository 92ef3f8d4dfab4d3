//! A cluster in a temporary directory, and a client that speaks as badly as a test wants.
#![allow(dead_code, reason = "each test binary and the benchmark use a part of it")]

use std::sync::Arc;

use coxswain_localcluster::{Cluster, ClusterConfig};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A running cluster and the directory it lives in.
pub struct Running {
    pub cluster: Cluster,
    pub dir: TempDir,
}

/// Starts a cluster, changed as wanted.
pub async fn start(change: impl FnOnce(&mut ClusterConfig)) -> Running {
    let dir = TempDir::new().expect("temporary directory");
    let mut config = ClusterConfig::new(dir.path().join("cluster"));
    config.seed = Some(1);
    change(&mut config);
    let cluster = Cluster::start(config).await.expect("cluster starts");
    Running { cluster, dir }
}

/// An answer.
#[derive(Debug)]
pub struct Reply {
    pub code: u16,
    pub head: String,
    pub body: String,
}

impl Running {
    fn read(&self, name: &str) -> String {
        let path = self.dir.path().join("cluster/pki").join(name);
        std::fs::read_to_string(path).expect("PEM file")
    }

    /// Connects; with the administrator's certificate or without.
    pub async fn connect(&self, as_admin: bool) -> TlsStream<TcpStream> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut roots = rustls::RootCertStore::empty();
        let ca = CertificateDer::from_pem_slice(self.read("ca.crt").as_bytes()).expect("CA");
        roots.add(ca).expect("CA is usable");
        let builder = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots);
        let config = if as_admin {
            let chain = CertificateDer::from_pem_slice(self.read("admin.crt").as_bytes());
            let key = PrivateKeyDer::from_pem_slice(self.read("admin.key").as_bytes());
            builder
                .with_client_auth_cert(vec![chain.expect("certificate")], key.expect("key"))
                .expect("client certificate")
        } else {
            builder.with_no_client_auth()
        };
        let tcp = TcpStream::connect(self.cluster.address()).await.expect("connects");
        let name = ServerName::try_from("localhost").expect("name");
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, tcp).await.expect("TLS handshake")
    }

    /// Sends one request on a connection of its own and reads to the end.
    pub async fn ask(&self, method: &str, path: &str, headers: &[&str], body: &[u8]) -> Reply {
        let mut stream = self.connect(true).await;
        send(&mut stream, method, path, headers, body).await;
        read_all(&mut stream).await.expect("an answer")
    }
}

/// Writes a request that asks for the connection to be closed behind it.
pub async fn send(
    stream: &mut TlsStream<TcpStream>,
    method: &str,
    path: &str,
    headers: &[&str],
    body: &[u8],
) {
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for header in headers {
        head.push_str(header);
        head.push_str("\r\n");
    }
    if !body.is_empty() {
        head.push_str(&format!("content-length: {}\r\n", body.len()));
    }
    head.push_str("\r\n");
    stream.write_all(head.as_bytes()).await.expect("writes");
    // A server that refuses early may have closed already.
    let _ = stream.write_all(body).await;
    let _ = stream.flush().await;
}

/// Reads until the server closes; none if it closed without an answer.
pub async fn read_all(stream: &mut TlsStream<TcpStream>) -> Option<Reply> {
    let mut bytes = Vec::new();
    // A cut connection is an end like any other here.
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    let (head, body) = text.split_once("\r\n\r\n")?;
    let code = head.split(' ').nth(1)?.parse().ok()?;
    Some(Reply { code, head: head.to_lowercase(), body: body.to_owned() })
}
