//! The program as users start it: a process, its output and its exit code.

use std::{
    process::{Child, Command, Stdio},
    time::Duration,
};

use anyhow::{Context, ensure};
use base64::Engine;
use coxswain_tests::{
    built_controllers, built_program, module,
    program::{client, said},
    rebuilt,
};
use serde_json::{Value, json};

use crate::serving_client::Client;

fn program() -> anyhow::Result<Command> {
    let path = built_program();
    ensure!(path.is_file(), "{} is not there; build it with `make build`", path.display());
    let mut command = Command::new(path);
    command.env("RUST_LOG", "warn");
    Ok(command)
}

/// Interrupts a process as Ctrl-C does; its exit code.
fn interrupt(mut child: Child) -> anyhow::Result<Option<i32>> {
    Command::new("kill").args(["-INT", &child.id().to_string()]).status()?;
    for _ in 0..200 {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    child.kill()?;
    anyhow::bail!("it does not stop")
}

#[test]
fn the_demo_says_where_it_is_publishes_its_authority_and_ends_cleanly() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let mut child = program()?
        .args(["demo", "--json", "--dir"])
        .arg(dir.path())
        .arg("--controllers-dir")
        .arg(built_controllers())
        .stdout(Stdio::piped())
        .spawn()?;
    let said = said(&mut child)?;
    ensure!(said["controllersDir"].is_string() && said["status"].is_string(), "{said}");

    let published = tokio::runtime::Runtime::new()?.block_on(async {
        let client = client(&said).await?;
        let path = "/api/v1/namespaces/default/configmaps/kube-root-ca.crt";
        for _ in 0..100 {
            let asked = client.request::<Value>(http::Request::get(path).body(Vec::new())?).await;
            if let Ok(found) = asked {
                return anyhow::Ok(found["data"]["ca.crt"].as_str().unwrap_or_default().to_owned());
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("nobody publishes the authority")
    })?;
    // So are tokens that are kept in Secrets, which the cluster takes.
    tokio::runtime::Runtime::new()?.block_on(async {
        let client = client(&said).await?;
        let secrets = "/api/v1/namespaces/default/secrets";
        let secret = json!({
            "apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/service-account-token",
            "metadata": {"name": "bot", "annotations": {"kubernetes.io/service-account.name": "default"}},
        });
        let create =
            |path: &str, object: &Value| http::Request::post(path).body(object.to_string().into_bytes());
        client.request::<Value>(create(secrets, &secret)?).await?;
        let token = loop {
            let asked = http::Request::get(format!("{secrets}/bot")).body(Vec::new())?;
            let held = client.request::<Value>(asked).await?;
            if let Some(token) = held["data"]["token"].as_str() {
                break String::from_utf8(base64::engine::general_purpose::STANDARD.decode(token)?)?;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        };
        let review = async |token: &str| {
            let review = json!({
                "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token},
            });
            client
                .request::<Value>(create("/apis/authentication.k8s.io/v1/tokenreviews", &review)?)
                .await
                .map_err(anyhow::Error::from)
        };
        let known = review(&token).await?;
        ensure!(known["status"]["user"]["username"] == "system:serviceaccount:default:default", "{known}");
        let (text, _) = token.rsplit_once('.').context("no token")?;
        let forged = review(&format!("{text}.{}", "A".repeat(86))).await?;
        ensure!(forged["status"]["authenticated"] != true, "{forged}");
        let asked = http::Request::delete(format!("{secrets}/bot")).body(Vec::new())?;
        client.request::<Value>(asked).await?;
        let gone = review(&token).await?;
        ensure!(gone["status"]["authenticated"] != true, "it dies with its Secret: {gone}");
        anyhow::Ok(())
    })?;
    // Metrics are for whom the cluster knows.
    let endpoints = said["endpoints"].as_str().and_then(|url| url.strip_prefix("https://"));
    let client = Client::new(endpoints.context("endpoints")?.parse()?);
    let anonymous = tokio::runtime::Runtime::new()?.block_on(client.get("/metrics", None))?;
    ensure!(anonymous.status == 403, "{anonymous:?}");
    let client = client.certificate(&dir.path().join("pki/admin"))?;
    let metrics = tokio::runtime::Runtime::new()?.block_on(client.get("/metrics", None))?;
    ensure!(metrics.status == 200 && metrics.body.contains("workqueue_depth"), "{metrics:?}");
    let feature = "kubernetes_feature_enabled{name=\"APIServerIdentity\",stage=\"BETA\"} 1\n";
    ensure!(metrics.body.contains(feature), "{metrics:?}");
    let own = std::fs::read_to_string(dir.path().join("pki/ca.crt"))?;
    ensure!(published.trim() == own.trim(), "another authority is published");
    ensure!(interrupt(child)? == Some(0), "an interrupt is a clean end");
    Ok(())
}

#[test]
fn a_reader_that_has_gone_is_no_reason_to_panic() -> anyhow::Result<()> {
    let module = built_controllers().join("ttl-controller.wasm");
    let mut child = program()?
        .args(["inspect", "--json"])
        .arg(module)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    // The pipe is closed before anything is written.
    drop(child.stdout.take());
    let output = child.wait_with_output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && !errors.contains("panicked"), "{:?}: {errors}", output.status);
    Ok(())
}

#[test]
fn what_cannot_run_says_why_and_ends() -> anyhow::Result<()> {
    for (arguments, wanted) in [
        (vec!["run", "--kubeconfig", "/nowhere/config"], "there is no kubeconfig at /nowhere/config"),
        (vec!["run", "--feature-gates=One"], "expected NAME=true or NAME=false"),
        (vec!["inspect", "/nowhere/x.wasm"], "/nowhere/x.wasm"),
        (vec!["demo", "--controllers-dir", "/nowhere"], "build them with `make build`"),
        // Flags are judged first, whatever becomes of the cluster.
        (
            vec!["run", "--kubeconfig", "/nowhere/config", "--no-such-thing"],
            "neither the manager nor a module",
        ),
        (vec!["plan", "--kubeconfig", "/nowhere/config", "--namespace-sync-period"], "needs a value"),
        (vec!["run", "--kubeconfig", "/nowhere/config", "--policy", "/nowhere/policy"], "/nowhere/policy"),
        (
            vec!["run", "--kubeconfig", "/nowhere/config", "--service-account-private-key-file=/nowhere/key"],
            "/nowhere/key",
        ),
        // Nothing at all is `run`, too.
        (vec![], "no --kubeconfig given, and neither"),
    ] {
        let output = program()?.args(&arguments).env("KUBECONFIG", "/nowhere/config").output()?;
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success(), "{arguments:?} ran");
        ensure!(errors.contains(wanted), "{arguments:?}: no {wanted:?} in {errors}");
    }
    Ok(())
}

#[test]
fn a_running_demo_is_swapped_rolled_back_and_reloaded_by_hand() -> anyhow::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir()?;
    let modules = dir.path().join("modules");
    std::fs::create_dir(&modules)?;
    let file = modules.join("ttl-controller.wasm");
    let bytes = module("ttl-controller")?;
    std::fs::write(&file, &bytes)?;
    let mut child = program()?
        .args(["demo", "--json", "--limit", "ttl.lookups=7", "--dir"])
        .arg(dir.path().join("cluster"))
        .arg("--controllers-dir")
        .arg(&modules)
        .stdout(Stdio::piped())
        .spawn()?;
    let said = said(&mut child)?;
    let socket = said["controlSocket"].as_str().context("controlSocket")?.to_owned();
    ensure!(std::fs::metadata(&socket)?.permissions().mode() & 0o777 == 0o600, "{socket} is open to others");
    let server = said["status"].as_str().context("status")?.to_owned();
    let status = || -> anyhow::Result<Value> {
        let output = program()?.args(["status", "--json", "--server", &server]).output()?;
        serde_json::from_slice(&output.stdout).context("no JSON")
    };
    let rollback = |name: &str| -> anyhow::Result<(bool, String)> {
        let output = program()?.args(["rollback", name, "--control-socket", &socket]).output()?;
        let said = [output.stdout, output.stderr].concat();
        Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
    };
    let (done, why) = rollback("ttl-controller")?;
    ensure!(!done && why.contains("there is no version to go back to"), "{why}");
    let (done, why) = rollback("nobody")?;
    ensure!(!done && why.contains("no controller \"nobody\" runs; there are ttl-controller"), "{why}");
    let hash = status()?["controllers"][0]["hash"].clone();
    ensure!(status()?["controllers"][0]["limits"]["lookups"] == 7, "{}", status()?);
    std::fs::write(&file, rebuilt(&bytes, "new"))?;
    // A hangup looks at the directory; it does not end the process.
    Command::new("kill").args(["-HUP", &child.id().to_string()]).status()?;
    let is_swapped = || Ok::<_, anyhow::Error>(status()?["controllers"][0]["hash"] != hash);
    for _ in 0..200 {
        if is_swapped()? {
            break;
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    ensure!(is_swapped()?, "not swapped");
    let (done, said) = rollback("ttl")?;
    ensure!(done && said.contains("is refused until"), "{said}");
    ensure!(!is_swapped()?, "not rolled back: {}", status()?);
    ensure!(status()?["modules"][0]["stage"] == "rolledBack", "{}", status()?);
    ensure!(interrupt(child)? == Some(0), "an interrupt is a clean end");
    ensure!(!std::path::Path::new(&socket).exists(), "the socket goes with the process");
    Ok(())
}

#[test]
fn a_command_for_a_manager_that_does_not_run_says_how_they_meet() -> anyhow::Result<()> {
    let output = program()?.args(["rollback", "x", "--control-socket", "/nowhere/control.sock"]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success(), "it found one");
    ensure!(errors.contains("no manager takes commands at /nowhere/control.sock"), "{errors}");
    let output = program()?.args(["run", "--limit", "speed=3"]).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && errors.contains("KIND one of deadline"), "{errors}");
    Ok(())
}
