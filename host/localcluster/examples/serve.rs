//! Serves a cluster until interrupted: `cargo run --example serve -- DIR [PORT]`.

use std::path::PathBuf;

use coxswain_localcluster::{Cluster, ClusterConfig};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let dir = PathBuf::from(arguments.next().unwrap_or_else(|| "localcluster".into()));
    let mut config = ClusterConfig::new(dir);
    if let Some(port) = arguments.next() {
        config.port = port.parse()?;
    }
    config.admin = true;
    let cluster = Cluster::start(config).await?;
    println!("export KUBECONFIG={}", cluster.kubeconfig_path().display());
    tokio::signal::ctrl_c().await?;
    cluster.shutdown().await;
    Ok(())
}
