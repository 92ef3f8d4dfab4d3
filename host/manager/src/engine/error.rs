//! What can go wrong with a module, in words that say what to do.

use std::time::Duration;

/// Why an engine could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// wasmtime refused its configuration, as on a machine it has no code for.
    #[error("the WebAssembly engine cannot run on this machine: {0:#}")]
    Setup(#[source] wasmtime::Error),
    /// The thread that keeps deadlines could not be started.
    #[error("cannot start the thread that keeps the deadlines of modules: {0}")]
    Ticker(#[source] std::io::Error),
}

/// Why a module was not loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// What was compiled before is gone.
    #[error("the module {0} is not in the cache of compiled modules any more")]
    NotKept(String),
    /// Nobody wants it any more.
    #[error("other content came before it was loaded")]
    Superseded,
    /// The file is something else.
    #[error("not a WebAssembly file (it starts with {0}); expected a WebAssembly component")]
    NotWasm(String),
    /// A core module.
    #[error(
        "a core WebAssembly module, not a component; turn it into one with `wasm-tools component new`, \
         or, for a Rust guest of this tree, with `make guests`"
    )]
    CoreModule,
    /// The file is damaged.
    #[error("not a valid WebAssembly component: {0}")]
    Invalid(String),
    /// Another version of the contract.
    #[error(
        "built for coxswain:controller@{has}; this host serves coxswain:controller@{serves}: rebuild the module with the WIT of this release, or run a host that serves {has}"
    )]
    ContractVersion {
        /// What the module was built for.
        has: String,
        /// What this host serves.
        serves: &'static str,
    },
    /// A component, and not a controller.
    #[error(
        "exports no {missing}; a controller exports `describe` and `reconcile` (world coxswain:controller/controller), this component exports {has}"
    )]
    MissingExports {
        /// What is not there.
        missing: String,
        /// What is there.
        has: String,
    },
    /// An import that controllers do not have.
    #[error("imports {import}, which no controller may have: {advice}")]
    ForbiddenImport {
        /// Its name.
        import: String,
        /// What to do.
        advice: &'static str,
    },
    /// Right names, other types.
    #[error(
        "does not keep to the contract coxswain:controller@0.1.0: {0}; rebuild it with the WIT of this release"
    )]
    Contract(String),
    /// It could not be compiled.
    #[error("cannot be compiled: {0}")]
    Compile(String),
    /// It did not survive `describe`.
    #[error("`describe` failed: {fault}{}", said(.lines))]
    Describe {
        /// How it ended.
        #[source]
        fault: Fault,
        /// What it had to say, the last of it: an uncaught exception is written
        /// to standard error.
        lines: Vec<String>,
    },
    /// What it says about itself makes no sense.
    #[error("its manifest is invalid: {}", .0.join("; "))]
    Manifest(Vec<String>),
}

/// The last line is the one that names an exception, in most languages.
fn said(lines: &[String]) -> String {
    lines.last().map_or_else(String::new, |line| format!("; its last words: {line}"))
}

/// How a reconcile ended without an outcome. The instance is of no use after it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The module trapped: a panic, an uncaught exception, a failed check.
    #[error("the module trapped: {0}")]
    Trap(String),
    /// It ran past its deadline.
    #[error("the module was stopped after {0:?} without an outcome; does it loop for ever?")]
    Deadline(Duration),
    /// It needed more memory than it may have.
    #[error("the module needs more than its memory limit of {} MiB", .limit >> 20)]
    Memory {
        /// The limit in bytes.
        limit: usize,
    },
    /// It read what it did not declare, or what is not there yet.
    #[error("the module's read was refused: {0}")]
    Snapshot(String),
}
