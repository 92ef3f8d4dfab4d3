//! Rust's standard library for WebAssembly, from wherever it is to be had.
//!
//! In: the toolchain. Out: what cargo needs to be told. Invariant: the library is
//! of the exact version of the compiler that builds the guests. Most machines have it or get it from rustup;
//! where neither is so it is built from source.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    str::FromStr,
};

use anyhow::{Result, bail};

use crate::{
    apt::{self, WebToolchain},
    toolchain::Toolchain,
};

/// Where the standard library may come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    /// It is in the toolchain.
    Installed,
    /// rustup adds it to the toolchain.
    Rustup,
    /// Built from the source in the toolchain (rustup's component `rust-src`).
    Source,
    /// Built from the source in Debian's package `rust-src`.
    Debian,
    /// Built from the source in Debian's package `rust-web-src` by the compiler in
    /// `rustc-web`, whatever version that is.
    DebianWeb,
}

/// In the order of preference: a finished library before a source.
const ALL: [Where; 5] = [Where::Installed, Where::Rustup, Where::Source, Where::Debian, Where::DebianWeb];

impl FromStr for Where {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "installed" => Self::Installed,
            "rustup" => Self::Rustup,
            "source" => Self::Source,
            "debian" => Self::Debian,
            "debian-web" => Self::DebianWeb,
            _ => bail!("--std takes installed, rustup, source, debian or debian-web, not `{text}`"),
        })
    }
}

/// How cargo gets at the library.
#[derive(Debug, PartialEq, Eq)]
pub enum StandardLibrary {
    /// It need not be told.
    Finished,
    /// It builds the library first, from the toolchain's source or from this one.
    FromSource(Option<PathBuf>),
    /// It builds the library first, with a compiler that goes with it.
    WithCompiler(WebToolchain),
}

impl StandardLibrary {
    /// Takes the first place that has it, or the one that is wished for.
    pub fn find(toolchain: &Toolchain, target_dir: &Path, wish: Option<Where>) -> Result<Self> {
        let mut reasons = Vec::new();
        for place in ALL.into_iter().filter(|place| wish.is_none_or(|wish| wish == *place)) {
            match from(place, toolchain, target_dir) {
                Ok(library) => return Ok(library),
                Err(reason) => reasons.push(format!("  {reason:#}")),
            }
        }
        bail!(
            "Rust's standard library for WebAssembly is not to be had:\n{}\n\
             Run `rustup target add wasm32-unknown-unknown`; or `rustup component add rust-src`; \
             or unpack the source of Rust {} so that {} exists.",
            reasons.join("\n"),
            toolchain.release,
            source_in(&toolchain.sysroot).display()
        )
    }

    /// Tells cargo.
    pub fn apply(&self, cargo: &mut Command) {
        let source = match self {
            Self::Finished => return,
            Self::FromSource(source) => source.as_ref(),
            Self::WithCompiler(toolchain) => {
                cargo.env("RUSTC", &toolchain.rustc);
                cargo.env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_LINKER", &toolchain.linker);
                Some(&toolchain.source)
            }
        };
        cargo.arg("-Zbuild-std=std,panic_abort");
        // Building the library is not stable in cargo; with this a stable cargo
        // does it all the same. The library itself is that of the stable release.
        cargo.env("RUSTC_BOOTSTRAP", "1");
        if let Some(source) = source {
            // The only way that cargo offers to name the place of the source.
            cargo.env("__CARGO_TESTS_ONLY_SRC_ROOT", source);
        }
    }
}

fn from(place: Where, toolchain: &Toolchain, target_dir: &Path) -> Result<StandardLibrary> {
    match place {
        Where::Installed if is_installed(&toolchain.sysroot) => Ok(StandardLibrary::Finished),
        Where::Installed => bail!("the toolchain {} does not hold it", toolchain.sysroot.display()),
        Where::Rustup => {
            let added = Command::new("rustup")
                .args(["target", "add", "wasm32-unknown-unknown"])
                .stdin(Stdio::null())
                .output();
            match added {
                Ok(output) if output.status.success() && is_installed(&toolchain.sysroot) => {
                    Ok(StandardLibrary::Finished)
                }
                Ok(output) => bail!("rustup target add failed: {}", last_line(&output.stderr)),
                Err(error) => bail!("rustup is not there: {error}"),
            }
        }
        Where::Source if is_source(&source_in(&toolchain.sysroot)) => Ok(StandardLibrary::FromSource(None)),
        Where::Source => bail!("the toolchain holds no source (rustup component rust-src)"),
        Where::Debian => {
            let source = apt::rust_source(&toolchain.release, target_dir)?;
            Ok(StandardLibrary::FromSource(Some(source)))
        }
        Where::DebianWeb => apt::web_toolchain(target_dir).map(StandardLibrary::WithCompiler),
    }
}

fn is_installed(sysroot: &Path) -> bool {
    let dir = sysroot.join("lib/rustlib/wasm32-unknown-unknown/lib");
    dir.read_dir().is_ok_and(|entries| {
        entries.flatten().any(|e| e.file_name().to_string_lossy().starts_with("libstd-"))
    })
}

fn source_in(sysroot: &Path) -> PathBuf {
    sysroot.join("lib/rustlib/src/rust/library")
}

/// Whether a directory is the source of the standard library.
pub fn is_source(library: &Path) -> bool {
    library.join("std/Cargo.toml").is_file() && library.join("Cargo.lock").is_file()
}

/// The last line of what a program said, which is where the reason is.
pub fn last_line(output: &[u8]) -> String {
    let text = String::from_utf8_lossy(output);
    text.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("it said nothing").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cargo_is_told_only_what_it_needs() {
        let told = |library: StandardLibrary| {
            let mut command = Command::new("cargo");
            library.apply(&mut command);
            (
                command.get_args().count(),
                command.get_envs().map(|(name, _)| name.to_string_lossy().into_owned()).collect::<Vec<_>>(),
            )
        };
        assert_eq!(told(StandardLibrary::Finished), (0, vec![]));
        assert_eq!(told(StandardLibrary::FromSource(None)), (1, vec!["RUSTC_BOOTSTRAP".to_owned()]));
        assert_eq!(told(StandardLibrary::FromSource(Some("/s".into()))).1.len(), 2);
        let web = WebToolchain { rustc: "/r".into(), linker: "/l".into(), source: "/s".into() };
        let (_, named) = told(StandardLibrary::WithCompiler(web));
        assert!(named.contains(&"RUSTC".to_owned()) && named.len() == 4, "{named:?}");
    }

    #[test]
    fn a_machine_without_it_is_told_what_to_do() {
        let toolchain = Toolchain::for_test("/nowhere", "1.95.0");
        let error = StandardLibrary::find(&toolchain, Path::new("/nowhere"), Some(Where::Source))
            .unwrap_err()
            .to_string();
        assert!(error.contains("rustup target add wasm32-unknown-unknown"), "{error}");
        assert!(error.contains("/nowhere/lib/rustlib/src/rust/library"), "{error}");
    }

    #[test]
    fn the_reason_is_the_last_line() {
        assert_eq!(last_line(b"info: x\nerror: no such component\n\n"), "error: no such component");
        assert_eq!(last_line(b""), "it said nothing");
    }
}
