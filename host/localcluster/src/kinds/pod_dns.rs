//! Checks of names that a pod resolves and is known by.

use serde_json::{Value, json};

use super::ip_text::address;
use super::meta::invalid_all;
use super::names;
use super::value::{flag, items, text};
use crate::status::FieldError;

const MAX_SERVERS: usize = 3;
const MAX_SEARCHES: usize = 32;
const MAX_SEARCH_LENGTH: usize = 2048;

/// `dnsConfig` of a pod.
pub(super) fn config(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let config = &spec["dnsConfig"];
    let here = format!("{path}.dnsConfig");
    let servers = items(config, "nameservers");
    if text(spec, "dnsPolicy") == "None" {
        if config.is_null() {
            let detail = "must provide `dnsConfig` when `dnsPolicy` is None";
            return out.push(FieldError::required(here, detail));
        }
        if servers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return out.push(FieldError::required(format!("{here}.nameservers"), detail));
        }
    }
    if servers.len() > MAX_SERVERS {
        let detail = format!("must not have more than {MAX_SERVERS} nameservers");
        out.push(FieldError::invalid(format!("{here}.nameservers"), &json!(servers), &detail));
    }
    for (i, server) in servers.iter().enumerate() {
        address(out, server, &format!("{here}.nameservers[{i}]"));
    }
    let searches = items(config, "searches");
    let field = format!("{here}.searches");
    if searches.len() > MAX_SEARCHES {
        let detail = format!("must not have more than {MAX_SEARCHES} search paths");
        out.push(FieldError::invalid(&field, &json!(searches), &detail));
    }
    let length: usize = searches.iter().filter_map(Value::as_str).map(|s| s.len() + 1).sum();
    if length.saturating_sub(1) > MAX_SEARCH_LENGTH {
        let detail = format!(
            "must not have more than {MAX_SEARCH_LENGTH} characters (including spaces) in the search list"
        );
        out.push(FieldError::invalid(&field, &json!(searches), &detail));
    }
    for (i, search) in searches.iter().enumerate() {
        let search = search.as_str().unwrap_or("");
        if search != "." {
            let bare = search.strip_suffix('.').unwrap_or(search);
            invalid_all(out, &format!("{field}[{i}]"), &json!(bare), names::relaxed_subdomain(bare));
        }
    }
    for (i, option) in items(config, "options").iter().enumerate() {
        if text(option, "name").is_empty() {
            out.push(FieldError::required(format!("{here}.options[{i}]"), "must not be empty"));
        }
    }
}

/// `hostnameOverride` of a pod.
pub(super) fn hostname_override(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    let Some(name) = spec["hostnameOverride"].as_str() else { return };
    let field = format!("{path}.hostnameOverride");
    for key in ["setHostnameAsFQDN", "hostNetwork"] {
        if flag(spec, key) {
            let detail = format!("may not be specified when {key} is true");
            out.push(FieldError::forbidden(&field, &detail));
        }
    }
    if name.len() > 64 {
        out.push(FieldError::too_long(&field, 64));
    }
    invalid_all(out, &field, &json!(name), names::subdomain(name));
}

/// `hostAliases` of a pod.
pub(super) fn aliases(out: &mut Vec<FieldError>, spec: &Value, path: &str) {
    for (i, alias) in items(spec, "hostAliases").iter().enumerate() {
        let here = format!("{path}.hostAliases[{i}]");
        address(out, &alias["ip"], &format!("{here}.ip"));
        for (j, name) in items(alias, "hostnames").iter().enumerate() {
            let messages = names::subdomain(name.as_str().unwrap_or(""));
            invalid_all(out, &format!("{here}.hostnames[{j}]"), name, messages);
        }
    }
}
