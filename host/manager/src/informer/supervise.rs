//! Starts and stops informers as the store and the registry say.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    panic::AssertUnwindSafe,
    sync::Arc,
    time::Duration,
};

use futures::FutureExt;
use tokio::{sync::watch, task::JoinHandle};
use tokio_util::sync::CancellationToken;

use super::{Shared, Target, follow::Follower};
use crate::contract::{GroupResource, SyncState};

const AFTER_PANIC: Duration = Duration::from_secs(30);

/// A running informer.
struct Running {
    stop: CancellationToken,
    task: JoinHandle<()>,
    /// What the resource was when it started.
    shape: Shape,
}

/// What an informer must be started anew for: its objects are others.
type Shape = (Option<(String, String)>, bool);

pub(super) async fn run(shared: Arc<Shared>, cancel: CancellationToken) {
    let mut wanted = shared.store.wanted_changes();
    let mut resources = shared.registry.changes();
    let mut running: HashMap<u32, Running> = HashMap::new();
    let mut served = served(&shared);
    loop {
        wanted.mark_unchanged();
        resources.mark_unchanged();
        let now = self::served(&shared);
        if now != served {
            served = now;
            shared.store.resources_changed();
        }
        settle(&shared, &mut running, &cancel).await;
        tokio::select! {
            () = cancel.cancelled() => break,
            Ok(()) = wanted.changed() => {}
            Ok(()) = resources.changed() => {}
        }
    }
    for (number, informer) in running {
        end(&shared, number, informer).await;
    }
}

/// What the store is to be told of a change of: which resources there are, as
/// opposed to how each informer fares.
fn served(shared: &Shared) -> Vec<(u32, bool)> {
    shared.registry.all().iter().map(|info| (info.number, info.state != SyncState::Absent)).collect()
}

/// Brings what runs to what should run.
async fn settle(shared: &Arc<Shared>, running: &mut HashMap<u32, Running>, cancel: &CancellationToken) {
    let wanted: HashSet<u32> = shared.store.wanted().into_iter().collect();
    let due: Vec<u32> = running
        .iter()
        .filter(|&(number, informer)| {
            !wanted.contains(number)
                || !shared.registry.watchable(*number)
                // Nobody but discovery says so of what an informer follows: the
                // resource was gone for a moment, or is another now.
                || shared.registry.state(*number) == SyncState::Uncached
                || informer.shape != shape(shared, *number)
        })
        .map(|(&number, _)| number)
        .collect();
    for number in due {
        if let Some(informer) = running.remove(&number) {
            end(shared, number, informer).await;
            shared.store.drop_resource(number);
            shared.registry.set_state(number, SyncState::Uncached);
            shared.store.sync_changed(number);
        }
    }
    shared.status.retain(&wanted);
    for number in wanted {
        if running.contains_key(&number) {
            continue;
        }
        let Some(name) = shared.registry.name(number) else { continue };
        if shared.registry.watchable(number) {
            running.insert(number, begin(shared, number, name, cancel));
        } else {
            explain(shared, number, name);
        }
    }
}

fn shape(shared: &Shared, number: u32) -> Shape {
    (shared.registry.kind_of(number), shared.registry.namespaced(number))
}

fn begin(shared: &Arc<Shared>, number: u32, name: GroupResource, cancel: &CancellationToken) -> Running {
    let target = watch::Sender::new(Target::default());
    let behind = target.subscribe();
    shared.targets.lock().insert(number, target);
    shared.status.add(number, name.clone(), SyncState::Syncing, shared.clock.now());
    shared.set(number, SyncState::Syncing, None);
    let stop = cancel.child_token();
    let task = tokio::spawn({
        let (shared, stop) = (shared.clone(), stop.clone());
        async move {
            stop.run_until_cancelled(keep_following(shared, number, name, behind)).await;
        }
    });
    Running { stop, task, shape: shape(shared, number) }
}

/// Follows a resource, and begins again should that panic: one bad informer
/// must not take the others down, nor go missing without a word.
async fn keep_following(
    shared: Arc<Shared>,
    number: u32,
    name: GroupResource,
    target: watch::Receiver<Target>,
) -> Infallible {
    loop {
        let follower = Follower::new(shared.clone(), number, name.clone(), target.clone());
        let Err(_) = AssertUnwindSafe(follower.run()).catch_unwind().await;
        tracing::error!(
            resource = super::label(&name),
            "an informer panicked, which is a bug; it starts anew"
        );
        shared.set(number, SyncState::Failed, Some("the informer panicked, which is a bug".into()));
        tokio::time::sleep(AFTER_PANIC).await;
    }
}

async fn end(shared: &Shared, number: u32, informer: Running) {
    informer.stop.cancel();
    // It only ends in an error when the runtime goes down.
    let _ = informer.task.await;
    shared.targets.lock().remove(&number);
    shared.lists_begun.lock().remove(&number);
    shared.status.remove(number);
}

/// Says why a resource that is wanted has no informer.
fn explain(shared: &Shared, number: u32, name: GroupResource) {
    let state = shared.registry.state(number);
    let (state, reason) = if state == SyncState::Absent {
        (state, "the cluster does not serve it")
    } else if shared.store.prune_spec(number).metadata_only() {
        // A wildcard passes over what cannot be watched; who names it waits.
        return shared.status.remove(number);
    } else {
        (SyncState::Failed, "discovery does not say that it can be listed and watched")
    };
    shared.status.add(number, name, state, shared.clock.now());
    shared.set(number, state, Some(reason.into()));
}
