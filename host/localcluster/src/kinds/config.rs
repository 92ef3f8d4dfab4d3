//! The simpler kinds of the core group: ConfigMap, Secret, ServiceAccount, Endpoints.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::meta::{immutable, invalid_all};
use super::names;
use super::spec::Spec;
use super::value::{child, empty, entries, fill, flag, int, items, items_mut, remove, set, text};
use crate::schema::syntax::{Decoder, go_error};
use crate::status::FieldError;
use crate::table::{AGE, Column, Columns, NAME, age, column, name};

const MAX_SECRET: usize = 1024 * 1024;

pub(super) fn spec(plural: &str) -> Option<Spec> {
    Some(match plural {
        "configmaps" => config_map(),
        "secrets" => secret(),
        "serviceaccounts" => service_account(),
        "endpoints" => endpoints(),
        "limitranges" => super::limits::limit_range(),
        "resourcequotas" => super::limits::quota(),
        _ => return None,
    })
}

fn config_map() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Data"), AGE];
    Spec {
        revalidates: true,
        validate: |object| {
            let mut out = Vec::new();
            let mut size = 0;
            for key in ["data", "binaryData"] {
                for (entry, value) in entries(object, key) {
                    let field = format!("{key}[{entry}]");
                    invalid_all(&mut out, &field, &json!(entry), names::config_key(entry));
                    if key == "data" && !object["binaryData"][entry].is_null() {
                        let detail = "duplicate of key present in binaryData";
                        out.push(FieldError::invalid(&field, &json!(entry), detail));
                    }
                    size += value.as_str().map_or(0, str::len);
                }
            }
            if size > MAX_SECRET {
                // The path of an empty name, as the real server shows it.
                out.push(FieldError::too_long("[]", MAX_SECRET));
            }
            out
        },
        validate_update: |old, new| locked(old, new, &["data", "binaryData"]),
        columns: Columns::Own(COLUMNS, |object, now| {
            let count = entries(object, "data").count() + entries(object, "binaryData").count();
            vec![name(object), json!(count), age(object, now)]
        }),
        ..Spec::new()
    }
}

/// An object that was made immutable keeps its data, and stays immutable.
fn locked(old: &Value, new: &Value, keys: &[&str]) -> Vec<FieldError> {
    let mut out = Vec::new();
    if !flag(old, "immutable") {
        return out;
    }
    let detail = "field is immutable when `immutable` is set";
    if !flag(new, "immutable") {
        out.push(FieldError::forbidden("immutable", detail));
    }
    for key in keys {
        if old[*key] != new[*key] {
            out.push(FieldError::forbidden(*key, detail));
        }
    }
    out
}

fn secret() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Type"), column("Data"), AGE];
    Spec {
        warnings: super::warnings::secret,
        revalidates: true,
        default: |object| {
            if let Some(Value::Object(plain)) = remove(object, "stringData") {
                let data = child(object, "data");
                for (key, value) in plain {
                    set(data, &key, STANDARD.encode(value.as_str().unwrap_or("")));
                }
            }
            fill(object, "type", "Opaque");
        },
        validate: secret_validation,
        validate_update: |old, new| {
            let mut out = Vec::new();
            immutable(&mut out, "type", &old["type"], &new["type"]);
            out.extend(locked(old, new, &["data"]));
            out
        },
        field_names: &["type"],
        fields: |object| vec![("type", text(object, "type").into())],
        columns: Columns::Own(COLUMNS, |object, now| {
            let count = entries(object, "data").count();
            vec![name(object), json!(text(object, "type")), json!(count), age(object, now)]
        }),
        ..Spec::new()
    }
}

fn secret_validation(object: &Value) -> Vec<FieldError> {
    let mut out = Vec::new();
    let mut size = 0;
    for (key, value) in entries(object, "data") {
        invalid_all(&mut out, &format!("data[{key}]"), &json!(key), names::config_key(key));
        size += value.as_str().map_or(0, str::len) / 4 * 3;
    }
    if size > MAX_SECRET {
        out.push(FieldError::too_long("data", MAX_SECRET));
    }
    let data = &object["data"];
    let needs = |out: &mut Vec<FieldError>, keys: &[&str]| {
        for key in keys {
            if data[*key].is_null() {
                out.push(FieldError::required(format!("data[{key}]"), ""));
            }
        }
    };
    match text(object, "type") {
        "kubernetes.io/service-account-token" => {
            let annotations = &object["metadata"]["annotations"];
            if text(annotations, "kubernetes.io/service-account.name").is_empty() {
                let field = "metadata.annotations[kubernetes.io/service-account.name]";
                out.push(FieldError::required(field, ""));
            }
        }
        "kubernetes.io/tls" => needs(&mut out, &["tls.crt", "tls.key"]),
        "kubernetes.io/ssh-auth" => needs(&mut out, &["ssh-privatekey"]),
        "kubernetes.io/basic-auth" => {
            if data["username"].is_null() && data["password"].is_null() {
                needs(&mut out, &["username", "password"]);
            }
        }
        "kubernetes.io/dockercfg" => docker_config(&mut out, data, ".dockercfg"),
        "kubernetes.io/dockerconfigjson" => docker_config(&mut out, data, ".dockerconfigjson"),
        _ => {}
    }
    out
}

/// Credentials of registries are a JSON object.
fn docker_config(out: &mut Vec<FieldError>, data: &Value, key: &str) {
    let field = format!("data[{key}]");
    let Some(text) = data[key].as_str() else {
        return out.push(FieldError::required(field, ""));
    };
    let raw = STANDARD.decode(text).unwrap_or_default();
    let why = match serde_json::from_slice::<Value>(&raw) {
        Ok(Value::Object(_) | Value::Null) => return,
        Ok(other) => format!(
            "json: cannot unmarshal {} into Go value of type map[string]interface {{}}",
            crate::patch::go::json_type(&other)
        ),
        Err(error) => go_error(Decoder::Standard, &error, &raw),
    };
    out.push(FieldError::invalid(field, &json!("<secret contents redacted>"), &why));
}

/// Of references to secrets only the names are kept.
fn names_of_secrets(object: &mut Value) {
    for reference in items_mut(object, "secrets") {
        if let Value::Object(map) = reference {
            map.retain(|key, _| key == "name");
        }
    }
}

fn service_account() -> Spec {
    const COLUMNS: &[Column] = &[NAME, AGE];
    Spec {
        warnings: super::warnings::service_account,
        returns_deleted: true,
        create: |_, object| {
            names_of_secrets(object);
            Ok(())
        },
        update: |_, _, _, object| {
            names_of_secrets(object);
            Ok(())
        },
        revalidates: true,
        columns: Columns::Own(COLUMNS, |object, now| vec![name(object), age(object, now)]),
        ..Spec::new()
    }
}

fn endpoints() -> Spec {
    const COLUMNS: &[Column] = &[NAME, column("Endpoints"), AGE];
    Spec {
        warnings: super::warnings::endpoints,
        revalidates: true,
        create_on_update: true,
        default: |object| {
            for subset in items_mut(object, "subsets") {
                for port in items_mut(subset, "ports") {
                    fill(port, "protocol", "TCP");
                }
            }
        },
        validate: |object| {
            let mut out = Vec::new();
            for (i, subset) in items(object, "subsets").iter().enumerate() {
                let here = format!("subsets[{i}]");
                if empty(&subset["addresses"]) && empty(&subset["notReadyAddresses"]) {
                    let detail = "must specify `addresses` or `notReadyAddresses`";
                    out.push(FieldError::required(&here, detail));
                }
                for key in ["addresses", "notReadyAddresses"] {
                    for (j, address) in items(subset, key).iter().enumerate() {
                        let here = format!("{here}.{key}[{j}]");
                        endpoint_address(&mut out, address, &here);
                    }
                }
                let ports = items(subset, "ports");
                for (j, port) in ports.iter().enumerate() {
                    endpoint_port(&mut out, port, ports.len() > 1, &format!("{here}.ports[{j}]"));
                }
            }
            out
        },
        deprecation: Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
        columns: Columns::Own(COLUMNS, |object, now| {
            vec![name(object), json!(endpoints_cell(object)), age(object, now)]
        }),
        ..Spec::new()
    }
}

fn endpoint_address(out: &mut Vec<FieldError>, address: &Value, path: &str) {
    let host = text(address, "hostname");
    if !host.is_empty() {
        invalid_all(out, &format!("{path}.hostname"), &json!(host), names::label(host));
    }
    if let Some(node) = address["nodeName"].as_str() {
        invalid_all(out, &format!("{path}.nodeName"), &json!(node), names::subdomain(node));
    }
    let (field, ip) = (format!("{path}.ip"), text(address, "ip"));
    if ip.parse::<std::net::IpAddr>().is_ok() {
        super::service_validation::external_address(out, &json!(ip), &field);
    } else {
        super::ip_text::address(out, &json!(ip), &field);
        out.push(FieldError::invalid(field, &json!(ip), "must be a valid IP address"));
    }
}

fn endpoint_port(out: &mut Vec<FieldError>, port: &Value, needs_name: bool, path: &str) {
    let name = text(port, "name");
    let field = format!("{path}.name");
    if !name.is_empty() {
        invalid_all(out, &field, &json!(name), names::label(name));
    } else if needs_name {
        out.push(FieldError::required(field, ""));
    }
    super::pod_validation::port_number(out, &format!("{path}.port"), int(port, "port"));
    let protocols = ["SCTP", "TCP", "UDP"];
    super::pod_validation::one_of(out, port, path, "protocol", &protocols);
    if let Some(protocol) = port["appProtocol"].as_str() {
        let field = format!("{path}.appProtocol");
        invalid_all(out, &field, &json!(protocol), names::qualified_name(protocol));
    }
}

/// The first addresses and how many more there are.
fn endpoints_cell(object: &Value) -> String {
    const SHOWN: usize = 3;
    let mut all: Vec<String> = Vec::new();
    for subset in items(object, "subsets") {
        let addresses = items(subset, "addresses").iter().map(|a| text(a, "ip"));
        if items(subset, "ports").is_empty() {
            all.extend(addresses.map(str::to_owned));
            continue;
        }
        for port in items(subset, "ports") {
            let number = int(port, "port");
            all.extend(items(subset, "addresses").iter().map(|a| format!("{}:{number}", text(a, "ip"))));
        }
    }
    match all.len() {
        0 => "<none>".into(),
        n if n > SHOWN => format!("{} + {} more...", all[..SHOWN].join(","), n - SHOWN),
        _ => all.join(","),
    }
}
