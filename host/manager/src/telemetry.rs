//! Logs, through tracing: text or JSON, one line an action.

use std::io::IsTerminal;

use crate::contract::Level;
use crate::engine::LogSink;

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Starts logging to stderr. `RUST_LOG` wins over `verbosity`, which is
/// kube-controller-manager's `-v`: from 4 on details, from 6 on everything, and
/// below that what is at least of level `least`.
pub fn init(format: LogFormat, verbosity: u8, least: &str) {
    use tracing_subscriber::{EnvFilter, fmt};
    let default = match verbosity {
        0..=3 => least,
        4..=5 => "info,coxswain=debug",
        _ => "info,coxswain=trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let builder =
        fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal());
    // A second call, as in tests, changes nothing.
    let _ = match format {
        LogFormat::Text => builder.with_target(false).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).with_target(false).try_init(),
    };
}

/// Lines of a guest, in the manager's log.
pub struct GuestLog {
    controller: String,
}

impl GuestLog {
    /// The log of one controller.
    pub fn new(controller: &str) -> Self {
        Self { controller: controller.to_owned() }
    }
}

/// Lines of a guest in the shadow of another: details, since the version that
/// runs says the same.
pub struct ShadowLog {
    controller: String,
}

impl ShadowLog {
    /// The log of one shadow.
    pub fn new(controller: &str) -> Self {
        Self { controller: controller.to_owned() }
    }
}

impl LogSink for ShadowLog {
    fn log(&self, level: Level, message: &str) {
        tracing::debug!(controller = self.controller, shadow = true, ?level, "{message}");
    }
}

impl LogSink for GuestLog {
    fn log(&self, level: Level, message: &str) {
        let controller = &self.controller;
        match level {
            Level::Debug => tracing::debug!(controller, "{message}"),
            Level::Info => tracing::info!(controller, "{message}"),
            Level::Warn => tracing::warn!(controller, "{message}"),
            Level::Error => tracing::error!(controller, "{message}"),
        }
    }
}
