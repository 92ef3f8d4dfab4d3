//! Names of custom resources: which are free, in which order versions are preferred.

use std::cmp::Ordering;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::kinds::value::{items, text};

/// Orders versions as clients should prefer them: `v2`, `v1`, `v1beta2`, `v1beta1`, `v1alpha1`, then others by name.
pub fn compare_versions(a: &str, b: &str) -> Ordering {
    match (parse(a), parse(b)) {
        (Some(a), Some(b)) => b.cmp(&a),
        (Some(_), None) => Ordering::Less,
        (None, Some(_)) => Ordering::Greater,
        (None, None) => a.cmp(b),
    }
}

/// Stability (larger is more stable), major and minor number.
fn parse(version: &str) -> Option<(u8, u64, u64)> {
    let rest = version.strip_prefix('v')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..end].parse().ok()?;
    match &rest[end..] {
        "" => Some((2, major, 0)),
        tail => {
            let (stability, minor) = match (tail.strip_prefix("beta"), tail.strip_prefix("alpha")) {
                (Some(minor), _) => (1, minor),
                (_, Some(minor)) => (0, minor),
                _ => return None,
            };
            Some((stability, major, minor.parse().ok()?))
        }
    }
}

/// `storageVersionHash` of the resource.
pub(super) fn storage_hash(group: &str, crd: &Value) -> String {
    let spec = &crd["spec"];
    let stored = items(spec, "versions").iter().find(|v| v["storage"] == true);
    let version = stored.map_or("", |v| text(v, "name"));
    let kind = text(&crd["status"]["acceptedNames"], "kind");
    let hash = Sha256::digest(format!("{group}/{version}/{kind}"));
    STANDARD.encode(&hash[..8])
}

/// The names a definition may have, and the condition that says so. `others` are the other definitions.
pub fn accepted_names(crd: &Value, others: &[Value]) -> (Value, Value) {
    let group = text(&crd["spec"], "group");
    let (mut resources, mut kinds): (Vec<String>, Vec<String>) = (Vec::new(), Vec::new());
    for other in others {
        let same = other["metadata"]["uid"] == crd["metadata"]["uid"];
        if same || text(&other["spec"], "group") != group {
            continue;
        }
        let names = &other["status"]["acceptedNames"];
        let short = items(names, "shortNames").iter().filter_map(Value::as_str);
        resources.extend(
            [text(names, "plural"), text(names, "singular")].into_iter().chain(short).map(str::to_owned),
        );
        kinds.extend([text(names, "kind"), text(names, "listKind")].map(str::to_owned));
    }
    let (wanted, accepted) = (&crd["spec"]["names"], &crd["status"]["acceptedNames"]);
    let mut names = accepted.as_object().cloned().unwrap_or_default();
    let mut conflict: Option<(&str, String)> = None;
    let taken = |name: &str, used: &[String]| !name.is_empty() && used.iter().any(|u| u == name);
    for (key, used, reason) in [
        ("plural", &resources, "PluralConflict"),
        ("singular", &resources, "SingularConflict"),
        ("shortNames", &resources, "ShortNamesConflict"),
        ("kind", &kinds, "KindConflict"),
        ("listKind", &kinds, "ListKindConflict"),
    ] {
        if wanted[key] == accepted[key] {
            continue;
        }
        let given: Vec<&str> = match &wanted[key] {
            Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
            one => one.as_str().into_iter().collect(),
        };
        let used: Vec<String> = given
            .iter()
            .filter(|name| taken(name, used) && !items(accepted, key).iter().any(|a| a == **name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        match used.as_slice() {
            [] => replace(&mut names, key, &wanted[key]),
            [one] => conflict = Some((reason, one.clone())),
            many => conflict = Some((reason, format!("[{}]", many.join(", ")))),
        }
    }
    replace(&mut names, "categories", &wanted["categories"]);
    let (status, reason, message) = match conflict {
        Some((reason, message)) => ("False", reason, message),
        None => ("True", "NoConflicts", "no conflicts found".to_owned()),
    };
    let condition = json!({"type": "NamesAccepted", "status": status, "reason": reason, "message": message});
    (Value::Object(names), condition)
}

fn replace(names: &mut Map<String, Value>, key: &str, value: &Value) {
    if value.is_null() {
        names.remove(key);
    } else {
        names.insert(key.to_owned(), value.clone());
    }
}

/// Puts accepted names and conditions into the status; false if nothing changes.
pub fn accept(crd: &mut Value, others: &[Value], now: &str) -> bool {
    let before = crd["status"].clone();
    let (names, accepted) = accepted_names(crd, others);
    let ok = accepted["status"] == "True";
    crd["status"]["acceptedNames"] = names;
    set_condition(crd, accepted, now);
    let established = items(&crd["status"], "conditions")
        .iter()
        .any(|c| text(c, "type") == "Established" && text(c, "status") == "True");
    if !established {
        let (status, reason, message) = if ok {
            ("True", "InitialNamesAccepted", "the initial names have been accepted")
        } else {
            ("False", "NotAccepted", "not all names are accepted")
        };
        let condition =
            json!({"type": "Established", "status": status, "reason": reason, "message": message});
        set_condition(crd, condition, now);
    }
    crd["status"] != before
}

/// Sets a condition; its time changes with its status.
pub(super) fn set_condition(crd: &mut Value, mut condition: Value, now: &str) {
    if !crd["status"]["conditions"].is_array() {
        crd["status"]["conditions"] = json!([]);
    }
    let Some(all) = crd["status"]["conditions"].as_array_mut() else { return };
    let found = all.iter_mut().find(|c| c["type"] == condition["type"]);
    match found {
        Some(old) => {
            condition["lastTransitionTime"] = if old["status"] == condition["status"] {
                old["lastTransitionTime"].clone()
            } else {
                now.into()
            };
            *old = condition;
        }
        None => {
            condition["lastTransitionTime"] = now.into();
            all.push(condition);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stable_versions_come_first() {
        let mut versions = ["foo", "v1alpha1", "v10", "v1", "v1beta2", "v2beta1", "v2"];
        versions.sort_by(|a, b| compare_versions(a, b));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta1", "v1beta2", "v1alpha1", "foo"]);
    }

    #[test]
    fn names_in_use_are_not_accepted() {
        let other = json!({"metadata": {"uid": "1"}, "spec": {"group": "g"}, "status": {"acceptedNames": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}}});
        let mut crd = json!({"metadata": {"uid": "2"}, "spec": {"group": "g", "names": {"plural": "widgets", "singular": "gadget", "kind": "Gadget", "listKind": "GadgetList"}}, "status": {"acceptedNames": {"kind": "", "plural": ""}}});
        assert!(accept(&mut crd, std::slice::from_ref(&other), "now"));
        assert_eq!(crd["status"]["acceptedNames"], json!({"kind": "", "plural": "widgets"}));
        assert_eq!(crd["status"]["conditions"][0]["reason"], "ListKindConflict");
        assert_eq!(crd["status"]["conditions"][1]["reason"], "NotAccepted");
        assert!(!accept(&mut crd, &[other], "later"), "a second time changes nothing");
    }
}
