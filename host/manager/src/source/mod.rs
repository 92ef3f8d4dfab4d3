//! Where modules come from: a directory, or a single file.
//!
//! In: a path. Out: events: this content was found there, this file is gone, this
//! cannot be read. Invariant: content is handed over once for each change, and
//! only when the file has settled; what looks half-written is waited for.

mod scan;

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use notify::Watcher;
use tokio::{sync::mpsc, time};
use tokio_util::sync::CancellationToken;

use scan::Scanner;

/// Changes must be this long ago before files are looked at.
const QUIET: Duration = Duration::from_millis(150);
/// A directory that never comes to rest is looked at all the same.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Notifications get lost (network file systems, full queues): look anyway.
const RESCAN: Duration = Duration::from_secs(2);

/// What happened to modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceEvent {
    /// A file with new content.
    Found {
        /// The file.
        path: PathBuf,
        /// Its content.
        bytes: Vec<u8>,
        /// SHA-256 of the content, in hexadecimal.
        hash: String,
    },
    /// A file that was found before is there no more.
    Gone {
        /// The file.
        path: PathBuf,
    },
    /// A file that was found before has another name, one that another may have
    /// had before.
    Moved {
        /// Its name before.
        from: PathBuf,
        /// Its name.
        to: PathBuf,
        /// Its content, which is what it was.
        bytes: Vec<u8>,
        /// SHA-256 of the content, in hexadecimal.
        hash: String,
    },
    /// A file, or the directory itself, cannot be read. Said once; what was found
    /// before still holds.
    Trouble {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The directory can be read again.
    Recovered {
        /// The directory.
        path: PathBuf,
    },
    /// The first look at everything is over.
    Scanned,
}

/// Follows the `.wasm` files of a directory, or one file.
#[derive(Debug)]
pub struct DirectorySource {
    events: mpsc::Receiver<SourceEvent>,
    notices: mpsc::Sender<()>,
}

impl DirectorySource {
    /// Starts following, until cancelled. Files whose names begin with a dot are
    /// left alone. Needs a tokio runtime.
    pub fn start(path: PathBuf, cancel: CancellationToken) -> Self {
        // Modules can be large: few of them wait to be taken.
        let (sender, events) = mpsc::channel(4);
        // One notice waiting is enough.
        let (notices, changes) = mpsc::channel(1);
        let watch = Watch::new(&path, notices.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = follow(path, watch, changes, sender) => {}
                () = cancel.cancelled() => {}
            }
        });
        Self { events, notices }
    }

    /// Looks at all files soon, whether or not anything told of a change.
    pub fn look_now(&self) {
        let _ = self.notices.try_send(());
    }

    /// The next event; none once it has been cancelled.
    pub async fn next(&mut self) -> Option<SourceEvent> {
        self.events.recv().await
    }
}

async fn follow(
    path: PathBuf,
    mut watch: Watch,
    mut changes: mpsc::Receiver<()>,
    events: mpsc::Sender<SourceEvent>,
) {
    let mut scanner = Scanner::new(path);
    let mut first = true;
    loop {
        let found;
        (scanner, found) = match tokio::task::spawn_blocking(move || {
            let found = scanner.scan();
            (scanner, found)
        })
        .await
        {
            Ok(done) => done,
            Err(error) => {
                tracing::error!(%error, "files are no longer followed");
                return;
            }
        };
        for event in found {
            if events.send(event).await.is_err() {
                return;
            }
        }
        if std::mem::take(&mut first) && events.send(SourceEvent::Scanned).await.is_err() {
            return;
        }
        watch.renew();
        let wait = if scanner.is_waiting() { QUIET } else { RESCAN };
        if time::timeout(wait, changes.recv()).await.is_ok_and(|change| change.is_some()) {
            settle(&mut changes).await;
        }
    }
}

/// Waits until nothing has changed for a while.
async fn settle(changes: &mut mpsc::Receiver<()>) {
    let quiet =
        async { while time::timeout(QUIET, changes.recv()).await.is_ok_and(|change| change.is_some()) {} };
    let _ = time::timeout(MAX_DELAY, quiet).await;
}

/// The file system's notifications, as far as there are any.
struct Watch {
    dir: PathBuf,
    watcher: Option<notify::RecommendedWatcher>,
    watching: bool,
}

impl Watch {
    fn new(path: &Path, notices: mpsc::Sender<()>) -> Self {
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Our own reading is no change.
            if !event.is_ok_and(|event| event.kind.is_access()) {
                let _ = notices.try_send(());
            }
        });
        let watcher = watcher.inspect_err(
            |error| tracing::warn!(%error, "no notifications of changed files; looking every {RESCAN:?}"),
        );
        let is_file = scan::is_module_name(path) && !path.is_dir();
        let dir = match path.parent() {
            Some(parent) if is_file && parent.as_os_str().is_empty() => PathBuf::from("."),
            Some(parent) if is_file => parent.to_path_buf(),
            _ => path.to_path_buf(),
        };
        let mut watch = Self { dir, watcher: watcher.ok(), watching: false };
        watch.renew();
        watch
    }

    /// Watches the directory, unless it does already. One that was removed and
    /// made again is another directory.
    fn renew(&mut self) {
        let Some(watcher) = &mut self.watcher else { return };
        if !self.dir.is_dir() {
            if std::mem::take(&mut self.watching) {
                let _ = watcher.unwatch(&self.dir);
            }
        } else if !self.watching {
            self.watching = watcher.watch(&self.dir, notify::RecursiveMode::NonRecursive).is_ok();
        }
    }
}

#[cfg(test)]
mod tests;
