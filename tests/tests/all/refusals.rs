//! An API server that answers everything with the same error for a while: it is
//! named, counted and survived.

use std::time::Duration;

use anyhow::ensure;
use coxswain_localcluster::faults::Rule;
use coxswain_tests::{Bed, LIMIT, deployment, module};
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
