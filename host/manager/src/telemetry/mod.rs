//! Logs, through tracing: text or JSON, one line an action.

mod vmodule;

use std::io::IsTerminal;

use tracing::Level;
use tracing_subscriber::{
    filter::FilterExt,
    fmt::writer::{BoxMakeWriter, MakeWriterExt},
};

pub use vmodule::Vmodule;

use crate::{contract, engine::LogSink};

/// Form of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// How to log.
#[derive(Clone, Debug, Default)]
pub struct Logging {
    /// Form of the log.
    pub format: LogFormat,
    /// Detail: from 4 on details, from 6 on everything, as `-v` of
    /// Kubernetes' programs.
    pub verbosity: u8,
    /// Below that, what is at least of this level; empty: `info`.
    pub least: String,
    /// More detail for some source files.
    pub vmodule: Vmodule,
    /// Errors go to stderr and all else to stdout, instead of all to stderr.
    pub split_streams: bool,
}

/// Starts logging. `RUST_LOG` wins over the verbosity.
pub fn init(logging: Logging) {
    use tracing_subscriber::{EnvFilter, Layer, filter, fmt, layer::SubscriberExt, util::SubscriberInitExt};
    let default = match logging.verbosity {
        0..=3 if logging.least.is_empty() => "info",
        0..=3 => &logging.least,
        4..=5 => "info,coxswain=debug",
        _ => "info,coxswain=trace",
    };
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default));
    let is_terminal = !logging.split_streams && std::io::stderr().is_terminal();
    let writer = if logging.split_streams {
        BoxMakeWriter::new(std::io::stderr.with_max_level(Level::ERROR).or_else(std::io::stdout))
    } else {
        BoxMakeWriter::new(std::io::stderr)
    };
    let layer = fmt::layer().with_writer(writer).with_ansi(is_terminal).with_target(false);
    let layer = match logging.format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    };
    let layer = if logging.vmodule.is_empty() {
        layer.with_filter(filter).boxed()
    } else {
        let vmodule = logging.vmodule;
        layer.with_filter(filter.or(filter::filter_fn(move |line| vmodule.shows(line)))).boxed()
    };
    // A second call, as in tests, changes nothing.
    let _ = tracing_subscriber::registry().with(layer).try_init();
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
    fn log(&self, level: contract::Level, message: &str) {
        tracing::debug!(controller = self.controller, shadow = true, ?level, "{message}");
    }
}

impl LogSink for GuestLog {
    fn log(&self, level: contract::Level, message: &str) {
        let controller = &self.controller;
        match level {
            contract::Level::Debug => tracing::debug!(controller, "{message}"),
            contract::Level::Info => tracing::info!(controller, "{message}"),
            contract::Level::Warn => tracing::warn!(controller, "{message}"),
            contract::Level::Error => tracing::error!(controller, "{message}"),
        }
    }
}
