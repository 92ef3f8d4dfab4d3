//! How a resource is followed.

use tokio::{sync::mpsc::unbounded_channel, time::Instant};

use super::*;

fn synced_at(resource_version: u32, then: Then) -> Reply {
    Reply::Watch(event("ADDED", &pod("a", 3)) + &list_end(resource_version), then)
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_is_opened_where_it_ended() {
    let (rig, _view, pods) = Rig::reading_pods();
    // The last event is cut in the middle.
    let half = &event("MODIFIED", &pod("a", 9))[..40];
    rig.server.script(
        PODS,
        [
            synced_at(7, Then::Close),
            Reply::Watch(event("MODIFIED", &pod("a", 8)) + half, Then::Break),
            Reply::Watch(event("MODIFIED", &pod("a", 9)), Then::Hang),
        ],
    );
    until("the last event is seen", || rig.pod(pods, "a").as_deref() == Some("9")).await;
    let asked = rig.server.asked(PODS);
    assert!(asked[1].path.contains("&resourceVersion=7"), "{}", asked[1].path);
    assert!(asked[2].path.contains("&resourceVersion=8"), "{}", asked[2].path);
    assert_eq!(rig.status(pods).lists, 1);
    assert_eq!(rig.registry.state(pods), SyncState::Synced);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn bookmarks_alone_move_the_place_to_go_on_from() {
    let (rig, _view, pods) = Rig::reading_pods();
    let reopened = Reply::Watch(String::new(), Then::Hang);
    rig.server.script(PODS, [synced_at(7, Then::Close), Reply::Watch(bookmark(50), Then::Close), reopened]);
    until("the watch is open again", || rig.server.asked(PODS).len() == 3).await;
    assert!(rig.server.asked(PODS)[2].path.contains("&resourceVersion=50"));
    assert_eq!(rig.store.observed(pods), Some(50));
    assert_eq!(rig.pod(pods, "a").as_deref(), Some("3"));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_resource_version_leads_to_a_list_that_replaces_all() {
    for in_the_stream in [true, false] {
        let (rig, _view, pods) = Rig::reading_pods();
        let expired =
            if in_the_stream { Reply::Watch(expired_event(), Then::Close) } else { refusal(410, "Expired") };
        let relist = Reply::Watch(event("ADDED", &pod("b", 90)) + &list_end(99), Then::Hang);
        rig.server.script(PODS, [synced_at(7, Then::Close), expired, relist]);
        rig.synced(pods).await;
        until("the new list is in", || {
            assert_eq!(rig.registry.state(pods), SyncState::Synced, "a relist is no failure");
            rig.pod(pods, "b").is_some()
        })
        .await;
        assert_eq!(rig.pod(pods, "a"), None);
        assert_eq!(rig.store.observed(pods), Some(99));
        assert_eq!(rig.status(pods).lists, 2);
        rig.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn any_other_error_event_needs_no_list() {
    let (rig, _view, pods) = Rig::reading_pods();
    let error = event("ERROR", &status_body(500, "InternalError", "etcdserver: no leader"));
    let reopened = Reply::Watch(bookmark(60), Then::Hang);
    rig.server.script(PODS, [synced_at(7, Then::Close), Reply::Watch(error, Then::Close), reopened]);
    until("the watch goes on", || rig.store.observed(pods) == Some(60)).await;
    assert!(rig.server.asked(PODS)[2].path.contains("&resourceVersion=7"));
    assert_eq!(rig.status(pods).lists, 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_event_leads_to_a_list() {
    let (rig, _view, pods) = Rig::reading_pods();
    let relist = Reply::Watch(event("ADDED", &pod("b", 8)) + &list_end(9), Then::Hang);
    rig.server
        .script(PODS, [synced_at(7, Then::Close), Reply::Watch("{\"type\":\n".into(), Then::Hang), relist]);
    until("the new list is in", || rig.pod(pods, "b").is_some()).await;
    rig.synced(pods).await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_outlives_its_time_in_silence_is_not_believed() {
    let (rig, _view, pods) = Rig::reading_pods();
    let reopened = Reply::Watch(bookmark(60), Then::Hang);
    rig.server.script(PODS, [synced_at(7, Then::Hang), reopened]);
    rig.synced(pods).await;
    let began = Instant::now();
    until("the watch is open again", || rig.store.observed(pods) == Some(60)).await;
    let waited = began.elapsed().as_secs();
    assert!((330..640).contains(&waited), "waited for {waited} seconds");
    let path = &rig.server.asked(PODS)[0].path;
    let promised: u64 =
        path.split("timeoutSeconds=").nth(1).unwrap().split('&').next().unwrap().parse().unwrap();
    assert!((300..=600).contains(&promised));
    assert!((promised + 30..promised + 34).contains(&waited), "{waited} for a watch of {promised}");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_ends_every_watch_at_once_is_asked_less_and_less() {
    let (rig, _view, pods) = Rig::reading_pods();
    let ends = (0..100).map(|_| Reply::Watch(String::new(), Then::Close));
    rig.server.script(PODS, [synced_at(7, Then::Close)].into_iter().chain(ends));
    rig.synced(pods).await;
    sleep(Duration::from_secs(300)).await;
    let asked = rig.server.asked(PODS).len();
    assert!((10..30).contains(&asked), "{asked} requests in five minutes");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_watch_fails_the_resource_until_it_is_allowed() {
    let (rig, _view, pods) = Rig::reading_pods();
    let allowed = Reply::Watch(bookmark(60), Then::Hang);
    rig.server.script(PODS, [synced_at(7, Then::Close), refusal(403, "Forbidden"), allowed]);
    until("the refusal is told", || rig.registry.state(pods) == SyncState::Failed).await;
    assert!(rig.status(pods).trouble.unwrap().contains("403 Forbidden"));
    rig.synced(pods).await;
    assert_eq!(rig.status(pods).lists, 1, "what was cached was never in doubt");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_a_resource_version_has_the_server_asked_for_a_bookmark() {
    let (rig, _view, pods) = Rig::reading_pods();
    let (_silent, lines) = unbounded_channel();
    rig.server.script(PODS, [synced_at(7, Then::Follow(lines)), Reply::Watch(bookmark(80), Then::Hang)]);
    rig.synced(pods).await;
    let began = Instant::now();
    assert!(rig.informers.reach(pods, 70).await);
    assert!(began.elapsed() < Duration::from_secs(10));
    assert!(rig.server.asked(PODS)[1].path.contains("timeoutSeconds=5&resourceVersion=7"));
    assert!(!rig.informers.reach(4711, 70).await, "nobody follows that");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn where_no_bookmark_comes_a_list_says_where_things_stand() {
    let (rig, _view, pods) = Rig::reading_pods();
    let mute = || Reply::Watch(String::new(), Then::Hang);
    rig.server.script(PODS, [synced_at(7, Then::Hang), mute(), mute(), synced_at(75, Then::Hang)]);
    rig.synced(pods).await;
    assert!(rig.informers.reach(pods, 70).await);
    assert_eq!(rig.store.observed(pods), Some(75));
    rig.stop().await;
}
