//! The metrics of an autoscaler: what each says of the size.
//!
//! In: the metrics, the target's pods and scale, answers of the metrics APIs.
//! Out: the size that the most demanding one calls for, the values, and what
//! went wrong. Where some fail, nothing is scaled down.

use coxswain_sdk::contract::Failure;
use coxswain_sdk::merge::text_of;
use coxswain_sdk::quantity::{Family, Quantity};
use coxswain_sdk::selector::{LabelSelector, Selector};
use coxswain_sdk::sort::{lite_map_of, sort_by};
use coxswain_sdk::{Ask, Ctx, Object, Result, from_json};
use litemap::LiteMap;
use serde_json::{Value, json};

use crate::calc::{self, Readiness, Target};
use crate::fetch;
use crate::measures::{Computed, Trouble};
use crate::rules::Tolerances;
use crate::target::{self, Scale};
use crate::view::{Pod, TargetRef};

/// Reason of a metric of a type that there is not.
const UNKNOWN: &str = "InvalidMetricSourceType";

/// What metrics are judged with.
pub struct Judge<'a> {
    /// Namespace of the autoscaler.
    pub namespace: &'a str,
    /// The target's scale.
    pub scale: &'a Scale,
    /// The target's pods.
    pub pods: &'a [Object<Pod>],
    /// When samples of pods count.
    pub readiness: Readiness,
    /// What is not acted on.
    pub tolerances: Tolerances,
}

/// Why a metric says nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Reason of the event and the condition.
    pub reason: &'static str,
    /// Text of the event.
    pub message: String,
    /// Text of the failure as a whole.
    pub whole: String,
}

/// What all metrics say.
#[derive(Debug)]
pub struct Verdict {
    /// The size, and the name of the metric that calls for it; none if nothing may be done.
    pub wanted: Option<(i32, String)>,
    /// Values of the metrics, one for each.
    pub statuses: Vec<Value>,
    /// What went wrong.
    pub faults: Vec<Fault>,
    /// The text of it all.
    pub failure: Option<String>,
    /// What became of each metric.
    pub computed: Vec<Computed>,
}

/// A metric, taken apart.
struct Metric<'a> {
    spec: &'a Value,
    reason: &'static str,
    /// The part of `spec` that is of its type.
    source: &'a Value,
}

impl<'a> Metric<'a> {
    fn of(spec: &'a Value) -> Self {
        let (reason, source) = match spec["type"].as_str().unwrap_or_default() {
            "Object" => ("FailedGetObjectMetric", &spec["object"]),
            "Pods" => ("FailedGetPodsMetric", &spec["pods"]),
            "Resource" => ("FailedGetResourceMetric", &spec["resource"]),
            "ContainerResource" => ("FailedGetContainerResourceMetric", &spec["containerResource"]),
            "External" => ("FailedGetExternalMetric", &spec["external"]),
            _ => (UNKNOWN, &Value::Null),
        };
        Self { spec, reason, source }
    }

    fn kind(&self) -> &str {
        self.spec["type"].as_str().unwrap_or_default()
    }

    fn text(&self, path: [&str; 2]) -> &str {
        self.source[path[0]][path[1]].as_str().unwrap_or_default()
    }

    fn name(&self) -> &str {
        match self.kind() {
            "Resource" | "ContainerResource" => self.source["name"].as_str().unwrap_or_default(),
            _ => self.text(["metric", "name"]),
        }
    }

    /// A value of the target, in thousandths.
    fn target(&self, field: &str) -> Option<i64> {
        let text = self.source["target"][field].as_str()?;
        Quantity::parse(text).ok().map(|quantity| quantity.milli_value())
    }

    /// The metric's own selector, as text.
    fn selector(&self) -> Result<String, String> {
        let selector = &self.source["metric"]["selector"];
        if selector.is_null() {
            return Ok(String::new());
        }
        let selector: LabelSelector = from_json(&text_of(selector))?;
        Ok(Selector::of(Some(&selector))?.to_string())
    }

    fn object(&self) -> TargetRef {
        from_json(&text_of(&self.source["describedObject"])).unwrap_or_default()
    }

    /// The path that has its value; `version` of the custom metrics API.
    fn path(&self, ctx: &Ctx<'_>, judge: &Judge<'_>, version: &str) -> Result<String, String> {
        let (namespace, pods) = (judge.namespace, judge.scale.status.selector.as_str());
        match self.kind() {
            "Resource" | "ContainerResource" => Ok(fetch::resource_path(namespace, pods)),
            "Pods" => Ok(fetch::pods_path(version, namespace, self.name(), pods, &self.selector()?)),
            "External" => Ok(fetch::external_path(namespace, self.name(), &self.selector()?)),
            "Object" => {
                let object = self.object();
                let resource = target::metric_resource(ctx, &object).map_err(|why| {
                    self.not_got(&format!("unable to fetch metrics from custom metrics API: {why}"), judge)
                })?;
                let of_metric = self.selector()?;
                Ok(fetch::object_path(version, namespace, &resource, &object, self.name(), &of_metric))
            }
            other => Err(format!("unknown metric source type {other:?}")),
        }
    }

    /// Why a metric of an object, or of no object at all, has no value.
    fn not_got(&self, why: &str, judge: &Judge<'_>) -> String {
        let (name, namespace) = (self.name(), judge.namespace);
        if self.kind() == "External" {
            return format!(
                "unable to get external metric {namespace}/{name}/{}: {why}",
                self.shown_selector()
            );
        }
        let TargetRef { kind, name: object, .. } = self.object();
        // The parts in the order in which kube-controller-manager prints them.
        format!("unable to get metric {name}: {kind} on {namespace} {object}/{why}")
    }

    /// Its selector as messages print one beside a metric's name.
    fn shown_selector(&self) -> String {
        let selector = &self.source["metric"]["selector"];
        let Ok(selector) = from_json::<Option<LabelSelector>>(&text_of(selector)) else {
            return text_of(selector);
        };
        let Some(LabelSelector { match_labels, match_expressions }) = selector else {
            return "nil".to_owned();
        };
        let labels: String = match_labels.iter().map(|(label, value)| format!("{label}: {value},")).collect();
        let expressions = match_expressions.iter().map(|e| {
            let (key, operator, values) = (&e.key, &e.operator, e.values.join(" "));
            format!("LabelSelectorRequirement{{Key:{key},Operator:{operator},Values:[{values}],}},")
        });
        format!(
            "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},\
             MatchExpressions:[]LabelSelectorRequirement{{{}}},}}",
            expressions.collect::<String>()
        )
    }

    fn is_custom(&self) -> bool {
        matches!(self.kind(), "Pods" | "Object")
    }

    /// What its API calls the resource that is asked for.
    fn asked_for(&self) -> String {
        match self.kind() {
            "External" => format!("{}.external.metrics.k8s.io", self.name()),
            _ => "pods.metrics.k8s.io".to_owned(),
        }
    }

    /// Whose fault it is that the metric says nothing.
    fn trouble(&self) -> Trouble {
        if self.reason == UNKNOWN { Trouble::Spec } else { Trouble::Internal }
    }

    /// The failure in the words of its kind.
    fn fault(&self, message: String) -> Fault {
        let name = self.name();
        let mut whole = match self.kind() {
            "Object" => "failed to get object metric value: ".to_owned(),
            "Pods" => "failed to get pods metric value: ".to_owned(),
            "Resource" => format!("failed to get {name} resource metric value: "),
            "ContainerResource" => {
                let container = self.source["container"].as_str().unwrap_or_default();
                format!("failed to get {container} container metric value: ")
            }
            "External" => format!("failed to get {name} external metric value: "),
            _ => String::new(),
        };
        let set = |field| self.target(field).is_some();
        match self.kind() {
            "Object" if set("averageValue") => whole += &format!("failed to get {name} object metric: "),
            "External" if set("averageValue") => whole += &format!("failed to get {name} external metric: "),
            "External" if set("value") => whole += &format!("failed to get external metric {name}: "),
            _ => {}
        }
        whole += &message;
        Fault { reason: self.reason, message, whole }
    }
}

/// What a metric says: the size, its name in words, its status.
type Said = (i32, String, Value);

/// Asks for all metrics at once and judges them.
pub fn judge(ctx: &Ctx<'_>, metrics: &[Value], judge: &Judge<'_>) -> Result<Verdict> {
    let metrics: Vec<Metric<'_>> = metrics.iter().map(Metric::of).collect();
    let answers = ask(ctx, &metrics, judge)?;
    let mut verdict = Verdict {
        wanted: None,
        statuses: vec![json!({"type": ""}); metrics.len()],
        faults: Vec::new(),
        failure: None,
        computed: Vec::new(),
    };
    let mut best: Option<(i32, String)> = None;
    for (at, (metric, (answer, lookup))) in metrics.iter().zip(answers).enumerate() {
        let said = answer.and_then(|answer| evaluate(metric, &answer, judge));
        let size = said.as_ref().map(|(replicas, ..)| *replicas).map_err(|_| metric.trouble());
        verdict.computed.push(Computed { kind: metric.kind().to_owned(), size, lookup });
        match said {
            Ok((replicas, name, status)) => {
                verdict.statuses[at] = status;
                if best.as_ref().is_none_or(|(most, _)| *most == 0 || replicas > *most) {
                    best = Some((replicas, name));
                }
            }
            Err(why) => verdict.faults.push(metric.fault(why)),
        }
    }
    if let Some(first) = verdict.faults.first() {
        let (failed, all) = (verdict.faults.len(), metrics.len());
        verdict.failure =
            Some(format!("invalid metrics ({failed} invalid out of {all}), first error is: {}", first.whole));
    }
    let lower = best.as_ref().is_none_or(|(replicas, _)| *replicas < judge.scale.spec.replicas);
    // Half the truth is enough to grow, and not to shrink.
    verdict.wanted = if verdict.faults.is_empty() || !lower { best } else { None };
    Ok(verdict)
}

/// The answer for each metric, or why nothing was asked; and the id of the lookup that it is of.
type Answers = Vec<(Result<Result<String, Failure>, String>, Option<String>)>;

/// The answers for each metric: all asked for together, and once more in the
/// older version of the custom metrics API where the newer is not served.
fn ask(ctx: &Ctx<'_>, metrics: &[Metric<'_>], judge: &Judge<'_>) -> Result<Answers> {
    let [new, old] = fetch::CUSTOM_VERSIONS;
    let paths: Vec<_> = metrics.iter().map(|metric| metric.path(ctx, judge, new)).collect();
    let found = fetch_all(ctx, paths.iter().flatten())?;
    let not_served = |path: &String| found[path].as_ref().is_err_and(|failure| failure.status == 404);
    let older: Vec<Option<String>> = metrics
        .iter()
        .zip(&paths)
        .map(|(metric, path)| {
            let again = metric.is_custom() && path.as_ref().is_ok_and(not_served);
            again.then(|| metric.path(ctx, judge, old).ok()).flatten()
        })
        .collect();
    let found_older = fetch_all(ctx, older.iter().flatten())?;
    let answers = paths.into_iter().zip(older).zip(metrics).map(|((path, older), metric)| {
        let path = match path {
            Ok(path) => path,
            Err(why) => return (Err(why), None),
        };
        let newer = found[&path].clone();
        let asked = Ask::Raw(older.clone().unwrap_or(path)).id();
        let answer = match older.map(|older| found_older[&older].clone()) {
            Some(Err(older)) if !fetch::is_served(&older) => newer.map_err(fetch::of_custom),
            Some(older) => older,
            None if metric.is_custom() => newer,
            None => newer.map_err(|failure| fetch::of_api(failure, &metric.asked_for())),
        };
        (Ok(answer), Some(asked))
    });
    Ok(answers.collect())
}

fn fetch_all<'p>(
    ctx: &Ctx<'_>,
    paths: impl Iterator<Item = &'p String>,
) -> Result<LiteMap<String, Result<String, Failure>>> {
    let mut paths: Vec<String> = paths.cloned().collect();
    sort_by(&mut paths, Ord::cmp);
    paths.dedup();
    let answers = ctx.look_up_all(paths.iter().cloned().map(Ask::Raw))?;
    Ok(lite_map_of(paths.into_iter().zip(answers)))
}

fn evaluate(
    metric: &Metric<'_>,
    answer: &Result<String, Failure>,
    judge: &Judge<'_>,
) -> Result<Said, String> {
    match metric.kind() {
        "Resource" | "ContainerResource" => resource(metric, answer, judge),
        "Pods" => pods(metric, answer, judge),
        "Object" => object(metric, answer, judge),
        _ => external(metric, answer, judge),
    }
}

fn quantity(milli: i64, family: Family) -> Value {
    Quantity::from_milli(milli, family).to_string().into()
}

fn decimal(milli: i64) -> Value {
    quantity(milli, Family::Decimal)
}

fn resource(
    metric: &Metric<'_>,
    answer: &Result<String, Failure>,
    judge: &Judge<'_>,
) -> Result<Said, String> {
    let name = metric.name();
    let container = metric.source["container"].as_str().unwrap_or_default();
    let target = match metric.target("averageValue") {
        Some(average) => Target::Average(average),
        None => match metric.source["target"]["averageUtilization"].as_i64() {
            Some(percent) => Target::Utilization(i32::try_from(percent).unwrap_or(i32::MAX)),
            None => {
                return Err("invalid resource metric source: neither an average utilization target nor an average value (usage) target was set".to_owned());
            }
        },
    };
    let utilization = matches!(target, Target::Utilization(_));
    let what = if utilization { "utilization" } else { "usage" };
    let failed = |why: String| format!("failed to get {name} {what}: {why}");
    let values = fetch::resource_values(answer, name, container)
        .map_err(|why| failed(format!("unable to get metrics for resource {name}: {why}")))?;
    let requests =
        || if utilization { calc::requests(judge.pods, name, container) } else { Ok(LiteMap::new()) };
    let rules = (judge.readiness, judge.tolerances);
    let proposal =
        calc::by_pods(judge.scale.spec.replicas, values, judge.pods, target, name == "cpu", requests, rules)
            .map_err(failed)?;
    // What the metrics server shows of memory is in powers of two.
    let family = if name == "memory" { Family::Binary } else { Family::Decimal };
    let mut current = json!({"averageValue": quantity(proposal.average, family)});
    if let Some(percent) = proposal.utilization {
        current["averageUtilization"] = percent.into();
    }
    let of_container = metric.kind() == "ContainerResource";
    let words = match (utilization, of_container) {
        (false, _) => format!("{name} resource"),
        (true, false) => format!("{name} resource utilization (percentage of request)"),
        (true, true) => format!("{name} container resource utilization (percentage of request)"),
    };
    let status = if of_container {
        json!({"type": "ContainerResource",
               "containerResource": {"name": name, "container": container, "current": current}})
    } else {
        json!({"type": "Resource", "resource": {"name": name, "current": current}})
    };
    Ok((proposal.replicas, words, status))
}

/// Name and selector of a metric, as its status repeats them.
fn identifier(metric: &Metric<'_>) -> Value {
    let mut identifier = json!({"name": metric.name()});
    let selector = &metric.source["metric"]["selector"];
    if !selector.is_null() {
        identifier["selector"] = selector.clone();
    }
    identifier
}

fn pods(metric: &Metric<'_>, answer: &Result<String, Failure>, judge: &Judge<'_>) -> Result<Said, String> {
    let name = metric.name();
    let values = fetch::pod_values(answer).map_err(|why| format!("unable to get metric {name}: {why}"))?;
    let target = metric.target("averageValue").map(Target::Average);
    let target = target.ok_or("invalid pods metric source: no average value target was set")?;
    let none = || Ok(LiteMap::new());
    let rules = (judge.readiness, judge.tolerances);
    let proposal = calc::by_pods(judge.scale.spec.replicas, values, judge.pods, target, false, none, rules)?;
    let current = json!({"averageValue": decimal(proposal.average)});
    let status = json!({"type": "Pods", "pods": {"metric": identifier(metric), "current": current}});
    Ok((proposal.replicas, format!("pods metric {name}"), status))
}

fn object(metric: &Metric<'_>, answer: &Result<String, Failure>, judge: &Judge<'_>) -> Result<Said, String> {
    let name = metric.name();
    let value = || fetch::object_value(answer).map_err(|why| metric.not_got(&why, judge));
    let status = |current: Value| {
        json!({"type": "Object", "object": {
            "describedObject": metric.source["describedObject"], "metric": identifier(metric), "current": current,
        }})
    };
    let scale = judge.scale;
    match (metric.text(["target", "type"]), metric.target("value"), metric.target("averageValue")) {
        ("Value", Some(target), _) => {
            let total = value()?;
            let replicas = calc::by_total(scale.spec.replicas, total, target, judge.pods, judge.tolerances)?;
            let words = format!("{} metric {name}", metric.object().kind);
            Ok((replicas, words, status(json!({"value": decimal(total)}))))
        }
        ("AverageValue", _, Some(target)) => {
            let total = value()?;
            let (replicas, share) = calc::by_share(scale.sizes(), total, target, judge.tolerances);
            let words = format!("external metric {name}({})", metric.shown_selector());
            Ok((replicas, words, status(json!({"averageValue": decimal(share)}))))
        }
        _ => Err("invalid object metric source: neither a value target nor an average value target was set"
            .to_owned()),
    }
}

fn external(
    metric: &Metric<'_>,
    answer: &Result<String, Failure>,
    judge: &Judge<'_>,
) -> Result<Said, String> {
    let name = metric.name();
    let value = || fetch::external_value(answer).map_err(|why| metric.not_got(&why, judge));
    let status = |current: Value| json!({"type": "External", "external": {"metric": identifier(metric), "current": current}});
    let words = format!("external metric {name}({})", metric.shown_selector());
    let scale = judge.scale;
    match (metric.target("averageValue"), metric.target("value")) {
        (Some(target), _) => {
            let total = value()?;
            let (replicas, share) = calc::by_share(scale.sizes(), total, target, judge.tolerances);
            Ok((replicas, words, status(json!({"averageValue": decimal(share)}))))
        }
        (None, Some(target)) => {
            let total = value()?;
            let replicas = calc::by_total(scale.spec.replicas, total, target, judge.pods, judge.tolerances)?;
            Ok((replicas, words, status(json!({"value": decimal(total)}))))
        }
        _ => {
            Err("invalid external metric source: neither a value target nor an average value target was set"
                .to_owned())
        }
    }
}
