//! The files of a recording: names, order, and how many may stay.

use std::{
    fs::{File, OpenOptions},
    io,
    path::{Path, PathBuf},
};

use super::format::{PREFIX, SUFFIX};

/// How many files share the room. One being written is never removed, so a
/// directory holds at most this much more than it may, divided by this.
const SHARES: u64 = 8;
/// A file smaller than this repeats more than it says.
const SMALLEST: u64 = 256 << 10;

/// Size at which the next file is begun, in bytes.
pub(super) fn file_size(max_bytes: u64) -> u64 {
    (max_bytes / SHARES).max(SMALLEST)
}

/// Makes sure that there is a directory that can be written, readable by nobody
/// else if it is made here.
pub(super) fn prepare(dir: &Path) -> io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir)
}

/// Creates a file. Its name sorts after those before it.
pub(super) fn create(dir: &Path, now: jiff::Timestamp, number: u64) -> io::Result<(PathBuf, File)> {
    let time = now.strftime("%Y%m%dT%H%M%S%3fZ");
    let path = dir.join(format!("{PREFIX}{time}-{number:06}{SUFFIX}"));
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let file = options.open(&path)?;
    Ok((path, file))
}

/// All recordings in a directory, oldest first.
pub(super) fn list(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        if name.starts_with(PREFIX) && name.ends_with(SUFFIX) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// Removes the oldest files until the rest, with one more of full size, fits.
/// Says how many are left.
pub(super) fn tidy(dir: &Path, max_bytes: u64, keep: &[&Path]) -> io::Result<usize> {
    let mut files = list(dir)?;
    let size = |path: &PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let mut total: u64 = files.iter().filter(|path| !keep.contains(&path.as_path())).map(size).sum();
    let room = max_bytes.saturating_sub(file_size(max_bytes) * keep.len() as u64);
    let mut left = files.len();
    for path in files.drain(..).filter(|path| !keep.contains(&path.as_path())) {
        if total <= room {
            break;
        }
        total -= size(&path);
        std::fs::remove_file(&path)?;
        left -= 1;
    }
    Ok(left)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_go_and_others_files_stay() -> io::Result<()> {
        let dir = tempfile::tempdir()?;
        let at = |second: i64| jiff::Timestamp::new(1_800_000_000 + second, 0).unwrap_or_default();
        let mut paths = Vec::new();
        for number in 0..5 {
            let (path, file) = create(dir.path(), at(number), 1)?;
            file.set_len(1 << 20)?;
            paths.push(path);
        }
        std::fs::write(dir.path().join("notes.txt"), "mine")?;
        let newest = paths[4].as_path();
        assert_eq!(tidy(dir.path(), 4 << 20, &[newest])?, 4);
        assert_eq!(list(dir.path())?, paths[1..]);
        assert_eq!(tidy(dir.path(), 0, &[newest])?, 1);
        assert_eq!(list(dir.path())?, [newest]);
        assert!(dir.path().join("notes.txt").exists());
        Ok(())
    }
}
