//! Which requests a fault is about, and which of them it hits.

use std::time::{Duration, Instant};

use http::Method;
use percent_encoding::percent_decode_str;
use serde::{Deserialize, Deserializer};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::writes;
use crate::parity::object;

/// Resources that a rule without a resource is not about.
const NOISE: [&str; 4] = ["events", "leases", "tokenreviews", "subjectaccessreviews"];

/// What a request is about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct What {
    /// create, update, patch, delete, get or watch.
    pub verb: &'static str,
    /// API group; empty for core.
    pub group: String,
    /// Plural name.
    pub resource: String,
    /// Subresource; empty for the object itself.
    pub sub: String,
    /// Namespace; empty for none.
    pub namespace: String,
    /// Name; empty for a collection.
    pub name: String,
}

impl What {
    /// From a request line.
    pub fn of(method: &Method, target: &str) -> Self {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let watching = query.split('&').any(|pair| matches!(pair, "watch=1" | "watch=true"));
        let verb = match *method {
            Method::POST => "create",
            Method::PUT => "update",
            Method::PATCH => "patch",
            Method::DELETE => "delete",
            Method::GET if watching => "watch",
            _ => "get",
        };
        debug_assert_eq!(writes(method), !matches!(verb, "get" | "watch"));
        let decode = |part: &str| percent_decode_str(part).decode_utf8_lossy().into_owned();
        let parts: Vec<String> = path.trim_matches('/').split('/').map(decode).collect();
        let (group, mut rest) = match parts.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
            ["api", _, ..] => (String::new(), &parts[2..]),
            ["apis", group, _, ..] => ((*group).to_owned(), &parts[3..]),
            _ => (String::new(), &parts[..0]),
        };
        let mut namespace = String::new();
        if rest.len() > 2 && rest[0] == "namespaces" && !matches!(rest[2].as_str(), "status" | "finalize") {
            namespace.clone_from(&rest[1]);
            rest = &rest[2..];
        }
        let part = |n: usize| rest.get(n).cloned().unwrap_or_default();
        Self { verb, group, resource: part(0), sub: part(2), namespace, name: part(1) }
    }

    pub(super) fn is_watch(&self) -> bool {
        self.verb == "watch"
    }

    pub(super) fn is_write(&self) -> bool {
        !matches!(self.verb, "get" | "watch")
    }

    pub(super) fn is_create(&self) -> bool {
        self.verb == "create"
    }

    /// Whether it is about something that is not counted.
    pub fn is_noise(&self) -> bool {
        NOISE.contains(&self.resource.as_str()) || (self.resource == "serviceaccounts" && self.sub == "token")
    }

    /// Resource, subresource and class, as writes are counted.
    pub fn key(&self) -> String {
        let class = match self.verb {
            "update" | "patch" => "modify",
            other => other,
        };
        let slash = if self.sub.is_empty() { "" } else { "/" };
        format!("{}{slash}{} {class}", self.resource, self.sub)
    }
}

/// Kinds of faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    DelayWatch,
    Stall,
    CutWatches,
    Gone,
    Reject,
    LoseAnswer,
    Latency,
}

const KINDS: [(&str, Kind); 7] = [
    ("delay-watch", Kind::DelayWatch),
    ("stall", Kind::Stall),
    ("cut-watches", Kind::CutWatches),
    ("gone", Kind::Gone),
    ("reject", Kind::Reject),
    ("lose-answer", Kind::LoseAnswer),
    ("latency", Kind::Latency),
];

/// What a scenario says of a fault.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) struct Spec {
    #[serde(default, deserialize_with = "one_or_more")]
    resource: Vec<String>,
    group: Option<String>,
    subresource: Option<String>,
    ns: Option<String>,
    #[serde(default)]
    verbs: Vec<String>,
    #[serde(default, rename = "for", deserialize_with = "time")]
    lasts: Option<Duration>,
    #[serde(default = "always")]
    share: f64,
    #[serde(default)]
    skip: u64,
    pub count: Option<u64>,
    #[serde(default, deserialize_with = "time")]
    pub seconds: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    pub every: Option<Duration>,
    #[serde(default)]
    pub code: u16,
    pub retry_after: Option<u64>,
    #[serde(default = "yes")]
    pub cut: bool,
    #[serde(default, deserialize_with = "time")]
    reads: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    writes: Option<Duration>,
    #[serde(default, deserialize_with = "time")]
    watches: Option<Duration>,
}

impl Spec {
    /// How long a request of a class waits.
    pub fn wait(&self, class: &str) -> Option<Duration> {
        match class {
            "watches" => self.watches,
            "writes" => self.writes,
            _ => self.reads,
        }
    }
}

fn always() -> f64 {
    1.0
}

fn yes() -> bool {
    true
}

fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    object::duration(&value).map(Some).map_err(serde::de::Error::custom)
}

fn one_or_more<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::String(one) => Ok(vec![one]),
        other => serde_json::from_value(other).map_err(serde::de::Error::custom),
    }
}

/// A fault in force.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub kind: Kind,
    pub spec: Spec,
    seed: String,
    seen: u64,
    hits: u64,
    since: Instant,
}

impl Rule {
    /// Whether it is about a request.
    pub fn fits(&self, what: &What) -> bool {
        let spec = &self.spec;
        let resource = if spec.resource.is_empty() {
            !NOISE.contains(&what.resource.as_str())
        } else {
            spec.resource.iter().any(|r| r == "*" || *r == what.resource)
        };
        let is =
            |wanted: &Option<String>, given: &str| wanted.as_deref().is_none_or(|wanted| wanted == given);
        resource
            && is(&spec.group, &what.group)
            && is(&spec.subresource, &what.sub)
            && is(&spec.ns, &what.namespace)
            && (spec.verbs.is_empty() || spec.verbs.iter().any(|verb| verb == what.verb))
            && spec.lasts.is_none_or(|lasts| self.since.elapsed() < lasts)
    }

    /// Whether it hits this request. That depends on the seed and on how many
    /// requests fitted before, never on time.
    pub fn hit(&mut self, what: &What) -> bool {
        if !self.fits(what) || self.spec.count.is_some_and(|count| self.hits >= count) {
            return false;
        }
        self.seen += 1;
        if self.seen <= self.spec.skip {
            return false;
        }
        let hash = Sha256::digest(format!("{} {}", self.seed, self.seen));
        let draw = hash[..6].iter().fold(0u64, |n, byte| n << 8 | u64::from(*byte));
        let hit = (draw as f64 / (1u64 << 48) as f64) < self.spec.share;
        self.hits += u64::from(hit);
        hit
    }
}

/// Faults that a scenario asks for.
#[derive(Debug)]
pub(super) struct Faults {
    pub rules: Vec<Rule>,
    pub outage: Option<Duration>,
}

/// Reads `{FAULT: RULE or [RULE, ...], ...}`; anything but an object is none.
pub(super) fn parse(faults: &Value, seed: u64) -> anyhow::Result<Faults> {
    let mut found = Faults { rules: Vec::new(), outage: None };
    let Some(fields) = faults.as_object() else { return Ok(found) };
    let seed = fields.get("seed").and_then(Value::as_u64).unwrap_or(seed);
    for name in fields.keys() {
        let known = KINDS.iter().any(|(kind, _)| kind == name) || matches!(name.as_str(), "outage" | "seed");
        anyhow::ensure!(known, "there is no fault {name:?}");
    }
    for (name, kind) in KINDS {
        let rows = match fields.get(name) {
            None => continue,
            Some(Value::Array(rows)) => rows.clone(),
            Some(row) => vec![row.clone()],
        };
        for (number, row) in rows.into_iter().enumerate() {
            let spec: Spec =
                serde_json::from_value(row).map_err(|error| anyhow::anyhow!("{name}: {error}"))?;
            let needed = match kind {
                Kind::DelayWatch => ("seconds", spec.seconds.is_some()),
                Kind::CutWatches => ("every", spec.every.is_some()),
                Kind::Reject => ("code", spec.code >= 400),
                _ => ("", true),
            };
            anyhow::ensure!(needed.1, "{name} needs {}", needed.0);
            let seed = format!("{seed} {name} {number}");
            found.rules.push(Rule { kind, spec, seed, seen: 0, hits: 0, since: Instant::now() });
        }
    }
    if let Some(outage) = fields.get("outage") {
        found.outage = Some(object::duration(&outage["for"])?);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_requests_are_about() {
        let what = What::of(&Method::PATCH, "/apis/apps/v1/namespaces/n/deployments/web/status?x=1");
        assert_eq!(what.key(), "deployments/status modify");
        assert_eq!((what.group.as_str(), what.namespace.as_str(), what.name.as_str()), ("apps", "n", "web"));
        assert_eq!(What::of(&Method::POST, "/api/v1/namespaces/n/pods").key(), "pods create");
        assert_eq!(What::of(&Method::DELETE, "/api/v1/namespaces/n").key(), "namespaces delete");
        assert_eq!(
            What::of(&Method::PUT, "/api/v1/namespaces/n/finalize").key(),
            "namespaces/finalize modify"
        );
        let watch = What::of(&Method::GET, "/api/v1/pods?resourceVersion=1&watch=true");
        assert!(watch.is_watch() && watch.resource == "pods" && watch.name.is_empty());
        assert!(What::of(&Method::POST, "/api/v1/namespaces/n/serviceaccounts/s/token").is_noise());
        assert_eq!(What::of(&Method::GET, "/readyz").resource, "");
    }

    #[test]
    fn which_requests_are_hit() {
        let pods = What::of(&Method::POST, "/api/v1/namespaces/n/pods");
        let events = What::of(&Method::POST, "/api/v1/namespaces/n/events");
        let hits = |spec: Value, what: &What| {
            let mut faults = parse(&json!({"reject": spec}), 1).unwrap();
            (0..1000).filter(|_| faults.rules[0].hit(what)).count()
        };
        assert_eq!(hits(json!({"code": 409}), &pods), 1000);
        assert_eq!(hits(json!({"code": 409}), &events), 0);
        assert_eq!(hits(json!({"code": 409, "resource": "*"}), &events), 1000);
        assert_eq!(hits(json!({"code": 409, "skip": 10, "count": 3}), &pods), 3);
        assert_eq!(hits(json!({"code": 409, "verbs": ["delete"]}), &pods), 0);
        assert_eq!(hits(json!({"code": 409, "subresource": "status"}), &pods), 0);
        let some = hits(json!({"code": 409, "share": 0.5}), &pods);
        assert!((400..600).contains(&some), "{some}");
        assert_eq!(some, hits(json!({"code": 409, "share": 0.5}), &pods), "the same seed, the same hits");
        assert_eq!(hits(json!({"code": 409, "for": "0s"}), &pods), 0);
    }

    #[test]
    fn mistakes_are_named() {
        for (faults, reason) in [
            (json!({"rejekt": {}}), "rejekt"),
            (json!({"reject": {}}), "code"),
            (json!({"reject": {"code": 409, "recource": "pods"}}), "recource"),
            (json!({"cut-watches": {}}), "every"),
            (json!({"outage": {}}), "not a time"),
        ] {
            let error = format!("{:#}", parse(&faults, 1).unwrap_err());
            assert!(error.contains(reason), "{error}");
        }
        assert!(parse(&json!("off"), 1).unwrap().rules.is_empty());
    }
}
