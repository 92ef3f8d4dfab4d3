//! Versions that were gone back from, remembered over a restart.
//!
//! In: that the content of a file is refused, and which version runs in its
//! place. Out: the same, once for each file, to the next process. So a version
//! that was rolled back is not tried again because the manager restarts, and what
//! ran before it runs again: its compiled form is in the cache of modules. The
//! records lie beside that cache; without one nothing is remembered.

use std::{
    io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::engine::hex;

/// That the content of a file was rolled back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RolledBack {
    /// The file.
    pub file: PathBuf,
    /// sha256 of the content that is refused.
    pub refused: String,
    /// sha256 of the module that runs instead.
    pub runs: String,
    /// Why.
    pub reason: String,
    /// Since when.
    pub at: jiff::Timestamp,
}

/// Where it is remembered.
pub(super) struct Rollbacks(Option<PathBuf>);

impl Rollbacks {
    /// Beside a cache of modules.
    pub(super) fn beside(cache: Option<&Path>) -> Self {
        Self(cache.map(|cache| cache.join("rollbacks")))
    }

    /// Where a file's record lies: managers of one user share the cache.
    fn place(&self, file: &Path) -> Option<PathBuf> {
        let file = std::path::absolute(file).ok()?;
        let name = hex(&Sha256::digest(file.as_os_str().as_encoded_bytes()));
        Some(self.0.as_ref()?.join(format!("{name}.json")))
    }

    /// What is remembered of this content of a file.
    pub(super) fn get(&self, file: &Path, hash: &str) -> Option<RolledBack> {
        let text = std::fs::read(self.place(file)?).ok()?;
        let record: RolledBack = serde_json::from_slice(&text).ok()?;
        (record.refused == hash).then_some(record)
    }

    /// Remembers.
    pub(super) fn keep(&self, record: &RolledBack) {
        let Some(place) = self.place(&record.file) else { return };
        if let Err(error) = write(&place, record) {
            tracing::warn!(
                file = %record.file.display(), record = %place.display(), %error,
                "that a version was rolled back cannot be written down: a restart will try it again"
            );
        }
    }

    /// Remembers under a file's new name.
    pub(super) fn move_to(&self, from: &Path, to: &Path) {
        let text = self.place(from).and_then(|place| std::fs::read(place).ok());
        let record = text.and_then(|text| serde_json::from_slice::<RolledBack>(&text).ok());
        self.forget(from);
        self.forget(to);
        if let Some(record) = record {
            self.keep(&RolledBack { file: to.to_owned(), ..record });
        }
    }

    /// Forgets what is remembered of a file: it has other content.
    pub(super) fn forget(&self, file: &Path) {
        if let Some(place) = self.place(file) {
            // Mostly there is none.
            let _ = std::fs::remove_file(place);
        }
    }
}

fn write(place: &Path, record: &RolledBack) -> io::Result<()> {
    let dir = place.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    serde_json::to_writer_pretty(&mut file, record)?;
    file.persist(place)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_about_one_content_of_one_file() {
        let cache = tempfile::tempdir().unwrap();
        let rollbacks = Rollbacks::beside(Some(cache.path()));
        let record = RolledBack {
            file: "/modules/a.wasm".into(),
            refused: "bad".into(),
            runs: "good".into(),
            reason: "it trapped".into(),
            at: jiff::Timestamp::UNIX_EPOCH,
        };
        rollbacks.keep(&record);
        let get = |file: &str, hash: &str| Rollbacks::beside(Some(cache.path())).get(Path::new(file), hash);
        assert_eq!(get("/modules/a.wasm", "bad"), Some(record));
        assert_eq!(get("/modules/a.wasm", "other"), None);
        assert_eq!(get("/modules/b.wasm", "bad"), None);
        rollbacks.move_to(Path::new("/modules/a.wasm"), Path::new("/modules/b.wasm"));
        assert_eq!(get("/modules/a.wasm", "bad"), None);
        assert_eq!(get("/modules/b.wasm", "bad").map(|record| record.file), Some("/modules/b.wasm".into()));
        rollbacks.forget(Path::new("/modules/b.wasm"));
        assert_eq!(get("/modules/b.wasm", "bad"), None);
    }

    #[test]
    fn without_a_cache_nothing_is_remembered_and_damage_is_nothing() {
        let cache = tempfile::tempdir().unwrap();
        let rollbacks = Rollbacks::beside(Some(cache.path()));
        let file = Path::new("/modules/a.wasm");
        let place = rollbacks.place(file).unwrap();
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::write(&place, "{half").unwrap();
        assert_eq!(rollbacks.get(file, "bad"), None);
        assert_eq!(Rollbacks::beside(None).get(file, "bad"), None);
    }
}
