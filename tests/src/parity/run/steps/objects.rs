//! Steps that write objects.

use std::time::Duration;

use anyhow::{Context, bail};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use http::{HeaderMap, Method};
use serde_json::{Value, json};

use super::{Run, identity};
use crate::{
    client::headers,
    ordered::Ordered,
    parity::{
        api::{ApiError, patch_type},
        make::build,
        object::{self, list, text},
        scenario::replace,
    },
};

impl Run<'_> {
    /// Creates an object, or patches the one that is there.
    pub(super) async fn put(&self, object: &Value, head: &HeaderMap) -> Result<Value, ApiError> {
        let api = &self.plane.api;
        let entry = api.entry_of(object).await?;
        let own = text(&object["metadata"]["namespace"]);
        let namespace = if own.is_empty() { &self.namespace } else { own };
        let merge = "application/merge-patch+json";
        let mut out = match api.create(object, namespace, head).await {
            Err(ApiError::Refused { reason, .. }) if reason == "AlreadyExists" => {
                let path = entry.path(namespace, object::name(object), "");
                api.call(Method::PATCH, &path, Some(object), merge, head).await?
            }
            other => other?,
        };
        self.wrote(&entry.resource, &out);
        if object["status"].as_object().is_some_and(|status| !status.is_empty()) {
            let path = entry.path(namespace, object::name(&out), "status");
            let status = json!({"status": object["status"]});
            out = api.call(Method::PATCH, &path, Some(&status), merge, &HeaderMap::new()).await?;
            self.wrote(&entry.resource, &out);
        }
        Ok(out)
    }

    pub(super) async fn create_many(&self, argument: &Value) -> anyhow::Result<()> {
        let first = argument["from"].as_u64().unwrap_or_default();
        let count = argument["count"].as_u64().context("count")?;
        stream::iter(first..first + count)
            .map(|number| async move {
                let object = build(&replace(&argument["template"], "${i}", &number.to_string()))?;
                self.put(&object, &HeaderMap::new()).await?;
                anyhow::Ok(())
            })
            .buffer_unordered(8)
            .try_collect()
            .await
    }

    /// Creates an object whose owners' uids are looked up live.
    pub(super) async fn with_owner(&mut self, short: &Value) -> anyhow::Result<()> {
        let mut object = build(short)?;
        let mut references = Vec::new();
        for owner in list(&short["owners"]) {
            let place = self.place(owner).await?;
            let entry = self.plane.api.entry(&place.resource).await?;
            let given = owner["uid"].as_str().or_else(|| self.saved.get(text(&owner["saved"]))?.as_str());
            let uid = match given {
                Some(uid) => json!(uid),
                None => {
                    let path = entry.path(&place.namespace, &place.name, "");
                    self.plane.api.get(&path).await?["metadata"]["uid"].take()
                }
            };
            let mut reference =
                json!({"apiVersion": entry.api_version, "kind": entry.kind, "name": place.name, "uid": uid});
            for key in ["controller", "blockOwnerDeletion"] {
                if !owner[key].is_null() {
                    reference[key] = owner[key].clone();
                }
            }
            references.push(reference);
        }
        object["metadata"]["ownerReferences"] = references.into();
        let put = self.put(&object, &HeaderMap::new()).await;
        self.expect(short, put)?;
        Ok(())
    }

    pub(super) async fn patch(&mut self, argument: &Value) -> anyhow::Result<()> {
        let (place, names) = self.pick(argument).await?;
        let entry = self.plane.api.entry(&place.resource).await?;
        let kind = patch_type(text(&argument["type"]))?;
        let query = if argument["type"] == "apply" { "?fieldManager=parity&force=true" } else { "" };
        let head = identity(argument)?;
        for name in names {
            let path = entry.path(&place.namespace, &name, text(&argument["subresource"])) + query;
            let answer =
                self.plane.api.call(Method::PATCH, &path, Some(&argument["body"]), kind, &head).await;
            if let Some(out) = self.expect(argument, answer)? {
                self.wrote(&place.resource, &out);
            }
        }
        Ok(())
    }

    /// The same patch on all that is chosen.
    pub(super) async fn change(
        &self,
        argument: &Value,
        body: &Value,
        kind: &str,
        sub: &str,
    ) -> anyhow::Result<()> {
        let (place, names) = self.pick(argument).await?;
        let entry = self.plane.api.entry(&place.resource).await?;
        let kind = patch_type(kind)?;
        for name in names {
            let path = entry.path(&place.namespace, &name, sub);
            let out = self.plane.api.call(Method::PATCH, &path, Some(body), kind, &HeaderMap::new()).await?;
            self.wrote(&place.resource, &out);
        }
        Ok(())
    }

    pub(super) async fn delete(&mut self, argument: &Value) -> anyhow::Result<()> {
        let (place, names) = self.pick(argument).await?;
        let entry = self.plane.api.entry(&place.resource).await?;
        let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        for (key, option) in [("propagation", "propagationPolicy"), ("grace", "gracePeriodSeconds")] {
            if !argument[key].is_null() {
                options[option] = argument[key].clone();
            }
        }
        if let Some(uid) = argument["uid"].as_str() {
            options["preconditions"] = json!({"uid": uid});
        }
        let recorder = self.plane.recorder.clone();
        for name in names {
            let find = |known: &crate::parity::recorder::Known| {
                known.object(&place.resource, &place.namespace, &name).cloned()
            };
            let before = find(&recorder.known()).map(|o| o["metadata"]["uid"].clone());
            let path = entry.path(&place.namespace, &name, "");
            let answer = self
                .plane
                .api
                .call(Method::DELETE, &path, Some(&options), "application/json", &HeaderMap::new())
                .await;
            let Some(out) = self.expect(argument, answer)? else { continue };
            if out["kind"] != "Status" {
                self.wrote(&place.resource, &out);
            }
            // Later steps must not take what is deleted for alive.
            let seen = |known: &crate::parity::recorder::Known| match find(known) {
                None => true,
                Some(o) => Some(&o["metadata"]["uid"]) != before.as_ref() || object::is_deleting(&o),
            };
            recorder.wait(Duration::from_secs(3), seen).await;
        }
        Ok(())
    }

    /// Deletes and creates again with changes, for fields that cannot change.
    /// Keys keep their order, since some controllers compare bytes.
    pub(super) async fn recreate(&self, argument: &Value) -> anyhow::Result<()> {
        let (place, names) = self.pick(argument).await?;
        let entry = self.plane.api.entry(&place.resource).await?;
        let client = self.plane.api.client();
        let head = || headers([("accept", "application/json"), ("content-type", "application/json")]);
        for name in names {
            let path = entry.path(&place.namespace, &name, "");
            let answer = client.call(Method::GET, &path, head()?, Bytes::new()).await?;
            let mut object: Ordered = serde_json::from_slice(answer.body())?;
            let none = json!({});
            self.plane
                .api
                .call(Method::DELETE, &path, Some(&none), "application/json", &HeaderMap::new())
                .await?;
            if let Some(meta) = object.get_mut("metadata") {
                for key in ["uid", "resourceVersion", "managedFields", "creationTimestamp"] {
                    meta.remove(key);
                }
            }
            object.merge(&argument["body"]);
            let path = entry.path(&place.namespace, "", "");
            let answer = client.call(Method::POST, &path, head()?, object.to_string().into()).await?;
            let made: Value = serde_json::from_slice(answer.body())?;
            anyhow::ensure!(
                answer.status().is_success(),
                "cannot create {name} again: {}",
                text(&made["message"])
            );
            self.wrote(&place.resource, &made);
        }
        Ok(())
    }

    pub(super) async fn evict(&mut self, argument: &Value) -> anyhow::Result<()> {
        let mut spec = argument.clone();
        if spec["on"].is_null() {
            spec["on"] = "pods".into();
        }
        let (place, names) = self.pick(&spec).await?;
        let entry = self.plane.api.entry("pods").await?;
        let mut codes = Vec::new();
        for name in names {
            let body = json!({"apiVersion": "policy/v1", "kind": "Eviction",
                "metadata": {"name": name, "namespace": place.namespace}});
            let path = entry.path(&place.namespace, &name, "eviction");
            let (code, _) = self
                .plane
                .api
                .raw(Method::POST, &path, Some(&body), "application/json", &HeaderMap::new())
                .await?;
            codes.push(code);
        }
        if let Some(name) = argument["result"].as_str() {
            self.results.insert(name.into(), json!(codes));
        }
        match argument["expect"].as_u64() {
            Some(wanted) if codes.iter().any(|code| u64::from(*code) != wanted) => {
                bail!("expected code {wanted}, got {codes:?}")
            }
            _ => Ok(()),
        }
    }
}
