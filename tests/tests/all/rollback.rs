//! Versions that turn out bad, and the way back from them.

use std::time::Duration;

use anyhow::{Context, ensure};
use coxswain::manager::{Config, ModuleStatus, Stage};
use coxswain_tests::{Bed, LIMIT, rebuilt, start_manager_with, test_guest, text};

use crate::gadgets::{self, CONTROLLER, controller, create, set_parts, until_runs, until_seen, variant};

fn module(bed: &Bed) -> anyhow::Result<ModuleStatus> {
    let modules = bed.manager.status().modules;
    modules.into_iter().find(|m| m.file.ends_with("gadget-controller.wasm")).context("the file is unknown")
}

async fn until_stage(bed: &Bed, stage: Stage) -> anyhow::Result<()> {
    bed.until(stage.name(), LIMIT, async |bed| Ok(module(bed).is_ok_and(|m| m.stage == stage))).await
}

async fn until_parts(bed: &Bed, name: &str, parts: usize) -> anyhow::Result<()> {
    bed.until(&format!("{name} has {parts} parts"), LIMIT, async |bed| {
        let all = bed.list("v1", "configmaps", "default").await?;
        Ok(all.iter().filter(|c| text(&c["metadata"]["name"]).starts_with(&format!("{name}-"))).count()
            == parts)
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_version_that_fails_its_first_reconciles_is_gone_back_from() -> anyhow::Result<()> {
    let good = test_guest(CONTROLLER)?;
    let limits = ["gadget.deadline=100ms".parse().map_err(anyhow::Error::msg)?];
    let bed = gadgets::bed(&good, |config| config.limits = coxswain::limits::LimitRules::new(limits.into()))
        .await?;
    for n in 0..5 {
        create(&bed, &format!("g{n}"), 2)?;
        until_parts(&bed, &format!("g{n}"), 2).await?;
    }
    let bad = [
        ("panics", "the module trapped"),
        ("spins", "was stopped after"),
        ("invalid", "the plan cannot be carried out"),
        ("thirds", "the module trapped"),
    ];
    for (round, (name, reason)) in (1u64..).zip(bad) {
        let version = variant(name)?;
        bed.install(CONTROLLER, &version)?;
        bed.until("rolled back", LIMIT, async |bed| Ok(controller(bed)?.rollbacks == round)).await?;
        let file = module(&bed)?;
        ensure!(file.stage == Stage::RolledBack && file.version.as_deref() == Some(name), "{file:?}");
        let said = file.reason.unwrap_or_default();
        ensure!(said.contains("of its first") && said.contains(reason), "{name}: {said}");
        ensure!(bed.manager.status().to_text().contains(&said), "the status says why");
        // The version before works on.
        ensure!(controller(&bed)?.version == "0.1.0", "{:?}", controller(&bed)?);
        create(&bed, &format!("after-{name}"), 1)?;
        until_parts(&bed, &format!("after-{name}"), 1).await?;
        // The same content again stays refused.
        let swaps = controller(&bed)?.swaps;
        let path = bed.controllers_dir.join(format!("{CONTROLLER}.wasm"));
        std::fs::write(&path, &version)?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        ensure!(controller(&bed)?.swaps == swaps && module(&bed)?.stage == Stage::RolledBack);
    }
    ensure!(controller(&bed)?.limit_hits.contains_key("deadline"), "{:?}", controller(&bed)?.limit_hits);
    // Another content of the file is taken.
    bed.install(CONTROLLER, &rebuilt(&good, "repaired"))?;
    until_stage(&bed, Stage::Live).await?;
    let status = controller(&bed)?;
    ensure!(status.hash == module(&bed)?.hash, "{status:?}");
    ensure!(bed.manager.stages().of(Stage::RolledBack) == 4, "{:?}", bed.manager.stages().by_name());
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_keeps_to_the_version_that_was_gone_back_to() -> anyhow::Result<()> {
    let cache = tempfile::tempdir()?;
    let own = |config: &mut Config| {
        config.engine.cache_dir = Some(cache.path().to_owned());
        config.discovery_interval = Duration::from_millis(100);
    };
    let good = test_guest(CONTROLLER)?;
    let mut bed = gadgets::bed(&good, own).await?;
    create(&bed, "first", 2)?;
    until_parts(&bed, "first", 2).await?;
    bed.install(CONTROLLER, &variant("panics")?)?;
    for n in 0..3 {
        create(&bed, &format!("g{n}"), 1)?;
    }
    bed.until("rolled back", LIMIT, async |bed| Ok(controller(bed)?.rollbacks == 1)).await?;
    let before = module(&bed)?;

    let restarted = async |bed: &mut Bed| {
        bed.manager.shutdown().await;
        bed.manager = start_manager_with(bed.cluster.kubeconfig_path(), &bed.controllers_dir, own).await?;
        anyhow::Ok(())
    };
    restarted(&mut bed).await?;
    create(&bed, "second", 2)?;
    until_parts(&bed, "second", 2).await?;
    let after = module(&bed)?;
    ensure!(after.stage == Stage::RolledBack && after.hash == before.hash, "{after:?}");
    ensure!(after.reason == before.reason, "{after:?}");
    let status = controller(&bed)?;
    ensure!(status.version == "0.1.0" && status.faults == 0, "{status:?}");

    // What ran before is gone from the cache: nothing runs, and it says so.
    std::fs::remove_dir_all(cache.path().join("modules"))?;
    std::fs::create_dir(cache.path().join("modules"))?;
    restarted(&mut bed).await?;
    until_stage(&bed, Stage::Refused).await?;
    let said = module(&bed)?.reason.unwrap_or_default();
    ensure!(
        said.contains("rolled back: ") && said.contains("put a version that works in the file"),
        "{said}"
    );
    ensure!(controller(&bed).is_err(), "nothing runs");

    // Other content is taken, and what was remembered is forgotten.
    bed.install(CONTROLLER, &rebuilt(&good, "repaired"))?;
    until_stage(&bed, Stage::Live).await?;
    restarted(&mut bed).await?;
    until_stage(&bed, Stage::Live).await?;
    create(&bed, "third", 1)?;
    until_parts(&bed, "third", 1).await?;
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn with_no_version_to_go_back_to_a_controller_is_slowed_and_says_so() -> anyhow::Result<()> {
    let bed = gadgets::bed(&variant("panics")?, |_| {}).await?;
    for n in 0..3 {
        create(&bed, &format!("g{n}"), 1)?;
    }
    bed.until("it says that there is no way back", LIMIT, async |bed| {
        Ok(module(bed)?.reason.is_some_and(|said| said.contains("there is no version to go back to")))
    })
    .await?;
    bed.until("slowed", LIMIT, async |bed| Ok(controller(bed)?.slowed.is_some())).await?;
    let faults = controller(&bed)?.faults;
    tokio::time::sleep(Duration::from_secs(3)).await;
    // Three keys that back off on their own would fail some twenty times in three seconds.
    let more = controller(&bed)?.faults - faults;
    ensure!(more <= 8, "{more} faults in 3 s");
    let said = bed.manager.status().to_text();
    ensure!(said.contains("slowed: its last") && said.contains("no version to go back to"), "{said}");
    ensure!(
        bed.manager.rollback(CONTROLLER).await.is_err_and(|why| why.contains("no version to go back to"))
    );
    // A version that works ends it at once.
    let good = test_guest(CONTROLLER)?;
    bed.install(CONTROLLER, &good)?;
    until_parts(&bed, "g1", 1).await?;
    ensure!(controller(&bed)?.slowed.is_none());
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn state_is_handed_over_converted_or_dropped() -> anyhow::Result<()> {
    let bed = gadgets::bed(&variant("keeps-1")?, |_| {}).await?;
    create(&bed, "g", 1)?;
    until_seen(&bed, "g", "1").await?;
    set_parts(&bed, "g", 2)?;
    until_seen(&bed, "g", "1,2").await?;
    // The same version, built anew, goes on where it was.
    bed.install(CONTROLLER, &rebuilt(&variant("keeps-1")?, "again"))?;
    bed.until("swapped", LIMIT, async |bed| Ok(controller(bed)?.swaps == 1)).await?;
    set_parts(&bed, "g", 3)?;
    until_seen(&bed, "g", "1,2,3").await?;
    // One that fails takes nothing with it.
    bed.install(CONTROLLER, &variant("panics")?)?;
    for n in 0..3 {
        create(&bed, &format!("other{n}"), 1)?;
    }
    bed.until("rolled back", LIMIT, async |bed| Ok(controller(bed)?.rollbacks == 1)).await?;
    set_parts(&bed, "g", 4)?;
    until_seen(&bed, "g", "1,2,3,4").await?;
    // The next format converts it,
    bed.install(CONTROLLER, &variant("keeps-2")?)?;
    until_seen(&bed, "g", "1*2*3*4").await?;
    set_parts(&bed, "g", 5)?;
    until_seen(&bed, "g", "1*2*3*4*5").await?;
    // and one that takes no other begins anew.
    bed.install(CONTROLLER, &variant("keeps-3")?)?;
    until_seen(&bed, "g", "5").await?;
    set_parts(&bed, "g", 6)?;
    until_seen(&bed, "g", "5*6").await?;
    // Back by hand, step by step: no version is given what it cannot read.
    let said = bed.manager.rollback(CONTROLLER).await.map_err(anyhow::Error::msg)?;
    ensure!(said.contains("runs version keeps-2") && said.contains("keeps-3"), "{said}");
    until_seen(&bed, "g", "6").await?;
    bed.manager.rollback(CONTROLLER).await.map_err(anyhow::Error::msg)?;
    until_runs(&bed, "keeps-1").await?;
    set_parts(&bed, "g", 7)?;
    // Whether it saw the six before the seven is a matter of time.
    bed.until("the first format begins anew", LIMIT, async |bed| {
        Ok(matches!(text(&gadgets::status(bed, "g", "seen")), "6,7" | "7"))
    })
    .await?;
    bed.stop().await;
    Ok(())
}
