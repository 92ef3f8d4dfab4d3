//! Which informers run, and what becomes of each.

use tokio::runtime::Handle;

use super::*;

const WIDGETS: &str = "/apis/example.com/v1/widgets";

fn widgets() -> Discovered {
    discovered("example.com", "v1", "widgets", "Widget")
}

fn cluster(with_widgets: bool) -> Vec<Discovered> {
    let mut all = vec![discovered("", "v1", "pods", "Pod")];
    all.extend(with_widgets.then(widgets));
    all
}

fn wildcard() -> Read {
    read(group_resource("*", "*", "*"), &[])
}

#[tokio::test(start_paused = true)]
async fn one_refused_resource_does_not_hold_up_the_others() {
    let rig = Rig::new();
    rig.registry.update(cluster(true));
    let name = widgets().name;
    let _view = rig.attach(vec![read(group_resource("", "v1", "pods"), &[]), read(name.clone(), &["spec"])]);
    let (pods, widgets) =
        (rig.registry.declare(&group_resource("", "v1", "pods")), rig.registry.declare(&name));
    rig.server.script(PODS, [Reply::Watch(list_end(7), Then::Hang)]);
    rig.server.script(
        WIDGETS,
        [
            refusal(403, "Forbidden"),
            refusal(401, "Unauthorized"),
            refusal(500, "InternalError"),
            Reply::Watch(list_end(8), Then::Hang),
        ],
    );
    rig.synced(pods).await;
    until("the refusal is told", || rig.registry.state(widgets) == SyncState::Failed).await;
    assert!(rig.status(widgets).trouble.unwrap().contains("403 Forbidden"));
    rig.synced(widgets).await;
    assert_eq!(rig.server.asked(WIDGETS).len(), 4);
    assert_eq!(rig.status(pods).trouble, None);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_not_found_is_looked_for() {
    let rig = Rig::new();
    rig.registry.update(cluster(true));
    let number = rig.registry.declare(&widgets().name);
    let _view = rig.attach(vec![read(widgets().name, &["spec"])]);
    rig.server.script(WIDGETS, [refusal(404, "NotFound")]);
    rig.registry.discovery_requested().await;
    until("it counts as failed", || rig.registry.state(number) == SyncState::Failed).await;
    rig.registry.update(cluster(false));
    until("its informer has ended", || rig.informers.running() == 0).await;
    assert_eq!(rig.registry.state(number), SyncState::Absent);
    until("the reason is told", || rig.status(number).trouble.is_some_and(|t| t.contains("does not serve")))
        .await;
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn resources_that_come_and_go_leave_nothing_behind() {
    let rig = Rig::new();
    let _view = rig.attach(vec![wildcard()]);
    rig.server.script(PODS, [Reply::Watch(list_end(7), Then::Hang)]);
    let pods = rig.registry.declare(&group_resource("", "v1", "pods"));
    rig.synced(pods).await;
    let tasks = Handle::current().metrics().num_alive_tasks();

    for round in 0..20 {
        let text = event("ADDED", &pod("a", 3)) + &list_end(7);
        rig.server.script(WIDGETS, [Reply::Watch(text, Then::Hang)]);
        rig.registry.update(cluster(true));
        let number = rig.registry.resolve(&widgets().name).unwrap();
        rig.synced(number).await;
        assert!(rig.pod(number, "a").is_some(), "round {round}");
        assert_eq!(rig.informers.running(), 2);

        rig.registry.update(cluster(false));
        until("its informer has ended", || rig.informers.running() == 1).await;
        until("its objects are gone", || rig.pod(number, "a").is_none()).await;
        assert_eq!(rig.registry.state(number), SyncState::Absent);
        assert_eq!(Handle::current().metrics().num_alive_tasks(), tasks, "round {round}");
    }
    assert_eq!(rig.informers.status().len(), 1);
    assert_eq!(rig.server.asked(PODS).len(), 1, "pods were not disturbed");
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_became_another_is_listed_anew() {
    let rig = Rig::new();
    rig.registry.update(cluster(true));
    let number = rig.registry.declare(&widgets().name);
    let _view = rig.attach(vec![read(widgets().name, &["spec"])]);
    rig.server.script(WIDGETS, [Reply::Watch(event("ADDED", &pod("a", 3)) + &list_end(7), Then::Hang)]);
    rig.synced(number).await;

    rig.server.script(WIDGETS, [Reply::Watch(list_end(20), Then::Hang)]);
    let other = Discovered { scope: Scope::Cluster, kind: "Gadget".into(), ..widgets() };
    rig.registry.update(vec![other]);
    until("it is listed anew", || rig.server.asked(WIDGETS).len() == 2).await;
    rig.synced(number).await;
    assert_eq!(rig.pod(number, "a"), None);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_wildcard_reads_metadata_of_what_can_be_watched() {
    let rig = Rig::new();
    let mut all = cluster(true);
    all[1].verbs = vec!["list".into()];
    rig.registry.update(all);
    let _view = rig.attach(vec![wildcard()]);
    rig.server
        .script(PODS, [no_streaming(), page(7, "", &[pod("a", 3)]), Reply::Watch(String::new(), Then::Hang)]);
    let pods = rig.registry.declare(&group_resource("", "v1", "pods"));
    rig.synced(pods).await;
    until("the watch is open", || rig.server.asked(PODS).len() == 3).await;
    let accepts: Vec<_> = rig.server.asked(PODS).into_iter().map(|asked| asked.accept).collect();
    assert!(accepts[0].starts_with("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"));
    assert!(accepts[1].starts_with("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"));
    assert!(accepts[2].starts_with("application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"));
    assert!(rig.server.asked(WIDGETS).is_empty());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn more_fields_lead_to_a_list_of_that_resource_alone_which_never_empties_it() {
    let rig = Rig::new();
    rig.registry.update(cluster(true));
    let _wildcard = rig.attach(vec![wildcard()]);
    let pods = rig.registry.declare(&group_resource("", "v1", "pods"));
    rig.server.script(PODS, [Reply::Watch(event("ADDED", &pod("a", 3)) + &list_end(7), Then::Hang)]);
    rig.server.script(WIDGETS, [Reply::Watch(list_end(7), Then::Hang)]);
    rig.synced(pods).await;
    rig.synced(rig.registry.declare(&widgets().name)).await;

    let _more = rig.attach(vec![read(group_resource("", "v1", "pods"), &["spec.nodeName"])]);
    until("pods are listed anew", || {
        assert!(rig.pod(pods, "a").is_some(), "emptied in between");
        rig.server.asked(PODS).len() == 2
    })
    .await;
    assert_eq!(rig.server.asked(PODS)[1].accept, "application/json");
    assert_eq!(rig.server.asked(WIDGETS).len(), 1);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_informer_lives_while_somebody_reads_its_resource() {
    let (rig, view, pods) = Rig::reading_pods();
    rig.server.script(PODS, [Reply::Watch(event("ADDED", &pod("a", 3)) + &list_end(7), Then::Hang)]);
    rig.synced(pods).await;
    view.detach();
    until("its informer has ended", || rig.informers.running() == 0).await;
    until("its objects are gone", || rig.pod(pods, "a").is_none()).await;
    assert_eq!(rig.registry.state(pods), SyncState::Uncached);
    assert!(rig.informers.status().is_empty());
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_named_resource_that_cannot_be_watched_says_so() {
    let rig = Rig::new();
    rig.registry.update(vec![Discovered { verbs: vec!["create".into()], ..widgets() }]);
    let number = rig.registry.declare(&widgets().name);
    let _view = rig.attach(vec![read(widgets().name, &["spec"])]);
    until("it counts as failed", || rig.registry.state(number) == SyncState::Failed).await;
    assert!(rig.status(number).trouble.unwrap().contains("listed and watched"));
    assert_eq!(rig.informers.running(), 0);
    rig.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_is_let_go_of_and_wanted_again_at_once_is_listed_again() {
    let (rig, view, pods) = Rig::reading_pods();
    rig.server.script(PODS, [Reply::Watch(list_end(7), Then::Hang), Reply::Watch(list_end(8), Then::Hang)]);
    rig.synced(pods).await;
    // As when a version that does not read it is gone back from: nobody else runs in between.
    view.detach();
    let view = rig.attach(vec![read(group_resource("", "v1", "pods"), &["spec.nodeName"])]);
    until("it is in the cache again", || view.is_ready()).await;
    rig.stop().await;
}
