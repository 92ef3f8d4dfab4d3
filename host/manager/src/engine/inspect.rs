//! Looks at a module before anything is compiled.
//!
//! In: bytes. Out: nothing, or the reason why they are no controller that this
//! host can run. Invariant: whoever passes imports only what the host offers and
//! exports what it calls, so that later errors are about types alone.

use wasmparser::{ComponentTypeRef, Parser, Payload};

use super::LoadError;

/// The contract that this host serves.
const PACKAGE: &str = "coxswain:controller";
pub(super) const VERSION: &str = "0.1.0";
/// Interfaces of WASI 0.2 that are linked, with nothing behind them.
const WASI: [&str; 6] =
    ["wasi:cli/", "wasi:clocks/", "wasi:filesystem/", "wasi:io/", "wasi:random/", "wasi:sockets/"];
/// What a controller exports.
const EXPORTS: [&str; 2] = ["describe", "reconcile"];

/// Checks that bytes are a controller.
pub fn check(bytes: &[u8]) -> Result<(), LoadError> {
    if Parser::is_core_wasm(bytes) {
        return Err(LoadError::CoreModule);
    }
    if !Parser::is_component(bytes) {
        return Err(not_wasm(bytes));
    }
    let (imports, exports) = names(bytes).map_err(|e| LoadError::Invalid(e.to_string()))?;
    for import in &imports {
        check_import(import)?;
    }
    let missing: Vec<_> = EXPORTS.into_iter().filter(|e| !exports.iter().any(|has| has == e)).collect();
    if !missing.is_empty() {
        let has = if exports.is_empty() { "nothing".to_owned() } else { exports.join(", ") };
        return Err(LoadError::MissingExports { missing: missing.join(" and "), has });
    }
    Ok(())
}

fn not_wasm(bytes: &[u8]) -> LoadError {
    let head = &bytes[..bytes.len().min(8)];
    let what = if bytes.is_empty() {
        "nothing: it is empty".to_owned()
    } else if head.starts_with(b"\0asm") {
        return LoadError::Invalid("its header is of an unknown version, or cut off".to_owned());
    } else {
        format!("{:?}", String::from_utf8_lossy(head))
    };
    LoadError::NotWasm(what)
}

/// Names of the imports and exports of the outermost component.
fn names(bytes: &[u8]) -> wasmparser::Result<(Vec<String>, Vec<String>)> {
    let (mut imports, mut exports, mut depth) = (Vec::new(), Vec::new(), 0u32);
    for payload in Parser::new(0).parse_all(bytes) {
        match payload? {
            Payload::Version { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 1 => {
                for import in section {
                    let import = import?;
                    // A type is a name for a shape, and gives access to nothing.
                    if !matches!(import.ty, ComponentTypeRef::Type(_)) {
                        imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 1 => {
                for export in section {
                    exports.push(export?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok((imports, exports))
}

fn check_import(import: &str) -> Result<(), LoadError> {
    let (interface, version) = import.split_once('@').unwrap_or((import, ""));
    let forbidden = |advice| Err(LoadError::ForbiddenImport { import: import.to_owned(), advice });
    if interface.strip_prefix(PACKAGE).is_some_and(|rest| rest.starts_with('/')) {
        return match version {
            VERSION => match &interface[PACKAGE.len() + 1..] {
                "snapshot" | "log" | "types" | "manifest" | "reconcile" => Ok(()),
                _ => forbidden(
                    "a controller imports `snapshot` and `log` of this package; rebuild it with the WIT of this release",
                ),
            },
            _ => Err(LoadError::ContractVersion { has: version.to_owned(), serves: VERSION }),
        };
    }
    if interface.starts_with("wasi:http/") {
        return forbidden(
            "controllers have no network; switch http off in the build (componentize-js: `--disable http`) \
             and ask for what is not in the cache with lookups",
        );
    }
    if WASI.iter().any(|prefix| interface.starts_with(prefix)) {
        return match version.strip_prefix("0.2.") {
            Some(_) => Ok(()),
            None => forbidden("this host links WASI 0.2; build the module for that, or without WASI"),
        };
    }
    if interface.starts_with("wasi:") {
        return forbidden(
            "of WASI only cli, clocks, filesystem, io, random and sockets of 0.2 are linked, with nothing behind them",
        );
    }
    if interface.starts_with("wasi_snapshot_preview1") {
        return forbidden(
            "it was built for WASI preview 1; give `wasm-tools component new` an adapter with `--adapt`",
        );
    }
    forbidden(
        "a controller imports `coxswain:controller/snapshot`, `coxswain:controller/log` and at most WASI 0.2",
    )
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Exports an empty instance under both names, and nothing that works.
    pub(in crate::engine) fn minimal_module(mark: u8) -> Vec<u8> {
        let mut bytes = b"\0asm\x0d\0\x01\0".to_vec();
        // One instance, made of no exports.
        bytes.extend([5, 3, 1, 1, 0]);
        let mut exports = vec![2];
        for name in EXPORTS {
            exports.extend([0, name.len() as u8]);
            exports.extend(name.as_bytes());
            // An instance, the first, without a type of its own.
            exports.extend([5, 0, 0]);
        }
        bytes.extend([11, exports.len() as u8]);
        bytes.extend(exports);
        // A custom section named `m`.
        bytes.extend([0, 3, 1, b'm', mark]);
        bytes
    }

    #[test]
    fn a_minimal_module_passes() {
        check(&minimal_module(5)).unwrap();
    }

    #[test]
    fn imports_that_are_served() {
        for import in [
            "coxswain:controller/snapshot@0.1.0",
            "coxswain:controller/types@0.1.0",
            "wasi:cli/environment@0.2.0",
            "wasi:io/streams@0.2.6",
        ] {
            check_import(import).unwrap();
        }
    }

    #[test]
    fn imports_that_are_not() {
        let refusal = |import: &str| check_import(import).unwrap_err().to_string();
        assert_eq!(
            refusal("coxswain:controller/snapshot@0.2.0"),
            "built for coxswain:controller@0.2.0; this host serves coxswain:controller@0.1.0: rebuild the module \
             with the WIT of this release, or run a host that serves 0.2.0"
        );
        assert!(refusal("wasi:http/outgoing-handler@0.2.0").contains("--disable http"));
        assert!(refusal("wasi:clocks/wall-clock@0.3.0").contains("WASI 0.2"));
        assert!(refusal("wasi:keyvalue/store@0.2.0").starts_with("imports wasi:keyvalue/store@0.2.0, which"));
        assert!(refusal("coxswain:controller/network@0.1.0").contains("`snapshot` and `log`"));
        // Not our package, though it begins like it.
        assert!(refusal("coxswain:controllers/snapshot@0.1.0").contains("which no controller may have"));
        assert!(refusal("env").contains("coxswain:controller/snapshot"));
    }

    #[test]
    fn other_files_are_named() {
        let refusal = |bytes: &[u8]| check(bytes).unwrap_err().to_string();
        assert!(refusal(b"").contains("it is empty"));
        assert!(refusal(b"#!/bin/sh\n").contains("\"#!/bin/s\""));
        assert!(refusal(b"\0asm\x01\0\0\0").starts_with("a core WebAssembly module"));
        assert!(refusal(b"\0asm\x0d\0").contains("cut off"));
        assert!(refusal(b"\0asm\x0d\0\x01\0").contains("exports no describe and reconcile"));
        assert!(refusal(b"\0asm\x0d\0\x01\0\x0a\x7f").starts_with("not a valid WebAssembly component"));
    }
}
