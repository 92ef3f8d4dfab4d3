//! Checks of where a volume comes from, for volumes of pods and for PersistentVolumes.
//!
//! In: the sources of a volume. Out: what is wrong with the first of them, and a refusal of every further one.

use serde_json::{Value, json};

use super::meta::invalid_all;
use super::names;
use super::resources::quantity;
use super::value::{empty, entries, flag, int, items, text};
use super::{pod_downward, volume_claims};
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
    source("glusterfs", &["endpoints", "path"], NONE),
    source("flocker", &[], flocker),
    source("nfs", &["server", "path"], nfs),
    source("rbd", &["monitors", "image"], NONE),
    source("quobyte", &[], quobyte),
    Source { extra: "cephFS", ..source("cephfs", &["monitors"], NONE) },
    source("iscsi", &["targetPortal"], iscsi),
    source("cinder", &["volumeID"], secret_name),
    source("fc", &[], fibre_channel),
    source("flexVolume", &["driver"], flex),
    source("azureFile", &["secretName", "shareName"], NONE),
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
        if found > 1 {
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

pub(super) fn no_backsteps(out: &mut Vec<FieldError>, target: &Value, field: &str) {
    if target.as_str().is_some_and(|t| t.split('/').any(|part| part == "..")) {
        out.push(FieldError::invalid(field, target, "must not contain '..'"));
    }
}

pub(super) fn descending(out: &mut Vec<FieldError>, target: &Value, field: &str) {
    if target.as_str().is_some_and(|t| t.starts_with('/')) {
        out.push(FieldError::invalid(field, target, "must be a relative path"));
    }
    no_backsteps(out, target, field);
}

/// A path inside a volume.
pub(super) fn local_path(out: &mut Vec<FieldError>, target: &Value, field: &str) {
    descending(out, target, field);
    if target.as_str().is_some_and(|t| t.starts_with("..") && !t.starts_with("../")) {
        out.push(FieldError::invalid(field, target, "must not start with '..'"));
    }
}

pub(super) fn mode(out: &mut Vec<FieldError>, parent: &Value, key: &str, path: &str) {
    if parent[key].as_i64().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        out.push(FieldError::invalid(format!("{path}.{key}"), &parent[key], detail));
    }
}

fn keyed(out: &mut Vec<FieldError>, s: &Value, path: &str) {
    mode(out, s, "defaultMode", path);
    for (i, item) in items(s, "items").iter().enumerate() {
        key_to_path(out, item, &format!("{path}.items[{i}]"));
    }
}

pub(super) fn key_to_path(out: &mut Vec<FieldError>, item: &Value, path: &str) {
    for key in ["key", "path"] {
        if text(item, key).is_empty() {
            out.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    local_path(out, &item["path"], &format!("{path}.path"));
    mode(out, item, "mode", path);
}

fn partition(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    if !(0..=255).contains(&int(s, "partition")) {
        let detail = "must be between 1 and 255, inclusive";
        out.push(FieldError::invalid(format!("{path}.partition"), &s["partition"], detail));
    }
}

fn nfs(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    let target = text(s, "path");
    if !target.starts_with('/') {
        let field = format!("{path}.path");
        out.push(FieldError::invalid(field, &json!(target), "must be an absolute path"));
    }
}

fn iscsi(out: &mut Vec<FieldError>, s: &Value, path: &str, owner: Owner) {
    let start = if owner == Owner::Pod {
        "must be valid format starting with iqn, eui, or naa"
    } else {
        "must be valid format"
    };
    let named = |out: &mut Vec<FieldError>, name: &str, field: String| {
        if !["iqn", "eui", "naa"].iter().any(|p| name.starts_with(p)) {
            out.push(FieldError::invalid(field, &json!(name), start));
        } else if !names::iscsi_name(name) {
            out.push(FieldError::invalid(field, &json!(name), "must be valid format"));
        }
    };
    match text(s, "iqn") {
        "" => out.push(FieldError::required(format!("{path}.iqn"), "")),
        name => named(out, name, format!("{path}.iqn")),
    }
    lun(out, s, path);
    if (flag(s, "chapAuthDiscovery") || flag(s, "chapAuthSession")) && s["secretRef"].is_null() {
        out.push(FieldError::required(format!("{path}.secretRef"), ""));
    }
    if owner == Owner::Volume {
        secret_name(out, s, path, Owner::Pod);
    }
    if let Some(name) = s["initiatorName"].as_str() {
        named(out, name, format!("{path}.initiatorname"));
    }
}

fn lun(out: &mut Vec<FieldError>, s: &Value, path: &str) {
    if !(0..=255).contains(&int(s, "lun")) {
        let detail = "must be between 0 and 255, inclusive";
        out.push(FieldError::invalid(format!("{path}.lun"), &s["lun"], detail));
    }
}

fn flocker(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    let (name, uuid) = (text(s, "datasetName"), text(s, "datasetUUID"));
    if name.is_empty() && uuid.is_empty() {
        out.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let detail = "datasetName and datasetUUID can not be specified simultaneously";
        out.push(FieldError::invalid(path, &json!("resource"), detail));
    }
    if name.contains('/') {
        out.push(FieldError::invalid(format!("{path}.datasetName"), &json!(name), "must not contain '/'"));
    }
}

/// `secretRef`, which pods look up in their own namespace.
fn secret_name(out: &mut Vec<FieldError>, s: &Value, path: &str, owner: Owner) {
    if s["secretRef"].is_null() {
        return;
    }
    let keys: &[&str] = if owner == Owner::Pod { &["name"] } else { &["name", "namespace"] };
    for key in keys {
        if text(&s["secretRef"], key).is_empty() {
            out.push(FieldError::required(format!("{path}.secretRef.{key}"), ""));
        }
    }
}

fn quobyte(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    let pairs = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(s, "registry");
    if registry.is_empty() {
        out.push(FieldError::required(format!("{path}.registry"), pairs));
    } else if text(s, "tenant").len() >= 65 {
        let detail = "must be a UUID and may not exceed a length of 64 characters";
        out.push(FieldError::required(format!("{path}.tenant"), detail));
    } else {
        for _ in registry.split(',').filter(|pair| !pair.contains(':')) {
            out.push(FieldError::invalid(format!("{path}.registry"), &json!(registry), pairs));
        }
    }
    if text(s, "volume").is_empty() {
        out.push(FieldError::required(format!("{path}.volume"), ""));
    }
}

fn downward(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    mode(out, s, "defaultMode", path);
    for file in items(s, "items") {
        pod_downward::file(out, file, path);
    }
}

fn fibre_channel(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    let (targets, ids) = (items(s, "targetWWNs"), items(s, "wwids"));
    let field = format!("{path}.targetWWNs");
    if targets.is_empty() && ids.is_empty() {
        out.push(FieldError::required(&field, "must specify either targetWWNs or wwids, but not both"));
    }
    if targets.is_empty() {
        return;
    }
    if !ids.is_empty() {
        let detail = "targetWWNs and wwids can not be specified simultaneously";
        out.push(FieldError::invalid(&field, &json!(targets), detail));
    }
    if s["lun"].is_null() {
        out.push(FieldError::required(format!("{path}.lun"), "lun is required if targetWWNs is specified"));
    } else {
        lun(out, s, path);
    }
}

fn flex(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    for (key, _) in entries(s, "options") {
        let namespace = format!(".{}", key.split('/').next().unwrap_or(key).to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let detail = "kubernetes.io and k8s.io namespaces are reserved";
            out.push(FieldError::invalid(format!("{path}.options[{key}]"), &json!(key), detail));
        }
    }
}

fn azure_disk(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    known(out, &s["cachingMode"], &format!("{path}.cachingMode"), &["None", "ReadOnly", "ReadWrite"]);
    known(out, &s["kind"], &format!("{path}.kind"), &["Dedicated", "Managed", "Shared"]);
    let (kind, uri) = (text(s, "kind"), text(s, "diskURI"));
    let (start, form) = match kind {
        "" => return,
        "Managed" => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        _ => ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"),
    };
    if !uri.starts_with(start) {
        out.push(FieldError::not_supported(format!("{path}.diskURI"), &json!(uri), &[form]));
    }
}

fn storage_os(out: &mut Vec<FieldError>, s: &Value, path: &str, owner: Owner) {
    for key in ["volumeName", "volumeNamespace"] {
        let name = text(s, key);
        if !name.is_empty() {
            invalid_all(out, &format!("{path}.{key}"), &json!(name), names::label(name));
        } else if key == "volumeName" {
            out.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    secret_name(out, s, path, owner);
}

/// Name of a CSI driver at `field`.
pub(super) fn driver_name(out: &mut Vec<FieldError>, name: &str, field: &str) {
    if name.is_empty() {
        out.push(FieldError::required(field, ""));
        return;
    }
    if name.len() > 63 {
        out.push(FieldError::too_long(field, 63));
    }
    invalid_all(out, field, &json!(name), names::subdomain(&name.to_lowercase()));
}

fn csi(out: &mut Vec<FieldError>, s: &Value, path: &str, owner: Owner) {
    driver_name(out, text(s, "driver"), &format!("{path}.driver"));
    if owner == Owner::Pod {
        let secret = &s["nodePublishSecretRef"];
        let name = text(secret, "name");
        if !secret.is_null() && name.is_empty() {
            out.push(FieldError::required(format!("{path}.nodePublishSecretRef.name"), ""));
        } else if !secret.is_null() {
            invalid_all(out, &format!("{path}.name"), &json!(name), names::subdomain(name));
        }
        return;
    }
    if text(s, "volumeHandle").is_empty() {
        out.push(FieldError::required(format!("{path}.volumeHandle"), ""));
    }
    for key in [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ] {
        if s[key].is_null() {
            continue;
        }
        for (part, rule) in
            [("name", names::subdomain as fn(&str) -> Vec<String>), ("namespace", names::label)]
        {
            let (field, name) = (format!("{path}.{key}.{part}"), text(&s[key], part));
            if name.is_empty() {
                out.push(FieldError::required(field, ""));
            } else {
                invalid_all(out, &field, &json!(name), rule(name));
            }
        }
    }
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

fn projected(out: &mut Vec<FieldError>, s: &Value, path: &str, _: Owner) {
    mode(out, s, "defaultMode", path);
    let mut paths: Vec<String> = Vec::new();
    let mut taken = |out: &mut Vec<FieldError>, target: &str, shown: &str| {
        if paths.iter().any(|p| p == target) {
            out.push(FieldError::invalid(path, &json!(shown), "conflicting duplicate paths"));
        } else {
            paths.push(target.to_owned());
        }
    };
    for (i, source) in items(s, "sources").iter().enumerate() {
        let here = format!("{path}.sources[{i}]");
        for key in ["secret", "configMap"] {
            let it = &source[key];
            if it.is_null() {
                continue;
            }
            if text(it, "name").is_empty() {
                out.push(FieldError::required(format!("{here}.{key}.name"), ""));
            }
            for (j, item) in items(it, "items").iter().enumerate() {
                key_to_path(out, item, &format!("{here}.{key}.items[{j}]"));
                if !text(item, "path").is_empty() {
                    taken(out, text(item, "path"), text(it, "name"));
                }
            }
        }
        for file in items(&source["downwardAPI"], "items") {
            pod_downward::file(out, file, &format!("{here}.downwardAPI"));
            if !text(file, "path").is_empty() {
                taken(out, text(file, "path"), text(file, "path"));
            }
        }
        let token = &source["serviceAccountToken"];
        if !token.is_null() {
            let (field, seconds) =
                (format!("{here}.serviceAccountToken.expirationSeconds"), int(token, "expirationSeconds"));
            if seconds < 600 {
                let detail = "may not specify a duration less than 10 minutes";
                out.push(FieldError::invalid(&field, &json!(seconds), detail));
            }
            if seconds > 1 << 32 {
                let detail = "may not specify a duration larger than 2^32 seconds";
                out.push(FieldError::invalid(&field, &json!(seconds), detail));
            }
            if text(token, "path").is_empty() {
                out.push(FieldError::required(format!("{path}.path"), ""));
            } else {
                local_path(out, &token["path"], &format!("{path}.path"));
            }
        }
        let bundle = &source["clusterTrustBundle"];
        if !bundle.is_null() {
            let at = format!("{here}.clusterTrustBundle");
            match (bundle["name"].as_str(), bundle["signerName"].as_str()) {
                (Some(_), Some(_)) => {
                    let detail = "only one of name and signerName may be used";
                    out.push(FieldError::invalid(&at, bundle, detail));
                }
                (None, None) => {
                    out.push(FieldError::required(&at, "either name or signerName must be specified"));
                }
                _ => {}
            }
            if text(bundle, "path").is_empty() {
                out.push(FieldError::required(format!("{at}.path"), ""));
            }
            local_path(out, &bundle["path"], &format!("{at}.path"));
            taken(out, text(bundle, "path"), text(bundle, "path"));
        }
        if source.as_object().map_or(0, serde_json::Map::len) > 1 {
            out.push(FieldError::forbidden(&here, "may not specify more than 1 volume type per source"));
        }
    }
}

#[cfg(test)]
mod tests {
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
