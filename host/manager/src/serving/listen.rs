//! Connections: TCP, TLS, HTTP/1.1 and HTTP/2.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::Router;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
    service::TowerToHyperService,
};
use rustls::{ServerConfig, pki_types::CertificateDer};
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use super::{
    Error,
    config::Serving,
    names::{At, Certificates},
};

/// Connections at once; more wait to be accepted.
const CONNECTIONS: usize = 256;
/// Requests at once on a connection of HTTP/2, as in Kubernetes.
const STREAMS: u32 = 100;
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// How long a peer may take over its handshake, and over the head of a request.
const PATIENCE: Duration = Duration::from_secs(10);

/// The certificates that a peer presented, its own first. Nothing is known of
/// them but that the peer has the key of the first.
#[derive(Clone, Default)]
pub(super) struct Presented(pub(super) Arc<[CertificateDer<'static>]>);

/// Takes the port; nothing if there is to be none. A default port that is taken
/// is no reason not to run: two managers on one machine are legitimate.
pub(super) async fn bind(config: &Serving) -> Result<Option<TcpListener>, Error> {
    let (port, given) = match config.secure_port {
        Some(0) => return Ok(None),
        Some(port) => (port, true),
        None => (config.default_port, false),
    };
    let address = SocketAddr::new(config.bind_address, port);
    match listen(address, config.permit_port_sharing) {
        Ok(listener) => Ok(Some(listener)),
        Err(source) if given => Err(Error::Listen { address, source }),
        Err(error) => {
            tracing::warn!(
                "no endpoints for health and metrics at {address}: {error}; choose another port with --secure-port"
            );
            Ok(None)
        }
    }
}

/// Opens the port. As with Go, SO_REUSEADDR is always set.
fn listen(address: SocketAddr, share: bool) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.set_reuseport(share)?;
    socket.bind(address)?;
    socket.listen(BACKLOG)
}

/// How connections are spoken to.
#[derive(Clone)]
pub(super) struct Speech {
    pub(super) tls: Arc<ServerConfig>,
    pub(super) certificates: Arc<Certificates>,
    streams: u32,
}

impl Speech {
    pub(super) fn new(tls: ServerConfig, certificates: Arc<Certificates>, config: &Serving) -> Self {
        let streams = if config.http2_max_streams == 0 { STREAMS } else { config.http2_max_streams };
        Self { tls: Arc::new(tls), certificates, streams }
    }

    /// TLS for a client that came to this address.
    fn acceptor(&self, address: std::io::Result<SocketAddr>) -> TlsAcceptor {
        match address {
            Ok(address) if self.certificates.knows_addresses() => {
                let mut tls = (*self.tls).clone();
                tls.cert_resolver = Arc::new(At(self.certificates.clone(), address.ip()));
                Arc::new(tls).into()
            }
            _ => self.tls.clone().into(),
        }
    }
}

/// Serves until cancelled, and lets requests under way finish.
pub(super) async fn serve(listener: TcpListener, speech: Speech, router: Router, cancel: CancellationToken) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = TaskTracker::new();
    loop {
        let Ok(place) = places.clone().acquire_owned().await else { break };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                Err(error) => {
                    // Such as too many open files: it passes, or accepting would spin.
                    tracing::debug!(%error, "a connection was not accepted");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = cancel.cancelled() => break,
        };
        let (speech, router, cancel) = (speech.clone(), router.clone(), cancel.clone());
        connections.spawn(async move {
            connection(stream, speech, router, cancel).await;
            drop(place);
        });
    }
    connections.close();
    let _ = tokio::time::timeout(PATIENCE, connections.wait()).await;
}

async fn connection(stream: TcpStream, speech: Speech, router: Router, cancel: CancellationToken) {
    let _ = stream.set_nodelay(true);
    let acceptor = speech.acceptor(stream.local_addr());
    let stream = match tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "a TLS handshake failed"),
        Err(_) => return tracing::debug!("a TLS handshake took too long"),
    };
    let presented = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let presented = Presented(presented.iter().map(|one| one.clone().into_owned()).collect());
    let service = router.map_request(move |mut request: http::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(presented.clone());
        request
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE);
    builder.http2().timer(TokioTimer::new()).max_concurrent_streams(speech.streams);
    let served = builder.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
    tokio::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = cancel.cancelled() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection ended");
    }
}
