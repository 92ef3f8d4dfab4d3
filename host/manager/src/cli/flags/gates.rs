//! `--feature-gates`, as kube-controller-manager takes them.
//!
//! A gate that a module names in the default of its option `feature-gates` is
//! that module's. One that only kube-controller-manager has is accepted without
//! effect. Any other is an error, and so is changing one that is locked.

use std::{collections::BTreeSet, path::Path};

use coxswain::{
    contract::Manifest,
    goflag,
    manager::{Feature, Given, nearest},
};

/// Name of the flag, and of the option of modules that have gates.
pub const FLAG: &str = "feature-gates";

/// Name, stage, default and lock of each gate.
const TABLE: &str = include_str!("feature-gates.tsv");

/// Switch all gates of a stage.
const OF_ALL: [&str; 2] = ["AllAlpha", "AllBeta"];

/// One gate as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gate {
    /// Its name.
    pub name: String,
    /// Whether it is to be on.
    pub on: bool,
}

/// Reads the values of the flag.
pub fn parse(values: &[String]) -> Result<Vec<Gate>, String> {
    let pairs = values.iter().flat_map(|value| value.split(',')).map(str::trim);
    pairs.filter(|pair| !pair.is_empty()).map(one).collect()
}

fn one(pair: &str) -> Result<Gate, String> {
    let bad = |reason: String| format!("--{FLAG}: {pair:?}: {reason}");
    let Some((name, value)) = pair.split_once('=') else {
        return Err(bad("expected NAME=true or NAME=false".into()));
    };
    let (component, name) = name.split_once(':').unwrap_or(("kube", name));
    if component.trim() != "kube" {
        return Err(bad(format!("there is no component {component:?}, only kube")));
    }
    let (name, value) = (name.trim(), value.trim());
    let on = goflag::boolean(value).map_err(|expected| bad(expected.into()))?;
    if let Some((_, default, true)) = find(name).filter(|(_, default, locked)| *locked && *default != on) {
        return Err(bad(format!("the feature is locked to {default}; leave it out")));
    }
    Ok(Gate { name: name.to_owned(), on })
}

fn find(name: &str) -> Option<(&'static str, bool, bool)> {
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| row.split('\t').collect::<Vec<_>>()).find_map(|row| match row.as_slice() {
        [gate, stage, default, locked] if *gate == name => {
            Some((*stage, *default == "true", !locked.is_empty()))
        }
        _ => None,
    })
}

/// All features, as given or as they are by default; those that only modules know as they were given.
pub fn features(gates: &[Gate]) -> Vec<Feature> {
    let given = |name: &str| gates.iter().rev().find(|gate| gate.name == name).map(|gate| gate.on);
    let rows = TABLE.lines().filter(|line| !line.starts_with('#'));
    let known = rows.filter_map(|row| {
        let mut fields = row.split('\t');
        let (name, stage, default) = (fields.next()?, fields.next()?, fields.next()?);
        let stage = if stage == "ga" { String::new() } else { stage.to_uppercase() };
        Some(Feature { name: name.to_owned(), stage, on: given(name).unwrap_or(default == "true") })
    });
    let of_modules = gates.iter().filter(|gate| find(&gate.name).is_none());
    let own = of_modules.map(|gate| Feature { name: gate.name.clone(), stage: String::new(), on: gate.on });
    known.chain(own).collect()
}

/// Gives the gates to the modules' options.
pub fn hand_over(gates: &[Gate], given: &mut Given) {
    if !gates.is_empty() {
        let pairs: Vec<_> = gates.iter().map(|gate| format!("{}={}", gate.name, gate.on)).collect();
        given.set(FLAG, pairs.join(","));
    }
}

/// Gates of a module.
fn of_module(manifest: &Manifest) -> impl Iterator<Item = &str> {
    let options = manifest.options.iter().filter(|option| option.name == FLAG);
    options
        .flat_map(|option| option.default.split(','))
        .filter_map(|pair| Some(pair.split_once('=')?.0.trim()))
}

/// What is wrong with the gates, and what has no effect.
pub fn judge<'a>(
    gates: &[Gate],
    manifests: impl Iterator<Item = &'a Manifest>,
    unloaded: &[String],
    dir: &Path,
) -> (Vec<String>, Vec<String>) {
    let of_modules: BTreeSet<&str> = manifests.flat_map(of_module).collect();
    let (mut errors, mut warnings) = (Vec::new(), Vec::new());
    for gate in gates {
        let name = gate.name.as_str();
        if of_modules.contains(name) || OF_ALL.contains(&name) {
            continue;
        }
        match find(name) {
            Some((_, default, _)) if default == gate.on => {}
            Some((stage, ..)) => warnings.push(format!(
                "--{FLAG}: {name}={} ({stage}) has no effect: no module in {} has that feature as an option",
                gate.on,
                dir.display()
            )),
            None if !unloaded.is_empty() => warnings.push(format!(
                "--{FLAG}: no module that is loaded has a feature {name}; one that could not be loaded may ({})",
                unloaded.join(", ")
            )),
            None => {
                let names = TABLE.lines().filter_map(|row| row.split('\t').next());
                let hint = nearest(name, names.chain(of_modules.iter().copied()));
                let hint = hint.map_or(String::new(), |near| format!("; did you mean {near}?"));
                errors.push(format!("--{FLAG}: there is no feature {name:?}{hint}"));
            }
        }
    }
    (errors, warnings)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gates(text: &str) -> Result<Vec<Gate>, String> {
        parse(&[text.to_owned()])
    }

    #[test]
    fn gates_are_read_as_kubernetes_does() {
        let both = gates("kube:HPAScaleToZero=T, AllBeta=false,").unwrap();
        let pairs: Vec<_> = both.iter().map(|gate| (gate.name.as_str(), gate.on)).collect();
        assert_eq!(pairs, [("HPAScaleToZero", true), ("AllBeta", false)]);
        let mut given = Given::new();
        hand_over(&both, &mut given);
        assert_eq!(given.get(FLAG), Some("HPAScaleToZero=true,AllBeta=false"));
        for (text, wanted) in [
            ("One", "expected NAME=true or NAME=false"),
            ("One=maybe", "expected true or false"),
            ("wardle:One=true", "no component \"wardle\""),
            ("APIServerTracing=false", "locked to true"),
        ] {
            let error = gates(text).unwrap_err();
            assert!(error.contains(wanted), "{text}: {error}");
        }
        assert!(gates("APIServerTracing=true").is_ok());
    }

    #[test]
    fn features_are_told_as_kubernetes_tells_them() {
        let all = features(&gates("HPAScaleToZero=true,Own=false").unwrap());
        let told = |name: &str| {
            let one = all.iter().find(|one| one.name == name).unwrap();
            (one.stage.as_str(), one.on)
        };
        assert_eq!(told("HPAScaleToZero"), ("ALPHA", true));
        assert_eq!(told("APIServerIdentity"), ("BETA", true));
        assert_eq!(told("APIServerTracing"), ("", true));
        assert_eq!(told("Own"), ("", false));
        assert!(all.len() > 200);
    }

    #[test]
    fn unknown_gates_are_errors_and_foreign_ones_warnings() {
        let judge = |text: &str, unloaded: &[String]| {
            judge(&gates(text).unwrap(), std::iter::empty(), unloaded, Path::new("/d"))
        };
        let (errors, warnings) = judge("HPAScaleToZero=true", &[]);
        assert!(errors.is_empty() && warnings[0].contains("HPAScaleToZero=true (alpha) has no effect"));
        let (errors, _) = judge("HPAScaleToZeros=true", &[]);
        assert_eq!(
            errors,
            ["--feature-gates: there is no feature \"HPAScaleToZeros\"; did you mean HPAScaleToZero?"]
        );
        let (errors, warnings) = judge("Own=true", &["x.wasm".to_owned()]);
        assert!(errors.is_empty() && warnings[0].contains("x.wasm"));
        // What it is anyway.
        assert_eq!(judge("APIServerIdentity=true,AllAlpha=true", &[]), (vec![], vec![]));
    }
}
