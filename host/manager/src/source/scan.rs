//! Looks at files and tells what changed since the last look.
//!
//! In: the file system. Out: events. Invariant: a file is read only when its
//! stamp differs from that of what was handed over, and handed over only when the
//! stamp is the same before and after reading.

use std::{
    collections::BTreeMap,
    fs::{self, Metadata},
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant, SystemTime},
};

use sha2::{Digest, Sha256};

use super::SourceEvent;
use crate::engine;

/// How long a file that is no controller may still become one.
const GRACE: Duration = Duration::from_secs(3);
/// Larger files are not modules.
const SIZE_LIMIT: u64 = 512 << 20;

/// What tells one state of a file from another without reading it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Stamp {
    len: u64,
    modified: Option<SystemTime>,
    /// Device, inode and time of change, where there is such a thing.
    identity: (u64, u64, i64, i64),
}

impl Stamp {
    fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let identity = {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino(), metadata.ctime(), metadata.ctime_nsec())
        };
        #[cfg(not(unix))]
        let identity = (0, 0, 0, 0);
        Self { len: metadata.len(), modified: metadata.modified().ok(), identity }
    }
}

/// What is known of a path.
#[derive(Clone, Default)]
struct Known {
    /// Hash of the content handed over last, unless it is gone.
    hash: Option<String>,
    /// The state it was in when that, or trouble with it, was told.
    told: Option<Stamp>,
    trouble: Option<String>,
    /// A state that is waited for to become better, and since when.
    waiting: Option<(Stamp, Instant)>,
    /// Whether the last look missed it.
    missed: bool,
}

/// Looks at one path again and again.
pub(super) struct Scanner {
    root: PathBuf,
    files: BTreeMap<PathBuf, Known>,
    root_trouble: Option<String>,
}

impl Scanner {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root, files: BTreeMap::new(), root_trouble: None }
    }

    /// Whether it should look again soon.
    pub(super) fn is_waiting(&self) -> bool {
        self.files.values().any(|known| known.waiting.is_some() || known.missed)
    }

    /// One look. Blocking.
    pub(super) fn scan(&mut self) -> Vec<SourceEvent> {
        self.scan_at(Instant::now())
    }

    pub(super) fn scan_at(&mut self, now: Instant) -> Vec<SourceEvent> {
        let mut events = Vec::new();
        let paths = match list(&self.root) {
            Ok(paths) => {
                if self.root_trouble.take().is_some() {
                    events.push(SourceEvent::Recovered { path: self.root.clone() });
                }
                paths
            }
            Err(error) => {
                // What it held is not taken for gone: a directory that cannot be
                // read says nothing about its files.
                let reason = format!("{error}; looking again until it can be read");
                if self.root_trouble.as_ref() != Some(&reason) {
                    events.push(SourceEvent::Trouble { path: self.root.clone(), reason: reason.clone() });
                    self.root_trouble = Some(reason);
                }
                return events;
            }
        };
        for path in &paths {
            let known = self.files.entry(path.clone()).or_default();
            if let Some(reason) = leads_nowhere(path) {
                events.extend(lost(path, known, reason));
                continue;
            }
            known.missed = false;
            let before = known.clone();
            match look(path, known, now) {
                Some(SourceEvent::Found { path, bytes, hash }) => {
                    events.extend(self.found(path, bytes, hash, before, &paths));
                }
                other => events.extend(other),
            }
        }
        self.files.retain(|path, known| {
            if paths.binary_search(path).is_ok() {
                return true;
            }
            // Editors and copies remove a file just before they make it anew.
            if !std::mem::replace(&mut known.missed, true) {
                known.waiting = None;
                return true;
            }
            if known.hash.is_some() || known.trouble.is_some() {
                events.push(SourceEvent::Gone { path: path.clone() });
            }
            false
        });
        events
    }
}

impl Scanner {
    /// New content of a file, of which `before` was known. If it is that of a file which is missing, the file has
    /// another name; unless it comes back, which the next look tells.
    fn found(
        &mut self,
        path: PathBuf,
        bytes: Vec<u8>,
        hash: String,
        before: Known,
        paths: &[PathBuf],
    ) -> Option<SourceEvent> {
        let is_missing = |(path, known): &(&PathBuf, &Known)| {
            known.hash.as_ref() == Some(&hash) && paths.binary_search(path).is_err()
        };
        let missing = self.files.iter().find(is_missing).map(|(from, known)| (from.clone(), known.missed));
        match missing {
            None => Some(SourceEvent::Found { path, bytes, hash }),
            Some((_, false)) => {
                self.files.insert(path, before);
                None
            }
            Some((from, true)) => {
                self.files.remove(&from);
                Some(SourceEvent::Moved { from, to: path, bytes, hash })
            }
        }
    }
}

/// Whether a file of this name is taken for a module.
pub(super) fn is_module_name(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "wasm")
        && !path.file_name().is_some_and(|n| n.to_string_lossy().starts_with('.'))
}

/// The modules of a directory, or the one file, sorted.
fn list(root: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::metadata(root) {
        Ok(metadata) if metadata.is_dir() => {}
        Ok(_) => return Ok(vec![root.to_path_buf()]),
        // What leads nowhere is told where files are looked at.
        Err(error)
            if error.kind() == io::ErrorKind::NotFound
                && is_module_name(root)
                && fs::symlink_metadata(root).is_ok() =>
        {
            return Ok(vec![root.to_path_buf()]);
        }
        // A single file that went away is gone; a directory may be on its way.
        Err(error) if error.kind() == io::ErrorKind::NotFound && is_module_name(root) => {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    }
    let mut paths = Vec::new();
    for entry in fs::read_dir(root)? {
        let path = entry?.path();
        if is_module_name(&path) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Where a symbolic link leads, if nothing is there.
fn leads_nowhere(path: &Path) -> Option<String> {
    let target = fs::read_link(path).ok()?;
    let missing = fs::metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound);
    missing.then(|| format!("a link to {}, which is not there", target.display()))
}

/// A link that leads nowhere is a file that is not there: what was found before
/// is gone, once it stays so. But unlike a file that was removed it is mentioned.
fn lost(path: &Path, known: &mut Known, reason: String) -> Vec<SourceEvent> {
    if known.trouble.as_ref() == Some(&reason) {
        return Vec::new();
    }
    known.waiting = None;
    if !std::mem::replace(&mut known.missed, true) {
        return Vec::new();
    }
    let was_there = known.hash.is_some() || known.trouble.is_some();
    *known = Known { trouble: Some(reason.clone()), ..Known::default() };
    let path = path.to_path_buf();
    let gone = was_there.then(|| SourceEvent::Gone { path: path.clone() });
    gone.into_iter().chain([SourceEvent::Trouble { path, reason }]).collect()
}

fn look(path: &Path, known: &mut Known, now: Instant) -> Option<SourceEvent> {
    let (stamp, bytes) = match read(path, known) {
        Ok(Some(read)) => read,
        Ok(None) => {
            known.waiting = None;
            return None;
        }
        // It went away between listing and reading: the next look tells.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return None,
        // It changed under our hands.
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            known.waiting.get_or_insert((Stamp { len: 0, modified: None, identity: (0, 0, 0, 0) }, now));
            return None;
        }
        Err(error) => {
            known.waiting = None;
            let reason = error.to_string();
            if known.trouble.as_ref() == Some(&reason) {
                return None;
            }
            known.trouble = Some(reason.clone());
            known.told = None;
            return Some(SourceEvent::Trouble { path: path.to_path_buf(), reason });
        }
    };
    // What is no controller may be half of one. If it stays so, the loader is
    // given it all the same, and says what is wrong.
    if engine::check_module(&bytes).is_err() {
        let since = match &known.waiting {
            Some((seen, since)) if *seen == stamp => *since,
            _ => now,
        };
        if now.saturating_duration_since(since) < GRACE {
            known.waiting = Some((stamp, since));
            return None;
        }
    }
    known.waiting = None;
    known.told = Some(stamp);
    let recovered = known.trouble.take().is_some();
    let hash = engine::hex(&Sha256::digest(&bytes));
    if known.hash.as_ref() == Some(&hash) && !recovered {
        return None;
    }
    known.hash = Some(hash.clone());
    Some(SourceEvent::Found { path: path.to_path_buf(), bytes, hash })
}

/// Reads a file, unless it is as it was when last told. `Interrupted` means that
/// it changed meanwhile.
fn read(path: &Path, known: &Known) -> io::Result<Option<(Stamp, Vec<u8>)>> {
    let metadata = fs::metadata(path)?;
    let stamp = Stamp::of(&metadata);
    if known.told.as_ref() == Some(&stamp) && known.trouble.is_none() {
        return Ok(None);
    }
    if metadata.is_dir() {
        return Err(io::Error::other("a directory; a module is one file"));
    }
    // Reading a pipe or a device could take for ever.
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    if metadata.len() > SIZE_LIMIT {
        return Err(io::Error::other(format!("{} MiB are more than any module has", metadata.len() >> 20)));
    }
    let bytes = fs::read(path)?;
    if Stamp::of(&fs::metadata(path)?) != stamp {
        return Err(io::ErrorKind::Interrupted.into());
    }
    Ok(Some((stamp, bytes)))
}
