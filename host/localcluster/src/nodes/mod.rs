//! Simulated nodes: a scheduler and kubelets, steered by annotations.
//!
//! In: nodes and pods, watched in process; commands. Out: bindings, statuses,
//! leases, removals. Pods become ready at once unless a `sim.coxswain.dev/*`
//! annotation says otherwise; volumes are ignored. One task does it all, and
//! keeps only what it needs of each pod, so that a thousand nodes and tens of
//! thousands of pods are practical.

pub mod annotations;
mod commands;
mod fit;
mod kubelet;
mod node;
mod placement;
mod sim;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, time::Duration};

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

pub use node::NodeSpec;

use crate::{rest::InProcess, status::Status};

/// How nodes are simulated.
#[derive(Clone, Copy, Debug)]
pub struct NodesConfig {
    /// Pause between two renewals of a lease.
    pub heartbeat: Duration,
    /// Whether pods are bound to nodes; off where something else schedules.
    pub scheduler: bool,
}

impl Default for NodesConfig {
    fn default() -> Self {
        Self { heartbeat: Duration::from_secs(10), scheduler: true }
    }
}

enum Command {
    Add(NodeSpec),
    Heartbeat(String, bool),
    Conditions(String, BTreeMap<String, String>),
    Return(String),
    Remove(String),
    States,
}

type Reply = Result<BTreeMap<String, NodeState>, Status>;

/// What has become of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "camelCase")]
pub enum NodeState {
    /// It renews its lease and runs its pods.
    Alive,
    /// It does nothing, as a dead machine.
    Stopped,
    /// Its object was deleted: it renews no lease until it returns.
    Unregistered,
}

/// The simulated nodes of a cluster.
#[derive(Clone)]
pub struct Nodes {
    commands: mpsc::UnboundedSender<(Command, oneshot::Sender<Reply>)>,
}

impl Nodes {
    /// Starts the simulation, without nodes, until cancelled.
    pub fn start(api: InProcess, config: NodesConfig, cancel: CancellationToken) -> Self {
        let (commands, received) = mpsc::unbounded_channel();
        tokio::spawn(sim::Sim::new(api, config).run(received, cancel));
        Self { commands }
    }

    /// Makes nodes and keeps them alive. Nodes that exist are taken on.
    pub async fn add(&self, spec: NodeSpec) -> Result<(), Status> {
        self.ask(Command::Add(spec)).await.map(drop)
    }

    /// Makes `count` nodes called `prefix` and a number, from 1.
    pub async fn add_count(&self, prefix: &str, count: usize) -> Result<(), Status> {
        let names = (1..=count).map(|n| format!("{prefix}{n}")).collect();
        self.add(NodeSpec { names, ..NodeSpec::default() }).await
    }

    /// Stops a node's heartbeat, as if the machine had died, or starts it again.
    pub async fn set_heartbeat(&self, name: &str, alive: bool) -> Result<(), Status> {
        self.ask(Command::Heartbeat(name.to_owned(), alive)).await.map(drop)
    }

    /// Sets conditions of a node, such as `Ready` to `False`. They stay.
    pub async fn set_conditions(
        &self,
        name: &str,
        conditions: BTreeMap<String, String>,
    ) -> Result<(), Status> {
        self.ask(Command::Conditions(name.to_owned(), conditions)).await.map(drop)
    }

    /// Starts a node that was stopped or has vanished; it registers anew if need be.
    pub async fn bring_back(&self, name: &str) -> Result<(), Status> {
        self.ask(Command::Return(name.to_owned())).await.map(drop)
    }

    /// Takes a node away, object and all, as when a machine is given back.
    pub async fn remove(&self, name: &str) -> Result<(), Status> {
        self.ask(Command::Remove(name.to_owned())).await.map(drop)
    }

    /// The nodes that are kept alive or were.
    pub async fn states(&self) -> Result<BTreeMap<String, NodeState>, Status> {
        self.ask(Command::States).await
    }

    async fn ask(&self, command: Command) -> Reply {
        let (reply, answer) = oneshot::channel();
        let stopped = || Status::internal("the simulated nodes have stopped");
        self.commands.send((command, reply)).map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// Taints for [`NodeSpec::taints`].
pub fn taints(list: &[(&str, &str, &str)]) -> Value {
    list.iter()
        .map(|(key, value, effect)| serde_json::json!({"key": key, "value": value, "effect": effect}))
        .collect()
}
