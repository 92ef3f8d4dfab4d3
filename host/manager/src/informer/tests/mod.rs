//! Informers against a scripted API server, in paused time.

mod lists;
mod server;
mod supervision;
mod watches;

use std::{sync::Arc, time::Duration};

use tokio::{task::JoinHandle, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{InformerStatus, Informers};
use crate::{
    clock::VirtualClock,
    contract::{ClientLimits, GroupResource, Manifest, Read, Scope, SyncState},
    entropy::Entropy,
    key::{Cause, Key, Wake},
    registry::{Discovered, Registry},
    store::{ModuleView, Store},
};
use server::{Reply, Server, Then};

const PODS: &str = "/api/v1/pods";

/// Everything around the informers.
struct Rig {
    server: Server,
    registry: Arc<Registry>,
    store: Arc<Store>,
    informers: Informers,
    cancel: CancellationToken,
    task: JoinHandle<()>,
}

impl Rig {
    /// A cluster with pods, and informers that have nothing to do yet.
    fn new() -> Self {
        let server = Server::default();
        let registry = Registry::new();
        registry.update(vec![discovered("", "v1", "pods", "Pod")]);
        let store = Store::new(registry.clone());
        let cancel = CancellationToken::new();
        let clock = Arc::new(VirtualClock::starting_at(jiff::Timestamp::UNIX_EPOCH));
        let (informers, task) = Informers::start(
            server.client(),
            registry.clone(),
            store.clone(),
            clock,
            Entropy::from_seed(1),
            cancel.clone(),
        );
        Self { server, registry, store, informers, cancel, task }
    }

    /// The same, with a module that reads a field of pods.
    fn reading_pods() -> (Self, Arc<ModuleView>, u32) {
        let rig = Self::new();
        let pods = group_resource("", "v1", "pods");
        let view = rig.attach(vec![read(pods.clone(), &["spec.nodeName"])]);
        let number = rig.registry.declare(&pods);
        (rig, view, number)
    }

    fn attach(&self, reads: Vec<Read>) -> Arc<ModuleView> {
        struct Deaf;
        impl Wake for Deaf {
            fn wake(&self, _: &Key, _: Cause) {}
        }
        self.store.attach(&manifest(reads), Arc::new(Deaf)).unwrap()
    }

    fn status(&self, number: u32) -> InformerStatus {
        self.informers.status().into_iter().find(|status| status.number == number).expect("a status")
    }

    /// resourceVersion of a cached pod.
    fn pod(&self, number: u32, name: &str) -> Option<String> {
        self.store.current_for_name(number, "ns", name).map(|seen| seen.resource_version)
    }

    async fn synced(&self, number: u32) {
        until("the resource has synced", || self.registry.state(number) == SyncState::Synced).await;
    }

    async fn stop(self) {
        self.cancel.cancel();
        self.task.await.unwrap();
        assert_eq!(self.informers.running(), 0);
    }
}

/// Waits until something holds; half an hour of the test's own time at most.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..180_000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("waited in vain until {what}");
}

fn group_resource(group: &str, version: &str, resource: &str) -> GroupResource {
    GroupResource { group: group.into(), version: version.into(), resource: resource.into() }
}

fn discovered(group: &str, version: &str, resource: &str, kind: &str) -> Discovered {
    Discovered {
        name: group_resource(group, version, resource),
        kind: kind.into(),
        scope: Scope::Namespaced,
        verbs: ["get", "list", "watch"].map(String::from).to_vec(),
        preferred: true,
    }
}

fn read(resource: GroupResource, fields: &[&str]) -> Read {
    Read {
        resource,
        optional: false,
        fields: fields.iter().map(|f| f.to_string()).collect(),
        whole: false,
        sensitive: Vec::new(),
        indexes: Vec::new(),
    }
}

fn manifest(reads: Vec<Read>) -> Manifest {
    Manifest {
        name: "test-controller".into(),
        aliases: Vec::new(),
        version: "1".into(),
        state_format: 1,
        accepts_state_formats: Vec::new(),
        sources: Vec::new(),
        reads,
        writes: Vec::new(),
        lookups: Vec::new(),
        options: Vec::new(),
        event_component: String::new(),
        concurrency: 0,
        concurrency_flag: String::new(),
        client_limits: ClientLimits { qps: 0, burst: 0 },
        metrics: Vec::new(),
    }
}

fn pod(name: &str, resource_version: u32) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"ns","name":"{name}","uid":"uid-{name}","resourceVersion":"{resource_version}"}},"spec":{{"nodeName":"n1"}}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!("{{\"type\":\"{kind}\",\"object\":{object}}}\n")
}

fn bookmark(resource_version: u32) -> String {
    event("BOOKMARK", &format!(r#"{{"kind":"Pod","metadata":{{"resourceVersion":"{resource_version}"}}}}"#))
}

/// The bookmark at the end of a streaming list.
fn list_end(resource_version: u32) -> String {
    event(
        "BOOKMARK",
        &format!(
            r#"{{"metadata":{{"resourceVersion":"{resource_version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}"#
        ),
    )
}

fn page(resource_version: u32, token: &str, items: &[String]) -> Reply {
    let items = items.join(",");
    Reply::Json(
        200,
        format!(
            r#"{{"kind":"List","metadata":{{"resourceVersion":"{resource_version}","continue":"{token}"}},"items":[{items}]}}"#
        ),
    )
}

fn status_body(code: u16, reason: &str, message: &str) -> String {
    format!(
        r#"{{"kind":"Status","status":"Failure","code":{code},"reason":"{reason}","message":"{message}"}}"#
    )
}

fn refusal(code: u16, reason: &str) -> Reply {
    Reply::Json(code, status_body(code, reason, "so it is"))
}

/// A server's answer where it does not know streaming lists.
fn no_streaming() -> Reply {
    refusal(422, "Invalid")
}

fn expired_event() -> String {
    event("ERROR", &status_body(410, "Expired", "too old resource version"))
}
