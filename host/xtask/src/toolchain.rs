//! The Rust toolchain of the workspace.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};

/// A toolchain: cargo and the compiler it uses.
#[derive(Debug)]
pub struct Toolchain {
    cargo: OsString,
    /// Where the compiler is installed.
    pub sysroot: PathBuf,
    /// Its version, such as `1.95.0`.
    pub release: String,
}

impl Toolchain {
    /// The toolchain that runs us, if cargo does; else the one on the path.
    pub fn find(root: &Path) -> Result<Self> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
        let ask = |arguments: &[&str]| -> Result<String> {
            let output =
                Command::new(&rustc).args(arguments).current_dir(root).output().context("running rustc")?;
            ensure!(
                output.status.success(),
                "rustc failed: {}",
                String::from_utf8_lossy(&output.stderr).trim()
            );
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let sysroot = ask(&["--print", "sysroot"])?.trim().into();
        let version = ask(&["--version", "--verbose"])?;
        let release = release(&version).context("rustc does not say its version")?.to_owned();
        Ok(Self { cargo, sysroot, release })
    }

    /// A toolchain at a place.
    #[cfg(test)]
    pub fn for_test(sysroot: &str, release: &str) -> Self {
        Self { cargo: "cargo".into(), sysroot: sysroot.into(), release: release.to_owned() }
    }

    /// Cargo, in the workspace.
    pub fn cargo(&self, root: &Path) -> Command {
        let mut command = Command::new(&self.cargo);
        command.current_dir(root);
        // What cargo sets for `cargo run` is of no use to another cargo.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
                command.env_remove(&*name);
            }
        }
        command
    }
}

/// The release that `rustc --version --verbose` names.
fn release(version: &str) -> Option<&str> {
    version.lines().find_map(|line| line.strip_prefix("release: ")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_is_found() {
        let text = "rustc 1.95.0 (59807616e 2026-04-14)\nbinary: rustc\nhost: x86_64-unknown-linux-gnu\nrelease: 1.95.0\nLLVM version: 22.1.2\n";
        assert_eq!(release(text), Some("1.95.0"));
        assert_eq!(release("rustc 1.95.0"), None);
    }
}
