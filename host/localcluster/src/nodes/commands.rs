//! Commands to simulated nodes over the admin endpoint.
//!
//! In: requests below `/localcluster/nodes`. Out: what the nodes do then.

use std::{collections::BTreeMap, sync::Arc};

use http::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{NodeSpec, Nodes};
use crate::{
    rest::{Request, Rest},
    status::Status,
};

/// The body of a request for nodes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct NewNodes {
    /// So many, called by the prefix and a number.
    #[serde(default)]
    count: usize,
    #[serde(default = "prefix")]
    prefix: String,
    /// And these.
    #[serde(default)]
    names: Vec<String>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    taints: Value,
    #[serde(default)]
    zone: Option<String>,
}

fn prefix() -> String {
    "node-".into()
}

/// The most nodes one request may ask for.
const MOST: usize = 10_000;

impl Nodes {
    /// Takes commands from the admin endpoint of a cluster that has one.
    pub fn serve_commands(&self, rest: &Rest) {
        let nodes = self.clone();
        rest.extend_admin(Arc::new(move |request, segments| {
            let nodes = nodes.clone();
            Box::pin(async move { nodes.command(&request, &segments).await })
        }));
    }

    async fn command(&self, request: &Request, segments: &[String]) -> Result<Value, Status> {
        let segments: Vec<&str> = segments.iter().map(String::as_str).collect();
        match (segments.as_slice(), &request.method) {
            (["nodes"], &Method::GET) => {
                let states = self.states().await?;
                let shown = states.iter().map(|(name, state)| json!({"name": name, "state": state}));
                return Ok(json!({ "nodes": shown.collect::<Vec<_>>() }));
            }
            (["nodes"], &Method::POST) => self.add_more(parse(&request.body)?).await?,
            (["nodes", name, "stop"], &Method::POST) => self.set_heartbeat(name, false).await?,
            (["nodes", name, "return"], &Method::POST) => self.bring_back(name).await?,
            (["nodes", name, "vanish"], &Method::POST) => self.remove(name).await?,
            (["nodes", name, "conditions"], &Method::POST) => {
                self.set_conditions(name, parse(&request.body)?).await?;
            }
            (["nodes"] | ["nodes", _, "stop" | "return" | "vanish" | "conditions"], _) => {
                return Err(Status::method_not_allowed());
            }
            _ => return Err(Status::no_such_resource()),
        }
        Ok(json!({}))
    }

    async fn add_more(&self, wanted: NewNodes) -> Result<(), Status> {
        if wanted.count == 0 && wanted.names.is_empty() || wanted.count > MOST {
            return Err(Status::bad_request(format!("give names, or a count of 1 to {MOST}")));
        }
        let numbered = (1..=wanted.count).map(|n| format!("{}{n}", wanted.prefix));
        let spec = NodeSpec {
            names: numbered.chain(wanted.names).collect(),
            labels: wanted.labels,
            taints: wanted.taints,
            zone: wanted.zone,
            ..NodeSpec::default()
        };
        self.add(spec).await
    }
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Status> {
    serde_json::from_slice(body).map_err(|error| Status::bad_request(format!("the body: {error}")))
}
