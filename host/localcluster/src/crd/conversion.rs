//! Versions of a custom resource between which a webhook would convert.
//!
//! Nothing here calls webhooks. What would need one is refused as by a server that cannot reach it, so that nobody takes
//! an object for one of another version.

use serde_json::Value;

use crate::kinds::value::{flag, items, text};
use crate::rest::{Call, Rest};
use crate::status::Status;

/// A webhook that would be called.
#[derive(Clone, Debug)]
pub struct ConversionWebhook {
    /// As the message of a failed call shows it.
    address: String,
    /// Version of the stored objects.
    stored: String,
}

impl ConversionWebhook {
    /// None for the stored version, and where versions differ in name only.
    pub(super) fn of(crd: &Value, version: &Value) -> Option<Self> {
        let spec = &crd["spec"];
        if text(&spec["conversion"], "strategy") != "Webhook" || flag(version, "storage") {
            return None;
        }
        let client = &spec["conversion"]["webhook"]["clientConfig"];
        let service = &client["service"];
        let address = match text(client, "url") {
            "" => format!(
                "https://{}.{}.svc:{}{}",
                text(service, "name"),
                text(service, "namespace"),
                service["port"].as_i64().unwrap_or(443),
                text(service, "path"),
            ),
            url => url.to_owned(),
        };
        let storage = items(spec, "versions").iter().find(|v| flag(v, "storage"));
        let stored = format!("{}/{}", text(spec, "group"), storage.map_or("", |v| text(v, "name")));
        Some(Self { address, stored })
    }

    fn failure(&self, version: &str, kind: &str) -> Status {
        Status::server_error(format!(
            "conversion webhook for {version}, Kind={kind} failed: Post \"{}?timeout=30s\": the embedded cluster calls no \
             webhooks; serve the stored version only, or strategy None",
            self.address
        ))
    }
}

impl Rest {
    /// Refuses what would need a conversion webhook; reads of what is not there need none.
    pub(crate) fn check_conversion(&self, call: &Call, creates: bool) -> Result<(), Status> {
        let Some(webhook) = call.kind.strategy.conversion_webhook() else { return Ok(()) };
        let table = self.table(&call.kind);
        let there = if call.name.is_empty() { !table.is_empty() } else { table.get(&call.key()).is_some() };
        if creates && (call.name.is_empty() || !there) {
            return Err(webhook.failure(&call.kind.api_version(), &call.kind.kind));
        }
        if there { Err(webhook.failure(&webhook.stored, &call.kind.kind)) } else { Ok(()) }
    }
}
