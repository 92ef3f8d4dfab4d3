//! Files come, change and go on a real file system.

use std::{fs, time::Instant};

use super::*;
use crate::engine::minimal_module;

/// What events say, without contents.
fn told(events: &[SourceEvent]) -> Vec<String> {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    events
        .iter()
        .map(|event| match event {
            SourceEvent::Found { path, bytes, .. } => {
                format!("found {} {}", name(path), bytes.last().copied().unwrap_or_default())
            }
            SourceEvent::Gone { path } => format!("gone {}", name(path)),
            SourceEvent::Moved { from, to, .. } => format!("moved {} to {}", name(from), name(to)),
            SourceEvent::Trouble { path, .. } => format!("trouble {}", name(path)),
            SourceEvent::Recovered { .. } => "recovered".to_owned(),
            SourceEvent::Scanned => "scanned".to_owned(),
        })
        .collect()
}

struct Dir {
    dir: tempfile::TempDir,
    scanner: Scanner,
    now: Instant,
}

impl Dir {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let scanner = Scanner::new(dir.path().to_path_buf());
        Self { dir, scanner, now: Instant::now() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    fn scan(&mut self) -> Vec<String> {
        told(&self.scanner.scan_at(self.now))
    }
}

#[test]
fn each_content_is_told_once() {
    let mut dir = Dir::new();
    assert_eq!(dir.scan(), [""; 0]);
    dir.write("a.wasm", &minimal_module(1));
    dir.write("notes.txt", b"text");
    dir.write(".hidden.wasm", &minimal_module(1));
    assert_eq!(dir.scan(), ["found a.wasm 1"]);
    assert_eq!(dir.scan(), [""; 0]);
    // In place, by rename, and the same again.
    dir.write("a.wasm", &minimal_module(2));
    assert_eq!(dir.scan(), ["found a.wasm 2"]);
    dir.write(".new", &minimal_module(3));
    fs::rename(dir.path(".new"), dir.path("a.wasm")).unwrap();
    assert_eq!(dir.scan(), ["found a.wasm 3"]);
    dir.write("a.wasm", &minimal_module(3));
    assert_eq!(dir.scan(), [""; 0]);
    assert!(!dir.scanner.is_waiting());
}

#[test]
fn a_file_that_has_another_name_is_the_same_file() {
    let mut dir = Dir::new();
    dir.write("a.wasm", &minimal_module(1));
    dir.write("b.wasm", &minimal_module(2));
    assert_eq!(dir.scan(), ["found a.wasm 1", "found b.wasm 2"]);
    fs::rename(dir.path("a.wasm"), dir.path("c.wasm")).unwrap();
    assert_eq!((dir.scan(), dir.scan()), (vec![], vec!["moved a.wasm to c.wasm".to_owned()]));
    // Over another file, and by a copy whose original is removed.
    fs::rename(dir.path("c.wasm"), dir.path("b.wasm")).unwrap();
    assert_eq!((dir.scan(), dir.scan()), (vec![], vec!["moved c.wasm to b.wasm".to_owned()]));
    fs::copy(dir.path("b.wasm"), dir.path("d.wasm")).unwrap();
    fs::remove_file(dir.path("b.wasm")).unwrap();
    assert_eq!((dir.scan(), dir.scan()), (vec![], vec!["moved b.wasm to d.wasm".to_owned()]));
    // One that is put aside while another build is put in its place has not moved.
    fs::rename(dir.path("d.wasm"), dir.path("aside.wasm")).unwrap();
    assert_eq!(dir.scan(), [""; 0]);
    dir.write("d.wasm", &minimal_module(3));
    assert_eq!(dir.scan(), ["found aside.wasm 1", "found d.wasm 3"]);
    fs::remove_file(dir.path("aside.wasm")).unwrap();
    dir.write("d.wasm", &minimal_module(1));
    assert_eq!((dir.scan(), dir.scan()), (vec![], vec!["moved aside.wasm to d.wasm".to_owned()]));
    // A copy beside its original is a second file.
    fs::copy(dir.path("d.wasm"), dir.path("e.wasm")).unwrap();
    assert_eq!(dir.scan(), ["found e.wasm 1"]);
    assert_eq!(dir.scan(), [""; 0]);
    assert!(!dir.scanner.is_waiting());
}

#[test]
fn a_file_is_gone_when_it_stays_away() {
    let mut dir = Dir::new();
    dir.write("a.wasm", &minimal_module(1));
    assert_eq!(dir.scan(), ["found a.wasm 1"]);
    fs::remove_file(dir.path("a.wasm")).unwrap();
    assert_eq!(dir.scan(), [""; 0]);
    assert!(dir.scanner.is_waiting());
    dir.write("a.wasm", &minimal_module(2));
    assert_eq!(dir.scan(), ["found a.wasm 2"]);
    fs::remove_file(dir.path("a.wasm")).unwrap();
    assert_eq!(dir.scan(), [""; 0]);
    assert_eq!(dir.scan(), ["gone a.wasm"]);
    assert!(!dir.scanner.is_waiting());
    dir.write("a.wasm", &minimal_module(2));
    assert_eq!(dir.scan(), ["found a.wasm 2"]);
}

#[test]
fn half_written_files_are_waited_for() {
    let mut dir = Dir::new();
    let whole = minimal_module(7);
    dir.write("a.wasm", b"");
    assert_eq!(dir.scan(), [""; 0]);
    for cut in [4, whole.len() / 2, whole.len() - 3] {
        dir.write("a.wasm", &whole[..cut]);
        // As long as it grows it may take as long as it likes.
        dir.now += Duration::from_secs(2);
        assert_eq!(dir.scan(), [""; 0]);
        assert!(dir.scanner.is_waiting());
    }
    dir.write("a.wasm", &whole);
    assert_eq!(dir.scan(), ["found a.wasm 7"]);
    // Half a new version does not undo the old one.
    dir.write("a.wasm", &whole[..10]);
    assert_eq!(dir.scan(), [""; 0]);
    // It stays so: handed over once, so that the loader can say what it is.
    dir.now += Duration::from_secs(4);
    assert_eq!(dir.scan().len(), 1);
    dir.now += Duration::from_secs(4);
    assert_eq!(dir.scan(), [""; 0]);
    assert!(!dir.scanner.is_waiting());
    dir.write("a.wasm", &whole);
    assert_eq!(dir.scan(), ["found a.wasm 7"]);
}

#[cfg(unix)]
#[test]
fn a_config_map_flips() {
    use std::os::unix::fs::symlink;
    let mut dir = Dir::new();
    for version in [1, 2] {
        fs::create_dir(dir.path(&format!("..v{version}"))).unwrap();
        dir.write(&format!("..v{version}/a.wasm"), &minimal_module(version));
    }
    symlink("..v1", dir.path("..data")).unwrap();
    symlink("..data/a.wasm", dir.path("a.wasm")).unwrap();
    assert_eq!(dir.scan(), ["found a.wasm 1"]);
    symlink("..v2", dir.path("..data_tmp")).unwrap();
    fs::rename(dir.path("..data_tmp"), dir.path("..data")).unwrap();
    assert_eq!(dir.scan(), ["found a.wasm 2"]);
    // A link that leads nowhere is a file that is gone, and is mentioned.
    fs::remove_dir_all(dir.path("..v2")).unwrap();
    assert_eq!(dir.scan(), [""; 0]);
    assert_eq!(dir.scan(), ["gone a.wasm", "trouble a.wasm"]);
    assert_eq!(dir.scan(), [""; 0]);
    assert!(!dir.scanner.is_waiting());
    symlink("..v1", dir.path("..data_tmp")).unwrap();
    fs::rename(dir.path("..data_tmp"), dir.path("..data")).unwrap();
    assert_eq!(dir.scan(), ["found a.wasm 1"]);
}

#[cfg(unix)]
#[test]
fn a_link_that_never_led_anywhere_is_told_once_and_goes_with_the_link() {
    let mut dir = Dir::new();
    std::os::unix::fs::symlink("nowhere.wasm", dir.path("a.wasm")).unwrap();
    dir.scan();
    let events = dir.scanner.scan_at(dir.now);
    let reason = "a link to nowhere.wasm, which is not there".to_owned();
    assert_eq!(events, [SourceEvent::Trouble { path: dir.path("a.wasm"), reason }]);
    assert_eq!(dir.scan(), [""; 0]);
    fs::remove_file(dir.path("a.wasm")).unwrap();
    dir.scan();
    assert_eq!(dir.scan(), ["gone a.wasm"]);
}

#[test]
fn an_unreadable_directory_is_told_once_and_its_files_stay() {
    let mut dir = Dir::new();
    dir.write("a.wasm", &minimal_module(1));
    assert_eq!(dir.scan(), ["found a.wasm 1"]);
    let (here, away) = (dir.dir.path().to_path_buf(), dir.dir.path().with_extension("away"));
    fs::rename(&here, &away).unwrap();
    assert!(dir.scan()[0].starts_with("trouble"));
    assert_eq!(dir.scan(), [""; 0]);
    fs::rename(&away, &here).unwrap();
    assert_eq!(dir.scan(), ["recovered"]);
    assert_eq!(dir.scan(), [""; 0]);
}

#[cfg(unix)]
#[test]
fn what_is_no_file_is_trouble_with_that_file_alone() {
    let mut dir = Dir::new();
    dir.write("b.wasm", &minimal_module(1));
    let _socket = std::os::unix::net::UnixListener::bind(dir.path("a.wasm")).unwrap();
    assert_eq!(dir.scan(), ["trouble a.wasm", "found b.wasm 1"]);
    assert_eq!(dir.scan(), [""; 0]);
    fs::remove_file(dir.path("a.wasm")).unwrap();
    dir.write("a.wasm", &minimal_module(2));
    assert_eq!(dir.scan(), ["found a.wasm 2"]);
    // Nor is a directory a module, and its name does not make it one.
    fs::create_dir(dir.path("c.wasm")).unwrap();
    assert_eq!(dir.scan(), ["trouble c.wasm"]);
    assert_eq!(dir.scan(), [""; 0]);
    fs::remove_dir(dir.path("c.wasm")).unwrap();
    dir.scan();
    assert_eq!(dir.scan(), ["gone c.wasm"]);
}

#[tokio::test]
async fn a_directory_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.wasm"), minimal_module(1)).unwrap();
    let cancel = CancellationToken::new();
    let mut source = DirectorySource::start(dir.path().to_path_buf(), cancel.clone());
    let mut next = async || {
        told(&[time::timeout(Duration::from_secs(60), source.next()).await.unwrap().unwrap()]).remove(0)
    };
    assert_eq!(next().await, "found a.wasm 1");
    assert_eq!(next().await, "scanned");
    fs::write(dir.path().join("b.wasm"), minimal_module(2)).unwrap();
    assert_eq!(next().await, "found b.wasm 2");
    fs::remove_file(dir.path().join("a.wasm")).unwrap();
    assert_eq!(next().await, "gone a.wasm");
    cancel.cancel();
    assert_eq!(source.next().await, None);
}

#[tokio::test]
async fn a_single_file_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.wasm");
    let mut source = DirectorySource::start(path.clone(), CancellationToken::new());
    let mut next = async || {
        told(&[time::timeout(Duration::from_secs(60), source.next()).await.unwrap().unwrap()]).remove(0)
    };
    assert_eq!(next().await, "scanned");
    fs::write(dir.path().join("b.wasm"), minimal_module(2)).unwrap();
    fs::write(&path, minimal_module(1)).unwrap();
    assert_eq!(next().await, "found a.wasm 1");
    fs::remove_file(&path).unwrap();
    assert_eq!(next().await, "gone a.wasm");
}
