//! Warnings about pods and pod templates: what is allowed and hardly meant.

use serde_json::Value;

use super::ip_text;
use super::names;
use super::pod_containers::CONTAINERS;
use super::value::{at, entries, int, items, text};
use crate::schema::quantity::Quantity;

/// What a name that is no label leads to, of kinds whose pods are named after it.
pub(super) fn name(object: &Value, whose: &str) -> Option<String> {
    let wrong = names::label(text(&object["metadata"], "name"));
    (!wrong.is_empty()).then(|| {
        let wrong = wrong.join(" ");
        format!(
            "metadata.name: this is used in {whose}, which can result in surprising behavior; a DNS label is recommended: [{wrong}]"
        )
    })
}

/// Warnings about an object that makes pods by its template; of a change only where it changes what is wanted.
pub(super) fn of_template(old: Option<&Value>, new: &Value, path: &str) -> Vec<String> {
    let named = matches!(path, "spec.template" | "spec.jobTemplate.spec.template");
    let mut out = match old {
        Some(old) if old["metadata"]["generation"] == new["metadata"]["generation"] => return Vec::new(),
        Some(_) => Vec::new(),
        None if named => name(new, "Pod names and hostnames").into_iter().collect(),
        None => Vec::new(),
    };
    out.append(&mut of_pod(at(new, path), path));
    out
}

/// Warnings about a pod, or about a template at a path.
pub(super) fn of_pod(pod: &Value, path: &str) -> Vec<String> {
    let dot = if path.is_empty() { "" } else { "." };
    let mut look = Look {
        spec: &pod["spec"],
        annotations: &pod["metadata"]["annotations"],
        at: format!("{path}{dot}"),
        out: Vec::new(),
    };
    look.node_labels();
    look.spread();
    look.annotations();
    look.volumes();
    look.repeated("hostAliases", "ip", "ip");
    look.repeated("imagePullSecrets", "name", "name");
    look.empty_secrets();
    look.fractions(&look.spec["overhead"], "spec.overhead");
    look.seccomp();
    look.containers();
    look.ports();
    look.port_names();
    if int(look.spec, "terminationGracePeriodSeconds") < 0 {
        look.say(
            "spec.terminationGracePeriodSeconds",
            "must be >= 0; negative values are invalid and will be treated as 1",
        );
    }
    look.affinity_terms();
    look.addresses();
    look.out
}

const OLD_NODE_LABELS: [(&str, &str); 8] = [
    ("beta.kubernetes.io/arch", r#"deprecated since v1.14; use "kubernetes.io/arch" instead"#),
    ("beta.kubernetes.io/os", r#"deprecated since v1.14; use "kubernetes.io/os" instead"#),
    (
        "failure-domain.beta.kubernetes.io/region",
        r#"deprecated since v1.17; use "topology.kubernetes.io/region" instead"#,
    ),
    (
        "failure-domain.beta.kubernetes.io/zone",
        r#"deprecated since v1.17; use "topology.kubernetes.io/zone" instead"#,
    ),
    (
        "beta.kubernetes.io/instance-type",
        r#"deprecated since v1.17; use "node.kubernetes.io/instance-type" instead"#,
    ),
    ("app.kubernetes.io/created-by", "deprecated since v1.9"),
    (
        "scheduler.alpha.kubernetes.io/preferAvoidPods",
        "deprecated since v1.22; use Taints and Tolerations instead",
    ),
    ("node-role.kubernetes.io/master", r#"use "node-role.kubernetes.io/control-plane" instead"#),
];

/// What to use instead of a label of nodes that is out of use.
pub(super) fn old_node_label(key: &str) -> Option<&'static str> {
    OLD_NODE_LABELS.iter().find(|(old, _)| *old == key).map(|(_, instead)| *instead)
}

/// Warnings about the expressions of a term that selects nodes.
pub(super) fn node_term(term: &Value, preferred: bool, path: &str) -> Vec<String> {
    let mut out = Vec::new();
    for (i, expression) in items(term, "matchExpressions").iter().enumerate() {
        let key = text(expression, "key");
        if let Some(instead) = old_node_label(key) {
            out.push(format!("{path}.matchExpressions[{i}].key: {key} is {instead}"));
        }
        let values = items(expression, "values").iter().filter(|_| preferred);
        for (j, value) in values.filter_map(Value::as_str).enumerate() {
            for wrong in names::label_value(value) {
                out.push(format!("{path}.matchExpressions[{i}].values[{j}]: {value} is invalid, {wrong}"));
            }
        }
    }
    out
}

/// Sources of volumes that are deprecated or gone, by their JSON names and as warnings name them, and since when.
const GONE_SOURCES: [(&str, &str, &str); 9] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
];

/// Which of them a volume is of, as warnings name it, and what is said of that.
pub(super) fn gone_sources(volume: &Value) -> impl Iterator<Item = (&'static str, &'static str)> {
    let gone = GONE_SOURCES.iter().filter(|(source, ..)| volume[*source].is_object());
    gone.map(|(_, shown, why)| (*shown, *why))
}

/// Warnings about amounts of bytes that are no whole number, of `keys`.
pub(super) fn fractions(amounts: &Value, keys: &[&str], path: &str) -> Vec<String> {
    let broken = keys.iter().filter_map(|key| {
        let amount = Quantity::parse(amounts[*key].as_str()?)?;
        (!amount.is_whole()).then(|| {
            format!(
                "{path}[{key}]: fractional byte value {:?} is invalid, must be an integer",
                amount.to_string()
            )
        })
    });
    broken.collect()
}

struct Look<'v> {
    spec: &'v Value,
    annotations: &'v Value,
    /// In front of each path.
    at: String,
    out: Vec<String>,
}

impl<'v> Look<'v> {
    fn say(&mut self, path: &str, what: &str) {
        self.out.push(format!("{}{path}: {what}", self.at));
    }

    fn node_labels(&mut self) {
        for (key, _) in entries(self.spec, "nodeSelector") {
            if let Some(instead) = old_node_label(key) {
                self.say(&format!("spec.nodeSelector[{key}]"), instead);
            }
        }
        let affinity = &self.spec["affinity"]["nodeAffinity"];
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in items(&affinity[required], "nodeSelectorTerms").iter().enumerate() {
            let path = format!("{}spec.affinity.nodeAffinity.{required}.nodeSelectorTerms[{i}]", self.at);
            self.out.append(&mut node_term(term, false, &path));
        }
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        for (i, term) in items(affinity, preferred).iter().enumerate() {
            let path = format!("{}spec.affinity.nodeAffinity.{preferred}[{i}].preference", self.at);
            self.out.append(&mut node_term(&term["preference"], true, &path));
        }
    }

    fn spread(&mut self) {
        for (i, constraint) in items(self.spec, "topologySpreadConstraints").iter().enumerate() {
            let path = format!("spec.topologySpreadConstraints[{i}]");
            let key = text(constraint, "topologyKey");
            if let Some(instead) = old_node_label(key) {
                self.say(&format!("{path}.topologyKey"), &format!("{key} is {instead}"));
            }
            if constraint["labelSelector"].is_null() {
                self.say(&format!("{path}.labelSelector"), NO_SELECTOR);
            }
        }
    }

    fn annotations(&mut self) {
        let sysctls = r#"non-functional in v1.11+; use the "sysctls" field instead"#;
        for (key, instead) in [
            (
                "scheduler.alpha.kubernetes.io/critical-pod",
                r#"non-functional in v1.16+; use the "priorityClassName" field instead"#,
            ),
            ("security.alpha.kubernetes.io/sysctls", sysctls),
            ("security.alpha.kubernetes.io/unsafe-sysctls", sysctls),
        ] {
            if !self.annotations[key].is_null() {
                self.say(&format!("metadata.annotations[{key}]"), instead);
            }
        }
    }

    fn volumes(&mut self) {
        for (i, volume) in items(self.spec, "volumes").iter().enumerate() {
            for (source, why) in gone_sources(volume) {
                self.say(&format!("spec.volumes[{i}].{source}"), why);
            }
            if volume["ephemeral"].is_object() {
                let claim = &volume["ephemeral"]["volumeClaimTemplate"]["spec"];
                let path = format!("{}spec.volumes[{i}].ephemeral.volumeClaimTemplate.spec", self.at);
                self.out.append(&mut claim_spec(claim, &path));
            }
        }
        for volume in items(self.spec, "volumes") {
            self.out.append(&mut overlaps(volume));
        }
    }

    fn repeated(&mut self, list: &str, key: &str, what: &str) {
        let all = items(self.spec, list);
        for (i, item) in all.iter().enumerate() {
            if all[..i].iter().any(|other| other[key] == item[key]) {
                let value = text(item, key);
                self.say(&format!("spec.{list}[{i}].{key}"), &format!("duplicate {what} {value:?}"));
            }
        }
    }

    fn empty_secrets(&mut self) {
        for (i, secret) in items(self.spec, "imagePullSecrets").iter().enumerate() {
            if text(secret, "name").is_empty() {
                self.say(&format!("spec.imagePullSecrets[{i}].name"), "invalid empty name \"\"");
            }
        }
    }

    fn fractions(&mut self, amounts: &Value, path: &str) {
        let path = format!("{}{path}", self.at);
        self.out.append(&mut fractions(amounts, &["memory", "ephemeral-storage"], &path));
    }

    fn seccomp(&mut self) {
        const KEY: &str = "seccomp.security.alpha.kubernetes.io/pod";
        if self.spec["securityContext"]["seccompProfile"].is_null() && !self.annotations[KEY].is_null() {
            self.say(&format!("metadata.annotations[{KEY}]"), OLD_SECCOMP);
        }
    }

    /// All containers, with their paths.
    fn each(&self) -> Vec<(String, &'v Value)> {
        let all = CONTAINERS.iter().flat_map(|list| {
            items(self.spec, list).iter().enumerate().map(move |(i, c)| (format!("spec.{list}[{i}]"), c))
        });
        all.collect()
    }

    fn containers(&mut self) {
        for (path, container) in self.each() {
            let security = &container["securityContext"];
            let name = text(container, "name");
            let key = format!("container.seccomp.security.alpha.kubernetes.io/{name}");
            if security["seccompProfile"].is_null() && !self.annotations[&key].is_null() {
                self.say(&format!("metadata.annotations[{key}]"), OLD_SECCOMP);
            }
            let key = format!("container.apparmor.security.beta.kubernetes.io/{name}");
            let is_template = !self.at.is_empty();
            if is_template && security["appArmorProfile"].is_null() && !self.annotations[&key].is_null() {
                let instead = r#"deprecated since v1.30; use the "appArmorProfile" field instead"#;
                self.say(&format!("metadata.annotations[{key}]"), instead);
            }
            for key in ["memory", "ephemeral-storage"] {
                for of in ["limits", "requests"] {
                    let path = format!("{}{path}.resources.{of}", self.at);
                    self.out.append(&mut fractions(&container["resources"][of], &[key], &path));
                }
            }
            let env = items(container, "env");
            for (i, variable) in env.iter().enumerate() {
                let name = text(variable, "name");
                if !env[..i].iter().any(|other| text(other, "name") == name) {
                    continue;
                }
                // A value that builds on the one before does not hide it.
                let reference = format!("$({name})");
                let value = text(variable, "value");
                if !variable["valueFrom"].is_null() || value == reference || !value.contains(&reference) {
                    let what = format!(
                        "hides previous definition of {name:?}, which may be dropped when using apply"
                    );
                    self.say(&format!("{path}.env[{i}]"), &what);
                }
            }
        }
    }

    fn ports(&mut self) {
        let mut seen: Vec<(String, String, &Value)> = Vec::new();
        for (path, container) in self.each() {
            for (i, port) in items(container, "ports").iter().enumerate() {
                let field = format!("{path}.ports[{i}]");
                let (ip, host) = (text(port, "hostIP"), int(port, "hostPort"));
                if !ip.is_empty() && host == 0 {
                    let shown = format!(
                        "{{Name:{} HostPort:0 ContainerPort:{} Protocol:{} HostIP:{ip}}}",
                        text(port, "name"),
                        int(port, "containerPort"),
                        text(port, "protocol")
                    );
                    self.say(&field, &format!("hostIP set without hostPort: {shown}"));
                }
                let key = format!("{}/{}", int(port, "containerPort"), text(port, "protocol"));
                for (_, other, known) in seen.iter().filter(|(k, _, _)| *k == key) {
                    let (other_ip, other_host) = (text(known, "hostIP"), int(known, "hostPort"));
                    let kind = if ip == other_ip && host == other_host {
                        "duplicate"
                    } else if host == 0 || other_host == 0 {
                        "overlapping"
                    } else if host == other_host && ip.is_empty() != other_ip.is_empty() {
                        "dangerously ambiguous"
                    } else {
                        continue;
                    };
                    self.out.push(format!("{0}{field}: {kind} port definition with {0}{other}", self.at));
                }
                seen.push((key, field, port));
            }
        }
    }

    fn port_names(&mut self) {
        let mut seen: Vec<(String, String)> = Vec::new();
        for (path, container) in self.each() {
            for (i, port) in items(container, "ports").iter().enumerate() {
                let (name, field) = (text(port, "name"), format!("{}{path}.ports[{i}]", self.at));
                match seen.iter().find(|(known, _)| known == name) {
                    _ if name.is_empty() => {}
                    Some((_, first)) => self.out.push(format!(
                        "{field}: duplicate port name {name:?} with {first}, services and probes that select ports by name will use {first}"
                    )),
                    None => seen.push((name.to_owned(), field)),
                }
            }
        }
    }

    fn affinity_terms(&mut self) {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let affinity = &self.spec["affinity"][kind];
            for (list, inner) in [
                ("requiredDuringSchedulingIgnoredDuringExecution", ""),
                ("preferredDuringSchedulingIgnoredDuringExecution", "podAffinityTerm"),
            ] {
                for (i, term) in items(affinity, list).iter().enumerate() {
                    let (term, dot) = if inner.is_empty() { (term, "") } else { (&term[inner], ".") };
                    if term["labelSelector"].is_null() {
                        let path = format!("spec.affinity.{kind}.{list}[{i}]{dot}{inner}.labelSelector");
                        self.say(&path, NO_SELECTOR);
                    }
                }
            }
        }
    }

    fn addresses(&mut self) {
        for (i, server) in items(&self.spec["dnsConfig"], "nameservers").iter().enumerate() {
            let path = format!("{}spec.dnsConfig.nameservers[{i}]", self.at);
            ip_text::address_warnings(&mut self.out, server.as_str().unwrap_or(""), &path);
        }
        for (i, alias) in items(self.spec, "hostAliases").iter().enumerate() {
            let path = format!("{}spec.hostAliases[{i}].ip", self.at);
            ip_text::address_warnings(&mut self.out, text(alias, "ip"), &path);
        }
    }
}

const NO_SELECTOR: &str = "a null labelSelector results in matching no pod";
const OLD_SECCOMP: &str = r#"non-functional in v1.27+; use the "seccompProfile" field instead"#;

/// Warnings about what a claim asks for.
pub(super) fn claim_spec(spec: &Value, path: &str) -> Vec<String> {
    let of = |key: &str| fractions(&spec["resources"][key], &["storage"], &format!("{path}.resources.{key}"));
    [of("requests"), of("limits")].concat()
}

/// Files of a volume that come to lie over each other.
fn overlaps(volume: &Value) -> Vec<String> {
    let mut out = Vec::new();
    let name = text(volume, "name");
    let paths = |source: &Value, of: &str| -> Vec<(String, String)> {
        let all = items(source, "items").iter();
        all.map(|item| (text(item, "path").trim_end_matches('/').to_owned(), of.to_owned())).collect()
    };
    for (key, of) in [
        ("configMap", format!("ConfigMap {:?}", text(&volume["configMap"], "name"))),
        ("secret", format!("Secret {:?}", text(&volume["secret"], "secretName"))),
        ("downwardAPI", "DownwardAPI".to_owned()),
    ] {
        let mut before = Vec::new();
        for path in paths(&volume[key], "") {
            for other in collisions(&before, &path.0) {
                out.push(format!(
                    "volume {name:?} ({of}): overlapping paths: {:?} with {:?}",
                    path.0, other.0
                ));
            }
            before.push(path);
        }
    }
    let mut before = Vec::new();
    for source in items(&volume["projected"], "sources") {
        if source.as_object().is_some_and(serde_json::Map::is_empty) {
            out.push(format!("volume {name:?} (Projected) has no sources provided"));
            continue;
        }
        let mut found = Vec::new();
        let (map, secret) = (&source["configMap"], &source["secret"]);
        found.extend(paths(map, &format!("ConfigMap {:?}", text(map, "name"))));
        found.extend(paths(secret, &format!("Secret {:?}", text(secret, "name"))));
        found.extend(paths(&source["downwardAPI"], "DownwardAPI"));
        let trusted = &source["clusterTrustBundle"];
        let bundle = ["name", "signerName"].iter().find_map(|key| trusted[*key].as_str()).unwrap_or_default();
        let certificate = &source["podCertificate"];
        for (path, of) in [
            (text(&source["serviceAccountToken"], "path"), "ServiceAccountToken".to_owned()),
            (text(trusted, "path"), format!("ClusterTrustBundle {bundle:?}")),
            (text(certificate, "certificateChainPath"), "PodCertificate chain".to_owned()),
            (text(certificate, "keyPath"), "PodCertificate key".to_owned()),
            (text(certificate, "credentialBundlePath"), "PodCertificate credential bundle".to_owned()),
        ] {
            if !path.is_empty() {
                found.push((path.trim_end_matches('/').to_owned(), of));
            }
        }
        for path in found {
            for other in collisions(&before, &path.0) {
                out.push(format!(
                    "volume {name:?} (Projected): overlapping paths: {:?} ({}) with {:?} ({})",
                    path.0, path.1, other.0, other.1
                ));
            }
            before.push(path);
        }
    }
    out
}

/// Those of `before` that are the same file as `path`, or a directory of it, or in it.
fn collisions<'b>(before: &'b [(String, String)], path: &str) -> Vec<&'b (String, String)> {
    if path.is_empty() {
        return Vec::new();
    }
    let within =
        |inner: &str, outer: &str| inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'));
    let named = before.iter().filter(|(other, _)| !other.is_empty());
    named.filter(|(other, _)| other == path || within(other, path) || within(path, other)).collect()
}
