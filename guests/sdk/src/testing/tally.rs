//! What a scenario measured, added up as the host does.

use std::collections::BTreeMap;

use serde_json::json;

use super::golden::Node;
use crate::contract::{
    ActionOutcome, ActionResult, Manifest, Measure, MetricKind, MetricSpec, Occasion, Plan, Sample,
};

/// A metric and the values of its labels.
type Series = (String, Vec<String>);

/// What was measured so far.
#[derive(Default)]
pub(super) struct Tally {
    /// Counters and histograms: how often, and the sum of the numbers.
    added: BTreeMap<Series, (u32, f64)>,
    /// What each key told last of gauges.
    parts: BTreeMap<String, Vec<(Series, f64)>>,
}

impl Tally {
    /// Counts the samples of a plan that was carried out. An error is a sample that the host would drop.
    pub(super) fn count(
        &mut self,
        manifest: &Manifest,
        key: &str,
        plan: &Plan,
        results: &[ActionResult],
    ) -> Result<(), String> {
        let mut parts = Vec::new();
        for sample in &plan.metrics {
            let spec = spec_of(manifest, sample)?;
            let times = times(&sample.if_, plan, results);
            if times == 0 {
                continue;
            }
            // How long something took is not told: there is no clock here.
            let number = match &sample.value {
                Measure::Number(number) => *number,
                Measure::Elapsed | Measure::Lookup(_) => 0.0,
            };
            if !number.is_finite() || (spec.kind == MetricKind::Counter && number < 0.0) {
                return Err(format!("{} cannot count {number}", sample.metric));
            }
            let series = (sample.metric.clone(), sample.labels.clone());
            if spec.kind == MetricKind::Gauge {
                parts.push((series, number * f64::from(times)));
            } else {
                let (count, sum) = self.added.entry(series).or_default();
                *count += times;
                *sum += number * f64::from(times);
            }
        }
        self.parts.insert(key.to_owned(), parts);
        Ok(())
    }

    /// All series, the gauges of keys that are still `there`.
    pub(super) fn told(&self, manifest: &Manifest, there: impl Fn(&str) -> bool) -> Option<Node> {
        let mut gauges: BTreeMap<&Series, f64> = BTreeMap::new();
        for (series, number) in self.parts.iter().filter(|(key, _)| there(key)).flat_map(|(_, parts)| parts) {
            *gauges.entry(series).or_default() += number;
        }
        let mut lines: Vec<String> = gauges
            .into_iter()
            .map(|(series, number)| format!("{} {number}", shown(manifest, series)))
            .collect();
        for (series, (count, sum)) in &self.added {
            let name = shown(manifest, series);
            let is_histogram = manifest
                .metrics
                .iter()
                .any(|spec| spec.name == series.0 && spec.kind == MetricKind::Histogram);
            lines.push(match is_histogram {
                false => format!("{name} {sum}"),
                true if *sum == 0.0 => format!("{name} count {count}"),
                true => format!("{name} count {count}, sum {sum}"),
            });
        }
        lines.sort();
        let lines: Vec<Node> = lines.into_iter().map(|line| Node::Leaf(json!(line))).collect();
        (!lines.is_empty()).then(|| Node::Fields(vec![("metrics", Node::List(lines))]))
    }
}

fn spec_of<'m>(manifest: &'m Manifest, sample: &Sample) -> Result<&'m MetricSpec, String> {
    let spec = manifest.metrics.iter().find(|spec| spec.name == sample.metric);
    let spec = spec.ok_or_else(|| format!("the manifest declares no metric {}", sample.metric))?;
    if spec.labels.len() == sample.labels.len() {
        Ok(spec)
    } else {
        Err(format!("{} has the labels {:?}, not {:?}", spec.name, spec.labels, sample.labels))
    }
}

/// How often a sample counts.
fn times(occasion: &Occasion, plan: &Plan, results: &[ActionResult]) -> u32 {
    let tried = || results.iter().filter(|result| !matches!(result.result, ActionOutcome::Skipped));
    let failed = tried().next().is_some();
    let reported = |tag: &String| results.iter().filter(|result| result.tag == *tag).count();
    let counts = match occasion {
        Occasion::Always => true,
        Occasion::Succeeded => !failed,
        Occasion::Failed => failed,
        Occasion::Done(tag) => reported(tag) == 0,
        Occasion::Refused(tag) => return saturated(tried().filter(|result| result.tag == *tag).count()),
        Occasion::Each(tag) => {
            let actions = plan.steps.iter().flat_map(|step| &step.actions);
            let planned = actions.filter(|action| action.tag == *tag).count();
            return saturated(planned - reported(tag).min(planned));
        }
    };
    counts.into()
}

fn saturated(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

fn shown(manifest: &Manifest, (metric, labels): &Series) -> String {
    let spec = manifest.metrics.iter().find(|spec| spec.name == *metric);
    let names = spec.map(|spec| spec.labels.as_slice()).unwrap_or_default();
    let pairs: Vec<String> =
        names.iter().zip(labels).map(|(name, value)| format!("{name}={value:?}")).collect();
    if pairs.is_empty() { metric.clone() } else { format!("{metric}{{{}}}", pairs.join(",")) }
}
