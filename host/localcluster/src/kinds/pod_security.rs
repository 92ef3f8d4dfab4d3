//! Checks of security contexts and of the operating system of a pod.

use serde_json::{Value, json};

use super::internal;
use super::meta::invalid_all;
use super::names;
use super::pod_containers::CONTAINERS;
use super::value::{empty, flag, items, text};
use super::volume_files::descending;
use super::volume_sources::known;
use crate::status::{FieldError, FieldReason};

const IDENTITY: &str = "must be between 0 and 2147483647, inclusive";

/// Fields that mean nothing on the other operating system.
const NOT_WINDOWS_POD: &[(&str, bool)] = &[
    ("appArmorProfile", true),
    ("seLinuxOptions", true),
    ("hostUsers", false),
    ("hostPID", false),
    ("hostIPC", false),
    ("seccompProfile", true),
    ("fsGroup", true),
    ("fsGroupChangePolicy", true),
    ("sysctls", true),
    ("shareProcessNamespace", false),
    ("runAsUser", true),
    ("runAsGroup", true),
    ("supplementalGroups", true),
    ("supplementalGroupsPolicy", true),
    ("seLinuxChangePolicy", true),
];
const NOT_WINDOWS: &[&str] = &[
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

fn identity(out: &mut Vec<FieldError>, value: &Value, field: &str) {
    if value.as_i64().is_some_and(|id| !(0..=i64::from(i32::MAX)).contains(&id)) {
        out.push(FieldError::invalid(field, value, IDENTITY));
    }
}

/// `securityContext` of a pod.
pub(super) fn pod(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let context = &spec["securityContext"];
    let here = format!("{path}.securityContext");
    for key in ["fsGroup", "runAsUser", "runAsGroup"] {
        identity(out, &context[key], &format!("{here}.{key}"));
    }
    for (i, group) in items(context, "supplementalGroups").iter().enumerate() {
        identity(out, group, &format!("{here}.supplementalGroups[{i}]"));
    }
    if flag(spec, "shareProcessNamespace") && flag(spec, "hostPID") {
        let detail = "ShareProcessNamespace and HostPID cannot both be enabled";
        out.push(FieldError::invalid(format!("{here}.shareProcessNamespace"), &json!(true), detail));
    }
    sysctls(out, spec, &format!("{here}.sysctls"));
    let policies = ["Always", "OnRootMismatch"];
    known(out, &context["fsGroupChangePolicy"], &format!("{here}.fsGroupChangePolicy"), &policies);
    profiles(out, context, &here);
    let policies = ["Merge", "Strict"];
    known(out, &context["supplementalGroupsPolicy"], &format!("{here}.supplementalGroupsPolicy"), &policies);
    let policies = ["Recursive"];
    known(out, &context["seLinuxChangePolicy"], &format!("{here}.seLinuxChangePolicy"), &policies);
}

fn sysctls(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let all = items(&spec["securityContext"], "sysctls");
    for (i, sysctl) in all.iter().enumerate() {
        let field = format!("{path}[{i}].name");
        let name = text(sysctl, "name");
        if name.is_empty() {
            out.push(FieldError::required(&field, ""));
        } else if !names::sysctl(name) {
            let detail = format!("must have at most 253 characters and match regex {}", names::SYSCTL);
            out.push(FieldError::invalid(&field, &json!(name), &detail));
        } else if all[..i].iter().any(|s| text(s, "name") == name) {
            out.push(FieldError::duplicate(&field, &json!(name)));
        }
        let name = name.replace('/', ".");
        let shared = if flag(spec, "hostNetwork") && name.starts_with("net.") {
            "HostNetwork"
        } else if flag(spec, "hostIPC")
            && (name.starts_with("fs.mqueue.")
                || ["kernel.shm", "kernel.msg", "kernel.sem"].iter().any(|p| name.starts_with(p)))
        {
            "hostIPC"
        } else {
            continue;
        };
        let detail = format!("may not be specified when '{shared}' is true");
        out.push(FieldError::invalid(field, &json!(text(sysctl, "name")), &detail));
    }
}

/// Profiles that pods and containers have alike.
fn profiles(out: &mut Vec<FieldError>, context: &Value, path: &str) {
    seccomp(out, &context["seccompProfile"], &format!("{path}.seccompProfile"));
    windows_options(out, &context["windowsOptions"], &format!("{path}.windowsOptions"));
    app_armor(out, &context["appArmorProfile"], &format!("{path}.appArmorProfile"));
}

fn seccomp(out: &mut Vec<FieldError>, profile: &Value, path: &str) {
    if profile.is_null() {
        return;
    }
    let types = ["Localhost", "RuntimeDefault", "Unconfined"];
    match text(profile, "type") {
        "" => {
            let detail = "type is required when seccompProfile is set";
            out.push(FieldError::required(format!("{path}.type"), detail));
        }
        _ => known(out, &profile["type"], &format!("{path}.type"), &types),
    }
    let field = format!("{path}.localhostProfile");
    let local = text(profile, "type") == "Localhost";
    match (local, profile["localhostProfile"].is_null()) {
        (true, true) => {
            out.push(FieldError::required(field, "must be set when seccomp type is Localhost"));
        }
        (true, false) => descending(out, &profile["localhostProfile"], &field),
        (false, false) => {
            let shown = internal::capitalised(&["type", "localhostProfile"], profile);
            let message = format!("Invalid value: {shown}: can only be set when seccomp type is Localhost");
            out.push(FieldError::raw(FieldReason::Invalid, field, message));
        }
        (false, true) => {}
    }
}

fn app_armor(out: &mut Vec<FieldError>, profile: &Value, path: &str) {
    if profile.is_null() {
        return;
    }
    let field = format!("{path}.localhostProfile");
    let needed = "must be set when AppArmor type is Localhost";
    match (text(profile, "type"), profile["localhostProfile"].as_str()) {
        ("Localhost", None | Some("")) => out.push(FieldError::required(field, needed)),
        ("Localhost", Some(name)) => {
            if name.trim() != name {
                out.push(FieldError::invalid(&field, &json!(name), "must not be padded with whitespace"));
            }
            if name.len() > 4095 {
                out.push(FieldError::too_long(&field, 4095));
            }
        }
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            let detail = "can only be set when AppArmor type is Localhost";
            out.push(FieldError::invalid(field, &json!(name), detail));
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => {
            let detail = "type is required when appArmorProfile is set";
            out.push(FieldError::required(format!("{path}.type"), detail));
        }
        _ => {
            let types = ["Localhost", "RuntimeDefault", "Unconfined"];
            known(out, &profile["type"], &format!("{path}.type"), &types);
        }
    }
}

fn windows_options(out: &mut Vec<FieldError>, options: &Value, path: &str) {
    if let Some(name) = options["gmsaCredentialSpecName"].as_str() {
        let field = format!("{path}.gmsaCredentialSpecName");
        invalid_all(out, &field, &json!(name), names::subdomain(name));
    }
    for key in ["gmsaCredentialSpec", "runAsUserName"] {
        if options[key].as_str() == Some("") {
            let detail = format!("{key} cannot be an empty string");
            out.push(FieldError::invalid(format!("{path}.{key}"), &json!(""), &detail));
        }
    }
    if text(options, "gmsaCredentialSpec").len() > 64 * 1024 {
        let detail = "gmsaCredentialSpec size must be under 64 KiB";
        let field = format!("{path}.gmsaCredentialSpec");
        out.push(FieldError::invalid(field, &options["gmsaCredentialSpec"], detail));
    }
    let name = text(options, "runAsUserName");
    if !name.is_empty() {
        let wrong = windows_user(name).into_iter().map(|why| format!("runAsUserName{why}"));
        invalid_all(out, &format!("{path}.runAsUserName"), &json!(name), wrong);
    }
}

/// What is wrong with `DOMAIN\user` or `user`.
fn windows_user(name: &str) -> Vec<String> {
    if name.chars().any(char::is_control) {
        return vec![" cannot contain control characters".into()];
    }
    let (domain, user) = match name.split_once('\\') {
        Some((_, rest)) if rest.contains('\\') => {
            return vec![" cannot contain more than one backslash".into()];
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, name),
    };
    let mut out = Vec::new();
    if let Some(domain) = domain {
        if domain.len() >= 256 {
            out.push("'s Domain length must be under 256 characters".into());
        }
        let netbios = (1..=15).contains(&domain.chars().count())
            && !domain.starts_with('.')
            && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|']);
        if !netbios && !names::subdomain(domain).is_empty() {
            out.push("'s Domain doesn't match the NetBios nor the DNS format".into());
        }
    }
    if user.is_empty() {
        out.push("'s User cannot be empty".into());
    } else if user.len() > 104 {
        out.push("'s User length must not be longer than 104 characters".into());
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        out.push("'s User cannot contain only periods or spaces".into());
    }
    const REFUSED: &str = r#""/\:;|=,+*?<>@[]"#;
    if user.contains(|c| REFUSED.contains(c)) {
        out.push(format!("'s User cannot contain the following characters: {REFUSED}"));
    }
    out
}

/// Containers that are processes of the host are all of the pod's, and on the host's network.
pub(super) fn host_processes(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let of_pod = spec["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
    let (mut all, mut host) = (0, 0);
    for list in CONTAINERS {
        for (i, container) in items(spec, list).iter().enumerate() {
            let own = container["securityContext"]["windowsOptions"]["hostProcess"].as_bool();
            if let (Some(pod), Some(own)) = (of_pod, own) {
                if pod != own {
                    let field = format!("{path}.{list}[{i}].securityContext.windowsOptions.hostProcess");
                    let detail =
                        format!("pod hostProcess value must be identical if both are specified, was {pod}");
                    out.push(FieldError::invalid(field, &json!(own), &detail));
                }
            }
            all += 1;
            host += i32::from(own.or(of_pod) == Some(true));
        }
    }
    if host == 0 {
        return;
    }
    if host != all {
        let detail =
            "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        out.push(FieldError::invalid(path, &json!(""), detail));
    }
    if !flag(spec, "hostNetwork") {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        out.push(FieldError::invalid(format!("{path}.hostNetwork"), &json!(false), detail));
    }
}

/// `securityContext` of a container.
pub(super) fn container(out: &mut Vec<FieldError>, context: &Value, path: &str, spec: &Value) {
    if context.is_null() {
        return;
    }
    for key in ["runAsUser", "runAsGroup"] {
        identity(out, &context[key], &format!("{path}.{key}"));
    }
    let field = format!("{path}.procMount");
    known(out, &context["procMount"], &field, &["Default", "Unmasked"]);
    let host_users = spec["hostUsers"].as_bool().unwrap_or(true);
    if host_users && text(context, "procMount") == "Unmasked" {
        let detail = "`hostUsers` must be false to use `Unmasked`";
        out.push(FieldError::invalid(field, &context["procMount"], detail));
    }
    seccomp(out, &context["seccompProfile"], &format!("{path}.seccompProfile"));
    if context["allowPrivilegeEscalation"] == false {
        let mut refuse = |why: &str| {
            let shown = internal::shown("SecurityContext", context);
            let message =
                format!("Invalid value: {shown}: cannot set `allowPrivilegeEscalation` to false and {why}");
            out.push(FieldError::raw(FieldReason::Invalid, path, message));
        };
        if flag(context, "privileged") {
            refuse("`privileged` to true");
        }
        for _ in items(&context["capabilities"], "add").iter().filter(|c| *c == "CAP_SYS_ADMIN") {
            refuse("`capabilities.Add` CAP_SYS_ADMIN");
        }
    }
    windows_options(out, &context["windowsOptions"], &format!("{path}.windowsOptions"));
    app_armor(out, &context["appArmorProfile"], &format!("{path}.appArmorProfile"));
}

/// A pod with users of its own shares no other namespace with the host.
pub(super) fn host_users(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    const DETAIL: &str = "when `hostUsers` is false";
    if spec["hostUsers"] != false {
        return;
    }
    for (key, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if flag(spec, key) {
            out.push(FieldError::forbidden(format!("{path}.{shown}"), DETAIL));
        }
    }
    for list in CONTAINERS {
        for (i, it) in items(spec, list).iter().enumerate() {
            if !items(it, "volumeDevices").is_empty() {
                out.push(FieldError::forbidden(format!("{path}.{list}[{i}].volumeDevices"), DETAIL));
            }
        }
    }
}

/// `os` of a pod, and what does not exist there.
pub(super) fn operating_system(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    if spec["os"].is_null() {
        return;
    }
    let field = format!("{path}.os.name");
    let windows = match text(&spec["os"], "name") {
        "" => return out.push(FieldError::required(field, "")),
        "linux" => false,
        "windows" => true,
        other => {
            let field = format!("{path}.os");
            return out.push(FieldError::not_supported(field, &json!(other), &["linux", "windows"]));
        }
    };
    let context = &spec["securityContext"];
    let here = format!("{path}.securityContext");
    if windows {
        for (key, inside) in NOT_WINDOWS_POD {
            let (value, field) = if *inside {
                (&context[*key], format!("{here}.{key}"))
            } else {
                (&spec[*key], format!("{path}.{key}"))
            };
            let counts = matches!(*key, "hostUsers" | "shareProcessNamespace");
            let set = if *key == "sysctls" { !empty(value) } else { !value.is_null() };
            if set && (counts || *value != false) {
                out.push(FieldError::forbidden(field, "cannot be set for a windows pod"));
            }
        }
    } else if !context["windowsOptions"].is_null() {
        let detail = "windows options cannot be set for a linux pod";
        out.push(FieldError::forbidden(format!("{here}.windowsOptions"), detail));
    }
    for list in CONTAINERS {
        for (i, it) in items(spec, list).iter().enumerate() {
            let (context, here) = (&it["securityContext"], format!("{path}.{list}[{i}].securityContext"));
            if windows {
                for key in NOT_WINDOWS.iter().filter(|key| !context[**key].is_null()) {
                    let detail = "cannot be set for a windows pod";
                    out.push(FieldError::forbidden(format!("{here}.{key}"), detail));
                }
            } else if !context["windowsOptions"].is_null() {
                let detail = "windows options cannot be set for a linux pod";
                out.push(FieldError::forbidden(format!("{here}.windowsOptions"), detail));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_refuse_what_they_do_not_have() {
        let mut out = Vec::new();
        let spec = json!({"os": {"name": "windows"}, "hostPID": true, "securityContext": {"runAsUser": 1}});
        operating_system(&mut out, &spec, "spec");
        let fields: Vec<&str> = out.iter().map(|e| e.field.as_str()).collect();
        assert_eq!(fields, ["spec.hostPID", "spec.securityContext.runAsUser"]);
    }
}
