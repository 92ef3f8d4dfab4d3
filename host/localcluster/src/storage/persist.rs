//! Persistence to a directory: a snapshot and the log of changes since.
//!
//! In: records in order of version. Out: the same state after a restart. Invariant: what was answered has been handed to
//! the system, so it survives the end of the process, however that comes; a power cut may take the last 200 ms, since no
//! request waits for a disk. A record that was cut short ends the replay; nothing before it is lost.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Weak};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::object::Stored;
use super::{StorageId, Store, Table};

/// A log this long is folded into a snapshot.
const FOLD_AT: u64 = 64 << 20;

/// How long a change may not be on the disk.
const SYNC_EVERY: Duration = Duration::from_millis(200);
/// A restart leaves out so many versions, as a restored etcd should: whoever remembers a version that was lost, with a
/// power cut or an older copy of the directory, is told that it is too old, and not that it is yet to come.
const RESTART_GAP: u64 = 1_000_000;

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PersistError {
    /// The directory or a file in it.
    #[error("data directory {path}: {source}")]
    Io {
        /// Where.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The directory is in use.
    #[error("data directory {0} is used by another cluster; stop that one or choose another --data-dir")]
    Locked(PathBuf),
}

/// One change.
pub(super) struct Record {
    pub(super) table: u32,
    pub(super) key: Arc<str>,
    pub(super) object: Arc<Stored>,
    pub(super) deleted: bool,
}

/// Header of each entry in a file; `size` bytes of the object follow on the next line.
#[derive(Serialize, Deserialize)]
struct Header<'a> {
    #[serde(rename = "t")]
    table: u32,
    #[serde(rename = "k", default, skip_serializing_if = "str::is_empty", borrow)]
    key: std::borrow::Cow<'a, str>,
    #[serde(rename = "v", default)]
    rv: u64,
    #[serde(rename = "d", default, skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    #[serde(rename = "l", default, skip_serializing_if = "str::is_empty", borrow)]
    labels: std::borrow::Cow<'a, str>,
    #[serde(rename = "f", default, skip_serializing_if = "str::is_empty", borrow)]
    fields: std::borrow::Cow<'a, str>,
    #[serde(rename = "s", default)]
    size: usize,
    /// Introduces a table: group, plural, type meta.
    #[serde(rename = "n", default, skip_serializing_if = "Option::is_none")]
    name: Option<(String, String, String)>,
}

enum Job {
    Fold,
    Flush(Sender<()>),
}

/// The log that is written to.
pub(super) struct Log {
    dir: PathBuf,
    /// None once a write has failed.
    file: Option<File>,
    /// Length of the log.
    written: u64,
    /// Something is not yet known to be on the disk.
    dirty: bool,
    buffer: Vec<u8>,
    jobs: Sender<Job>,
    _lock: File,
}

impl Log {
    /// Hands a change to the system before anybody is told that it happened.
    pub(super) fn push(&mut self, record: &Record) {
        self.buffer.clear();
        if let Err(error) = write_object(&mut self.buffer, record) {
            tracing::error!(%error, key = %record.key, "a change cannot be encoded");
            return;
        }
        self.append();
        if self.written > FOLD_AT {
            self.written = 0;
            // Without its thread the log only grows.
            let _ = self.jobs.send(Job::Fold);
        }
    }

    pub(super) fn name(&mut self, number: u32, id: &StorageId, type_meta: &str) {
        self.buffer.clear();
        if write_name(&mut self.buffer, number, id, type_meta).is_ok() {
            self.append();
        }
    }

    fn append(&mut self) {
        let Some(file) = &mut self.file else { return };
        match file.write_all(&self.buffer) {
            Ok(()) => {
                self.written += self.buffer.len() as u64;
                self.dirty = true;
            }
            Err(error) => {
                tracing::error!(dir = %self.dir.display(), %error, "cannot write to the data directory; changes from now on live in memory only");
                self.file = None;
            }
        }
    }

    /// Asks for all that was written to be on the disk; the answer says when it is.
    pub(super) fn flush(&self) -> Receiver<()> {
        let (sender, receiver) = mpsc::channel();
        let _ = self.jobs.send(Job::Flush(sender));
        receiver
    }

    /// What is to be synchronised, once.
    fn unsynced(&mut self) -> Option<File> {
        let file = self.file.as_ref().filter(|_| self.dirty)?;
        let file = file.try_clone().ok()?;
        self.dirty = false;
        Some(file)
    }

    /// Puts the log away as `log.old` and begins another.
    fn rotate(&mut self, tables: &[(u32, StorageId, Arc<Table>)]) -> std::io::Result<()> {
        let (log, old) = (self.dir.join("log"), self.dir.join("log.old"));
        if log.exists() && !old.exists() {
            fs::rename(&log, &old)?;
        } else if log.exists() {
            // A crash between two folds left both; their union is the state.
            let mut tail = File::open(&log)?;
            let mut old = OpenOptions::new().append(true).open(&old)?;
            std::io::copy(&mut tail, &mut old)?;
        }
        self.file = Some(File::create(&log)?);
        self.written = 0;
        for (number, id, table) in tables {
            self.name(*number, id, table.type_meta());
        }
        Ok(())
    }
}

/// Reads what the directory holds into the store, which writes to it from then on.
pub(super) fn open(dir: &Path, store: &Arc<Store>) -> Result<(), PersistError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| PersistError::Io { path, source }
    };
    fs::create_dir_all(dir).map_err(fail(dir))?;
    let lock_path = dir.join("lock");
    let lock = File::create(&lock_path).map_err(fail(&lock_path))?;
    lock.try_lock().map_err(|_| PersistError::Locked(dir.to_owned()))?;
    let mut newest = None;
    for name in ["snapshot", "log.old", "log"] {
        let path = dir.join(name);
        if path.exists() {
            newest = newest.max(Some(replay(&path, store).map_err(fail(&path))?));
        }
    }
    if let Some(newest) = newest {
        let start = newest.max(store.version()) + RESTART_GAP;
        store.shared.set_version(start);
        store.snapshot().iter().for_each(|(_, _, table)| table.reset_floor(start));
    }
    let (jobs, received) = mpsc::channel();
    let log = Log {
        dir: dir.to_owned(),
        file: None,
        written: 0,
        dirty: false,
        buffer: Vec::new(),
        jobs,
        _lock: lock,
    };
    store.shared.commit.lock().log = Some(log);
    // A fresh snapshot also numbers the tables anew.
    fold(store, dir).map_err(fail(dir))?;
    let keeper = Keeper { dir: dir.to_owned(), store: Arc::downgrade(store) };
    std::thread::Builder::new()
        .name("localcluster-log".into())
        .spawn(move || keeper.run(&received))
        .map_err(fail(dir))?;
    Ok(())
}

fn replay(path: &Path, store: &Arc<Store>) -> std::io::Result<u64> {
    let mut input = BufReader::new(File::open(path)?);
    let mut tables: HashMap<u32, Arc<Table>> = HashMap::new();
    let mut newest = 0;
    let mut line = Vec::new();
    loop {
        line.clear();
        input.read_until(b'\n', &mut line)?;
        let Ok(header) = serde_json::from_slice::<Header<'_>>(&line) else { break };
        newest = newest.max(header.rv);
        if let Some((group, plural, type_meta)) = header.name {
            tables.insert(header.table, store.table(&StorageId { group, plural }, &type_meta));
            continue;
        }
        let Some(table) = tables.get(&header.table) else { break };
        let mut body = vec![0; header.size];
        if input.read_exact(&mut body).is_err() {
            break;
        }
        // A snapshot may already hold what the log in front of it repeats.
        if table.get(&header.key).is_some_and(|present| present.rv >= header.rv) {
            continue;
        }
        let object = (!header.deleted).then(|| {
            let meta = table.type_meta();
            Stored::restore(meta, header.rv, &body, &header.labels, &header.fields)
        });
        table.restore(&header.key, object);
    }
    Ok(newest)
}

/// What need not be done while a request waits.
struct Keeper {
    dir: PathBuf,
    store: Weak<Store>,
}

impl Keeper {
    fn run(self, jobs: &Receiver<Job>) {
        loop {
            let job = match jobs.recv_timeout(SYNC_EVERY) {
                Ok(job) => Some(job),
                Err(mpsc::RecvTimeoutError::Timeout) => None,
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            };
            let Some(store) = self.store.upgrade() else { return };
            match job {
                Some(Job::Fold) => {
                    if let Err(error) = fold(&store, &self.dir) {
                        tracing::error!(dir = %self.dir.display(), %error, "the log is not folded into a snapshot");
                    }
                }
                Some(Job::Flush(done)) => {
                    self.sync(&store);
                    let _ = done.send(());
                }
                None => self.sync(&store),
            }
        }
    }

    fn sync(&self, store: &Store) {
        let file = store.shared.commit.lock().log.as_mut().and_then(Log::unsynced);
        if let Some(Err(error)) = file.map(|file| file.sync_data()) {
            tracing::error!(dir = %self.dir.display(), %error, "cannot write to the data directory");
        }
    }
}

/// Starts a new log, then writes all objects as a snapshot: what changes meanwhile is in the new log too.
fn fold(store: &Store, dir: &Path) -> std::io::Result<()> {
    let tables = {
        // No table may come between the list of tables and the log that names them.
        let all = store.tables.read();
        let tables = all.numbered();
        if let Some(log) = &mut store.shared.commit.lock().log {
            log.rotate(&tables)?;
        }
        tables
    };
    let partial = dir.join("snapshot.new");
    let mut snapshot = BufWriter::new(File::create(&partial)?);
    for (number, id, table) in &tables {
        write_name(&mut snapshot, *number, id, table.type_meta())?;
        for (key, object) in table.all() {
            let record = Record { table: *number, key, object, deleted: false };
            write_object(&mut snapshot, &record)?;
        }
    }
    snapshot.flush()?;
    snapshot.get_ref().sync_all()?;
    fs::rename(&partial, dir.join("snapshot"))?;
    match fs::remove_file(dir.join("log.old")) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn write_name(out: &mut impl Write, number: u32, id: &StorageId, type_meta: &str) -> std::io::Result<u64> {
    let header = Header {
        table: number,
        key: "".into(),
        rv: 0,
        deleted: false,
        labels: "".into(),
        fields: "".into(),
        size: 0,
        name: Some((id.group.clone(), id.plural.clone(), type_meta.into())),
    };
    let line = serde_json::to_vec(&header)?;
    out.write_all(&line)?;
    out.write_all(b"\n")?;
    Ok(line.len() as u64 + 1)
}

fn write_object(out: &mut impl Write, record: &Record) -> std::io::Result<u64> {
    let (labels, fields) = record.object.packed();
    let body = if record.deleted { &[][..] } else { record.object.body() };
    let header = Header {
        table: record.table,
        key: (&*record.key).into(),
        rv: record.object.rv,
        deleted: record.deleted,
        labels: labels.into(),
        fields: fields.into(),
        size: body.len(),
        name: None,
    };
    let line = serde_json::to_vec(&header)?;
    out.write_all(&line)?;
    out.write_all(b"\n")?;
    out.write_all(body)?;
    Ok((line.len() + 1 + body.len()) as u64)
}
