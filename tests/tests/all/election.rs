//! Leader election between processes, against the embedded cluster.

mod field;

use std::{
    collections::BTreeMap,
    process::Command,
    time::{Duration, Instant},
};

use anyhow::ensure;
use coxswain_tests::built_program;

use field::{CONTROLLERS, Field, LEASE, SHORT, Write, ensure_lines, leases, path};

#[tokio::test(flavor = "multi_thread")]
async fn leaders_are_killed_in_the_middle_of_rollouts_and_no_pod_is_made_twice() -> anyhow::Result<()> {
    const PODS: u32 = 60;
    const ROUNDS: usize = 4;
    let mut field = Field::new().await?;
    // As on three machines.
    for machine in ["a", "b", "c"] {
        field.start(machine, SHORT)?;
    }
    let counts = field.count_pods()?;
    field.create("web", PODS)?;
    field.until("the first version is out", || field.is_done("web", PODS)).await?;
    for round in 1..=ROUNDS {
        let leader = field.leader().await?;
        let made = |counts: &BTreeMap<String, usize>| counts.values().sum::<usize>();
        let before = made(&counts.lock());
        field.set_image("web", &format!("image:{}", round + 1))?;
        let some = before + 5 * round;
        field.until("the rollout is under way", || made(&counts.lock()) >= some).await?;
        field.processes[leader].signal("-KILL")?;
        let killed = Instant::now();
        let machine = format!("d{round}");
        field.processes.remove(leader);
        field.start(&machine, SHORT)?;
        let next = field.leader_other_than(killed).await?;
        println!("round {round}: the next leader wrote {next:.2?} after the kill");
        field.until("the rollout is complete", || field.is_done("web", PODS)).await?;
    }
    let counts = counts.lock().clone();
    ensure!(counts.len() == ROUNDS + 1 && counts.values().all(|n| *n == PODS as usize), "{counts:?}");
    ensure_lines(&field.unled())?;
    let writers: std::collections::BTreeSet<_> = field.writes.lock().iter().map(|w| w.by.clone()).collect();
    ensure!(writers.len() == ROUNDS + 1, "{writers:?}");
    field.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_that_was_stopped_for_longer_than_its_lease_writes_nothing_when_it_wakes()
-> anyhow::Result<()> {
    let mut field = Field::new().await?;
    let exits = [SHORT, &["--leader-elect-on-loss=exit"]].concat();
    field.start("a", &exits)?;
    field.leader().await?;
    let first = field.holder();
    field.start("b", SHORT)?;
    field.create("one", 3)?;
    field.until("one is out", || field.is_done("one", 3)).await?;
    // In the middle of some work.
    field.create("two", 50)?;
    field.processes[0].signal("-STOP")?;
    let stopped = Instant::now();
    field.until("the other leads", || ![String::new(), first.clone()].contains(&field.holder())).await?;
    field.until("two is out", || field.is_done("two", 50)).await?;
    field.create("three", 20)?;
    field.processes[0].signal("-CONT")?;
    field.until("three is out", || field.is_done("three", 20)).await?;
    let code = field.processes[0].ends().await?;
    ensure!(code == Some(1), "{code:?}");
    let log = field.processes[0].log();
    ensure!(log.contains("lost the lease kube-system/kube-controller-manager"), "{log}");
    let late: Vec<_> = field
        .writes
        .lock()
        .iter()
        // What it had sent by then may still arrive.
        .filter(|w| w.by == first && w.at > stopped + Duration::from_secs(1))
        .cloned()
        .collect();
    ensure_lines(&late)?;
    ensure_lines(&field.unled())?;
    field.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clean_stop_hands_over_and_a_restart_after_a_kill_waits_for_no_lease() -> anyhow::Result<()> {
    let mut field = Field::new().await?;
    // The times of a production cluster: waiting for the lease would take 15 s.
    field.start("a", &[])?;
    let first = field.leader().await?;
    field.start("b", &[])?;
    field.create("one", 3)?;
    field.until("one is out", || field.is_done("one", 3)).await?;
    field.until("the other stands by", || field.processes[1].log().contains("standing by")).await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    // Warm caches, and no more than that.
    let resident = |at: usize| field.processes[at].child.memory("VmRSS");
    let (leads, stands_by) = (resident(first)?, resident(1)?);
    println!("resident: the leader {leads} KB, the standby {stands_by} KB");
    ensure!(stands_by * 10 <= leads * 11, "the leader {leads} KB, the standby {stands_by} KB");

    let asked = Instant::now();
    field.processes[first].signal("-TERM")?;
    field.create("two", 3)?;
    let wrote = field.leader_other_than(asked).await?;
    println!("the next leader wrote {wrote:.2?} after SIGTERM");
    ensure!(wrote < Duration::from_secs(1), "a handover took {wrote:?}");
    ensure!(field.processes[0].ends().await? == Some(0), "{}", field.processes[0].log());
    field.until("two is out", || field.is_done("two", 3)).await?;
    ensure!(field.processes[0].log().contains("released the lease"));

    field.processes.remove(0);
    field.processes[0].signal("-KILL")?;
    field.processes[0].ends().await?;
    let killed = Instant::now();
    field.start("b", &[])?;
    field.create("three", 3)?;
    let wrote = field.leader_other_than(killed).await?;
    println!("after a kill and a restart the first write came after {wrote:.2?}");
    ensure!(wrote < Duration::from_secs(8), "a restart took {wrote:?}");
    field.until("three is out", || field.is_done("three", 3)).await?;
    ensure_lines(&field.unled())?;
    ensure!(
        field.processes[1].log().contains("taking its lease over at once"),
        "{}",
        field.processes[1].log()
    );
    field.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_for_each_controller_spreads_them_and_moves_a_dead_process_s_share() -> anyhow::Result<()> {
    let mut field = Field::new().await?;
    let flags = [SHORT, &["--leader-elect-per-controller"]].concat();
    field.start("a", &flags)?;
    field.until("one has them all", || leases(&field.cluster.api()).len() == CONTROLLERS.len()).await?;
    field.start("b", &flags)?;
    field.until("the other stands by", || field.processes[1].log().contains("standing by")).await?;
    field.create("one", 5)?;
    field.until("one is out", || field.is_done("one", 5)).await?;
    field.processes[0].signal("-KILL")?;
    let first = field.holder();
    let took = field
        .until("the other has them all", || {
            leases(&field.cluster.api()).iter().all(|(_, holder)| *holder != first && !holder.is_empty())
        })
        .await?;
    println!("all leases moved within {took:.2?}");
    field.create("two", 5)?;
    field.until("two is out", || field.is_done("two", 5)).await?;
    ensure_lines(&field.unled())?;
    field.stop().await;
    Ok(())
}

/// A file for `--leader-migration-config` that says who has the ReplicaSets.
fn migration(field: &Field, file: &str, component: &str) -> anyhow::Result<String> {
    let file = field.dir.path().join(file);
    std::fs::write(
        &file,
        format!(
            "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n\
             leaderName: {LEASE}-migration\n\
             controllerLeaders: [{{name: replicaset-controller, component: '{component}'}}]\n"
        ),
    )?;
    Ok(format!("--leader-migration-config={}", path(&file)))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_controller_moves_to_another_manager_and_never_runs_in_both() -> anyhow::Result<()> {
    const PODS: u32 = 40;
    let mut field = Field::new().await?;
    let migrates = |config: &str| {
        let mut flags: Vec<String> = SHORT.iter().map(|flag| (*flag).to_owned()).collect();
        flags.extend(["--enable-leader-migration".to_owned(), config.to_owned()]);
        flags
    };
    let before = migrates(&migration(&field, "before.yaml", "kube-controller-manager")?);
    let after = migrates(&migration(&field, "after.yaml", "other-manager")?);
    let mut other = migrates(&migration(&field, "other.yaml", "*")?);
    other.push(format!("--leader-elect-resource-name={LEASE}-other"));
    other.push("--controllers=replicaset-controller".to_owned());
    let start = |field: &mut Field, machine: &str, flags: Vec<String>| {
        field.start(machine, &flags.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let holder = |field: &Field, lease: &str| {
        let all = leases(&field.cluster.api());
        all.into_iter().find(|(name, _)| name == lease).map(|(_, holder)| holder).unwrap_or_default()
    };
    let moving = format!("{LEASE}-migration");

    start(&mut field, "old", before)?;
    field
        .until("the old manager has both leases", || {
            let main = holder(&field, LEASE);
            !main.is_empty() && main == holder(&field, &moving)
        })
        .await?;
    let counts = field.count_pods()?;
    field.create("web", PODS)?;
    field.until("the first version is out", || field.is_done("web", PODS)).await?;
    // The new release of the manager, and the one that takes over the ReplicaSets: both stand by.
    start(&mut field, "new", after)?;
    start(&mut field, "other", other)?;
    field.until("the new one stands by", || field.processes[1].log().contains("standing by")).await?;
    field
        .until("the other has a lease of its own", || {
            field.processes[2].is(&holder(&field, &format!("{LEASE}-other")))
        })
        .await?;
    let old = holder(&field, LEASE);
    ensure!(holder(&field, &moving) == old, "the lease moved while its holder ran");

    field.set_image("web", "image:2")?;
    let some = PODS as usize + 10;
    field.until("a rollout is under way", || counts.lock().values().sum::<usize>() >= some).await?;
    field.processes[0].signal("-TERM")?;
    ensure!(field.processes[0].ends().await? == Some(0), "{}", field.processes[0].log());
    field.until("the rollout is complete", || field.is_done("web", PODS)).await?;
    ensure!(field.processes[1].is(&holder(&field, LEASE)), "{}", field.processes[1].log());
    ensure!(field.processes[2].is(&holder(&field, &moving)), "{}", field.processes[2].log());
    ensure!(field.processes[1].log().contains("other-manager"), "{}", field.processes[1].log());

    let counts = counts.lock().clone();
    ensure!(counts.len() == 2 && counts.values().all(|n| *n == PODS as usize), "{counts:?}");
    // Pods are made under the lease that moves, and by both managers, one after the other.
    let writes = field.writes.lock().clone();
    let pods: Vec<_> =
        writes.iter().filter(|w| w.what.starts_with("POST /api/v1/namespaces/default/pods")).collect();
    let led = |write: &Write| write.holders.contains(&(moving.clone(), write.by.clone()));
    let unled: Vec<_> = pods.iter().filter(|write| !led(write)).map(|write| (*write).clone()).collect();
    ensure_lines(&unled)?;
    let by_old = pods.iter().take_while(|write| write.by == old).count();
    ensure!(
        (1..pods.len()).contains(&by_old)
            && pods[by_old..].iter().all(|write| write.by == holder(&field, &moving)),
        "{by_old} of {}",
        pods.len()
    );
    ensure_lines(&field.unled())?;
    field.stop().await;
    Ok(())
}

#[test]
fn contradictory_flags_are_refused_with_one_line() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = dir.path().join("migration.yaml");
    std::fs::write(&file, "kind: LeaderMigrationConfiguration\n")?;
    let migration = format!("--leader-migration-config={}", path(&file));
    let table: [(&[&str], &str); 4] = [
        (&["--leader-elect-renew-deadline=20s"], "must be greater than --leader-elect-renew-deadline=20s"),
        (&["--leader-elect-resource-lock=configmaps"], "only \"leases\" is supported"),
        (&["--enable-leader-migration", &migration], "apiVersion"),
        (&["--leader-elect-lease-duration=quick"], "expected a duration such as 30s"),
    ];
    for (flags, wanted) in table {
        let output = Command::new(built_program()).args(["--kubeconfig=/nowhere"]).args(flags).output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && errors.contains(wanted), "{flags:?}: {errors}");
    }
    Ok(())
}
