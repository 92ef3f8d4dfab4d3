//! The source of Rust's standard library from Debian's packages.
//!
//! In: the compiler's version, and the machine's own package sources. Out: the
//! unpacked library, below the target directory. Invariant: nothing is installed
//! and nothing of the machine's package state is touched; lists and packages live
//! in directories of our own, and signatures are checked as apt does.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::standard_library::{is_source, last_line};

/// Suites that may hold a Rust newer than the machine's own, the most likely
/// first.
const SUITES: [&str; 4] = ["trixie-backports", "forky", "sid", "trixie"];
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The library's source of exactly this version: what was fetched before, or
/// fetched now.
pub fn rust_source(release: &str, target_dir: &Path) -> Result<PathBuf> {
    let dir = target_dir.join("rust-src").join(release);
    let library = dir.join(format!("usr/src/rustc-{release}/library"));
    if is_source(&library) {
        return Ok(library);
    }
    let mirror = mirror(&read_sources())
        .context("no Debian mirror is named in /etc/apt, so Debian's package rust-src is out of reach")?;
    eprintln!("fetching the source of Rust's standard library {release} (Debian's package rust-src)");
    let mut reasons = Vec::new();
    for suite in SUITES {
        match fetch(&mirror, suite, release, &dir) {
            Ok(()) if is_source(&library) => return Ok(library),
            Ok(()) => reasons.push(format!("{suite}: the package holds no {}", library.display())),
            Err(reason) => reasons.push(format!("{suite}: {reason:#}")),
        }
    }
    bail!("Debian's package rust-src of version {release}: {}", reasons.join("; "))
}

/// Fetches the package from one suite and unpacks it.
fn fetch(mirror: &Mirror, suite: &str, release: &str, dir: &Path) -> Result<()> {
    // What an interruption leaves here is never taken for the whole.
    let work = dir.with_file_name(format!("{release}.new"));
    let _ = fs::remove_dir_all(&work);
    let apt = work.join("apt");
    for sub in ["lists/partial", "cache/archives/partial", "download"] {
        fs::create_dir_all(apt.join(sub)).with_context(|| format!("creating {}", apt.display()))?;
    }
    let list = apt.join("sources.list");
    fs::write(&list, format!("deb [{}] {} {suite} main\n", mirror.options, mirror.uri))?;
    let apt_get = |arguments: &[&str]| -> Result<()> {
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        let output = Command::new("apt-get")
            .args(["-o", &option("Dir::Etc::sourcelist", &list), "-o", "Dir::Etc::sourceparts=-"])
            .args(["-o", &option("Dir::State::lists", &apt.join("lists"))])
            .args(["-o", &option("Dir::Cache", &apt.join("cache"))])
            // The user apt fetches as may not write here.
            .args([
                "-o",
                "APT::Sandbox::User=root",
                "-o",
                "Acquire::Languages=none",
                "-o",
                "Acquire::Retries=2",
            ])
            .args(["-o", "Acquire::http::Timeout=30", "-o", "APT::Update::Error-Mode=any", "-q"])
            .args(arguments)
            .current_dir(apt.join("download"))
            .output()
            .context("apt-get is not there; this is no Debian")?;
        ensure!(output.status.success(), "apt-get {} failed: {}", arguments[0], last_line(&output.stderr));
        Ok(())
    };
    apt_get(&["update"])?;
    apt_get(&["download", &format!("rust-src={release}*")])?;
    let package = fs::read_dir(apt.join("download"))?
        .flatten()
        .map(|entry| entry.path())
        .find(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .context("apt-get download left no package")?;
    let unpacked = work.join("unpacked");
    let output = Command::new("dpkg-deb")
        .arg("-x")
        .arg(&package)
        .arg(&unpacked)
        .output()
        .context("dpkg-deb is not there")?;
    ensure!(output.status.success(), "unpacking {} failed: {}", package.display(), last_line(&output.stderr));
    let _ = fs::remove_dir_all(dir);
    fs::rename(&unpacked, dir).with_context(|| format!("renaming {}", unpacked.display()))?;
    // Some 20 MB of lists and a package that have served.
    let _ = fs::remove_dir_all(&work);
    Ok(())
}

/// Where the machine gets Debian from.
#[derive(Debug, PartialEq, Eq)]
struct Mirror {
    uri: String,
    /// Options of a one-line entry, such as the keyring.
    options: String,
}

/// All package sources of the machine, in both formats.
fn read_sources() -> String {
    let mut text = fs::read_to_string("/etc/apt/sources.list").unwrap_or_default();
    let mut parts: Vec<_> =
        fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten().map(|e| e.path()).collect();
    parts.sort();
    for part in parts {
        if part.extension().is_some_and(|e| e == "list" || e == "sources") {
            text.push_str("\n\n");
            text.push_str(&fs::read_to_string(part).unwrap_or_default());
        }
    }
    text
}

/// The mirror of Debian's main archive, from sources in either format.
fn mirror(sources: &str) -> Option<Mirror> {
    sources.split("\n\n").flat_map(|paragraph| deb822(paragraph).into_iter().chain(one_line(paragraph))).find(
        |m| {
            let path = m.uri.trim_end_matches('/');
            // Not the security archive and not another vendor's.
            path.ends_with("/debian") && (path.starts_with("http://") || path.starts_with("https://"))
        },
    )
}

/// An entry such as `Types: deb`, `URIs: …`.
fn deb822(paragraph: &str) -> Vec<Mirror> {
    let field = |name: &str| {
        paragraph.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            key.eq_ignore_ascii_case(name).then(|| value.trim())
        })
    };
    if !field("Types").is_some_and(|types| types.split_whitespace().any(|t| t == "deb"))
        || field("Enabled") == Some("no")
    {
        return Vec::new();
    }
    let keyring = field("Signed-By").filter(|key| key.starts_with('/')).unwrap_or(KEYRING);
    let uris = field("URIs").unwrap_or_default().split_whitespace();
    uris.map(|uri| Mirror { uri: uri.to_owned(), options: format!("signed-by={keyring}") }).collect()
}

/// Entries such as `deb [signed-by=…] URI suite main`.
fn one_line(paragraph: &str) -> Vec<Mirror> {
    let entry = |line: &str| {
        let rest = line.trim().strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']')?,
            None => ("", rest),
        };
        let uri = rest.split_whitespace().next()?.to_owned();
        let keyring = options.split_whitespace().find(|o| o.starts_with("signed-by=/"));
        Some(Mirror { uri, options: keyring.map_or_else(|| format!("signed-by={KEYRING}"), str::to_owned) })
    };
    paragraph.lines().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_in_the_new_format() {
        let sources = "\
# A comment
Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Types: deb-src
URIs: http://source.example/debian
Suites: bookworm

Types: deb
Enabled: no
URIs: http://off.example/debian
Suites: bookworm

Types: deb deb-src
# http://comment.example/debian
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main
Signed-By: /keys/debian.gpg
";
        assert_eq!(
            mirror(sources),
            Some(Mirror {
                uri: "http://mirror.example/debian".into(),
                options: "signed-by=/keys/debian.gpg".into()
            })
        );
    }

    #[test]
    fn sources_in_the_old_format() {
        let sources = "\
#deb http://off.example/debian bookworm main
deb-src http://source.example/debian bookworm main
deb http://mirror.example/debian-security bookworm-security main
deb [arch=amd64 signed-by=/keys/debian.gpg] https://mirror.example/debian/ bookworm main
";
        assert_eq!(
            mirror(sources),
            Some(Mirror {
                uri: "https://mirror.example/debian/".into(),
                options: "signed-by=/keys/debian.gpg".into()
            })
        );
        let plain = "deb http://mirror.example/debian bookworm main";
        assert_eq!(mirror(plain).unwrap().options, format!("signed-by={KEYRING}"));
    }

    #[test]
    fn other_systems_have_no_mirror() {
        assert_eq!(mirror("deb http://archive.example/ubuntu jammy main\n"), None);
        assert_eq!(mirror("deb cdrom:[Debian]/debian bookworm main\n"), None);
        assert_eq!(mirror(""), None);
    }
}
