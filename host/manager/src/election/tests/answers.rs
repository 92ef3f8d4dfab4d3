//! What the API server answers, and what it is asked.

use super::{server::Fault, *};

/// Renewals that meet a fault for eight seconds.
async fn survives(fault: Fault, status: u32) {
    let server = Server::new();
    let one = Candidate::start(&server, "1");
    let term = one.term().await;
    seconds(3).await;
    server.fail("1", fault.clone());
    seconds(8).await;
    let trouble = one.status().trouble.unwrap_or_default();
    server.heal("1");
    seconds(6).await;
    assert!(term.may_write(), "{fault:?} cost the term");
    let mut failures = Default::default();
    one.election.counters(|_, counters| failures = counters.failures());
    assert!(failures.get(&status).is_some_and(|n| *n > 0), "{fault:?} is not counted: {failures:?}");
    assert!(trouble.contains("renew the lease") || trouble.contains("read the lease"), "{trouble}");
    assert_eq!(one.status().trouble, None, "it is over");
}

#[tokio::test(start_paused = true)]
async fn every_answer_is_named_counted_and_survived() {
    for status in [400, 401, 403, 422, 429, 500, 503] {
        survives(Fault::Status(status), status.into()).await;
    }
    survives(Fault::Hang, 0).await;
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_what_to_do() {
    let server = Server::new();
    server.fail("1", Fault::Status(403));
    let one = Candidate::start(&server, "1");
    seconds(60).await;
    let trouble = one.status().trouble.unwrap();
    assert!(trouble.contains("403") && trouble.contains("grant get, create and update"), "{trouble}");
    server.heal("1");
    assert!(until_leads(&one).await < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_can_be_read_and_not_taken_stays_in_trouble() {
    let server = Server::new();
    // It is there, and held by nobody.
    let before = Candidate::start(&server, "0");
    before.term().await;
    before.election.release().await;
    server.fail("1", Fault::ReadOnly(403));
    let one = Candidate::start(&server, "1");
    seconds(10).await;
    for _ in 0..20 {
        seconds(1).await;
        let trouble = one.status().trouble.unwrap_or_default();
        assert!(trouble.contains("take the lease"), "{trouble:?}");
    }
    server.heal("1");
    assert!(until_leads(&one).await < Duration::from_secs(5));
    assert_eq!(one.status().trouble, None);
}

#[tokio::test(start_paused = true)]
async fn a_renewal_whose_answer_was_lost_is_found_and_costs_nothing() {
    let server = Server::new();
    let one = Candidate::start(&server, "1");
    let term = one.term().await;
    server.next("1", [Some(Fault::LoseAnswer)]);
    seconds(10).await;
    assert!(term.may_write());
    let mut slow = 0;
    one.election.counters(|_, c| slow = c.slow_renewals.load(std::sync::atomic::Ordering::Relaxed));
    assert_eq!(slow, 1);
}

#[tokio::test(start_paused = true)]
async fn a_lease_taken_without_an_answer_is_ours_all_the_same() {
    let server = Server::new();
    // The read, then the write.
    server.next("1", [None, Some(Fault::LoseAnswer)]);
    let one = Candidate::start(&server, "1");
    let waited = until_leads(&one).await;
    assert!(waited < Duration::from_secs(5), "{waited:?}");
    assert_eq!(server.spec(LEASE)["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn two_at_once_are_settled_by_the_server() {
    let server = Server::new();
    let (one, two) = (Candidate::start(&server, "1"), Candidate::start(&server, "2"));
    seconds(3).await;
    assert!(one.leads() != two.leads());
}

/// client-go's leader renews every retry period, a follower reads every one to
/// 2.2 of them.
#[tokio::test(start_paused = true)]
async fn an_hour_costs_the_server_no_more_than_with_client_go() {
    for (server, watched) in [(Server::new(), true), (Server::without_watch(), false)] {
        let leader = Candidate::start(&server, "1");
        until_leads(&leader).await;
        let follower = Candidate::start(&server, "2");
        seconds(3600).await;
        let renewals = server.asked("1").iter().filter(|asked| !asked.watch).count();
        assert!(renewals <= 1 + 3600 / 2, "{renewals} requests of the leader");
        let asked = server.asked("2");
        let reads = asked.iter().filter(|asked| !asked.watch).count();
        let watches = asked.iter().filter(|asked| asked.watch).count();
        if watched {
            assert!(reads <= 3 && watches <= 7, "{reads} reads, {watches} watches");
        } else {
            // client-go: 3600 / (2 * 1.6) on average.
            assert!(reads + watches <= 3600 * 10 / 32 + 130, "{reads} reads, {watches} watches");
        }
        assert!(!follower.leads());
    }
}
