//! What this build is, in the form of Kubernetes' version.Info.

use serde::Serialize;

/// The release of Kubernetes whose controllers' behaviour is kept.
const KUBERNETES: (&str, &str) = ("1", "36");

/// Answer of `/version`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Version {
    /// Major version of Kubernetes.
    pub major: String,
    /// Minor version of Kubernetes.
    pub minor: String,
    /// The Kubernetes release kept to, and our own version behind a `+`: alerts
    /// on versions that differ within a cluster look at the former.
    pub git_version: String,
    /// The commit; empty if the build does not say.
    pub git_commit: String,
    /// State of the tree; empty if the build does not say.
    pub git_tree_state: String,
    /// Time of the build; empty if the build does not say.
    pub build_date: String,
    /// No Go is in here.
    pub go_version: String,
    /// The compiler.
    pub compiler: String,
    /// Operating system and architecture, as Go names them.
    pub platform: String,
}

/// This build.
pub fn version() -> Version {
    let (major, minor) = KUBERNETES;
    let architecture = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    };
    Version {
        major: major.to_owned(),
        minor: minor.to_owned(),
        git_version: format!("v{major}.{minor}.0+coxswain.{}", env!("CARGO_PKG_VERSION")),
        git_commit: option_env!("COXSWAIN_GIT_COMMIT").unwrap_or_default().to_owned(),
        git_tree_state: String::new(),
        build_date: option_env!("COXSWAIN_BUILD_DATE").unwrap_or_default().to_owned(),
        go_version: String::new(),
        compiler: "rustc".to_owned(),
        platform: format!("{}/{architecture}", std::env::consts::OS),
    }
}
