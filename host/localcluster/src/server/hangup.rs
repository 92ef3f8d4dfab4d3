//! Notices that a client has gone while it is being sent a stream.
//!
//! HTTP/1 connections may be half closed, so that a client that has said everything still gets its answer; hyper does not
//! look at the receiving half meanwhile. A watch without events would outlive its client by as long as it lasts. As with
//! the real server, a stream ends when its client closes its half. HTTP/2 connections notice by themselves.

use std::io::ErrorKind;
use std::sync::Arc;

use tokio::io::Interest;
use tokio::net::TcpStream;

/// The receiving half of a connection.
#[derive(Clone, Default)]
pub(super) struct Hangup(Option<Arc<std::net::TcpStream>>);

impl Hangup {
    /// Of a connection. Where the system has no descriptor left for it, nothing is noticed.
    #[cfg(unix)]
    pub(super) fn of(stream: &TcpStream) -> Self {
        use std::os::fd::AsFd;
        let own = stream.as_fd().try_clone_to_owned().map(std::net::TcpStream::from);
        Self(own.ok().map(Arc::new))
    }

    /// Of a connection. Where the system has no handle left for it, nothing is noticed.
    #[cfg(windows)]
    pub(super) fn of(stream: &TcpStream) -> Self {
        use std::os::windows::io::AsSocket;
        let own = stream.as_socket().try_clone_to_owned().map(std::net::TcpStream::from);
        Self(own.ok().map(Arc::new))
    }

    /// Ends when the client has closed its half; never if that cannot be noticed.
    pub(super) async fn wait(self) {
        let own = self.0.and_then(|socket| socket.try_clone().ok());
        if let Some(Ok(socket)) = own.map(TcpStream::from_std) {
            while let Ok(ready) = socket.ready(Interest::READABLE).await {
                if ready.is_read_closed() {
                    return;
                }
                // More requests: they wait for the end of this one. Nothing is taken, so as to be told of what follows.
                let _ = socket.try_io(Interest::READABLE, || Err::<(), _>(ErrorKind::WouldBlock.into()));
            }
        }
        std::future::pending::<()>().await;
    }
}
