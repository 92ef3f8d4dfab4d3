//! Profiles of the process.

use std::time::Duration;

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use tokio::sync::Mutex;

use super::{health::values, routes::status};
use crate::manager::Manager;

/// Seconds of a profile unless the query says otherwise, as Go has it.
const SECONDS: u64 = 30;
/// Seconds at most.
const MOST: u64 = 300;
/// Samples a second, as Go takes them.
const FREQUENCY: i32 = 100;

/// The timer that samples is the process's: one profile at a time.
static ONE: Mutex<()> = Mutex::const_new(());

pub(super) fn index() -> Response {
    let text = "/debug/pprof/profile?seconds=30   CPU, in pprof's format\n\
                /debug/pprof/heap                 memory, in figures\n\
                /debug/pprof/cmdline              the command line\n";
    plain(text.to_owned())
}

/// The command line, as Go serves it: parts separated by NUL.
pub(super) fn command_line() -> Response {
    let parts: Vec<String> = std::env::args_os().map(|part| part.to_string_lossy().into_owned()).collect();
    plain(parts.join("\0"))
}

/// A profile of the CPU, over the seconds that the query names.
pub(super) async fn cpu(query: &str) -> Response {
    let seconds = values(query, "seconds").pop().map_or(Ok(SECONDS), |value| value.parse());
    let Some(seconds) = seconds.ok().filter(|seconds| (1..=MOST).contains(seconds)) else {
        let message = format!("seconds: expected a whole number from 1 to {MOST}");
        return status(StatusCode::BAD_REQUEST, "BadRequest", &message);
    };
    match record(Duration::from_secs(seconds)).await {
        Ok(profile) => {
            let headers = [
                (header::CONTENT_TYPE, "application/octet-stream"),
                (header::CONTENT_DISPOSITION, "attachment; filename=\"profile\""),
            ];
            (headers, profile).into_response()
        }
        Err(refusal) => refusal,
    }
}

async fn record(how_long: Duration) -> Result<Vec<u8>, Response> {
    let Ok(_one) = ONE.try_lock() else {
        let message = "a profile is being taken already; try again once it is done";
        return Err(status(StatusCode::CONFLICT, "Conflict", message));
    };
    sample(how_long).await.map_err(|error| {
        let message = format!("no profile can be taken: {error}");
        status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message)
    })
}

async fn sample(how_long: Duration) -> anyhow::Result<Vec<u8>> {
    use pprof::protos::Message;
    // A sample may fall into the unwinder's own locks, hence not in these.
    let guard = pprof::ProfilerGuardBuilder::default()
        .frequency(FREQUENCY)
        .blocklist(&["libc", "libgcc", "pthread", "vdso"])
        .build()?;
    tokio::time::sleep(how_long).await;
    let encoded =
        tokio::task::spawn_blocking(move || anyhow::Ok(guard.report().build()?.pprof()?.encode_to_vec()));
    encoded.await?
}

/// Memory in figures: there is no profile of a heap that nobody instruments.
pub(super) fn heap(manager: &Manager) -> Response {
    let mut text = String::from("# Figures, not a profile.\n\n# The process, from /proc/self/smaps_rollup\n");
    match std::fs::read_to_string("/proc/self/smaps_rollup") {
        // The first line names addresses.
        Ok(rollup) => text.extend(rollup.lines().skip(1).flat_map(|line| [line, "\n"])),
        Err(error) => text.push_str(&format!("cannot be read: {error}\n")),
    }
    let status = manager.status();
    text.push_str("\n# The cache: objects, bytes\n");
    for resource in status.resources.iter().filter(|one| one.objects > 0) {
        text.push_str(&format!("{:<60} {:>9} {:>12}\n", resource.resource, resource.objects, resource.bytes));
    }
    text.push_str("\n# Linear memory of modules: bytes\n");
    for (name, bytes) in manager.module_memory() {
        text.push_str(&format!("{name:<60} {bytes:>22}\n"));
    }
    plain(text)
}

fn plain(text: String) -> Response {
    ([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
