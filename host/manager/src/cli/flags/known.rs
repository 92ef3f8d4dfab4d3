//! The flags that kube-controller-manager has.
//!
//! Every one of them is accepted: it is the manager's own (clap knows it), an
//! option of a module, or without effect for a reason that is said here.
//! `host/docs/flags.md` lists all; a test holds it against this and the modules.

use coxswain::{contract::OptionKind, goflag, manager::options};

/// Name, type, default and section of each flag, as its `--help` has them.
const TABLE: &str = include_str!("kube-controller-manager.tsv");

/// Names of its controllers.
const CONTROLLERS: &str = include_str!("controllers.txt");

const NO_CLOUD: &str = "cloud providers have a controller manager of their own";
const ONE_VERSION: &str = "there is one behaviour, that of Kubernetes 1.36";
const UNBUFFERED: &str = "each line of the log is written at once";
/// The release before the one that is kept to.
const PREVIOUS: &str = "1.35";
const GO: &str = "it is about the Go runtime";

/// Flags of kube-controller-manager that mean nothing here, and why.
const WITHOUT_EFFECT: &[(&str, &str)] = &[
    ("cloud-config", NO_CLOUD),
    ("cloud-provider", NO_CLOUD),
    ("cluster-name", NO_CLOUD),
    ("concurrent-service-syncs", NO_CLOUD),
    (
        "concurrent-validating-admission-policy-status-syncs",
        "the controller is not built: it needs a type checker for CEL",
    ),
    ("configure-cloud-routes", NO_CLOUD),
    ("contention-profiling", GO),
    ("emulated-version", ONE_VERSION),
    ("external-cloud-volume-plugin", NO_CLOUD),
    ("flex-volume-plugin-dir", "FlexVolume drivers, deprecated since Kubernetes 1.23, are not run"),
    ("kube-api-content-type", "requests are JSON"),
    ("log-flush-frequency", UNBUFFERED),
    ("log-json-info-buffer-size", UNBUFFERED),
    ("log-text-info-buffer-size", UNBUFFERED),
    ("min-compatibility-version", ONE_VERSION),
    (
        "min-resync-period",
        "caches are not delivered again: what a controller read wakes it, and it says itself when to come back",
    ),
    (
        "pv-recycler-pod-template-filepath-hostpath",
        "recycling, deprecated since Kubernetes 1.15, uses the built-in pod",
    ),
    (
        "pv-recycler-pod-template-filepath-nfs",
        "recycling, deprecated since Kubernetes 1.15, uses the built-in pod",
    ),
    ("route-reconciliation-period", NO_CLOUD),
    ("show-hidden-metrics-for-version", "no metric is hidden"),
];

/// Least and greatest values of flags: those that kube-controller-manager's validation lets through, and of counts that
/// cannot be less than nothing.
const BOUNDS: &[(&str, &str, Option<&str>)] = &[
    ("attach-detach-reconcile-sync-period", "1s", None),
    ("concurrent-service-endpoint-syncs", "1", Some("50")),
    ("large-cluster-size-threshold", "0", None),
    ("max-endpoints-per-slice", "1", Some("1000")),
    ("mirroring-concurrent-service-endpoint-syncs", "1", Some("50")),
    ("mirroring-max-endpoints-per-subset", "1", Some("1000")),
    ("node-cidr-mask-size", "0", Some("128")),
    ("node-cidr-mask-size-ipv4", "0", Some("32")),
    ("node-cidr-mask-size-ipv6", "0", Some("128")),
    ("pv-recycler-increment-timeout-nfs", "0", None),
    ("pv-recycler-minimum-timeout-hostpath", "0", None),
    ("pv-recycler-minimum-timeout-nfs", "0", None),
    ("pv-recycler-timeout-increment-hostpath", "0", None),
];

/// A number or duration, to be compared.
fn measure(value: &str) -> Option<f64> {
    let duration = || Some(goflag::duration(value).ok()?.as_secs_f64());
    value.parse().ok().or_else(duration)
}

/// One flag of kube-controller-manager.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    /// Its name.
    pub name: &'static str,
    /// What its values look like, in the words of `--help`.
    kind: &'static str,
    /// Its value if none is given; empty: none, 0 or false.
    pub default: &'static str,
    /// The section of `--help`; mostly the controller it belongs to.
    pub section: &'static str,
}

/// All flags, by name.
pub fn all() -> impl Iterator<Item = Flag> {
    TABLE.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut fields = line.split('\t');
        let mut next = || fields.next();
        Some(Flag { name: next()?, kind: next()?, default: next()?, section: next()? })
    })
}

/// The flag of this name.
pub fn find(name: &str) -> Option<Flag> {
    all().find(|flag| flag.name == name)
}

/// Whether `--controllers` of kube-controller-manager takes this name.
pub fn is_controller(name: &str) -> bool {
    CONTROLLERS.lines().any(|line| line == name)
}

/// Why a flag that neither the manager nor a module has means nothing.
pub fn without_effect(name: &str) -> Option<&'static str> {
    WITHOUT_EFFECT.iter().find(|(known, _)| *known == name).map(|(_, reason)| *reason)
}

impl Flag {
    /// Checks a value, as kube-controller-manager would.
    pub fn check(&self, value: &str) -> Result<(), String> {
        if self.name == "cloud-provider" && !matches!(value, "" | "external") {
            return Err(format!(
                "--cloud-provider={value}: Kubernetes has no cloud providers of its own any more; expected external, or nothing"
            ));
        }
        if self.name == "show-hidden-metrics-for-version" && !matches!(value, "" | PREVIOUS) {
            return Err(format!(
                "--{}={value}: expected {PREVIOUS}, the release before, or nothing",
                self.name
            ));
        }
        options::check(self.option_kind(), value)
            .map_err(|expected| format!("--{}={value}: expected {expected}", self.name))?;
        self.check_bounds(value)
    }

    /// Checks that a value of the right kind is neither too small nor too great.
    pub fn check_bounds(&self, value: &str) -> Result<(), String> {
        let bounds = BOUNDS.iter().find(|(name, ..)| *name == self.name);
        let (Some((_, least, most)), Some(given)) = (bounds, measure(value)) else { return Ok(()) };
        let below = measure(least).is_some_and(|least| given < least);
        if !below && !most.and_then(measure).is_some_and(|most| given > most) {
            return Ok(());
        }
        let range = match most {
            Some(most) => format!("from {least} to {most}"),
            None => format!("{least} or more"),
        };
        Err(format!("--{}={value}: expected {range}", self.name))
    }

    /// Whether it is true where it stands alone.
    pub fn is_switch(&self) -> bool {
        self.option_kind() == OptionKind::Boolean
    }

    fn option_kind(&self) -> OptionKind {
        match self.kind {
            "bool" => OptionKind::Boolean,
            "int" => OptionKind::Integer,
            "float" => OptionKind::Decimal,
            "duration" => OptionKind::Duration,
            _ => OptionKind::Text,
        }
    }

    /// Whether repeating it adds to it.
    pub fn is_list(&self) -> bool {
        matches!(
            self.kind,
            "strings"
                | "stringToString"
                | "namedCertKey"
                | "int32Slice"
                | "colonSeparatedMultimapStringString"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_whole_and_sorted() {
        let names: Vec<_> = all().map(|flag| flag.name).collect();
        assert!(names.len() > 140 && names.is_sorted(), "{}", names.len());
        assert!(WITHOUT_EFFECT.iter().map(|(name, _)| name).is_sorted());
        let lines = TABLE.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(lines, names.len());
        for flag in all().filter(|flag| !flag.default.is_empty()) {
            assert_eq!(flag.check(flag.default), Ok(()), "{}", flag.name);
        }
    }

    #[test]
    fn what_has_no_effect_is_one_of_the_table() {
        for (name, _) in WITHOUT_EFFECT {
            assert!(find(name).is_some(), "{name}");
        }
        for (name, least, most) in BOUNDS {
            let flag = find(name).unwrap();
            for good in [Some(*least), *most].into_iter().flatten() {
                assert_eq!(flag.check(good), Ok(()), "{name}={good}");
            }
        }
    }

    #[test]
    fn values_are_checked_all_the_same() {
        for (name, value, good) in [
            ("min-resync-period", "12h", true),
            ("min-resync-period", "12", false),
            ("contention-profiling", "maybe", false),
            ("concurrent-service-syncs", "x", false),
            ("max-endpoints-per-slice", "1000", true),
            ("max-endpoints-per-slice", "1001", false),
            ("max-endpoints-per-slice", "0", false),
            ("attach-detach-reconcile-sync-period", "999ms", false),
            ("node-cidr-mask-size", "-4", false),
            ("terminated-pod-gc-threshold", "-1", true),
            ("cloud-provider", "external", true),
            ("cloud-provider", "", true),
            ("cloud-provider", "aws", false),
            ("show-hidden-metrics-for-version", "1.35", true),
            ("show-hidden-metrics-for-version", "1.34", false),
        ] {
            assert_eq!(find(name).unwrap().check(value).is_ok(), good, "{name}={value}");
        }
    }
}
