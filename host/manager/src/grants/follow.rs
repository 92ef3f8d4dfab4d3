//! A policy, followed.
//!
//! In: a file that may change at any time. Out: grants that change with it, and
//! what is wrong with the file. Invariant: the last good policy stays in force
//! until there is another good one.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;

use super::{Entry, Grants, Policy, PolicyError};
use crate::contract::Manifest;

/// The policy in force, and who is held by it.
#[derive(Default)]
pub struct Policies {
    path: Option<PathBuf>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    policy: Policy,
    /// Whether nothing is granted, since not all names of the first policy are
    /// known to be those of modules.
    closed: bool,
    /// The text that was last looked at, good or not.
    text: Option<String>,
    trouble: Option<String>,
    /// Grants by controller, with its aliases.
    grants: BTreeMap<String, (Vec<String>, Arc<Grants>)>,
}

impl State {
    fn entries(&self, name: &str, aliases: &[String]) -> Vec<Entry> {
        if self.closed {
            return vec![Entry { name: "*".to_owned(), allow: Some(Vec::new()), deny: Vec::new() }];
        }
        self.policy.entries(name, aliases)
    }
}

impl Policies {
    /// Reads a policy; none grants everything. Nothing is granted until
    /// [`Policies::reload`] has found that it names no controller in vain: a
    /// slip of the pen must not grant what was to be denied.
    pub fn open(path: Option<&Path>) -> Result<Self, PolicyError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let policy = Policy::read(path)?;
        let text = std::fs::read_to_string(path).ok();
        let state = State { policy, text, closed: true, ..State::default() };
        Ok(Self { path: Some(path.to_owned()), state: Mutex::new(state) })
    }

    /// What a controller is granted. The same for all versions of its module.
    pub fn grants(&self, manifest: &Manifest) -> Arc<Grants> {
        let mut state = self.state.lock();
        let entries = state.entries(&manifest.name, &manifest.aliases);
        let (aliases, grants) = state
            .grants
            .entry(manifest.name.clone())
            .or_insert_with(|| (Vec::new(), Grants::everything(&manifest.name)));
        aliases.clone_from(&manifest.aliases);
        grants.set(entries);
        grants.clone()
    }

    /// Looks whether the file has changed, and puts it in force if it is good.
    /// `known` are names and aliases of modules. Names the controllers for which
    /// something else holds now.
    pub fn reload(&self, known: &[String]) -> Vec<String> {
        let Some(path) = &self.path else { return Vec::new() };
        let read = std::fs::read_to_string(path);
        let mut state = self.state.lock();
        let read = match read {
            Ok(text) if state.text.as_ref() == Some(&text) && !state.closed => return Vec::new(),
            Ok(text) => {
                let parsed = Policy::parse(&text)
                    .map_err(|reason| PolicyError::Invalid { path: path.clone(), reason });
                state.text = Some(text);
                parsed.and_then(|policy| policy.check_names(path, known).map(|()| policy))
            }
            Err(source) => {
                state.text = None;
                Err(PolicyError::Read { path: path.clone(), reason: source })
            }
        };
        match read {
            Ok(policy) => {
                state.trouble = None;
                state.policy = policy;
                state.closed = false;
                let state = &*state;
                let changed = state
                    .grants
                    .iter()
                    .filter(|(name, (aliases, grants))| grants.set(state.entries(name, aliases)));
                let changed: Vec<String> = changed.map(|(name, _)| name.clone()).collect();
                tracing::info!(policy = %path.display(), changed_for = changed.join(", "), "the policy is in force");
                changed
            }
            Err(error) => {
                let text = error.to_string();
                // A file that is gone is looked at again and again.
                if state.trouble.as_ref() != Some(&text) {
                    let instead = if state.closed {
                        "nothing is granted"
                    } else {
                        "the policy read before stays in force"
                    };
                    tracing::error!("{text}; {instead}");
                    state.trouble = Some(text);
                }
                Vec::new()
            }
        }
    }

    /// Why the newest policy is not in force.
    pub fn trouble(&self) -> Option<String> {
        self.state.lock().trouble.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        contract::{ClientLimits, GroupResource},
        grants::Place,
    };

    fn manifest(name: &str) -> Manifest {
        Manifest {
            name: name.into(),
            aliases: vec!["short".into()],
            version: String::new(),
            state_format: 0,
            accepts_state_formats: vec![],
            sources: vec![],
            reads: vec![],
            writes: vec![],
            lookups: vec![],
            options: vec![],
            event_component: String::new(),
            concurrency: 0,
            concurrency_flag: String::new(),
            client_limits: ClientLimits { qps: 0, burst: 0 },
            metrics: Vec::new(),
        }
    }

    #[test]
    fn the_last_good_policy_stays_in_force() -> anyhow::Result<()> {
        let dir = tempfile::tempdir()?;
        let path = dir.path().join("policy.yaml");
        let text = |deny: &str| {
            format!(
                "apiVersion: coxswain.dev/v1alpha1\nkind: Policy\ncontrollers:\n- name: short\n  deny:\n  - resources: [{deny}]\n"
            )
        };
        std::fs::write(&path, text("pods"))?;
        let policies = Policies::open(Some(&path))?;
        let known = ["web".to_owned(), "short".to_owned()];
        let grants = policies.grants(&manifest("web"));
        let read = |resource: &str| {
            let resource =
                GroupResource { group: String::new(), version: "v1".into(), resource: resource.into() };
            grants.allow_read(&resource, Place::Everywhere)
        };
        assert!(!read("pods") && !read("nodes"), "until the names are known nothing is granted");
        assert!(policies.reload(&["other".to_owned()]).is_empty());
        assert!(policies.trouble().is_some_and(|trouble| trouble.contains("no module is called so")));
        assert!(!read("nodes"));
        assert_eq!(policies.reload(&known), ["web"]);
        assert_eq!(policies.trouble(), None);
        assert!(!read("pods") && read("nodes"));
        assert!(policies.reload(&known).is_empty());
        for bad in ["nonsense: [", &text("PODS"), &text("nodes").replace("short", "nobody")] {
            std::fs::write(&path, bad)?;
            assert!(policies.reload(&known).is_empty());
            assert!(policies.trouble().is_some(), "{bad}");
            assert!(!read("pods") && read("nodes"), "{bad}");
        }
        std::fs::remove_file(&path)?;
        policies.reload(&known);
        assert!(policies.trouble().is_some_and(|trouble| trouble.contains("cannot read")));
        assert!(!read("pods"));
        std::fs::write(&path, text("nodes"))?;
        assert_eq!(policies.reload(&known), ["web"]);
        assert_eq!(policies.trouble(), None);
        assert!(read("pods") && !read("nodes"));
        Ok(())
    }
}
