//! What manifests declare, cut by a policy: at each door of the host.

use std::path::Path;

use anyhow::Context;
use coxswain::manager::Oversight;
use coxswain_tests::{Bed, LIMIT, deployment, module, start_manager_with};
use serde_json::json;

fn policy(entries: &str) -> String {
    format!("apiVersion: coxswain.dev/v1alpha1\nkind: Policy\ncontrollers:\n{entries}")
}

async fn bed_under(names: &[&str], path: &Path, entries: &str) -> anyhow::Result<Bed> {
    std::fs::write(path, policy(entries))?;
    let modules: anyhow::Result<Vec<_>> = names.iter().map(|name| Ok((*name, module(name)?))).collect();
    Bed::start_with(modules?, |config| {
        config.oversight = Oversight { policy: Some(path.to_owned()), ..Oversight::default() };
    })
    .await
}

fn replica_set(bed: &Bed, namespace: &str) -> anyhow::Result<()> {
    let mut set = deployment(namespace, "web", 2);
    set["kind"] = "ReplicaSet".into();
    bed.create("replicasets", &set).map(drop)
}

async fn pods(bed: &Bed, namespace: &str) -> anyhow::Result<usize> {
    Ok(bed.list("v1", "pods", namespace).await?.len())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_keeps_to_its_namespaces_and_follows_the_policy() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("policy.yaml");
    let here = "- name: replicaset-controller\n  allow:\n  - namespaces: [default]\n";
    let bed = bed_under(&["replicaset-controller"], &path, here).await?;
    bed.create(
        "namespaces",
        &json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other", "namespace": ""}}),
    )?;
    replica_set(&bed, "other")?;
    replica_set(&bed, "default")?;
    bed.until("two pods here", LIMIT, async |bed| Ok(pods(bed, "default").await? == 2)).await?;
    let counts = |bed: &Bed| bed.manager.controller("replicaset-controller").map(|c| c.status().refusals);
    bed.until("the key is refused", LIMIT, async |bed| Ok(counts(bed).is_some_and(|c| c.keys > 0))).await?;
    assert_eq!(pods(&bed, "other").await?, 0);
    let text = bed.manager.status().to_text();
    assert!(text.contains("not declared or not granted, and refused: keys "), "{text}");
    let metrics = bed.manager.metrics_text();
    let series = r#"coxswain_refusals_total{controller="replicaset-controller",what="keys"} "#;
    assert!(metrics.contains(series), "{metrics}");

    // A policy that cannot be used leaves the old one in force, and says so.
    for bad in [
        "nonsense: [".to_owned(),
        policy("- name: replicaset-controler\n"),
        policy("- name: '*'\n  allow: [{verbs: [read]}]\n"),
    ] {
        std::fs::write(&path, &bad)?;
        bed.until("it is said", LIMIT, async |bed| {
            let trouble = bed.manager.status().policy_trouble;
            Ok(trouble.is_some_and(|trouble| {
                ["is not valid", "no module is called so"].iter().any(|reason| trouble.contains(reason))
            }))
        })
        .await?;
        assert_eq!(pods(&bed, "other").await?, 0);
        std::fs::write(&path, policy(here))?;
        bed.until("it is well again", LIMIT, async |bed| Ok(bed.manager.status().policy_trouble.is_none()))
            .await?;
    }

    std::fs::write(
        &path,
        policy("- name: replicaset-controller\n  allow:\n  - namespaces: [default, oth*]\n"),
    )?;
    bed.until("two pods there", LIMIT, async |bed| Ok(pods(bed, "other").await? == 2)).await?;
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_reads_and_events_that_are_not_granted_are_refused_and_told() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("policy.yaml");
    let status = |bed: &Bed| bed.manager.controller("replicaset-controller").map(|c| c.status());
    let said =
        |bed: &Bed| status(bed).and_then(|s| s.last_error).map_or_else(String::new, |error| error.reason);

    // No writes of pods: the plan is refused as a whole.
    let no_create = "- name: replicaset\n  deny:\n  - resources: [pods]\n    verbs: [create]\n";
    let bed = bed_under(&["replicaset-controller"], &path, no_create).await?;
    replica_set(&bed, "default")?;
    bed.until("refused", LIMIT, async |bed| Ok(status(bed).is_some_and(|s| s.refusals.writes > 0))).await?;
    assert!(
        said(&bed).contains("the operator's policy does not grant create of pods in namespace default"),
        "{}",
        said(&bed)
    );
    assert_eq!(status(&bed).context("it runs")?.rollbacks, 0);

    // No reads of pods, while others may: it is ready, and each read fails.
    std::fs::write(&path, policy("- name: replicaset\n  deny:\n  - resources: [pods]\n    verbs: [list]\n"))?;
    bed.until("refused", LIMIT, async |bed| Ok(status(bed).is_some_and(|s| s.refusals.reads > 0))).await?;
    bed.until("told", LIMIT, async |bed| {
        Ok(said(bed)
            .contains("does not grant replicaset-controller list and watch of pods/v1 in namespace default"))
    })
    .await?;
    let cached = |bed: &Bed| {
        let resources = bed.manager.status().resources;
        resources.iter().find(|r| r.resource == "pods/v1").map(|r| r.state.clone())
    };
    bed.until(
        "nobody reads pods",
        LIMIT,
        async |bed| Ok(cached(bed).is_none_or(|state| state == "uncached")),
    )
    .await?;
    assert_eq!(pods(&bed, "default").await?, 0);

    // No events: all else goes on.
    std::fs::write(&path, policy("- name: replicaset\n  deny:\n  - resources: [events]\n"))?;
    bed.until("two pods", LIMIT, async |bed| Ok(pods(bed, "default").await? == 2)).await?;
    bed.until("refused", LIMIT, async |bed| Ok(status(bed).is_some_and(|s| s.refusals.events > 0))).await?;
    assert!(bed.list("v1", "events", "default").await?.is_empty());
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_read_by_wildcard_is_cut_as_well() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("policy.yaml");
    let bed = bed_under(
        &["garbage-collector-controller"],
        &path,
        "- name: \"*\"\n  deny:\n  - resources: [secrets]\n",
    )
    .await?;
    let synced = |bed: &Bed, resource: &str| {
        bed.manager.status().resources.iter().any(|r| r.resource == resource && r.state == "synced")
    };
    bed.until("all else is read", LIMIT, async |bed| Ok(synced(bed, "configmaps/v1"))).await?;
    assert!(!synced(&bed, "secrets/v1"), "no informer for what nobody may read");
    // Dependents of an owner that is not there go, but for those it may not see.
    let dependent = |kind: &str, name: &str| {
        json!({"apiVersion": "v1", "kind": kind, "metadata": {"namespace": "default", "name": name,
            "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}]}})
    };
    bed.create("secrets", &dependent("Secret", "kept"))?;
    bed.create("configmaps", &dependent("ConfigMap", "goes"))?;
    bed.until("collected", LIMIT, async |bed| Ok(bed.get("v1", "configmaps", "default", "goes").is_none()))
        .await?;
    assert!(bed.get("v1", "secrets", "default", "kept").is_some());
    std::fs::write(&path, policy("- name: \"*\"\n"))?;
    bed.until("the rest is collected", LIMIT, async |bed| {
        Ok(bed.get("v1", "secrets", "default", "kept").is_none())
    })
    .await?;
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn lookups_that_are_not_granted_are_answered_with_a_refusal() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("policy.yaml");
    // It looks whether the owner is really gone before it deletes anything.
    let no_get =
        "- name: garbage-collector-controller\n  deny:\n  - verbs: [get]\n    resources: [configmaps]\n";
    let bed = bed_under(&["garbage-collector-controller"], &path, no_get).await?;
    bed.create("configmaps", &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "a",
        "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "00000000-0000-0000-0000-000000000000"}]}}))?;
    let status = |bed: &Bed| bed.manager.controller("garbage-collector-controller").map(|c| c.status());
    bed.until("refused", LIMIT, async |bed| Ok(status(bed).is_some_and(|s| s.refusals.lookups > 0))).await?;
    bed.until("told", LIMIT, async |bed| {
        Ok(status(bed)
            .and_then(|s| s.last_error)
            .is_some_and(|e| e.reason.contains("does not grant get of configmaps")))
    })
    .await?;
    assert!(bed.get("v1", "configmaps", "default", "a").is_some());
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_no_module_has_grants_nothing_until_it_is_mended() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("policy.yaml");
    let slip = "- name: replicaset-controler\n  deny:\n  - resources: [pods]\n";
    let bed = bed_under(&["replicaset-controller"], &path, slip).await?;
    replica_set(&bed, "default")?;
    bed.until("it is said", LIMIT, async |bed| {
        let trouble = bed.manager.status().policy_trouble;
        Ok(trouble
            .is_some_and(|trouble| trouble.contains("replicaset-controler, and no module is called so")))
    })
    .await?;
    assert_eq!(pods(&bed, "default").await?, 0);
    std::fs::write(&path, policy("- name: replicaset-controller\n"))?;
    bed.until("two pods", LIMIT, async |bed| Ok(pods(bed, "default").await? == 2)).await?;
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_cannot_be_read_keeps_the_manager_from_starting() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("policy.yaml");
    std::fs::write(&path, "controllers: [")?;
    let cluster = coxswain_localcluster::Cluster::start(coxswain_localcluster::ClusterConfig::new(
        dir.path().join("c"),
    ))
    .await?;
    let start = async |policy: &Path| {
        let policy = policy.to_owned();
        let started = start_manager_with(cluster.kubeconfig_path(), dir.path(), |config| {
            config.oversight = Oversight { policy: Some(policy), ..Oversight::default() };
        });
        match started.await {
            Ok(_) => String::new(),
            Err(error) => format!("{error:#}"),
        }
    };
    let said = start(&path).await;
    assert!(said.contains("is not valid") && !said.contains('\n'), "{said}");
    let said = start(&dir.path().join("nowhere.yaml")).await;
    assert!(said.contains("cannot read the policy"), "{said}");
    cluster.shutdown().await;
    Ok(())
}
