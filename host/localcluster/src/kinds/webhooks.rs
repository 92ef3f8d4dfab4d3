//! How a webhook is reached, wherever one is named.

use serde_json::{Value, json};

use super::names;
use super::value::text;
use crate::status::FieldError;

/// Checks the `clientConfig` of a webhook at `path`.
pub(crate) fn client_config(out: &mut Vec<FieldError>, config: &Value, path: &str) {
    match (config["url"].as_str(), config["service"].is_object()) {
        (Some(url), false) => address(out, url, &format!("{path}.url")),
        (None, true) => service(out, &config["service"], &format!("{path}.service")),
        _ => out.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

/// Checks the bundle of certificates that a webhook's is checked with.
pub(crate) fn bundle(out: &mut Vec<FieldError>, config: &Value, path: &str) {
    let Some(bundle) = config["caBundle"].as_str().filter(|bundle| !bundle.is_empty()) else { return };
    if !has_certificate(bundle) {
        let detail = "unable to load root certificates: unable to parse bytes as PEM block";
        out.push(FieldError::invalid(format!("{path}.caBundle"), &json!(bundle), detail));
    }
}

fn has_certificate(bundle: &str) -> bool {
    use base64::Engine;
    let decoded = base64::engine::general_purpose::STANDARD.decode(bundle).unwrap_or_default();
    String::from_utf8_lossy(&decoded).contains("-----BEGIN CERTIFICATE-----")
}

/// An address is `https://host[/path]` and nothing more.
fn address(out: &mut Vec<FieldError>, url: &str, field: &str) {
    const FORM: &str = "; desired format: https://host[/path]";
    let (whole, fragment) = url.split_once('#').unwrap_or((url, ""));
    let (scheme, rest) = whole.split_once("://").unwrap_or(("", whole));
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let authority = if scheme.is_empty() { "" } else { rest.split('/').next().unwrap_or("") };
    let (user, host) = authority.rsplit_once('@').unwrap_or(("", authority));
    let port = host.rsplit_once(':').map(|(_, port)| port).filter(|port| !port.ends_with(']'));
    if let Some(port) = port.filter(|port| !port.bytes().all(|b| b.is_ascii_digit())) {
        let why = format!("parse {whole:?}: invalid port {:?} after host", format!(":{port}"));
        out.push(FieldError::required(field, &format!("url must be a valid URL: {why}{FORM}")));
        return;
    }
    if scheme != "https" {
        let detail = format!("'https' is the only allowed URL scheme{FORM}");
        out.push(FieldError::invalid(field, &json!(scheme), &detail));
    }
    if host.is_empty() {
        out.push(FieldError::invalid(field, &json!(""), &format!("host must be specified{FORM}")));
    }
    for (value, detail) in [
        (user, "user information is not permitted in the URL"),
        (fragment, "fragments are not permitted in the URL"),
        (query, "query parameters are not permitted in the URL"),
    ] {
        if !value.is_empty() {
            out.push(FieldError::invalid(field, &json!(value), detail));
        }
    }
}

/// A service in the cluster.
fn service(out: &mut Vec<FieldError>, service: &Value, path: &str) {
    for key in ["name", "namespace"] {
        if text(service, key).is_empty() {
            out.push(FieldError::required(format!("{path}.{key}"), ""));
        }
    }
    let port = service["port"].as_i64().unwrap_or(443);
    if !(1..=65535).contains(&port) {
        let detail = "port is not valid: must be between 1 and 65535, inclusive";
        out.push(FieldError::invalid(format!("{path}.port"), &json!(port), detail));
    }
    let Some(given) = service["path"].as_str().filter(|path| !matches!(*path, "" | "/")) else { return };
    let field = format!("{path}.path");
    let mut refuse = |detail: &str| out.push(FieldError::invalid(&field, &json!(given), detail));
    if given == "//" {
        return refuse("segment[0] may not be empty");
    }
    if !given.starts_with('/') {
        refuse("must start with a '/'");
    }
    // The first character goes, whatever it is.
    let mut letters = given.chars();
    letters.next();
    let inner = letters.as_str();
    for (i, step) in inner.strip_suffix('/').unwrap_or(inner).split('/').enumerate() {
        if step.is_empty() {
            refuse(&format!("segment[{i}] may not be empty"));
        }
        for why in if step.is_empty() { Vec::new() } else { names::subdomain(step) } {
            refuse(&format!("segment[{i}]: {why}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_plain_https() {
        for (config, want) in [
            (json!({"url": "https://a.b/c"}), ""),
            (json!({"url": "https://127.0.0.1:8443"}), ""),
            (json!({"service": {"name": "a", "namespace": "b", "path": "/x"}}), ""),
            (json!({}), "c: Required value: exactly one of url or service is required"),
            (
                json!({"url": "http://a"}),
                "c.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; desired format: https://host[/path]",
            ),
            (
                json!({"url": "https://u@a"}),
                "c.url: Invalid value: \"u\": user information is not permitted in the URL",
            ),
            (
                json!({"service": {"name": "a", "namespace": "b", "path": "\u{e9}x"}}),
                "c.service.path: Invalid value: \"\u{e9}x\": must start with a '/'",
            ),
            (
                json!({"url": "http://x:y#q"}),
                "c.url: Required value: url must be a valid URL: parse \"http://x:y\": invalid port \":y\" after host; desired format: https://host[/path]",
            ),
        ] {
            let mut out = Vec::new();
            client_config(&mut out, &config, "c");
            assert_eq!(out.first().map(ToString::to_string).unwrap_or_default(), want, "{config}");
        }
    }
}
