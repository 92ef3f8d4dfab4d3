//! How a resource is listed.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_streaming_list_goes_on_as_the_watch() {
    let (rig, _view, pods) = Rig::reading_pods();
    let (tell, lines) = tokio::sync::mpsc::unbounded_channel();
    let first = [event("ADDED", &pod("a", 3)), event("ADDED", &pod("b", 5)), list_end(7)].concat();
    rig.server.script(PODS, [Reply::Watch(first, Then::Follow(lines))]);
    rig.synced(pods).await;
    assert_eq!(rig.pod(pods, "a").as_deref(), Some("3"));
    assert_eq!(rig.store.observed(pods), Some(7));

    tell.send(event("MODIFIED", &pod("a", 8)) + &event("DELETED", &pod("b", 9))).unwrap();
    until("the deletion is seen", || rig.pod(pods, "b").is_none()).await;
    assert_eq!(rig.pod(pods, "a").as_deref(), Some("8"));
    assert_eq!(rig.store.observed(pods), Some(9));

    let asked = rig.server.asked(PODS);
    assert_eq!(asked.len(), 1);
    for part in [
        "watch=true",
        "sendInitialEvents=true",
        "resourceVersionMatch=NotOlderThan",
        "allowWatchBookmarks=true",
    ] {
        assert!(asked[0].path.contains(part), "{part} is missing in {}", asked[0].path);
    }
    assert_eq!(asked[0].accept, "application/json");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn what_changes_during_a_streaming_list_is_listed_as_it_ends() {
    let (rig, _view, pods) = Rig::reading_pods();
    let text = [
        event("ADDED", &pod("a", 3)),
        event("ADDED", &pod("b", 4)),
        event("MODIFIED", &pod("a", 8)),
        event("DELETED", &pod("b", 9)),
        list_end(9),
    ];
    rig.server.script(PODS, [Reply::Watch(text.concat(), Then::Hang)]);
    rig.synced(pods).await;
    assert_eq!(rig.pod(pods, "a").as_deref(), Some("8"));
    assert_eq!(rig.pod(pods, "b"), None);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_server_that_refuses_to_stream_is_asked_for_pages() {
    for code in [400, 422] {
        let (rig, _view, pods) = Rig::reading_pods();
        rig.server.script(
            PODS,
            [
                refusal(code, if code == 400 { "BadRequest" } else { "Invalid" }),
                page(7, "to/ken", &[pod("a", 3)]),
                page(7, "", &[pod("b", 5)]),
                Reply::Watch(String::new(), Then::Hang),
            ],
        );
        rig.synced(pods).await;
        until("the watch is open", || rig.server.asked(PODS).len() == 4).await;
        assert_eq!(rig.pod(pods, "a").as_deref(), Some("3"));
        assert_eq!(rig.pod(pods, "b").as_deref(), Some("5"));
        let asked = rig.server.asked(PODS);
        assert_eq!(asked[1].path, "/api/v1/pods?limit=500");
        assert_eq!(asked[2].path, "/api/v1/pods?limit=500&continue=to%2Fken");
        assert!(asked[3].path.contains("watch=true") && asked[3].path.contains("&resourceVersion=7"));
        assert!(!asked[3].path.contains("sendInitialEvents"));
        rig.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_the_streaming_list_for_a_watch_is_asked_for_pages() {
    for then in [Then::Hang, Then::Close] {
        let (rig, _view, pods) = Rig::reading_pods();
        let closes = matches!(then, Then::Close);
        let first = Reply::Watch(event("ADDED", &pod("a", 3)), then);
        if closes {
            // Too early an end is a lost connection, and says nothing of the
            // server: the list is streamed again.
            let again = Reply::Watch(event("ADDED", &pod("a", 3)) + &list_end(7), Then::Hang);
            rig.server.script(PODS, [first, again]);
        } else {
            rig.server.script(PODS, [first, page(7, "", &[pod("a", 3)])]);
        }
        rig.synced(pods).await;
        assert_eq!(rig.server.asked(PODS)[1].path.contains("sendInitialEvents"), closes);
        rig.stop().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_continue_token_that_expired_leads_to_a_list_in_one_piece() {
    let (rig, _view, pods) = Rig::reading_pods();
    rig.server.script(
        PODS,
        [
            no_streaming(),
            page(7, "token", &[pod("a", 3), pod("gone", 4)]),
            refusal(410, "Expired"),
            page(9, "", &[pod("a", 3), pod("b", 8)]),
        ],
    );
    rig.synced(pods).await;
    assert_eq!(rig.server.asked(PODS)[3].path, "/api/v1/pods");
    assert_eq!(rig.store.observed(pods), Some(9));
    assert_eq!(rig.pod(pods, "b").as_deref(), Some("8"));
    assert_eq!(rig.pod(pods, "gone"), None);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_list_fails_with_the_reason_and_is_asked_for_again() {
    let (rig, _view, pods) = Rig::reading_pods();
    let nameless = r#"{"metadata":{"uid":"x"}}"#.to_owned();
    rig.server.script(
        PODS,
        [
            no_streaming(),
            page(7, "", &[nameless]),
            Reply::Json(200, "<html>".into()),
            page(8, "", &[pod("a", 3)]),
        ],
    );
    until("the list has failed", || rig.registry.state(pods) == SyncState::Failed).await;
    assert!(rig.status(pods).trouble.unwrap().starts_with("unreadable answer"), "{:?}", rig.status(pods));
    rig.synced(pods).await;
    assert_eq!(rig.status(pods).trouble, None);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_empty_list_without_items_is_a_list() {
    let (rig, _view, pods) = Rig::reading_pods();
    let body = r#"{"metadata":{"resourceVersion":"4"},"items":null}"#;
    rig.server.script(PODS, [no_streaming(), Reply::Json(200, body.into())]);
    rig.synced(pods).await;
    assert_eq!(rig.store.observed(pods), Some(4));
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn the_latest_resource_version_is_that_of_a_short_list() {
    let (rig, _view, pods) = Rig::reading_pods();
    rig.server.script(PODS, [Reply::Watch(list_end(7), Then::Hang), page(42, "more", &[pod("a", 3)])]);
    rig.synced(pods).await;
    assert_eq!(rig.informers.latest(pods).await.unwrap(), "42");
    assert_eq!(rig.server.asked(PODS)[1].path, "/api/v1/pods?limit=1");
    assert!(rig.informers.latest(4711).await.is_err());
    rig.stop().await;
}
