//! A new version beside the one that runs: compared, held, let through; then with a share of the keys.

use std::{collections::BTreeMap, path::Path, time::Duration};

use anyhow::{Context, ensure};
use coxswain::{
    controller::{ControllerStatus, shadow::ShadowStatus},
    limits::LimitRules,
    manager::{Config, Rollout},
};
use coxswain_localcluster::{Target, rest::options::DeleteOptions};
use coxswain_tests::{Bed, LIMIT, crd, deployment, module, rebuilt, start_manager_with, test_guest, text};
use serde_json::{Value, json};

const GADGETS: &str = "gadget-controller";
const GROUP: &str = "test.example/v1";

/// A bed with gadgets and the first version of their controller.
async fn bed(change: impl FnOnce(&mut Config)) -> anyhow::Result<Bed> {
    let bed = Bed::start_with(Vec::new(), change).await?;
    bed.create("customresourcedefinitions", &crd("gadgets", "Gadget"))?;
    bed.install(GADGETS, &test_guest(GADGETS)?)?;
    bed.until("the controller is ready", LIMIT, async |bed| Ok(controller(bed).is_ok_and(|c| c.ready)))
        .await?;
    Ok(bed)
}

fn controller(bed: &Bed) -> anyhow::Result<ControllerStatus> {
    let running = bed.manager.controller(GADGETS).context("no gadget controller runs")?;
    Ok(running.status())
}

fn shadow(bed: &Bed) -> anyhow::Result<ShadowStatus> {
    controller(bed)?.shadows.into_iter().next().context("there is no shadow")
}

fn gadget(bed: &Bed, name: &str, parts: u32) -> anyhow::Result<()> {
    let gadget = json!({"apiVersion": GROUP, "kind": "Gadget",
        "metadata": {"namespace": "default", "name": name}, "spec": {"parts": parts}});
    bed.create("gadgets", &gadget).map(drop)
}

fn set_parts(bed: &Bed, name: &str, parts: u32) -> anyhow::Result<()> {
    let target = Target::new(GROUP, "gadgets").in_namespace("default").named(name);
    loop {
        let mut gadget = bed.api().get(&target).map_err(|s| anyhow::anyhow!("{}", s.message))?;
        gadget["spec"]["parts"] = parts.into();
        match bed.api().update(&target, &gadget) {
            // The controller writes its status meanwhile.
            Err(status) if status.code == 409 => {}
            done => return done.map(drop).map_err(|s| anyhow::anyhow!("{}", s.message)),
        }
    }
}

/// Parts of gadgets whose names begin so, by name.
async fn parts(bed: &Bed, prefix: &str) -> anyhow::Result<BTreeMap<String, Value>> {
    let all = bed.list("v1", "configmaps", "default").await?;
    let named = all.into_iter().map(|part| (text(&part["metadata"]["name"]).to_owned(), part));
    Ok(named.filter(|(name, _)| name.starts_with(prefix)).collect())
}

async fn wait_for_parts(bed: &Bed, prefix: &str, count: usize) -> anyhow::Result<()> {
    bed.until("parts", LIMIT, async |bed| Ok(parts(bed, prefix).await?.len() == count)).await
}

fn is_labelled(part: &Value) -> bool {
    part["metadata"]["labels"]["version"] == "next"
}

fn stage(bed: &Bed) -> (String, String) {
    let modules = bed.manager.status().modules;
    let module = modules.into_iter().find(|module| module.file.contains(GADGETS));
    module.map(|m| (m.stage.name().to_owned(), m.reason.unwrap_or_default())).unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_agrees_goes_live() -> anyhow::Result<()> {
    let bed = bed(|config| config.rollout.agreements = 6).await?;
    for name in ["a", "b", "c"] {
        gadget(&bed, name, 2)?;
    }
    wait_for_parts(&bed, "", 6).await?;
    let before = parts(&bed, "").await?;
    bed.install(GADGETS, &test_guest("gadget-next")?)?;
    bed.until("it shadows", LIMIT, async |bed| Ok(bed.manager.status().stages.contains_key("shadowing")))
        .await?;
    // All keys are looked at once, and that is not enough: something has to happen.
    for name in ["a", "b", "c"] {
        set_parts(&bed, name, 3)?;
    }
    bed.until("it is live", LIMIT, async |bed| Ok(controller(bed)?.version == "next")).await?;
    ensure!(stage(&bed).0 == "live", "{:?}", stage(&bed));
    ensure!(controller(&bed)?.shadows.is_empty(), "the shadow has ended");
    wait_for_parts(&bed, "", 9).await?;
    let after = parts(&bed, "").await?;
    ensure!(before.iter().all(|(name, part)| after[name]["metadata"]["uid"] == part["metadata"]["uid"]));
    ensure!(!bed.manager.status().stages.contains_key("held"), "{}", bed.manager.status().to_text());
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_differs_is_held_with_what_differs_until_it_is_let_through() -> anyhow::Result<()> {
    let bed = bed(|config| config.rollout.agreements = 1000).await?;
    ensure!(bed.manager.promote(GADGETS).is_err(), "there is nothing to promote");
    gadget(&bed, "same", 1)?;
    gadget(&bed, "differ", 1)?;
    wait_for_parts(&bed, "", 2).await?;
    bed.install(GADGETS, &test_guest("gadget-next")?)?;
    bed.until("it shadows", LIMIT, async |bed| Ok(shadow(bed).is_ok_and(|s| s.agreed >= 2))).await?;
    ensure!(stage(&bed).0 == "shadowing", "{:?}", stage(&bed));
    set_parts(&bed, "same", 2)?;
    set_parts(&bed, "differ", 2)?;
    bed.until("it is held", LIMIT, async |bed| Ok(stage(bed).0 == "held")).await?;
    ensure!(stage(&bed).1.contains("coxswain shadow gadget-controller shows how"), "{:?}", stage(&bed));
    let status = shadow(&bed)?;
    ensure!(status.differed >= 1 && status.faults == 0 && status.wanted == Some(1000), "{status:#?}");
    ensure!(status.differences.len() == 1, "{status:#?}");
    let difference = &status.differences[0];
    ensure!(difference.key == "default/differ", "{difference:#?}");
    let added: Vec<&str> = difference.diff.lines().filter(|line| line.starts_with("+ ")).collect();
    ensure!(added.iter().any(|line| line.contains("\"version\": \"next\"")), "{}", difference.diff);
    ensure!(difference.diff.contains("+++ candidate next"), "{}", difference.diff);
    let text = bed.manager.status().to_text();
    ensure!(text.contains("`coxswain shadow gadget-controller` shows what differs"), "{text}");
    // What it would have done is not done.
    wait_for_parts(&bed, "", 4).await?;
    ensure!(!parts(&bed, "").await?.values().any(is_labelled), "the candidate wrote");

    let said = bed.manager.promote(GADGETS).map_err(anyhow::Error::msg)?;
    ensure!(said.contains("version next is let through"), "{said}");
    bed.until("it is live", LIMIT, async |bed| Ok(controller(bed)?.version == "next")).await?;
    set_parts(&bed, "differ", 3)?;
    wait_for_parts(&bed, "", 5).await?;
    ensure!(parts(&bed, "differ-2").await?.values().all(is_labelled), "another version wrote");
    bed.stop().await;
    Ok(())
}

fn shadowed(file: &Path) -> Rollout {
    Rollout { shadows: vec![("gadget".to_owned(), file.to_owned())], ..Rollout::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_candidate_that_spins_or_traps_costs_the_live_version_nothing() -> anyhow::Result<()> {
    const OTHERS: usize = 300;
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("candidate.wasm");
    // Long enough for the others to be done, however busy the machine is.
    let limits = ["gadget.deadline=20s".parse().map_err(anyhow::Error::msg)?];
    let bed = bed(|config| {
        config.rollout = shadowed(&file);
        config.limits = LimitRules::new(limits.into());
    })
    .await?;
    let troubles = |bed: &Bed| bed.manager.status().refused.into_iter().map(|r| r.reason).collect::<Vec<_>>();
    let missing = ["as a shadow of gadget: there is no such file yet"];
    bed.until("the file is missed", LIMIT, async |bed| Ok(troubles(bed) == missing)).await?;
    std::fs::write(&file, test_guest("gadget-next")?)?;
    bed.until("the shadow is there", LIMIT, async |bed| Ok(shadow(bed).is_ok())).await?;
    gadget(&bed, "spin", 1)?;
    wait_for_parts(&bed, "spin", 1).await?;
    for n in 0..OTHERS {
        gadget(&bed, &format!("ok-{n}"), 1)?;
    }
    wait_for_parts(&bed, "ok-", OTHERS).await?;
    ensure!(shadow(&bed)?.faults == 0, "the candidate was done spinning before the live version was");
    bed.until("the spin ends", LIMIT, async |bed| Ok(shadow(bed)?.faults >= 1)).await?;
    ensure!(shadow(&bed)?.dropped > 0, "nothing was dropped: {:?}", shadow(&bed)?);
    let fault = &shadow(&bed)?.differences[0];
    ensure!(fault.key == "default/spin" && fault.diff.contains("was stopped after"), "{fault:?}");

    for parts in 1..=4 {
        let name = format!("trap-{parts}");
        gadget(&bed, &name, 1)?;
    }
    bed.until("the candidate is given up", LIMIT, async |bed| Ok(shadow(bed)?.ended.is_some())).await?;
    let status = shadow(&bed)?;
    ensure!(
        status.ended.as_deref().is_some_and(|e| e.contains("3 reconciles in a row failed")),
        "{status:#?}"
    );
    wait_for_parts(&bed, "trap", 4).await?;
    let live = controller(&bed)?;
    ensure!(live.faults == 0 && live.failures == 0 && live.version != "next", "{live:#?}");

    // Another file is another candidate; none is none.
    std::fs::write(&file, module("replicaset-controller")?)?;
    bed.until("another's module is refused", LIMIT, async |bed| {
        let refused = bed.manager.status().refused;
        Ok(refused.iter().any(|r| r.reason.contains("it is a replicaset-controller")))
    })
    .await?;
    std::fs::write(&file, rebuilt(&test_guest(GADGETS)?, "other"))?;
    bed.until("another candidate", LIMIT, async |bed| Ok(shadow(bed).is_ok_and(|s| s.agreed > 0))).await?;
    ensure!(bed.manager.status().refused.is_empty(), "{:?}", bed.manager.status().refused);
    std::fs::remove_file(&file)?;
    bed.until("no candidate", LIMIT, async |bed| Ok(shadow(bed).is_err())).await?;
    ensure!(troubles(&bed) == ["as a shadow of gadget: its file is gone"], "{:?}", troubles(&bed));
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_a_candidate_looks_up_is_read_for_it_and_never_reviewed() -> anyhow::Result<()> {
    // The version that runs looks nothing up, and plans nothing for keys of such names.
    let bed = Bed::start_with(Vec::new(), |config| config.rollout.agreements = 1000).await?;
    bed.create("customresourcedefinitions", &crd("gadgets", "Gadget"))?;
    bed.install(GADGETS, &crate::gadgets::variant("thirds")?)?;
    bed.until("the controller is ready", LIMIT, async |bed| Ok(controller(bed).is_ok_and(|c| c.ready)))
        .await?;
    let aside = json!({"apiVersion": "v1", "kind": "ConfigMap", "data": {"it": "there it is"},
        "metadata": {"namespace": "default", "name": "aside"}});
    bed.create("configmaps", &aside)?;
    bed.install(GADGETS, &crate::gadgets::variant("asks")?)?;
    bed.until("it shadows", LIMIT, async |bed| Ok(shadow(bed).is_ok())).await?;
    for name in ["a", "b"] {
        gadget(&bed, name, 1)?;
    }
    bed.until("it was answered and agrees", LIMIT, async |bed| {
        let shadow = shadow(bed)?;
        ensure!(shadow.differed + shadow.faults == 0, "{shadow:?}");
        Ok(shadow.agreed >= 2 && shadow.lookups >= 2)
    })
    .await?;
    gadget(&bed, "review", 1)?;
    bed.until("a review is a difference", LIMIT, async |bed| Ok(shadow(bed)?.differed > 0)).await?;
    let shadow = shadow(&bed)?;
    let difference =
        shadow.differences.iter().find(|one| one.key == "default/review").context("no difference")?;
    ensure!(
        difference.diff.contains("asks for a review or a signature that version thirds does not"),
        "{difference:?}"
    );
    ensure!(shadow.faults == 0, "{shadow:?}");
    ensure!(controller(&bed)?.writes == 0, "{:?}", controller(&bed)?);
    bed.stop().await;
    Ok(())
}

/// The same version as its own shadow decides the same, in a rollout with all that goes with it: state,
/// lookups, results, changes of objects between a decision and its comparison.
#[tokio::test(flavor = "multi_thread")]
async fn a_version_agrees_with_itself() -> anyhow::Result<()> {
    const CONTROLLERS: [&str; 4] =
        ["deployment-controller", "replicaset-controller", "garbage-collector-controller", "job-controller"];
    let dir = tempfile::tempdir()?;
    let mut rollout = Rollout::default();
    for name in CONTROLLERS {
        let file = dir.path().join(format!("{name}.wasm"));
        std::fs::write(&file, rebuilt(&module(name)?, "shadow"))?;
        rollout.shadows.push((name.to_owned(), file));
    }
    let modules: anyhow::Result<Vec<_>> = CONTROLLERS.iter().map(|name| Ok((*name, module(name)?))).collect();
    let bed = Bed::start_with(modules?, |config| config.rollout = rollout).await?;
    let shadows = |bed: &Bed| -> Vec<(String, ShadowStatus)> {
        let all = bed.manager.status().controllers.into_iter();
        all.flat_map(|c| c.shadows.into_iter().map(move |shadow| (c.name.clone(), shadow))).collect()
    };
    bed.until("all shadows are there", LIMIT, async |bed| Ok(shadows(bed).len() == CONTROLLERS.len()))
        .await?;
    bed.create("deployments", &deployment("default", "web", 40))?;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "default", "name": "work"},
        "spec": {"completions": 5, "parallelism": 3, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}}});
    bed.create("jobs", &job)?;
    let ready = async |bed: &Bed| {
        let web = bed.get("apps/v1", "deployments", "default", "web").unwrap_or_default();
        Ok(web["status"]["readyReplicas"] == 40 && web["status"]["updatedReplicas"] == 40)
    };
    bed.until("ready", LIMIT, ready).await?;
    let target = Target::new("apps/v1", "deployments").in_namespace("default").named("web");
    let mut web = bed.api().get(&target).map_err(|s| anyhow::anyhow!("{}", s.message))?;
    web["spec"]["template"]["spec"]["containers"][0]["image"] = "image:2".into();
    bed.api().update(&target, &web).map_err(|s| anyhow::anyhow!("{}", s.message))?;
    bed.until("rolled out", LIMIT, ready).await?;
    bed.api().delete(&target, &DeleteOptions::default()).map_err(|s| anyhow::anyhow!("{}", s.message))?;
    bed.until("collected", LIMIT, async |bed| {
        Ok(bed.list("apps/v1", "replicasets", "default").await?.is_empty())
    })
    .await?;
    for (name, status) in shadows(&bed) {
        ensure!(status.differed == 0 && status.faults == 0 && status.lookups == 0, "{name}: {status:#?}");
        ensure!(status.agreed > 0, "{name}: {status:#?}");
    }
    bed.stop().await;
    Ok(())
}

fn canary(share: &str) -> Rollout {
    Rollout { canary: share.parse().ok(), ..Rollout::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_has_its_share_of_the_keys_and_then_all() -> anyhow::Result<()> {
    const KEYS: usize = 60;
    let bed = bed(|config| config.rollout = canary("50%:10m")).await?;
    bed.install(GADGETS, &test_guest("gadget-next")?)?;
    bed.until("the canary is there", LIMIT, async |bed| Ok(controller(bed)?.canary.is_some())).await?;
    ensure!(stage(&bed).0 == "canary", "{:?}", stage(&bed));
    for n in 0..KEYS {
        gadget(&bed, &format!("differ-{n}"), 1)?;
    }
    wait_for_parts(&bed, "differ", KEYS).await?;
    let first: BTreeMap<_, _> =
        parts(&bed, "differ").await?.into_iter().map(|(name, part)| (name, is_labelled(&part))).collect();
    let share = first.values().filter(|labelled| **labelled).count();
    ensure!((KEYS / 4..KEYS * 3 / 4).contains(&share), "{share} of {KEYS}");
    // A key stays with its version.
    for n in 0..KEYS {
        set_parts(&bed, &format!("differ-{n}"), 2)?;
    }
    wait_for_parts(&bed, "differ", 2 * KEYS).await?;
    for (name, part) in parts(&bed, "differ").await? {
        let key = name.rsplit_once('-').map_or("", |(key, _)| key);
        ensure!(first.get(&format!("{key}-0")) == Some(&is_labelled(&part)), "{name} changed sides");
    }
    let status = controller(&bed)?;
    ensure!(status.canary.as_ref().is_some_and(|c| c.reconciles > 0 && c.version == "next"), "{status:#?}");
    bed.manager.promote(GADGETS).map_err(anyhow::Error::msg)?;
    bed.until("it is live", LIMIT, async |bed| Ok(controller(bed)?.version == "next")).await?;
    ensure!(controller(&bed)?.canary.is_none(), "the canary has ended");
    for n in 0..10 {
        gadget(&bed, &format!("differ-late-{n}"), 1)?;
    }
    wait_for_parts(&bed, "differ-late", 10).await?;
    ensure!(parts(&bed, "differ-late").await?.values().all(is_labelled), "another version wrote");
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_that_faults_loses_its_keys() -> anyhow::Result<()> {
    const KEYS: usize = 20;
    let bed = bed(|config| config.rollout = canary("50%:10m")).await?;
    bed.install(GADGETS, &test_guest("gadget-next")?)?;
    bed.until("the canary is there", LIMIT, async |bed| Ok(controller(bed)?.canary.is_some())).await?;
    for n in 0..KEYS {
        gadget(&bed, &format!("trap-{n}"), 1)?;
    }
    // Those of its share are made by the version that runs once they are its own again.
    wait_for_parts(&bed, "trap", KEYS).await?;
    bed.until("it is refused", LIMIT, async |bed| Ok(stage(bed).0 == "refused")).await?;
    ensure!(bed.manager.rollback(GADGETS).await.is_err_and(|why| why.contains("no version to go back to")));
    ensure!(
        stage(&bed).1.contains("it failed as a canary with 50% of the keys: default/trap-"),
        "{:?}",
        stage(&bed)
    );
    let status = controller(&bed)?;
    ensure!(status.canary.is_none() && status.version != "next" && status.swaps == 0, "{status:#?}");
    // What its keys read is followed by the version that runs.
    for n in 0..KEYS {
        set_parts(&bed, &format!("trap-{n}"), 2)?;
    }
    wait_for_parts(&bed, "trap", 2 * KEYS).await?;
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_canary_and_one_that_is_held_are_called_off_by_hand_and_stay_so() -> anyhow::Result<()> {
    let cache = tempfile::tempdir()?;
    let own = |rollout: Rollout| {
        let cache = cache.path().to_owned();
        move |config: &mut Config| {
            config.rollout = rollout;
            config.engine.cache_dir = Some(cache);
            config.discovery_interval = Duration::from_millis(100);
        }
    };
    let mut bed = bed(own(canary("50%:10m"))).await?;
    let before = controller(&bed)?.hash;
    bed.install(GADGETS, &test_guest("gadget-next")?)?;
    bed.until("the canary is there", LIMIT, async |bed| Ok(controller(bed)?.canary.is_some())).await?;
    let said = bed.manager.rollback(GADGETS).await.map_err(anyhow::Error::msg)?;
    ensure!(said.contains("the new version next is called off; 0.1.0 ("), "{said}");
    let refused = async |bed: &Bed| {
        bed.until("it is refused", LIMIT, async |bed| Ok(stage(bed).1.contains("called it off"))).await?;
        let status = controller(bed)?;
        ensure!(status.canary.is_none() && status.hash == before && status.swaps == 0, "{status:#?}");
        anyhow::Ok(())
    };
    refused(&bed).await?;
    // A restart does not try it, let alone with all keys.
    bed.manager.shutdown().await;
    let held = Rollout { agreements: 1_000_000, ..Rollout::default() };
    bed.manager = start_manager_with(bed.cluster.kubeconfig_path(), &bed.controllers_dir, own(held)).await?;
    bed.until("the version before runs", LIMIT, async |bed| Ok(controller(bed).is_ok_and(|c| c.ready)))
        .await?;
    refused(&bed).await?;
    // One that is compared is called off in the same way.
    bed.install(GADGETS, &rebuilt(&test_guest("gadget-next")?, "again"))?;
    bed.until("it is compared", LIMIT, async |bed| Ok(stage(bed).0 == "shadowing")).await?;
    bed.until("it can be called off", LIMIT, async |bed| Ok(bed.manager.rollback(GADGETS).await.is_ok()))
        .await?;
    refused(&bed).await?;
    bed.stop().await;
    Ok(())
}
