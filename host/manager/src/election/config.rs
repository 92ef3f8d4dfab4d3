//! How leaders are elected: times, names, and the rules they obey.

use std::{path::PathBuf, time::Duration};

use super::grouping::Grouping;

/// How much longer than the retry period a follower may wait, as a multiple of
/// it: client-go's `JitterFactor`.
pub const JITTER: f64 = 1.2;

/// What becomes of a process that loses a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnLoss {
    /// It ends, as kube-controller-manager does.
    Exit,
    /// It stands by for the next term.
    Standby,
}

/// The times of an election; the defaults are kube-controller-manager's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// How long a lease outlives its last renewal. Whole seconds: that is what a
    /// Lease holds.
    pub lease: Duration,
    /// How long after its last renewal a leader writes, and how long it tries to
    /// renew.
    pub renew_deadline: Duration,
    /// Pause between two renewals, and between two tries.
    pub retry: Duration,
}

impl Default for Timing {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(15),
            renew_deadline: Duration::from_secs(10),
            retry: Duration::from_secs(2),
        }
    }
}

impl Timing {
    /// The slack between the last write a leader may begin and the end of its
    /// lease.
    pub fn slack(&self) -> Duration {
        self.lease.saturating_sub(self.renew_deadline)
    }

    /// When the last write must have ended, counted from the last renewal. A
    /// fifth of the slack is left for clocks that run at different speeds.
    pub fn last_write_ends(&self) -> Duration {
        self.lease.saturating_sub(self.slack() / 5)
    }

    /// How long one request about a lease may take: as in client-go, so that
    /// one that hangs does not cost the lease.
    pub fn request(&self) -> Duration {
        (self.renew_deadline / 2).max(Duration::from_secs(1))
    }
}

/// Why an election cannot be held like this.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum ConfigError {
    /// Must be above zero.
    #[error("--{0} must be greater than zero")]
    Zero(&'static str),
    /// Two times contradict each other.
    #[error(
        "--leader-elect-lease-duration={lease:?} must be greater than --leader-elect-renew-deadline={renew:?}"
    )]
    Lease {
        /// Lease duration.
        lease: Duration,
        /// Renew deadline.
        renew: Duration,
    },
    /// Two times contradict each other.
    #[error(
        "--leader-elect-renew-deadline={renew:?} must be greater than {JITTER} times --leader-elect-retry-period={retry:?}"
    )]
    Retry {
        /// Renew deadline.
        renew: Duration,
        /// Retry period.
        retry: Duration,
    },
    /// A Lease cannot hold it.
    #[error("--leader-elect-lease-duration={0:?} must be whole seconds, since a Lease holds no others")]
    Fraction(Duration),
    /// Something has no name.
    #[error("--{0} must not be empty")]
    Empty(&'static str),
}

/// How leaders are elected.
#[derive(Clone, Debug)]
pub struct ElectionConfig {
    /// Times.
    pub timing: Timing,
    /// Namespace of the leases.
    pub namespace: String,
    /// Which controllers share a lease.
    pub grouping: Grouping,
    /// What becomes of a process that loses a lease.
    pub on_loss: OnLoss,
    /// Where processes of this machine find out about each other; none: they
    /// do not.
    pub runtime_dir: Option<PathBuf>,
}

impl Default for ElectionConfig {
    fn default() -> Self {
        Self {
            timing: Timing::default(),
            namespace: "kube-system".into(),
            grouping: Grouping::One("kube-controller-manager".into()),
            on_loss: OnLoss::Standby,
            runtime_dir: None,
        }
    }
}

impl ElectionConfig {
    /// Checks by kube-controller-manager's rules. Stricter in one thing: it cuts
    /// fractions of a second off the lease, and then leads for longer than others
    /// wait.
    pub fn check(&self) -> Result<(), ConfigError> {
        let Timing { lease, renew_deadline: renew, retry } = self.timing;
        let times = [
            ("leader-elect-lease-duration", lease),
            ("leader-elect-renew-deadline", renew),
            ("leader-elect-retry-period", retry),
        ];
        if let Some((name, _)) = times.into_iter().find(|(_, time)| time.is_zero()) {
            return Err(ConfigError::Zero(name));
        }
        if lease <= renew {
            return Err(ConfigError::Lease { lease, renew });
        }
        if renew <= retry.mul_f64(JITTER) {
            return Err(ConfigError::Retry { renew, retry });
        }
        if lease.subsec_nanos() != 0 {
            return Err(ConfigError::Fraction(lease));
        }
        if self.namespace.is_empty() {
            return Err(ConfigError::Empty("leader-elect-resource-namespace"));
        }
        if self.grouping.names_nothing() {
            return Err(ConfigError::Empty("leader-elect-resource-name"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(lease: u64, renew: u64, retry: u64) -> Result<(), ConfigError> {
        let millis = Duration::from_millis;
        let timing = Timing { lease: millis(lease), renew_deadline: millis(renew), retry: millis(retry) };
        ElectionConfig { timing, ..ElectionConfig::default() }.check()
    }

    #[test]
    fn contradictions_are_refused_by_name() {
        assert_eq!(ElectionConfig::default().check(), Ok(()));
        let table = [
            (0, 10_000, 2_000, "--leader-elect-lease-duration must be greater than zero"),
            (15_000, 0, 2_000, "--leader-elect-renew-deadline must be greater than zero"),
            (15_000, 10_000, 0, "--leader-elect-retry-period must be greater than zero"),
            (10_000, 10_000, 2_000, "must be greater than --leader-elect-renew-deadline=10s"),
            (15_000, 2_400, 2_000, "must be greater than 1.2 times --leader-elect-retry-period=2s"),
            (15_500, 10_000, 2_000, "whole seconds"),
        ];
        for (lease, renew, retry, wanted) in table {
            let error = with(lease, renew, retry).unwrap_err().to_string();
            assert!(error.contains(wanted), "{error}");
        }
        let nameless = ElectionConfig { grouping: Grouping::One(String::new()), ..ElectionConfig::default() };
        assert_eq!(nameless.check(), Err(ConfigError::Empty("leader-elect-resource-name")));
        let nowhere = ElectionConfig { namespace: String::new(), ..ElectionConfig::default() };
        assert_eq!(nowhere.check(), Err(ConfigError::Empty("leader-elect-resource-namespace")));
    }

    #[test]
    fn writes_end_before_the_lease() {
        let timing = Timing::default();
        assert!(timing.renew_deadline < timing.last_write_ends());
        assert!(timing.last_write_ends() < timing.lease);
        assert_eq!(timing.request(), Duration::from_secs(5));
    }
}
