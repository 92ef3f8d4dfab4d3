//! What a website owns: as it should be, and what to do about what there is.

use coxswain_sdk::contract::PatchKind;
use coxswain_sdk::{About, Action, ObjectMeta, OwnerReference, Resource, Result, StringMap, merge};
use serde::Serialize;
use serde_json::json;

use crate::views::{
    Annotations, ConfigMap, ConfigMapRef, Container, ContainerPort, DeploymentSpec, EnvFrom, PodSpec,
    ServicePort, ServiceSpec, Template, TemplateMeta, WEBSITES, Website,
};

/// The label that says whose something is.
pub const LABEL: &str = "demo.coxswain.dev/website";

/// How something under a website's name stands to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Standing {
    /// There is nothing.
    Missing,
    /// The website owns it.
    Owned,
    /// Nobody owns it, and its label says that it was the website's.
    Orphan,
    /// It is somebody else's.
    Foreign,
}

/// How this stands to a website.
pub fn standing(site: &Website, meta: Option<&ObjectMeta>) -> Standing {
    match meta {
        None => Standing::Missing,
        Some(meta) if meta.is_controlled_by(&site.metadata.uid) => Standing::Owned,
        Some(meta)
            if meta.controller().is_none()
                && !meta.is_deleting()
                && meta.labels.get(LABEL) == Some(&site.metadata.name) =>
        {
            Standing::Orphan
        }
        Some(_) => Standing::Foreign,
    }
}

/// The write that brings one object to what is wanted of it; none if it is so.
pub fn bring_about<S: Serialize>(
    site: &Website,
    resource: Resource,
    there: Option<(&ObjectMeta, &S)>,
    wanted: &S,
) -> Result<Option<Action>> {
    let meta = &site.metadata;
    let owner = OwnerReference::controller(WEBSITES, &meta.name, &meta.uid);
    let action = match (standing(site, there.map(|(meta, _)| meta)), there) {
        (Standing::Owned, Some((found, spec))) => {
            let Some(change) = merge::diff_of(spec, wanted)? else { return Ok(None) };
            let body = json!({ "spec": change });
            Action::merge(resource, &meta.namespace, &meta.name, &body).uid(&found.uid)
        }
        (Standing::Orphan, Some((found, _))) => {
            let body = json!({ "metadata": { "ownerReferences": [owner] } });
            Action::patch(resource, &meta.namespace, &meta.name, PatchKind::Strategic, &body).uid(&found.uid)
        }
        (Standing::Missing, _) => {
            let mut object = json!({
                "apiVersion": resource.api_version(),
                "kind": resource.kind,
                "metadata": {
                    "name": meta.name,
                    "namespace": meta.namespace,
                    "labels": labels(site),
                    "ownerReferences": [owner],
                },
                "spec": wanted,
            });
            if resource.kind == "Deployment" {
                // These never change, so they are given only here.
                object["spec"]["selector"] = json!({ "matchLabels": labels(site) });
                object["spec"]["template"]["metadata"]["labels"] = json!(labels(site));
            }
            let about = About::of::<Website, _>(meta);
            Action::create(resource, &meta.namespace, &meta.name, &object)?
                .on_success(about.normal("Created", format!("Created {} {{name}}", resource.kind)))
                .on_failure(about.warning("CreateFailed", format!("{} {{name}}: {{message}}", resource.kind)))
        }
        _ => return Ok(None),
    };
    Ok(Some(action.tag(resource.plural)))
}

fn labels(site: &Website) -> StringMap {
    StringMap::from([(LABEL.to_owned(), site.metadata.name.clone())])
}

/// The Deployment that a website wants.
pub fn deployment(site: &Website, config: Option<&ConfigMap>) -> DeploymentSpec {
    let config_map_ref = ConfigMapRef { name: site.spec.config.clone() };
    let container = Container {
        name: "web".to_owned(),
        image: site.spec.image.clone(),
        ports: vec![ContainerPort { container_port: site.spec.port }],
        env_from: config.map(|_| EnvFrom { config_map_ref }).into_iter().collect(),
    };
    let annotations = Annotations { config_hash: config.map(|config| hash(&config.data)) };
    DeploymentSpec {
        replicas: site.spec.replicas,
        template: Template {
            metadata: TemplateMeta { annotations },
            spec: PodSpec { containers: vec![container] },
        },
    }
}

/// The Service that a website wants.
pub fn service(site: &Website) -> ServiceSpec {
    let port = ServicePort { name: "http".to_owned(), port: 80, target_port: json!(site.spec.port) };
    ServiceSpec { selector: labels(site), ports: vec![port] }
}

/// FNV-1a over keys and values, each with a zero byte after it.
fn hash(data: &StringMap) -> String {
    let bytes = data.iter().flat_map(|(key, value)| [key, value]).flat_map(|text| text.bytes().chain([0]));
    let hash = bytes.fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    format!("{hash:08x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_moves_with_keys_and_values_and_where_they_part() {
        let of = |pairs: &[(&str, &str)]| {
            hash(&pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect())
        };
        assert_eq!(of(&[]), "811c9dc5");
        let some = [of(&[("a", "bc")]), of(&[("ab", "c")]), of(&[("a", "b"), ("c", "")]), of(&[("a", "b")])];
        for (i, one) in some.iter().enumerate() {
            assert!(!some[..i].contains(one), "{some:?}");
        }
    }
}
