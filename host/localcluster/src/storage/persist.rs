//! Persistence to a directory: a snapshot and the log of changes since.
//!
//! In: records in order of version. Out: the same state after a restart. Invariant: a record that was cut short by a
//! crash ends the replay; nothing before it is lost. Writes are handed to one thread, so no request waits for a disk.

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

enum Entry {
    Change(Record),
    Name(u32, StorageId, String),
    Flush(Sender<()>),
}

/// The sending end of the writer thread.
pub(super) struct Log {
    sender: Sender<Entry>,
}

impl Log {
    pub(super) fn push(&self, record: Record) {
        // The writer has said so if it is gone; the cluster goes on in memory.
        let _ = self.sender.send(Entry::Change(record));
    }

    pub(super) fn name(&self, number: u32, id: &StorageId, type_meta: &str) {
        let _ = self.sender.send(Entry::Name(number, id.clone(), type_meta.into()));
    }

    pub(super) fn flush(&self) -> Receiver<()> {
        let (sender, receiver) = mpsc::channel();
        let _ = self.sender.send(Entry::Flush(sender));
        receiver
    }
}

/// Reads what the directory holds into the store and starts the writer.
pub(super) fn open(dir: &Path, store: &Arc<Store>) -> Result<Log, PersistError> {
    let fail = |path: &Path| {
        let path = path.to_owned();
        move |source| PersistError::Io { path, source }
    };
    fs::create_dir_all(dir).map_err(fail(dir))?;
    let lock_path = dir.join("lock");
    let lock = File::create(&lock_path).map_err(fail(&lock_path))?;
    lock.try_lock().map_err(|_| PersistError::Locked(dir.to_owned()))?;
    let mut newest = store.version();
    for name in ["snapshot", "log.old", "log"] {
        let path = dir.join(name);
        if path.exists() {
            newest = newest.max(replay(&path, store).map_err(fail(&path))?);
        }
    }
    store.shared.set_version(newest);
    store.snapshot().iter().for_each(|(_, _, table)| table.reset_floor(newest));
    let mut writer =
        Writer { dir: dir.to_owned(), store: Arc::downgrade(store), out: None, written: 0, _lock: lock };
    // A fresh snapshot also numbers the tables anew.
    writer.fold().map_err(fail(dir))?;
    let (sender, receiver) = mpsc::channel();
    std::thread::Builder::new()
        .name("localcluster-log".into())
        .spawn(move || writer.run(&receiver))
        .map_err(fail(dir))?;
    Ok(Log { sender })
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

struct Writer {
    dir: PathBuf,
    store: Weak<Store>,
    out: Option<BufWriter<File>>,
    written: u64,
    _lock: File,
}

impl Writer {
    fn run(mut self, entries: &Receiver<Entry>) {
        loop {
            let entry = match entries.recv_timeout(Duration::from_millis(200)) {
                Ok(entry) => entry,
                Err(mpsc::RecvTimeoutError::Timeout) => {
                    self.flush();
                    continue;
                }
                Err(mpsc::RecvTimeoutError::Disconnected) => break,
            };
            if let Err(error) = self.take(entry) {
                tracing::error!(dir = %self.dir.display(), %error, "cannot write to the data directory; changes from now on live in memory only");
                return;
            }
        }
        self.flush();
    }

    fn flush(&mut self) {
        if let Some(out) = &mut self.out {
            if let Err(error) = out.flush().and_then(|()| out.get_ref().sync_data()) {
                tracing::error!(dir = %self.dir.display(), %error, "cannot write to the data directory");
            }
        }
    }

    fn take(&mut self, entry: Entry) -> std::io::Result<()> {
        match entry {
            Entry::Change(record) => {
                let Some(out) = &mut self.out else { return Ok(()) };
                self.written += write_object(out, &record)?;
                if self.written > FOLD_AT {
                    self.fold()?;
                }
            }
            Entry::Name(number, id, type_meta) => {
                let Some(out) = &mut self.out else { return Ok(()) };
                self.written += write_name(out, number, &id, &type_meta)?;
            }
            Entry::Flush(done) => {
                self.flush();
                let _ = done.send(());
            }
        }
        Ok(())
    }

    /// Starts a new log, then writes all objects as a snapshot: what changes meanwhile is in the new log too.
    fn fold(&mut self) -> std::io::Result<()> {
        let Some(store) = self.store.upgrade() else { return Ok(()) };
        self.flush();
        let log = self.dir.join("log");
        if log.exists() && !self.dir.join("log.old").exists() {
            fs::rename(&log, self.dir.join("log.old"))?;
        } else if log.exists() {
            // A crash between two folds left both; their union is the state.
            let mut tail = File::open(&log)?;
            let mut old = OpenOptions::new().append(true).open(self.dir.join("log.old"))?;
            std::io::copy(&mut tail, &mut old)?;
        }
        let mut out = BufWriter::new(File::create(&log)?);
        let tables = store.snapshot();
        for (number, id, table) in &tables {
            write_name(&mut out, *number, id, table.type_meta())?;
        }
        self.out = Some(out);
        self.written = 0;
        let partial = self.dir.join("snapshot.new");
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
        fs::rename(&partial, self.dir.join("snapshot"))?;
        match fs::remove_file(self.dir.join("log.old")) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
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
