//! The proxy's port: open, or closed for a while.

use std::{net::SocketAddr, sync::Weak, time::Duration};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::mpsc,
    time::Instant,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use super::{Cut, Proxy};

/// What the port is to do.
#[derive(Clone, Copy, Debug)]
pub(super) enum Order {
    /// Be open.
    Open,
    /// Be closed for this long, and tear all connections down.
    Close(Duration),
}

/// Serves until the proxy is gone.
pub(super) async fn run(
    proxy: Weak<Proxy>,
    listener: TcpListener,
    tls: TlsAcceptor,
    mut orders: mpsc::UnboundedReceiver<Order>,
) {
    let Ok(address) = listener.local_addr() else { return };
    let mut open = Some(listener);
    loop {
        let listener = match open.take() {
            Some(listener) => listener,
            None => rebind(address).await,
        };
        let epoch = CancellationToken::new();
        let closed_for = loop {
            tokio::select! {
                order = orders.recv() => match order {
                    Some(Order::Close(time)) => break time,
                    Some(Order::Open) => {}
                    None => return,
                },
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => drop(tokio::spawn(connection(proxy.clone(), stream, tls.clone(), epoch.clone()))),
                    // Out of descriptors, most likely: connections that end will free some.
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                },
            }
        };
        drop(listener);
        epoch.cancel();
        let mut end = Instant::now() + closed_for;
        loop {
            tokio::select! {
                () = tokio::time::sleep_until(end) => break,
                order = orders.recv() => match order {
                    Some(Order::Open) => break,
                    Some(Order::Close(time)) => end = Instant::now() + time,
                    None => return,
                },
            }
        }
    }
}

/// Takes the same port again.
async fn rebind(address: SocketAddr) -> TcpListener {
    loop {
        match TcpListener::bind(address).await {
            Ok(listener) => return listener,
            Err(error) => {
                tracing::warn!(%address, %error, "the proxy cannot have its port back yet");
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

async fn connection(proxy: Weak<Proxy>, stream: TcpStream, tls: TlsAcceptor, epoch: CancellationToken) {
    let serving = async {
        // Small answers must not wait for others to share a packet with.
        let _ = stream.set_nodelay(true);
        let Ok(stream) = tls.accept(stream).await else { return };
        let service = service_fn(|request| {
            let proxy = proxy.upgrade();
            async move {
                // A task of its own: it ends its work when the connection is torn down.
                let answering = tokio::spawn(proxy.ok_or(Cut)?.answer(request));
                answering.await.map_err(|_| Cut)?
            }
        });
        let http = hyper::server::conn::http1::Builder::new();
        if let Err(error) = http.serve_connection(TokioIo::new(stream), service).await {
            tracing::debug!(%error, "connection ended");
        }
    };
    tokio::select! {
        () = serving => {}
        () = epoch.cancelled() => {}
    }
}
