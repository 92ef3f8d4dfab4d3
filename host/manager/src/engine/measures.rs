//! Checks the metrics that a manifest declares.

use crate::contract::{Manifest, MetricKind, MetricSpec};

/// Beginnings of names that are the host's.
const RESERVED: [&str; 9] = [
    "coxswain_",
    "workqueue_",
    "rest_client_",
    "leader_election_",
    "process_",
    "kubernetes_",
    "apiserver_",
    "registered_metrics",
    "running_managed_controllers",
];

/// Finds what is wrong with the metrics of a manifest.
pub(super) fn problems(manifest: &Manifest) -> Vec<String> {
    let mut problems = Vec::new();
    for (n, metric) in manifest.metrics.iter().enumerate() {
        if manifest.metrics[..n].iter().any(|other| other.name == metric.name) {
            problems.push(format!("metrics: `{}` is named twice", metric.name));
        }
        problems.extend(problem(metric).map(|problem| format!("metrics: `{}`: {problem}", metric.name)));
    }
    for source in manifest.sources.iter().filter(|source| !source.queue.is_empty()) {
        if source.queue.chars().any(|c| c.is_control() || c.is_whitespace()) {
            problems
                .push(format!("sources: `{}`: queue `{}`: a name without spaces", source.name, source.queue));
        }
    }
    problems
}

fn problem(metric: &MetricSpec) -> Option<String> {
    let histogram = metric.kind == MetricKind::Histogram;
    let ascending = metric.buckets.is_sorted_by(|a, b| a < b) && metric.buckets.iter().all(|b| b.is_finite());
    let bad_label = metric.labels.iter().enumerate().find(|(n, label)| {
        !is_name(label) || label.starts_with("__") || *label == "le" || metric.labels[..*n].contains(label)
    });
    if !is_name(&metric.name) {
        Some("a metric's name: letters, digits and `_`, not beginning with a digit".to_owned())
    } else if let Some(prefix) = RESERVED.iter().find(|prefix| metric.name.starts_with(**prefix)) {
        Some(format!("names that begin with `{prefix}` are the host's"))
    } else if let Some((_, label)) = bad_label {
        Some(format!("label `{label}`: a name of its own, of letters, digits and `_`, and not `le`"))
    } else if histogram && (metric.buckets.is_empty() || !ascending) {
        Some("a histogram has buckets: upper bounds, ascending".to_owned())
    } else if !histogram && !metric.buckets.is_empty() {
        Some("only a histogram has buckets".to_owned())
    } else if metric.help.contains('\n') {
        Some("help is one line".to_owned())
    } else {
        None
    }
}

fn is_name(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with(|c: char| c.is_ascii_digit())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metric(name: &str, kind: MetricKind, labels: &[&str], buckets: &[f64]) -> MetricSpec {
        MetricSpec {
            name: name.into(),
            kind,
            help: "Help.".into(),
            labels: labels.iter().map(|label| (*label).into()).collect(),
            buckets: buckets.into(),
        }
    }

    #[test]
    fn each_mistake_is_named() {
        let table = [
            (metric("widgets_total", MetricKind::Counter, &["color"], &[]), None),
            (metric("widget_seconds", MetricKind::Histogram, &[], &[0.1, 1.0]), None),
            (metric("1widget", MetricKind::Counter, &[], &[]), Some("a metric's name")),
            (metric("workqueue_depth", MetricKind::Gauge, &[], &[]), Some("are the host's")),
            (metric("widgets", MetricKind::Gauge, &["a", "a"], &[]), Some("label `a`")),
            (metric("widgets", MetricKind::Histogram, &["le"], &[1.0]), Some("label `le`")),
            (metric("widgets", MetricKind::Histogram, &[], &[]), Some("has buckets")),
            (metric("widgets", MetricKind::Histogram, &[], &[2.0, 1.0]), Some("ascending")),
            (metric("widgets", MetricKind::Histogram, &[], &[1.0, f64::INFINITY]), Some("ascending")),
            (metric("widgets", MetricKind::Counter, &[], &[1.0]), Some("only a histogram")),
        ];
        for (metric, wanted) in table {
            let found = problem(&metric);
            match wanted {
                None => assert_eq!(found, None, "{metric:?}"),
                Some(wanted) => {
                    assert!(found.as_ref().is_some_and(|p| p.contains(wanted)), "{metric:?}: {found:?}")
                }
            }
        }
    }
}
