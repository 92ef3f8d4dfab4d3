//! The scenarios, what the controller declares, and what pods add up to.

use coxswain_sdk::contract::OptionKind;
use coxswain_sdk::{Time, manifest_of};
use serde_json::{Value, json};

use crate::ResourceQuotaController;
use crate::evaluators::pod_view::Pod;
use crate::evaluators::{claims, devices, pods, services};

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<ResourceQuotaController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

#[test]
fn it_is_known_by_the_names_and_flags_of_kubernetes() {
    let manifest = manifest_of::<ResourceQuotaController>();
    let options: Vec<_> =
        manifest.options.iter().map(|o| (o.name.as_str(), o.kind, o.default.as_str())).collect();
    assert_eq!(manifest.aliases, ["resourcequota"]);
    assert_eq!((manifest.concurrency, &*manifest.concurrency_flag), (5, "concurrent-resource-quota-syncs"));
    assert_eq!(options, [("resource-quota-sync-period", OptionKind::Duration, "5m")]);
}

#[test]
fn it_reads_of_pods_no_more_than_it_counts() {
    let manifest = manifest_of::<ResourceQuotaController>();
    assert!(manifest.reads.iter().all(|read| !read.whole));
    let every = manifest.reads.iter().find(|read| read.resource.resource == "*").unwrap();
    assert!(every.fields.is_empty(), "{:?}", every.fields);
    let pods = manifest.reads.iter().find(|read| read.resource.resource == "pods").unwrap();
    let terms = |kind: &str| {
        let when = "DuringSchedulingIgnoredDuringExecution";
        let term = |prefix: &str| ["namespaceSelector", "namespaces"].map(|field| format!("{prefix}{field}"));
        let weighted = term(&format!("spec.affinity.{kind}.preferred{when}[*].podAffinityTerm."));
        let required = term(&format!("spec.affinity.{kind}.required{when}[*]."));
        weighted.into_iter().chain(required).collect::<Vec<_>>()
    };
    let mut wanted = terms("podAffinity");
    wanted.extend(terms("podAntiAffinity"));
    for list in ["containers", "initContainers"] {
        for field in ["name", "resources.limits", "resources.requests", "restartPolicy"] {
            wanted.push(format!("spec.{list}[*].{field}"));
        }
    }
    for list in ["containerStatuses", "initContainerStatuses"] {
        for field in ["allocatedResources", "name", "resources.limits", "resources.requests"] {
            wanted.push(format!("status.{list}[*].{field}"));
        }
    }
    for field in [
        "spec.activeDeadlineSeconds",
        "spec.overhead",
        "spec.priorityClassName",
        "spec.resources.limits",
        "spec.resources.requests",
        "status.conditions[*].reason",
        "status.conditions[*].type",
        "status.extendedResourceClaimStatus",
        "status.phase",
        "status.qosClass",
    ] {
        wanted.push(field.to_owned());
    }
    wanted.sort();
    assert_eq!(pods.fields, wanted);
}

#[test]
fn every_name_is_counted_by_those_who_know_it() {
    for (name, wanted) in [
        ("pods", "p"),
        ("count/pods", "p"),
        ("cpu", "p"),
        ("requests.memory", "p"),
        ("limits.ephemeral-storage", "p"),
        ("hugepages-2Mi", "p"),
        ("requests.hugepages-2Mi", "p"),
        ("requests.example.com/gpu", "p"),
        ("requests.deviceclass.resource.kubernetes.io/gpu", "p"),
        ("services", "s"),
        ("count/services", "s"),
        ("services.nodeports", "s"),
        ("requests.storage", "c"),
        ("persistentvolumeclaims", "c"),
        ("gold.storageclass.storage.k8s.io/requests.storage", "c"),
        ("gpu.deviceclass.resource.k8s.io/devices", "d"),
        ("count/resourceclaims.resource.k8s.io", "d"),
        ("limits.requests.cpu", ""),
        ("requests.limits.cpu", ""),
        ("limits.example.com/gpu", ""),
        ("example.com/gpu", ""),
        ("requests.kubernetes.io/x", ""),
        ("limits.hugepages-2Mi", ""),
        ("gold.storageclass.storage.k8s.io/limits.storage", ""),
        ("configmaps", ""),
    ] {
        let mut found = String::new();
        for (who, counts) in [
            ('p', pods::counts(name)),
            ('s', services::counts(name)),
            ('c', claims::counts(name)),
            ('d', devices::counts(name)),
        ] {
            found.extend(counts.then_some(who));
        }
        assert_eq!(found, wanted, "{name}");
    }
}

/// What a pod of this spec and status adds to a quota.
fn usage(spec: Value, status: Value) -> Vec<(String, String)> {
    let pod = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
    let pod: Pod = coxswain_sdk::from_json(&pod.to_string()).unwrap();
    let used = pods::usage([&pod], 1, Time::from_unix(0));
    let told = used.iter().filter(|(name, _)| !name.ends_with("pods"));
    let mut told: Vec<_> = told.map(|(name, q)| (name.to_owned(), q.to_string())).collect();
    told.sort();
    told
}

fn is(used: Vec<(String, String)>, wanted: &[(&str, &str)]) {
    let used: Vec<(&str, &str)> = used.iter().map(|(name, q)| (&**name, &**q)).collect();
    assert_eq!(used, wanted);
}

#[test]
fn containers_add_up_and_init_containers_count_at_their_highest() {
    let container = |cpu: &str| json!({"name": cpu, "resources": {"requests": {"cpu": cpu}}});
    let sidecar =
        |cpu: &str| json!({"name": cpu, "restartPolicy": "Always", "resources": {"requests": {"cpu": cpu}}});
    for (init, wanted) in [
        (json!([]), "3"),
        (json!([container("2")]), "3"),
        (json!([container("4")]), "4"),
        (json!([container("4"), container("5")]), "5"),
        (json!([sidecar("1"), container("4")]), "5"),
        (json!([container("4"), sidecar("1")]), "4"),
        (json!([sidecar("1"), sidecar("2")]), "6"),
        (json!([sidecar("1"), container("1"), sidecar("1")]), "5"),
    ] {
        let spec = json!({"containers": [container("1"), container("2")], "initContainers": init});
        is(usage(spec, json!({})), &[("cpu", wanted), ("requests.cpu", wanted)]);
    }
}

#[test]
fn all_kinds_of_resources_have_their_names() {
    let resources = json!({
        "requests": {"cpu": "1", "memory": "1Gi", "ephemeral-storage": "2Gi", "hugepages-2Mi": "4Mi",
            "example.com/gpu": "1", "deviceclass.resource.kubernetes.io/nic": "2", "kubernetes.io/own": "1", "odd": "1"},
        "limits": {"cpu": "2", "memory": "2Gi", "ephemeral-storage": "3Gi", "hugepages-2Mi": "4Mi", "example.com/gpu": "1"},
    });
    let wanted = [
        ("cpu", "1"),
        ("ephemeral-storage", "2Gi"),
        ("hugepages-2Mi", "4Mi"),
        ("limits.cpu", "2"),
        ("limits.ephemeral-storage", "3Gi"),
        ("limits.memory", "2Gi"),
        ("memory", "1Gi"),
        ("requests.cpu", "1"),
        ("requests.deviceclass.resource.kubernetes.io/nic", "2"),
        ("requests.ephemeral-storage", "2Gi"),
        ("requests.example.com/gpu", "1"),
        ("requests.hugepages-2Mi", "4Mi"),
        ("requests.memory", "1Gi"),
    ];
    is(usage(json!({"containers": [{"name": "c", "resources": resources}]}), json!({})), &wanted);
}

#[test]
fn resources_of_the_whole_pod_take_the_place_of_the_sum_and_overhead_comes_on_top() {
    let container = json!({"name": "c", "resources": {"requests": {"cpu": "1", "example.com/gpu": "1"}, "limits": {"memory": "1Gi"}}});
    let spec = json!({
        "containers": [container],
        "resources": {"requests": {"cpu": "5", "example.com/gpu": "7"}, "limits": {"cpu": "6"}},
        "overhead": {"cpu": "250m", "memory": "64Mi", "ephemeral-storage": "1Gi"},
    });
    let wanted = [
        ("cpu", "5250m"),
        ("ephemeral-storage", "1Gi"),
        ("limits.cpu", "6250m"),
        ("limits.memory", "1088Mi"),
        ("memory", "64Mi"),
        ("requests.cpu", "5250m"),
        ("requests.ephemeral-storage", "1Gi"),
        ("requests.example.com/gpu", "1"),
        ("requests.memory", "64Mi"),
    ];
    is(usage(spec, json!({})), &wanted);
}

#[test]
fn a_container_that_is_resized_counts_at_its_most() {
    let spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}, "limits": {"cpu": "3"}}}]});
    let status = |actual: &str, allocated: &str, reason: &str| {
        json!({
            "conditions": [{"type": "PodResizePending", "reason": reason}],
            "containerStatuses": [{"name": "c", "allocatedResources": {"cpu": allocated},
                "resources": {"requests": {"cpu": actual}, "limits": {"cpu": actual}}}],
        })
    };
    for (actual, allocated, reason, requests, limits) in [
        ("1", "2", "Deferred", "3", "3"),
        ("5", "2", "Deferred", "5", "5"),
        ("1", "4", "Deferred", "4", "3"),
        ("1", "2", "Infeasible", "2", "1"),
    ] {
        let used = usage(spec.clone(), status(actual, allocated, reason));
        is(used, &[("cpu", requests), ("limits.cpu", limits), ("requests.cpu", requests)]);
    }
}

#[test]
fn absurd_pods_count_somehow() {
    for resources in [
        json!({"requests": {"cpu": "-5"}}),
        json!({"requests": {"memory": "1e999999999"}}),
        json!({"requests": null, "limits": {}}),
    ] {
        usage(json!({"containers": [{"name": "c", "resources": resources}], "overhead": null}), json!({}));
    }
    usage(json!({"containers": null, "activeDeadlineSeconds": -1}), json!({"conditions": null}));
}
