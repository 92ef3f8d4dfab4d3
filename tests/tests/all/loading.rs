//! Files that come, go, change, and are of no use.

use std::time::Duration;

use coxswain::manager::Stage;
use coxswain_tests::{Bed, LIMIT, deployment, module, rebuilt, start_manager};

fn refused(bed: &Bed, file: &str) -> Option<String> {
    let status = bed.manager.status();
    status.refused.into_iter().find(|r| r.file.ends_with(file)).map(|r| r.reason)
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_files_are_named_and_cost_nobody_else_anything() -> anyhow::Result<()> {
    let bed = Bed::start(&["replicaset-controller"]).await?;
    let good = module("replicaset-controller")?;
    let nowhere = bed.controllers_dir.join("nowhere.wasm");
    std::os::unix::fs::symlink("removed.wasm", &nowhere)?;
    std::fs::create_dir(bed.controllers_dir.join("folder.wasm"))?;
    for (file, reason) in
        [("nowhere.wasm", "a link to removed.wasm, which is not there"), ("folder.wasm", "a directory")]
    {
        bed.until(reason, LIMIT, async |bed| Ok(refused(bed, file).is_some_and(|r| r.contains(reason))))
            .await?;
    }
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
    // The twin takes over what the first one left, and so does a file that is renamed, even over another.
    let started = bed.manager.status().controllers[0].since;
    let until_runs_from = async |file: &str| {
        bed.until(file, LIMIT, async |bed| {
            let status = bed.manager.status();
            Ok(status.controllers.len() == 1 && status.controllers[0].file.ends_with(file))
        })
        .await
    };
    until_runs_from("twin.wasm").await?;
    let refusals = bed.manager.stages().of(Stage::Refused);
    std::fs::rename(bed.controllers_dir.join("twin.wasm"), bed.controllers_dir.join("renamed.wasm"))?;
    until_runs_from("renamed.wasm").await?;
    bed.install("deployment", &module("deployment-controller")?)?;
    bed.until("both run", LIMIT, async |bed| Ok(bed.manager.status().controllers.len() == 2)).await?;
    std::fs::rename(bed.controllers_dir.join("renamed.wasm"), bed.controllers_dir.join("deployment.wasm"))?;
    until_runs_from("deployment.wasm").await?;
    let status = bed.manager.status();
    assert_eq!(status.controllers[0].since, started, "it is the same controller: {}", status.to_text());
    assert_eq!(bed.manager.stages().of(Stage::Refused), refusals, "nothing was wrong");
    let said = status.to_text();
    assert!(said.contains("not running: deployment-controller, since "), "{said}");
    // A bad build, and the file put back: nothing happens to what runs.
    let file = bed.controllers_dir.join("deployment.wasm");
    let good = std::fs::read(&file)?;
    std::fs::write(&file, b"broken")?;
    bed.until("refused", LIMIT, async |bed| Ok(refused(bed, "deployment.wasm").is_some())).await?;
    std::fs::write(&file, &good)?;
    bed.until("put back", LIMIT, async |bed| Ok(refused(bed, "deployment.wasm").is_none())).await?;
    let status = bed.manager.status();
    assert_eq!((status.controllers[0].since, status.modules[0].stage), (started, Stage::Live));
    // Without a file there is no controller, and the status says since when.
    std::fs::remove_file(&file)?;
    bed.until("nothing runs", LIMIT, async |bed| Ok(bed.manager.status().controllers.is_empty())).await?;
    let said = bed.manager.status().to_text();
    assert!(said.contains("not running: replicaset-controller, since "), "{said}");
    bed.install("deployment", &module("deployment-controller")?)?;
    bed.until("it runs", LIMIT, async |bed| Ok(bed.manager.controller("deployment-controller").is_some()))
        .await?;
    let said = bed.manager.status().to_text();
    assert!(!said.contains("not running: deployment-controller"), "{said}");
    bed.stop().await;
    Ok(())
}

/// Hash of the module that runs.
fn running(bed: &Bed) -> Option<String> {
    bed.manager.controller("replicaset-controller").map(|c| c.status().hash)
}

async fn until_runs(bed: &Bed, what: &str, bytes: &[u8]) -> anyhow::Result<()> {
    let hash = sha256(bytes);
    bed.until(what, LIMIT, async |bed| Ok(running(bed).as_ref() == Some(&hash))).await
}

fn sha256(bytes: &[u8]) -> String {
    use sha2::Digest;
    sha2::Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_is_replaced_in_every_way_that_files_are() -> anyhow::Result<()> {
    use std::{io::Write, os::unix::fs::symlink};
    let good = module("replicaset-controller")?;
    let build = |n: u32| rebuilt(&good, &n.to_string());
    let bed = Bed::start_with(Vec::new(), |_| {}).await?;
    let dir = &bed.controllers_dir;
    let path = dir.join("replicaset-controller.wasm");
    bed.until("an empty directory is told", LIMIT, async |bed| {
        Ok(bed.manager.status().to_text().contains("there are no modules (*.wasm) in it"))
    })
    .await?;
    // By rename.
    bed.install("replicaset-controller", &build(1))?;
    until_runs(&bed, "renamed", &build(1)).await?;
    assert!(bed.manager.status().refused.is_empty(), "the directory is empty no more");
    // By a copy in place that takes its time.
    let copy = build(2);
    let mut file = std::fs::File::create(&path)?;
    for part in copy.chunks(copy.len() / 8) {
        file.write_all(part)?;
        file.sync_all()?;
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    drop(file);
    until_runs(&bed, "copied", &copy).await?;
    let stages = bed.manager.status().stages;
    assert!(!stages.contains_key("refused"), "half a file is no reason to complain: {stages:?}");
    // Deleted and restored.
    std::fs::remove_file(&path)?;
    bed.until("gone", LIMIT, async |bed| Ok(running(bed).is_none())).await?;
    std::fs::write(&path, build(2))?;
    until_runs(&bed, "restored", &build(2)).await?;
    // As a mounted ConfigMap: links through a directory that is flipped.
    std::fs::remove_file(&path)?;
    bed.until("gone", LIMIT, async |bed| Ok(running(bed).is_none())).await?;
    for n in [3, 4] {
        let version = dir.join(format!("..v{n}"));
        std::fs::create_dir(&version)?;
        std::fs::write(version.join("replicaset-controller.wasm"), build(n))?;
    }
    symlink("..v3", dir.join("..data"))?;
    symlink("..data/replicaset-controller.wasm", &path)?;
    until_runs(&bed, "linked", &build(3)).await?;
    symlink("..v4", dir.join("..data_tmp"))?;
    std::fs::rename(dir.join("..data_tmp"), dir.join("..data"))?;
    until_runs(&bed, "flipped", &build(4)).await?;
    assert_eq!(bed.manager.controller("replicaset-controller").map(|c| c.status().swaps), Some(1));
    bed.stop().await;
    Ok(())
}

/// A compiler that notes when it begins and when it ends, and takes its time.
#[cfg(unix)]
fn slow_compiler(dir: &std::path::Path) -> anyhow::Result<(std::path::PathBuf, std::path::PathBuf)> {
    use std::os::unix::fs::PermissionsExt;
    let (script, notes) = (dir.join("compiler"), dir.join("notes"));
    let (program, file) = (coxswain_tests::built_program(), notes.display());
    let text = format!(
        "#!/bin/sh\necho begun >> {file}\n/bin/sleep 1\n{} \"$@\" || exit\necho done >> {file}\n",
        program.canonicalize()?.display()
    );
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755))?;
    Ok((script, notes))
}

#[cfg(unix)]
#[tokio::test(flavor = "multi_thread")]
async fn of_several_builds_in_a_row_the_newest_alone_is_compiled_to_its_end() -> anyhow::Result<()> {
    let good = module("ttl-controller")?;
    let place = tempfile::tempdir()?;
    let (script, notes) = slow_compiler(place.path())?;
    let bed = Bed::start_with(Vec::new(), |config| {
        config.engine.cache_dir = Some(place.path().join("cache"));
        config.engine.compiler = coxswain::engine::Compiler::Child(script);
    })
    .await?;
    let count = |word: &str| {
        let notes = std::fs::read_to_string(&notes).unwrap_or_default();
        notes.lines().filter(|line| *line == word).count()
    };
    const BUILDS: usize = 5;
    for n in 1..=BUILDS {
        bed.install("ttl-controller", &rebuilt(&good, &n.to_string()))?;
        bed.until("it is being compiled", LIMIT, async |_| Ok(count("begun") >= n)).await?;
    }
    let newest = sha256(&rebuilt(&good, &BUILDS.to_string()));
    bed.until("the newest runs", LIMIT, async |bed| {
        Ok(bed.manager.controller("ttl-controller").is_some_and(|c| c.status().hash == newest))
    })
    .await?;
    assert_eq!((count("begun"), count("done")), (BUILDS, 1), "those before it were given up");
    assert!(bed.manager.status().refused.is_empty(), "{}", bed.manager.status().to_text());
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn trouble_with_the_directory_is_told_while_it_lasts() -> anyhow::Result<()> {
    let bed = Bed::start(&["replicaset-controller"]).await?;
    let (here, away) = (bed.controllers_dir.clone(), bed.controllers_dir.with_extension("away"));
    std::fs::rename(&here, &away)?;
    let told = |bed: &Bed| bed.manager.status().to_text().contains("looking again until it can be read");
    bed.until("the trouble is told", LIMIT, async |bed| Ok(told(bed))).await?;
    assert!(running(&bed).is_some(), "what runs goes on");
    std::fs::rename(&away, &here)?;
    bed.until("it is over", LIMIT, async |bed| Ok(!told(bed))).await?;
    assert!(bed.manager.status().refused.is_empty());
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn all_modules_start_within_a_second_from_the_cache() -> anyhow::Result<()> {
    let mut modules = Vec::new();
    for entry in std::fs::read_dir(coxswain_tests::built_controllers())? {
        let path = entry?.path();
        if let Some(name) = path.file_stem().and_then(|name| name.to_str()) {
            modules.push((name.to_owned(), std::fs::read(&path)?));
        }
    }
    let all: Vec<_> = modules.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    // The first start may have to compile them.
    let bed = Bed::start_with(all, |_| {}).await?;
    let start = std::time::Instant::now();
    let again = start_manager(bed.cluster.kubeconfig_path(), &bed.controllers_dir).await?;
    again.first_load().await;
    let took = start.elapsed();
    let status = again.status();
    println!("{} modules loaded from the cache in {took:?}", status.modules.len());
    assert_eq!(status.modules.len(), modules.len());
    assert!(!status.stages.contains_key("compiling"), "{:?}", status.stages);
    // One second is the goal; the rest is for a machine that is busy with other tests.
    assert!(took < Duration::from_secs(5), "{took:?}");
    // A scrape of all of them: 20 ms is the goal.
    again.ready().await;
    let mut scrapes = Vec::new();
    for _ in 0..9 {
        let start = std::time::Instant::now();
        assert!(again.metrics_text().contains("workqueue_depth"));
        scrapes.push(start.elapsed());
    }
    scrapes.sort();
    println!("a scrape of {} controllers: {:?}", status.modules.len(), scrapes[4]);
    assert!(scrapes[4] < Duration::from_millis(200), "{scrapes:?}");
    again.shutdown().await;
    bed.stop().await;
    Ok(())
}
