//! Files that come, go, change, and are of no use.

use std::time::Duration;

use coxswain_tests::{Bed, deployment, module, rebuilt};

const LIMIT: Duration = Duration::from_secs(30);

fn refused(bed: &Bed, file: &str) -> Option<String> {
    let status = bed.manager.status();
    status.refused.into_iter().find(|r| r.file.ends_with(file)).map(|r| r.reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_files_are_named_and_cost_nobody_else_anything() -> anyhow::Result<()> {
    let bed = Bed::start(&["replicaset-controller"]).await?;
    let good = module("replicaset-controller")?;
    let table: [(&str, Vec<u8>, &str); 4] = [
        ("text", b"hello".to_vec(), "not a WebAssembly file"),
        ("core", b"\0asm\x01\0\0\0".to_vec(), "component"),
        ("half", good[..good.len() / 2].to_vec(), "valid"),
        ("twin", good.clone(), "is a replicaset-controller too"),
    ];
    for (name, bytes, _) in &table {
        bed.install(name, bytes)?;
    }
    for (name, _, reason) in &table {
        let file = format!("{name}.wasm");
        bed.until(name, LIMIT, async |bed| Ok(refused(bed, &file).is_some())).await?;
        let said = refused(&bed, &file).unwrap();
        assert!(said.contains(reason), "{name}: {said}");
        assert!(!said.contains('\n'), "one line: {said}");
    }
    // A bad new version leaves the old one at work.
    bed.install("replicaset-controller", b"broken")?;
    bed.until("refused", LIMIT, async |bed| Ok(refused(bed, "replicaset-controller.wasm").is_some())).await?;
    let mut replica_set = deployment("default", "web", 2);
    replica_set["kind"] = "ReplicaSet".into();
    bed.create("replicasets", &replica_set)?;
    bed.until("two pods", LIMIT, async |bed| Ok(bed.list("v1", "pods", "default").await?.len() == 2)).await?;
    // And a good one after it is taken.
    bed.install("replicaset-controller", &rebuilt(&good, "good"))?;
    bed.until("taken", LIMIT, async |bed| Ok(refused(bed, "replicaset-controller.wasm").is_none())).await?;
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn controllers_come_and_go_with_their_files() -> anyhow::Result<()> {
    let bed = Bed::start(&["replicaset-controller"]).await?;
    let path = bed.controllers_dir.join("replicaset-controller.wasm");
    bed.install("twin", &module("replicaset-controller")?)?;
    bed.until("the twin is refused", LIMIT, async |bed| Ok(refused(bed, "twin.wasm").is_some())).await?;
    std::fs::remove_file(&path)?;
    // The twin takes over what the first one left.
    bed.until("the twin runs", LIMIT, async |bed| {
        let status = bed.manager.status();
        Ok(status.controllers.len() == 1 && status.controllers[0].file.ends_with("twin.wasm"))
    })
    .await?;
    std::fs::remove_file(bed.controllers_dir.join("twin.wasm"))?;
    bed.until("nothing runs", LIMIT, async |bed| Ok(bed.manager.status().controllers.is_empty())).await?;
    bed.install("deployment", &module("deployment-controller")?)?;
    bed.until("it runs", LIMIT, async |bed| Ok(bed.manager.controller("deployment-controller").is_some()))
        .await?;
    bed.stop().await;
    Ok(())
}
