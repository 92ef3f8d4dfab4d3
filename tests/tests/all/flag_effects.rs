//! What flags do, as far as no test of the part that they are about shows it.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::{Command, Stdio},
    sync::Arc,
    time::{Duration, Instant},
};

use anyhow::{Context, ensure};
use coxswain_localcluster::{Cluster, ClusterConfig, Target};
use coxswain_tests::{Bed, LIMIT, built_program, crd, module, modules, program::Killed, test_guest, text};
use serde_json::json;

use crate::serving_client::{self, Client};

#[tokio::test(flavor = "multi_thread")]
async fn controllers_work_on_as_many_keys_at_once_as_their_flags_say() -> anyhow::Result<()> {
    let all = modules()?;
    let given = all.iter().map(|(name, bytes)| (name.as_str(), bytes.clone())).collect();
    let names = all.keys().cloned().collect::<Vec<_>>().join(",");
    // A number of its own for each flag that a manifest has.
    let engine = coxswain::engine::Engine::new(Default::default())?;
    let mut wanted = BTreeMap::new();
    for (number, bytes) in (11..).zip(all.values()) {
        let manifest = engine.load(bytes.clone()).await?.manifest().clone();
        if !manifest.concurrency_flag.is_empty() {
            wanted.insert(manifest.name.clone(), (manifest.concurrency_flag.clone(), number));
        }
    }
    ensure!(wanted.len() > 15, "{wanted:?}");
    let flags = wanted.clone();
    let bed = Bed::start_with(given, |config| {
        config.selection = coxswain::manager::Selection::parse(&names);
        for (flag, number) in flags.values() {
            config.options.set(flag.as_str(), number.to_string());
        }
    })
    .await?;
    let status = bed.manager.status();
    for (name, (flag, number)) in wanted {
        let one = status.controllers.iter().find(|one| one.name == name).context("it does not run")?;
        ensure!(one.concurrency == number, "--{flag}={number}: {} keys at once", one.concurrency);
    }
    bed.stop().await;
    Ok(())
}

/// Which flags belong to which signer.
const SIGNERS: [(&str, [&str; 2], &str, &[&str]); 4] = [
    (
        "serving",
        ["cluster-signing-kubelet-serving-cert-file", "cluster-signing-kubelet-serving-key-file"],
        "kubernetes.io/kubelet-serving",
        &["digital signature", "server auth"],
    ),
    (
        "node",
        ["cluster-signing-kubelet-client-cert-file", "cluster-signing-kubelet-client-key-file"],
        "kubernetes.io/kube-apiserver-client-kubelet",
        &["digital signature", "client auth"],
    ),
    (
        "client",
        ["cluster-signing-kube-apiserver-client-cert-file", "cluster-signing-kube-apiserver-client-key-file"],
        "kubernetes.io/kube-apiserver-client",
        &["digital signature", "client auth"],
    ),
    (
        "unknown",
        ["cluster-signing-legacy-unknown-cert-file", "cluster-signing-legacy-unknown-key-file"],
        "kubernetes.io/legacy-unknown",
        &["digital signature"],
    ),
];

/// An authority of this name in two files.
fn signer(dir: &Path, name: &str) -> anyhow::Result<[String; 2]> {
    let (pem, key) = serving_client::authority_with_key(&format!("authority of {name}"))?;
    let files = ["crt", "key"].map(|end| dir.join(format!("{name}.{end}")));
    std::fs::write(&files[0], pem)?;
    std::fs::write(&files[1], key)?;
    Ok(files.map(|file| file.display().to_string()))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_signer_has_an_authority_of_its_own() -> anyhow::Result<()> {
    use base64::Engine;
    const CONTROLLER: &str = "certificatesigningrequest-signing-controller";
    let dir = tempfile::tempdir()?;
    let mut flags = Vec::new();
    for (name, names, ..) in SIGNERS {
        flags.extend(names.into_iter().zip(signer(dir.path(), name)?));
    }
    let bed = Bed::start_with(vec![(CONTROLLER, module(CONTROLLER)?)], |config| {
        for (flag, value) in flags {
            config.options.set(flag, value);
        }
        config.options.set("cluster-signing-duration", "2h0m0s");
    })
    .await?;
    let api = bed.api();
    // Requests of the legacy signer are from times before v1, which lets nobody make any.
    for (name, _, signer, usages) in SIGNERS.into_iter().filter(|(name, ..)| *name != "unknown") {
        let request = serving_client::request(matches!(name, "serving" | "node"), name == "serving")?;
        let object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": name}, "spec": {"signerName": signer, "usages": usages,
                "request": base64::engine::general_purpose::STANDARD.encode(request)}});
        let requests = Target::new("certificates.k8s.io/v1", "certificatesigningrequests");
        let say =
            |status: coxswain_localcluster::status::Status| anyhow::anyhow!("{name}: {}", status.message);
        let mut made = api.create(&requests, &object).map_err(say)?;
        made["status"]["conditions"] = json!([{"type": "Approved", "status": "True", "reason": "Test"}]);
        api.update(&requests.named(name).sub("approval"), &made).map_err(say)?;
        let mut signed = String::new();
        bed.until("it is signed", LIMIT, async |_| {
            let object = api.get(&requests.named(name)).map_err(say)?;
            ensure!(
                !object["status"]["conditions"].to_string().contains("Failed"),
                "{name}: {}",
                object["status"]["conditions"]
            );
            signed = text(&object["status"]["certificate"]).to_owned();
            Ok(!signed.is_empty())
        })
        .await?;
        let pem = base64::engine::general_purpose::STANDARD.decode(signed)?;
        let (issuer, seconds) = serving_client::issuer_and_seconds(&pem)?;
        ensure!(issuer.contains(&format!("authority of {name}")), "{name} was signed by {issuer}");
        // It begins five minutes ago, as upstream's do.
        ensure!((7200 - 600..=7200 + 600).contains(&seconds), "{name} is good for {seconds} s");
    }
    bed.stop().await;
    Ok(())
}

/// A running program, and what it writes.
struct Program {
    child: Killed,
    dir: PathBuf,
}

impl Program {
    fn run(
        dir: &Path,
        name: &str,
        cluster: &Cluster,
        controllers: &[(&str, Vec<u8>)],
        flags: &[&str],
    ) -> anyhow::Result<Self> {
        let dir = dir.join(name);
        std::fs::create_dir_all(dir.join("controllers"))?;
        for (name, bytes) in controllers {
            std::fs::write(dir.join("controllers").join(format!("{name}.wasm")), bytes)?;
        }
        let child = Command::new(built_program())
            .env("RUST_LOG", "info")
            .args(["run", "--status-address=off", "--control-socket=off", "--leader-elect-runtime-dir=off"])
            .args(["--bind-address=127.0.0.1", "--authentication-skip-lookup"])
            .arg(format!("--kubeconfig={}", cluster.kubeconfig_path().display()))
            .arg(format!("--controllers-dir={}", dir.join("controllers").display()))
            .args(flags)
            .stdout(Stdio::from(std::fs::File::create(dir.join("stdout"))?))
            .stderr(Stdio::from(std::fs::File::create(dir.join("stderr"))?))
            .spawn()?;
        Ok(Self { child: Killed(child), dir })
    }

    fn said(&self, stream: &str) -> String {
        std::fs::read_to_string(self.dir.join(stream)).unwrap_or_default()
    }

    /// Waits until it says something, on either stream.
    async fn until_said(&self, what: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !(self.said("stdout") + &self.said("stderr")).contains(what) {
            ensure!(begun.elapsed() < LIMIT, "it never says {what:?}: {}", self.said("stderr"));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(())
    }

    /// How it ended after a signal, and how long that took.
    async fn ends(&mut self, signal: Option<&str>) -> anyhow::Result<(Option<i32>, Duration)> {
        let begun = Instant::now();
        if let Some(signal) = signal {
            Command::new("kill").args([signal, &self.child.id().to_string()]).status()?;
        }
        while begun.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status.code(), begun.elapsed()));
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::bail!("it does not end: {}", self.said("stderr"))
    }
}

fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn ports_protocols_certificates_and_streams_are_as_flags_say() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let cluster = Cluster::start(ClusterConfig::new(dir.path().join("cluster"))).await?;
    let controllers =
        [("ttl-controller", module("ttl-controller")?), ("job-controller", module("job-controller")?)];
    let port = free_port()?;
    let secure_port = format!("--secure-port={port}");
    let certificates = dir.path().join("certificates");
    let cert_dir = format!("--cert-dir={}", certificates.display());
    let flags = [
        secure_port.as_str(),
        &cert_dir,
        "--disable-http2-serving",
        "--permit-port-sharing",
        "--permit-address-sharing",
        "--logging-format=json",
        "--log-json-split-stream",
        "--controller-start-interval=1s",
    ];
    let mut first = Program::run(dir.path(), "first", &cluster, &controllers, &flags)?;
    first.until_said("endpoints at").await?;
    let client = Client::new(([127, 0, 0, 1], port).into());
    // The certificate that was made is in the directory, and HTTP/2 is not spoken.
    let made: Vec<_> = std::fs::read_dir(&certificates)?.flatten().map(|entry| entry.path()).collect();
    ensure!(made.iter().any(|path| path.extension().is_some_and(|end| end == "crt")), "{made:?}");
    ensure!(client.negotiates(&["h2", "http/1.1"]).await?.as_deref() == Some("http/1.1"), "HTTP/2 is off");
    let shown = client.get("/healthz", None).await?.server;
    // Controllers start one after the other, a second apart.
    first.until_said("\"controller\":\"ttl-controller\"").await?;
    let loaded = first.said("stdout").lines().filter(|line| line.contains("controller loaded")).count();
    ensure!(loaded >= 1, "{}", first.said("stdout"));
    // Errors alone go to the other stream; all is JSON.
    ensure!(first.said("stdout").lines().all(|line| line.starts_with('{')), "{}", first.said("stdout"));
    ensure!(first.said("stdout").contains("\"level\":\"INFO\""), "{}", first.said("stdout"));
    ensure!(!first.said("stderr").contains("INFO"), "{}", first.said("stderr"));

    // Another that permits it shares the port; one that does not cannot.
    let second =
        Program::run(dir.path(), "second", &cluster, &controllers, &[&secure_port, "--permit-port-sharing"])?;
    second.until_said("endpoints at").await?;
    let mut third = Program::run(dir.path(), "third", &cluster, &controllers, &[&secure_port])?;
    let (code, _) = third.ends(None).await?;
    ensure!(code == Some(1) && third.said("stderr").contains(&port.to_string()), "{}", third.said("stderr"));
    let (code, _) = first.ends(Some("-TERM")).await?;
    ensure!(code == Some(0), "{}", first.said("stderr"));
    drop(second);

    // The certificate is kept, HTTP/2 is spoken unless it is off, and text is split as well.
    let flags = [secure_port.as_str(), &cert_dir, "--log-text-split-stream"];
    let again = Program::run(dir.path(), "again", &cluster, &controllers, &flags)?;
    again.until_said("endpoints at").await?;
    ensure!(client.negotiates(&["h2", "http/1.1"]).await?.as_deref() == Some("h2"), "HTTP/2 is spoken");
    ensure!(client.get("/healthz", None).await?.server == shown, "the certificate is kept");
    ensure!(again.said("stdout").contains(" INFO ") && !again.said("stderr").contains(" INFO "));
    drop(again);
    cluster.shutdown().await;
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_guest_that_spins_holds_up_neither_the_end_nor_the_exit_code() -> anyhow::Result<()> {
    const NAME: &str = "mischief-controller";
    let dir = tempfile::tempdir()?;
    let cluster = Arc::new(Cluster::start(ClusterConfig::new(dir.path().join("cluster"))).await?);
    let create = |plural: &str, api_version: &str, namespace: &str, object: &serde_json::Value| {
        let target = Target::new(api_version, plural).in_namespace(namespace);
        cluster.api().create(&target, object).map_err(|s| anyhow::anyhow!("{plural}: {}", s.message))
    };
    let definition = crd("mischiefs", "Mischief");
    create("customresourcedefinitions", "apiextensions.k8s.io/v1", "", &definition)?;
    let object = json!({"apiVersion": "test.example/v1", "kind": "Mischief", "metadata": {"name": "spin"}});
    // A definition is served a moment after it was made.
    let begun = Instant::now();
    while let Err(error) = create("mischiefs", "test.example/v1", "default", &object) {
        ensure!(begun.elapsed() < LIMIT, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let flags = ["--secure-port=0", "--limit=deadline=10m", "--controller-shutdown-timeout=1s"];
    let mut program = Program::run(dir.path(), "run", &cluster, &[(NAME, test_guest(NAME)?)], &flags)?;
    program.until_said("synced").await?;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let (code, took) = program.ends(Some("-TERM")).await?;
    ensure!(code == Some(0), "{code:?}: {}", program.said("stderr"));
    ensure!(program.said("stderr").contains("are given up"), "it span: {}", program.said("stderr"));
    // A second that it is given, and what the rest of the end takes on a busy machine.
    ensure!(took < Duration::from_secs(20), "{took:?}");
    Ok(())
}
