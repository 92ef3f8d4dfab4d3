use std::sync::Arc;

use super::*;

fn key(name: &str) -> Key {
    Key { source: 0, resource: 1, namespace: Arc::from("ns"), name: Arc::from(name) }
}

fn queue() -> Queue {
    let queue = Queue::new();
    queue.resume();
    queue
}

async fn taken_within(queue: &Queue, limit: Duration) -> Option<String> {
    tokio::time::timeout(limit, queue.take()).await.ok().flatten().map(|k| k.name.to_string())
}

const SOON: Duration = Duration::from_millis(1);

#[tokio::test(start_paused = true)]
async fn a_key_woken_many_times_is_taken_once() {
    let queue = queue();
    for _ in 0..5 {
        queue.wake(&key("a"), Cause::Read);
    }
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("a"));
    assert_eq!(taken_within(&queue, SOON).await, None);
}

#[tokio::test(start_paused = true)]
async fn a_wake_while_taken_makes_it_due_again_and_never_two_at_once() {
    let queue = queue();
    queue.wake(&key("a"), Cause::Read);
    let taken = queue.take().await.unwrap();
    queue.wake(&key("a"), Cause::Read);
    assert_eq!(taken_within(&queue, SOON).await, None, "one at a time");
    queue.give_back(&taken, Finished::default());
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn bulk_wakes_come_after_all_others_and_may_be_raised() {
    let queue = queue();
    queue.wake(&key("bulk-1"), Cause::Bulk);
    queue.wake(&key("bulk-2"), Cause::Bulk);
    queue.wake(&key("read"), Cause::Read);
    queue.wake(&key("bulk-2"), Cause::Primary { resource_version: 7 });
    let order: Vec<_> = [
        taken_within(&queue, SOON).await,
        taken_within(&queue, SOON).await,
        taken_within(&queue, SOON).await,
        taken_within(&queue, SOON).await,
    ]
    .into_iter()
    .flatten()
    .collect();
    assert_eq!(order, ["read", "bulk-2", "bulk-1"]);
}

#[tokio::test(start_paused = true)]
async fn failures_back_off_and_other_wakes_only_cap_the_wait() {
    let queue = queue();
    queue.wake(&key("a"), Cause::Read);
    for failures in 1..=14 {
        let taken = queue.take().await.unwrap();
        let start = Instant::now();
        queue.give_back(&taken, Finished { failed: true, ..Finished::default() });
        if failures < 14 {
            let again = queue.take().await.unwrap();
            assert_eq!(start.elapsed(), backoff::after_failures(failures));
            queue.give_back(&again, Finished { at_once: true, failed: true, ..Finished::default() });
            // Undo the second failure so that the count goes up by one a round.
            queue.inner.lock().entries.get_mut(&again).unwrap().failures = failures;
        }
    }
    let start = Instant::now();
    queue.wake(&key("a"), Cause::Read);
    queue.take().await.unwrap();
    assert_eq!(start.elapsed(), backoff::CAP_AFTER_WAKE, "40 s of backoff, capped");
}

#[tokio::test(start_paused = true)]
async fn progress_shortens_the_backoff() {
    let queue = queue();
    queue.wake(&key("a"), Cause::Read);
    let mut waits = Vec::new();
    for advanced in [true, false, false, false, false, false, false, true, false] {
        let taken = queue.take().await.unwrap();
        waits.push(queue.inner.lock().entries[&taken].failures);
        queue.give_back(&taken, Finished { failed: true, advanced, ..Finished::default() });
    }
    let last = queue.take().await.unwrap();
    waits.push(queue.inner.lock().entries[&last].failures);
    assert_eq!(waits, [0, 1, 2, 3, 4, 5, 6, 7, 5, 6]);
}

#[tokio::test(start_paused = true)]
async fn conflicts_in_a_row_never_make_a_key_wait_long() {
    let queue = queue();
    queue.wake(&key("a"), Cause::Read);
    for n in 0..40 {
        let begun = Instant::now();
        let taken = queue.take().await.unwrap();
        let wait = begun.elapsed();
        assert_eq!(wait, backoff::after_failures(n.min(backoff::AFTER_CONFLICTS)), "after {n} conflicts");
        queue.give_back(&taken, Finished { failed: true, conflict: true, ..Finished::default() });
    }
    let taken = queue.take().await.unwrap();
    queue.give_back(&taken, Finished { failed: true, ..Finished::default() });
    assert!(queue.inner.lock().entries[&taken].failures > backoff::AFTER_CONFLICTS, "another failure");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_change_of_the_own_object_ends_the_backoff_and_an_own_write_does_not() {
    let queue = queue();
    let failed = Finished { failed: true, own_writes: vec![42], ..Finished::default() };
    queue.wake(&key("a"), Cause::Read);
    let taken = queue.take().await.unwrap();
    queue.inner.lock().entries.get_mut(&taken).unwrap().failures = 12;
    queue.give_back(&taken, failed.clone());
    queue.wake(&key("a"), Cause::Primary { resource_version: 42 });
    assert_eq!(taken_within(&queue, Duration::from_secs(5)).await, None, "our own write");
    queue.wake(&key("a"), Cause::Primary { resource_version: 43 });
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("a"), "somebody else's");
    queue.give_back(&key("a"), failed.clone());
    queue.wake(&key("a"), Cause::PrimaryGone);
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("a"), "its deletion");
    // The own write is seen before the plan has ended.
    queue.inner.lock().entries.get_mut(&key("a")).unwrap().failures = 12;
    queue.wake(&key("a"), Cause::Primary { resource_version: 42 });
    queue.give_back(&key("a"), failed);
    assert_eq!(taken_within(&queue, Duration::from_secs(5)).await, None);
}

#[tokio::test(start_paused = true)]
async fn quiet_holds_back_what_does_not_come_from_the_own_object() {
    let queue = queue();
    let quiet = Finished { quiet: Duration::from_secs(1), ..Finished::default() };
    queue.wake(&key("a"), Cause::Read);
    let taken = queue.take().await.unwrap();
    queue.give_back(&taken, quiet.clone());
    let start = Instant::now();
    queue.wake(&key("a"), Cause::Read);
    queue.take().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(1));
    queue.give_back(&taken, quiet);
    queue.wake(&key("a"), Cause::Primary { resource_version: 1 });
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_rest_takes_wakes_together_and_never_holds_back_what_a_user_does() {
    let queue = queue();
    let (spent, rest) = (Duration::from_micros(22_500), Duration::from_millis(50));
    let finished = Finished { spent, own_writes: vec![7], ..Finished::default() };
    queue.wake(&key("a"), Cause::Read);
    let taken = queue.take().await.unwrap();
    queue.give_back(&taken, finished.clone());
    let start = Instant::now();
    queue.wake(&key("a"), Cause::Read);
    queue.wake(&key("a"), Cause::Primary { resource_version: 7 });
    queue.take().await.unwrap();
    assert_eq!(start.elapsed(), rest);
    queue.give_back(&taken, finished);
    queue.wake(&key("a"), Cause::Primary { resource_version: 8 });
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn a_plan_can_ask_to_come_back_and_the_earliest_time_counts() {
    let queue = queue();
    queue.wake(&key("a"), Cause::Read);
    let taken = queue.take().await.unwrap();
    let start = Instant::now();
    queue.give_back(&taken, Finished { again_in: Some(Duration::from_secs(30)), ..Finished::default() });
    assert_eq!(queue.stats().delayed, 1);
    queue.take().await.unwrap();
    assert_eq!(start.elapsed(), Duration::from_secs(30));
    queue.give_back(
        &taken,
        Finished { failed: true, again_in: Some(Duration::from_secs(30)), ..Finished::default() },
    );
    let start = Instant::now();
    queue.take().await.unwrap();
    assert_eq!(start.elapsed(), backoff::BASE);
}

#[tokio::test(start_paused = true)]
async fn two_that_fight_are_slowed_until_the_own_object_changes() {
    let queue = queue();
    queue.wake(&key("a"), Cause::Read);
    let wrote = || Finished { wrote: true, ..Finished::default() };
    for _ in 0..backoff::FREE_WRITES {
        let taken = queue.take().await.unwrap();
        queue.give_back(&taken, wrote());
        queue.wake(&key("a"), Cause::Read);
    }
    let start = Instant::now();
    for _ in 0..20 {
        let taken = queue.take().await.unwrap();
        queue.give_back(&taken, wrote());
        queue.wake(&key("a"), Cause::Read);
    }
    assert!(start.elapsed() > Duration::from_secs(20), "{:?}", start.elapsed());
    queue.wake(&key("a"), Cause::Primary { resource_version: 9 });
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn one_key_of_a_serial_source_at_a_time() {
    let queue = queue();
    queue.set_serial_sources([0]);
    let other = Key { source: 1, ..key("other") };
    queue.wake(&key("a"), Cause::Read);
    queue.wake(&key("b"), Cause::Read);
    queue.wake(&other, Cause::Read);
    let first = queue.take().await.unwrap();
    assert_eq!(first.name.as_ref(), "a");
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("other"));
    assert_eq!(taken_within(&queue, SOON).await, None);
    queue.give_back(&first, Finished { forget: true, ..Finished::default() });
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("b"));
}

#[tokio::test(start_paused = true)]
async fn keys_at_rest_cost_nothing_and_closing_ends_the_taker() {
    let queue = Arc::new(queue());
    for n in 0..100 {
        queue.wake(&key(&n.to_string()), Cause::Bulk);
    }
    while let Some(name) = taken_within(&queue, SOON).await {
        queue.give_back(&key(&name), Finished::default());
    }
    assert!(queue.inner.lock().entries.is_empty());
    let taker = tokio::spawn({
        let queue = queue.clone();
        async move { queue.take().await }
    });
    tokio::task::yield_now().await;
    queue.close();
    assert_eq!(taker.await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_takes_wakes_in_and_hands_nothing_out() {
    let queue = Queue::new();
    queue.wake(&key("a"), Cause::Read);
    assert_eq!(taken_within(&queue, SOON).await, None);
    queue.resume();
    assert_eq!(taken_within(&queue, SOON).await.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn keys_that_are_forgotten_are_not_counted_as_ready() {
    let metrics = crate::metrics::Metrics::new("https://server/", Vec::new());
    let series = metrics.queue("things");
    let queue = queue();
    queue.measure(vec![series.clone()]);
    for name in ["a", "b", "c"] {
        queue.wake(&key(name), Cause::Read);
    }
    let taken = queue.take().await.unwrap();
    assert_eq!(series.depth.get(), 2);
    queue.stand_by();
    assert_eq!(series.depth.get(), 0);
    queue.give_back(&taken, Finished::default());
    queue.resume();
    queue.wake(&key("a"), Cause::Bulk);
    assert_eq!(series.depth.get(), 1);
    queue.take().await.unwrap();
    assert_eq!(series.depth.get(), 0);
}
