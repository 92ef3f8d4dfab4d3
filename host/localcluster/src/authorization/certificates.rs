//! Approving and signing: what the admission of certificate requests asks the roles.

use serde_json::Value;

use super::attributes::Attributes;
use super::{AuthorizationMode, is_privileged};
use crate::rest::{Call, Rest};
use crate::status::Status;

const GROUP: &str = "certificates.k8s.io";

impl Rest {
    /// Refuses an approval, or a certificate, by somebody who may not use the signer.
    pub(crate) fn check_signer(&self, call: &Call, old: &Value, new: &Value) -> Result<(), Status> {
        if self.authorization == AuthorizationMode::AlwaysAllow
            || call.kind.group != GROUP
            || call.kind.plural != "certificatesigningrequests"
            || is_privileged(&call.user)
        {
            return Ok(());
        }
        let changed = |field: &str| old["status"][field] != new["status"][field];
        let verb = match call.sub.as_str() {
            "approval" => "approve",
            "status" if changed("certificate") || changed("conditions") => "sign",
            _ => return Ok(()),
        };
        let signer = old["spec"]["signerName"].as_str().unwrap_or_default();
        // The whole domain of signers can be allowed at once.
        let domain = signer.split('/').next().unwrap_or_default();
        let allowed = [signer.to_owned(), format!("{domain}/*")].into_iter().any(|name| {
            let asked = Attributes {
                verb: verb.into(),
                group: GROUP.into(),
                resource: "signers".into(),
                name,
                ..Attributes::default()
            };
            self.decide(&call.user, &asked).allowed
        });
        if allowed {
            return Ok(());
        }
        let text = format!("user not permitted to {verb} requests with signerName {signer:?}");
        Err(Status::forbidden(GROUP, &call.kind.plural, &call.name, text))
    }
}
