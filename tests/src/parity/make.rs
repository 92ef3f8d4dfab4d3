//! Objects from their short form in scenarios.

use serde_json::{Map, Value, json};

use super::object::{SIM, merge, text};

/// apiVersion of a kind that may be written without one.
fn api_version(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => "apps/v1",
        "Job" | "CronJob" => "batch/v1",
        "ReplicationController"
        | "Pod"
        | "Service"
        | "ConfigMap"
        | "Secret"
        | "PersistentVolumeClaim"
        | "PersistentVolume"
        | "ResourceQuota"
        | "Namespace"
        | "ServiceAccount"
        | "Endpoints" => "v1",
        "PodDisruptionBudget" => "policy/v1",
        "StorageClass" => "storage.k8s.io/v1",
        "HorizontalPodAutoscaler" => "autoscaling/v2",
        "ClusterRole" => "rbac.authorization.k8s.io/v1",
        "EndpointSlice" => "discovery.k8s.io/v1",
        _ => return None,
    })
}

/// The object that a short form stands for.
pub fn build(m: &Value) -> anyhow::Result<Value> {
    let kind = text(&m["kind"]);
    let name = &m["name"];
    let app = if m["app"].is_null() { name } else { &m["app"] };
    let api_version = match &m["apiVersion"] {
        Value::Null => match api_version(kind) {
            Some(known) => json!(known),
            None => anyhow::bail!("make: kind {kind:?} needs its apiVersion"),
        },
        given => given.clone(),
    };
    let mut metadata = json!({"labels": {"app": app}});
    if name.is_string() {
        metadata["name"] = name.clone();
    }
    let bare = ["PersistentVolume", "StorageClass", "Namespace", "ClusterRole", "Endpoints", "EndpointSlice"];
    if bare.contains(&kind) {
        metadata = json!({"name": name});
    }
    let mut template = template(m, app);
    let selector = json!({"app": app});
    let spec = match kind {
        "Deployment" | "ReplicaSet" | "DaemonSet" => {
            json!({"selector": {"matchLabels": selector}, "template": template})
        }
        "StatefulSet" => {
            json!({"selector": {"matchLabels": selector}, "serviceName": name, "template": template})
        }
        "ReplicationController" => json!({"selector": selector, "template": template}),
        "Job" => {
            never_restart(&mut template);
            json!({"template": template})
        }
        "CronJob" => {
            never_restart(&mut template);
            let mut job = json!({"template": template});
            merge(&mut job, &m["job"]);
            json!({"schedule": m["schedule"], "jobTemplate": {"spec": job}})
        }
        "Pod" => {
            if let Some(annotations) = template["metadata"].get("annotations") {
                metadata["annotations"] = annotations.clone();
            }
            template["spec"].take()
        }
        "Service" => {
            json!({"selector": selector, "ports": [{"name": "http", "port": 80, "targetPort": 8080}]})
        }
        "PodDisruptionBudget" => json!({"selector": {"matchLabels": selector}}),
        "PersistentVolumeClaim" => {
            json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size(m)}}})
        }
        "PersistentVolume" => json!({"accessModes": ["ReadWriteOnce"], "capacity": {"storage": size(m)},
            "hostPath": {"path": format!("/sim/{}", text(name))}}),
        "ResourceQuota" | "HorizontalPodAutoscaler" => json!({}),
        _ => Value::Null,
    };
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": metadata});
    if !spec.is_null() {
        object["spec"] = spec;
    }
    if !m["replicas"].is_null() {
        object["spec"]["replicas"] = m["replicas"].clone();
    }
    for part in ["spec", "metadata"] {
        if m[part].is_object() {
            merge(&mut object[part], &m[part]);
        }
    }
    merge(&mut object, &m["body"]);
    Ok(object)
}

fn size(m: &Value) -> Value {
    if m["size"].is_null() { json!("1Gi") } else { m["size"].clone() }
}

fn never_restart(template: &mut Value) {
    if template["spec"]["restartPolicy"].is_null() {
        template["spec"]["restartPolicy"] = "Never".into();
    }
}

fn template(m: &Value, app: &Value) -> Value {
    let image = if m["image"].is_null() { json!("img:1") } else { m["image"].clone() };
    let mut spec = json!({"containers": [{"name": "c", "image": image}]});
    if !m["restart"].is_null() {
        spec["restartPolicy"] = m["restart"].clone();
    }
    merge(&mut spec, &m["pod"]);
    let mut labels = json!({"app": app});
    merge(&mut labels, &m["podLabels"]);
    let mut template = json!({"metadata": {"labels": labels}, "spec": spec});
    let annotations = simulated(&m["sim"]);
    if !annotations.is_empty() {
        template["metadata"]["annotations"] = annotations.into();
    }
    template
}

/// Annotations that steer simulated pods, with the prefix put before. Null takes one away, in a patch.
pub fn simulated(short: &Value) -> Map<String, Value> {
    let pairs = short.as_object().into_iter().flatten();
    pairs
        .map(|(key, value)| {
            let text = || value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            (format!("{SIM}{key}"), if value.is_null() { Value::Null } else { text().into() })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_forms() {
        assert_eq!(
            build(&json!({"kind": "ReplicaSet", "name": "web", "replicas": 2, "sim": {"exit-code": 1}, "podLabels": {"x": "y"}}))
                .unwrap(),
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "web", "labels": {"app": "web"}},
                "spec": {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": {
                    "metadata": {"labels": {"app": "web", "x": "y"}, "annotations": {"sim.coxswain.dev/exit-code": "1"}},
                    "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}})
        );
        let job =
            build(&json!({"kind": "Job", "name": "j", "spec": {"completions": 3}, "pod": {"hostname": "h"}}))
                .unwrap();
        assert_eq!(job["spec"]["template"]["spec"]["restartPolicy"], "Never");
        assert_eq!(job["spec"]["template"]["spec"]["hostname"], "h");
        assert_eq!(job["spec"]["completions"], 3);
        let volume = build(&json!({"kind": "PersistentVolume", "name": "v", "size": "2Gi"})).unwrap();
        assert_eq!(volume["metadata"], json!({"name": "v"}));
        assert_eq!(volume["spec"]["capacity"]["storage"], "2Gi");
        assert!(build(&json!({"kind": "Widget", "name": "w"})).is_err());
    }
}
