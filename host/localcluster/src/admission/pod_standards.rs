//! The Pod Security Standards: what pods of the levels `baseline` and `restricted` must not ask for.
//!
//! In: the metadata and spec of a pod or of a template. Out: what is wrong, in the order in which upstream reports it.
//! Source of the rules: <https://kubernetes.io/docs/concepts/security/pod-security-standards/>; the words are those of
//! `k8s.io/pod-security-admission`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::kinds::pod_containers::CONTAINERS;
use crate::kinds::value::{entries, flag, int, items, text};

/// How strict a policy is; the order is that of strictness.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Privileged,
    Baseline,
    Restricted,
}

/// One rule that a pod breaks.
#[derive(Debug, PartialEq)]
pub(super) struct Violation {
    /// What, without saying where.
    pub reason: &'static str,
    /// Where.
    pub detail: String,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.reason, self.detail)
    }
}

struct Rule {
    level: Level,
    /// First minor version that knows the rule.
    from: u32,
    /// First minor version of `restricted` that has a stricter rule in its place.
    replaced: u32,
    check: fn(&Pod<'_>) -> Option<Violation>,
}

const NEVER: u32 = u32::MAX;

const fn baseline(from: u32, replaced: u32, check: fn(&Pod<'_>) -> Option<Violation>) -> Rule {
    Rule { level: Level::Baseline, from, replaced, check }
}

const fn restricted(from: u32, check: fn(&Pod<'_>) -> Option<Violation>) -> Rule {
    Rule { level: Level::Restricted, from, replaced: NEVER, check }
}

/// All rules in the order of the report.
const RULES: &[Rule] = &[
    baseline(0, NEVER, app_armor),
    baseline(0, 22, added_capabilities),
    baseline(0, NEVER, host_namespaces),
    baseline(0, 0, host_paths),
    baseline(0, NEVER, host_ports),
    baseline(34, NEVER, hosts_of_probes),
    baseline(0, NEVER, privileged),
    baseline(0, 35, proc_mount_relaxed),
    baseline(0, NEVER, se_linux),
    baseline(0, 19, seccomp_forbidden),
    baseline(0, NEVER, sysctls),
    baseline(0, NEVER, host_process),
    restricted(8, privilege_escalation),
    restricted(22, dropped_capabilities),
    restricted(35, proc_mount),
    restricted(0, volume_types),
    restricted(0, run_as_non_root),
    restricted(23, run_as_root),
    restricted(19, seccomp_required),
];

/// What a pod does that a level forbids; `minor` is the version of the standards, as in `v1.MINOR`.
pub(super) fn violations(level: Level, minor: u32, metadata: &Value, spec: &Value) -> Vec<Violation> {
    let pod = Pod { metadata, spec, minor };
    let applies = |rule: &&Rule| {
        rule.from <= minor && rule.level <= level && (level < Level::Restricted || minor < rule.replaced)
    };
    RULES.iter().filter(applies).filter_map(|rule| (rule.check)(&pod)).collect()
}

struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    minor: u32,
}

impl<'a> Pod<'a> {
    fn containers(&self) -> impl Iterator<Item = &'a Value> {
        let spec = self.spec;
        CONTAINERS.iter().flat_map(|list| items(spec, list))
    }

    /// Names of the containers that are so.
    fn named(&self, mut bad: impl FnMut(&'a Value) -> bool) -> Vec<&'a str> {
        self.containers()
            .filter(|container| bad(container))
            .map(|container| text(container, "name"))
            .collect()
    }

    /// `pod and containers "a", "b"`: whose security context is so.
    fn setters(&self, mut bad: impl FnMut(&'a Value) -> bool) -> Vec<String> {
        let mut out = Vec::new();
        if bad(&self.spec["securityContext"]) {
            out.push("pod".to_owned());
        }
        let containers = self.named(|container| bad(&container["securityContext"]));
        out.extend(some(&containers).then(|| of("container", &containers)));
        out
    }

    /// Windows knows nothing of some rules since v1.25.
    fn of_windows(&self) -> bool {
        self.minor >= 25 && self.spec["os"]["name"] == "windows"
    }

    /// Users of a pod with a namespace of its own are nobody on the host; that counts since v1.35.
    fn own_users(&self) -> bool {
        self.minor >= 35 && self.spec["hostUsers"] == false
    }
}

fn some<T>(names: &[T]) -> bool {
    !names.is_empty()
}

/// `"a", "b"`.
fn quoted<T: AsRef<str>>(names: impl IntoIterator<Item = T>) -> String {
    names.into_iter().map(|name| format!("\"{}\"", name.as_ref())).collect::<Vec<_>>().join(", ")
}

fn plural(word: &str, count: usize) -> String {
    if count == 1 { word.to_owned() } else { format!("{word}s") }
}

/// `container "a"` or `containers "a", "b"`.
fn of(word: &str, names: &[&str]) -> String {
    format!("{} {}", plural(word, names.len()), quoted(names))
}

fn uses(names: &[&str]) -> &'static str {
    if names.len() == 1 { "uses" } else { "use" }
}

fn found(reason: &'static str, detail: String) -> Option<Violation> {
    Some(Violation { reason, detail })
}

fn app_armor(pod: &Pod<'_>) -> Option<Violation> {
    let mut values = BTreeSet::new();
    let mut setters = pod.setters(|context| {
        let profile = &context["appArmorProfile"];
        let bad = profile.is_object() && !matches!(text(profile, "type"), "RuntimeDefault" | "Localhost");
        if bad {
            values.insert(text(profile, "type").to_owned());
        }
        bad
    });
    let mut values: Vec<String> = values.into_iter().collect();
    let annotations: BTreeSet<String> = entries(pod.metadata, "annotations")
        .filter(|(key, _)| key.starts_with("container.apparmor.security.beta.kubernetes.io/"))
        .filter_map(|(key, value)| {
            let value = value.as_str().unwrap_or("");
            let good = value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
            (!good).then(|| format!("{key}={value:?}"))
        })
        .collect();
    if !annotations.is_empty() {
        setters.push(plural("annotation", annotations.len()));
        values.extend(annotations);
    }
    if setters.is_empty() {
        return None;
    }
    let reason = if values.len() == 1 { "forbidden AppArmor profile" } else { "forbidden AppArmor profiles" };
    let detail =
        format!("{} must not set AppArmor profile type to {}", setters.join(" and "), quoted(&values));
    found(reason, detail)
}

fn added_capabilities(pod: &Pod<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 13] = [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ];
    let (names, capabilities) = adding(pod, &ALLOWED);
    let detail = || not_included(&names, &capabilities);
    some(&names).then(detail).and_then(|detail| found("non-default capabilities", detail))
}

/// Containers that add capabilities other than those allowed, and which.
fn adding<'a>(pod: &Pod<'a>, allowed: &[&str]) -> (Vec<&'a str>, BTreeSet<&'a str>) {
    let mut bad = BTreeSet::new();
    let names = pod.named(|container| {
        let added = items(&container["securityContext"]["capabilities"], "add").iter();
        let wrong: Vec<&str> =
            added.filter_map(Value::as_str).filter(|capability| !allowed.contains(capability)).collect();
        bad.extend(&wrong);
        some(&wrong)
    });
    (names, bad)
}

fn not_included(names: &[&str], capabilities: &BTreeSet<&str>) -> String {
    let (containers, capabilities) = (of("container", names), quoted(capabilities));
    format!("{containers} must not include {capabilities} in securityContext.capabilities.add")
}

fn host_namespaces(pod: &Pod<'_>) -> Option<Violation> {
    let asked: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .into_iter()
        .filter(|key| flag(pod.spec, key))
        .map(|key| format!("{key}=true"))
        .collect();
    if asked.is_empty() { None } else { found("host namespaces", asked.join(", ")) }
}

fn host_paths(pod: &Pod<'_>) -> Option<Violation> {
    let volumes = items(pod.spec, "volumes").iter().filter(|volume| volume["hostPath"].is_object());
    let names: Vec<&str> = volumes.map(|volume| text(volume, "name")).collect();
    if names.is_empty() { None } else { found("hostPath volumes", of("volume", &names)) }
}

fn host_ports(pod: &Pod<'_>) -> Option<Violation> {
    // They are ordered as text.
    let mut ports = BTreeSet::new();
    let names = pod.named(|container| {
        let bound = items(container, "ports").iter().map(|port| int(port, "hostPort"));
        let bound: Vec<String> = bound.filter(|port| *port != 0).map(|port| port.to_string()).collect();
        let bad = some(&bound);
        ports.extend(bound);
        bad
    });
    if names.is_empty() {
        return None;
    }
    let list = ports.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let detail =
        format!("{} {} {} {list}", of("container", &names), uses(&names), plural("hostPort", ports.len()));
    found("hostPort", detail)
}

fn hosts_of_probes(pod: &Pod<'_>) -> Option<Violation> {
    let mut hosts = BTreeSet::new();
    let names: BTreeSet<&str> = pod
        .named(|container| {
            let probes = ["livenessProbe", "readinessProbe", "startupProbe"].map(|key| &container[key]);
            let handlers = ["postStart", "preStop"].map(|key| &container["lifecycle"][key]);
            let all = probes.into_iter().chain(handlers);
            let asked = all.flat_map(|one| [text(&one["httpGet"], "host"), text(&one["tcpSocket"], "host")]);
            let asked: Vec<&str> = asked.filter(|host| !host.is_empty()).collect();
            hosts.extend(&asked);
            some(&asked)
        })
        .into_iter()
        .collect();
    if names.is_empty() {
        return None;
    }
    let names: Vec<&str> = names.into_iter().collect();
    let hosts: Vec<&str> = hosts.into_iter().collect();
    let detail =
        format!("{} {} {}", of("container", &names), uses(&names), of("probe or lifecycle host", &hosts));
    found("probe or lifecycle host", detail)
}

fn privileged(pod: &Pod<'_>) -> Option<Violation> {
    let names = pod.named(|container| flag(&container["securityContext"], "privileged"));
    let detail = || format!("{} must not set securityContext.privileged=true", of("container", &names));
    some(&names).then(detail).and_then(|detail| found("privileged", detail))
}

fn proc_mount_relaxed(pod: &Pod<'_>) -> Option<Violation> {
    if pod.own_users() { None } else { proc_mount(pod) }
}

fn proc_mount(pod: &Pod<'_>) -> Option<Violation> {
    let mut types = BTreeSet::new();
    let names = pod.named(|container| {
        let mount = text(&container["securityContext"], "procMount");
        let bad = !matches!(mount, "" | "Default");
        if bad {
            types.insert(mount);
        }
        bad
    });
    if names.is_empty() {
        return None;
    }
    let containers = of("container", &names);
    found("procMount", format!("{containers} must not set securityContext.procMount to {}", quoted(&types)))
}

fn se_linux(pod: &Pod<'_>) -> Option<Violation> {
    let (mut types, mut user, mut role) = (BTreeSet::new(), false, false);
    let minor = pod.minor;
    let setters = pod.setters(|context| {
        let options = &context["seLinuxOptions"];
        let kind = text(options, "type");
        let good = matches!(kind, "" | "container_t" | "container_init_t" | "container_kvm_t")
            || (minor >= 31 && kind == "container_engine_t");
        if !good {
            types.insert(kind);
        }
        let (own_user, own_role) = (!text(options, "user").is_empty(), !text(options, "role").is_empty());
        user |= own_user;
        role |= own_role;
        !good || own_user || own_role
    });
    if setters.is_empty() {
        return None;
    }
    let types: Vec<&str> = types.into_iter().collect();
    let mut data = Vec::new();
    data.extend(some(&types).then(|| of("type", &types)));
    data.extend(user.then(|| "user may not be set".to_owned()));
    data.extend(role.then(|| "role may not be set".to_owned()));
    let who = setters.join(" and ");
    found(
        "seLinuxOptions",
        format!("{who} set forbidden securityContext.seLinuxOptions: {}", data.join("; ")),
    )
}

/// Before v1.19 profiles were asked for by annotations.
fn seccomp_forbidden(pod: &Pod<'_>) -> Option<Violation> {
    if pod.minor >= 19 {
        return seccomp(pod).0;
    }
    let of_containers = pod.containers().map(|container| text(container, "name"));
    let keys = of_containers.map(|name| format!("container.seccomp.security.alpha.kubernetes.io/{name}"));
    let annotations: BTreeSet<String> = keys
        .chain(["seccomp.security.alpha.kubernetes.io/pod".to_owned()])
        .filter_map(|key| {
            let value = pod.metadata["annotations"][&key].as_str()?;
            let good =
                matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (!good).then(|| format!("{key}={value:?}"))
        })
        .collect();
    if annotations.is_empty() {
        return None;
    }
    let list = annotations.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    found("seccompProfile", format!("forbidden {} {list}", plural("annotation", annotations.len())))
}

/// Profiles that are forbidden, and the containers for which nobody names one.
fn seccomp<'a>(pod: &Pod<'a>) -> (Option<Violation>, Vec<&'a str>) {
    fn profile(context: &Value) -> Option<&str> {
        context["seccompProfile"].is_object().then(|| text(&context["seccompProfile"], "type"))
    }
    let good = |kind: &str| matches!(kind, "Localhost" | "RuntimeDefault");
    let mut types = BTreeSet::new();
    let setters = pod.setters(|context| {
        let bad = profile(context).filter(|kind| !good(kind));
        types.extend(bad);
        bad.is_some()
    });
    let for_all = profile(&pod.spec["securityContext"]).is_some_and(good);
    let open = pod.named(|container| !for_all && profile(&container["securityContext"]).is_none());
    let detail = || {
        let who = setters.join(" and ");
        format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&types))
    };
    let bad = some(&setters).then(detail).and_then(|detail| found("seccompProfile", detail));
    (bad, open)
}

fn seccomp_required(pod: &Pod<'_>) -> Option<Violation> {
    if pod.of_windows() {
        return None;
    }
    let (bad, open) = seccomp(pod);
    bad.or_else(|| {
        let who = some(&open).then(|| of("container", &open))?;
        let detail = format!(
            "pod or {who} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\""
        );
        found("seccompProfile", detail)
    })
}

fn sysctls(pod: &Pod<'_>) -> Option<Violation> {
    const SAFE: [(u32, &str); 12] = [
        (0, "kernel.shm_rmid_forced"),
        (0, "net.ipv4.ip_local_port_range"),
        (0, "net.ipv4.tcp_syncookies"),
        (0, "net.ipv4.ping_group_range"),
        (0, "net.ipv4.ip_unprivileged_port_start"),
        (27, "net.ipv4.ip_local_reserved_ports"),
        (29, "net.ipv4.tcp_keepalive_time"),
        (29, "net.ipv4.tcp_fin_timeout"),
        (29, "net.ipv4.tcp_keepalive_intvl"),
        (29, "net.ipv4.tcp_keepalive_probes"),
        (32, "net.ipv4.tcp_rmem"),
        (32, "net.ipv4.tcp_wmem"),
    ];
    let asked = items(&pod.spec["securityContext"], "sysctls").iter().map(|sysctl| text(sysctl, "name"));
    let safe = |name: &str| SAFE.iter().any(|(from, safe)| *from <= pod.minor && *safe == name);
    let bad: Vec<&str> = asked.filter(|name| !safe(name)).collect();
    if bad.is_empty() { None } else { found("forbidden sysctls", bad.join(", ")) }
}

fn host_process(pod: &Pod<'_>) -> Option<Violation> {
    let setters = pod.setters(|context| flag(&context["windowsOptions"], "hostProcess"));
    let detail =
        || format!("{} must not set securityContext.windowsOptions.hostProcess=true", setters.join(" and "));
    some(&setters).then(detail).and_then(|detail| found("hostProcess", detail))
}

fn privilege_escalation(pod: &Pod<'_>) -> Option<Violation> {
    if pod.of_windows() {
        return None;
    }
    let names = pod.named(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    let detail =
        || format!("{} must set securityContext.allowPrivilegeEscalation=false", of("container", &names));
    some(&names).then(detail).and_then(|detail| found("allowPrivilegeEscalation != false", detail))
}

fn dropped_capabilities(pod: &Pod<'_>) -> Option<Violation> {
    if pod.of_windows() {
        return None;
    }
    let keeping = pod.named(|container| {
        let dropped = items(&container["securityContext"]["capabilities"], "drop");
        !dropped.iter().any(|capability| capability == "ALL")
    });
    let (names, capabilities) = adding(pod, &["NET_BIND_SERVICE"]);
    let mut details = Vec::new();
    details.extend(some(&keeping).then(|| {
        format!("{} must set securityContext.capabilities.drop=[\"ALL\"]", of("container", &keeping))
    }));
    details.extend(some(&names).then(|| not_included(&names, &capabilities)));
    if details.is_empty() { None } else { found("unrestricted capabilities", details.join("; ")) }
}

fn volume_types(pod: &Pod<'_>) -> Option<Violation> {
    const ALLOWED: [&str; 9] = [
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    ];
    let (mut names, mut types) = (Vec::new(), BTreeSet::new());
    for volume in items(pod.spec, "volumes") {
        let source = volume.as_object().into_iter().flatten().find(|(_, source)| source.is_object());
        let source = source.map_or("unknown", |(source, _)| source.as_str());
        if !ALLOWED.contains(&source) {
            names.push(text(volume, "name"));
            types.insert(source);
        }
    }
    if names.is_empty() {
        return None;
    }
    let types: Vec<&str> = types.into_iter().collect();
    let detail =
        format!("{} {} {}", of("volume", &names), uses(&names), of("restricted volume type", &types));
    found("restricted volume types", detail)
}

fn run_as_non_root(pod: &Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if pod.own_users() {
        return None;
    }
    let setters = pod.setters(|context| context["runAsNonRoot"] == false);
    if some(&setters) {
        let who = setters.join(" and ");
        return found(REASON, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    let for_all = flag(&pod.spec["securityContext"], "runAsNonRoot");
    let open = pod.named(|container| !for_all && container["securityContext"]["runAsNonRoot"].is_null());
    let who = some(&open).then(|| of("container", &open))?;
    found(REASON, format!("pod or {who} must set securityContext.runAsNonRoot=true"))
}

fn run_as_root(pod: &Pod<'_>) -> Option<Violation> {
    if pod.own_users() {
        return None;
    }
    let setters = pod.setters(|context| context["runAsUser"] == 0);
    let detail = || format!("{} must not set runAsUser=0", setters.join(" and "));
    some(&setters).then(detail).and_then(|detail| found("runAsUser=0", detail))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn reasons(level: Level, minor: u32, spec: &Value) -> Vec<&'static str> {
        violations(level, minor, &json!({}), spec).into_iter().map(|violation| violation.reason).collect()
    }

    #[test]
    fn versions_decide_which_rules_there_are() {
        let spec =
            json!({"containers": [{"name": "c"}], "volumes": [{"name": "v", "hostPath": {"path": "/"}}]});
        assert_eq!(reasons(Level::Privileged, 35, &spec), [""; 0]);
        assert_eq!(reasons(Level::Baseline, 0, &spec), ["hostPath volumes"]);
        assert_eq!(reasons(Level::Restricted, 7, &spec), ["restricted volume types", "runAsNonRoot != true"]);
        let newest = [
            "allowPrivilegeEscalation != false",
            "unrestricted capabilities",
            "restricted volume types",
            "runAsNonRoot != true",
            "seccompProfile",
        ];
        assert_eq!(reasons(Level::Restricted, 35, &spec), newest);
    }

    #[test]
    fn pods_with_users_of_their_own_may_be_root_since_1_35() {
        let spec = json!({"hostUsers": false, "containers": [{"name": "c", "securityContext":
            {"runAsUser": 0, "procMount": "Unmasked"}}]});
        assert_eq!(reasons(Level::Baseline, 35, &spec), [""; 0]);
        assert_eq!(reasons(Level::Baseline, 34, &spec), ["procMount"]);
        assert!(reasons(Level::Restricted, 35, &spec).contains(&"procMount"));
        assert!(!reasons(Level::Restricted, 35, &spec).contains(&"runAsUser=0"));
        assert!(reasons(Level::Restricted, 34, &spec).contains(&"runAsUser=0"));
    }

    #[test]
    fn windows_needs_no_seccomp_since_1_25() {
        let spec = json!({"os": {"name": "windows"}, "containers": [{"name": "c"}]});
        assert_eq!(reasons(Level::Restricted, 25, &spec), ["runAsNonRoot != true"]);
        assert!(reasons(Level::Restricted, 24, &spec).contains(&"seccompProfile"));
    }
}
