//! `AdmissionReview`: what is asked, and what an answer must be.

use serde_json::{Value, json};

use crate::kinds::value::{items, text};
use crate::rest::strategy::{Kind, User};
use crate::status::{Cause, Details, Status};

/// What a request asks for, apart from the objects.
pub(super) struct Asked<'a> {
    pub kind: &'a Kind,
    /// Kind of the objects shown; that of a subresource may differ.
    pub shown: (String, String, String),
    pub sub: &'a str,
    pub operation: &'a str,
    pub name: &'a str,
    pub namespace: &'a str,
    pub user: &'a User,
    pub dry_run: bool,
    pub options: &'a Value,
}

impl Asked<'_> {
    /// The `request` of a review; expressions see it without the objects.
    pub(super) fn request(&self, uid: &str) -> Value {
        let gvk = |(group, version, kind): &(String, String, String)| json!({"group": group, "version": version, "kind": kind});
        let resource =
            json!({"group": self.kind.group, "version": self.kind.version, "resource": self.kind.plural});
        let mut request = json!({
            "uid": uid, "kind": gvk(&self.shown), "resource": resource,
            "requestKind": gvk(&self.shown), "requestResource": resource,
            "operation": self.operation, "userInfo": user_info(self.user),
            "dryRun": self.dry_run, "options": self.options,
        });
        for (keys, value) in [
            (&["subResource", "requestSubResource"][..], self.sub),
            (&["name"], self.name),
            (&["namespace"], self.namespace),
        ] {
            for key in keys.iter().filter(|_| !value.is_empty()) {
                request[*key] = value.into();
            }
        }
        request
    }
}

fn user_info(user: &User) -> Value {
    let mut info = json!({});
    for (key, value) in [
        ("username", json!(user.name)),
        ("uid", json!(user.uid)),
        ("groups", json!(user.groups)),
        ("extra", json!(user.extra)),
    ] {
        let empty = value == "" || value == json!([]) || value == json!({});
        if !empty {
            info[key] = value;
        }
    }
    info
}

/// The `response` of an answer that can be used.
pub(super) fn response(answer: &Value, uid: &str, mutating: bool) -> Result<Value, String> {
    const WANTED: (&str, &str) = ("admission.k8s.io/v1", "AdmissionReview");
    let found = (text(answer, "apiVersion"), text(answer, "kind"));
    let response = &answer["response"];
    if response.is_null() {
        return Err("webhook response was absent".to_owned());
    }
    if text(response, "uid") != uid {
        return Err(format!("expected response.uid={uid:?}, got {:?}", text(response, "uid")));
    }
    if found != WANTED {
        let name = |(version, kind): (&str, &str)| format!("{version}, Kind={kind}");
        let shown = if found.0.contains('/') { name(found) } else { format!("/{}", name(found)) };
        return Err(format!("expected webhook response of {}, got {shown}", name(WANTED)));
    }
    let (patch, form) = (text(response, "patch"), text(response, "patchType"));
    match (mutating, patch.is_empty(), form) {
        (false, false, _) => Err("validating webhook may not return response.patch".to_owned()),
        (false, true, "JSONPatch" | "") | (true, true, "") | (true, false, "JSONPatch") => {
            Ok(response.clone())
        }
        (false, true, _) => Err("validating webhook may not return response.patchType".to_owned()),
        (true, true, _) => Err("webhook returned response.patchType but not response.patch".to_owned()),
        (true, false, "") => Err("webhook returned response.patch but not response.patchType".to_owned()),
        (true, false, other) => {
            Err(format!("webhook returned invalid response.patchType of {other:?}, expected JSONPatch"))
        }
    }
}

/// The refusal of a webhook, as its user sees it.
pub(super) fn denied(name: &str, result: &Value) -> Status {
    const LEAST: u64 = 400;
    let by = format!("admission webhook {name:?} denied the request");
    let message = match (text(result, "message"), text(result, "reason")) {
        ("", "") => format!("{by} without explanation"),
        ("", reason) => format!("{by}: {reason}"),
        (message, _) => format!("{by}: {message}"),
    };
    let code = result["code"].as_u64().filter(|code| *code >= LEAST).unwrap_or(LEAST);
    let mut status = Status::server_error(message);
    status.code = u16::try_from(code).unwrap_or(500);
    status.reason = text(result, "reason").to_owned().into();
    let details = &result["details"];
    if details.is_object() {
        let own = |of: &Value, key: &str| text(of, key).to_owned();
        let causes = items(details, "causes").iter();
        status.details = Some(Details {
            name: own(details, "name"),
            group: own(details, "group"),
            kind: own(details, "kind"),
            uid: own(details, "uid"),
            causes: causes
                .map(|c| Cause {
                    reason: own(c, "reason"),
                    message: own(c, "message"),
                    field: own(c, "field"),
                })
                .collect(),
            retry_after_seconds: details["retryAfterSeconds"]
                .as_u64()
                .and_then(|s| s.try_into().ok())
                .unwrap_or(0),
        });
    }
    status
}
