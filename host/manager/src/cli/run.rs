//! `coxswain run`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use anyhow::{Context, bail};
use coxswain::{
    clock::SystemClock,
    engine::EngineConfig,
    entropy::Entropy,
    manager::{AlwaysWrite, Config, Given, Manager, Selection},
    residence, serve, serving, traces,
};
use tokio_util::sync::CancellationToken;

use super::{
    LogArgs, control,
    control::ControlArgs,
    election::ElectionArgs,
    flags::Rest,
    flags::gates::{self, Gate},
    limits::LimitArgs,
    oversight::OversightArgs,
    rollout::RolloutArgs,
    serving::ServingArgs,
    startup,
};

/// Where `coxswain run` and `coxswain status` meet unless told otherwise.
pub const STATUS_ADDRESS: &str = "127.0.0.1:7257";

/// Flags of `run`. Options of the controllers are flags too: `coxswain inspect
/// FILE` lists them.
#[derive(clap::Args)]
#[command(next_help_heading = "API server")]
pub struct Args {
    /// Path of a kubeconfig. Default: $KUBECONFIG, ~/.kube/config, or the pod's
    /// own service account.
    #[arg(long)]
    kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig.
    #[arg(long)]
    context: Option<String>,
    /// Address of the API server, in the place of the kubeconfig's.
    #[arg(long)]
    master: Option<String>,
    /// Directory of controller modules (*.wasm), followed while running.
    #[arg(long, env = "COXSWAIN_CONTROLLERS_DIR", help_heading = "Controllers")]
    controllers_dir: Option<PathBuf>,
    #[command(flatten)]
    pub manager: ManagerArgs,
    #[command(flatten)]
    election: ElectionArgs,
    #[command(flatten)]
    log: LogArgs,
    /// List the flags that the controllers bring, and end.
    #[arg(long, help_heading = "Controllers")]
    help_controllers: bool,
}

impl Args {
    /// Starts logging; what is logged unless the user says otherwise is `least`.
    ///
    /// # Errors
    ///
    /// Flags contradict each other.
    pub fn init_log(&self, least: &str) -> anyhow::Result<()> {
        self.log.init_from(least)
    }

    /// The settings of a manager, and a file that they name and that has to be
    /// kept for as long. Flags of the modules are judged first where there is no
    /// cluster to go on with.
    pub async fn config(
        &self,
        gates: &[Gate],
        rest: &Rest,
    ) -> anyhow::Result<(Config, Option<tempfile::NamedTempFile>)> {
        let mut options = rest.given.clone();
        gates::hand_over(gates, &mut options);
        let controllers_dir = super::controllers_dir(self.controllers_dir.as_deref())?;
        let kube = match kube_config(self).await {
            Ok(kube) => kube,
            Err(error) => {
                startup::judge_alone(&controllers_dir, &self.manager, gates, rest).await?;
                return Err(error);
            }
        };
        let authority = default_root_ca(self, &mut options)?;
        let mut config = self.manager.config(kube, controllers_dir, options, 20.0, 30)?;
        config.operating.authority = authority_file(self)?;
        Ok((config, authority))
    }
}

/// Flags that `run` and `demo` share.
#[derive(clap::Args)]
#[command(next_help_heading = "Controllers")]
pub struct ManagerArgs {
    /// Controllers to run: `*` is all, `name` that one, `-name` not that one.
    #[arg(long, default_value = "*", allow_hyphen_values = true)]
    controllers: Vec<String>,
    /// Requests a second for each controller; 0 or less lifts the limit.
    #[arg(long, allow_hyphen_values = true)]
    kube_api_qps: Option<f64>,
    /// Requests at once after a quiet time, for each controller.
    #[arg(long)]
    kube_api_burst: Option<u32>,
    /// Where compiled modules are kept. Default: the user's cache directory.
    #[arg(long)]
    cache_dir: Option<PathBuf>,
    /// Address of the status endpoint; port 0 takes a free one, `off` none.
    #[arg(long)]
    status_address: Option<String>,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    oversight: OversightArgs,
    #[command(flatten)]
    rollout: RolloutArgs,
    #[command(flatten)]
    pub control: ControlArgs,
    #[command(flatten)]
    pub startup: startup::StartupArgs,
    #[command(flatten)]
    pub serving: ServingArgs,
}

impl ManagerArgs {
    /// The settings of a manager. `qps` and `burst` are the defaults.
    ///
    /// # Errors
    ///
    /// Flags contradict each other, or name what cannot be used.
    pub fn config(
        &self,
        kube: kube::Config,
        controllers_dir: PathBuf,
        options: Given,
        qps: f64,
        burst: u32,
    ) -> anyhow::Result<Config> {
        Ok(Config {
            kube,
            controllers_dir,
            selection: self.selection(),
            options,
            qps: self.kube_api_qps.unwrap_or(qps),
            burst: self.kube_api_burst.unwrap_or(burst),
            engine: self.engine(),
            discovery_interval: Duration::from_secs(5),
            clock: Arc::new(SystemClock),
            entropy: Entropy::from_os(),
            gate: Arc::new(AlwaysWrite),
            limits: self.limits.rules(),
            rollout: self.rollout.rollout(),
            observers: Vec::new(),
            preview: None,
            oversight: self.oversight.settings(),
            election: None,
            operating: self.startup.operating(None),
            serving: self.serving.config()?,
        })
    }

    /// How modules are compiled and kept.
    pub fn engine(&self) -> EngineConfig {
        let mut engine = EngineConfig::default();
        if let Some(dir) = &self.cache_dir {
            engine.cache_dir = Some(dir.clone());
        }
        engine
    }

    /// The file that says what controllers may do.
    pub fn policy(&self) -> Option<&Path> {
        self.oversight.policy()
    }

    /// Which controllers run.
    pub fn selection(&self) -> Selection {
        Selection::parse(&self.controllers.join(","))
    }

    /// Controllers that flags about single ones name, each with its flag.
    pub fn named(&self) -> Vec<(&'static str, String)> {
        let (limits, rollout) = (self.limits.rules(), self.rollout.rollout());
        let limits = limits.names().map(|name| ("--limit", name.to_owned()));
        let canaries = rollout.canaries.iter().map(|(name, _)| ("--canary", name.clone()));
        let shadows = rollout.shadows.iter().map(|(name, _)| ("--shadow", name.clone()));
        limits.chain(canaries).chain(shadows).collect()
    }

    /// The status endpoint's address; none if it is off.
    pub fn status_address(&self, default: &str) -> anyhow::Result<Option<SocketAddr>> {
        match self.status_address.as_deref().unwrap_or(default) {
            "off" | "none" | "" => Ok(None),
            address => Ok(Some(
                address
                    .parse()
                    .with_context(|| format!("--status-address={address}: expected IP:PORT, or off"))?,
            )),
        }
    }
}

/// Runs the manager until it is interrupted.
pub fn main(args: Args, rest: Rest) -> anyhow::Result<ExitCode> {
    args.log.init()?;
    if args.help_controllers {
        let dir = args.controllers_dir.unwrap_or_else(super::default_controllers_dir);
        return super::list_flags::help_controllers(&dir);
    }
    super::to_its_end(run(args, rest))
}

async fn run(args: Args, rest: Rest) -> anyhow::Result<ExitCode> {
    let gates = args.manager.startup.gates()?;
    let election = args.election.config()?;
    let status_address = args.manager.status_address(STATUS_ADDRESS)?;
    let serving = args.manager.serving.shown(&rest.effective)?;
    serving::judge(&serving).await?;
    // Held until the end: modules may look at it again.
    let (mut config, _authority) = args.config(&gates, &rest).await?;
    config.operating.flags = rest.effective.clone();
    config.operating.features = gates::features(&gates);
    config.election = election;
    let controllers_dir = config.controllers_dir.clone();
    tracing::info!(server = %config.kube.cluster_url, controllers_dir = %controllers_dir.display(), "coxswain {} starts", env!("CARGO_PKG_VERSION"));
    let traces = traces::start(config.entropy.clone())?;
    let manager = Manager::start(config).await?;
    let cancel = CancellationToken::new();
    if let Some(address) = status_address {
        match serve::start(address, manager.clone(), cancel.clone()).await {
            Ok(bound) => tracing::info!("status at http://{bound}/status"),
            // Another manager on this machine is no reason not to run.
            Err(error) => tracing::warn!(
                "no status endpoint at {address}: {error}; choose another with --status-address"
            ),
        }
    }
    let _control = args.manager.control.start(None, &manager, &cancel).await;
    control::reload_on_hangup(&manager)?;
    let endpoints = serving::start(manager.clone(), serving, Vec::new(), cancel.clone()).await;
    match endpoints {
        Ok(Some(address)) => tracing::info!("endpoints at https://{address}"),
        Ok(None) => {}
        Err(error) => {
            manager.shutdown().await;
            return Err(error.into());
        }
    }
    let run = async {
        if !startup::admit(&manager, &controllers_dir, &args.manager, &gates, &rest).await {
            return false;
        }
        residence::keep_small(|| manager.modules()).await
    };
    let good = tokio::select! {
        admitted = run => admitted,
        done = super::interrupted() => { done?; true }
        reason = manager.election().lost() => {
            tracing::error!("{reason}; ending, as --leader-elect-on-loss=exit asks");
            false
        }
    };
    if good {
        tracing::info!("stopping");
    }
    manager.shutdown().await;
    cancel.cancel();
    if let Some(traces) = traces {
        traces.finish().await;
    }
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A pod's authority.
const IN_CLUSTER: &str = "/var/run/secrets/kubernetes.io/serviceaccount/ca.crt";

/// The cluster that the kubeconfig given by flag leads to.
fn cluster(args: &Args) -> anyhow::Result<Option<kube::config::Cluster>> {
    let Some(path) = &args.kubeconfig else { return Ok(None) };
    let file = kube::config::Kubeconfig::read_from(path)
        .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
    let context = args.context.as_ref().or(file.current_context.as_ref());
    let of_context = |name: &String| file.contexts.iter().find(|c| c.name == *name)?.context.clone();
    let cluster = context.and_then(of_context).map(|context| context.cluster);
    Ok(cluster.and_then(|name| file.clusters.iter().find(|c| c.name == name)?.cluster.clone()))
}

/// The file of the authority of the API server, if it is one.
fn authority_file(args: &Args) -> anyhow::Result<Option<PathBuf>> {
    if args.kubeconfig.is_none() {
        // Without a kubeconfig anywhere, we are a pod.
        let pod = std::env::var_os("KUBERNETES_SERVICE_HOST").is_some() && Path::new(IN_CLUSTER).is_file();
        let elsewhere = kube::config::Kubeconfig::read().is_ok();
        return Ok((pod && !elsewhere).then(|| IN_CLUSTER.into()));
    }
    let cluster = cluster(args)?.filter(|cluster| cluster.certificate_authority_data.is_none());
    Ok(cluster.and_then(|cluster| cluster.certificate_authority).map(PathBuf::from))
}

/// Where no `--root-ca-file` is given, the kubeconfig's authority is published, as kube-controller-manager does.
/// Gives the file back if one had to be made.
fn default_root_ca(args: &Args, options: &mut Given) -> anyhow::Result<Option<tempfile::NamedTempFile>> {
    const FLAG: &str = "root-ca-file";
    if options.contains(FLAG) {
        return Ok(None);
    }
    let (Some(path), Some(cluster)) = (&args.kubeconfig, cluster(args)?) else {
        if args.kubeconfig.is_none() && Path::new(IN_CLUSTER).is_file() {
            options.set(FLAG, IN_CLUSTER);
        }
        return Ok(None);
    };
    if let Some(authority) = cluster.certificate_authority {
        options.set(FLAG, authority);
        return Ok(None);
    }
    let Some(data) = cluster.certificate_authority_data else { return Ok(None) };
    use base64::Engine;
    let pem = base64::engine::general_purpose::STANDARD.decode(data).with_context(|| {
        format!("certificate-authority-data in {} is no base64; write the kubeconfig anew", path.display())
    })?;
    let made = tempfile::NamedTempFile::new().context("cannot make a temporary file")?;
    std::fs::write(made.path(), pem).with_context(|| format!("cannot write {}", made.path().display()))?;
    options.set(FLAG, made.path().display().to_string());
    Ok(Some(made))
}

async fn kube_config(args: &Args) -> anyhow::Result<kube::Config> {
    let options = kube::config::KubeConfigOptions { context: args.context.clone(), ..Default::default() };
    let mut config = match &args.kubeconfig {
        Some(path) => {
            if !path.exists() {
                bail!("there is no kubeconfig at {}; give its path with --kubeconfig", path.display());
            }
            let file = kube::config::Kubeconfig::read_from(path)
                .with_context(|| format!("cannot read the kubeconfig {}", path.display()))?;
            kube::Config::from_custom_kubeconfig(file, &options)
                .await
                .with_context(|| format!("the kubeconfig {} cannot be used", path.display()))?
        }
        None if args.context.is_some() => {
            kube::Config::from_kubeconfig(&options).await.context("cannot use the kubeconfig")?
        }
        None => kube::Config::infer().await.context(
            "no --kubeconfig given, and neither $KUBECONFIG, ~/.kube/config nor a pod's service account can be used",
        )?,
    };
    if let Some(master) = args.master.as_ref().filter(|master| !master.is_empty()) {
        config.cluster_url = master.parse().with_context(|| format!("--master={master}: expected a URL"))?;
    }
    // A watch is quiet for as long as nothing happens: the informers have their own limits.
    config.read_timeout = None;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    /// The option that a kubeconfig with this about its cluster leads to, and the content of its file.
    fn authority(of_cluster: &str, given: Option<&str>) -> anyhow::Result<(Option<String>, Option<String>)> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("config");
        std::fs::write(
            &path,
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
                 contexts: [{{name: c, context: {{cluster: k, user: u}}}}, {{name: d, context: {{cluster: other, user: u}}}}]\n\
                 clusters: [{{name: other, cluster: {{server: 'https://x', certificate-authority: /other.crt}}}}, \
                 {{name: k, cluster: {{server: 'https://x'{of_cluster}}}}}]\n"
            ),
        )?;
        let line = ["coxswain", "run", "--kubeconfig", &path.display().to_string()].map(str::to_owned);
        let Command::Run(args) = Cli::try_parse_from(line)?.command else { anyhow::bail!("not run") };
        let mut options = Given::new();
        if let Some(file) = given {
            options.set("root-ca-file", file);
        }
        let made = default_root_ca(&args, &mut options)?;
        let content = made.map(|file| std::fs::read_to_string(file.path())).transpose()?;
        Ok((options.get("root-ca-file").map(str::to_owned), content))
    }

    #[tokio::test]
    async fn a_directory_of_controllers_must_be_there_at_the_start() -> anyhow::Result<()> {
        let line = ["coxswain", "run", "--controllers-dir", "/does/not/exist"].map(str::to_owned);
        let Command::Run(args) = Cli::try_parse_from(line)?.command else { anyhow::bail!("not run") };
        let error =
            args.config(&[], &Rest::default()).await.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(
            error.contains("no controllers at /does/not/exist") && error.contains("--controllers-dir"),
            "{error}"
        );
        Ok(())
    }

    #[tokio::test]
    async fn each_flag_of_the_clients_and_of_starting_reaches_its_setting() -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        let kubeconfig = dir.path().join("config");
        std::fs::write(
            &kubeconfig,
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\n\
             clusters: [{name: k, cluster: {server: 'http://127.0.0.1:9'}}]\nusers: [{name: u, user: {}}]\n",
        )?;
        let line = [
            "coxswain",
            "run",
            "--kubeconfig",
            &kubeconfig.display().to_string(),
            "--controllers-dir",
            &dir.path().display().to_string(),
            "--kube-api-qps=3.5",
            "--kube-api-burst=7",
            "--controller-start-interval=1m0s",
            "--controller-shutdown-timeout=20s",
        ]
        .map(str::to_owned);
        let Command::Run(args) = Cli::try_parse_from(line)?.command else { anyhow::bail!("not run") };
        let (config, _) = args.config(&[], &Rest::default()).await?;
        assert_eq!((config.qps, config.burst), (3.5, 7));
        assert_eq!(config.operating.start_interval, Duration::from_secs(60));
        assert_eq!(config.operating.shutdown_timeout, Duration::from_secs(20));
        Ok(())
    }

    #[test]
    fn the_kubeconfigs_authority_is_published_unless_another_is_named() {
        let named = authority(", certificate-authority: /own.crt", None).unwrap();
        assert_eq!(named, (Some("/own.crt".to_owned()), None));
        let given = authority(", certificate-authority: /own.crt", Some("/given.crt")).unwrap();
        assert_eq!(given, (Some("/given.crt".to_owned()), None));
        let (flag, content) = authority(", certificate-authority-data: UEVN", None).unwrap();
        assert!(flag.is_some());
        assert_eq!(content.as_deref(), Some("PEM"));
        assert_eq!(authority("", None).unwrap(), (None, None));
        let error = authority(", certificate-authority-data: '%%'", None).unwrap_err().to_string();
        assert!(error.contains("write the kubeconfig anew"), "{error}");
    }
}
