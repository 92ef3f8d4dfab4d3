//! Rules of the tree that a compiler does not keep.

use std::path::Path;

use coxswain_tests::root;

/// What the host must not name: kinds and controllers are the modules' affair.
const FOREIGN: &str = r#""(Deployment|ReplicaSet|StatefulSet|DaemonSet|Job|CronJob|Pod|Service|Endpoints|EndpointSlice|Node|Namespace|ConfigMap|Secret|ServiceAccount|ReplicationController|PersistentVolume|PersistentVolumeClaim|ResourceQuota|HorizontalPodAutoscaler|PodDisruptionBudget|deployments|replicasets|statefulsets|daemonsets|cronjobs|pods|endpointslices)"|(deployment|replicaset|statefulset|daemonset|job|cronjob|garbage-collector|namespace|resourcequota|endpoints?|endpointslice)-controller"#;

#[test]
fn the_host_names_no_kinds_but_lease_and_event() {
    let foreign = regex::Regex::new(FOREIGN).unwrap();
    let mut found = Vec::new();
    for_each_source(&root().join("host/manager/src"), &mut |path, text| {
        // Tests need something to talk about; doc comments give examples.
        let code = text.split("#[cfg(test)]").next().unwrap_or_default();
        let is_test = path
            .components()
            .any(|c| c.as_os_str() == "tests" || c.as_os_str().to_string_lossy().ends_with("tests.rs"));
        if is_test {
            return;
        }
        for (number, line) in code.lines().enumerate() {
            let line = line.trim_start();
            if !line.starts_with("//") && foreign.is_match(line) {
                found.push(format!("{}:{}: {line}", path.display(), number + 1));
            }
        }
    });
    assert!(found.is_empty(), "the host names what belongs into a module:\n{}", found.join("\n"));
}

#[test]
fn the_rule_would_find_a_kind() {
    let foreign = regex::Regex::new(FOREIGN).unwrap();
    for line in [r#"if kind == "Deployment" {"#, r#"let name = "replicaset-controller";"#] {
        assert!(foreign.is_match(line), "{line}");
    }
    for line in [r#"if kind == "Lease" {"#, r#"reason: "FailedCreate""#] {
        assert!(!foreign.is_match(line), "{line}");
    }
}

#[test]
fn admission_and_kinds_look_up_what_is_declared_alone() {
    // A plan is played on a copy that has what writes are checked against: `Consulted` says what that is.
    let mut found = Vec::new();
    for dir in ["admission", "kinds"] {
        for_each_source(&root().join("host/localcluster/src").join(dir), &mut |path, text| {
            let code = text.split("#[cfg(test)]").next().unwrap_or_default();
            if code.contains("ctx.lookup") || code.contains("\n        .lookup") {
                found.push(path.display().to_string());
            }
        });
    }
    assert!(found.is_empty(), "these look up past `Consulted`: {}", found.join(", "));
}

fn for_each_source(dir: &Path, visit: &mut impl FnMut(&Path, &str)) {
    for entry in std::fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            for_each_source(&path, visit);
        } else if path.extension().is_some_and(|e| e == "rs") {
            visit(&path, &std::fs::read_to_string(&path).unwrap());
        }
    }
}
