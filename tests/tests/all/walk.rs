//! The walk through `host/docs/changing-a-controller.md`, on the demo cluster as
//! an operator has it: plan, shadow, promote, canary, rollback, record and replay.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::ensure;
use coxswain_tests::{
    LIMIT, built_program, deployment, module,
    program::{Killed, client, said},
    rebuilt, root,
};
use serde_json::{Value, json};

use crate::gadgets::patched;

/// A demo, and what it said of itself.
struct Demo {
    child: Killed,
    said: Value,
    dir: tempfile::TempDir,
    client: kube::Client,
}

impl Demo {
    async fn start(controllers: &[&str], flags: &[&str]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let modules = dir.path().join("modules");
        std::fs::create_dir(&modules)?;
        for name in controllers {
            std::fs::write(modules.join(format!("{name}.wasm")), module(name)?)?;
        }
        let child = Command::new(built_program())
            .env("RUST_LOG", "warn")
            .args(["demo", "--json", "--dir"])
            .arg(dir.path().join("demo"))
            .arg("--controllers-dir")
            .arg(&modules)
            .arg("--record")
            .arg(dir.path().join("rec"))
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()?;
        let mut child = Killed(child);
        let said = said(&mut child)?;
        Ok(Self { client: client(&said).await?, child, said, dir })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("modules").join(format!("{name}.wasm"))
    }

    /// Exit code and output of a command of the program, as the page has it.
    fn coxswain(&self, line: &str) -> anyhow::Result<(Option<i32>, String)> {
        let output = Command::new(built_program())
            .env("RUST_LOG", "error")
            .env("COXSWAIN_STATUS", self.said["status"].as_str().unwrap_or_default())
            .env("COXSWAIN_CONTROL_SOCKET", self.said["controlSocket"].as_str().unwrap_or_default())
            .args(line.split_whitespace())
            .output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.code(), String::from_utf8_lossy(&said).into_owned()))
    }

    async fn ask(&self, method: &str, path: &str, body: Option<Value>) -> anyhow::Result<Value> {
        let request = http::Request::builder().method(method).uri(path);
        let request = match method {
            "PATCH" => request.header("content-type", "application/merge-patch+json"),
            _ => request.header("content-type", "application/json"),
        };
        Ok(self
            .client
            .request(request.body(body.map_or_else(Vec::new, |b| b.to_string().into_bytes()))?)
            .await?)
    }

    /// Waits until a command says something.
    async fn until_said(&self, line: &str, wanted: &str) -> anyhow::Result<String> {
        let begun = Instant::now();
        loop {
            let (_, said) = self.coxswain(line)?;
            if said.contains(wanted) {
                return Ok(said);
            }
            ensure!(begun.elapsed() < LIMIT, "`coxswain {line}` never says {wanted:?}: {said}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    async fn until_ready(&self, replicas: u32) -> anyhow::Result<()> {
        let begun = Instant::now();
        loop {
            let web = self.ask("GET", "/apis/apps/v1/namespaces/default/deployments/web", None).await?;
            if web["status"]["readyReplicas"] == replicas && web["status"]["updatedReplicas"] == replicas {
                return Ok(());
            }
            ensure!(begun.elapsed() < LIMIT, "not {replicas} ready: {web:#}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    async fn scale(&self, replicas: u32) -> anyhow::Result<()> {
        let patch = json!({"spec": {"replicas": replicas}});
        self.ask("PATCH", "/apis/apps/v1/namespaces/default/deployments/web", Some(patch)).await?;
        self.until_ready(replicas).await
    }
}

/// What the page says.
fn page() -> anyhow::Result<String> {
    Ok(std::fs::read_to_string(root().join("host/docs/changing-a-controller.md"))?)
}

fn hash(path: &Path) -> anyhow::Result<String> {
    use sha2::Digest;
    let digest = sha2::Sha256::digest(std::fs::read(path)?);
    Ok(digest.iter().take(6).map(|byte| format!("{byte:02x}")).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_about_changing_a_controller_does_what_it_says() -> anyhow::Result<()> {
    const NAME: &str = "replicaset-controller";
    let controllers = ["deployment-controller", NAME];
    let flags = ["--swap-through-shadow=2", "--swap-canary=50%:3s"];
    let mut demo = Demo::start(&controllers, &flags).await?;
    demo.ask("POST", "/apis/apps/v1/namespaces/default/deployments", Some(deployment("default", "web", 3)))
        .await?;
    demo.until_ready(3).await?;
    let commands = [
        "plan --kubeconfig",
        "shadow replicaset",
        "promote replicaset",
        "rollback replicaset-controller",
        "replay /tmp/rec --module",
    ];
    let text = page()?;
    for command in commands {
        ensure!(text.contains(&format!("coxswain {command}")), "the page has no `coxswain {command}`");
    }

    // Nothing is left to do, and that is what the plan says.
    let (kubeconfig, modules) =
        (demo.said["kubeconfig"].as_str().unwrap_or_default(), demo.dir.path().join("modules"));
    let plan = format!("plan --kubeconfig {kubeconfig} --controllers-dir {} --events", modules.display());
    let (code, said) = demo.coxswain(&plan)?;
    ensure!(code == Some(0), "{code:?}: {said}");
    ensure!(said.starts_with("Nothing would be done"), "{said}");

    // A build that says something else in its events: it is compared, differs, and is held.
    let original = module(NAME)?;
    let file = demo.file(NAME);
    let other = patched(&original, b"SuccessfulCreate", b"SuccessfulMaking")?;
    std::fs::write(&file, &other)?;
    demo.until_said("status", "shadow ").await?;
    demo.scale(5).await?;
    demo.until_said("status", "held: ").await?;
    let (code, said) = demo.coxswain("shadow replicaset")?;
    ensure!(code == Some(2), "{code:?}: {said}");
    for line in
        ["--- live ", "+++ candidate ", "-              \"reason\": \"SuccessfulCreate\"", "SuccessfulMaking"]
    {
        ensure!(said.contains(line), "no {line:?} in {said}");
    }
    // It is let through, has a share of the keys, and then all of them.
    let (code, said) = demo.coxswain("promote replicaset")?;
    ensure!(code == Some(0), "{said}");
    demo.until_said("status", "canary ").await?;
    demo.until_said("status", "after 1 swap and 0 rollbacks").await?;
    ensure!(demo.coxswain("status")?.1.contains(&hash(&file)?), "the new build runs");
    demo.scale(6).await?;

    // Back by hand; the file is refused until it changes.
    let (code, said) = demo.coxswain("rollback replicaset-controller")?;
    ensure!(code == Some(0) && said.contains("is refused until"), "{code:?}: {said}");
    let said = demo.until_said("status", "after 1 swap and 1 rollback").await?;
    ensure!(said.contains("not loaded: ") && said.contains("replicaset-controller.wasm"), "{said}");
    let (code, said) = demo.coxswain("shadow replicaset")?;
    ensure!(
        code == Some(1) && said.contains(") is rolled back: the operator asked for it"),
        "{code:?}: {said}"
    );
    demo.scale(7).await?;
    // A build that decides the same goes live by itself.
    std::fs::write(&file, rebuilt(&original, "repaired"))?;
    demo.until_said("status", "shadow ").await?;
    demo.scale(8).await?;
    demo.scale(9).await?;
    let said = demo.until_said("status", "after 2 swaps and 1 rollback").await?;
    ensure!(said.contains(&hash(&file)?) && !said.contains("not loaded"), "{said}");

    // All of it was recorded: what ran decides the same again, the other build does not.
    Command::new("kill").args(["-INT", &demo.child.id().to_string()]).status()?;
    ensure!(demo.child.wait()?.code() == Some(0), "an interrupt is a clean end");
    let recording = demo.dir.path().join("rec");
    let replay = |module: &Path| {
        demo.coxswain(&format!("replay {} --module {}", recording.display(), module.display()))
    };
    let (code, said) = replay(&file)?;
    ensure!(
        code == Some(2) && said.contains("SuccessfulMaking"),
        "a part was decided by the other build: {said}"
    );
    let candidate = demo.dir.path().join("other.wasm");
    std::fs::write(&candidate, &other)?;
    let (code, said) = replay(&candidate)?;
    ensure!(code == Some(2) && said.contains("SuccessfulCreate"), "{code:?}: {said}");
    let (code, said) = replay(&demo.file("deployment-controller"))?;
    ensure!(code == Some(0) && said.contains(" 0 different, 0 incomplete"), "{code:?}: {said}");
    Ok(())
}
