//! Conformance of the API server: short exchanges that kube-apiserver was recorded with, played again and compared.
//!
//! In: case files, golden files. Out: where the embedded server's answers
//! differ. Kept: each case has a server of its own; values that a server makes
//! up are named alike on both sides.

mod compare;
mod normalise;
mod play;
mod template;

use std::{collections::BTreeSet, fmt::Write, path::Path};

use anyhow::Context;
use coxswain_localcluster::{Cluster, ClusterConfig};
use serde::Deserialize;

pub use compare::Difference;

use crate::{
    client::{Access, Client},
    ordered::{Ordered, from_yaml},
};

/// One behaviour of the API server: a few requests.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Case {
    /// Name of the file.
    #[serde(skip)]
    pub name: String,
    /// The whole file: values that are written out in it are left alone.
    #[serde(skip)]
    text: String,
    /// Group.
    pub family: String,
    /// Whether it was given to those who wrote the server.
    pub audience: String,
    /// One sentence.
    pub about: String,
    /// Whether it has a namespace of its own.
    #[serde(default = "yes")]
    namespace: bool,
    /// Whether metadata.managedFields is compared.
    #[serde(default)]
    managed_fields: bool,
    /// Places that are not compared.
    #[serde(default)]
    ignore: Vec<String>,
    /// Lists whose order is by chance.
    #[serde(default)]
    unordered: Vec<String>,
    /// Lists of which a part is enough.
    #[serde(default)]
    subset: Vec<Subset>,
    /// What the recorder did afterwards; our server goes with the case.
    #[serde(default)]
    #[allow(dead_code, reason = "read so that unknown keys can be refused")]
    cleanup: Vec<Ordered>,
    /// Requests.
    steps: Vec<play::Step>,
}

/// A list of which a part is enough.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Subset {
    /// Where.
    at: String,
    /// What tells items apart.
    by: String,
    /// What must be there.
    #[serde(default)]
    need: Vec<String>,
}

fn yes() -> bool {
    true
}

/// All cases of a directory, by name.
pub fn read(directory: &Path) -> anyhow::Result<Vec<Case>> {
    let mut paths = Vec::new();
    for entry in
        std::fs::read_dir(directory).with_context(|| format!("cannot read {}", directory.display()))?
    {
        paths.push(entry?.path());
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    paths.sort();
    let read = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path)?;
        let mut case: Case = serde_json::from_str(&from_yaml(&text)?.to_string())?;
        case.name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        case.text = text;
        anyhow::Ok(case)
    };
    paths.iter().map(|path| read(path).with_context(|| format!("{} is not a case", path.display()))).collect()
}

/// Names of cases that do not pass yet, one a line; `#` begins a comment.
pub fn read_waiting(path: &Path) -> anyhow::Result<BTreeSet<String>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let lines = text.lines().map(|line| line.split('#').next().unwrap_or_default().trim());
    Ok(lines.filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// Plays a case against a new server and compares with the golden file.
pub async fn check(case: &Case, golden: &Path) -> anyhow::Result<Vec<Difference>> {
    let text = std::fs::read(golden).with_context(|| format!("no golden file {}", golden.display()))?;
    let golden: serde_json::Value = serde_json::from_slice(&text).context("the golden file is not JSON")?;
    let dir = tempfile::Builder::new().prefix("apiconf-").tempdir()?;
    let cluster = Cluster::start(ClusterConfig::new(dir.path())).await?;
    let client = Client::new(&Access::read(cluster.kubeconfig_path())?)?;
    let played = play::play(case, &client).await;
    cluster.shutdown().await;
    compare::compare(case, &golden["exchanges"], &played?)
}

/// Differences, one under the other.
pub fn report(differences: &[Difference]) -> String {
    let mut out = String::new();
    for difference in differences.iter().take(12) {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "  {difference}");
    }
    if differences.len() > 12 {
        let _ = writeln!(out, "  … and {} more", differences.len() - 12);
    }
    out
}
