//! Builds the example in Go: bindings of the contract, a core module by Go's own compiler, a component.
//!
//! In: `guests/examples/go`, the contract, `go` on the path. Out: one component, replaced by rename. Kept: the
//! component imports the contract alone; an adapter of the example's stands in for WASI.

use std::{fs, path::Path, process::Command};

use anyhow::{Context, Result, bail, ensure};
use wit_bindgen_core::{Files, wit_parser::Resolve};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

use crate::guests::write_whole;

const WORLD: &str = "controller";
/// What Go imports of WASI, and the adapter answers.
const PREVIEW1: &str = "wasi_snapshot_preview1";
/// Where the bindings look for what they export.
const EXPORTS: &str = "export_wit_world";

/// Builds it. `arguments`: the component, a directory to work in.
pub fn run(arguments: &[String], root: &Path) -> Result<()> {
    let [component, work] = arguments else {
        bail!("expected a file and a directory to work in\n\n{}", crate::USAGE)
    };
    let (component, work) = (std::path::absolute(component)?, std::path::absolute(work)?);
    let (source, wit) = (root.join("guests/examples/go"), root.join("wit"));
    lay_out(&source, &wit, &work)?;
    let core = compile(&work)?;
    let adapter = source.join("adapter.wat");
    let adapter = wat::parse_file(&adapter).with_context(|| format!("reading {}", adapter.display()))?;
    let bytes = componentize(core, &wit, &adapter).context("it cannot be made a component")?;
    write_whole(&component, &bytes)
}

/// The bindings, and beside them the package that they call.
fn lay_out(source: &Path, wit: &Path, work: &Path) -> Result<()> {
    let (mut resolve, world) = contract(wit)?;
    let mut files = Files::default();
    let mut generator = wit_bindgen_go::Opts::default().build();
    generator.generate(&mut resolve, world, &mut files).context("generating bindings of the contract")?;
    let exports = work.join(EXPORTS);
    if exports.exists() {
        // Go compiles whatever is there.
        fs::remove_dir_all(&exports)?;
    }
    for (name, content) in files.iter() {
        write(&work.join(name), content)?;
    }
    for entry in fs::read_dir(source).with_context(|| format!("reading {}", source.display()))? {
        let path = entry?.path();
        let to = match path.extension().and_then(|extension| extension.to_str()) {
            Some("go") => &exports,
            Some("mod" | "sum") => work,
            _ => continue,
        };
        write(&to.join(path.file_name().unwrap_or_default()), &fs::read(&path)?)?;
    }
    Ok(())
}

fn contract(wit: &Path) -> Result<(Resolve, wit_bindgen_core::wit_parser::WorldId)> {
    let mut resolve = Resolve::default();
    let (package, _) = resolve.push_dir(wit).with_context(|| format!("reading {}", wit.display()))?;
    let world = resolve.select_world(&[package], Some(WORLD))?;
    Ok((resolve, world))
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    let directory = path.parent().context("a file without a directory")?;
    fs::create_dir_all(directory).with_context(|| format!("creating {}", directory.display()))?;
    fs::write(path, content).with_context(|| format!("writing {}", path.display()))
}

/// Runs Go's compiler.
fn compile(work: &Path) -> Result<Vec<u8>> {
    let core = work.join("core.wasm");
    let status = Command::new("go")
        .current_dir(work)
        .env("GOOS", "wasip1")
        .env("GOARCH", "wasm")
        .args(["build", "-trimpath", "-buildmode=c-shared"])
        // The bindings reach into Go's runtime to keep what they hand out from being moved.
        .args(["-ldflags=-s -w -checklinkname=0", "-o"])
        .args([&core, Path::new(".")])
        .status()
        .context("running go; is it installed?")?;
    ensure!(status.success(), "the module was not compiled; go says why above");
    fs::read(&core).with_context(|| format!("reading {}", core.display()))
}

fn componentize(mut core: Vec<u8>, wit: &Path, adapter: &[u8]) -> Result<Vec<u8>> {
    let (resolve, world) = contract(wit)?;
    embed_component_metadata(&mut core, &resolve, world, StringEncoding::UTF8)?;
    ComponentEncoder::default().validate(true).module(&core)?.adapter(PREVIEW1, adapter)?.encode()
}
