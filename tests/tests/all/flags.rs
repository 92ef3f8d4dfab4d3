//! Command lines as kube-controller-manager takes them, given to the program.

use std::{
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, bail, ensure};
use coxswain_localcluster::{Cluster, ClusterConfig, Target};
use coxswain_tests::{LIMIT, built_controllers, built_program, deployment, program::Killed, root};

/// A program that runs, and what it says.
struct Program {
    child: Killed,
    log: PathBuf,
}

impl Program {
    fn start(dir: &Path, arguments: &[String]) -> anyhow::Result<Self> {
        let path = built_program();
        ensure!(path.is_file(), "{} is not there; build it with `make build`", path.display());
        let log = dir.join("log");
        let child = Command::new(path)
            .args(arguments)
            .env("COXSWAIN_CONTROLLERS_DIR", built_controllers())
            .env_remove("RUST_LOG")
            .env_remove("KUBECONFIG")
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .spawn()?;
        Ok(Self { child: Killed(child), log })
    }

    fn said(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn until_ended(mut self) -> anyhow::Result<(Option<i32>, String)> {
        let start = Instant::now();
        while start.elapsed() < LIMIT {
            if let Some(status) = self.child.try_wait()? {
                return Ok((status.code(), self.said()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("it still runs: {}", self.said())
    }

    /// Asks it to end as an init system does.
    fn terminate(self) -> anyhow::Result<(Option<i32>, String)> {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status()?;
        self.until_ended()
    }

    async fn until(&mut self, what: &str, mut done: impl AsyncFnMut() -> bool) -> anyhow::Result<()> {
        let start = Instant::now();
        while !done().await {
            if let Some(status) = self.child.try_wait()? {
                bail!("it ended with {status} before {what}: {}", self.said());
            }
            ensure!(start.elapsed() < LIMIT, "not {what}: {}", self.said());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

/// A kubeconfig of a server that nobody is.
fn no_server(dir: &Path) -> anyhow::Result<String> {
    let path = dir.join("config");
    std::fs::write(
        &path,
        "{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: k, user: u}}], \
         clusters: [{name: k, cluster: {server: 'http://127.0.0.1:9'}}], users: [{name: u, user: {}}]}",
    )?;
    Ok(path.display().to_string())
}

/// Exit code and log of a run with these flags, which has no API server.
fn run(flags: &[&str]) -> anyhow::Result<(Option<i32>, String)> {
    let dir = tempfile::tempdir()?;
    let mut arguments = vec!["run".to_owned(), "--status-address=off".to_owned()];
    arguments.extend(["--kubeconfig".to_owned(), no_server(dir.path())?]);
    arguments.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Program::start(dir.path(), &arguments)?.until_ended()
}

#[test]
fn what_is_wrong_ends_it_with_1_and_says_what() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let file = |name: &str, content: &str| -> anyhow::Result<String> {
        let path = dir.path().join(name);
        std::fs::write(&path, content)?;
        Ok(format!("--config={}", path.display()))
    };
    let unknown = file("unknown.yaml", "concurrent-job-sync: 3\n")?;
    let wrong = file("wrong.yaml", "kube-api-qps: much\n")?;
    let list = file("list.yaml", "- a\n")?;
    let other = "--cluster-signing-kubelet-client";
    let table: [(&[&str], &str); 32] = [
        (&["--tls-cert-file=/f"], "--tls-cert-file: needs --tls-private-key-file beside it"),
        (&["--tls-private-key-file=/f"], "--tls-private-key-file: needs --tls-cert-file beside it"),
        (
            &["--tls-sni-cert-key=/nowhere/a,/nowhere/b"],
            "--tls-sni-cert-key=/nowhere/a,/nowhere/b: cannot read",
        ),
        (
            &["--secure-port=0", "--client-ca-file=/nowhere/ca"],
            "--client-ca-file=/nowhere/ca: cannot be read",
        ),
        (&["--tls-curve-preferences=7"], "--tls-curve-preferences=7: there is no such key exchange"),
        (
            &["--authorization-kubeconfig=/nowhere/k"],
            "--authorization-kubeconfig=/nowhere/k: the kubeconfig cannot",
        ),
        (&["--allow-metric-labels=a=b"], "--allow-metric-labels=a=b: expected METRIC,LABEL="),
        (
            &["--cluster-signing-key-file=/f"],
            "--cluster-signing-key-file is given without --cluster-signing-cert-file",
        ),
        (
            &[
                "--cluster-signing-cert-file=/f",
                "--cluster-signing-key-file=/f",
                &format!("{other}-cert-file=/f"),
            ],
            "cannot specify --cluster-signing-{cert,key}-file and --cluster-signing-kubelet-client-{cert,key}-file",
        ),
        (&["--concurrent-job-sync=3"], "did you mean --concurrent-job-syncs?"),
        (&["--no-such-thing"], "--no-such-thing: neither the manager nor a module"),
        (&["--concurrent-job-syncs=abc"], "--concurrent-job-syncs=abc: expected a whole number above 0"),
        (&["--concurrent_job_syncs=0"], "--concurrent-job-syncs=0: expected a whole number above 0"),
        (&["--namespace-sync-period", "5"], "--namespace-sync-period=5: expected a duration"),
        (&["--allocate-node-cidrs=maybe"], "--allocate-node-cidrs=maybe: expected true or false"),
        (&["--min-resync-period=12"], "--min-resync-period=12: expected a duration"),
        (&["--min-resync-period"], "--min-resync-period needs a value"),
        (&["--node-eviction-rate"], "--node-eviction-rate needs a value: a decimal number"),
        (&["--node-eviction-rate=-1"], "expected a decimal number that is not negative"),
        (&["--node-monitor-grace-period=-5s"], "expected a duration that is not negative"),
        (&["--max-endpoints-per-slice=0"], "--max-endpoints-per-slice=0: expected from 1 to 1000"),
        (&["--cloud-provider=aws"], "expected external"),
        (&["--kube-api-qps=much"], "invalid value 'much' for '--kube-api-qps"),
        (&["--controllers=*,-jobs"], "--controllers: no module in"),
        (&["--root-ca-file=/nowhere/ca.crt"], "--root-ca-file: cannot read /nowhere/ca.crt"),
        (&["--service-account-private-key-file=/nowhere/sa.key"], "cannot read /nowhere/sa.key"),
        (&["--feature-gates=HPAScaleToZeros=true"], "did you mean HPAScaleToZero?"),
        (&["--feature-gates=APIServerTracing=false"], "locked to true"),
        (&["--vmodule=run=4", "--logging-format=json"], "--vmodule is for --logging-format=text alone"),
        (&[&unknown], "unknown.yaml: concurrent-job-sync: neither"),
        (&[&wrong], "wrong.yaml included"),
        (&[&list], "list.yaml: expected a map of flags"),
    ];
    for (flags, wanted) in table {
        let (code, said) = run(flags)?;
        ensure!(code == Some(1) && said.contains(wanted), "{flags:?}: {code:?}, no {wanted:?} in {said}");
    }
    Ok(())
}

#[test]
fn a_module_that_cannot_be_loaded_may_own_a_flag() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let modules = dir.path().join("modules");
    std::fs::create_dir(&modules)?;
    std::fs::write(modules.join("broken.wasm"), "no module")?;
    let arguments = [
        "run".to_owned(),
        "--status-address=off".to_owned(),
        format!("--kubeconfig={}", no_server(dir.path())?),
        format!("--controllers-dir={}", modules.display()),
        "--no-such-thing=1".to_owned(),
    ];
    let mut program = Program::start(dir.path(), &arguments)?;
    let log = program.log.clone();
    let said =
        async || std::fs::read_to_string(&log).unwrap_or_default().contains("--no-such-thing: no module");
    tokio::runtime::Runtime::new()?.block_on(program.until("warned", said))?;
    let (code, said) = program.terminate()?;
    ensure!(code == Some(0) && said.contains("may (broken.wasm)"), "{code:?}: {said}");
    Ok(())
}

struct Table {
    name: String,
    kind: String,
    default: String,
}

/// The flags of kube-controller-manager.
fn table() -> anyhow::Result<Vec<Table>> {
    let path = root().join("host/manager/src/cli/flags/kube-controller-manager.tsv");
    let text = std::fs::read_to_string(path)?;
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        let mut fields = row.split('\t').map(str::to_owned);
        let mut next = || fields.next().context("a field");
        Ok(Table { name: next()?, kind: next()?, default: next()? })
    })
    .collect()
}

async fn cluster(dir: &Path) -> anyhow::Result<Cluster> {
    Ok(Cluster::start(ClusterConfig::new(dir.join("cluster"))).await?)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_flag_of_kube_controller_manager_is_accepted() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let cluster = cluster(dir.path()).await?;
    let kubeconfig = cluster.kubeconfig_path().display().to_string();
    let mut arguments = vec!["--status-address=off".to_owned()];
    for flag in table()? {
        let value = match (flag.name.as_str(), flag.kind.as_str()) {
            ("kubeconfig" | "authentication-kubeconfig" | "authorization-kubeconfig", _) => {
                kubeconfig.clone()
            }
            // Nothing else is to be in its way.
            ("secure-port", _) => "0".to_owned(),
            // What Kubernetes says if none is given.
            ("leader-migration-config" | "tls-cipher-suites", _) => continue,
            (_, "bool") if flag.default.is_empty() => "false".to_owned(),
            (_, "int" | "float" | "quantity") if flag.default.is_empty() => "0".to_owned(),
            (_, "duration") if flag.default.is_empty() => "0s".to_owned(),
            (_, "int32Slice" | "namedCertKey" | "stringToString") => continue,
            _ => flag.default.clone(),
        };
        arguments.push(format!("--{}={value}", flag.name));
    }
    let mut program = Program::start(dir.path(), &arguments)?;
    let log = program.log.clone();
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    program.until("started", async || said().contains("controller loaded")).await?;
    let (code, said) = tokio::task::spawn_blocking(move || program.terminate()).await??;
    ensure!(code == Some(0), "{code:?}: {said}");
    // Whatever has no effect is said to have none, once.
    let rows = without_effect()?;
    for name in rows.iter().filter(|name| arguments.iter().any(|one| one.starts_with(&format!("--{name}="))))
    {
        let times = said.matches(&format!("--{name} has no effect")).count();
        ensure!(times == 1, "--{name} is mentioned {times} times in {said}");
    }
    let times = said.matches("has no effect").count();
    ensure!(times <= rows.len(), "{said}");
    cluster.shutdown().await;
    Ok(())
}

/// The documentation of the flags.
fn documented() -> anyhow::Result<(PathBuf, String)> {
    let path = root().join("host/docs/flags.md");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    Ok((path, text))
}

/// Flags that the documentation says are without effect.
fn without_effect() -> anyhow::Result<Vec<String>> {
    let (_, text) = documented()?;
    let rows = text.lines().filter(|line| line.contains("| without effect: "));
    Ok(rows.filter_map(|row| Some(row.split('`').nth(1)?.trim_start_matches('-').to_owned())).collect())
}

#[test]
fn the_documentation_lists_every_flag_and_what_becomes_of_it() -> anyhow::Result<()> {
    let output = Command::new(built_program())
        .args(["flags", "--markdown", "--controllers-dir"])
        .arg(built_controllers())
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let rows = String::from_utf8(output.stdout)?;
    let (path, text) = documented()?;
    let start = text.find("| flag |").context("no table")?;
    let length = text[start..].find("\n\n").map_or(text.len() - start, |end| end + 1);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::write(&path, [&text[..start], &rows, &text[start + length..]].concat())?;
        return Ok(());
    }
    for (row, wanted) in text[start..start + length].lines().zip(rows.lines()) {
        ensure!(row == wanted, "{}: {row:?} should be {wanted:?}; UPDATE_DOCS=1 writes it", path.display());
    }
    ensure!(text[start..start + length].lines().count() == rows.lines().count(), "rows are missing");
    for flag in table()? {
        ensure!(rows.contains(&format!("`--{}`", flag.name)), "--{} is not listed", flag.name);
    }
    Ok(())
}

/// What tests say: their sources, those beside the code, and scenarios.
fn tests_text() -> anyhow::Result<String> {
    fn gather(dir: &Path, text: &mut String) -> anyhow::Result<()> {
        for entry in std::fs::read_dir(dir)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if path.is_dir() {
                if !matches!(name.as_str(), "target" | "golden") {
                    gather(&path, text)?;
                }
                continue;
            }
            let is_scenario = name.ends_with(".yaml") && !name.ends_with(".plan.yaml");
            if is_scenario {
                text.push_str(&std::fs::read_to_string(&path)?);
            } else if name.ends_with(".rs") {
                let source = std::fs::read_to_string(&path)?;
                let parts: Vec<_> = path.components().map(|part| part.as_os_str().to_owned()).collect();
                let whole = name.ends_with("tests.rs") || parts.iter().any(|part| part == "tests");
                let tests = if whole {
                    &source
                } else {
                    source.split_once("#[cfg(test)]").map_or("", |(_, tests)| tests)
                };
                text.push_str(tests);
            }
        }
        Ok(())
    }
    let mut text = String::new();
    for dir in ["host/manager/src", "guests", "tests/tests", "tests/parity/scenarios"] {
        gather(&root().join(dir), &mut text)?;
    }
    Ok(text)
}

/// Which flags no test names. Those for the number of keys at once are tried all together, by what the manifests
/// call them.
#[test]
fn every_flag_with_an_effect_is_named_in_a_test() -> anyhow::Result<()> {
    let (_, documentation) = documented()?;
    let none: std::collections::BTreeSet<_> = without_effect()?.into_iter().collect();
    let tests = tests_text()?;
    let mut untested = Vec::new();
    for flag in table()? {
        let name = flag.name;
        ensure!(documentation.contains(&format!("| `--{name}` |")), "--{name} is not in the documentation");
        let of_keys = name.contains("concurrent-") && name.ends_with("-syncs");
        let named = regex::Regex::new(&format!("(^|[^a-z0-9_-]|--){name}($|[^a-z0-9-])"))?;
        if !none.contains(&name) && !of_keys && !named.is_match(&tests) {
            untested.push(name);
        }
    }
    ensure!(untested.is_empty(), "no test names --{}", untested.join(", --"));
    Ok(())
}

/// What `kubeadm init` writes into the pod of kube-controller-manager 1.36, with
/// `--pod-network-cidr`.
fn of_kubeadm(kubeconfig: &str, pki: &str, sa_key: &str) -> Vec<String> {
    [
        "--allocate-node-cidrs=true".to_owned(),
        format!("--authentication-kubeconfig={kubeconfig}"),
        format!("--authorization-kubeconfig={kubeconfig}"),
        "--bind-address=127.0.0.1".to_owned(),
        format!("--client-ca-file={pki}/ca.crt"),
        "--cluster-cidr=10.244.0.0/16".to_owned(),
        "--cluster-name=kubernetes".to_owned(),
        format!("--cluster-signing-cert-file={pki}/ca.crt"),
        format!("--cluster-signing-key-file={pki}/ca.key"),
        "--controllers=*,bootstrapsigner,tokencleaner".to_owned(),
        format!("--kubeconfig={kubeconfig}"),
        "--leader-elect=true".to_owned(),
        format!("--requestheader-client-ca-file={pki}/ca.crt"),
        format!("--root-ca-file={pki}/ca.crt"),
        format!("--service-account-private-key-file={sa_key}"),
        "--service-cluster-ip-range=10.96.0.0/12".to_owned(),
        "--use-service-account-credentials=true".to_owned(),
    ]
    .into()
}

/// A port that is free now.
fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

#[tokio::test(flavor = "multi_thread")]
async fn kubeadms_command_line_starts_it_unchanged() -> anyhow::Result<()> {
    let dir = tempfile::tempdir()?;
    let cluster = cluster(dir.path()).await?;
    let sa_key = dir.path().join("sa.key");
    std::fs::write(&sa_key, rcgen::KeyPair::generate()?.serialize_pem())?;
    let kubeconfig = cluster.kubeconfig_path().to_owned();
    let pki = kubeconfig.with_file_name("pki");
    let mut arguments = of_kubeadm(
        &kubeconfig.display().to_string(),
        &pki.display().to_string(),
        &sa_key.display().to_string(),
    );
    // Several of these tests may run on one machine.
    arguments.push(format!("--secure-port={}", free_port()?));
    arguments.push("--status-address=off".to_owned());
    let mut program = Program::start(dir.path(), &arguments)?;
    let api = cluster.api();
    let deployments = Target::new("apps/v1", "deployments").in_namespace("default");
    api.create(&deployments, &deployment("default", "web", 3)).map_err(|s| anyhow::anyhow!(s.message))?;
    let pods = Target::new("v1", "pods").in_namespace("default");
    let three = async || api.list(&pods, "", "").await.is_ok_and(|(pods, _)| pods.len() == 3);
    program.until("three pods", three).await?;
    let published = Target::new("v1", "configmaps").in_namespace("default").named("kube-root-ca.crt");
    program.until("the authority published", async || api.get(&published).is_ok()).await?;
    let (code, said) = tokio::task::spawn_blocking(move || program.terminate()).await??;
    ensure!(code == Some(0), "{code:?}: {said}");
    cluster.shutdown().await;
    Ok(())
}

/// Flags in the manifests under `host/deploy`.
fn deployed(file: &str) -> anyhow::Result<Vec<String>> {
    let text = std::fs::read_to_string(root().join("host/deploy").join(file))?;
    let words = text.lines().filter_map(|line| line.trim().strip_prefix("- --"));
    Ok(words.map(|flag| format!("--{flag}")).collect())
}

#[test]
fn manifests_for_deploying_have_flags_that_exist() -> anyhow::Result<()> {
    let names = |flags: &[String]| -> Vec<String> {
        flags.iter().map(|flag| flag.split('=').next().unwrap_or_default().to_owned()).collect()
    };
    let pod = names(&deployed("static-pod.yaml")?);
    ensure!(pod == names(&of_kubeadm("", "", "")), "{pod:?}");
    let help = Command::new(built_program()).args(["run", "--help"]).output()?;
    let help = String::from_utf8(help.stdout)?;
    let (_, table) = documented()?;
    let flags = deployed("deployment.yaml")?;
    ensure!(flags.len() > 2);
    for name in names(&flags) {
        let known = help.contains(&format!("{name} ")) || table.contains(&format!("`{name}`"));
        ensure!(known, "{name} is no flag");
    }
    for file in ["static-pod.yaml", "deployment.yaml"] {
        let text = std::fs::read_to_string(root().join("host/deploy").join(file))?;
        let documents = text.split("\n---\n").map(serde_yaml::from_str::<serde_json::Value>);
        let documents = documents.collect::<Result<Vec<_>, _>>()?;
        let whole =
            documents.iter().all(|one| one["kind"].is_string() && one["metadata"]["name"].is_string());
        ensure!(!documents.is_empty() && whole, "{file}");
    }
    Ok(())
}
