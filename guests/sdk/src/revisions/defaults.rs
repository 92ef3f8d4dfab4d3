//! What the API server fills in where a pod template says nothing.
//!
//! A revision keeps a template as one release served it. A later one may fill in
//! more: then the template is the same although it has grown. So before two are
//! compared both get everything that is filled in.

use serde_json::{Map, Value, json};

/// Where a field is filled in, and with what. A path goes into the elements of
/// lists (`[*]`) and tries several fields (`{a,b}`); it ends where there is
/// nothing.
const DEFAULTS: [(&str, &str); 38] = [
    ("spec.dnsPolicy", r#""ClusterFirst""#),
    ("spec.restartPolicy", r#""Always""#),
    ("spec.schedulerName", r#""default-scheduler""#),
    ("spec.securityContext", "{}"),
    ("spec.terminationGracePeriodSeconds", "30"),
    ("spec.{containers,initContainers}[*].resources", "{}"),
    ("spec.{containers,initContainers}[*].terminationMessagePath", r#""/dev/termination-log""#),
    ("spec.{containers,initContainers}[*].terminationMessagePolicy", r#""File""#),
    ("spec.{containers,initContainers}[*].ports[*].protocol", r#""TCP""#),
    ("spec.{containers,initContainers}[*].env[*].valueFrom.fieldRef.apiVersion", r#""v1""#),
    ("spec.{containers,initContainers}[*].env[*].valueFrom.fileKeyRef.optional", "false"),
    ("spec.{containers,initContainers}[*].{livenessProbe,readinessProbe,startupProbe}.timeoutSeconds", "1"),
    ("spec.{containers,initContainers}[*].{livenessProbe,readinessProbe,startupProbe}.periodSeconds", "10"),
    ("spec.{containers,initContainers}[*].{livenessProbe,readinessProbe,startupProbe}.successThreshold", "1"),
    ("spec.{containers,initContainers}[*].{livenessProbe,readinessProbe,startupProbe}.failureThreshold", "3"),
    ("spec.{containers,initContainers}[*].{livenessProbe,readinessProbe,startupProbe}.grpc.service", r#""""#),
    (
        "spec.{containers,initContainers}[*].{livenessProbe,readinessProbe,startupProbe}.httpGet.path",
        r#""/""#,
    ),
    (
        "spec.{containers,initContainers}[*].{livenessProbe,readinessProbe,startupProbe}.httpGet.scheme",
        r#""HTTP""#,
    ),
    ("spec.{containers,initContainers}[*].lifecycle.{postStart,preStop}.httpGet.path", r#""/""#),
    ("spec.{containers,initContainers}[*].lifecycle.{postStart,preStop}.httpGet.scheme", r#""HTTP""#),
    ("spec.volumes[*].{configMap,secret,downwardAPI,projected}.defaultMode", "420"),
    ("spec.volumes[*].hostPath.type", r#""""#),
    ("spec.volumes[*].downwardAPI.items[*].fieldRef.apiVersion", r#""v1""#),
    ("spec.volumes[*].projected.sources[*].downwardAPI.items[*].fieldRef.apiVersion", r#""v1""#),
    ("spec.volumes[*].projected.sources[*].serviceAccountToken.expirationSeconds", "3600"),
    ("spec.volumes[*].ephemeral.volumeClaimTemplate.spec.volumeMode", r#""Filesystem""#),
    ("spec.volumes[*].iscsi.iscsiInterface", r#""default""#),
    ("spec.volumes[*].rbd.pool", r#""rbd""#),
    ("spec.volumes[*].rbd.user", r#""admin""#),
    ("spec.volumes[*].rbd.keyring", r#""/etc/ceph/keyring""#),
    ("spec.volumes[*].azureDisk.cachingMode", r#""ReadWrite""#),
    ("spec.volumes[*].azureDisk.fsType", r#""ext4""#),
    ("spec.volumes[*].azureDisk.readOnly", "false"),
    ("spec.volumes[*].azureDisk.kind", r#""Shared""#),
    ("spec.volumes[*].scaleIO.storageMode", r#""ThinProvisioned""#),
    ("spec.volumes[*].scaleIO.fsType", r#""xfs""#),
    ("spec.{containers,initContainers}[*].imagePullPolicy", PULL_POLICY),
    ("spec.volumes[*].image.pullPolicy", PULL_POLICY),
];

/// Stands for what depends on the image's tag.
const PULL_POLICY: &str = "(by the tag)";

/// Fills a template in.
pub(super) fn fill(template: &mut Value) {
    for volume in template.pointer_mut("/spec/volumes").and_then(Value::as_array_mut).into_iter().flatten() {
        // What is given no source is an empty directory.
        if let Some(fields) = volume.as_object_mut().filter(|fields| fields.keys().all(|name| name == "name"))
        {
            fields.insert("emptyDir".to_owned(), json!({}));
        }
    }
    for (path, default) in DEFAULTS {
        fill_at(template, path, default);
    }
}

fn fill_at(value: &mut Value, path: &str, default: &str) {
    let (part, rest) = match path.split_once('.') {
        Some((part, rest)) => (part, Some(rest)),
        None => (path, None),
    };
    let (part, each) = part.strip_suffix("[*]").map_or((part, false), |part| (part, true));
    let names = part.strip_prefix('{').and_then(|part| part.strip_suffix('}')).unwrap_or(part);
    let Some(fields) = value.as_object_mut() else { return };
    for name in names.split(',') {
        match (rest, fields.get_mut(name)) {
            (None, Some(_)) | (Some(_), None) => {}
            (None, None) => {
                let value = if default == PULL_POLICY {
                    pull_policy(fields)
                } else {
                    // The table's JSON is sound; a test reads all of it.
                    crate::from_json(default).unwrap_or_default()
                };
                fields.insert(name.to_owned(), value);
            }
            (Some(rest), Some(inner)) if each => {
                for item in inner.as_array_mut().into_iter().flatten() {
                    fill_at(item, rest, default);
                }
            }
            (Some(rest), Some(inner)) => fill_at(inner, rest, default),
        }
    }
}

/// `Always` for an image without a tag (unless it has a digest), or with the tag
/// `latest`.
fn pull_policy(fields: &Map<String, Value>) -> Value {
    let image = fields.get("image").or_else(|| fields.get("reference")).and_then(Value::as_str);
    let image = image.unwrap_or_default();
    let (name, digest) = image.split_once('@').map_or((image, false), |(name, _)| (name, true));
    let last = name.rsplit('/').next().unwrap_or_default();
    let latest = match last.split_once(':') {
        Some((_, tag)) => tag == "latest",
        None => !digest,
    };
    json!(if latest { "Always" } else { "IfNotPresent" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        for (path, default) in DEFAULTS {
            assert!(
                default == PULL_POLICY || serde_json::from_str::<Value>(default).is_ok(),
                "{path}: {default}"
            );
        }
    }

    #[test]
    fn all_that_is_missing_is_filled_in_and_nothing_else() {
        let probe = json!({"httpGet": {"port": 80}, "periodSeconds": 7});
        let mut template = json!({"metadata": {}, "spec": {
            "restartPolicy": "Never",
            "containers": [
                {"name": "a", "image": "a", "readinessProbe": probe, "startupProbe": {"grpc": {"port": 1}}},
                {"name": "b", "image": "r:5000/b:1", "env": [{"name": "E"}, {"name": "N", "valueFrom": {"fieldRef": {}}}],
                 "ports": [{"containerPort": 1}], "lifecycle": {"preStop": {"httpGet": {}}, "postStart": {"exec": {}}}},
            ],
            "volumes": [{"name": "v"}, {"name": "c", "configMap": {"name": "c", "defaultMode": 0}}, {"name": "s", "secret": {}},
                {"name": "t", "projected": {"sources": [{"serviceAccountToken": {}}, {"secret": {}}]}}, {"name": "i", "image": {"reference": "x:latest"}}],
        }});
        fill(&mut template);
        let container = |name: &str, image: &str, pull: &str, more: Value| {
            let mut container = json!({"name": name, "image": image, "imagePullPolicy": pull, "resources": {},
                "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File"});
            crate::merge::apply(&mut container, &more);
            container
        };
        let probe = |period: i32, action: Value| {
            let mut probe = json!({"timeoutSeconds": 1, "periodSeconds": period, "successThreshold": 1, "failureThreshold": 3});
            crate::merge::apply(&mut probe, &action);
            probe
        };
        assert_eq!(
            template,
            json!({"metadata": {}, "spec": {
                "restartPolicy": "Never",
                "dnsPolicy": "ClusterFirst",
                "schedulerName": "default-scheduler",
                "securityContext": {},
                "terminationGracePeriodSeconds": 30,
                "containers": [
                    container("a", "a", "Always", json!({
                        "readinessProbe": probe(7, json!({"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}})),
                        "startupProbe": probe(10, json!({"grpc": {"port": 1, "service": ""}}))})),
                    container("b", "r:5000/b:1", "IfNotPresent", json!({
                        "env": [{"name": "E"}, {"name": "N", "valueFrom": {"fieldRef": {"apiVersion": "v1"}}}],
                        "ports": [{"containerPort": 1, "protocol": "TCP"}],
                        "lifecycle": {"preStop": {"httpGet": {"path": "/", "scheme": "HTTP"}}, "postStart": {"exec": {}}}})),
                ],
                "volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c", "defaultMode": 0}},
                    {"name": "s", "secret": {"defaultMode": 420}},
                    {"name": "t", "projected": {"defaultMode": 420, "sources": [{"serviceAccountToken": {"expirationSeconds": 3600}}, {"secret": {}}]}},
                    {"name": "i", "image": {"reference": "x:latest", "pullPolicy": "Always"}}],
            }})
        );
        let once = template.clone();
        fill(&mut template);
        assert_eq!(template, once);
    }

    #[test]
    fn what_is_no_template_stays_as_it_is() {
        for odd in
            [json!(null), json!([]), json!({"spec": 3}), json!({"spec": {"containers": {}, "volumes": [1]}})]
        {
            let mut filled = odd.clone();
            fill(&mut filled);
            assert_eq!(filled.get("spec").is_some(), odd.get("spec").is_some(), "{odd}");
        }
    }

    #[test]
    fn images_are_pulled_by_their_tag() {
        for (image, policy) in [
            ("web", "Always"),
            ("web:latest", "Always"),
            ("web:1", "IfNotPresent"),
            ("r:5000/web", "Always"),
            ("r:5000/web:1", "IfNotPresent"),
            ("web@sha256:0", "IfNotPresent"),
            ("web:latest@sha256:0", "Always"),
        ] {
            let container = json!({"image": image});
            assert_eq!(pull_policy(container.as_object().unwrap()), policy, "{image}");
        }
    }
}
