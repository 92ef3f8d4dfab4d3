//! A cluster that witnesses writes, and processes that want to lead.
//!
//! Each write is noted as it arrives: who sent it is the end of its user agent,
//! who leads is what the Lease says at that moment.

use std::{
    collections::BTreeMap,
    fs::File,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use coxswain_localcluster::{
    Cluster, ClusterConfig, InProcess, Target, WatchEvent,
    nodes::{Nodes, NodesConfig},
    rest::options::ListOptions,
};
use coxswain_tests::{LIMIT, built_program, deployment, module, program::Killed, text};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

pub(super) const CONTROLLERS: &[&str] =
    &["deployment-controller", "replicaset-controller", "garbage-collector-controller"];
pub(super) const LEASE: &str = "kube-controller-manager";
/// Short, so that a crash costs little.
pub(super) const SHORT: &[&str] = &[
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
];

/// A write as it arrived.
#[derive(Clone, Debug)]
pub(super) struct Write {
    pub(super) at: Instant,
    pub(super) by: String,
    pub(super) what: String,
    /// Who held which lease when it arrived.
    pub(super) holders: Vec<(String, String)>,
}

/// A cluster, and processes that want to lead.
pub(super) struct Field {
    pub(super) cluster: Cluster,
    pub(super) _nodes: Nodes,
    pub(super) dir: tempfile::TempDir,
    pub(super) writes: Arc<Mutex<Vec<Write>>>,
    pub(super) processes: Vec<Process>,
    pub(super) cancel: CancellationToken,
}

pub(super) struct Process {
    pub(super) child: Killed,
    pub(super) log: PathBuf,
}

impl Process {
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Whether it has ever led as this.
    pub(super) fn is(&self, identity: &str) -> bool {
        !identity.is_empty() && self.log().contains(&format!("identity=\"{identity}\""))
    }

    pub(super) fn signal(&self, name: &str) -> anyhow::Result<()> {
        let sent = Command::new("kill").args([name, &self.child.id().to_string()]).status()?;
        ensure!(sent.success(), "kill {name}");
        Ok(())
    }

    pub(super) async fn ends(&mut self) -> anyhow::Result<Option<i32>> {
        let begun = Instant::now();
        while begun.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        bail!("it does not end:\n{}", self.log())
    }
}

pub(super) fn leases(api: &InProcess) -> Vec<(String, String)> {
    let target = Target::new("coordination.k8s.io/v1", "leases").in_namespace("kube-system");
    let listed = futures::executor::block_on(api.list(&target, "", ""));
    let items = listed.map(|(items, _)| items).unwrap_or_default();
    let named = |lease: &Value| {
        (text(&lease["metadata"]["name"]).to_owned(), text(&lease["spec"]["holderIdentity"]).to_owned())
    };
    items.iter().map(named).filter(|(name, _)| name.starts_with(LEASE)).collect()
}

impl Field {
    pub(super) async fn new() -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let controllers = dir.path().join("controllers");
        std::fs::create_dir(&controllers)?;
        for name in CONTROLLERS {
            std::fs::write(controllers.join(format!("{name}.wasm")), module(name)?)?;
        }
        let cluster = Cluster::start(ClusterConfig::new(dir.path().join("cluster"))).await?;
        let cancel = CancellationToken::new();
        let kubelet = InProcess::new(cluster.rest().clone(), "kubelet");
        let nodes = Nodes::start(kubelet, NodesConfig::default(), cancel.clone());
        nodes.add_count("node-", 3).await.map_err(|s| anyhow::anyhow!("no nodes: {}", s.message))?;
        let writes = Arc::<Mutex<Vec<Write>>>::default();
        let (seen, api) = (writes.clone(), cluster.api());
        cluster.rest().set_witness(Box::new(move |request| {
            let agent = request.headers.get("user-agent").and_then(|v| v.to_str().ok()).unwrap_or_default();
            let ours = agent.starts_with("coxswain/") && !agent.contains("(leader-election)");
            // Of what the manager as such writes, only what is said of leadership needs no lease.
            let said = String::from_utf8_lossy(&request.body).contains("\"reason\":\"LeaderElection\"");
            if !ours || request.method == "GET" || said {
                return;
            }
            let by = agent.rsplit_once(' ').map(|(_, by)| by.to_owned()).unwrap_or_default();
            let holders = leases(&api);
            let what = format!("{} {} {agent}", request.method, request.path);
            seen.lock().push(Write { at: Instant::now(), by, what, holders });
        }));
        Ok(Self { cluster, _nodes: nodes, dir, writes, processes: Vec::new(), cancel })
    }

    /// Starts a process; `machine` names its runtime directory.
    pub(super) fn start(&mut self, machine: &str, flags: &[&str]) -> anyhow::Result<()> {
        let number = self.processes.len();
        let log = self.dir.path().join(format!("{number}-{:x}.log", rand::random::<u32>()));
        let child = Command::new(built_program())
            .env("RUST_LOG", "info")
            .arg("--kubeconfig")
            .arg(self.cluster.kubeconfig_path())
            .arg("--controllers-dir")
            .arg(self.dir.path().join("controllers"))
            .arg("--leader-elect-runtime-dir")
            .arg(self.dir.path().join(format!("run-{machine}")))
            .args(["--status-address=off", "--kube-api-qps=0"])
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(&log)?)
            .spawn()
            .with_context(|| {
                format!("{} is not there; build it with `make build`", built_program().display())
            })?;
        self.processes.push(Process { child: Killed(child), log });
        Ok(())
    }

    pub(super) fn holder(&self) -> String {
        leases(&self.cluster.api()).into_iter().next().map(|(_, holder)| holder).unwrap_or_default()
    }

    /// Position of the process that leads, once one does.
    pub(super) async fn leader(&self) -> anyhow::Result<usize> {
        let mut found = None;
        self.until("somebody leads", || {
            let holder = self.holder();
            found = self.processes.iter().position(|process| process.is(&holder));
            found.is_some()
        })
        .await?;
        found.context("no leader")
    }

    pub(super) async fn until(
        &self,
        what: &str,
        mut holds: impl FnMut() -> bool,
    ) -> anyhow::Result<Duration> {
        let begun = Instant::now();
        while !holds() {
            if begun.elapsed() > LIMIT {
                let logs: Vec<_> = self.processes.iter().map(Process::log).collect();
                bail!(
                    "after {LIMIT:?} still not: {what}; leases {:?}\n{}",
                    leases(&self.cluster.api()),
                    logs.join("\n---\n")
                );
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(begun.elapsed())
    }

    pub(super) fn target(name: &str) -> Target<'_> {
        Target::new("apps/v1", "deployments").in_namespace("default").named(name)
    }

    pub(super) fn create(&self, name: &str, replicas: u32) -> anyhow::Result<()> {
        let made = self.cluster.api().create(&Self::target(name), &deployment("default", name, replicas));
        made.map(drop).map_err(|s| anyhow::anyhow!(s.message))
    }

    pub(super) fn set_image(&self, name: &str, image: &str) -> anyhow::Result<()> {
        let api = self.cluster.api();
        let mut object = api.get(&Self::target(name)).map_err(|s| anyhow::anyhow!(s.message))?;
        object["spec"]["template"]["spec"]["containers"][0]["image"] = image.into();
        // The controller writes the status at the same time.
        object["metadata"].as_object_mut().context("metadata")?.remove("resourceVersion");
        api.update(&Self::target(name), &object).map(drop).map_err(|s| anyhow::anyhow!(s.message))
    }

    /// Whether a rollout is complete.
    pub(super) fn is_done(&self, name: &str, replicas: u32) -> bool {
        self.cluster.api().get(&Self::target(name)).is_ok_and(|object| {
            let status = &object["status"];
            status["observedGeneration"] == object["metadata"]["generation"]
                && ["replicas", "updatedReplicas", "readyReplicas"]
                    .iter()
                    .all(|f| status[*f] == json!(replicas))
        })
    }

    /// Writes that came from a process without a lease.
    pub(super) fn unled(&self) -> Vec<Write> {
        let writes = self.writes.lock();
        let led = |write: &Write| write.holders.iter().any(|(_, holder)| *holder == write.by);
        writes.iter().filter(|write| !led(write)).cloned().collect()
    }

    /// Counts pods as they are created, by owner.
    pub(super) fn count_pods(&self) -> anyhow::Result<Arc<Mutex<BTreeMap<String, usize>>>> {
        let counts = Arc::<Mutex<BTreeMap<String, usize>>>::default();
        let pods = Target::new("v1", "pods").in_namespace("default");
        let options = ListOptions { watch: true, ..ListOptions::default() };
        let mut watch = self.cluster.api().watch(&pods, &options).map_err(|s| anyhow::anyhow!(s.message))?;
        let counted = counts.clone();
        tokio::spawn(async move {
            while let Some(event) = watch.next().await {
                if let WatchEvent::Added(pod) = event {
                    let owner = text(&pod["metadata"]["ownerReferences"][0]["name"]).to_owned();
                    *counted.lock().entry(owner).or_default() += 1;
                }
            }
        });
        Ok(counts)
    }

    /// How long after a moment a process wrote that had not written before.
    pub(super) async fn leader_other_than(&self, moment: Instant) -> anyhow::Result<Duration> {
        let old: Vec<String> =
            self.writes.lock().iter().filter(|w| w.at < moment).map(|w| w.by.clone()).collect();
        let mut first = None;
        self.until("another one writes", || {
            first = self.writes.lock().iter().find(|w| w.at >= moment && !old.contains(&w.by)).map(|w| w.at);
            first.is_some()
        })
        .await?;
        Ok(first.context("nobody writes")?.saturating_duration_since(moment))
    }

    pub(super) async fn stop(mut self) {
        self.processes.clear();
        self.cancel.cancel();
        self.cluster.shutdown().await;
    }
}

pub(super) fn ensure_lines(writes: &[Write]) -> anyhow::Result<()> {
    let show = |w: &Write| format!("{} by {:?}, while {:?} lead", w.what, w.by, w.holders);
    let lines: Vec<_> = writes.iter().take(5).map(show).collect();
    ensure!(writes.is_empty(), "{} writes without the lease:\n{}", writes.len(), lines.join("\n"));
    Ok(())
}

pub(super) fn path(dir: &Path) -> String {
    dir.display().to_string()
}
