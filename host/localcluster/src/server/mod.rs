//! The sockets: TLS, HTTP/1.1 and HTTP/2, limits, graceful end.
//!
//! In: connections. Out: requests to the REST layer with their bodies read, responses back. Invariant: a connection
//! owns all that it allocates, so a client that vanishes leaves nothing behind.

mod hangup;
mod identity;
pub mod kubeconfig;
pub mod pki;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use crate::rest::strategy::User;
use crate::rest::{Body, Cut, Request, Rest, failure, text_response};
use crate::status::Status;
use hangup::Hangup;

/// Largest body, as of the real server.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;
/// A client gets this long for its TLS handshake and for each set of headers.
const PATIENCE: Duration = Duration::from_secs(30);
/// A client gets this long for a body.
const BODY_PATIENCE: Duration = Duration::from_secs(60);
/// Requests that are under way get this long at the end.
const GRACE: Duration = Duration::from_secs(5);

type ResponseBody = UnsyncBoxBody<Bytes, Infallible>;

/// Serves until `cancel`, then lets requests finish.
pub async fn serve(listener: TcpListener, tls: TlsAcceptor, rest: Arc<Rest>, cancel: CancellationToken) {
    let graceful = GracefulShutdown::new();
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(PATIENCE).half_close(true);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(1000)
        .keep_alive_interval(PATIENCE)
        .keep_alive_timeout(PATIENCE);
    let builder = Arc::new(builder);
    loop {
        let (stream, peer) = tokio::select! {
            () = cancel.cancelled() => break,
            accepted = listener.accept() => match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    // Out of descriptors, most likely: connections that end will free some.
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
        };
        let connection = Connection {
            rest: rest.clone(),
            cancel: cancel.clone(),
            builder: builder.clone(),
            watcher: graceful.watcher(),
        };
        tokio::spawn(connection.run(stream, peer, tls.clone()));
    }
    drop(listener);
    if tokio::time::timeout(GRACE, graceful.shutdown()).await.is_err() {
        tracing::debug!("some requests did not finish in time");
    }
}

struct Connection {
    rest: Arc<Rest>,
    cancel: CancellationToken,
    builder: Arc<auto::Builder<TokioExecutor>>,
    watcher: hyper_util::server::graceful::Watcher,
}

impl Connection {
    async fn run(self, stream: TcpStream, peer: SocketAddr, tls: TlsAcceptor) {
        // Small answers must not wait for others to share a packet with.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%peer, %error, "cannot set TCP_NODELAY");
        }
        let hangup = Hangup::of(&stream);
        let stream = match tokio::time::timeout(PATIENCE, tls.accept(stream)).await {
            Ok(Ok(stream)) => stream,
            Ok(Err(error)) => {
                tracing::debug!(%peer, %error, "no TLS handshake");
                return;
            }
            Err(_) => return,
        };
        let certificate = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
        let identity = certificate.and_then(|certificate| identity::of(certificate));
        let service = service_fn(|request| {
            let (rest, identity) = (self.rest.clone(), identity.clone());
            let end = StreamEnd { cancel: self.cancel.clone(), hangup: hangup.clone() };
            async move { answer(rest, request, identity, end).await }
        });
        let connection = self.builder.serve_connection(TokioIo::new(stream), service);
        if let Err(error) = self.watcher.watch(connection.into_owned()).await {
            tracing::debug!(%peer, %error, "connection ended");
        }
    }
}

/// The error that makes hyper cut a connection.
#[derive(Debug, thiserror::Error)]
#[error("connection cut on request")]
struct CutConnection;

async fn answer(
    rest: Arc<Rest>,
    request: http::Request<Incoming>,
    identity: Option<User>,
    end: StreamEnd,
) -> Result<http::Response<ResponseBody>, CutConnection> {
    let (parts, body) = request.into_parts();
    let body = match read(body).await {
        Ok(body) => body,
        Err(response) => return Ok(convert(*response, end)),
    };
    let end = if parts.version < http::Version::HTTP_2 {
        end
    } else {
        StreamEnd { hangup: Hangup::default(), ..end }
    };
    let request = Request {
        method: parts.method,
        path: parts.uri.path().to_owned(),
        query: parts.uri.query().unwrap_or_default().to_owned(),
        headers: parts.headers,
        body,
        identity,
    };
    match rest.handle(request).await {
        Ok(response) => Ok(convert(response, end)),
        Err(Cut) => Err(CutConnection),
    }
}

async fn read(body: Incoming) -> Result<Bytes, Box<crate::rest::Response>> {
    let limited = Limited::new(body, BODY_LIMIT).collect();
    match tokio::time::timeout(BODY_PATIENCE, limited).await {
        Ok(Ok(collected)) => Ok(collected.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => {
            let status = Status::too_large(format!("limit is {BODY_LIMIT}"));
            Err(Box::new(failure(&status, false)))
        }
        Ok(Err(_)) => Err(Box::new(text_response(400, "400 Bad Request"))),
        Err(_) => Err(Box::new(text_response(408, "408 Request Timeout"))),
    }
}

/// What ends a stream that does not end by itself.
struct StreamEnd {
    cancel: CancellationToken,
    hangup: Hangup,
}

fn convert(response: crate::rest::Response, end: StreamEnd) -> http::Response<ResponseBody> {
    response.map(|body| match body {
        Body::Full(bytes) => Full::new(bytes).boxed_unsync(),
        Body::Stream(pieces) => {
            let StreamEnd { cancel, hangup } = end;
            let ended = Box::pin(async move {
                tokio::select! {
                    () = cancel.cancelled() => {}
                    () = hangup.wait() => {}
                }
            });
            let frames = pieces.take_until(ended).map(|piece| Ok(Frame::data(piece)));
            StreamBody::new(frames).boxed_unsync()
        }
    })
}
