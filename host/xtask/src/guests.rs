//! Builds guests: one cargo invocation for all, then a component of each.
//!
//! In: the workspace's members under `guests/` and `tests/guests/` that are
//! `cdylib`s; examples only where they are named. Out: one `.wasm` a guest.
//! Invariant: a file is replaced by rename and only if its content changed, so
//! that a manager that watches it never sees half of one and is not made to swap
//! for nothing.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use wit_component::ComponentEncoder;

use crate::{standard_library::StandardLibrary, standard_library::Where, toolchain::Toolchain};

const TARGET: &str = "wasm32-unknown-unknown";
const PROFILE: &str = "guest";
/// What a controller of ours may have at most, in bytes. It only ever goes down.
const SIZE_LIMIT: usize = 300 * 1024;

/// What makes guests smaller (host/docs/adr/0014-small-guests.md). Without the
/// first every reference from code keeps the five bytes that the linker set aside
/// for it. The second takes `#[inline]` for the permission that it is: at its
/// default LLVM inlines such a function even where it would not at `opt-level = "s"`.
/// With the third the stack, which lies below everything else, leaves data below one
/// megabyte, where an address is a byte shorter.
const SMALL: [&str; 3] = [
    "-Clink-arg=--compress-relocations",
    "-Cllvm-args=-inlinehint-threshold=50",
    "-Clink-arg=-zstack-size=786432",
];

/// Between flags in `CARGO_ENCODED_RUSTFLAGS`.
const SEPARATOR: char = '\x1f';

/// What to build.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Arguments {
    names: Vec<String>,
    test_guests: bool,
    check_sizes: bool,
    std_from: Option<Where>,
}

impl Arguments {
    /// Reads the command line after `guests`.
    pub fn parse(arguments: &[String]) -> Result<Self> {
        let mut parsed = Self::default();
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--test-guests" => parsed.test_guests = true,
                "--check-sizes" => parsed.check_sizes = true,
                "--std" => parsed.std_from = Some(rest.next().context("--std needs a value")?.parse()?),
                flag if flag.starts_with('-') => bail!("unknown flag `{flag}`\n\n{}", crate::USAGE),
                name => parsed.names.push(name.to_owned()),
            }
        }
        Ok(parsed)
    }
}

/// A guest crate.
#[derive(Debug, PartialEq, Eq)]
struct Guest {
    name: String,
    /// Name of the core module, without its extension.
    core_name: String,
    sort: Sort,
}

/// What a guest is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sort {
    Controller,
    Example,
    Test,
}

impl Sort {
    /// Directory below the target directory.
    fn directory(self) -> &'static str {
        match self {
            Self::Controller => "controllers",
            Self::Example => "examples",
            Self::Test => "test-guests",
        }
    }

    /// What a guest may have at most, in bytes. An example has no limit: it is
    /// there to be read.
    fn size_limit(self) -> Option<usize> {
        match self {
            Self::Controller | Self::Test => Some(SIZE_LIMIT),
            Self::Example => None,
        }
    }
}

/// Builds guests.
pub fn run(arguments: &Arguments, root: &Path) -> Result<()> {
    let toolchain = Toolchain::find(root)?;
    let metadata = toolchain
        .cargo(root)
        .args(["metadata", "--no-deps", "--format-version=1"])
        .output()
        .context("running cargo")?;
    ensure!(
        metadata.status.success(),
        "cargo metadata failed: {}",
        String::from_utf8_lossy(&metadata.stderr).trim()
    );
    let metadata: Metadata =
        serde_json::from_slice(&metadata.stdout).context("reading the output of cargo metadata")?;
    let all = find(&metadata, root);
    let guests = select(all, arguments)?;

    let library = StandardLibrary::find(&toolchain, &metadata.target_directory, arguments.std_from)?;
    let mut command = toolchain.cargo(root);
    command.args(["build", "--target", TARGET, "--profile", PROFILE]);
    for guest in &guests {
        command.args(["--package", &guest.name]);
    }
    library.apply(&mut command);
    tell_compiler(&mut command, &registry_sources(), |name| std::env::var(name).ok());
    run_command(&mut command)?;

    let core_dir = metadata.target_directory.join(TARGET).join(PROFILE);
    let mut failed = Vec::new();
    for guest in &guests {
        let out_dir = metadata.target_directory.join(guest.sort.directory());
        let core = core_dir.join(format!("{}.wasm", guest.core_name));
        match componentize(&core, &out_dir.join(format!("{}.wasm", guest.name)), guest.sort.size_limit()) {
            Ok((report, size)) => {
                println!("{report}");
                if arguments.check_sizes && guest.sort == Sort::Controller {
                    failed.extend(too_large(&guest.name, size));
                }
            }
            Err(error) => failed.push(format!("{}: {error:#}", guest.name)),
        }
    }
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    Ok(())
}

/// Tells the compiler of guests what the profile cannot. Where the user has flags
/// in a variable, cargo heeds that alone, so ours join them there; else they join
/// what files of configuration have for this target.
fn tell_compiler(cargo: &mut Command, sources: &[PathBuf], variable: impl Fn(&str) -> Option<String>) {
    // A panic names a file of a dependency, which must not depend on whose home it is in: a module of the same
    // source and library is then the same, and so is its hash.
    let remapped = sources.iter().map(|dir| format!("--remap-path-prefix={}=", dir.display()));
    let mut flags: Vec<_> = SMALL.into_iter().map(str::to_owned).chain(remapped).collect();
    let users: Vec<_> = match (variable("CARGO_ENCODED_RUSTFLAGS"), variable("RUSTFLAGS")) {
        (Some(encoded), _) => encoded.split(SEPARATOR).map(str::to_owned).collect(),
        (None, Some(text)) => text.split_whitespace().map(str::to_owned).collect(),
        (None, None) => {
            // A TOML array of strings; Rust's escapes are those of TOML for all that a path has.
            cargo.args(["--config", &format!("target.{TARGET}.rustflags={flags:?}")]);
            return;
        }
    };
    flags.extend(users.into_iter().filter(|flag| !flag.is_empty()));
    cargo.env("CARGO_ENCODED_RUSTFLAGS", flags.join(&SEPARATOR.to_string()));
}

/// Where cargo unpacks what it takes from registries.
fn registry_sources() -> Vec<PathBuf> {
    let home = match std::env::var_os("CARGO_HOME") {
        Some(home) => PathBuf::from(home),
        None => PathBuf::from(std::env::var_os("HOME").unwrap_or_default()).join(".cargo"),
    };
    let Ok(registries) = home.join("registry/src").read_dir() else {
        return Vec::new();
    };
    let mut found: Vec<_> = registries.flatten().map(|entry| entry.path().join("")).collect();
    found.sort();
    found
}

/// Runs a command whose output is for the user.
fn run_command(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("running {}", command.get_program().display()))?;
    ensure!(status.success(), "the guests were not built; cargo says why above");
    Ok(())
}

/// What is wrong with a controller of this size, if anything is.
fn too_large(name: &str, size: usize) -> Option<String> {
    (size > SIZE_LIMIT).then(|| {
        format!(
            "{name}: {} KiB, above the limit of {} KiB for a controller. Each is compiled on the user's machine, \
             so size is time to the first reconcile: host/docs/adr/0014-small-guests.md says what makes guests \
             large, and how to find it. (The limit is for the profile `guest` as the workspace has it, with what \
             xtask adds to it.)",
            size.div_ceil(1024),
            SIZE_LIMIT / 1024
        )
    })
}

/// Turns a core module into a component. Says what became of it, and its size.
fn componentize(core: &Path, component: &Path, size_limit: Option<usize>) -> Result<(String, usize)> {
    let module = fs::read(core).with_context(|| format!("reading {}", core.display()))?;
    let bytes = ComponentEncoder::default()
        .validate(true)
        .module(&module)
        .context("its core module describes no component: does the crate export the world `controller`?")?
        .encode()
        .context("it cannot be made a component")?;
    let name = component.file_name().unwrap_or_default().to_string_lossy();
    let note = match size_limit {
        Some(limit) if bytes.len() > limit => format!(", above the limit of {} KiB", limit / 1024),
        _ => String::new(),
    };
    let report = format!("{name}: {} KiB{note}", bytes.len().div_ceil(1024));
    if fs::read(component).is_ok_and(|old| old == bytes) {
        return Ok((format!("{report}, unchanged"), bytes.len()));
    }
    write_whole(component, &bytes)?;
    Ok((report, bytes.len()))
}

/// Replaces a file, so that nobody sees a part of it.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    let dir = path.parent().context("a file without a directory")?;
    fs::create_dir_all(dir).with_context(|| format!("creating {}", dir.display()))?;
    let new = path.with_extension(format!("wasm.{}.new", std::process::id()));
    fs::write(&new, bytes).with_context(|| format!("writing {}", new.display()))?;
    fs::rename(&new, path).with_context(|| format!("renaming {} to {}", new.display(), path.display()))
}

/// The part of cargo's metadata that matters here.
#[derive(Debug, Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Debug, Deserialize)]
struct Target {
    name: String,
    crate_types: Vec<String>,
}

/// All guest crates, by name.
fn find(metadata: &Metadata, root: &Path) -> Vec<Guest> {
    let directories = [
        (root.join("guests").join("examples"), Sort::Example),
        (root.join("guests"), Sort::Controller),
        (root.join("tests").join("guests"), Sort::Test),
    ];
    let mut found: Vec<_> = metadata
        .packages
        .iter()
        .filter_map(|package| {
            let (_, sort) = directories.iter().find(|(dir, _)| package.manifest_path.starts_with(dir))?;
            let library =
                package.targets.iter().find(|t| t.crate_types.iter().any(|kind| kind == "cdylib"))?;
            Some(Guest { name: package.name.clone(), core_name: library.name.replace('-', "_"), sort: *sort })
        })
        .collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Those that were asked for.
fn select(all: Vec<Guest>, arguments: &Arguments) -> Result<Vec<Guest>> {
    for name in &arguments.names {
        if !all.iter().any(|guest| guest.name == *name) {
            let names: Vec<_> = all.iter().map(|guest| guest.name.as_str()).collect();
            bail!("no guest is called `{name}`; there are {}", names.join(", "));
        }
    }
    let chosen: Vec<_> = all
        .into_iter()
        .filter(|guest| {
            if arguments.names.is_empty() {
                match guest.sort {
                    Sort::Controller => true,
                    Sort::Example => false,
                    Sort::Test => arguments.test_guests,
                }
            } else {
                arguments.names.contains(&guest.name)
            }
        })
        .collect();
    ensure!(!chosen.is_empty(), "there are no guests: no member of the workspace below guests/ is a cdylib");
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata() -> Metadata {
        serde_json::from_str(
            r#"{
              "target_directory": "/p/target", "version": 1,
              "packages": [
                {"name": "b-controller", "manifest_path": "/p/guests/b-controller/Cargo.toml",
                 "targets": [{"name": "b_controller", "crate_types": ["cdylib", "rlib"], "kind": ["cdylib", "rlib"]}]},
                {"name": "sdk", "manifest_path": "/p/guests/sdk/Cargo.toml",
                 "targets": [{"name": "sdk", "crate_types": ["lib"]}]},
                {"name": "spin", "manifest_path": "/p/tests/guests/spin/Cargo.toml",
                 "targets": [{"name": "spin", "crate_types": ["cdylib"]}]},
                {"name": "e-controller", "manifest_path": "/p/guests/examples/rust/Cargo.toml",
                 "targets": [{"name": "e_controller", "crate_types": ["cdylib"]}]},
                {"name": "a-controller", "manifest_path": "/p/guests/a-controller/Cargo.toml",
                 "targets": [{"name": "a-controller", "crate_types": ["cdylib"]}]},
                {"name": "host", "manifest_path": "/p/host/x/Cargo.toml",
                 "targets": [{"name": "host", "crate_types": ["cdylib"]}]}
              ]}"#,
        )
        .unwrap()
    }

    fn chosen(arguments: &[&str]) -> Result<Vec<String>> {
        let arguments: Vec<_> = arguments.iter().map(|a| (*a).to_owned()).collect();
        let guests = select(find(&metadata(), Path::new("/p")), &Arguments::parse(&arguments)?)?;
        Ok(guests.into_iter().map(|guest| guest.core_name).collect())
    }

    #[test]
    fn guests_are_cdylibs_in_their_directories() {
        assert_eq!(chosen(&[]).unwrap(), ["a_controller", "b_controller"]);
        assert_eq!(chosen(&["--test-guests"]).unwrap(), ["a_controller", "b_controller", "spin"]);
        assert_eq!(chosen(&["spin"]).unwrap(), ["spin"]);
        assert_eq!(chosen(&["e-controller"]).unwrap(), ["e_controller"], "examples only where named");
        assert_eq!(
            chosen(&["c-controller"]).unwrap_err().to_string(),
            "no guest is called `c-controller`; there are a-controller, b-controller, e-controller, spin"
        );
        assert!(chosen(&["--release"]).unwrap_err().to_string().starts_with("unknown flag `--release`"));
        assert!(chosen(&["--std"]).is_err());
        assert!(chosen(&["--std", "moon"]).is_err());
    }

    #[test]
    fn what_the_user_tells_the_compiler_is_told_it_too() {
        let told = |name: &'static str, value: &'static str| {
            let mut cargo = Command::new("cargo");
            let sources = [PathBuf::from("/home/\"me\"/.cargo/registry/src/index/")];
            tell_compiler(&mut cargo, &sources, |asked| (asked == name).then(|| value.to_owned()));
            let text = |text: &std::ffi::OsStr| text.to_str().unwrap().to_owned();
            let flags: Vec<_> = cargo.get_envs().filter_map(|(_, value)| value.map(text)).collect();
            (cargo.get_args().map(text).collect::<Vec<_>>(), flags)
        };
        let (arguments, variables) = told("NONE", "");
        assert!(variables.is_empty());
        assert!(arguments[1].starts_with("target.wasm32-unknown-unknown.rustflags=[\"-C"), "{arguments:?}");
        let end = r#", "--remap-path-prefix=/home/\"me\"/.cargo/registry/src/index/="]"#;
        assert!(arguments[0] == "--config" && arguments[1].ends_with(end), "{arguments:?}");

        for (name, value, end) in [
            ("RUSTFLAGS", " -Cx=y  -Dwarnings ", "/=\x1f-Cx=y\x1f-Dwarnings"),
            ("RUSTFLAGS", "", "/="),
            ("CARGO_ENCODED_RUSTFLAGS", "-Ca b\x1f-Cc", "/=\x1f-Ca b\x1f-Cc"),
        ] {
            let (arguments, variables) = told(name, value);
            assert!(arguments.is_empty());
            assert!(variables[0].starts_with("-C") && variables[0].ends_with(end), "{variables:?}");
        }
    }

    #[test]
    fn a_controller_above_the_limit_is_named_and_told_where_to_look() {
        assert_eq!(too_large("a-controller", SIZE_LIMIT), None);
        let told = too_large("a-controller", SIZE_LIMIT + 1).unwrap();
        assert!(told.starts_with("a-controller: 301 KiB, above the limit of 300 KiB"), "{told}");
        let page = told.split_whitespace().find(|word| word.starts_with("host/docs/")).unwrap();
        assert!(crate::workspace_root().unwrap().join(page).is_file(), "{page}");
    }

    #[test]
    fn what_is_no_component_is_said_so() {
        let dir = std::env::temp_dir().join(format!("xtask-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        let core = dir.join("core.wasm");
        fs::write(&core, b"\0asm").unwrap();
        assert!(componentize(&core, &dir.join("out.wasm"), None).is_err());
        assert!(!dir.join("out.wasm").exists());
        // A core module with nothing in it makes a component with nothing in it.
        fs::write(&core, b"\0asm\x01\0\0\0").unwrap();
        let component = |limit| componentize(&core, &dir.join("sub/out.wasm"), limit).unwrap().0;
        assert_eq!(component(None), "out.wasm: 1 KiB");
        assert_eq!(component(Some(1024)), "out.wasm: 1 KiB, unchanged");
        assert_eq!(component(Some(0)), "out.wasm: 1 KiB, above the limit of 0 KiB, unchanged");
        assert_eq!(fs::read_dir(dir.join("sub")).unwrap().count(), 1, "nothing is left behind");
        fs::remove_dir_all(&dir).unwrap();
    }
}
