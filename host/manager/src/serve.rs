//! The status endpoint, over plain HTTP on loopback.

use std::{net::SocketAddr, sync::Arc};

use axum::{Json, Router, extract::State, routing::get};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::manager::{Manager, Status};

/// Serves `/status` and `/healthz` until cancelled; says where it listens.
pub async fn start(
    address: SocketAddr,
    manager: Arc<Manager>,
    cancel: CancellationToken,
) -> std::io::Result<SocketAddr> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let app = Router::new()
        .route("/status", get(status))
        .route("/healthz", get(|| async { "ok" }))
        .with_state(manager);
    tokio::spawn(async move {
        let served = axum::serve(listener, app).with_graceful_shutdown(cancel.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::error!(%error, "the status endpoint stopped");
        }
    });
    Ok(bound)
}

async fn status(State(manager): State<Arc<Manager>>) -> Json<Status> {
    Json(manager.status())
}
