//! Several leases, and processes of one machine.

use super::{local::LocalLock, server::Fault, *};
use crate::clock::Clock;

fn per_controller() -> ElectionConfig {
    ElectionConfig { grouping: Grouping::PerController("m".into()), ..ElectionConfig::default() }
}

/// A candidate for twelve leases, `web-controller`'s included.
fn with_twelve(server: &Server, name: &str) -> (Candidate, Vec<Leadership>) {
    let candidate = Candidate::with(server, name, per_controller());
    let mut all = vec![candidate.leadership.clone()];
    all.extend((1..12).map(|n| candidate.election.join(&format!("c{n}-controller"), &[])));
    (candidate, all)
}

fn held(leaderships: &[Leadership]) -> usize {
    leaderships.iter().filter(|one| one.is_leader()).count()
}

#[tokio::test(start_paused = true)]
async fn controllers_are_spread_and_a_dead_process_loses_its_share_to_the_others() {
    let server = Server::new();
    let (one, ones) = with_twelve(&server, "1");
    let (_two, twos) = with_twelve(&server, "2");
    let (_three, threes) = with_twelve(&server, "3");
    seconds(3).await;
    let shares = [held(&ones), held(&twos), held(&threes)];
    assert_eq!(shares.iter().sum::<usize>(), 12, "{shares:?}");
    assert!(shares.iter().all(|n| (3..=5).contains(n)), "{shares:?}");
    server.fail("1", Fault::Hang);
    seconds(18).await;
    let shares = [held(&ones), held(&twos), held(&threes)];
    assert_eq!((shares[0], shares[1] + shares[2]), (0, 12), "{shares:?}");
    assert!(shares[1..].iter().all(|n| (5..=7).contains(n)), "{shares:?}");
    drop(one);
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_is_unloaded_gives_its_lease_up_and_gets_it_back() {
    let server = Server::new();
    let one = Candidate::with(&server, "1", per_controller());
    until_leads(&one).await;
    assert_eq!(server.leases(), [("m-web-controller".to_owned(), one.identity())]);
    one.election.leave("web-controller", &[]);
    seconds(1).await;
    assert_eq!(server.leases(), [("m-web-controller".to_owned(), String::new())]);
    assert!(!one.leads());
    let again = one.election.join("web-controller", &[]);
    seconds(1).await;
    assert!(again.is_leader());
}

#[tokio::test(start_paused = true)]
async fn one_alone_has_all_of_them_soon() {
    let server = Server::new();
    let (_one, ones) = with_twelve(&server, "1");
    seconds(2).await;
    assert_eq!(held(&ones), 12);
}

#[tokio::test(start_paused = true)]
async fn who_has_the_main_lease_has_that_of_the_controllers_that_migrate() {
    let server = Server::new();
    let config = || ElectionConfig {
        grouping: Grouping::Migration { main: "main".into(), migration: Migration::default() },
        ..ElectionConfig::default()
    };
    let one = Candidate::with(&server, "1", config());
    let moving = one.election.join("service-controller", &[]);
    until_leads(&one).await;
    seconds(1).await;
    assert!(moving.is_leader());
    let two = Candidate::with(&server, "2", config());
    let theirs = two.election.join("service-controller", &[]);
    seconds(60).await;
    assert!(!two.leads() && !theirs.is_leader());
    let holders: Vec<_> = server.leases();
    let expected =
        ["cloud-provider-extraction-migration", "main"].map(|name| (name.to_owned(), one.identity()));
    assert_eq!(holders, expected);
    one.election.release().await;
    assert!(until_leads(&two).await < Duration::from_secs(1));
    seconds(1).await;
    assert!(theirs.is_leader());
}

/// Candidates of one machine have the same host name.
fn here(server: &Server, name: &str, dir: &std::path::Path) -> Candidate {
    let config = ElectionConfig { runtime_dir: Some(dir.to_owned()), ..ElectionConfig::default() };
    let clock: SharedClock = Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
    Candidate::on(server, name, config, clock)
}

/// A process of this machine that was killed while it led.
fn killed(server: &Server, dir: &std::path::Path, writing: bool) {
    server.put(LEASE, serde_json::json!({"holderIdentity": "host_dead", "leaseDurationSeconds": 15}));
    let (lock, _) = LocalLock::take(dir, &server.uid(LEASE)).unwrap().unwrap();
    lock.sign("host_dead").unwrap();
    if writing {
        lock.write_begins();
    }
}

#[tokio::test(start_paused = true)]
async fn a_restart_after_a_kill_does_not_wait_for_the_lease() {
    let (server, dir) = (Server::new(), tempfile::tempdir().unwrap());
    killed(&server, dir.path(), false);
    let one = here(&server, "1", dir.path());
    assert!(until_leads(&one).await < Duration::from_millis(100));
    assert_eq!(server.spec(LEASE)["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_dead_process_sent_has_a_second_to_be_carried_out() {
    let (server, dir) = (Server::new(), tempfile::tempdir().unwrap());
    killed(&server, dir.path(), true);
    let one = here(&server, "1", dir.path());
    assert!(until_leads(&one).await < Duration::from_millis(100), "nobody else may have it meanwhile");
    let term = one.term().await;
    assert!(term.begun > tokio::time::Instant::now() + Duration::from_millis(800));
}

#[tokio::test(start_paused = true)]
async fn a_holder_that_lives_or_is_another_is_waited_for() {
    let (server, dir) = (Server::new(), tempfile::tempdir().unwrap());
    let one = here(&server, "1", dir.path());
    until_leads(&one).await;
    // Alive, though it is heard of no more: it keeps its lock until its term is over.
    let two = here(&server, "2", dir.path());
    seconds(3).await;
    server.fail("1", Fault::Hang);
    seconds(8).await;
    assert!(!two.leads());
    seconds(10).await;
    assert!(two.leads() && !one.leads());
    // A file of somebody who is dead says nothing about somebody else.
    let other = Server::new();
    let elsewhere = tempfile::tempdir().unwrap();
    killed(&other, elsewhere.path(), false);
    other.put(LEASE, serde_json::json!({"holderIdentity": "host_living", "leaseDurationSeconds": 15}));
    let three = here(&other, "3", elsewhere.path());
    seconds(14).await;
    assert!(!three.leads());
    seconds(2).await;
    assert!(three.leads());
}

/// The machine sleeps, and its timers with it.
struct Sleeper(parking_lot::Mutex<Duration>);

impl Clock for Sleeper {
    fn now(&self) -> jiff::Timestamp {
        jiff::Timestamp::UNIX_EPOCH
    }
    fn suspended(&self) -> Duration {
        *self.0.lock()
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_wakes_up_does_not_go_on_leading() {
    let server = Server::new();
    let machine = Arc::new(Sleeper(parking_lot::Mutex::default()));
    let config = ElectionConfig { on_loss: OnLoss::Exit, ..ElectionConfig::default() };
    let one = Candidate::on(&server, "1", config, machine.clone());
    let term = one.term().await;
    seconds(3).await;
    *machine.0.lock() = Duration::from_secs(60);
    assert!(!term.may_write(), "not even before it has looked");
    let reason = one.lost().await;
    assert!(reason.contains("not renewed for 6"), "{reason}");
}
