//! What a Lease says about who leads.
//!
//! The Lease itself is kept as it came, so that labels, annotations and fields
//! of others survive an update.

use std::time::Duration;

use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// The part of a Lease's spec that an election is about.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Record {
    #[serde(deserialize_with = "or_default")]
    pub(super) holder_identity: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) lease_duration_seconds: i64,
    #[serde(deserialize_with = "or_default")]
    pub(super) acquire_time: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) renew_time: String,
    #[serde(deserialize_with = "or_default")]
    pub(super) lease_transitions: i64,
}

fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: serde::Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

impl Record {
    /// How long it lives after a renewal.
    pub(super) fn duration(&self) -> Duration {
        Duration::from_secs(self.lease_duration_seconds.try_into().unwrap_or(0))
    }

    fn spec(&self) -> Value {
        json!({
            "holderIdentity": self.holder_identity,
            "leaseDurationSeconds": self.lease_duration_seconds,
            "acquireTime": self.acquire_time,
            "renewTime": self.renew_time,
            "leaseTransitions": self.lease_transitions,
        })
    }
}

/// A time as a Lease has it.
pub(super) fn micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// A Lease as the API server gave it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Lease {
    object: Value,
    pub(super) record: Record,
}

impl Lease {
    /// Reads one; the error is in words.
    pub(super) fn read(body: &[u8]) -> Result<Self, String> {
        let object: Value = serde_json::from_slice(body).map_err(|error| format!("not JSON: {error}"))?;
        Self::of(object)
    }

    fn of(object: Value) -> Result<Self, String> {
        let spec = object.get("spec").cloned().unwrap_or_else(|| json!({}));
        let record = serde_json::from_value(spec).map_err(|error| format!("not a Lease: {error}"))?;
        Ok(Self { object, record })
    }

    /// The body that creates one.
    pub(super) fn to_create(namespace: &str, name: &str, record: &Record) -> Value {
        json!({
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"namespace": namespace, "name": name},
            "spec": record.spec(),
        })
    }

    /// The same Lease with another record; its resourceVersion stays, so that an
    /// update of a Lease that has changed is refused.
    pub(super) fn with(&self, record: &Record) -> Value {
        let mut object = self.object.clone();
        object["apiVersion"] = "coordination.k8s.io/v1".into();
        object["kind"] = "Lease".into();
        object["spec"] = record.spec();
        object
    }

    pub(super) fn name(&self) -> &str {
        self.object["metadata"]["name"].as_str().unwrap_or_default()
    }

    pub(super) fn uid(&self) -> &str {
        self.object["metadata"]["uid"].as_str().unwrap_or_default()
    }

    pub(super) fn resource_version(&self) -> &str {
        self.object["metadata"]["resourceVersion"].as_str().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_wrote_survives_and_the_version_is_sent_along() {
        let body = br#"{"metadata":{"name":"l","uid":"u","resourceVersion":"7","labels":{"a":"b"}},
            "spec":{"holderIdentity":"x","leaseDurationSeconds":15,"leaseTransitions":3,"renewTime":null}}"#;
        let lease = Lease::read(body).unwrap();
        assert_eq!((lease.name(), lease.uid(), lease.resource_version()), ("l", "u", "7"));
        assert_eq!(lease.record.duration(), Duration::from_secs(15));
        let update = lease.with(&Record { holder_identity: "y".into(), ..lease.record.clone() });
        assert_eq!(update["metadata"]["labels"]["a"], "b");
        assert_eq!(update["metadata"]["resourceVersion"], "7");
        assert_eq!(
            (&update["spec"]["holderIdentity"], &update["spec"]["leaseTransitions"]),
            (&json!("y"), &json!(3))
        );
    }

    #[test]
    fn an_empty_lease_is_nobodys() {
        let lease = Lease::read(br#"{"metadata":{"name":"l"}}"#).unwrap();
        assert_eq!(lease.record, Record::default());
        assert!(Lease::read(b"<html>").is_err());
    }

    #[test]
    fn times_have_microseconds() {
        let time = Timestamp::from_second(1_700_000_000).unwrap();
        assert_eq!(micro_time(time), "2023-11-14T22:13:20.000000Z");
    }
}
