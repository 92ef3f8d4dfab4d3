//! Who of this machine is alive: a take-over without waiting for the lease.
//!
//! A leader holds a lock (flock) on a file named by the Lease's uid, with its
//! identity in it. The kernel drops the lock when the process ends, however it
//! does, and keeps it for one that is stopped. So whoever gets the lock and
//! finds in the file the very identity that the Lease names knows that this
//! process is dead. Without such a file, or on another machine, nothing is
//! known, and the lease is waited for.
//!
//! The file also says whether writes were under way: a server may still carry
//! out what a dead process sent.

use std::{
    fs::{DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{DirBuilderExt, FileExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use parking_lot::Mutex;

/// The first line of a file: writes under way, of a fixed width so that it can
/// be written over.
const COUNT: usize = 10;

/// A lock on the file of a lease.
#[derive(Debug)]
pub struct LocalLock {
    file: File,
    path: PathBuf,
    writes: Mutex<u32>,
}

/// What the last holder of a lock left behind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Left {
    /// Who it was; empty if nobody was.
    pub(super) identity: String,
    /// Whether it had writes under way.
    pub(super) writing: bool,
}

/// The directory where processes of this machine meet, if there is one that
/// nobody else can write to: `$RUNTIME_DIRECTORY` (systemd's), else
/// `coxswain` under `$XDG_RUNTIME_DIR` or, for root, under `/run`, else
/// `coxswain-UID` in the directory for temporary files.
pub fn default_runtime_dir() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let uid = rustix::process::getuid();
    variable("RUNTIME_DIRECTORY")
        .or_else(|| variable("XDG_RUNTIME_DIR").map(|dir| dir.join("coxswain")))
        .or_else(|| uid.is_root().then(|| PathBuf::from("/run/coxswain")))
        .unwrap_or_else(|| std::env::temp_dir().join(format!("coxswain-{}", uid.as_raw())))
}

/// Makes the directory, and refuses one that others can write to.
pub(super) fn prepare(dir: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(dir) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    let found = std::fs::symlink_metadata(dir)?;
    let refuse = |reason: &str| Err(io::Error::new(io::ErrorKind::PermissionDenied, reason));
    if !found.is_dir() {
        return refuse("it is no directory");
    }
    if found.uid() != rustix::process::getuid().as_raw() || found.mode() & 0o022 != 0 {
        return refuse("others could write to it");
    }
    Ok(())
}

impl LocalLock {
    /// Takes the lock of a lease; none if another process holds it. Also gives
    /// what its last holder left.
    pub(super) fn take(dir: &Path, uid: &str) -> io::Result<Option<(Self, Left)>> {
        if uid.is_empty() || !uid.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-') {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a Lease without a proper uid"));
        }
        let path = dir.join(format!("{uid}.lock"));
        loop {
            let mut file = OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .mode(0o600)
                .open(&path)?;
            match file.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
            // Whoever had it may have removed it meanwhile: then it is not the one others lock.
            let same = std::fs::metadata(&path)
                .is_ok_and(|now| Some(now.ino()) == file.metadata().ok().map(|m| m.ino()));
            if !same {
                continue;
            }
            let mut text = String::new();
            // Anything that is not ours to read says nothing.
            let _ = (&mut file).take(1024).read_to_string(&mut text);
            let left = match text.split_once('\n') {
                Some((count, identity)) => Left {
                    identity: identity.trim().to_owned(),
                    writing: count.trim().parse::<u32>().map_or(true, |count| count > 0),
                },
                None => Left::default(),
            };
            return Ok(Some((Self { file, path, writes: Mutex::new(0) }, left)));
        }
    }

    /// Says whose lock it is, from now on.
    pub(super) fn sign(&self, identity: &str) -> io::Result<()> {
        let mut file = &self.file;
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(format!("{:>COUNT$}\n{identity}\n", 0).as_bytes())
    }

    pub(super) fn write_begins(&self) {
        self.count(|writes| writes.saturating_add(1));
    }

    pub(super) fn write_ended(&self) {
        self.count(|writes| writes.saturating_sub(1));
    }

    fn count(&self, change: impl Fn(u32) -> u32) {
        let mut writes = self.writes.lock();
        let before = *writes;
        *writes = change(before);
        // Only whether there are any is of interest.
        if (before == 0) != (*writes == 0) {
            let text = format!("{:>COUNT$}", u32::from(*writes > 0));
            if let Err(error) = self.file.write_all_at(text.as_bytes(), 0) {
                tracing::debug!(file = %self.path.display(), %error, "cannot note a write");
            }
        }
    }

    /// Gives the lock up and takes the file away: who comes next need not know.
    pub(super) fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.path) {
            tracing::debug!(file = %self.path.display(), %error, "cannot remove a lock file");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_gets_the_lock_learns_whose_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let (first, left) = LocalLock::take(dir.path(), "a-1").unwrap().unwrap();
        assert_eq!(left, Left::default());
        first.sign("host_1").unwrap();
        assert!(LocalLock::take(dir.path(), "a-1").unwrap().is_none(), "it is held");
        assert!(LocalLock::take(dir.path(), "a-2").unwrap().is_some(), "another lease");
        // As if the process had died: nothing is removed.
        drop(first);
        let (second, left) = LocalLock::take(dir.path(), "a-1").unwrap().unwrap();
        assert_eq!(left, Left { identity: "host_1".into(), writing: false });
        second.sign("host_2_longer").unwrap();
        second.write_begins();
        second.write_begins();
        second.write_ended();
        drop(second);
        let (third, left) = LocalLock::take(dir.path(), "a-1").unwrap().unwrap();
        assert_eq!(left, Left { identity: "host_2_longer".into(), writing: true });
        third.sign("h").unwrap();
        third.write_begins();
        third.write_ended();
        third.remove();
        drop(third);
        let (_, left) = LocalLock::take(dir.path(), "a-1").unwrap().unwrap();
        assert_eq!(left, Left::default(), "it was given up");
    }

    #[test]
    fn names_that_lead_elsewhere_and_directories_of_others_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        assert!(LocalLock::take(dir.path(), "../a").is_err());
        assert!(LocalLock::take(dir.path(), "").is_err());
        let open = dir.path().join("open");
        DirBuilder::new().mode(0o700).create(&open).unwrap();
        prepare(&open).unwrap();
        std::fs::set_permissions(&open, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        assert!(prepare(&open).unwrap_err().to_string().contains("others could write"));
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        assert!(prepare(&file).is_err());
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).unwrap();
        assert!(prepare(&link).unwrap_err().to_string().contains("no directory"));
    }
}
