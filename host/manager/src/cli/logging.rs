//! Flags about the log, as Kubernetes' programs have them.

use coxswain::telemetry::{self, LogFormat, Logging, Vmodule};

/// How to log.
#[derive(clap::Args)]
#[command(next_help_heading = "Log")]
pub struct LogArgs {
    /// Form of the log.
    #[arg(long = "logging-format", value_enum, default_value = "text", global = true)]
    format: LogFormat,
    /// Detail of the log: from 4 on details, from 6 on everything. RUST_LOG wins.
    #[arg(short = 'v', long = "v", default_value_t = 0, global = true)]
    verbosity: u8,
    /// Detail of the log by source file: executor=4,store/*=6.
    #[arg(long, value_name = "PATTERN=N,…", default_value = "")]
    vmodule: Vmodule,
    /// In text, write errors to stderr and all else to stdout, instead of all to stderr.
    #[arg(long)]
    log_text_split_stream: bool,
    /// The same in JSON.
    #[arg(long)]
    log_json_split_stream: bool,
}

impl LogArgs {
    /// Starts logging.
    ///
    /// # Errors
    ///
    /// Flags contradict each other.
    pub fn init(&self) -> anyhow::Result<()> {
        self.init_from("info")
    }

    /// Starts logging what is at least of this level, where the user says
    /// nothing else.
    ///
    /// # Errors
    ///
    /// Flags contradict each other.
    pub fn init_from(&self, least: &str) -> anyhow::Result<()> {
        let is_json = self.format == LogFormat::Json;
        if is_json && !self.vmodule.is_empty() {
            anyhow::bail!("--vmodule is for --logging-format=text alone; leave one of the two out");
        }
        telemetry::init(Logging {
            format: self.format,
            verbosity: self.verbosity,
            least: least.to_owned(),
            vmodule: self.vmodule.clone(),
            split_streams: if is_json { self.log_json_split_stream } else { self.log_text_split_stream },
        });
        Ok(())
    }
}
