//! A controller written with kube-rs as a judge of the embedded cluster: its reflectors, its queue, its patches.

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use coxswain_localcluster::{Cluster, ClusterConfig};
use futures::StreamExt;
use k8s_openapi::{
    api::core::v1::{ConfigMap, Secret},
    apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{ListParams, ObjectMeta, Patch, PatchParams, PostParams},
};
use kube_runtime::{
    Controller,
    controller::Action,
    finalizer::{Event, finalizer},
    watcher,
};
use serde_json::json;

const MANAGER: &str = "copier";

#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct Failed(#[from] kube::Error);

/// Keeps a Secret of each ConfigMap labelled `copy=yes`, and takes it away with the ConfigMap by a finalizer.
async fn copy(
    map: Arc<ConfigMap>,
    client: Arc<Client>,
) -> Result<Action, kube_runtime::finalizer::Error<Failed>> {
    let namespace = map.namespace().unwrap_or_default();
    let maps = Api::<ConfigMap>::namespaced((*client).clone(), &namespace);
    let secrets = Api::<Secret>::namespaced((*client).clone(), &namespace);
    finalizer(&maps, "example.com/copy", map, async |event| match event {
        Event::Apply(map) => {
            let owner = OwnerReference {
                controller: Some(true),
                ..map.controller_owner_ref(&()).unwrap_or_default()
            };
            let secret = Secret {
                metadata: ObjectMeta {
                    name: Some(map.name_any()),
                    owner_references: Some(vec![owner]),
                    ..ObjectMeta::default()
                },
                string_data: map.data.clone(),
                ..Secret::default()
            };
            let parameters = PatchParams::apply(MANAGER).force();
            secrets.patch(&map.name_any(), &parameters, &Patch::Apply(&secret)).await?;
            Ok(Action::await_change())
        }
        Event::Cleanup(map) => {
            match secrets.delete(&map.name_any(), &Default::default()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                deleted => drop(deleted?),
            }
            Ok(Action::await_change())
        }
    })
    .await
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let wait = async {
        while !holds().await? {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.with_context(|| format!("still not: {what}"))?
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_of_kube_rs_works_through_watches_faults_and_compaction() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::start(ClusterConfig::new(dir.path())).await?;
    let file = kube::config::Kubeconfig::read_from(cluster.kubeconfig_path())?;
    let config = kube::Config::from_custom_kubeconfig(file, &Default::default()).await?;
    let client = Client::try_from(config)?;
    let maps = Api::<ConfigMap>::namespaced(client.clone(), "default");
    let secrets = Api::<Secret>::namespaced(client.clone(), "default");

    let selected = watcher::Config::default().labels("copy=yes");
    let controller = Controller::new(maps.clone(), selected)
        .owns(secrets.clone(), watcher::Config::default())
        .run(copy, |_, _, _| Action::requeue(Duration::from_millis(100)), Arc::new(client.clone()))
        .for_each(async |_| {});
    let controller = tokio::spawn(controller);

    let map = |name: &str, label: &str| -> anyhow::Result<ConfigMap> {
        let object = json!({"metadata": {"name": name, "labels": {"copy": label}}, "data": {"k": "v"}});
        Ok(serde_json::from_value(object)?)
    };
    for number in 0..20 {
        maps.create(&PostParams::default(), &map(&format!("m{number}"), "yes")?).await?;
    }
    maps.create(&PostParams::default(), &map("other", "no")?).await?;
    let count = async || -> anyhow::Result<usize> {
        Ok(secrets.list_metadata(&ListParams::default()).await?.items.len())
    };
    until("twenty copies", async || Ok(count().await? == 20)).await?;

    // What is owned is put back; the past is forgotten and watches are cut meanwhile.
    secrets.delete("m3", &Default::default()).await?;
    let rest = cluster.rest().clone();
    rest.store().compact(rest.store().version());
    for action in ["closeWatches", "expireWatches"] {
        let rule = json!({"action": {"type": action}}).to_string();
        rest.faults().add(coxswain_localcluster::faults::Rule::parse(rule.as_bytes())?);
    }
    until("the deleted copy is back", async || Ok(secrets.get_opt("m3").await?.is_some())).await?;
    maps.patch("m4", &PatchParams::default(), &Patch::Merge(json!({"data": {"k": "w"}}))).await?;
    until("a change is copied", async || {
        let data = secrets.get("m4").await?.data.unwrap_or_default();
        Ok(data.get("k").is_some_and(|bytes| bytes.0 == b"w"))
    })
    .await?;
    let owner = secrets.get("m4").await?.metadata.managed_fields.unwrap_or_default();
    assert!(owner.iter().any(|entry| entry.manager.as_deref() == Some(MANAGER)), "{owner:?}");

    maps.delete("m5", &Default::default()).await?;
    until("a copy goes with its map", async || {
        Ok(maps.get_opt("m5").await?.is_none() && secrets.get_opt("m5").await?.is_none())
    })
    .await?;
    // The label is taken away: the controller's watch is told that the map is gone.
    let patch = json!({"metadata": {"labels": {"copy": "no"}}, "data": {"k": "unseen"}});
    maps.patch("m6", &PatchParams::default(), &Patch::Merge(patch)).await?;
    tokio::time::sleep(Duration::from_millis(200)).await;
    let data = secrets.get("m6").await?.data.unwrap_or_default();
    assert_eq!(data.get("k").map(|bytes| bytes.0.as_slice()), Some(b"v".as_slice()));
    controller.abort();
    cluster.shutdown().await;
    Ok(())
}
