//! The loop of the simulation.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_util::{
    sync::CancellationToken,
    time::{DelayQueue, delay_queue},
};

use super::{
    Command, NodeSpec, NodesConfig, Reply,
    kubelet::{self, PodState},
    node::{self, Node},
    placement::Placement,
};
use crate::{
    patch::PatchType,
    rest::{
        InProcess, Target, WatchEvent, Watching, clock,
        options::{DeleteOptions, ListOptions},
    },
    status::Status,
};
use futures::StreamExt;

/// Pause before something that was refused is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// Pause after a conflict: somebody else wrote just then.
const CONFLICT: Duration = Duration::from_millis(20);

struct Pod {
    namespace: String,
    name: String,
    state: PodState,
    timer: Option<delay_queue::Key>,
}

pub(super) struct Sim {
    api: InProcess,
    config: NodesConfig,
    placement: Placement,
    nodes: BTreeMap<String, Node>,
    pods: HashMap<String, Pod>,
    /// Pods that fit nowhere so far.
    homeless: HashSet<String>,
    timers: DelayQueue<String>,
    counter: usize,
}

impl Sim {
    pub fn new(api: InProcess, config: NodesConfig) -> Self {
        Self {
            api,
            config,
            placement: Placement::default(),
            nodes: BTreeMap::new(),
            pods: HashMap::new(),
            homeless: HashSet::new(),
            timers: DelayQueue::new(),
            counter: 0,
        }
    }

    pub async fn run(
        mut self,
        mut commands: mpsc::UnboundedReceiver<(Command, oneshot::Sender<Reply>)>,
        cancel: CancellationToken,
    ) {
        let mut nodes = self.watch("nodes", &cancel).await;
        let mut pods = self.watch("pods", &cancel).await;
        let mut heartbeat = tokio::time::interval(self.config.heartbeat);
        loop {
            let (Some(node_events), Some(pod_events)) = (nodes.as_mut(), pods.as_mut()) else { return };
            tokio::select! {
                () = cancel.cancelled() => return,
                event = node_events.next() => match event {
                    Some(WatchEvent::Error(_)) | None => nodes = self.watch("nodes", &cancel).await,
                    Some(event) => self.on_node(event),
                },
                event = pod_events.next() => match event {
                    Some(WatchEvent::Error(_)) | None => {
                        self.forget_missing_pods().await;
                        pods = self.watch("pods", &cancel).await;
                    }
                    Some(event) => self.on_pod(event),
                },
                Some(due) = self.timers.next() => {
                    let uid = due.into_inner();
                    if let Some(pod) = self.pods.get_mut(&uid) {
                        pod.timer = None;
                    }
                    self.sync(&uid);
                }
                // Without anybody left to command them, the nodes live on.
                Some((command, reply)) = commands.recv() => {
                    let answer = self.on_command(command);
                    // Whoever asked may have gone.
                    let _ = reply.send(answer);
                }
                _ = heartbeat.tick() => self.renew_all(),
            }
            tokio::task::coop::consume_budget().await;
        }
    }

    /// Opens a watch that begins with what is there.
    async fn watch(&self, plural: &str, cancel: &CancellationToken) -> Option<Watching> {
        loop {
            match self
                .api
                .watch(&Target::new("v1", plural), &ListOptions { watch: true, ..ListOptions::default() })
            {
                Ok(watching) => return Some(watching),
                Err(status) => {
                    tracing::warn!(plural, message = status.message, "the simulated nodes cannot watch")
                }
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                () = cancel.cancelled() => return None,
            }
        }
    }

    fn on_node(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Added(node) | WatchEvent::Modified(node) => {
                self.recognise(&node);
                self.take_node(node);
            }
            WatchEvent::Deleted(node) => {
                let name = node["metadata"]["name"].as_str().unwrap_or_default();
                self.placement.remove_node(name);
                let gone = self.nodes.get_mut(name).filter(|ours| node["metadata"]["uid"] == ours.uid);
                if let Some(ours) = gone {
                    ours.registered = false;
                }
            }
            WatchEvent::Bookmark(..) | WatchEvent::Error(_) => {}
        }
    }

    /// An object that somebody made under the name of a node of ours is its own from now on.
    fn recognise(&mut self, node: &Value) {
        let name = node["metadata"]["name"].as_str().unwrap_or_default();
        let uid = text(&node["metadata"]["uid"]);
        let Some(ours) = self.nodes.get_mut(name).filter(|ours| ours.uid != uid) else { return };
        ours.uid = uid;
        ours.registered = true;
        ours.leased = false;
        let name = name.to_owned();
        self.greet(&name);
    }

    /// What a kubelet does first.
    fn greet(&mut self, name: &str) {
        if !self.nodes.get(name).is_some_and(|node| node.alive) {
            return;
        }
        if let Err(status) = self.write_node_status(name) {
            tracing::debug!(name, message = status.message, "a simulated node cannot say that it is ready");
        }
        self.renew(name);
    }

    /// Pods that fitted nowhere are looked at again where a node is new or other.
    fn take_node(&mut self, node: Value) {
        if self.placement.set_node(node) {
            for uid in std::mem::take(&mut self.homeless) {
                self.sync(&uid);
            }
        }
    }

    fn on_pod(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => {
                let uid = text(&pod["metadata"]["uid"]);
                self.pods.entry(uid.clone()).or_insert_with(|| Pod {
                    namespace: text(&pod["metadata"]["namespace"]),
                    name: text(&pod["metadata"]["name"]),
                    state: PodState::default(),
                    timer: None,
                });
                if let Some(node) = pod["spec"]["nodeName"].as_str() {
                    self.placement.place(
                        &uid,
                        pod["metadata"]["namespace"].as_str().unwrap_or_default(),
                        node,
                    );
                }
                self.sync_pod(&uid, &pod);
            }
            WatchEvent::Deleted(pod) => self.forget(&text(&pod["metadata"]["uid"])),
            WatchEvent::Bookmark(..) | WatchEvent::Error(_) => {}
        }
    }

    fn forget(&mut self, uid: &str) {
        if let Some(timer) = self.pods.remove(uid).and_then(|pod| pod.timer) {
            self.timers.remove(&timer);
        }
        self.homeless.remove(uid);
        self.placement.unplace(uid);
    }

    /// After a watch was lost: what vanished meanwhile is never reported.
    async fn forget_missing_pods(&mut self) {
        let Ok((pods, _)) = self.api.list(&Target::new("v1", "pods"), "", "").await else { return };
        let there: HashSet<String> = pods.iter().map(|pod| text(&pod["metadata"]["uid"])).collect();
        let gone: Vec<String> = self.pods.keys().filter(|uid| !there.contains(*uid)).cloned().collect();
        for uid in gone {
            self.forget(&uid);
        }
    }

    /// Looks at a pod as it is now.
    fn sync(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        let target = Target::new("v1", "pods").in_namespace(&pod.namespace).named(&pod.name);
        // Gone, or another pod of its name: its deletion is on its way.
        let Ok(now) = self.api.get(&target) else { return };
        if now["metadata"]["uid"] == uid {
            self.sync_pod(uid, &now);
        }
    }

    fn sync_pod(&mut self, uid: &str, pod: &Value) {
        let result = match pod["spec"]["nodeName"].as_str() {
            Some(node) => self.live(uid, pod, node),
            None => self.schedule(uid, pod),
        };
        match result {
            Ok(again) => self.look_again(uid, again),
            // Gone meanwhile: its deletion is on its way.
            Err(status) if status.code == 404 => {
                tracing::debug!(uid, message = status.message, "a pod or what it needs is gone");
            }
            Err(status) => {
                tracing::debug!(
                    uid,
                    message = status.message,
                    "a simulated kubelet or scheduler was refused"
                );
                if let Some(pod) = self.pods.get_mut(uid) {
                    pod.state.unsaved();
                }
                self.look_again(uid, Some(if status.code == 409 { CONFLICT } else { RETRY }));
            }
        }
    }

    fn look_again(&mut self, uid: &str, after: Option<Duration>) {
        let Some(pod) = self.pods.get_mut(uid) else { return };
        match (&pod.timer, after) {
            (Some(timer), Some(after)) => self.timers.reset(timer, after),
            (Some(_), None) => {
                if let Some(timer) = pod.timer.take() {
                    self.timers.remove(&timer);
                }
            }
            (None, Some(after)) => pod.timer = Some(self.timers.insert(uid.to_owned(), after)),
            (None, None) => {}
        }
    }

    fn schedule(&mut self, uid: &str, pod: &Value) -> Result<Option<Duration>, Status> {
        let gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
        let ours = pod["spec"]["schedulerName"].as_str().is_none_or(|name| name == "default-scheduler");
        let deleting = pod["metadata"]["deletionTimestamp"].is_string();
        if !self.config.scheduler || gated || !ours || deleting || self.placement.node_of(uid).is_some() {
            return Ok(None);
        }
        let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&pod["metadata"]["name"]));
        let Some(node) = self.placement.choose(pod) else {
            self.homeless.insert(uid.to_owned());
            let conditions = pod["status"]["conditions"].as_array();
            if conditions.is_none_or(|list| list.iter().all(|c| c["type"] != "PodScheduled")) {
                let condition = json!({"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                    "lastTransitionTime": self.now()});
                self.patch_status(uid, &namespace, &name, &json!({"conditions": [condition]}))?;
            }
            return Ok(None);
        };
        self.placement.place(uid, &namespace, &node);
        if let Err(status) = self.api.bind(&namespace, &name, &node) {
            self.placement.unplace(uid);
            return Err(status);
        }
        Ok(None)
    }

    fn live(&mut self, uid: &str, pod: &Value, node: &str) -> Result<Option<Duration>, Status> {
        let Some(host) = self.nodes.get(node).filter(|host| host.alive) else { return Ok(None) };
        let host_ip = host.ip.clone();
        let now = self.now();
        let known = self.pods.get(uid).is_some_and(|known| !known.state.ip.is_empty());
        if !known {
            let ip = pod["status"]["podIP"].as_str().map_or_else(|| self.next_ip(), str::to_owned);
            if let Some(known) = self.pods.get_mut(uid) {
                known.state.ip = ip;
                known.state.since =
                    pod["status"]["startTime"].as_str().map_or_else(|| now.clone(), str::to_owned);
            }
        }
        let Some(known) = self.pods.get_mut(uid) else { return Ok(None) };
        let todo = kubelet::look(pod, &host_ip, &mut known.state, Instant::now(), &now);
        let (namespace, name) = (known.namespace.clone(), known.name.clone());
        if let Some(status) = &todo.status {
            self.patch_status(uid, &namespace, &name, status)?;
        }
        if todo.remove {
            let options =
                DeleteOptions { grace: Some(0), uid: Some(uid.to_owned()), ..DeleteOptions::default() };
            let target = Target::new("v1", "pods").in_namespace(&namespace).named(&name);
            match self.api.delete(&target, &options) {
                Ok(_) => {}
                // Gone, or another pod of its name by now.
                Err(status) if matches!(status.code, 404 | 409) => {}
                Err(status) => return Err(status),
            }
        }
        Ok(todo.again)
    }

    fn patch_status(&self, uid: &str, namespace: &str, name: &str, status: &Value) -> Result<(), Status> {
        let target = Target::new("v1", "pods").in_namespace(namespace).named(name).sub("status");
        let patch = json!({"metadata": {"uid": uid}, "status": status});
        self.api.patch(&target, PatchType::Strategic, &patch).map(drop)
    }

    fn on_command(&mut self, command: Command) -> Reply {
        match command {
            Command::Add(spec) => self.add(&spec)?,
            Command::States => {
                return Ok(self.nodes.iter().map(|(name, node)| (name.clone(), node.state())).collect());
            }
            Command::Heartbeat(name, false) => self.known(&name)?.alive = false,
            Command::Heartbeat(name, true) | Command::Return(name) => self.bring_back(&name)?,
            Command::Conditions(name, conditions) => {
                self.known(&name)?.conditions.extend(conditions);
                self.write_node_status(&name)?;
                self.renew(&name);
            }
            Command::Remove(name) => {
                let node = self.known(&name)?;
                (node.alive, node.registered) = (false, false);
                match self.api.delete(&Target::new("v1", "nodes").named(&name), &DeleteOptions::default()) {
                    Err(status) if status.code == 404 => {}
                    deleted => drop(deleted?),
                }
            }
        }
        Ok(BTreeMap::new())
    }

    fn bring_back(&mut self, name: &str) -> Result<(), Status> {
        let node = self.known(name)?;
        node.alive = true;
        let object = node.object.clone();
        if !node.registered {
            let made = self.register(name, &object)?;
            let uid = text(&made["metadata"]["uid"]);
            let node = self.known(name)?;
            (node.uid, node.registered, node.leased) = (uid, true, false);
            self.write_node_status(name)?;
            self.take_node(made);
        } else {
            self.write_node_status(name)?;
        }
        self.renew(name);
        let ours = |uid: &&String| self.placement.node_of(uid) == Some(name);
        let pods: Vec<String> = self.pods.keys().filter(ours).cloned().collect();
        for uid in pods {
            self.sync(&uid);
        }
        Ok(())
    }

    /// Makes the object of a node; one that exists is taken on.
    fn register(&self, name: &str, object: &Value) -> Result<Value, Status> {
        let target = Target::new("v1", "nodes");
        match self.api.create(&target, object) {
            Err(status) if status.code == 409 => self.api.get(&target.named(name)),
            made => made,
        }
    }

    fn known(&mut self, name: &str) -> Result<&mut Node, Status> {
        self.nodes.get_mut(name).ok_or_else(|| Status::not_found("", "nodes", name))
    }

    fn add(&mut self, spec: &NodeSpec) -> Result<(), Status> {
        for (position, name) in spec.names.iter().enumerate() {
            let object = node::object(spec, position, name);
            let made = self.register(name, &object)?;
            self.counter += 1;
            let ip = format!("10.1.{}.{}", self.counter / 250, self.counter % 250);
            let uid = text(&made["metadata"]["uid"]);
            self.nodes.insert(
                name.clone(),
                Node {
                    uid,
                    ip,
                    alive: true,
                    registered: true,
                    leased: false,
                    object,
                    conditions: BTreeMap::new(),
                },
            );
            self.write_node_status(name)?;
            self.renew(name);
            self.take_node(made);
        }
        Ok(())
    }

    fn write_node_status(&self, name: &str) -> Result<(), Status> {
        let Some(node) = self.nodes.get(name) else { return Ok(()) };
        let status = json!({"status": node.status(name, &self.now())});
        self.api
            .patch(&Target::new("v1", "nodes").named(name).sub("status"), PatchType::Merge, &status)
            .map(drop)
    }

    fn renew_all(&mut self) {
        let names: Vec<String> = self.nodes.keys().cloned().collect();
        for name in names {
            self.renew(&name);
        }
    }

    /// Renews a lease. A failure waits for the next heartbeat, as a kubelet's does.
    fn renew(&mut self, name: &str) {
        let now = self.api.rest().clock.now().strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string();
        let Some(node) = self.nodes.get_mut(name).filter(|node| node.alive && node.registered) else {
            return;
        };
        let leases = Target::new("coordination.k8s.io/v1", "leases").in_namespace("kube-node-lease");
        if node.leased {
            let spec = json!({"spec": {"renewTime": now}});
            let renewed = self.api.patch(&leases.named(name), PatchType::Merge, &spec);
            node.leased = renewed.is_ok();
            return;
        }
        node.leased = match self.api.create(&leases, &node.lease(name, &now)) {
            Ok(_) => true,
            Err(status) => status.code == 409,
        };
    }

    fn next_ip(&mut self) -> String {
        self.counter += 1;
        let n = self.counter;
        format!("10.{}.{}.{}", 64 + n / 62_500 % 60, n / 250 % 250, n % 250 + 1)
    }

    fn now(&self) -> String {
        clock::seconds(self.api.rest().clock.now())
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
