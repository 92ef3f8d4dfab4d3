//! kubectl as a user: it is the judge of the embedded cluster and of the controllers.
//!
//! Skipped, and said so, where no kubectl is installed.

use std::{
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use anyhow::{Context, bail, ensure};
use coxswain_tests::Bed;

const CONTROLLERS: &[&str] =
    &["deployment-controller", "replicaset-controller", "garbage-collector-controller"];

/// kubectl with the bed's kubeconfig.
struct Kubectl {
    kubeconfig: PathBuf,
    home: PathBuf,
}

impl Kubectl {
    fn of(bed: &Bed) -> Option<Self> {
        let found = Command::new("kubectl").args(["version", "--client"]).stdout(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            eprintln!("skipped: there is no kubectl on the path");
            return None;
        }
        Some(Self { kubeconfig: bed.cluster.kubeconfig_path().to_owned(), home: bed.dir().join("home") })
    }

    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("kubectl");
        // Its discovery cache lives in the home directory.
        command
            .env("HOME", &self.home)
            .arg("--kubeconfig")
            .arg(&self.kubeconfig)
            .args(line.split_whitespace());
        command
    }

    /// Runs a command that must succeed; what it printed.
    async fn run(&self, line: &str) -> anyhow::Result<String> {
        self.run_with(line, "").await
    }

    /// The same with something on its standard input.
    async fn run_with(&self, line: &str, input: &str) -> anyhow::Result<String> {
        let mut command = self.command(line);
        let (line, input) = (line.to_owned(), input.to_owned());
        tokio::task::spawn_blocking(move || {
            use std::io::Write;
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().context("kubectl does not start")?;
            child.stdin.take().context("no standard input")?.write_all(input.as_bytes())?;
            let output = child.wait_with_output()?;
            let printed = String::from_utf8_lossy(&output.stdout).into_owned();
            if !output.status.success() {
                bail!("kubectl {line}: {printed}{}", String::from_utf8_lossy(&output.stderr));
            }
            Ok(printed)
        })
        .await?
    }
}

async fn replicas(bed: &Bed, name: &str, ready: u64) -> anyhow::Result<()> {
    bed.until(&format!("{name} has {ready} ready replicas"), Duration::from_secs(30), async |bed| {
        Ok(bed.get("apps/v1", "deployments", "default", name).is_some_and(|d| {
            d["status"]["readyReplicas"].as_u64().unwrap_or(0) == ready
                && d["status"]["replicas"].as_u64().unwrap_or(0) == ready
        }))
    })
    .await
}

async fn names(bed: &Bed, api_version: &str, plural: &str) -> anyhow::Result<Vec<String>> {
    let all = bed.list(api_version, plural, "default").await?;
    Ok(all.iter().filter_map(|o| o["metadata"]["name"].as_str().map(str::to_owned)).collect())
}

async fn gone(bed: &Bed, plurals: &[(&str, &str)]) -> anyhow::Result<()> {
    bed.until("all gone", Duration::from_secs(30), async |bed| {
        for (api_version, plural) in plurals {
            if !names(bed, api_version, plural).await?.is_empty() {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await
}

const ALL: &[(&str, &str)] = &[("apps/v1", "deployments"), ("apps/v1", "replicasets"), ("v1", "pods")];

#[tokio::test(flavor = "multi_thread")]
async fn a_deployment_through_its_life() -> anyhow::Result<()> {
    let bed = Bed::start(CONTROLLERS).await?;
    let Some(kubectl) = Kubectl::of(&bed) else { return Ok(()) };
    kubectl.run("create deployment web --image=web:1 --replicas=3").await?;
    kubectl.run("rollout status deployment web --timeout=30s").await?;
    kubectl.run("wait deployment web --for=condition=Available --timeout=30s").await?;
    let table = kubectl.run("get pods").await?;
    ensure!(table.matches("Running").count() == 3, "{table}");

    kubectl.run("scale deployment web --replicas=5").await?;
    replicas(&bed, "web", 5).await?;
    kubectl.run("set image deployment web web=web:2").await?;
    kubectl.run("rollout status deployment web --timeout=30s").await?;
    let history = kubectl.run("rollout history deployment web").await?;
    ensure!(history.lines().filter(|line| line.starts_with(['1', '2'])).count() == 2, "{history}");
    kubectl.run("rollout undo deployment web").await?;
    kubectl.run("rollout status deployment web --timeout=30s").await?;
    let image =
        kubectl.run("get deployment web -o jsonpath={.spec.template.spec.containers[0].image}").await?;
    ensure!(image == "web:1", "{image}");

    let one = names(&bed, "v1", "pods").await?.remove(0);
    kubectl.run(&format!("delete pod {one}")).await?;
    replicas(&bed, "web", 5).await?;
    ensure!(!names(&bed, "v1", "pods").await?.contains(&one), "{one} came back under its name");
    let described = kubectl.run("describe deployment web").await?;
    for part in ["ScalingReplicaSet", "5 desired", "Available"] {
        ensure!(described.contains(part), "no {part:?} in:\n{described}");
    }

    kubectl.run("delete deployment web --cascade=orphan").await?;
    ensure!(names(&bed, "v1", "pods").await?.len() == 5, "orphans stay");
    kubectl.run("delete replicasets --all --cascade=foreground").await?;
    gone(&bed, ALL).await?;
    kubectl.run("create deployment again --image=web:1 --replicas=2").await?;
    replicas(&bed, "again", 2).await?;
    kubectl.run("delete deployment again").await?;
    gone(&bed, ALL).await?;
    bed.stop().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_applied_edited_and_watched() -> anyhow::Result<()> {
    let bed = Bed::start(CONTROLLERS).await?;
    let Some(kubectl) = Kubectl::of(&bed) else { return Ok(()) };
    let manifest = |replicas: u32, colour: &str| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"web","labels":{{"colour":"{colour}"}}}},
                "spec":{{"replicas":{replicas},"selector":{{"matchLabels":{{"app":"web"}}}},
                "template":{{"metadata":{{"labels":{{"app":"web"}}}},"spec":{{"containers":[{{"name":"c","image":"i:1"}}]}}}}}}}}"#
        )
    };
    kubectl.run_with("apply -f -", &manifest(1, "red")).await?;
    let again = kubectl.run_with("apply -f -", &manifest(1, "red")).await?;
    ensure!(again.contains("unchanged"), "{again}");
    kubectl.run_with("apply -f -", &manifest(2, "blue")).await?;
    replicas(&bed, "web", 2).await?;
    let taken = kubectl.run_with("apply --server-side -f -", &manifest(3, "blue")).await;
    ensure!(taken.is_err_and(|e| e.to_string().contains("conflict")), "another manager has spec.replicas");
    kubectl.run_with("apply --server-side --force-conflicts -f -", &manifest(3, "blue")).await?;
    replicas(&bed, "web", 3).await?;

    kubectl.run("label deployment web colour=green --overwrite").await?;
    kubectl.run("annotate deployment web note=one").await?;
    kubectl
        .run(r#"patch deployment web --type=json -p=[{"op":"replace","path":"/spec/replicas","value":1}]"#)
        .await?;
    kubectl
        .run(r#"patch deployment web --type=merge -p={"metadata":{"annotations":{"note":"two"}}}"#)
        .await?;
    replicas(&bed, "web", 1).await?;
    let found = kubectl.run("get deployments -l colour=green -o name").await?;
    ensure!(found.trim() == "deployment.apps/web", "{found}");

    let mut watching =
        kubectl.command("get pods --watch -o name --request-timeout=20s").stdout(Stdio::piped()).spawn()?;
    kubectl.run("scale deployment web --replicas=2").await?;
    replicas(&bed, "web", 2).await?;
    kubectl.run("wait pod -l app=web --for=condition=Ready --timeout=30s").await?;
    tokio::time::sleep(Duration::from_millis(300)).await;
    watching.kill()?;
    let seen = String::from_utf8(watching.wait_with_output()?.stdout)?;
    for pod in names(&bed, "v1", "pods").await? {
        ensure!(seen.contains(&pod), "the watch did not show {pod}:\n{seen}");
    }

    let resources = kubectl.run("api-resources --verbs=list -o name").await?;
    for resource in ["pods", "deployments.apps", "jobs.batch", "leases.coordination.k8s.io"] {
        ensure!(resources.lines().any(|line| line == resource), "no {resource} in:\n{resources}");
    }
    let explained = kubectl.run("explain deployment.spec.replicas").await?;
    ensure!(explained.contains("replicas"), "{explained}");
    bed.stop().await;
    Ok(())
}
