//! Judges flags that only modules can explain, once those are loaded.
//!
//! In: what was given, and what the modules say. Out: errors, any of which ends
//! the program before a controller has started, and warnings.

use std::{collections::BTreeSet, path::Path};

use coxswain::{
    contract::{LookupRule, Manifest},
    executor::signing,
    manager::{Given, nearest, options},
};

use super::{file::Origin, known};

/// What is known of the modules.
pub struct Modules<'a> {
    /// The directory they are in.
    pub dir: &'a Path,
    /// What those that could be loaded say.
    pub manifests: Vec<&'a Manifest>,
    /// Files that could not be loaded, or are not yet.
    pub unloaded: Vec<String>,
}

/// The outcome.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// What must be put right first.
    pub errors: Vec<String>,
    /// What the operator should know.
    pub warnings: Vec<String>,
}

/// Flags that a module brings.
pub fn flags_of(manifest: &Manifest) -> impl Iterator<Item = String> {
    let options = manifest.options.iter().map(|option| option.name.clone());
    let own = options.chain([manifest.concurrency_flag.clone()]).chain(of_keys(manifest));
    own.filter(|flag| !flag.is_empty())
}

/// Flags that name the files of a module's keys.
fn of_keys(manifest: &Manifest) -> impl Iterator<Item = String> {
    let keys = manifest.lookups.iter().filter_map(|rule| match rule {
        LookupRule::Sign(key) => Some(signing::flags(key)),
        _ => None,
    });
    keys.flatten()
}

/// Judges.
pub fn judge(given: &Given, file: Option<&Origin>, modules: &Modules<'_>, own: &[String]) -> Verdict {
    let mut verdict = Verdict::default();
    let of_modules: BTreeSet<String> = modules.manifests.iter().copied().flat_map(flags_of).collect();
    let keys: BTreeSet<String> = modules.manifests.iter().copied().flat_map(of_keys).collect();
    for manifest in &modules.manifests {
        let is_given = |flag: &str| given.get(flag).is_some_and(|file| !file.is_empty());
        let troubles = options::troubles(manifest, given, false).into_iter().map(|error| error.to_string());
        for error in troubles.chain(signing::contradictions(manifest, is_given)) {
            if !verdict.errors.contains(&error) {
                verdict.errors.push(error);
            }
        }
    }
    for name in given.names() {
        let of_file = file.filter(|file| file.names.contains(name));
        let said = match of_file {
            Some(file) => format!("{}: {name}", file.path.display()),
            None => format!("--{name}"),
        };
        let bare = || format!("{said} needs a value");
        if of_modules.contains(name) {
            // Options have been looked at above; files of keys need not be among them.
            let told = verdict.errors.iter().any(|error| error.starts_with(&bare()));
            if given.is_bare(name) && keys.contains(name) && !told {
                verdict.errors.push(bare());
            }
            let bounds = known::find(name).zip(given.get(name)).map(|(flag, value)| flag.check_bounds(value));
            verdict.errors.extend(bounds.and_then(Result::err));
            continue;
        }
        if let Some(flag) = known::find(name) {
            if given.is_bare(name) && !flag.is_switch() {
                verdict.errors.push(bare());
                continue;
            }
            let value = given.get(name).unwrap_or_default();
            match flag.check(value) {
                Err(error) => verdict.errors.push(error),
                Ok(()) => verdict.warnings.push(without_effect(&said, flag, modules)),
            }
            if given.times(name) > 1 && !flag.is_list() {
                verdict.warnings.push(format!("{said} is given more than once; the last value counts"));
            }
            continue;
        }
        if !modules.unloaded.is_empty() {
            verdict.warnings.push(format!(
                "{said}: no module that is loaded has such an option; one that could not be loaded may ({})",
                modules.unloaded.join(", ")
            ));
            continue;
        }
        let names =
            own.iter().chain(&of_modules).map(String::as_str).chain(known::all().map(|flag| flag.name));
        let hint = match nearest(name, names) {
            Some(near) if of_file.is_some() => format!("did you mean {near}?"),
            Some(near) => format!("did you mean --{near}?"),
            None => {
                "`coxswain run --help` lists the manager's flags, --help-controllers the controllers'".into()
            }
        };
        verdict.errors.push(format!(
            "{said}: neither the manager nor a module in {} has such a flag; {hint}",
            modules.dir.display()
        ));
    }
    verdict
}

fn without_effect(said: &str, flag: known::Flag, modules: &Modules<'_>) -> String {
    match known::without_effect(flag.name) {
        Some(reason) => format!("{said} has no effect: {reason}"),
        None => format!(
            "{said} has no effect: it is for kube-controller-manager's {}, and no module in {} has it",
            flag.section.to_lowercase(),
            modules.dir.display()
        ),
    }
}

#[cfg(test)]
mod tests {
    use coxswain::contract::{ClientLimits, OptionKind, OptionSpec};

    use super::*;

    fn manifest() -> Manifest {
        Manifest {
            name: "web-controller".into(),
            aliases: Vec::new(),
            version: String::new(),
            state_format: 0,
            accepts_state_formats: Vec::new(),
            sources: Vec::new(),
            reads: Vec::new(),
            writes: Vec::new(),
            lookups: vec![LookupRule::Sign("web".into())],
            options: vec![OptionSpec {
                name: "web-period".into(),
                kind: OptionKind::Duration,
                default: "5s".into(),
                help: String::new(),
            }],
            event_component: String::new(),
            concurrency: 0,
            concurrency_flag: "concurrent-web-syncs".into(),
            client_limits: ClientLimits { qps: 1, burst: 1 },
            metrics: Vec::new(),
        }
    }

    fn judged(pairs: &[(&str, &str)], unloaded: &[&str]) -> Verdict {
        let mut given = Given::new();
        for (name, value) in pairs {
            given.add(*name, *value);
        }
        let manifest = manifest();
        let unloaded = unloaded.iter().map(|file| (*file).to_owned()).collect();
        let modules = Modules { dir: Path::new("/d"), manifests: vec![&manifest], unloaded };
        judge(&given, None, &modules, &["kube-api-qps".to_owned()])
    }

    #[test]
    fn what_a_module_brings_is_good_if_its_values_are() {
        let flags = [
            ("web-period", "1m0s"),
            ("concurrent-web-syncs", "7"),
            ("web-key-file", "k"),
            ("web-cert-file", "c"),
        ];
        assert_eq!(judged(&flags, &[]), Verdict::default());
        for (name, value, wanted) in [
            ("web-period", "30", "--web-period=30: expected a duration"),
            ("concurrent-web-syncs", "abc", "--concurrent-web-syncs=abc: expected a whole number above 0"),
            ("concurrent-web-syncs", "0", "expected a whole number above 0"),
        ] {
            let verdict = judged(&[(name, value)], &[]);
            assert!(verdict.errors.len() == 1 && verdict.errors[0].contains(wanted), "{verdict:?}");
        }
    }

    #[test]
    fn a_flag_without_its_value_is_an_error_whoever_has_it() {
        let manifest = manifest();
        for (name, wanted) in [
            ("web-period", "--web-period needs a value: a duration"),
            ("concurrent-web-syncs", "--concurrent-web-syncs needs a value: a whole number"),
            ("web-key-file", "--web-key-file needs a value"),
            ("min-resync-period", "--min-resync-period needs a value"),
        ] {
            let mut given = Given::new();
            given.add_bare(name);
            let modules = Modules { dir: Path::new("/d"), manifests: vec![&manifest], unloaded: Vec::new() };
            let verdict = judge(&given, None, &modules, &[]);
            assert!(verdict.errors.len() == 1 && verdict.errors[0].starts_with(wanted), "{verdict:?}");
            assert!(verdict.warnings.is_empty(), "{verdict:?}");
        }
        let mut given = Given::new();
        given.add_bare("contention-profiling");
        let modules = Modules { dir: Path::new("/d"), manifests: vec![&manifest], unloaded: Vec::new() };
        assert_eq!(judge(&given, None, &modules, &[]).errors, [""; 0]);
    }

    #[test]
    fn keys_that_contradict_each_other_are_errors() {
        let option = |name: &str| OptionSpec {
            name: name.into(),
            kind: OptionKind::Text,
            default: String::new(),
            help: String::new(),
        };
        let mut manifest = manifest();
        manifest.lookups.push(LookupRule::Sign("web-inner".into()));
        manifest.options.extend(["web-inner-key-file", "web-inner-cert-file"].map(option));
        let judged = |flags: &[&str]| {
            let mut given = Given::new();
            flags.iter().for_each(|flag| given.add(*flag, "/f"));
            let modules = Modules { dir: Path::new("/d"), manifests: vec![&manifest], unloaded: Vec::new() };
            judge(&given, None, &modules, &[]).errors
        };
        let none: &[&str] = &[];
        // A key that needs no certificate may have one.
        assert_eq!(judged(&["web-key-file"]), none);
        assert_eq!(judged(&["web-inner-key-file", "web-inner-cert-file"]), none);
        assert_eq!(judged(&["web-cert-file"]), ["--web-cert-file is given without --web-key-file"]);
        assert_eq!(
            judged(&["web-inner-key-file"]),
            ["--web-inner-key-file is given without --web-inner-cert-file"]
        );
        let both = judged(&["web-key-file", "web-inner-key-file", "web-inner-cert-file"]);
        assert_eq!(
            both,
            ["cannot specify --web-{cert,key}-file and --web-inner-{cert,key}-file at the same time"]
        );
    }

    #[test]
    fn what_nobody_has_is_an_error_with_a_hint() {
        for (name, wanted) in [
            ("web-perod", "did you mean --web-period?"),
            ("kube-api-qp", "did you mean --kube-api-qps?"),
            ("kube-api-content-typ", "did you mean --kube-api-content-type?"),
            ("xyz", "--help"),
        ] {
            let verdict = judged(&[(name, "1")], &[]);
            assert!(verdict.warnings.is_empty() && verdict.errors[0].contains(wanted), "{verdict:?}");
        }
    }

    #[test]
    fn a_module_that_could_not_be_loaded_may_have_it() {
        let verdict = judged(&[("xyz", "1")], &["x.wasm"]);
        assert!(verdict.errors.is_empty() && verdict.warnings[0].contains("x.wasm"), "{verdict:?}");
    }

    #[test]
    fn kube_controller_managers_flags_are_accepted_and_said_to_do_nothing() {
        let verdict = judged(&[("min-resync-period", "12h"), ("concurrent-service-syncs", "3")], &[]);
        assert!(verdict.errors.is_empty() && verdict.warnings.len() == 2, "{verdict:?}");
        assert!(verdict.warnings.iter().all(|warning| warning.contains("has no effect")));
        // One of a controller that is not there.
        let verdict = judged(&[("terminated-pod-gc-threshold", "3")], &[]);
        assert!(verdict.warnings[0].contains("no module in /d has it"), "{verdict:?}");
        let verdict = judged(&[("terminated-pod-gc-threshold", "many")], &[]);
        assert!(verdict.errors[0].contains("expected a whole number"), "{verdict:?}");
    }

    #[test]
    fn flags_of_a_file_are_called_by_their_keys() {
        let mut given = Given::new();
        given.add("web-perod", "1s");
        let manifest = manifest();
        let modules = Modules { dir: Path::new("/d"), manifests: vec![&manifest], unloaded: Vec::new() };
        let origin = Origin { path: "f.yaml".into(), names: ["web-perod".to_owned()].into() };
        let verdict = judge(&given, Some(&origin), &modules, &[]);
        assert!(verdict.errors[0].starts_with("f.yaml: web-perod: "), "{verdict:?}");
        assert!(verdict.errors[0].ends_with("did you mean web-period?"), "{verdict:?}");
    }
}
