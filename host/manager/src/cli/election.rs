//! Flags of leader election, under kube-controller-manager's names, and three of
//! our own.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, bail};
use coxswain::{
    election::{ElectionConfig, Grouping, Migration, OnLoss, Timing, default_runtime_dir},
    goflag,
};

/// How leaders are elected.
#[derive(clap::Args)]
#[command(next_help_heading = "Leader election")]
pub struct ElectionArgs {
    /// Work only while this process holds a lease, so that several may run.
    #[arg(long, default_value_t = true, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect: bool,
    /// How long a lease outlives its last renewal: as long do others wait after a crash.
    #[arg(long, default_value = "15s", value_parser = goflag::duration, allow_hyphen_values = true)]
    leader_elect_lease_duration: Duration,
    /// How long a leader writes, and tries to renew, after its last renewal.
    #[arg(long, default_value = "10s", value_parser = goflag::duration, allow_hyphen_values = true)]
    leader_elect_renew_deadline: Duration,
    /// Pause between two renewals, and between two tries to take the lease.
    #[arg(long, default_value = "2s", value_parser = goflag::duration, allow_hyphen_values = true)]
    leader_elect_retry_period: Duration,
    /// Kind of object that is the lock: `leases`.
    #[arg(long, default_value = "leases")]
    leader_elect_resource_lock: String,
    /// Name of the lease.
    #[arg(long, default_value = "kube-controller-manager")]
    leader_elect_resource_name: String,
    /// Namespace of the lease.
    #[arg(long, default_value = "kube-system")]
    leader_elect_resource_namespace: String,
    /// Put controllers that move between components under a lease of their own.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    enable_leader_migration: bool,
    /// File that says which controllers move (LeaderMigrationConfiguration).
    #[arg(long, default_value = "")]
    leader_migration_config: String,
    /// One lease for each controller (NAME-CONTROLLER), so that controllers are
    /// spread over all processes.
    #[arg(long, default_value_t = false, num_args = 0..=1, default_missing_value = "true", action = clap::ArgAction::Set)]
    leader_elect_per_controller: bool,
    /// What to do when a lease is lost, say because the API server was away: wait
    /// for the next term with warm caches, or end, as kube-controller-manager does.
    #[arg(long, value_enum, default_value = "standby")]
    leader_elect_on_loss: Loss,
    /// Private directory where processes of this machine find out that one of
    /// them was killed, so that a restart need not wait for its lease; `off` for
    /// none. Default: $RUNTIME_DIRECTORY, $XDG_RUNTIME_DIR/coxswain, /run/coxswain
    /// for root, else one in the directory for temporary files.
    #[arg(long)]
    leader_elect_runtime_dir: Option<String>,
}

/// Values of `--leader-elect-on-loss`.
#[derive(Clone, Copy, clap::ValueEnum)]
enum Loss {
    Exit,
    Standby,
}

impl ElectionArgs {
    /// The settings; none if no leader is elected.
    pub fn config(&self) -> anyhow::Result<Option<ElectionConfig>> {
        if !self.leader_elect {
            return Ok(None);
        }
        if self.leader_elect_resource_lock != "leases" {
            bail!(
                "--leader-elect-resource-lock={}: only \"leases\" is supported, as in kube-controller-manager since 1.24",
                self.leader_elect_resource_lock
            );
        }
        let config = ElectionConfig {
            timing: Timing {
                lease: self.leader_elect_lease_duration,
                renew_deadline: self.leader_elect_renew_deadline,
                retry: self.leader_elect_retry_period,
            },
            namespace: self.leader_elect_resource_namespace.clone(),
            grouping: self.grouping()?,
            on_loss: match self.leader_elect_on_loss {
                Loss::Exit => OnLoss::Exit,
                Loss::Standby => OnLoss::Standby,
            },
            runtime_dir: match self.leader_elect_runtime_dir.as_deref() {
                Some("off" | "none" | "") => None,
                Some(dir) => Some(PathBuf::from(dir)),
                None => Some(default_runtime_dir()),
            },
        };
        config.check()?;
        Ok(Some(config))
    }

    fn grouping(&self) -> anyhow::Result<Grouping> {
        let name = self.leader_elect_resource_name.clone();
        if !self.enable_leader_migration {
            return Ok(if self.leader_elect_per_controller {
                Grouping::PerController(name)
            } else {
                Grouping::One(name)
            });
        }
        if self.leader_elect_per_controller {
            bail!(
                "--leader-elect-per-controller and --enable-leader-migration exclude each other; choose one"
            );
        }
        let file = &self.leader_migration_config;
        let migration = if file.is_empty() {
            Migration::default()
        } else {
            let text = std::fs::read_to_string(file)
                .with_context(|| format!("--leader-migration-config: cannot read {file}"))?;
            Migration::parse(&text).with_context(|| format!("--leader-migration-config={file}"))?
        };
        if migration.leader_name == name {
            bail!(
                "--leader-migration-config: leaderName is {name}, which is the main lease; the controllers that migrate need one of their own"
            );
        }
        Ok(Grouping::Migration { main: name, migration })
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        election: ElectionArgs,
    }

    fn config(line: &str) -> anyhow::Result<Option<ElectionConfig>> {
        Line::try_parse_from(["coxswain"].into_iter().chain(line.split_whitespace()))?.election.config()
    }

    #[test]
    fn the_defaults_are_kube_controller_managers() {
        let config = config("").unwrap().unwrap();
        let expected = ElectionConfig::default();
        assert_eq!(config.timing, expected.timing);
        assert_eq!((config.namespace, config.grouping), (expected.namespace, expected.grouping));
        assert_eq!(config.on_loss, expected.on_loss);
    }

    #[test]
    fn flags_are_read_as_go_reads_them() {
        assert!(config("--leader-elect=false").unwrap().is_none());
        assert!(config("--leader-elect").unwrap().is_some());
        // Nothing is checked that has no effect.
        assert!(config("--leader-elect=false --leader-elect-lease-duration=1s").unwrap().is_none());
        let config = config(
            "--leader-elect-lease-duration=1m30s --leader-elect-renew-deadline=1m \
             --leader-elect-retry-period=500ms --leader-elect-resource-name=n \
             --leader-elect-resource-namespace=s --leader-elect-per-controller --leader-elect-on-loss=exit",
        );
        let config = config.unwrap().unwrap();
        assert_eq!(config.timing.lease, Duration::from_secs(90));
        assert_eq!(config.timing.retry, Duration::from_millis(500));
        assert_eq!(config.grouping, Grouping::PerController("n".into()));
        assert_eq!((config.namespace.as_str(), config.on_loss), ("s", OnLoss::Exit));
    }

    #[test]
    fn contradictions_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("migration.yaml");
        let head = "apiVersion: controllermanager.config.k8s.io/v1\nkind: LeaderMigrationConfiguration\n";
        std::fs::write(&file, format!("{head}leaderName: kube-controller-manager\n")).unwrap();
        let clash = format!("--enable-leader-migration --leader-migration-config={}", file.display());
        let table = [
            ("--leader-elect-resource-lock=endpoints", "only \"leases\" is supported"),
            ("--leader-elect-renew-deadline=15s", "must be greater than --leader-elect-renew-deadline"),
            ("--leader-elect-retry-period=9s", "must be greater than 1.2 times"),
            ("--leader-elect-resource-name=", "--leader-elect-resource-name must not be empty"),
            ("--leader-elect-per-controller --enable-leader-migration", "exclude each other"),
            ("--enable-leader-migration --leader-migration-config=/nowhere", "cannot read /nowhere"),
            (&clash, "which is the main lease"),
            ("--leader-elect-lease-duration=soon", "expected a duration"),
        ];
        for (line, wanted) in table {
            let error = format!("{:#}", config(line).unwrap_err());
            assert!(error.contains(wanted), "{line}: {error}");
        }
        let without_file = config("--enable-leader-migration").unwrap().unwrap();
        assert!(matches!(without_file.grouping, Grouping::Migration { .. }));
    }
}
