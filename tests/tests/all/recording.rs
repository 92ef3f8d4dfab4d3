//! Recordings, and replays of them.

use std::{
    collections::BTreeSet,
    io::Read,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::Context;
use coxswain::{
    engine::{Engine, EngineConfig, Module},
    manager::Oversight,
    recording::{
        RecordConfig, Recording,
        replay::{ReplayOptions, Report, replay},
    },
};
use coxswain_localcluster::{Target, rest::options::DeleteOptions};
use coxswain_tests::{
    Bed, LIMIT, built_controllers, built_program, deployment, module,
    program::{client, said},
    rebuilt, root,
};
use serde_json::json;

async fn loaded(bytes: Vec<u8>) -> anyhow::Result<Module> {
    Ok(Engine::new(EngineConfig::default())?.load(bytes).await?)
}

fn test_guest(name: &str) -> anyhow::Result<Vec<u8>> {
    let path = test_guests().join(format!("{name}.wasm"));
    std::fs::read(&path)
        .with_context(|| format!("{} is not there; build it with `make guests`", path.display()))
}

/// `coxswain replay` with a test guest: its exit code and what it says.
fn replayed(dir: &Path, guest: &str, more: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let module = test_guests().join(format!("{guest}.wasm"));
    replayed_with(dir, &module, more)
}

fn replayed_with(dir: &Path, module: &Path, more: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let output = Command::new(built_program())
        .arg("replay")
        .arg(dir)
        .arg("--module")
        .arg(module)
        .args(more)
        .output()?;
    let said = String::from_utf8(output.stdout)? + &String::from_utf8_lossy(&output.stderr);
    Ok((output.status.code(), said))
}

fn test_guests() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), Into::into);
    target.join("test-guests")
}

fn modules<'a>(names: &[&'a str]) -> anyhow::Result<Vec<(&'a str, Vec<u8>)>> {
    names.iter().map(|name| Ok((*name, module(name)?))).collect()
}

async fn recorded_bed(controllers: &[&str], dir: &Path, sensitive: bool) -> anyhow::Result<Bed> {
    let record = RecordConfig { dir: dir.to_owned(), max_bytes: 64 << 20, sensitive };
    Bed::start_with(modules(controllers)?, |config| {
        config.oversight = Oversight { record: Some(record), ..Oversight::default() };
    })
    .await
}

async fn again(dir: &Path, bytes: Vec<u8>) -> anyhow::Result<Report> {
    let module = loaded(bytes).await?;
    let dir = dir.to_owned();
    Ok(tokio::task::spawn_blocking(move || {
        let options = ReplayOptions { key: None, shown: 100 };
        replay(&Recording::open(&dir)?, &module, &options)
    })
    .await??)
}

/// All that stands in the files.
fn text(dir: &Path) -> anyhow::Result<String> {
    let mut text = String::new();
    for entry in std::fs::read_dir(dir)? {
        zstd::stream::read::Decoder::new(std::fs::File::open(entry?.path())?)?.read_to_string(&mut text)?;
    }
    Ok(text)
}

/// Scales, updates and deletes a Deployment.
async fn busy(bed: &Bed) -> anyhow::Result<()> {
    bed.create("deployments", &deployment("default", "web", 20))?;
    let ready = async |bed: &Bed, count: u32| {
        let web = bed.get("apps/v1", "deployments", "default", "web");
        Ok(web.is_some_and(|web| {
            web["status"]["readyReplicas"] == count
                && web["status"]["updatedReplicas"] == count
                && web["status"]["replicas"] == count
        }))
    };
    bed.until("20 ready", LIMIT, async |bed| ready(bed, 20).await).await?;
    let web = Target::new("apps/v1", "deployments").in_namespace("default").named("web");
    let mut changed = bed.get("apps/v1", "deployments", "default", "web").context("web")?;
    changed["spec"]["replicas"] = json!(5);
    changed["spec"]["template"]["spec"]["containers"][0]["image"] = json!("image:2");
    bed.api().update(&web, &changed).map_err(|s| anyhow::anyhow!(s.message))?;
    bed.until("5 of the new ready", LIMIT, async |bed| ready(bed, 5).await).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_decides_again_what_it_decided_when_it_was_recorded() -> anyhow::Result<()> {
    const CONTROLLERS: &[&str] =
        &["deployment-controller", "replicaset-controller", "garbage-collector-controller"];
    let dir = tempfile::tempdir()?;
    let bed = recorded_bed(CONTROLLERS, dir.path(), false).await?;
    busy(&bed).await?;
    // A swap in the middle: another hash, the same decisions.
    bed.install("replicaset-controller", &rebuilt(&module("replicaset-controller")?, "again"))?;
    bed.until("swapped", LIMIT, async |bed| {
        Ok(bed.manager.controller("replicaset-controller").is_some_and(|c| c.status().swaps == 1))
    })
    .await?;
    let web = Target::new("apps/v1", "deployments").in_namespace("default").named("web");
    bed.api().delete(&web, &DeleteOptions::default()).map_err(|s| anyhow::anyhow!(s.message))?;
    bed.until("no pods", LIMIT, async |bed| Ok(bed.list("v1", "pods", "default").await?.is_empty())).await?;
    let status = bed.manager.status().recording.context("it is said to record")?;
    assert_eq!(status.dropped, 0);
    bed.stop().await;

    for name in CONTROLLERS {
        let report = again(dir.path(), module(name)?).await?;
        assert!(report.reconciles > 10, "{name}: {}", report.reconciles);
        assert_eq!(
            (report.different, report.incomplete),
            (0, 0),
            "{name}: {:#?} {:#?}",
            report.differences,
            report.gaps
        );
        assert_eq!(report.recorded.len(), if *name == "replicaset-controller" { 2 } else { 1 }, "{name}");
        assert!(report.cut.is_empty());
    }

    // A file that was cut off anywhere can be read up to there.
    let file = std::fs::read_dir(dir.path())?.next().context("a file")??.path();
    let whole = std::fs::read(&file)?;
    std::fs::write(&file, &whole[..whole.len() * 2 / 3])?;
    let report = again(dir.path(), module("deployment-controller")?).await?;
    assert_eq!((report.different, report.incomplete, report.cut.len()), (0, 0, 1), "{report:#?}");
    assert!(report.reconciles > 0);
    Ok(())
}

/// Makes a resource of the group test.example and an object of it.
async fn custom(
    bed: &Bed,
    plural: &str,
    kind: &str,
    name: &str,
    spec: serde_json::Value,
) -> anyhow::Result<()> {
    let singular = kind.to_lowercase();
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.test.example"), "namespace": ""},
        "spec": {"group": "test.example", "scope": "Namespaced",
            "names": {"plural": plural, "singular": singular, "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]}});
    bed.create("customresourcedefinitions", &crd)?;
    let object = json!({"apiVersion": "test.example/v1", "kind": kind,
        "metadata": {"namespace": "default", "name": name}, "spec": spec});
    bed.until("served", LIMIT, async |bed| Ok(bed.create(plural, &object).is_ok())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_module_that_decides_otherwise_is_told_apart() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let bed = recorded_bed(&[], dir.path(), false).await?;
    bed.install("gadget", &test_guest("gadget-controller")?)?;
    custom(&bed, "gadgets", "Gadget", "g", json!({"parts": 2})).await?;
    bed.until("two parts", LIMIT, async |bed| {
        let parts = bed.list("v1", "configmaps", "default").await?;
        Ok(parts
            .iter()
            .filter(|part| part["metadata"]["name"].as_str().is_some_and(|n| n.starts_with("g-")))
            .count()
            == 2)
    })
    .await?;
    bed.stop().await;
    let same = again(dir.path(), test_guest("gadget-controller")?).await?;
    assert_eq!((same.different, same.incomplete), (0, 0), "{same:#?}");
    assert!(same.same > 0);
    assert_eq!(replayed(dir.path(), "gadget-controller", &[])?.0, Some(0));
    let (code, said) = replayed(dir.path(), "gadget-variants", &["--json"])?;
    assert_eq!(code, Some(2), "{said}");
    let report: serde_json::Value = serde_json::from_str(&said)?;
    assert!(
        report["differences"][0]["diff"].as_str().is_some_and(|diff| diff.contains("+  \"trap\"")),
        "{report}"
    );
    let (code, said) = replayed(dir.path(), "mischief-controller", &[])?;
    assert_eq!(code, Some(1));
    assert!(
        said.contains("holds no reconcile of mischief-controller; it holds gadget-controller ("),
        "{said}"
    );
    let (code, said) = replayed(dir.path(), "gadget-controller", &["--key", "default/nobody"])?;
    assert_eq!(code, Some(1));
    assert!(said.contains("of key default/nobody; it holds those of default/g\n"), "{said}");
    let broken = again(dir.path(), test_guest("gadget-variants")?).await?;
    assert_eq!(broken.same + broken.incomplete, 0, "{broken:#?}");
    let diff = &broken.differences[0].diff;
    assert!(diff.contains("-  \"outcome\"") && diff.contains("+  \"trap\""), "{diff}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_that_depend_on_more_than_the_request_are_caught_with_the_module_itself() -> anyhow::Result<()>
{
    let dir = tempfile::tempdir()?;
    let bed = recorded_bed(&[], dir.path(), false).await?;
    bed.install("mischief", &test_guest("mischief-controller")?)?;
    // It counts its calls, and traps at each third.
    custom(&bed, "mischiefs", "Mischief", "every-third", json!({})).await?;
    let target = Target::new("test.example/v1", "mischiefs").in_namespace("default").named("every-third");
    bed.until("it trapped", LIMIT, async |bed| {
        let mut object = bed.api().get(&target).map_err(|s| anyhow::anyhow!(s.message))?;
        object["spec"]["turn"] = json!(object["spec"]["turn"].as_u64().unwrap_or(0) + 1);
        let _ = bed.api().update(&target, &object);
        Ok(bed.manager.controller("mischief-controller").is_some_and(|c| c.status().faults > 0))
    })
    .await?;
    bed.stop().await;
    let report = again(dir.path(), test_guest("mischief-controller")?).await?;
    assert!(report.different > 0, "{report:#?}");
    assert!(report.same > 0, "{report:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_manifest_calls_sensitive_is_left_out_and_said_so() -> anyhow::Result<()> {
    const SECRET: &str = "c2VjcmV0IGJlZm9yZSBpdCB3YXMgYSB0b2tlbg==";
    for sensitive in [false, true] {
        let dir = tempfile::tempdir()?;
        let bed = recorded_bed(&["bootstrap-signer-controller"], dir.path(), sensitive).await?;
        // It is off unless it is named.
        assert!(bed.manager.controller("bootstrap-signer-controller").is_none());
        bed.stop().await;
        let record = RecordConfig { dir: dir.path().to_owned(), max_bytes: 64 << 20, sensitive };
        let bed = Bed::start_with(modules(&["bootstrap-signer-controller"])?, |config| {
            config.selection = coxswain::manager::Selection::parse("bootstrap-signer-controller");
            config.oversight = Oversight { record: Some(record), ..Oversight::default() };
        })
        .await?;
        let namespace = |object: serde_json::Value| object;
        let _ = bed.create("namespaces", &namespace(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-public", "namespace": ""}})));
        let _ = bed.create("namespaces", &namespace(json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kube-system", "namespace": ""}})));
        bed.create(
            "secrets",
            &json!({"apiVersion": "v1", "kind": "Secret", "type": "bootstrap.kubernetes.io/token",
            "metadata": {"namespace": "kube-system", "name": "bootstrap-token-abcdef"},
            "data": {"token-id": "YWJjZGVm", "token-secret": SECRET, "usage-bootstrap-signing": "dHJ1ZQ=="}}),
        )?;
        bed.create(
            "configmaps",
            &json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"namespace": "kube-public", "name": "cluster-info"}, "data": {"kubeconfig": "x"}}),
        )?;
        bed.until("signed", LIMIT, async |bed| {
            let info = bed.get("v1", "configmaps", "kube-public", "cluster-info").unwrap_or_default();
            Ok(info["data"]["jws-kubeconfig-abcdef"].is_string())
        })
        .await?;
        bed.stop().await;
        let text = text(dir.path())?;
        assert!(text.contains("bootstrap-token-abcdef"), "the object itself is recorded");
        assert_eq!(text.contains(SECRET), sensitive);
        let report = again(dir.path(), module("bootstrap-signer-controller")?).await?;
        assert_eq!(report.different, 0, "{report:#?}");
        assert_eq!(report.incomplete > 0, !sensitive, "{report:#?}");
        if !sensitive {
            let said: BTreeSet<&String> = report.gaps.iter().flat_map(|gap| &gap.not_recorded).collect();
            let wanted = "data of secrets kube-system/bootstrap-token-abcdef (left out as sensitive)";
            assert!(said.iter().any(|said| *said == wanted), "{said:?}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_process_that_is_killed_leaves_a_recording_that_can_be_replayed() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let record = dir.path().join("rec");
    let mut child = Command::new(built_program())
        .args(["demo", "--json", "--controllers=deployment,replicaset", "--dir"])
        .arg(dir.path().join("cluster"))
        .arg("--record")
        .arg(&record)
        .arg("--controllers-dir")
        .arg(built_controllers())
        .env("RUST_LOG", "warn")
        .stdout(Stdio::piped())
        .spawn()?;
    let said = said(&mut child)?;
    let client = client(&said).await?;
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let body = serde_json::to_vec(&deployment("default", "web", 5))?;
    let post = http::Request::post(path).header("content-type", "application/json").body(body)?;
    client.request::<serde_json::Value>(post).await?;
    let ready = async {
        loop {
            let get = http::Request::get(format!("{path}/web")).body(Vec::new())?;
            let web = client.request::<serde_json::Value>(get).await?;
            if web["status"]["readyReplicas"] == 5 {
                return anyhow::Ok(());
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(LIMIT, ready).await.context("the pods did not become ready")??;
    // What was recorded is handed to the system within 50 ms, once the writer has a processor. All this took no longer.
    tokio::time::sleep(Duration::from_millis(200)).await;
    // Not asked, not told.
    child.kill()?;
    child.wait()?;
    for name in ["deployment-controller", "replicaset-controller"] {
        let module = built_controllers().join(format!("{name}.wasm"));
        let (code, said) = replayed_with(&record, &module, &["--json"])?;
        assert_eq!(code, Some(0), "{said}");
        let report: serde_json::Value = serde_json::from_str(&said)?;
        assert!(report["same"].as_u64() > Some(0), "{report}");
        assert!(report["cut"].as_array().is_some_and(|cut| cut.len() <= 1), "{report}");
    }
    Ok(())
}
