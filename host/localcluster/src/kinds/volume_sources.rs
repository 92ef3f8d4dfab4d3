//! Checks of where a volume comes from, for volumes of pods and for PersistentVolumes.
//!
//! In: the sources of a volume. Out: what is wrong with the first of them, and a refusal of every further one.

use serde_json::{Value, json};

use super::resources::quantity;
use super::value::{empty, text};
use super::volume_claims;
use super::volume_files::{descending, downward, keyed, no_backsteps, projected};
use super::volume_remote::{
    azure_disk, csi, fibre_channel, flex, flocker, iscsi, nfs, partition, quobyte, secret_name, storage_os,
};
use crate::status::FieldError;

/// Whose volume it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// A pod or template.
    Pod,
    /// A PersistentVolume.
    Volume,
}

type Check = fn(&mut Vec<FieldError>, &Value, &str, Owner);

struct Source {
    key: &'static str,
    /// How errors call it.
    path: &'static str,
    /// How it is called where it is one too many.
    extra: &'static str,
    /// Fields it must have.
    required: &'static [&'static str],
    check: Check,
}

const fn source(key: &'static str, required: &'static [&'static str], check: Check) -> Source {
    Source { key, path: key, extra: key, required, check }
}

const NONE: Check = |_, _, _, _| {};

/// In the order in which they are looked at.
const OF_PODS: &[Source] = &[
    source("emptyDir", &[], empty_dir),
    source("hostPath", &["path"], host_path),
    source("gitRepo", &["repository"], |out, s, path, _| {
        descending(out, &s["directory"], &format!("{path}.directory"));
    }),
    Source { path: "persistentDisk", ..source("gcePersistentDisk", &["pdName"], partition) },
    source("awsElasticBlockStore", &["volumeID"], partition),
    source("secret", &["secretName"], |out, s, path, _| keyed(out, s, path)),
    source("nfs", &["server", "path"], nfs),
    source("iscsi", &["targetPortal"], iscsi),
    source("glusterfs", &["endpoints", "path"], NONE),
    source("flocker", &[], flocker),
    source("persistentVolumeClaim", &["claimName"], NONE),
    source("rbd", &["monitors", "image"], NONE),
    source("cinder", &["volumeID"], secret_name),
    Source { extra: "cephFS", ..source("cephfs", &["monitors"], NONE) },
    source("quobyte", &[], quobyte),
    Source { extra: "downwarAPI", ..source("downwardAPI", &[], downward) },
    source("fc", &[], fibre_channel),
    source("flexVolume", &["driver"], flex),
    source("configMap", &["name"], |out, s, path, _| keyed(out, s, path)),
    source("azureFile", &["secretName", "shareName"], NONE),
    source("vsphereVolume", &["volumePath"], NONE),
    source("photonPersistentDisk", &["pdID"], NONE),
    source("portworxVolume", &["volumeID"], NONE),
    source("azureDisk", &["diskName", "diskURI"], azure_disk),
    source("storageos", &[], storage_os),
    source("projected", &[], projected),
    source("scaleIO", &["gateway", "system", "volumeName"], NONE),
    source("csi", &[], csi),
    source("ephemeral", &["volumeClaimTemplate"], ephemeral),
    source("image", &[], image),
];

const OF_VOLUMES: &[Source] = &[
    source("hostPath", &["path"], host_path),
    Source { path: "persistentDisk", ..source("gcePersistentDisk", &["pdName"], partition) },
    source("awsElasticBlockStore", &["volumeID"], partition),
    source("glusterfs", &["endpoints", "path"], |out, s, path, _| {
        let Some(namespace) = s["endpointsNamespace"].as_str() else { return };
        let field = format!("{path}.endpointsNamespace");
        if namespace.is_empty() {
            let detail = "if the endpointnamespace is set, it must be a valid namespace name";
            return out.push(FieldError::invalid(field, &json!(""), detail));
        }
        super::meta::invalid_all(out, &field, &json!(namespace), super::names::label(namespace));
    }),
    source("flocker", &[], flocker),
    source("nfs", &["server", "path"], nfs),
    source("rbd", &["monitors", "image"], NONE),
    source("quobyte", &[], quobyte),
    Source { extra: "cephFS", ..source("cephfs", &["monitors"], NONE) },
    source("iscsi", &["targetPortal"], iscsi),
    source("cinder", &["volumeID"], secret_name),
    source("fc", &[], fibre_channel),
    Source { extra: "", ..source("flexVolume", &["driver"], flex) },
    source("azureFile", &["secretName", "shareName"], |out, s, path, _| {
        if s["secretNamespace"] == "" {
            out.push(FieldError::required(format!("{path}.secretNamespace"), ""));
        }
    }),
    source("vsphereVolume", &["volumePath"], NONE),
    source("photonPersistentDisk", &["pdID"], NONE),
    source("portworxVolume", &["volumeID"], NONE),
    source("azureDisk", &["diskName", "diskURI"], azure_disk),
    source("scaleIO", &["gateway", "system", "volumeName"], NONE),
    source("local", &["path"], |out, s, path, _| no_backsteps(out, &s["path"], &format!("{path}.path"))),
    source("storageos", &[], storage_os),
    source("csi", &[], csi),
];

/// Checks the sources in `volume`, whose path is `path`.
pub(super) fn check(out: &mut Vec<FieldError>, volume: &Value, path: &str, owner: Owner) {
    let known = if owner == Owner::Pod { OF_PODS } else { OF_VOLUMES };
    let mut found = 0;
    for source in known {
        let value = &volume[source.key];
        if value.is_null() {
            continue;
        }
        found += 1;
        // A source of volumes that is never one too many has no name for it.
        if found > 1 && !source.extra.is_empty() {
            let field = format!("{path}.{}", source.extra);
            out.push(FieldError::forbidden(field, "may not specify more than 1 volume type"));
            continue;
        }
        let here = format!("{path}.{}", source.path);
        for field in source.required {
            if empty(&value[*field]) {
                out.push(FieldError::required(format!("{here}.{field}"), ""));
            }
        }
        (source.check)(out, value, &here, owner);
    }
    if found == 0 {
        out.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn empty_dir(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    if quantity(&s["sizeLimit"]).is_negative() {
        let field = format!("{path}.sizeLimit");
        out.push(FieldError::forbidden(field, "SizeLimit field must be a valid resource quantity"));
    }
}

/// A text that has to be one of a few, if it is there.
pub(super) fn known(out: &mut Vec<FieldError>, value: &Value, field: &str, all: &[&str]) {
    if value.as_str().is_some_and(|v| !all.contains(&v)) {
        out.push(FieldError::not_supported(field, value, all));
    }
}

fn host_path(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    if text(s, "path").is_empty() {
        return;
    }
    no_backsteps(out, &s["path"], &format!("{path}.path"));
    let types =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    known(out, &s["type"], &format!("{path}.type"), &types);
}

fn ephemeral(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    let template = &s["volumeClaimTemplate"];
    if template.is_null() {
        return;
    }
    let path = format!("{path}.volumeClaimTemplate");
    super::meta::labels(out, &template["metadata"], "labels", &format!("{path}.metadata.labels"));
    volume_claims::claim_spec(out, &template["spec"], &format!("{path}.spec"));
}

fn image(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    if text(s, "reference").is_empty() {
        out.push(FieldError::required(format!("{path}.reference"), ""));
    }
    known(out, &s["pullPolicy"], &format!("{path}.pullPolicy"), &["Always", "IfNotPresent", "Never"]);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn one_source_is_checked_and_further_ones_are_refused() {
        let mut out = Vec::new();
        let volume = json!({"name": "v", "nfs": {"server": "s"}, "csi": {}, "emptyDir": {}});
        check(&mut out, &volume, "v", Owner::Pod);
        let fields: Vec<&str> = out.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["v.nfs", "v.csi"]);
        let mut out = Vec::new();
        check(
            &mut out,
            &json!({"csi": {"driver": "d", "nodeExpandSecretRef": {"name": "a"}}}),
            "spec",
            Owner::Volume,
        );
        let fields: Vec<&str> = out.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["spec.csi.volumeHandle", "spec.csi.nodeExpandSecretRef.namespace"]);
    }
}
