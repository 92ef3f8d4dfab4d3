//! How many replicas a metric calls for. Pure.
//!
//! In: values of the metric, pods, the size now, the target. Out: a size and
//! the value to show. Pods that are not there yet, not ready yet or without a
//! value are counted so that the change that is made is the smaller one.

use std::time::Duration;

use coxswain_sdk::Time;
use coxswain_sdk::meta::StringMap;
use coxswain_sdk::quantity::Quantity;
use litemap::LiteMap;

use crate::rules::Tolerances;
use crate::view::Pod;

/// A pod's value of a metric, in thousandths.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Value {
    /// Thousandths.
    pub milli: i64,
    /// When it was taken.
    pub at: Option<Time>,
    /// The time it is an average of.
    pub window: Duration,
}

/// Values by the name of the pod.
pub type Values = LiteMap<String, Value>;

/// What the readiness of pods is judged by.
#[derive(Clone, Copy, Debug)]
pub struct Readiness {
    /// Now.
    pub now: Time,
    /// How long after its start a pod's CPU samples may be left out.
    pub cpu_initialization: Duration,
    /// How long after its start a change of readiness counts as the first.
    pub initial_delay: Duration,
}

/// What is aimed at.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    /// So many thousandths a pod.
    Average(i64),
    /// So many percent of what the pods request.
    Utilization(i32),
}

/// What a metric calls for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proposal {
    /// The size.
    pub replicas: i32,
    /// The average of a pod, in thousandths.
    pub average: i64,
    /// Percent of what is requested, where that is the target.
    pub utilization: Option<i32>,
}

struct Groups {
    ready: usize,
    unready: Vec<String>,
    missing: Vec<String>,
}

/// Sorts pods by whether their values count, and drops the values that do not.
fn group(pods: &[impl AsRef<Pod>], values: &mut Values, cpu: bool, readiness: Readiness) -> Groups {
    let mut groups = Groups { ready: 0, unready: Vec::new(), missing: Vec::new() };
    for pod in pods.iter().map(AsRef::as_ref) {
        let name = &pod.metadata.name;
        if pod.metadata.is_deleting() || pod.status.phase == "Failed" {
            values.remove(name);
        } else if pod.status.phase == "Pending" {
            values.remove(name);
            groups.unready.push(name.clone());
        } else {
            match values.get(name).copied() {
                None => groups.missing.push(name.clone()),
                Some(value) if cpu && is_warming_up(pod, value, readiness) => {
                    values.remove(name);
                    groups.unready.push(name.clone());
                }
                Some(_) => groups.ready += 1,
            }
        }
    }
    groups
}

/// Whether a CPU sample tells of a pod's start rather than of its work.
fn is_warming_up(pod: &Pod, value: Value, readiness: Readiness) -> bool {
    let (Some(ready), Some(start)) = (pod.ready(), pod.status.start_time) else { return true };
    let unready = ready.status == "False";
    let Some(changed) = ready.last_transition_time else { return unready };
    if start + readiness.cpu_initialization > readiness.now {
        unready || value.at.is_none_or(|at| at < changed + value.window)
    } else {
        unready && start + readiness.initial_delay > changed
    }
}

/// How a set of values stands to the target: ratio, average, utilization.
type Ratio = (f64, i64, Option<i32>);

fn ratio(values: &Values, target: Target, requests: &LiteMap<String, i64>) -> Result<Ratio, String> {
    let (mut total, mut requested, mut count) = (0i128, 0i128, 0i128);
    for (name, value) in values {
        match (target, requests.get(name)) {
            (Target::Utilization(_), None) => continue,
            (Target::Utilization(_), Some(request)) => requested += i128::from(*request),
            (Target::Average(_), _) => {}
        }
        total += i128::from(value.milli);
        count += 1;
    }
    let clamp = |n: i128| i64::try_from(n).unwrap_or(if n < 0 { i64::MIN } else { i64::MAX });
    match target {
        Target::Average(target) => {
            let average = clamp(total / count.max(1));
            Ok((average as f64 / target as f64, average, None))
        }
        Target::Utilization(_) if requested == 0 => Err("no metrics returned matched known pods".to_owned()),
        Target::Utilization(target) => {
            let percent = clamp(total * 100 / requested);
            let percent = i32::try_from(percent).unwrap_or(if percent < 0 { i32::MIN } else { i32::MAX });
            Ok((f64::from(percent) / f64::from(target), clamp(total / count.max(1)), Some(percent)))
        }
    }
}

/// The size that values of single pods call for.
pub fn by_pods(
    current: i32,
    mut values: Values,
    pods: &[impl AsRef<Pod>],
    target: Target,
    cpu: bool,
    requests: impl FnOnce() -> Result<LiteMap<String, i64>, String>,
    (readiness, tolerances): (Readiness, Tolerances),
) -> Result<Proposal, String> {
    if pods.is_empty() {
        return Err("no pods returned by selector while calculating replica count".to_owned());
    }
    let groups = group(pods, &mut values, cpu, readiness);
    if values.is_empty() {
        return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
    }
    let requests = requests()?;
    let (usage, average, utilization) = ratio(&values, target, &requests)?;
    let proposal = |replicas| Ok(Proposal { replicas, average, utilization });
    let up_with_unready = !groups.unready.is_empty() && usage > 1.0;
    if !up_with_unready && groups.missing.is_empty() {
        if tolerances.holds(usage) {
            return proposal(current);
        }
        return proposal((usage * groups.ready as f64).ceil() as i32);
    }
    let nothing = Value { milli: 0, at: None, window: Duration::ZERO };
    for name in &groups.missing {
        let milli = if usage > 1.0 {
            0
        } else if usage < 1.0 {
            match target {
                Target::Average(target) => target,
                Target::Utilization(target) => requests
                    .get(name)
                    .map_or(0, |request| request.saturating_mul(i64::from(target.max(100))) / 100),
            }
        } else {
            continue;
        };
        values.insert(name.clone(), Value { milli, ..nothing });
    }
    if up_with_unready {
        for name in &groups.unready {
            values.insert(name.clone(), nothing);
        }
    }
    let (careful, ..) = ratio(&values, target, &requests)?;
    let turned = (usage < 1.0 && careful > 1.0) || (usage > 1.0 && careful < 1.0);
    if tolerances.holds(careful) || turned {
        return proposal(current);
    }
    let replicas = (careful * values.len() as f64).ceil() as i32;
    let turned = (careful < 1.0 && replicas > current) || (careful > 1.0 && replicas < current);
    proposal(if turned { current } else { replicas })
}

/// What each pod requests of a resource, in thousandths.
pub fn requests(
    pods: &[impl AsRef<Pod>],
    resource: &str,
    container: &str,
) -> Result<LiteMap<String, i64>, String> {
    let mut requests = LiteMap::new();
    for pod in pods.iter().map(AsRef::as_ref) {
        requests.insert(pod.metadata.name.clone(), requested(pod, resource, container)?);
    }
    Ok(requests)
}

fn requested(pod: &Pod, resource: &str, container: &str) -> Result<i64, String> {
    if container.is_empty() && !pod.spec.resources.requests.is_empty() {
        let whole = as_a_whole(pod, resource);
        return whole
            .ok_or_else(|| format!("missing pod-level request for {resource} in Pod {}", pod.metadata.name));
    }
    let beside = pod.spec.init_containers.iter().filter(|init| init.restart_policy == "Always");
    let containers = pod.spec.containers.iter().map(|c| (&c.name, &c.resources));
    let mut sum = 0i64;
    for (name, resources) in containers.chain(beside.map(|c| (&c.name, &c.resources))) {
        if !container.is_empty() && name != container {
            continue;
        }
        let request = resources.requests.get(resource).ok_or_else(|| {
            format!("missing request for {resource} in container {name} of Pod {}", pod.metadata.name)
        })?;
        sum = sum.saturating_add(milli(request));
        if name == container {
            return Ok(sum);
        }
    }
    if container.is_empty() {
        Ok(sum)
    } else {
        Err(format!("container {container} not found in Pod {}", pod.metadata.name))
    }
}

fn milli(text: &str) -> i64 {
    Quantity::parse(text).map_or(0, |quantity| quantity.milli_value())
}

/// What a pod that has requests of its own requests: where they leave a resource
/// out, what its containers need at once. None if nobody requests any.
fn as_a_whole(pod: &Pod, resource: &str) -> Option<i64> {
    let of = |requests: &StringMap| requests.get(resource).map(|text| milli(text));
    let sum = |a: Option<i64>, b: Option<i64>| a.map_or(b, |a| Some(a.saturating_add(b.unwrap_or(0))));
    let spec = &pod.spec;
    let needed = of(&spec.resources.requests).or_else(|| {
        let (mut beside, mut first) = (None, None);
        for init in &spec.init_containers {
            let with_those_before = sum(beside, of(&init.resources.requests));
            first = first.max(with_those_before);
            if init.restart_policy == "Always" {
                beside = with_those_before;
            }
        }
        let all = spec.containers.iter().fold(beside, |all, c| sum(all, of(&c.resources.requests)));
        all.max(first)
    });
    sum(needed, of(&spec.overhead))
}

/// The size that one value calls for, which all pods share.
pub fn by_total(
    current: i32,
    total: i64,
    target: i64,
    pods: &[impl AsRef<Pod>],
    tolerances: Tolerances,
) -> Result<i32, String> {
    let usage = total as f64 / target as f64;
    if current == 0 {
        return Ok(usage.ceil() as i32);
    }
    if tolerances.holds(usage) {
        return Ok(current);
    }
    if pods.is_empty() {
        return Err(
            "unable to calculate ready pods: no pods returned by selector while calculating replica count"
                .to_owned(),
        );
    }
    let ready = pods.iter().filter(|pod| pod.as_ref().is_running_and_ready()).count();
    Ok((usage * ready as f64).ceil() as i32)
}

/// The size at which each pod has its share of one value; and the share now, which is all of it while there is no pod
/// yet. `there` pods share it, which in a rollout may be more than the `wanted` ones: where the share is right, the size
/// stays what it was meant to be, and does not become what happens to be there.
pub fn by_share((wanted, there): (i32, i32), total: i64, target: i64, tolerances: Tolerances) -> (i32, i64) {
    let usage = total as f64 / (target as f64 * f64::from(there));
    let size = if tolerances.holds(usage) { wanted } else { (total as f64 / target as f64).ceil() as i32 };
    (size, (total as f64 / f64::from(there.max(1))).ceil() as i64)
}
