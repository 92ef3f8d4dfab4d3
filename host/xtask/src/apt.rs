//! Rust's standard library, and compilers for it, from Debian's packages.
//!
//! In: the compiler's version, and the machine's own package sources. Out: what is
//! wanted, unpacked below the target directory. Invariant: nothing is installed
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
/// Where a compiler for browsers is kept up to date.
const WEB_SUITE: &str = "bookworm-security";
/// Last part of the main archive's address, and of the security archive's.
const MAIN: &str = "/debian";
const SECURITY: &str = "/debian-security";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// The library's source of exactly this version: what was fetched before, or
/// fetched now.
pub fn rust_source(release: &str, target_dir: &Path) -> Result<PathBuf> {
    let dir = target_dir.join("rust-src").join(release);
    let library = dir.join(format!("usr/src/rustc-{release}/library"));
    if is_source(&library) {
        return Ok(library);
    }
    let mirror = mirror(&read_sources(), MAIN)
        .context("no Debian mirror is named in /etc/apt, so Debian's package rust-src is out of reach")?;
    eprintln!("fetching the source of Rust's standard library {release} (Debian's package rust-src)");
    let mut reasons = Vec::new();
    for suite in SUITES {
        let fetched = Archive::open(&mirror, suite, &dir)
            .and_then(|archive| archive.unpack(&[format!("rust-src={release}*")], &dir));
        match fetched {
            Ok(()) if is_source(&library) => return Ok(library),
            Ok(()) => reasons.push(format!("{suite}: the package holds no {}", library.display())),
            Err(reason) => reasons.push(format!("{suite}: {reason:#}")),
        }
    }
    bail!("Debian's package rust-src of version {release}: {}", reasons.join("; "))
}

/// A compiler that brings the source of its standard library along.
#[derive(Debug, PartialEq, Eq)]
pub struct WebToolchain {
    /// The compiler.
    pub rustc: PathBuf,
    /// Its linker for WebAssembly.
    pub linker: PathBuf,
    /// The source of its standard library.
    pub source: PathBuf,
}

/// The compiler that Debian keeps new enough for browsers (`rustc-web`) with
/// `rust-web-src` of the same version: what was fetched before, or fetched now.
pub fn web_toolchain(target_dir: &Path) -> Result<WebToolchain> {
    let dir = target_dir.join("rust-src").join("web");
    if let Some(toolchain) = WebToolchain::in_(&dir) {
        return Ok(toolchain);
    }
    let mirror = mirror(&read_sources(), SECURITY).context(
        "no mirror of Debian's security archive is named in /etc/apt, so Debian's package rustc-web is out of reach",
    )?;
    eprintln!(
        "fetching a compiler and the source of its standard library (Debian's packages rustc-web, rust-web-src)"
    );
    let archive = Archive::open(&mirror, WEB_SUITE, &dir)?;
    let standard = archive.dependency("libstd-rust-web-dev", "libstd-rust-web-")?;
    let llvm = archive.dependency(&standard, "libllvm")?;
    let linker = llvm.replacen("libllvm", "lld-", 1);
    let mut packages = ["rustc-web", "rust-web-src", "libstd-rust-web-dev"].map(str::to_owned).to_vec();
    packages.extend([standard, llvm, linker]);
    archive.unpack(&packages, &dir)?;
    let libraries = [dir.join("usr/lib").join(multiarch()), llvm_dir(&dir)?.join("lib")];
    let libraries = std::env::join_paths(libraries)?;
    for (name, program) in
        [("rustc", dir.join("usr/bin/rustc")), ("wasm-ld", llvm_dir(&dir)?.join("bin/wasm-ld"))]
    {
        wrap(&dir.join(name), &program, &libraries)?;
    }
    let toolchain = WebToolchain::in_(&dir).context("the packages do not hold what they should")?;
    let tried = Command::new(&toolchain.rustc).arg("--version").output()?;
    if !tried.status.success() {
        let reason = last_line(&tried.stderr);
        let _ = fs::remove_dir_all(&dir);
        bail!("the compiler of Debian's package rustc-web does not start here: {reason}");
    }
    Ok(toolchain)
}

impl WebToolchain {
    /// The one that was unpacked here.
    fn in_(dir: &Path) -> Option<Self> {
        let sources = fs::read_dir(dir.join("usr/src")).ok()?;
        let source = sources.flatten().map(|e| e.path().join("library")).find(|path| is_source(path))?;
        let (rustc, linker) = (dir.join("rustc"), dir.join("wasm-ld"));
        (rustc.is_file() && linker.is_file()).then_some(Self { rustc, linker, source })
    }
}

/// A script that runs a program with shared libraries of its own.
fn wrap(script: &Path, program: &Path, libraries: &std::ffi::OsStr) -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let text =
        format!("#!/bin/sh\nLD_LIBRARY_PATH='{}' exec '{}' \"$@\"\n", libraries.display(), program.display());
    fs::write(script, text).with_context(|| format!("writing {}", script.display()))?;
    fs::set_permissions(script, fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Debian's name for this machine's libraries.
fn multiarch() -> String {
    format!("{}-linux-gnu", std::env::consts::ARCH)
}

/// Where LLVM was unpacked.
fn llvm_dir(dir: &Path) -> Result<PathBuf> {
    let lib = dir.join("usr/lib");
    let found = fs::read_dir(&lib)?
        .flatten()
        .map(|e| e.path())
        .find(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("llvm-")));
    found.with_context(|| format!("{} holds no LLVM", lib.display()))
}

/// A suite of an archive, with lists of our own.
struct Archive {
    /// What an interruption leaves here is never taken for the whole.
    work: PathBuf,
}

impl Archive {
    /// Reads the lists. Works beside `dir`.
    fn open(mirror: &Mirror, suite: &str, dir: &Path) -> Result<Self> {
        let archive = Self { work: dir.with_extension("new") };
        let _ = fs::remove_dir_all(&archive.work);
        for sub in ["lists/partial", "cache/archives/partial", "download"] {
            let sub = archive.work.join(sub);
            fs::create_dir_all(&sub).with_context(|| format!("creating {}", sub.display()))?;
        }
        let list = format!("deb [{}] {} {suite} main\n", mirror.options, mirror.uri);
        fs::write(archive.list(), list)?;
        archive.run("apt-get", &["update"])?;
        Ok(archive)
    }

    fn list(&self) -> PathBuf {
        self.work.join("sources.list")
    }

    /// Runs one of apt's programs on these lists alone; gives what it said.
    fn run(&self, program: &str, arguments: &[&str]) -> Result<String> {
        let option = |name: &str, value: &Path| format!("{name}={}", value.display());
        let output = Command::new(program)
            .args(["-o", &option("Dir::Etc::sourcelist", &self.list()), "-o", "Dir::Etc::sourceparts=-"])
            .args(["-o", &option("Dir::State::lists", &self.work.join("lists"))])
            .args(["-o", &option("Dir::Cache", &self.work.join("cache"))])
            // The user apt fetches as may not write here.
            .args(["-o", "APT::Sandbox::User=root", "-o", "Acquire::Languages=none"])
            .args(["-o", "Acquire::Retries=2", "-o", "Acquire::http::Timeout=30"])
            .args(["-o", "APT::Update::Error-Mode=any", "-q"])
            .args(arguments)
            .current_dir(self.work.join("download"))
            .output()
            .with_context(|| format!("{program} is not there; this is no Debian"))?;
        ensure!(
            output.status.success(),
            "{program} {} failed: {}",
            arguments.join(" "),
            last_line(&output.stderr)
        );
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// The package with this beginning that another depends on.
    fn dependency(&self, of: &str, beginning: &str) -> Result<String> {
        depends_on(&self.run("apt-cache", &["depends", of])?, beginning)
            .with_context(|| format!("Debian's package {of} names no {beginning}…"))
    }

    /// Fetches packages and puts their content into `dir`, whole or not at all.
    fn unpack(&self, packages: &[String], dir: &Path) -> Result<()> {
        let arguments: Vec<&str> =
            std::iter::once("download").chain(packages.iter().map(String::as_str)).collect();
        self.run("apt-get", &arguments)?;
        let unpacked = self.work.join("unpacked");
        let fetched = fs::read_dir(self.work.join("download"))?.flatten().map(|entry| entry.path());
        let mut count = 0;
        for package in fetched.filter(|path| path.extension().is_some_and(|e| e == "deb")) {
            let unpack = Command::new("dpkg-deb").arg("-x").arg(&package).arg(&unpacked).output();
            let output = unpack.context("dpkg-deb is not there")?;
            ensure!(
                output.status.success(),
                "unpacking {} failed: {}",
                package.display(),
                last_line(&output.stderr)
            );
            count += 1;
        }
        ensure!(count == packages.len(), "apt-get left {count} of {} packages", packages.len());
        let _ = fs::remove_dir_all(dir);
        fs::rename(&unpacked, dir).with_context(|| format!("renaming {}", unpacked.display()))?;
        // Lists and packages have served.
        let _ = fs::remove_dir_all(&self.work);
        Ok(())
    }
}

/// Of what `apt-cache depends` says, the package with this beginning.
fn depends_on(said: &str, beginning: &str) -> Option<String> {
    let names = said.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.map(str::trim).find(|name| name.starts_with(beginning)).map(str::to_owned)
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

/// The mirror of one of Debian's archives, from sources in either format.
fn mirror(sources: &str, archive: &str) -> Option<Mirror> {
    sources.split("\n\n").flat_map(|paragraph| deb822(paragraph).into_iter().chain(one_line(paragraph))).find(
        |m| {
            let path = m.uri.trim_end_matches('/');
            // Not another archive and not another vendor's.
            path.ends_with(archive) && (path.starts_with("http://") || path.starts_with("https://"))
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
            mirror(sources, MAIN),
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
            mirror(sources, MAIN),
            Some(Mirror {
                uri: "https://mirror.example/debian/".into(),
                options: "signed-by=/keys/debian.gpg".into()
            })
        );
        let plain = "deb http://mirror.example/debian bookworm main";
        assert_eq!(mirror(plain, MAIN).unwrap().options, format!("signed-by={KEYRING}"));
    }

    #[test]
    fn the_security_archive_is_another_one() {
        let sources = "deb http://mirror.example/debian bookworm main\ndeb http://mirror.example/debian-security bookworm-security main\n";
        let uri = |archive| mirror(sources, archive).map(|m| m.uri);
        assert_eq!(uri(MAIN).as_deref(), Some("http://mirror.example/debian"));
        assert_eq!(uri(SECURITY).as_deref(), Some("http://mirror.example/debian-security"));
        assert_eq!(mirror("deb http://mirror.example/debian bookworm main", SECURITY), None);
    }

    #[test]
    fn a_dependency_is_found_by_its_beginning() {
        let said = "libstd-rust-web-1.96\n  Depends: libc6\n |Depends: x\n  Depends: libllvm22\n  Conflicts: libllvm1\n";
        assert_eq!(depends_on(said, "libllvm").as_deref(), Some("libllvm22"));
        assert_eq!(depends_on(said, "lld"), None);
    }

    #[test]
    fn other_systems_have_no_mirror() {
        assert_eq!(mirror("deb http://archive.example/ubuntu jammy main\n", MAIN), None);
        assert_eq!(mirror("deb cdrom:[Debian]/debian bookworm main\n", MAIN), None);
        assert_eq!(mirror("", MAIN), None);
    }
}
