//! Which Secrets a pod names.

use coxswain_sdk::resource::PODS;
use coxswain_sdk::{FromJson, Resource, View};

/// A pod, as far as it names Secrets.
#[derive(Debug, FromJson)]
pub struct Pod {
    #[serde(default)]
    spec: Spec,
}

impl View for Pod {
    const RESOURCE: Resource = PODS;
}

/// A reference by name.
#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Reference {
    name: String,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Spec {
    image_pull_secrets: Vec<Reference>,
    init_containers: Vec<Container>,
    containers: Vec<Container>,
    ephemeral_containers: Vec<Container>,
    volumes: Vec<Volume>,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Container {
    env_from: Vec<WithReference>,
    env: Vec<Variable>,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Variable {
    value_from: Option<Value>,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Value {
    secret_key_ref: Option<Reference>,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct WithReference {
    secret_ref: Option<Reference>,
}

/// The kinds of volume that may name a Secret.
#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Volume {
    azure_file: Option<WithName>,
    cephfs: Option<WithReference>,
    cinder: Option<WithReference>,
    flex_volume: Option<WithReference>,
    projected: Option<Projected>,
    rbd: Option<WithReference>,
    secret: Option<WithName>,
    #[serde(rename = "scaleIO")]
    scale_io: Option<WithReference>,
    iscsi: Option<WithReference>,
    storageos: Option<WithReference>,
    csi: Option<Csi>,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct WithName {
    secret_name: String,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Projected {
    sources: Vec<Source>,
}

#[derive(Debug, Default, FromJson)]
#[serde(default)]
struct Source {
    secret: Option<Reference>,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "camelCase", default)]
struct Csi {
    node_publish_secret_ref: Option<Reference>,
}

impl Pod {
    /// Whether it names a Secret.
    pub(crate) fn names(&self, secret: &str) -> bool {
        let spec = &self.spec;
        let containers = [&spec.init_containers, &spec.containers, &spec.ephemeral_containers];
        spec.image_pull_secrets.iter().any(|reference| reference.name == secret)
            || containers.into_iter().flatten().any(|container| container.names(secret))
            || spec.volumes.iter().any(|volume| volume.names(secret))
    }
}

fn is(reference: Option<&Reference>, secret: &str) -> bool {
    reference.is_some_and(|reference| reference.name == secret)
}

impl Container {
    fn names(&self, secret: &str) -> bool {
        let value = |variable: &Variable| {
            is(variable.value_from.as_ref().and_then(|from| from.secret_key_ref.as_ref()), secret)
        };
        self.env_from.iter().any(|from| is(from.secret_ref.as_ref(), secret)) || self.env.iter().any(value)
    }
}

impl Volume {
    fn names(&self, secret: &str) -> bool {
        let referring = [
            &self.cephfs,
            &self.cinder,
            &self.flex_volume,
            &self.rbd,
            &self.scale_io,
            &self.iscsi,
            &self.storageos,
        ];
        let naming = [&self.azure_file, &self.secret];
        let sources = self.projected.iter().flat_map(|projected| &projected.sources);
        naming.into_iter().flatten().any(|volume| volume.secret_name == secret)
            || referring.into_iter().flatten().any(|volume| is(volume.secret_ref.as_ref(), secret))
            || sources.map(|source| source.secret.as_ref()).any(|reference| is(reference, secret))
            || is(self.csi.as_ref().and_then(|csi| csi.node_publish_secret_ref.as_ref()), secret)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_place_where_a_pod_may_name_a_secret() {
        let reference = json!({"name": "s"});
        let container = json!([{"env": [{"name": "A", "valueFrom": {"secretKeyRef": reference}}]}]);
        let mut specs = vec![
            json!({"imagePullSecrets": [reference]}),
            json!({"containers": [{"envFrom": [{"configMapRef": {"name": "s"}}, {"secretRef": reference}]}]}),
            json!({"containers": container}),
            json!({"initContainers": container}),
            json!({"ephemeralContainers": container}),
        ];
        for volume in [
            json!({"secret": {"secretName": "s"}}),
            json!({"azureFile": {"secretName": "s"}}),
            json!({"projected": {"sources": [{"configMap": {}}, {"secret": reference}]}}),
            json!({"csi": {"nodePublishSecretRef": reference}}),
            json!({"cephfs": {"secretRef": reference}}),
            json!({"cinder": {"secretRef": reference}}),
            json!({"flexVolume": {"secretRef": reference}}),
            json!({"rbd": {"secretRef": reference}}),
            json!({"scaleIO": {"secretRef": reference}}),
            json!({"iscsi": {"secretRef": reference}}),
            json!({"storageos": {"secretRef": reference}}),
        ] {
            specs.push(json!({"volumes": [{"name": "other"}, volume]}));
        }
        for spec in specs {
            let pod: Pod = serde_json::from_value(json!({ "spec": spec })).unwrap();
            assert!(pod.names("s") && !pod.names("t"), "{spec}");
        }
        let none = json!({"spec": {
            "containers": [{"env": [{"name": "s", "value": "s"}]}],
            "volumes": [{"name": "s", "configMap": {"name": "s"}}, {"name": "p", "projected": {"sources": null}}],
        }});
        assert!(!serde_json::from_value::<Pod>(none).unwrap().names("s"));
    }
}
