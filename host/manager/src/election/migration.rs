//! Leader migration: the file of `--leader-migration-config`.
//!
//! In: a LeaderMigrationConfiguration of controllermanager.config.k8s.io, in any
//! of its versions. Out: which controllers migrate and which component has them.
//! Strict as upstream's: unknown fields are errors.

use serde::Deserialize;

/// What we are called in such a file: whoever replaces kube-controller-manager
/// takes its place there.
const COMPONENT: &str = "kube-controller-manager";

/// Which controllers migrate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Name of their lease.
    pub leader_name: String,
    /// Each with the component that has it; `*` is any.
    controllers: Vec<(String, String)>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum MigrationError {
    /// It is not YAML of the right form.
    #[error("{0}")]
    Form(String),
    /// It is something else.
    #[error(
        "it is a {kind:?} of {api_version:?}; expected a LeaderMigrationConfiguration of controllermanager.config.k8s.io/v1, v1beta1 or v1alpha1"
    )]
    Kind {
        /// Its kind.
        kind: String,
        /// Its apiVersion.
        api_version: String,
    },
    /// A field is wrong.
    #[error("{field}: {reason}")]
    Field {
        /// Which.
        field: String,
        /// Why.
        reason: &'static str,
    },
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct File {
    api_version: String,
    kind: String,
    #[serde(default)]
    leader_name: String,
    #[serde(default)]
    resource_lock: Option<String>,
    #[serde(default)]
    controller_leaders: Vec<ControllerLeader>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ControllerLeader {
    #[serde(default)]
    name: String,
    #[serde(default)]
    component: String,
}

impl Default for Migration {
    /// What applies without a file: the controllers that moved to the cloud
    /// controller manager.
    fn default() -> Self {
        let any = |name: &str| (name.to_owned(), "*".to_owned());
        Self {
            leader_name: "cloud-provider-extraction-migration".into(),
            controllers: ["route", "service", "cloud-node-lifecycle"]
                .map(|name| any(&format!("{name}-controller")))
                .into(),
        }
    }
}

impl Migration {
    /// Reads a file's text.
    pub fn parse(text: &str) -> Result<Self, MigrationError> {
        let file: File =
            serde_yaml::from_str(text).map_err(|error| MigrationError::Form(error.to_string()))?;
        let version = file.api_version.strip_prefix("controllermanager.config.k8s.io/");
        let known = matches!(version, Some("v1" | "v1beta1" | "v1alpha1"));
        if !known || file.kind != "LeaderMigrationConfiguration" {
            return Err(MigrationError::Kind { kind: file.kind, api_version: file.api_version });
        }
        let wrong = |field: String, reason| Err(MigrationError::Field { field, reason });
        if file.leader_name.is_empty() {
            return wrong("leaderName".into(), "must be set");
        }
        if file.resource_lock.is_some_and(|lock| lock != "leases") {
            return wrong("resourceLock".into(), "only \"leases\" is supported");
        }
        for (index, one) in file.controller_leaders.iter().enumerate() {
            for (field, value) in [("name", &one.name), ("component", &one.component)] {
                if value.is_empty() {
                    return wrong(format!("controllerLeaders[{index}].{field}"), "must be set");
                }
            }
        }
        let controllers = file.controller_leaders.into_iter().map(|one| (one.name, one.component)).collect();
        Ok(Self { leader_name: file.leader_name, controllers })
    }

    /// The component that has a controller; none if it does not migrate. Of two
    /// entries the later one counts, as upstream.
    pub(super) fn component_of(&self, name: &str, aliases: &[String]) -> Option<&str> {
        let called = |entry: &str| entry == name || aliases.iter().any(|alias| alias == entry);
        self.controllers.iter().rev().find(|(entry, _)| called(entry)).map(|(_, component)| &**component)
    }

    /// Whether a component is us.
    pub(super) fn is_ours(component: &str) -> bool {
        component == COMPONENT || component == "*"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "apiVersion: controllermanager.config.k8s.io/v1alpha1\nkind: LeaderMigrationConfiguration\n";

    #[test]
    fn a_file_of_each_version_is_read() {
        for version in ["v1alpha1", "v1beta1", "v1"] {
            let text = format!(
                "{}leaderName: move\nresourceLock: leases\ncontrollerLeaders:\n- name: a\n  component: b\n",
                HEAD.replace("v1alpha1", version)
            );
            let read = Migration::parse(&text).unwrap();
            assert_eq!(read.leader_name, "move");
            assert_eq!(read.component_of("a", &[]), Some("b"));
            assert_eq!(read.component_of("c", &[]), None);
        }
    }

    #[test]
    fn what_is_wrong_with_a_file_is_said() {
        let table = [
            (String::new(), "unexpected end"),
            (
                "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n".into(),
                "KubeletConfiguration",
            ),
            (HEAD.to_owned(), "leaderName: must be set"),
            (format!("{HEAD}leaderName: m\nfoo: bar\n"), "foo"),
            (format!("{HEAD}leaderName: m\nresourceLock: endpoints\n"), "resourceLock: only \"leases\""),
            (
                format!("{HEAD}leaderName: m\ncontrollerLeaders: [{{name: a}}]\n"),
                "controllerLeaders[0].component",
            ),
        ];
        for (text, wanted) in table {
            let error = Migration::parse(&text).unwrap_err().to_string();
            assert!(error.contains(wanted), "{text}: {error}");
        }
    }
}
