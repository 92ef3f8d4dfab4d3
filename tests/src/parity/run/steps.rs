//! The steps of a scenario.

mod objects;

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, bail};
use base64::{Engine, prelude::BASE64_STANDARD};
use coxswain_localcluster::nodes::NodeSpec;
use http::{HeaderMap, Method};
use serde_json::{Map, Value, json};

use super::Run;
use crate::{
    client::headers,
    parity::{
        api::ApiError,
        make::{build, simulated},
        manager::Signal,
        object::{self, SIM, dig, duration, list, merge, text},
        proxy::certificate_request,
        scenario::{replace, step},
    },
};

/// One object or several.
fn each(argument: &Value) -> Vec<Value> {
    match argument {
        Value::Array(several) => several.clone(),
        one => vec![one.clone()],
    }
}

/// Whom a request is made for.
fn identity(spec: &Value) -> anyhow::Result<HeaderMap> {
    let fields = [("impersonate-user", &spec["as"]["user"]), ("impersonate-group", &spec["as"]["group"])];
    headers(fields.into_iter().filter_map(|(name, value)| Some((name, value.as_str()?))))
}

fn texts(value: &Value) -> BTreeMap<String, String> {
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(key, value)| (key.clone(), text(value).to_owned())).collect()
}

impl Run<'_> {
    /// Takes steps one by one.
    pub(super) async fn steps(&mut self, steps: &[Value]) -> anyhow::Result<()> {
        for (number, one) in steps.iter().enumerate() {
            let (verb, argument) = step(one)?;
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            let argument = replace(argument, "${now}", &now);
            let taken = Box::pin(self.step(verb, &argument)).await;
            taken.with_context(|| format!("step {} ({verb})", number + 1))?;
        }
        Ok(())
    }

    async fn step(&mut self, verb: &str, argument: &Value) -> anyhow::Result<()> {
        match verb {
            "apply" => {
                for mut object in each(argument) {
                    let options = object.as_object_mut().and_then(|o| o.remove("_")).unwrap_or_default();
                    let put = self.put(&object, &identity(&options)?).await;
                    self.expect(&options, put)?;
                }
            }
            "make" => {
                for short in each(argument) {
                    let put = self.put(&build(&short)?, &identity(&short)?).await;
                    self.expect(&short, put)?;
                }
            }
            "create-many" => self.create_many(argument).await?,
            "with-owner" => {
                for short in each(argument) {
                    self.with_owner(&short).await?;
                }
            }
            "patch" => self.patch(argument).await?,
            "annotate" => {
                let set = argument["set"].as_object().into_iter().flatten();
                let set: Map<String, Value> = set
                    .map(|(key, value)| {
                        (if key.contains('/') { key.clone() } else { format!("{SIM}{key}") }, value.clone())
                    })
                    .collect();
                self.change(argument, &json!({"metadata": {"annotations": set}}), "merge", "").await?;
            }
            "label" => {
                self.change(argument, &json!({"metadata": {"labels": argument["set"]}}), "merge", "").await?;
            }
            "scale" => {
                self.change(argument, &json!({"spec": {"replicas": argument["replicas"]}}), "merge", "scale")
                    .await?;
            }
            "set-image" => {
                let container = argument["container"].as_str().unwrap_or("c");
                let mut template =
                    json!({"spec": {"containers": [{"name": container, "image": argument["image"]}]}});
                if argument["sim"].is_object() {
                    template["metadata"] = json!({"annotations": simulated(&argument["sim"])});
                }
                self.change(argument, &json!({"spec": {"template": template}}), "strategic", "").await?;
            }
            "delete" => self.delete(argument).await?,
            "recreate" => self.recreate(argument).await?,
            "wait" => {
                for spec in each(argument) {
                    self.wait(&spec).await?;
                }
            }
            "expect-never" => self.never(argument).await?,
            "expect-invariant" => self.invariants.push(argument.clone()),
            "mark" => {
                tokio::time::sleep(Duration::from_millis(50)).await;
                self.marks.insert(text(argument).into(), std::time::Instant::now());
            }
            "evict" => self.evict(argument).await?,
            "nodes" => self.nodes(argument).await?,
            "node" => self.node(argument).await?,
            "stop-manager" => self.plane.stop_manager(signal(argument)?).await,
            "start-manager" => self.plane.start_manager(flags(argument)).await?,
            "restart-manager" => {
                self.plane.stop_manager(signal(argument)?).await;
                self.plane.start_manager(flags(argument)).await?;
            }
            "csr" => self.csr(argument).await?,
            "approve" => self.approve(argument).await?,
            "call" => {
                let method: Method = text(&argument["method"]).parse().context("method")?;
                let body = Some(&argument["body"]).filter(|body| !body.is_null());
                let kind = argument["type"].as_str().unwrap_or("application/json");
                let head = identity(argument)?;
                let answer = self.plane.api.call(method, text(&argument["path"]), body, kind, &head).await;
                self.expect(argument, answer)?;
            }
            "save" => {
                let value = self.field(argument).await?;
                self.saved.insert(text(&argument["as"]).into(), value);
            }
            "same" => {
                let now = self.field(argument).await?;
                let same = Some(&now) == self.saved.get(text(&argument["as"]));
                self.results.insert(text(&argument["result"]).into(), same.into());
            }
            "repeat" => {
                for round in 0..argument["times"].as_u64().context("times")? {
                    let steps = replace(&argument["steps"], "${n}", &round.to_string());
                    self.steps(list(&steps)).await?;
                }
            }
            "chaos" => self.plane.proxy.set_faults(argument)?,
            "expect-chaos" => self.expect_chaos(argument).await?,
            "metrics" => {
                let metrics = self.plane.metrics.as_ref().context("cluster.metrics is not set")?;
                metrics.set(&self.namespace, argument);
            }
            "sleep" => tokio::time::sleep(duration(argument)?).await,
            "at-second" => {
                let latest = argument.as_i64().context("a second")?;
                while jiff::Timestamp::now().as_second() % 60 > latest {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                }
            }
            other => bail!("there is no step {other:?}"),
        }
        Ok(())
    }

    /// Notes the code of an answer, and fails if it is not the expected one.
    fn expect(&mut self, spec: &Value, answer: Result<Value, ApiError>) -> anyhow::Result<Option<Value>> {
        let (code, out) = match answer {
            Ok(out) => (200, Some(out)),
            Err(ApiError::Refused { code: 404, .. }) if spec["none-ok"].as_bool().unwrap_or_default() => {
                return Ok(None);
            }
            Err(ApiError::Refused { code, .. }) if !spec["expect"].is_null() || !spec["result"].is_null() => {
                (code, None)
            }
            Err(error) => return Err(error.into()),
        };
        if let Some(name) = spec["result"].as_str() {
            self.results.insert(name.into(), code.into());
        }
        match spec["expect"].as_u64() {
            Some(wanted) if wanted != u64::from(code) => bail!("expected code {wanted}, got {code}: {spec}"),
            _ => Ok(out),
        }
    }

    fn wrote(&self, resource: &str, object: &Value) {
        self.plane.recorder.require(resource, object);
    }

    async fn nodes(&self, argument: &Value) -> anyhow::Result<()> {
        let nodes = self.plane.nodes.as_ref().context("there are no simulated nodes")?;
        let mut labels = texts(&argument["labels"]);
        if argument["own"].as_bool().unwrap_or_default() {
            labels.insert(format!("{SIM}own"), self.namespace.clone());
        }
        let names = match list(&argument["names"]) {
            [] => {
                let prefix = argument["prefix"].as_str().unwrap_or("node-");
                (1..=argument["count"].as_u64().unwrap_or_default()).map(|n| format!("{prefix}{n}")).collect()
            }
            names => names.iter().map(|name| text(name).to_owned()).collect(),
        };
        let spec = NodeSpec {
            names,
            labels,
            annotations: texts(&argument["annotations"]),
            taints: argument["taints"].clone(),
            zone: argument["zone"].as_str().map(str::to_owned),
        };
        nodes.add(spec).await.map_err(|status| anyhow::anyhow!("{}", status.message))
    }

    async fn node(&self, argument: &Value) -> anyhow::Result<()> {
        let nodes = self.plane.nodes.as_ref().context("there are no simulated nodes")?;
        let name = text(&argument["name"]);
        let refused = |status: coxswain_localcluster::status::Status| anyhow::anyhow!("{}", status.message);
        if argument["remove"].as_bool().unwrap_or_default() {
            return nodes.remove(name).await.map_err(refused);
        }
        match argument["heartbeat"].as_str() {
            Some("start") => nodes.set_heartbeat(name, true).await.map_err(refused)?,
            Some("stop") => nodes.set_heartbeat(name, false).await.map_err(refused)?,
            Some(other) => bail!("heartbeat: {other:?} is neither start nor stop"),
            None => {}
        }
        if argument["conditions"].is_object() {
            nodes.set_conditions(name, texts(&argument["conditions"])).await.map_err(refused)?;
        }
        Ok(())
    }

    async fn csr(&mut self, argument: &Value) -> anyhow::Result<()> {
        let organizations: Vec<String> = list(&argument["org"]).iter().map(|o| text(o).to_owned()).collect();
        let request = certificate_request(text(&argument["cn"]), &organizations)?;
        let mut object = json!({"apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": argument["name"]},
            "spec": {"request": BASE64_STANDARD.encode(request), "signerName": argument["signer"],
                "usages": argument["usages"]}});
        merge(&mut object, &argument["body"]);
        let put = self.put(&object, &identity(argument)?).await;
        self.expect(argument, put)?;
        Ok(())
    }

    async fn approve(&self, argument: &Value) -> anyhow::Result<()> {
        let entry = self.plane.api.entry("certificatesigningrequests").await?;
        let name = text(&argument["name"]);
        let mut object = self.plane.api.get(&entry.path("", name, "")).await?;
        let kind = argument["type"].as_str().unwrap_or("Approved");
        object["status"]["conditions"] =
            json!([{"type": kind, "status": "True", "reason": "ByHarness", "message": "x"}]);
        let path = entry.path("", name, "approval");
        self.plane.api.call(Method::PUT, &path, Some(&object), "application/json", &HeaderMap::new()).await?;
        Ok(())
    }

    /// A field of an object, once our own writes to it are seen.
    async fn field(&self, argument: &Value) -> anyhow::Result<Value> {
        let place = self.place(argument).await?;
        let path = argument["field"].as_str().unwrap_or("metadata.uid");
        let saving = argument["result"].is_null();
        let there = |known: &crate::parity::recorder::Known| {
            let object = known.object(&place.resource, &place.namespace, &place.name);
            known.fresh(&place.resource, &place.namespace, &place.name) && (!saving || object.is_some())
        };
        self.plane.recorder.wait(Duration::from_secs(5), there).await;
        let known = self.plane.recorder.known();
        let object = known.object(&place.resource, &place.namespace, &place.name);
        Ok(object.and_then(|o| dig(o, path)).cloned().unwrap_or_default())
    }

    /// The proxy must have done this much, or the scenario proves nothing. Restarts are proof enough, and what is
    /// wanted of the proxy may not come to be with them.
    async fn expect_chaos(&self, argument: &Value) -> anyhow::Result<()> {
        if self.plane.is_restarting() {
            return Ok(());
        }
        let limit = object::duration_or(&argument["timeout"], Duration::from_secs(10))?;
        let end = tokio::time::Instant::now() + limit;
        let wanted: Vec<(&String, u64)> = argument
            .as_object()
            .into_iter()
            .flatten()
            .filter(|(key, _)| *key != "timeout")
            .map(|(key, value)| (key, value.as_u64().unwrap_or_default()))
            .collect();
        loop {
            let have = self.plane.proxy.counts();
            if wanted.iter().all(|(key, least)| have.get(*key).copied().unwrap_or_default() >= *least) {
                return Ok(());
            }
            if tokio::time::Instant::now() > end {
                bail!("the proxy did {have:?}, wanted {wanted:?}");
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

fn signal(argument: &Value) -> anyhow::Result<Signal> {
    match argument["signal"].as_str() {
        None | Some("TERM") => Ok(Signal::Terminate),
        Some("KILL") => Ok(Signal::Kill),
        Some(other) => bail!("signal {other:?}: there are TERM and KILL"),
    }
}

fn flags(argument: &Value) -> Option<Vec<String>> {
    Some(argument["flags"].as_array()?.iter().map(|flag| text(flag).to_owned()).collect())
}
