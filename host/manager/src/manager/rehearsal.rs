//! What a new version goes through between warmed and live: first the shadow,
//! then a share of the keys.

use std::{path::PathBuf, str::FromStr, sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    Manager,
    install::Work,
    not_running,
    rollout::{Candidate, Origin},
    stage::Stage,
};
use crate::{
    controller::{
        Canary, Controller, Loaded,
        shadow::{Shadow, Surroundings},
    },
    engine::short,
    goflag,
    key::Cause,
    telemetry::ShadowLog,
};

/// Pause between two looks at how a candidate does.
const LOOK: Duration = Duration::from_millis(50);
/// Where there is too little to do for a candidate to show itself, all keys are
/// looked at again after so long.
const AGAIN: Duration = Duration::from_secs(10);
/// How long a canary has its share, unless told otherwise.
const HOLD: Duration = Duration::from_secs(300);

/// What a new version goes through before it is live. By default nothing.
#[derive(Clone, Debug, Default)]
pub struct Rollout {
    /// Candidates that are only compared, each by the name of its controller.
    pub shadows: Vec<(String, PathBuf)>,
    /// In how many reconciles a new version must agree with the one that runs;
    /// 0: it is not compared.
    pub agreements: u64,
    /// Whether it has a share of the keys for a while after that.
    pub canary: Option<CanaryRule>,
    /// The same for single controllers, by name or alias; these win.
    pub canaries: Vec<(String, CanaryRule)>,
}

impl Rollout {
    /// The share that a new version of a controller has at first.
    pub fn canary(&self, name: &str, aliases: &[String]) -> Option<CanaryRule> {
        let is_called = |one: &str| one == name || aliases.iter().any(|alias| alias == one);
        let own = self.canaries.iter().rev().find(|(one, _)| is_called(one));
        own.map(|(_, rule)| *rule).or(self.canary)
    }
}

/// A share of the keys, for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryRule {
    /// The share.
    pub percent: u8,
    /// For how long.
    pub hold: Duration,
}

impl FromStr for CanaryRule {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (share, hold) = text.split_once(':').unwrap_or((text, ""));
        let expected = || format!("expected a share and a time such as 10%:5m, not {text:?}");
        let percent = share.strip_suffix('%').unwrap_or(share).parse().map_err(|_| expected())?;
        if !(1..=99).contains(&percent) {
            return Err(format!("a share is between 1% and 99%, not {share}"));
        }
        let hold = match hold {
            "" => HOLD,
            hold => goflag::duration(hold).map_err(|_| expected())?,
        };
        Ok(Self { percent, hold })
    }
}

/// Why a version is refused that was called off.
const CALLED_OFF: &str = "the operator called it off (coxswain rollback)";

/// How a stage ended.
enum Passed {
    Yes,
    No(String),
    /// Newer content has come, or the manager stops.
    Overtaken,
}

impl Manager {
    /// Takes a new version through shadow and canary, if it is to go through
    /// them. Gives it back if it goes live at once.
    pub(super) fn rehearse(self: &Arc<Self>, candidate: Candidate) -> Option<Candidate> {
        let rollout = &self.config.rollout;
        let manifest = candidate.loaded.module.manifest();
        let canary = rollout.canary(&manifest.name, &manifest.aliases);
        if rollout.agreements == 0 && canary.is_none() {
            return Some(candidate);
        }
        let Origin::File { hash } = &candidate.origin else { return Some(candidate) };
        let Some(controller) = self.controller(&candidate.loaded.module.manifest().name) else {
            return Some(candidate);
        };
        tokio::spawn(self.clone().rehearsal(controller, hash.clone(), candidate, canary));
        None
    }

    async fn rehearsal(
        self: Arc<Self>,
        controller: Arc<Controller>,
        hash: String,
        candidate: Candidate,
        canary: Option<CanaryRule>,
    ) {
        let mut passed = Passed::Yes;
        if self.config.rollout.agreements > 0 {
            passed = self.shadow_stage(&controller, &hash, &candidate).await;
        }
        if let (Passed::Yes, Some(rule)) = (&passed, canary) {
            passed = self.canary_stage(&controller, &hash, &candidate, rule).await;
        }
        let result = match passed {
            Passed::Yes => Ok(()),
            Passed::No(reason) => Err(reason),
            Passed::Overtaken => return,
        };
        self.post(Work::Rehearsed(Box::new(candidate), result));
    }

    /// Whether a candidate is still what its file holds, and its controller runs.
    fn is_wanted(&self, controller: &Arc<Controller>, hash: &str, candidate: &Candidate) -> bool {
        !self.cancel.is_cancelled()
            && self.files.lock().current(&candidate.path, hash).is_some()
            && self.controller(controller.name()).is_some_and(|now| Arc::ptr_eq(&now, controller))
    }

    /// A shadow of a controller.
    pub(super) fn shadow(&self, candidate: Arc<Loaded>, wanted: Option<u64>) -> Arc<Shadow> {
        let around = Surroundings {
            clock: self.config.clock.clone(),
            registry: self.registry.clone(),
            log: Arc::new(ShadowLog::new(&candidate.module.manifest().name)),
        };
        Shadow::new(candidate, around, wanted)
    }

    async fn shadow_stage(&self, controller: &Arc<Controller>, hash: &str, candidate: &Candidate) -> Passed {
        let wanted = self.config.rollout.agreements;
        self.advance(&candidate.path, Stage::Shadowing, None);
        let shadow = self.shadow(candidate.loaded.clone(), Some(wanted));
        controller.watch(&shadow);
        let (mut held, mut woken) = (false, None::<Instant>);
        let passed = loop {
            if !self.is_wanted(controller, hash, candidate) {
                break Passed::Overtaken;
            }
            if shadow.is_through() {
                break Passed::Yes;
            }
            if shadow.is_called_off() {
                break Passed::No(CALLED_OFF.into());
            }
            if let Some(reason) = shadow.ended() {
                break Passed::No(reason);
            }
            let status = shadow.status();
            let bad = status.differed + status.faults;
            if bad > 0 && !held {
                held = true;
                let reason = format!(
                    "it decides otherwise than the version that runs (coxswain shadow {0} shows how); \
                     coxswain promote {0} lets it through",
                    controller.name()
                );
                tracing::warn!(controller = controller.name(), file = %candidate.path.display(), reason, "new version held");
                self.advance(&candidate.path, Stage::Held, Some(reason));
            }
            if bad == 0 && status.agreed >= wanted {
                break Passed::Yes;
            }
            if woken.is_none_or(|at| at.elapsed() >= AGAIN) && !held {
                woken = Some(Instant::now());
                controller.current().view.rekey(Cause::Bulk);
            }
            tokio::time::sleep(LOOK).await;
        };
        controller.unwatch(&shadow);
        passed
    }

    async fn canary_stage(
        &self,
        controller: &Arc<Controller>,
        hash: &str,
        candidate: &Candidate,
        rule: CanaryRule,
    ) -> Passed {
        if !controller.can_share_keys(&candidate.loaded) {
            tracing::warn!(
                controller = controller.name(),
                "the new version makes its keys in another way, so that the two cannot share them: no canary"
            );
            return Passed::Yes;
        }
        let since = self.config.clock.now();
        let until = since + jiff::SignedDuration::try_from(rule.hold).unwrap_or(jiff::SignedDuration::MAX);
        self.advance(&candidate.path, Stage::Canary, None);
        let canary = Canary::new(candidate.loaded.clone(), rule.percent, since, until);
        controller.start_canary(&canary);
        let end = Instant::now() + rule.hold;
        let passed = loop {
            if !self.is_wanted(controller, hash, candidate) {
                break Passed::Overtaken;
            }
            if let Some(fault) = canary.fault() {
                break Passed::No(format!(
                    "it failed as a canary with {}% of the keys: {fault}",
                    rule.percent
                ));
            }
            if canary.is_called_off() {
                break Passed::No(CALLED_OFF.into());
            }
            if canary.is_through() || Instant::now() >= end {
                break Passed::Yes;
            }
            tokio::time::sleep(LOOK).await;
        };
        // On its way to live it keeps its keys: the swap gives it the others as well.
        if !matches!(passed, Passed::Yes) {
            controller.end_canary();
        }
        passed
    }

    /// Takes the keys of a canary back that will not go live after all.
    pub(super) fn forsake(&self, candidate: &Candidate) {
        if let Some(controller) = self.controller(&candidate.loaded.module.manifest().name)
            && controller.canary().is_some_and(|canary| canary.is_of(&candidate.loaded))
        {
            controller.end_canary();
        }
    }

    /// A controller that runs, by its name or short name.
    pub(super) fn named(&self, name: &str) -> Result<Arc<Controller>, String> {
        self.called(name).ok_or_else(|| {
            let running = self.running_controllers();
            not_running(name, &running.iter().map(|one| one.name()).collect::<Vec<_>>())
        })
    }

    /// Calls a version off that is held, compared or a canary: the one that runs keeps all keys. Says what was done, if
    /// there is such a version.
    pub(super) fn call_off(&self, controller: &Controller) -> Option<String> {
        let version = match (controller.rehearsed(), controller.canary()) {
            (Some(shadow), _) => {
                shadow.call_off();
                shadow.status().version
            }
            (None, Some(canary)) => {
                canary.call_off();
                canary.status().version
            }
            (None, None) => return None,
        };
        let runs = controller.current();
        let (name, hash) = (controller.name(), short(runs.module.hash()));
        let keeps = &runs.module.manifest().version;
        Some(format!("{name}: the new version {version} is called off; {keeps} ({hash}) keeps all keys"))
    }

    /// Lets a version through that is held, compared or a canary. Says what was
    /// done, or why nothing was.
    pub fn promote(&self, name: &str) -> Result<String, String> {
        let controller = self.named(name)?;
        let name = controller.name();
        if let Some(shadow) = controller.rehearsed() {
            shadow.let_through();
            return Ok(format!("{name}: version {} is let through", shadow.status().version));
        }
        if let Some(canary) = controller.canary() {
            canary.let_through();
            return Ok(format!("{name}: version {} gets all keys", canary.status().version));
        }
        Err(format!("{name}: no new version is held or a canary"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_and_its_time_are_read() {
        let rule = |text: &str| text.parse::<CanaryRule>();
        let of = |percent, seconds| Ok(CanaryRule { percent, hold: Duration::from_secs(seconds) });
        assert_eq!(rule("10%:5m"), of(10, 300));
        assert_eq!(rule("25:90s"), of(25, 90));
        assert_eq!(rule("5%"), of(5, 300));
        assert_eq!(rule("5%:0s"), of(5, 0));
        for (bad, reason) in [
            ("0%:1m", "between 1% and 99%"),
            ("100%:1m", "between 1% and 99%"),
            ("x:1m", "such as 10%:5m"),
            ("10%:soon", "such as 10%:5m"),
            ("10%:-5m", "such as 10%:5m"),
            ("", "such as 10%:5m"),
        ] {
            assert!(rule(bad).unwrap_err().contains(reason), "{bad:?}");
        }
    }
}
