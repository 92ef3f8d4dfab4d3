//! Compiled modules on disk, mapped into memory rather than read.
//!
//! In: artifacts, by the hash of their module. Out: components. Invariant: only
//! what this user wrote, for this very engine, and undamaged is ever mapped. The
//! name of an entry holds three hashes: of the module, of the engine with its
//! configuration, and of the artifact itself; so an entry appears whole, by a
//! rename, and proves itself.

use std::{
    fs, io,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use sha2::{Digest, Sha256};
use wasmtime::component::Component;

use super::hex;

/// Entries that nobody loaded for so long are removed.
const KEPT: Duration = Duration::from_secs(60 * 24 * 3600);
const SUFFIX: &str = ".cwasm";

/// The user's cache directory: `$XDG_CACHE_HOME/coxswain`, or
/// `~/.cache/coxswain`.
pub(super) fn default_dir() -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    let base = absolute("XDG_CACHE_HOME").or_else(|| absolute("HOME").map(|home| home.join(".cache")))?;
    Some(base.join("coxswain"))
}

/// A directory of compiled modules.
pub(super) struct ArtifactCache {
    dir: PathBuf,
    engine_hash: String,
}

impl ArtifactCache {
    /// Opens the cache below `dir`, in a directory for this user alone.
    pub(super) fn open(dir: &Path, engine: &wasmtime::Engine) -> io::Result<Self> {
        let dir = dir.join("modules");
        create_private(&dir)?;
        let mut hasher = ShaHasher(Sha256::new());
        std::hash::Hash::hash(&engine.precompile_compatibility_hash(), &mut hasher);
        let engine_hash = hex(&hasher.0.finalize())[..16].to_owned();
        Ok(Self { dir, engine_hash })
    }

    fn prefix(&self, module_hash: &str) -> String {
        format!("{module_hash}-{}-", self.engine_hash)
    }

    /// The compiled module of this hash, if it is there and sound.
    pub(super) fn get(&self, engine: &wasmtime::Engine, module_hash: &str) -> Option<Component> {
        let prefix = self.prefix(module_hash);
        for entry in fs::read_dir(&self.dir).ok()?.flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            let Some(expected) = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(SUFFIX)) else {
                continue;
            };
            let path = entry.path();
            match self.load(engine, &path, expected) {
                Ok(component) => {
                    // Shows that the entry is in use; nothing is lost if it fails.
                    let _ = fs::File::options()
                        .append(true)
                        .open(&path)
                        .and_then(|f| f.set_modified(file_time()));
                    return Some(component);
                }
                Err(reason) => {
                    tracing::warn!(entry = %path.display(), reason, "a compiled module in the cache is of no use; compiling it again");
                    let _ = fs::remove_file(&path);
                }
            }
        }
        None
    }

    #[allow(unsafe_code, reason = "mapping compiled code is what this file is for")]
    fn load(&self, engine: &wasmtime::Engine, path: &Path, expected: &str) -> Result<Component, String> {
        let mut hasher = Sha256::new();
        let mut file = fs::File::open(path).map_err(|e| e.to_string())?;
        io::copy(&mut file, &mut hasher).map_err(|e| e.to_string())?;
        if hex(&hasher.finalize()) != expected {
            return Err("its content is damaged".to_owned());
        }
        // SAFETY: the file is what `put` wrote, as its name proves, in a directory
        // that only this user can write; and `put` writes only what wasmtime made.
        unsafe { Component::deserialize_file(engine, path) }.map_err(|e| super::one_line(&e))
    }

    /// Adds an artifact that this program has just compiled, and maps it.
    pub(super) fn put(
        &self,
        engine: &wasmtime::Engine,
        module_hash: &str,
        artifact: &[u8],
    ) -> Result<Component, String> {
        let hash = hex(&Sha256::digest(artifact));
        let path = self.dir.join(format!("{}{hash}{SUFFIX}", self.prefix(module_hash)));
        let write = || -> io::Result<()> {
            let mut file = tempfile::Builder::new().prefix(".new-").tempfile_in(&self.dir)?;
            io::Write::write_all(&mut file, artifact)?;
            file.persist(&path)?;
            Ok(())
        };
        write().map_err(|e| format!("{}: {e}", self.dir.display()))?;
        self.remove_unused();
        self.load(engine, &path, &hash)
    }

    /// Removes what has not been loaded for long, and temporary files left behind.
    fn remove_unused(&self) {
        let Some(limit) = file_time().checked_sub(KEPT) else { return };
        for entry in fs::read_dir(&self.dir).into_iter().flatten().flatten() {
            let unused = entry.metadata().and_then(|m| m.modified()).is_ok_and(|time| time < limit);
            if unused {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Loads an artifact without a cache.
#[allow(unsafe_code, reason = "loading compiled code is what this file is for")]
pub(super) fn from_own_bytes(engine: &wasmtime::Engine, artifact: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: the caller had these bytes compiled by this program.
    unsafe { Component::deserialize(engine, artifact) }
}

/// Makes a directory that only this user can write, or checks that it is so.
#[cfg(unix)]
fn create_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
    if let Some(parent) = dir.parent() {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
    }
    match fs::DirBuilder::new().mode(0o700).create(dir) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
        _ => {}
    }
    let found = fs::symlink_metadata(dir)?;
    // A file of ours shows who we are, and that we can write.
    let ours = tempfile::tempfile_in(dir)?.metadata()?.uid();
    if !found.is_dir() || found.uid() != ours {
        return Err(io::Error::other("it belongs to another user, who could put foreign code there"));
    }
    // Whoever may rename our directory could put theirs in its place.
    if let Some(parent) = dir.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        let above = fs::metadata(parent)?;
        let (owner, mode) = (above.uid(), above.mode());
        if (owner != ours && owner != 0) || (mode & 0o022 != 0 && mode & 0o1000 == 0) {
            return Err(io::Error::other(format!(
                "others may write to {}, and could put foreign code there; make it yours alone (chmod 700), or give another with --cache-dir",
                parent.display()
            )));
        }
    }
    if found.mode() & 0o077 != 0 {
        fs::set_permissions(dir, fs::Permissions::from_mode(0o700))?;
    }
    Ok(())
}

#[cfg(not(unix))]
fn create_private(dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)
}

/// Lets SHA-256 take what wasmtime offers as `Hash`.
struct ShaHasher(Sha256);

impl std::hash::Hasher for ShaHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        u64::from_le_bytes(self.0.clone().finalize()[..8].try_into().unwrap_or_default())
    }
}

/// The time as file systems have it; nothing that a guest sees depends on it.
#[allow(clippy::disallowed_methods, reason = "files are stamped by the machine's clock, whatever ours says")]
fn file_time() -> SystemTime {
    SystemTime::now()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::compile::wasm_engine;

    fn entries(dir: &Path) -> Vec<PathBuf> {
        fs::read_dir(dir.join("modules")).unwrap().map(|e| e.unwrap().path()).collect()
    }

    #[test]
    fn damaged_and_foreign_entries_are_removed() {
        let engine = wasm_engine().unwrap();
        let artifact = engine.precompile_component(b"\0asm\x0d\0\x01\0").unwrap();
        let home = tempfile::tempdir().unwrap();
        let cache = ArtifactCache::open(home.path(), &engine).unwrap();
        assert!(cache.get(&engine, "abc").is_none());
        cache.put(&engine, "abc", &artifact).unwrap();
        assert!(cache.get(&engine, "abc").is_some());
        assert!(cache.get(&engine, "ab").is_none(), "only the whole hash counts");

        let [path] = &entries(home.path())[..] else { panic!("one entry") };
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, &bytes).unwrap();
        assert!(cache.get(&engine, "abc").is_none());
        assert!(entries(home.path()).is_empty());

        // Sound as a file, and no artifact at all.
        assert!(cache.put(&engine, "abc", b"something else").is_err());
        assert!(cache.get(&engine, "abc").is_none());
        assert!(entries(home.path()).is_empty());
    }

    #[cfg(unix)]
    #[test]
    fn the_directory_is_private() {
        use std::os::unix::fs::PermissionsExt;
        let home = tempfile::tempdir().unwrap();
        let dir = home.path().join("modules");
        fs::create_dir(&dir).unwrap();
        fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
        create_private(&dir).unwrap();
        assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
        let link = home.path().join("link");
        std::os::unix::fs::symlink(&dir, &link).unwrap();
        assert!(create_private(&link).is_err());
        // Nor may anybody else be able to replace it.
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o777)).unwrap();
        assert!(create_private(&dir).unwrap_err().to_string().contains("chmod 700"));
        fs::set_permissions(home.path(), fs::Permissions::from_mode(0o700)).unwrap();
    }
}
