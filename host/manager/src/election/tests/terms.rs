//! Who leads, from when, until when.

use serde_json::json;

use super::{server::Fault, *};

#[tokio::test(start_paused = true)]
async fn the_first_leads_and_writes_what_client_go_would() {
    let server = Server::new();
    let one = Candidate::start(&server, "1");
    assert!(until_leads(&one).await < Duration::from_millis(100));
    let spec = server.spec(LEASE);
    assert_eq!(spec["holderIdentity"], one.identity());
    assert_eq!((&spec["leaseDurationSeconds"], &spec["leaseTransitions"]), (&json!(15), &json!(0)));
    assert_eq!(spec["acquireTime"], spec["renewTime"]);
    seconds(5).await;
    let renewed = server.spec(LEASE);
    assert_eq!(renewed["acquireTime"], spec["acquireTime"]);
    assert_ne!(renewed["renewTime"], spec["renewTime"]);
    assert_eq!(server.events(), [format!("{} became leader", one.identity())]);
    assert_eq!(one.election.master_status(), [(LEASE.to_owned(), true)]);
    let status = one.status();
    assert_eq!((status.role, status.holder), (Role::Leader, one.identity()));
    assert_eq!(status.lease, "kube-system/kube-controller-manager");
}

#[tokio::test(start_paused = true)]
async fn a_crash_is_waited_out_for_the_lease_and_no_longer() {
    // Without a watch, the look comes up to 4.4 s late.
    for (server, latest) in [(Server::new(), 16), (Server::without_watch(), 20)] {
        let one = Candidate::start(&server, "1");
        until_leads(&one).await;
        let two = Candidate::start(&server, "2");
        seconds(9).await;
        assert!(one.leads() && !two.leads());
        // Dead: it is heard of no more.
        server.fail("1", Fault::Hang);
        let waited = until_leads(&two).await;
        assert!(!one.leads(), "nobody leads beside the new one");
        // The last renewal was up to a retry period ago.
        assert!(waited >= Duration::from_secs(12) && waited <= Duration::from_secs(latest), "{waited:?}");
        assert_eq!(server.spec(LEASE)["leaseTransitions"], 1);
    }
}

#[tokio::test(start_paused = true)]
async fn at_no_moment_do_two_write() {
    let server = Server::new();
    let candidates = ["1", "2", "3"].map(|name| Candidate::start(&server, name));
    let mut led = [0; 3];
    let mut gates: [Option<Arc<Term>>; 3] = [None, None, None];
    // Every half minute one of them, most often the leader, is cut off for a while, now longer, now
    // shorter than its lease.
    for step in 0..24_000u64 {
        sleep(Duration::from_millis(50)).await;
        let (window, within) = (step / 600, step % 600);
        if within == 0 {
            let leader = candidates.iter().find(|one| one.leads() && window % 4 != 0);
            let who = leader.map_or(window.to_string(), |one| one.name.clone());
            server.fail(&who, if window % 2 == 0 { Fault::Hang } else { Fault::Status(503) });
        }
        if within == 20 * (window * 7 % 29) {
            candidates.iter().for_each(|one| server.heal(&one.name));
        }
        for (index, candidate) in candidates.iter().enumerate() {
            if candidate.leads() {
                gates[index] = Some(candidate.term().await);
            }
        }
        // Also what was begun in an earlier term counts.
        let writers: Vec<usize> =
            (0..3).filter(|i| gates[*i].as_ref().is_some_and(|term| term.may_write())).collect();
        assert!(writers.len() <= 1, "{writers:?} at step {step}");
        writers.iter().for_each(|index| led[*index] += 1);
    }
    let total: i32 = led.iter().sum();
    assert!(total > 12_000, "somebody led most of the time: {led:?}");
    assert!(led.iter().all(|n| *n > 0), "everybody had a turn: {led:?}");
}

#[tokio::test(start_paused = true)]
async fn a_clean_stop_hands_over_at_once() {
    let server = Server::new();
    let one = Candidate::start(&server, "1");
    until_leads(&one).await;
    let two = Candidate::start(&server, "2");
    seconds(5).await;
    one.election.release().await;
    let spec = server.spec(LEASE);
    let waited = until_leads(&two).await;
    assert!(waited < Duration::from_millis(100), "{waited:?}");
    // client-go's form.
    assert_eq!((&spec["holderIdentity"], &spec["leaseDurationSeconds"]), (&json!(""), &json!(1)));
    assert_eq!(spec["leaseTransitions"], 0);
    assert_eq!(server.spec(LEASE)["leaseTransitions"], 1);
    assert!(server.events().contains(&format!("{} stopped leading", one.identity())));
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_given_up_only_once_the_last_write_has_ended() {
    let server = Server::new();
    let one = Candidate::start(&server, "1");
    let term = one.term().await;
    let pass = term.admit().unwrap();
    let election = one.election.clone();
    let releasing = tokio::spawn(async move { election.release().await });
    seconds(3).await;
    assert!(term.admit().is_none(), "nothing more is begun");
    assert_eq!(server.spec(LEASE)["holderIdentity"], one.identity());
    drop(pass);
    releasing.await.unwrap();
    assert_eq!(server.spec(LEASE)["holderIdentity"], "");
}

#[tokio::test(start_paused = true)]
async fn a_leader_stops_writing_long_before_its_lease_ends() {
    let server = Server::new();
    let one = Candidate::start(&server, "1");
    let term = one.term().await;
    seconds(7).await;
    server.fail("1", Fault::Hang);
    let begun = tokio::time::Instant::now();
    while term.may_write() {
        sleep(Duration::from_millis(10)).await;
    }
    // The last renewal was sent at most a retry period before.
    let stopped = begun.elapsed();
    assert!((8.0..=10.1).contains(&stopped.as_secs_f64()), "{stopped:?}");
    term.over().await;
    assert!(begun.elapsed() < Duration::from_secs(15));
    // Its own lease is nobody else's: it takes it again.
    server.heal("1");
    let again = one.term().await;
    assert!(again.may_write() && !term.may_write(), "another term");
    assert_eq!(server.spec(LEASE)["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_finds_another_stops_at_its_next_renewal() {
    let server = Server::new();
    let config = ElectionConfig { on_loss: OnLoss::Exit, ..ElectionConfig::default() };
    let one = Candidate::with(&server, "1", config);
    let term = one.term().await;
    server.put(LEASE, json!({"holderIdentity": "other", "leaseDurationSeconds": 15, "leaseTransitions": 7}));
    let reason = one.lost().await;
    assert!(term.is_over());
    assert!(
        reason.contains("lost the lease kube-system/kube-controller-manager: it is held by other now"),
        "{reason}"
    );
    assert_eq!(server.spec(LEASE)["holderIdentity"], "other", "it is left alone");
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_made_anew_by_who_held_it() {
    let server = Server::new();
    let one = Candidate::start(&server, "1");
    let term = one.term().await;
    server.delete(LEASE);
    seconds(3).await;
    assert!(term.may_write());
    assert_eq!(server.spec(LEASE)["holderIdentity"], one.identity());
}

#[tokio::test(start_paused = true)]
async fn a_lease_of_somebody_else_is_waited_for_for_ever() {
    let server = Server::new();
    let held =
        json!({"holderIdentity": "other", "leaseDurationSeconds": 1_000_000_000, "leaseTransitions": 3});
    server.put(LEASE, held.clone());
    let one = Candidate::start(&server, "1");
    seconds(40 * 86_400).await;
    assert!(!one.leads());
    assert_eq!(server.spec(LEASE), held);
    let status = one.status();
    assert_eq!((status.role, status.holder.as_str(), status.transitions), (Role::Standby, "other", 3));
    // And taken when it is released, whatever its duration.
    server.put(
        LEASE,
        json!({"holderIdentity": "", "leaseDurationSeconds": 1_000_000_000, "leaseTransitions": 3}),
    );
    assert!(until_leads(&one).await < Duration::from_secs(1));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_nobody_ever_renewed_is_free() {
    let server = Server::new();
    server.put(LEASE, json!({}));
    let one = Candidate::start(&server, "1");
    assert!(until_leads(&one).await < Duration::from_millis(100));
    assert_eq!(server.spec(LEASE)["leaseTransitions"], 1);
}

#[tokio::test(start_paused = true)]
async fn health_ends_twenty_seconds_after_the_lease() {
    let server = Server::new();
    let one = Candidate::start(&server, "1");
    assert_eq!(one.election.healthy_for(), None, "who leads nothing is healthy");
    until_leads(&one).await;
    let healthy = one.election.healthy_for().unwrap();
    assert!((34.9..=35.0).contains(&healthy.as_secs_f64()), "{healthy:?}");
}
