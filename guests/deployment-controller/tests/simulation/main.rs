//! The deployment controller and the replicaset controller on one cluster, in
//! any order, with pods that become ready and go in any order.
//!
//! Whatever the order: once a Deployment is available it stays so while it is
//! rolled out and scaled, its ReplicaSets never add up to more than allowed, and
//! it always gets there.

mod cluster;

use cluster::{Cluster, DEPLOYMENTS, PODS, REPLICA_SETS};
use deployment_controller::DeploymentController;
use replicaset_controller::ReplicaSetController;
use serde_json::{Value, json};

/// A reproducible order of events (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }
}

struct Simulation {
    cluster: Cluster,
    dice: Dice,
    /// Available pods that there must be, and sizes that there may be.
    limits: Option<(i64, i64)>,
    what: String,
}

fn is_terminating(pod: &Value) -> bool {
    !pod["metadata"]["deletionTimestamp"].is_null()
}

fn is_ready(pod: &Value) -> bool {
    pod["status"]["conditions"][0]["status"] == json!("True")
}

impl Simulation {
    fn new(seed: u64, strategy: Value, replicas: i64) -> Self {
        let mut cluster = Cluster::default();
        let what = format!("seed {seed}, {replicas} replicas, {strategy}");
        cluster.add(
            DEPLOYMENTS,
            json!({
                "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
                "spec": {
                    "replicas": replicas,
                    "selector": {"matchLabels": {"app": "web"}},
                    "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"image": "1"}},
                    "strategy": strategy,
                    "progressDeadlineSeconds": 600,
                    "revisionHistoryLimit": 1,
                },
            }),
        );
        coxswain_sdk::forget_parsed();
        Self { cluster, dice: Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1), limits: None, what }
    }

    /// One event of those that can happen. Returns whether it changed anything.
    fn step(&mut self) -> bool {
        let waiting = self.cluster.names(PODS, |pod| !is_ready(pod) && !is_terminating(pod));
        let going = self.cluster.names(PODS, is_terminating);
        let sets = self.cluster.names(REPLICA_SETS, |_| true);
        let changed = match self.dice.below(4) {
            0 => self.cluster.reconcile::<DeploymentController>(DEPLOYMENTS, "web"),
            1 => match self.dice.pick(&sets) {
                Some(name) => self.cluster.reconcile::<ReplicaSetController>(REPLICA_SETS, name),
                None => false,
            },
            2 => self.make_ready(&waiting),
            _ => match self.dice.pick(&going) {
                Some(name) => {
                    self.cluster.remove(PODS, name);
                    true
                }
                None => false,
            },
        };
        self.check();
        changed
    }

    fn make_ready(&mut self, waiting: &[String]) -> bool {
        let Some(name) = self.dice.pick(waiting) else { return false };
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": self.cluster.now()});
        self.cluster.change(PODS, name, &json!({"status": {"phase": "Running", "conditions": [ready]}}));
        true
    }

    fn check(&self) {
        let Some((least, most)) = self.limits else { return };
        let available = self.cluster.all(PODS).filter(|pod| is_ready(pod) && !is_terminating(pod)).count();
        assert!(available as i64 >= least, "{}: {available} available, {least} needed", self.what);
        let sizes: i64 =
            self.cluster.all(REPLICA_SETS).map(|set| set["spec"]["replicas"].as_i64().unwrap()).sum();
        assert!(sizes <= most, "{}: {sizes} in all, {most} allowed", self.what);
    }

    /// Goes on until nothing can happen any more, and looks whether that is
    /// what was wanted.
    fn settle(&mut self) {
        for _ in 0..20_000 {
            self.step();
            if self.is_at_rest() {
                return self.check_complete();
            }
        }
        panic!("{}: never at rest: {}", self.what, self.cluster.one(DEPLOYMENTS, "web"));
    }

    fn is_at_rest(&mut self) -> bool {
        if self.cluster.all(PODS).any(|pod| is_terminating(pod) || !is_ready(pod)) {
            return false;
        }
        let status = &self.cluster.one(DEPLOYMENTS, "web")["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        if !conditions.iter().any(|condition| condition["reason"] == json!("NewReplicaSetAvailable")) {
            return false;
        }
        let sets = self.cluster.names(REPLICA_SETS, |_| true);
        let wrote = self.cluster.reconcile::<DeploymentController>(DEPLOYMENTS, "web");
        let names = sets.iter();
        let wrote = names.fold(wrote, |wrote, name| {
            let there =
                !self.cluster.names(REPLICA_SETS, |set| set["metadata"]["name"] == json!(name)).is_empty();
            (there && self.cluster.reconcile::<ReplicaSetController>(REPLICA_SETS, name)) || wrote
        });
        self.check();
        !wrote
    }

    fn check_complete(&self) {
        let web = self.cluster.one(DEPLOYMENTS, "web");
        let (wanted, status) = (&web["spec"]["replicas"], &web["status"]);
        for count in ["replicas", "updatedReplicas", "readyReplicas", "availableReplicas"] {
            assert_eq!(status[count], *wanted, "{}: {count} of {status}", self.what);
        }
        assert_eq!(status["observedGeneration"], web["metadata"]["generation"], "{}", self.what);
        let sets: Vec<&Value> = self.cluster.all(REPLICA_SETS).collect();
        assert!(sets.len() <= 2, "{}: too much history", self.what);
        for set in sets {
            let current = set["spec"]["template"]["spec"] == web["spec"]["template"]["spec"];
            assert_eq!(
                set["spec"]["replicas"],
                if current { wanted.clone() } else { json!(0) },
                "{}",
                self.what
            );
        }
        assert_eq!(self.cluster.all(PODS).count() as i64, wanted.as_i64().unwrap(), "{}", self.what);
    }

    fn change(&mut self, spec: &Value) {
        self.cluster.seconds += 1;
        self.cluster.change(DEPLOYMENTS, "web", &json!({ "spec": spec }));
    }
}

fn image(image: &str) -> Value {
    json!({"template": {"spec": {"image": image}}})
}

fn rolling(surge: i64, unavailable: i64) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}})
}

/// Replicas, surge, unavailable.
const BOUNDS: [(i64, i64, i64); 7] =
    [(1, 1, 0), (1, 0, 1), (4, 1, 0), (4, 0, 1), (4, 2, 2), (7, 3, 0), (10, 3, 2)];

#[test]
fn a_rollout_stays_within_its_limits() {
    for (replicas, surge, unavailable) in BOUNDS {
        for seed in 1..25 {
            let mut simulation = Simulation::new(seed, rolling(surge, unavailable), replicas);
            simulation.settle();
            simulation.limits = Some((replicas - unavailable, replicas + surge));
            simulation.change(&image("2"));
            simulation.settle();
            // A third template while the second is on its way, then back to it.
            simulation.change(&image("3"));
            for _ in 0..simulation.dice.below(80) {
                simulation.step();
            }
            simulation.change(&image("2"));
            simulation.settle();
        }
    }
}

#[test]
fn a_rollout_may_be_scaled() {
    for seed in 1..60 {
        let mut simulation = Simulation::new(seed, rolling(2, 1), 6);
        simulation.settle();
        simulation.limits = Some((5, 8));
        simulation.change(&image("2"));
        for _ in 0..simulation.dice.below(120) {
            simulation.step();
        }
        // Until it has grown, as many are available as were before.
        simulation.limits = Some((5, 14));
        simulation.change(&json!({"replicas": 12}));
        simulation.settle();
    }
}

#[test]
fn scaling_to_the_size_it_has_stops_nothing() {
    for seed in 1..30 {
        let mut simulation = Simulation::new(seed, rolling(0, 1), 5);
        simulation.settle();
        simulation.change(&image("2"));
        // The first step of the rollout: 4 old ones, no new one.
        while !simulation.cluster.all(REPLICA_SETS).any(|set| set["spec"]["replicas"] == json!(4)) {
            simulation.cluster.reconcile::<DeploymentController>(DEPLOYMENTS, "web");
        }
        simulation.limits = Some((3, 5));
        simulation.change(&json!({"replicas": 4}));
        simulation.settle();
    }
}

#[test]
fn recreate_never_runs_two_templates() {
    for seed in 1..60 {
        let mut simulation = Simulation::new(seed, json!({"type": "Recreate"}), 3);
        simulation.settle();
        simulation.change(&image("2"));
        for _ in 0..300 {
            simulation.step();
            let images: std::collections::BTreeSet<String> =
                simulation.cluster.all(PODS).map(|pod| pod["spec"]["image"].to_string()).collect();
            assert!(images.len() <= 1, "{}: {images:?}", simulation.what);
        }
        simulation.settle();
    }
}
