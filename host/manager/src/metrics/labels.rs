//! Which values labels may have: `--allow-metric-labels`.
//!
//! In: families of metrics. Out: the same, where a value that is not allowed is
//! `unexpected`; series that become one are added up, unless a sum would mean
//! nothing (a point in time, the longest of something): then the highest counts.
//! So a label that names too many things cannot fill a Prometheus.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use prometheus::proto::{Bucket, Counter, Gauge, Histogram, Metric, MetricFamily, MetricType};

/// What a value that is not allowed becomes.
const UNEXPECTED: &str = "unexpected";

/// What `METRIC,LABEL` looks like, for people.
const EXPECTED: &str = "expected METRIC,LABEL=VALUE,VALUE";

/// The values that labels may have, by metric and label.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedLabels(BTreeMap<String, BTreeMap<String, BTreeSet<String>>>);

impl AllowedLabels {
    /// Reads `METRIC,LABEL=VALUE,VALUE`, any number of them.
    ///
    /// # Errors
    ///
    /// Names the one that cannot be read.
    pub fn parse(pairs: &[String]) -> Result<Self, String> {
        let mut allowed = Self::default();
        for pair in pairs.iter().filter(|pair| !pair.is_empty()) {
            let (of, values) = pair.split_once('=').ok_or_else(|| format!("{pair}: {EXPECTED}"))?;
            allowed.add(of, values.trim_matches(['\'', '"'])).map_err(|error| format!("{pair}: {error}"))?;
        }
        Ok(allowed)
    }

    /// Reads a YAML file that maps `METRIC,LABEL` to `VALUE,VALUE`.
    ///
    /// # Errors
    ///
    /// Says why the file cannot be used.
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("cannot read it: {error}"))?;
        let map: BTreeMap<String, String> = serde_yaml::from_str(&text).map_err(|error| {
            let error = error.to_string();
            format!("expected a map of METRIC,LABEL to values: {}", error.lines().next().unwrap_or_default())
        })?;
        let mut allowed = Self::default();
        for (of, values) in map {
            allowed.add(&of, &values).map_err(|error| format!("{of}: {error}"))?;
        }
        Ok(allowed)
    }

    fn add(&mut self, of: &str, values: &str) -> Result<(), String> {
        let (metric, label) = of.split_once(',').ok_or(EXPECTED)?;
        if !is_name(metric, true) || !is_name(label, false) {
            return Err(EXPECTED.to_owned());
        }
        let values = values.split(',').map(str::to_owned).collect();
        self.0.entry(metric.to_owned()).or_default().insert(label.to_owned(), values);
        Ok(())
    }

    /// Puts families in order.
    pub(super) fn apply(&self, families: &mut [MetricFamily]) {
        for family in families {
            let Some(labels) = self.0.get(family.name()) else { continue };
            let (kind, highest) = (family.get_field_type(), is_no_sum(family.name()));
            let mut kept: Vec<Metric> = Vec::new();
            for mut metric in family.take_metric() {
                for pair in metric.mut_label() {
                    if labels.get(pair.name()).is_some_and(|allowed| !allowed.contains(pair.value())) {
                        pair.set_value(UNEXPECTED.to_owned());
                    }
                }
                match kept.iter_mut().find(|one| one.get_label() == metric.get_label()) {
                    Some(one) => add_up(one, &metric, kind, highest),
                    None => kept.push(metric),
                }
            }
            family.set_metric(kept);
        }
    }
}

/// Whether this names a metric or a label.
fn is_name(text: &str, colons: bool) -> bool {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || (colons && c == ':');
    text.chars().all(good) && text.starts_with(|c: char| !c.is_ascii_digit())
}

/// Whether the sum of two gauges of this name would mean nothing.
fn is_no_sum(name: &str) -> bool {
    name.ends_with("_timestamp_seconds") || name.contains("longest_")
}

/// Adds a series to another of the same family.
fn add_up(sum: &mut Metric, other: &Metric, kind: MetricType, highest: bool) {
    match kind {
        MetricType::COUNTER => {
            let mut counter = Counter::default();
            counter.set_value(sum.get_counter().get_value() + other.get_counter().get_value());
            sum.set_counter(counter);
        }
        MetricType::GAUGE => {
            let mut gauge = Gauge::default();
            let (one, two) = (sum.get_gauge().get_value(), other.get_gauge().get_value());
            gauge.set_value(if highest { one.max(two) } else { one + two });
            sum.set_gauge(gauge);
        }
        MetricType::HISTOGRAM => {
            let (one, two) = (sum.get_histogram(), other.get_histogram());
            let pairs = one.get_bucket().iter().zip(two.get_bucket());
            let buckets = pairs.map(|(one, two)| {
                let mut bucket = Bucket::default();
                bucket.set_upper_bound(one.upper_bound());
                bucket.set_cumulative_count(one.cumulative_count() + two.cumulative_count());
                bucket
            });
            let mut histogram = Histogram::default();
            histogram.set_bucket(buckets.collect());
            histogram.set_sample_count(one.get_sample_count() + two.get_sample_count());
            histogram.set_sample_sum(one.get_sample_sum() + two.get_sample_sum());
            sum.set_histogram(histogram);
        }
        // The host makes none of these.
        MetricType::SUMMARY | MetricType::UNTYPED => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::{Metrics, Scraped};

    #[test]
    fn values_that_are_not_allowed_become_one_series() {
        let allowed = AllowedLabels::parse(&[
            "workqueue_adds_total,name='q,r'".into(),
            "workqueue_queue_duration_seconds,name=q".into(),
        ])
        .unwrap();
        let metrics = Metrics::with_labels("https://x", [], allowed);
        for (queue, adds) in [("q", 1), ("r", 2), ("s", 3), ("t", 4)] {
            metrics.queue(queue).adds.inc_by(adds);
            metrics.queue(queue).latency.observe(1.0);
        }
        let text = metrics.text(&Scraped::default());
        for line in [
            "workqueue_adds_total{name=\"q\"} 1\n",
            "workqueue_adds_total{name=\"r\"} 2\n",
            "workqueue_adds_total{name=\"unexpected\"} 7\n",
            "workqueue_queue_duration_seconds_count{name=\"unexpected\"} 3\n",
            "workqueue_queue_duration_seconds_sum{name=\"unexpected\"} 3\n",
            "workqueue_queue_duration_seconds_bucket{name=\"unexpected\",le=\"+Inf\"} 3\n",
            // What nobody said anything about.
            "workqueue_depth{name=\"t\"} 0\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(!text.contains("workqueue_adds_total{name=\"s\"}"));
    }

    #[test]
    fn gauges_are_added_up_where_that_makes_sense() {
        let controller = |name: &str, since, memory| crate::metrics::Figures {
            name: name.to_owned(),
            since,
            memory,
            ..Default::default()
        };
        let controllers =
            vec![controller("a", 1000.0, 1), controller("b", 2000.0, 2), controller("c", 3000.0, 4)];
        let allowed = AllowedLabels::parse(&[
            "coxswain_module_started_timestamp_seconds,controller=c".into(),
            "coxswain_module_memory_bytes,controller=c".into(),
        ])
        .unwrap();
        let metrics = Metrics::with_labels("https://x", [], allowed);
        let text = metrics.text(&Scraped { controllers, ..Scraped::default() });
        for line in [
            "coxswain_module_started_timestamp_seconds{controller=\"unexpected\"} 2000\n",
            "coxswain_module_started_timestamp_seconds{controller=\"c\"} 3000\n",
            "coxswain_module_memory_bytes{controller=\"unexpected\"} 3\n",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }

    #[test]
    fn what_is_no_pair_is_named() {
        for text in ["a,b", "a=b", "a,b,c=d", "1a,b=c", ",b=c", "a,=c", "a,b c=d"] {
            let error = AllowedLabels::parse(&[text.to_owned()]).unwrap_err();
            assert!(error.starts_with(text) && error.contains(EXPECTED), "{text}: {error}");
        }
        assert_eq!(AllowedLabels::parse(&[]), Ok(AllowedLabels::default()));
    }

    #[test]
    fn a_file_says_the_same() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "a,b: c,d\n\"e:f,g\": ''\n").unwrap();
        let wanted = AllowedLabels::parse(&["a,b=c,d".into(), "e:f,g=".into()]);
        assert_eq!(AllowedLabels::read(file.path()), wanted);
        for bad in ["- a\n", "a: b\n", "a,b: [c]\n"] {
            std::fs::write(file.path(), bad).unwrap();
            let error = AllowedLabels::read(file.path()).unwrap_err();
            assert!(error.contains("expected") && !error.contains('\n'), "{bad}: {error}");
        }
    }
}
