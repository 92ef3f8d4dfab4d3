//! Compiles modules, in a child process where there is one to be had.
//!
//! In: the bytes of a component. Out: its compiled artifact. Invariant: child and
//! parent are the same program with the same engine configuration, so that the
//! parent may load what the child made. The child takes the compiler's memory
//! with it when it ends.

use std::{
    io::{self, Read, Write},
    path::PathBuf,
    process::{ExitCode, Stdio},
    time::Duration,
};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wasmtime::Config;

use super::{LoadError, one_line};

/// First argument of the program when it is to compile: the module comes on
/// standard input, the artifact goes to standard output.
pub const COMPILE_ARGUMENT: &str = "__compile";

/// Far more than the largest modules take; a compiler still busy by then has met
/// a module made to keep it busy.
const COMPILE_TIMEOUT: Duration = Duration::from_secs(180);

/// The engine, the same in parent and child.
pub(super) fn wasm_engine() -> wasmtime::Result<wasmtime::Engine> {
    let mut config = Config::new();
    config.wasm_component_model(true).epoch_interruption(true);
    // Calls are synchronous; wasmtime's tasks would only cost.
    config.concurrency_support(false);
    // Traps name functions; source lines are not in our modules anyway.
    config.generate_address_map(false);
    #[cfg(unix)]
    config.native_unwind_info(false);
    wasmtime::Engine::new(&config)
}

/// Who compiles modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compiler {
    /// This program, started with [`COMPILE_ARGUMENT`]. It must be the same build
    /// as this process.
    Child(PathBuf),
    /// This process. It keeps the memory that compiling took.
    InProcess,
}

impl Compiler {
    /// A child, if this process is `coxswain` itself; a test or an embedding
    /// program compiles in process.
    pub fn detect() -> Self {
        match std::env::current_exe() {
            // While the file is replaced under a running process, Linux still
            // starts the old program through this link.
            Ok(exe) if is_coxswain(&exe) && cfg!(target_os = "linux") => Self::Child("/proc/self/exe".into()),
            Ok(exe) if is_coxswain(&exe) => Self::Child(exe),
            _ => Self::InProcess,
        }
    }

    /// Compiles a component.
    pub(super) async fn to_bytes(
        &self,
        engine: &wasmtime::Engine,
        module: Vec<u8>,
    ) -> Result<Vec<u8>, LoadError> {
        if let Self::Child(program) = self {
            match tokio::time::timeout(COMPILE_TIMEOUT, in_child(program, &module)).await {
                Ok(Ok(result)) => return result,
                Ok(Err(error)) => {
                    tracing::warn!(%error, program = %program.display(), "cannot start the compiler as a process of its own; compiling in this one");
                }
                Err(_) => {
                    return Err(LoadError::Compile(format!(
                        "the compiler did not finish within {COMPILE_TIMEOUT:?}"
                    )));
                }
            }
        }
        let engine = engine.clone();
        let work = tokio::task::spawn_blocking(move || engine.precompile_component(&module));
        match work.await {
            Ok(artifact) => artifact.map_err(|e| LoadError::Compile(one_line(&e))),
            Err(error) => Err(LoadError::Compile(format!("the compiler failed: {error}"))),
        }
    }
}

fn is_coxswain(exe: &std::path::Path) -> bool {
    let name = exe.file_name().and_then(|n| n.to_str()).unwrap_or_default();
    // Linux marks the file of a running program that has been replaced.
    name.trim_end_matches(" (deleted)").trim_end_matches(std::env::consts::EXE_SUFFIX) == "coxswain"
}

/// An outer error: the child did not start. An inner one: it said no.
async fn in_child(program: &std::path::Path, module: &[u8]) -> io::Result<Result<Vec<u8>, LoadError>> {
    let mut child = tokio::process::Command::new(program)
        .arg(COMPILE_ARGUMENT)
        .env_clear()
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    let (Some(mut input), Some(mut output), Some(mut errors)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(io::Error::other("the child has no pipes"));
    };
    let (mut artifact, mut message) = (Vec::new(), Vec::new());
    let feed = async {
        // A child that says no may do so before it has read everything.
        let _ = input.write_all(module).await;
        drop(input);
        Ok(0)
    };
    tokio::try_join!(feed, output.read_to_end(&mut artifact), errors.read_to_end(&mut message))?;
    let status = child.wait().await?;
    if status.success() {
        return Ok(Ok(artifact));
    }
    let message = String::from_utf8_lossy(&message);
    let message = message.trim();
    Ok(Err(LoadError::Compile(match (status.code(), message.is_empty()) {
        (Some(_), false) => message.to_owned(),
        (Some(code), true) => format!("the compiler ended with code {code}"),
        (None, _) => format!("the compiler was killed ({status}); is there enough memory?"),
    })))
}

/// What the child does. For `main`, when the first argument is
/// [`COMPILE_ARGUMENT`].
pub fn compile_child_main() -> ExitCode {
    let work = || -> wasmtime::Result<()> {
        let mut module = Vec::new();
        io::stdin().lock().read_to_end(&mut module)?;
        let artifact = wasm_engine()?.precompile_component(&module)?;
        let mut output = io::stdout().lock();
        output.write_all(&artifact)?;
        output.flush()?;
        Ok(())
    };
    match work() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{}", one_line(&error));
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_coxswain_itself_compiles_in_a_child() {
        assert!(is_coxswain("/usr/bin/coxswain".as_ref()));
        assert!(is_coxswain("/usr/bin/coxswain (deleted)".as_ref()));
        assert!(!is_coxswain("/x/coxswain-0123456789abcdef".as_ref()));
        assert_eq!(Compiler::detect(), Compiler::InProcess, "this is a test's executable");
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_a_child_says_is_passed_on() {
        let dir = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            use std::os::unix::fs::PermissionsExt;
            let path = dir.path().join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path
        };
        let echo = script("echo", "test \"$1\" = __compile && exec /bin/cat");
        // Larger than a pipe, so that reading and writing must go together.
        let big = vec![7; 1 << 20];
        assert_eq!(in_child(&echo, &big).await.unwrap().unwrap(), big);
        let no = in_child(&script("no", "echo no such thing >&2; exit 1"), &big).await.unwrap();
        assert!(matches!(no, Err(LoadError::Compile(m)) if m == "no such thing"));
        let killed = in_child(&script("killed", "kill -9 $$"), &big).await.unwrap();
        assert!(matches!(killed, Err(LoadError::Compile(m)) if m.contains("killed")));
        assert!(in_child(&dir.path().join("absent"), &big).await.is_err());
    }
}
