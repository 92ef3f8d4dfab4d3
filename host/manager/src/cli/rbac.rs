//! `coxswain rbac FILE…`.

use std::{path::PathBuf, process::ExitCode};

use anyhow::{Context, bail};
use coxswain::{
    credentials,
    engine::{Engine, EngineConfig},
    grants::Policy,
    rbac::{Holder, Leases},
};
use k8s_openapi::{
    Resource,
    api::{core::v1::ServiceAccount, rbac::v1::Subject},
};
use serde::Serialize;

/// Flags of `rbac`.
#[derive(clap::Args)]
pub struct Args {
    /// Modules, or directories of modules (*.wasm).
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The policy that the manager is given: roles hold no more than it grants,
    /// and are bound in single namespaces where it names those.
    #[arg(long, value_name = "FILE")]
    policy: Option<PathBuf>,
    /// What the names of roles and bindings begin with.
    #[arg(long, default_value = "coxswain:")]
    name_prefix: String,
    /// The service account that the manager runs as.
    #[arg(long, value_name = "NAMESPACE/NAME", default_value = "kube-system/coxswain", value_parser = parse_account)]
    service_account: (String, String),
    /// Bind roles to the service accounts too that controllers work as under this
    /// flag of `coxswain run`.
    #[arg(long)]
    use_service_account_credentials: bool,
    /// Whether leaders are elected, as by `coxswain run`.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// Name of the lease.
    #[arg(long, default_value = "kube-controller-manager")]
    leader_elect_resource_name: String,
    /// Namespace of the lease.
    #[arg(long, default_value = "kube-system")]
    leader_elect_resource_namespace: String,
    /// Whether each controller has a lease of its own.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect_per_controller: bool,
}

fn parse_account(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() && !name.contains('/') => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("expected NAMESPACE/NAME".to_owned()),
    }
}

/// Prints roles and bindings.
pub fn main(args: Args) -> anyhow::Result<ExitCode> {
    let files = modules(&args.files)?;
    let engine = Engine::new(EngineConfig::default())?;
    let runtime = super::runtime()?;
    let (namespace, service_account) = args.service_account;
    let holder = Holder { prefix: args.name_prefix, namespace, service_account };
    let policy = args.policy.as_deref().map(Policy::read).transpose()?;
    let mut known = Vec::new();
    let mut leases = vec![args.leader_elect_resource_name.clone()];
    let mut documents = Vec::new();
    for file in files {
        let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let module = runtime
            .block_on(engine.load(bytes))
            .with_context(|| format!("{} is no module that this host can run", file.display()))?;
        let manifest = module.manifest();
        if args.leader_elect_per_controller {
            leases.push(format!("{}-{}", args.leader_elect_resource_name, manifest.name));
        }
        known.extend(std::iter::once(&manifest.name).chain(&manifest.aliases).cloned());
        let entries = policy.as_ref().map_or_else(Vec::new, |p| p.entries(&manifest.name, &manifest.aliases));
        let mut permissions = holder.for_module_within(manifest, &entries);
        let account = credentials::account(manifest).filter(|_| args.use_service_account_credentials);
        if let Some((role, binding)) = &mut permissions.everywhere {
            binding.subjects.get_or_insert_default().extend(account.map(of_account));
            documents.extend([yaml(role)?, yaml(binding)?]);
        }
        for (role, binding) in &mut permissions.namespaces {
            binding.subjects.get_or_insert_default().extend(account.map(of_account));
            documents.extend([yaml(role)?, yaml(binding)?]);
        }
    }
    if let (Some(policy), Some(path)) = (&policy, &args.policy) {
        policy.check_names(path, &known)?;
    }
    if args.leader_elect {
        let leases = Leases { namespace: args.leader_elect_resource_namespace, names: leases };
        let (role, binding) = holder.for_leases(&leases);
        documents.extend([yaml(&role)?, yaml(&binding)?]);
    }
    say!("{}", documents.join("---\n").trim_end());
    Ok(ExitCode::SUCCESS)
}

/// The service account that a controller works as.
fn of_account(name: &str) -> Subject {
    Subject {
        kind: <ServiceAccount as Resource>::KIND.to_owned(),
        name: name.to_owned(),
        namespace: Some(credentials::NAMESPACE.to_owned()),
        api_group: None,
    }
}

fn modules(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for path in paths {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let entries = std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut found: Vec<PathBuf> = entries
            .filter_map(|entry| Some(entry.ok()?.path()))
            .filter(|path| path.extension().is_some_and(|extension| extension == "wasm"))
            .collect();
        if found.is_empty() {
            bail!("there are no modules (*.wasm) in {}", path.display());
        }
        found.sort();
        files.extend(found);
    }
    Ok(files)
}

/// An object as YAML, what it is first.
fn yaml<T: Resource + Serialize>(object: &T) -> anyhow::Result<String> {
    let value = serde_json::to_value(object)?;
    Ok(serde_yaml::to_string(&value)?)
}
