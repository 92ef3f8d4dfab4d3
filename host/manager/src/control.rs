//! The control socket: commands that change a running manager.
//!
//! In: HTTP over a unix socket. Out: what was done, or why not. Invariant: only
//! the user who runs the manager (and root) can reach it. The socket is made in a
//! fresh directory that nobody else may enter, has the mode 0600 before it
//! appears under its name, and whoever connects is asked for their uid again.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use axum::{
    Router,
    extract::{Path as Segment, State},
    http::StatusCode,
    routing::post,
};
use tokio::net::{UnixListener, UnixStream, unix::SocketAddr};
use tokio_util::sync::CancellationToken;

use crate::manager::Manager;

/// Name of the socket in its directory.
const NAME: &str = "control.sock";

/// Where manager and commands meet unless told otherwise:
/// `$XDG_RUNTIME_DIR/coxswain/control.sock`, for root
/// `/run/coxswain/control.sock`, else `$TMPDIR/coxswain-UID/control.sock`.
pub fn default_path() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from).filter(|dir| dir.is_absolute());
    let dir = match (runtime, own_uid()) {
        (Some(runtime), _) => runtime.join("coxswain"),
        (None, Some(0)) => PathBuf::from("/run/coxswain"),
        (None, uid) => std::env::temp_dir().join(format!("coxswain-{}", uid.unwrap_or_default())),
    };
    dir.join(NAME)
}

/// Our uid, as the system shows it.
fn own_uid() -> Option<u32> {
    tempfile::tempfile().and_then(|file| file.metadata()).map(|metadata| metadata.uid()).ok()
}

/// Why there is no control socket.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Another manager has it.
    #[error("another manager listens at {0}; choose another with --control-socket")]
    Taken(PathBuf),
    /// Its directory could be another user's.
    #[error(
        "{dir} belongs to another user, or others may write to it; choose another place with --control-socket"
    )]
    Foreign {
        /// The directory.
        dir: PathBuf,
    },
    /// The system says no.
    #[error("no control socket at {path}: {source}")]
    Io {
        /// The socket.
        path: PathBuf,
        /// What the system says.
        #[source]
        source: io::Error,
    },
}

/// A socket that is listened at; its file goes with it.
#[derive(Debug)]
pub struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

/// Listens until cancelled, or until what is returned is dropped.
pub async fn start(path: &Path, manager: Arc<Manager>, cancel: CancellationToken) -> Result<Socket, Error> {
    let listener = listen(path).await?;
    let app = Router::new()
        .route("/controllers/{name}/rollback", post(rollback))
        .route("/controllers/{name}/promote", post(promote))
        .with_state(manager);
    tokio::spawn(async move {
        let served = axum::serve(Own(listener), app).with_graceful_shutdown(cancel.cancelled_owned()).await;
        if let Err(error) = served {
            tracing::error!(%error, "the control socket stopped");
        }
    });
    Ok(Socket(path.to_owned()))
}

async fn rollback(
    State(manager): State<Arc<Manager>>,
    Segment(name): Segment<String>,
) -> (StatusCode, String) {
    match manager.rollback(&name).await {
        Ok(said) => (StatusCode::OK, said),
        Err(reason) => (StatusCode::CONFLICT, reason),
    }
}

async fn promote(
    State(manager): State<Arc<Manager>>,
    Segment(name): Segment<String>,
) -> (StatusCode, String) {
    match manager.promote(&name) {
        Ok(said) => (StatusCode::OK, said),
        Err(reason) => (StatusCode::CONFLICT, reason),
    }
}

async fn listen(path: &Path) -> Result<UnixListener, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io)?;
    // Whoever may rename files there could put a socket of their own in our place. /tmp itself will do:
    // its sticky bit keeps files with their owners.
    let found = fs::metadata(dir).map_err(io)?;
    let ours = own_uid();
    let safe_owner = found.uid() == 0 || Some(found.uid()) == ours;
    if !safe_owner || (found.mode() & 0o022 != 0 && found.mode() & 0o1000 == 0) {
        return Err(Error::Foreign { dir: dir.to_owned() });
    }
    if let Ok(there) = fs::symlink_metadata(path) {
        if Some(there.uid()) != ours {
            return Err(Error::Foreign { dir: path.to_owned() });
        }
        if UnixStream::connect(path).await.is_ok() {
            return Err(Error::Taken(path.to_owned()));
        }
    }
    // In a directory of its own until its mode is set; the rename replaces what a manager left that was killed.
    let private = tempfile::Builder::new().prefix(".control-").tempdir_in(dir).map_err(io)?;
    let made = private.path().join("s");
    let listener = UnixListener::bind(&made).map_err(io)?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o600)).map_err(io)?;
    fs::rename(&made, path).map_err(io)?;
    Ok(listener)
}

/// Takes connections of our own user and of root alone.
struct Own(UnixListener);

impl axum::serve::Listener for Own {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (UnixStream, SocketAddr) {
        let ours = own_uid();
        loop {
            let (stream, address) = axum::serve::Listener::accept(&mut self.0).await;
            match stream.peer_cred() {
                Ok(peer) if peer.uid() == 0 || Some(peer.uid()) == ours => return (stream, address),
                Ok(peer) => {
                    tracing::warn!(uid = peer.uid(), "another user was turned away from the control socket")
                }
                Err(error) => tracing::warn!(%error, "a connection to the control socket was turned away"),
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[tokio::test]
    async fn the_socket_is_private_and_only_one_has_it() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("run").join(NAME);
        let listener = listen(&path).await.unwrap();
        assert_eq!((mode(path.parent().unwrap()), mode(&path)), (0o700, 0o600));
        assert!(matches!(listen(&path).await, Err(Error::Taken(_))));
        drop(listener);
        // One that a killed manager left behind is replaced.
        assert!(path.exists());
        let _again = listen(&path).await.unwrap();
        let left: Vec<_> =
            fs::read_dir(path.parent().unwrap()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left, [NAME]);
    }

    #[tokio::test]
    async fn a_directory_that_others_may_write_to_is_refused() {
        let home = tempfile::tempdir().unwrap();
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let refused = listen(&home.path().join(NAME)).await.unwrap_err();
        assert!(matches!(refused, Error::Foreign { .. }), "{refused}");
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o1777)).unwrap();
        assert!(listen(&home.path().join(NAME)).await.is_ok());
    }
}
