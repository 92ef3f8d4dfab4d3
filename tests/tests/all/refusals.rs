//! An API server that answers everything with the same error for a while: it is
//! named, counted and survived.

use std::{
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::ensure;
use coxswain_localcluster::{Cluster, ClusterConfig, faults::Rule};
use coxswain_tests::{Bed, LIMIT, deployment, module, start_manager};
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn an_api_server_that_refuses_everything_is_named_counted_and_survived() -> anyhow::Result<()> {
    let table = [
        (401, json!({"type": "unauthorized"}), "401 Unauthorized"),
        (403, json!({"type": "forbidden"}), "403 Forbidden"),
        (429, json!({"type": "tooManyRequests", "retryAfterSeconds": 1}), "429 TooManyRequests"),
        (503, json!({"type": "unavailable", "retryAfterSeconds": 1}), "503 ServiceUnavailable"),
    ];
    let modules = vec![("replicaset-controller", module("replicaset-controller")?)];
    let bed =
        Bed::start_with(modules, |config| config.discovery_interval = Duration::from_millis(300)).await?;
    let faults = bed.cluster.rest().faults();
    let rule = |action: &serde_json::Value| Rule::parse(json!({"action": action}).to_string().as_bytes());
    for (round, (code, action, named)) in (1..).zip(&table) {
        let fault = faults.add(rule(action)?);
        // What is open already would go on.
        faults.add(rule(&json!({"type": "closeWatches"}))?);
        bed.until(named, LIMIT, async |bed| {
            let status = bed.manager.status();
            let troubles = status.resources.iter().filter_map(|one| one.trouble.as_ref());
            Ok(troubles.chain(&status.trouble).any(|trouble| trouble.contains(named)))
        })
        .await?;
        let metrics = bed.manager.metrics_text();
        let counted = metrics.lines().any(|line| {
            line.starts_with(&format!("rest_client_requests_total{{code=\"{code}\"")) && !line.ends_with(" 0")
        });
        ensure!(counted, "{code} is not counted: {metrics}");
        faults.remove(fault);
        // And afterwards all goes on as before.
        let mut set = deployment("default", &format!("after-{code}"), 1);
        set["kind"] = "ReplicaSet".into();
        bed.create("replicasets", &set)?;
        bed.until("its pod", LIMIT, async |bed| Ok(bed.list("v1", "pods", "default").await?.len() == round))
            .await?;
        bed.until("no trouble is left", LIMIT, async |bed| {
            let status = bed.manager.status();
            Ok(status.connected
                && status.trouble.is_none()
                && status.resources.iter().all(|one| one.trouble.is_none()))
        })
        .await?;
    }
    bed.stop().await;
    Ok(())
}

/// A certificate of the cluster's authority for an administrator that is good for so many days, and its key.
fn signed(pki: &Path, dir: &Path, days: i32) -> anyhow::Result<[PathBuf; 2]> {
    let files = ["crt", "key"].map(|end| dir.join(format!("{days}.{end}")));
    let [certificate, key] = files.each_ref().map(|file| file.display().to_string());
    let (pki, own) = (pki.display(), dir.display());
    let line = format!(
        "cd {own} && echo extendedKeyUsage=clientAuth > e && openssl req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 \
         -nodes -keyout {key} -out r -subj /O=system:masters/CN=ann && openssl x509 -req -in r -CA {pki}/ca.crt \
         -CAkey {pki}/ca.key -set_serial 7 -out {certificate} -days {days} -extfile e"
    );
    let done = Command::new("sh").args(["-c", &line]).output()?;
    ensure!(done.status.success(), "openssl is needed: {}", String::from_utf8_lossy(&done.stderr));
    Ok(files)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_client_certificate_is_named_and_the_next_one_taken() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::start(ClusterConfig::new(dir.path().join("cluster"))).await?;
    let pki = cluster.kubeconfig_path().with_file_name("pki");
    let file = kube::config::Kubeconfig::read_from(cluster.kubeconfig_path())?;
    let server = file.clusters[0].cluster.clone().unwrap_or_default().server.unwrap_or_default();
    let [certificate, key] = signed(&pki, dir.path(), -1)?;
    let kubeconfig = dir.path().join("kubeconfig");
    let ca = pki.join("ca.crt");
    let config = json!({"apiVersion": "v1", "kind": "Config", "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server, "certificate-authority": ca}}],
        "users": [{"name": "u", "user": {"client-certificate": certificate, "client-key": key}}]});
    std::fs::write(&kubeconfig, config.to_string())?;
    let controllers = dir.path().join("controllers");
    std::fs::create_dir(&controllers)?;
    std::fs::write(controllers.join("ttl-controller.wasm"), module("ttl-controller")?)?;
    let manager = start_manager(&kubeconfig, &controllers).await?;
    let until = async |what: &str, holds: &dyn Fn() -> bool| -> anyhow::Result<()> {
        let begun = Instant::now();
        while !holds() {
            ensure!(begun.elapsed() < LIMIT, "not {what}: {}", manager.status().to_text());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    };
    let trouble = || manager.status().trouble.unwrap_or_default().to_lowercase().replace(' ', "");
    until("the trouble", &|| trouble().contains("certificateexpired")).await?;
    // A new one goes into the same files.
    let [new_certificate, new_key] = signed(&pki, dir.path(), 1)?;
    std::fs::rename(new_key, key)?;
    std::fs::rename(new_certificate, certificate)?;
    until("connected", &|| manager.status().connected).await?;
    tokio::time::timeout(LIMIT, manager.ready()).await?;
    manager.shutdown().await;
    cluster.shutdown().await;
    Ok(())
}
