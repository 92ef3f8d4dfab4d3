//! `coxswain status`.

use std::{process::ExitCode, time::Duration};

use anyhow::{Context, bail};
use coxswain::manager::Status;
use http_body_util::{BodyExt, Empty};
use hyper_util::{client::legacy::Client, rt::TokioExecutor};

use super::run::STATUS_ADDRESS;

/// Flags of `status`.
#[derive(clap::Args)]
pub struct Args {
    /// Status endpoint of the manager, as it logs it on start.
    #[arg(long, env = "COXSWAIN_STATUS", default_value_t = format!("http://{STATUS_ADDRESS}/status"))]
    server: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

impl Args {
    /// Asks the manager.
    pub fn ask(&self) -> anyhow::Result<Status> {
        let body = super::runtime()?.block_on(fetch(&self.server))?;
        serde_json::from_slice(&body)
            .with_context(|| format!("{} answers, and not as a coxswain manager does", self.server))
    }
}

/// Asks a manager and prints what it says.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let status = args.ask()?;
    if args.json {
        say!("{}", serde_json::to_string_pretty(&status)?);
    } else {
        say!("{}", status.to_text().trim_end());
    }
    Ok(ExitCode::SUCCESS)
}

async fn fetch(server: &str) -> anyhow::Result<bytes::Bytes> {
    let uri: http::Uri = server.parse().with_context(|| {
        format!("--server={server}: expected a URL such as http://{STATUS_ADDRESS}/status")
    })?;
    if uri.scheme_str() != Some("http") {
        bail!("--server={server}: expected a URL such as http://{STATUS_ADDRESS}/status");
    }
    let uri =
        if uri.path() == "/" { format!("{}/status", server.trim_end_matches('/')).parse()? } else { uri };
    let client: Client<_, Empty<bytes::Bytes>> = Client::builder(TokioExecutor::new()).build_http();
    let asked = async {
        let response =
            client.get(uri).await.context("is a manager running there? give its endpoint with --server")?;
        if !response.status().is_success() {
            bail!("{}", response.status());
        }
        Ok(response.into_body().collect().await?.to_bytes())
    };
    let answer = tokio::time::timeout(Duration::from_secs(10), asked).await.context("no answer within 10 s");
    answer.and_then(|a| a).with_context(|| format!("no status from {server}"))
}
