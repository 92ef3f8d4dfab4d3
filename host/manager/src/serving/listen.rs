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
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use tower::ServiceExt;

use super::{Error, config::DEFAULT_PORT, config::Serving};

/// Connections at once; more wait to be accepted.
const CONNECTIONS: usize = 256;
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
        None => (DEFAULT_PORT, false),
    };
    let address = SocketAddr::new(config.bind_address, port);
    match TcpListener::bind(address).await {
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

/// Serves until cancelled, and lets requests under way finish.
pub(super) async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    router: Router,
    cancel: CancellationToken,
) {
    let acceptor = TlsAcceptor::from(tls);
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
        let (acceptor, router, cancel) = (acceptor.clone(), router.clone(), cancel.clone());
        connections.spawn(async move {
            connection(stream, acceptor, router, cancel).await;
            drop(place);
        });
    }
    connections.close();
    let _ = tokio::time::timeout(PATIENCE, connections.wait()).await;
}

async fn connection(stream: TcpStream, acceptor: TlsAcceptor, router: Router, cancel: CancellationToken) {
    let _ = stream.set_nodelay(true);
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
    builder.http2().timer(TokioTimer::new());
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
