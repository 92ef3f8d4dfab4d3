use std::time::Duration;

use super::*;
use crate::{
    contract::{ActionOutcome, ActionResult, Manifest, Measure, MetricKind, MetricSpec, Occasion, Sample},
    executor::Done,
    key::Key,
};

const SERVER: &str = "https://10.0.0.1:6443/";

fn value(metrics: &Metrics, series: &str) -> Option<f64> {
    let text = metrics.text(&Scraped::default());
    let line =
        text.lines().find(|line| line.strip_prefix(series).is_some_and(|rest| rest.starts_with(' ')))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn spec(name: &str, kind: MetricKind) -> MetricSpec {
    let buckets = if kind == MetricKind::Histogram { vec![1.0, 10.0] } else { Vec::new() };
    MetricSpec { name: name.into(), kind, help: "Help.".into(), labels: vec!["color".into()], buckets }
}

fn manifest(metrics: Vec<MetricSpec>) -> Manifest {
    Manifest { metrics, ..Manifest::blank("widget-controller") }
}

fn sample(metric: &str, color: &str, value: f64, occasion: Occasion) -> Sample {
    Sample { metric: metric.into(), labels: vec![color.into()], value: Measure::Number(value), if_: occasion }
}

fn key(name: &str) -> Key {
    Key { source: 0, resource: 1, namespace: "ns".into(), name: name.into() }
}

fn moment(results: &[ActionResult]) -> Moment<'_> {
    let failed = results.iter().any(|result| !matches!(result.result, ActionOutcome::Skipped));
    Moment { results, done: &[], lookups: &[], failed, elapsed: Duration::from_secs(5) }
}

#[test]
fn every_family_of_the_host_is_registered_once_and_has_help() {
    let metrics = Metrics::new(SERVER, []);
    metrics.queue("q").adds.inc();
    let text = metrics.text(&Scraped::default());
    assert!(
        text.contains("# HELP workqueue_adds_total [BETA] Total number of adds handled by workqueue\n"),
        "{text}"
    );
    assert!(
        text.contains("# TYPE workqueue_adds_total counter\nworkqueue_adds_total{name=\"q\"} 1\n"),
        "{text}"
    );
    assert!(
        text.contains("workqueue_queue_duration_seconds_bucket{name=\"q\",le=\"0.00000001\"} 0\n"),
        "{text}"
    );
    assert!(text.contains("workqueue_unfinished_work_seconds{name=\"q\"} 0\n"), "{text}");
    assert!(
        value(&metrics, "registered_metrics_total{deprecated_version=\"\",stability_level=\"ALPHA\"}")
            .unwrap()
            > 20.0
    );
}

#[test]
fn what_is_disabled_is_left_out() {
    let metrics = Metrics::new(SERVER, ["process_max_fds".to_owned()]);
    let text = metrics.text(&Scraped::default());
    assert!(text.contains("process_open_fds") && !text.contains("process_max_fds"), "{text}");
}

#[test]
fn work_under_way_is_summed_up_for_each_queue() {
    let metrics = Metrics::new(SERVER, []);
    metrics.queue("q");
    let working = [3, 4].map(|seconds| ("q".to_owned(), Duration::from_secs(seconds))).to_vec();
    let text = metrics.text(&Scraped { queues: working, ..Scraped::default() });
    assert!(text.contains("workqueue_unfinished_work_seconds{name=\"q\"} 7\n"), "{text}");
    assert!(text.contains("workqueue_longest_running_processor_seconds{name=\"q\"} 4\n"), "{text}");
    assert_eq!(value(&metrics, "workqueue_unfinished_work_seconds{name=\"q\"}"), Some(0.0));
}

#[test]
fn a_controller_that_is_gone_is_gone_from_the_gauges() {
    let metrics = Metrics::new(SERVER, []);
    let one = Figures { name: "c".into(), counters: vec![(counted::SWAPS, 2)], ..Figures::default() };
    let text = metrics.text(&Scraped { controllers: vec![one], ..Scraped::default() });
    assert!(text.contains("coxswain_module_swaps_total{controller=\"c\"} 2\n"), "{text}");
    let text = metrics.text(&Scraped::default());
    assert!(!text.contains("controller=\"c\""), "{text}");
}

/// A counter and a histogram of a module.
fn widgets() -> (std::sync::Arc<Metrics>, Manifest, Meter) {
    let metrics = Metrics::new(SERVER, []);
    let manifest = manifest(vec![
        spec("widgets_total", MetricKind::Counter),
        spec("widget_seconds", MetricKind::Histogram),
    ]);
    let meter = metrics.meter("widget-controller");
    meter.declare(&manifest);
    (metrics, manifest, meter)
}

#[test]
fn samples_count_in_the_case_they_name() {
    let (metrics, manifest, meter) = widgets();
    let failed = [
        ActionResult { tag: "paint".into(), result: ActionOutcome::Unknown },
        ActionResult { tag: "paint".into(), result: ActionOutcome::Unknown },
        ActionResult { tag: "ship".into(), result: ActionOutcome::Skipped },
    ];
    let cases = [
        (Occasion::Always, 2.0),
        (Occasion::Succeeded, 1.0),
        (Occasion::Failed, 1.0),
        (Occasion::Done("make".into()), 2.0),
        (Occasion::Done("paint".into()), 1.0),
        (Occasion::Done("ship".into()), 1.0),
        (Occasion::Refused("paint".into()), 2.0),
        (Occasion::Refused("ship".into()), 0.0),
    ];
    for (n, (occasion, wanted)) in cases.iter().enumerate() {
        let color = n.to_string();
        let samples = [sample("widgets_total", &color, 1.0, occasion.clone())];
        meter.count(&manifest, &key("a"), &samples, moment(&failed));
        meter.count(&manifest, &key("a"), &samples, moment(&[]));
        let counted = value(&metrics, &format!("widgets_total{{color=\"{color}\"}}")).unwrap_or_default();
        assert_eq!(counted, *wanted, "{occasion:?}");
    }
    let elapsed =
        Sample { value: Measure::Elapsed, ..sample("widget_seconds", "red", 0.0, Occasion::Always) };
    meter.count(&manifest, &key("a"), &[elapsed], moment(&[]));
    assert_eq!(value(&metrics, "widget_seconds_sum{color=\"red\"}"), Some(5.0));
    assert_eq!(value(&metrics, "widget_seconds_bucket{color=\"red\",le=\"1\"}"), Some(0.0));
}

#[test]
fn samples_count_for_each_action_and_of_the_lookup_that_they_name() {
    let (metrics, manifest, meter) = widgets();
    let done = ["make", "make", "paint"].map(|tag| Done { tag: tag.into(), name: "w".into(), version: None });
    let lookups = [("ask".to_owned(), Duration::from_secs(3))];
    let moment = Moment { done: &done, lookups: &lookups, ..moment(&[]) };
    let of = |id: &str| Sample {
        value: Measure::Lookup(id.into()),
        ..sample("widget_seconds", id, 0.0, Occasion::Always)
    };
    let samples = [
        sample("widgets_total", "red", 5.0, Occasion::Each("make".into())),
        sample("widgets_total", "blue", 5.0, Occasion::Each("ship".into())),
        sample("widget_seconds", "each", 2.0, Occasion::Each("make".into())),
        of("ask"),
        of("never asked"),
    ];
    meter.count(&manifest, &key("a"), &samples, moment);
    for (series, wanted) in [
        ("widgets_total{color=\"red\"}", Some(10.0)),
        ("widgets_total{color=\"blue\"}", None),
        ("widget_seconds_count{color=\"each\"}", Some(2.0)),
        ("widget_seconds_sum{color=\"each\"}", Some(4.0)),
        ("widget_seconds_sum{color=\"ask\"}", Some(3.0)),
        ("widget_seconds_count{color=\"never asked\"}", None),
    ] {
        assert_eq!(value(&metrics, series), wanted, "{series}");
    }
}

#[test]
fn a_metric_without_labels_is_there_from_the_start() {
    let metrics = Metrics::new(SERVER, []);
    let kinds = [
        ("made_total", MetricKind::Counter),
        ("made_seconds", MetricKind::Histogram),
        ("there", MetricKind::Gauge),
    ];
    let manifest =
        manifest(kinds.map(|(name, kind)| MetricSpec { labels: Vec::new(), ..spec(name, kind) }).to_vec());
    let meter = metrics.meter("widget-controller");
    meter.declare(&manifest);
    let series = ["made_total", "made_seconds_count", "there"];
    assert_eq!(series.map(|series| value(&metrics, series)), [Some(0.0); 3]);
    let there = Sample { labels: Vec::new(), ..sample("there", "", 2.0, Occasion::Always) };
    meter.count(&manifest, &key("a"), &[there], moment(&[]));
    assert_eq!(value(&metrics, "there"), Some(2.0));
    meter.forget(&key("a"));
    assert_eq!(value(&metrics, "there"), Some(0.0));
}

#[test]
fn a_gauge_is_the_sum_of_what_each_key_told_last() {
    let metrics = Metrics::new(SERVER, []);
    let manifest = manifest(vec![spec("widgets", MetricKind::Gauge)]);
    let meter = metrics.meter("widget-controller");
    meter.declare(&manifest);
    let tell = |name: &str, color: &str, number: f64| {
        meter.count(
            &manifest,
            &key(name),
            &[sample("widgets", color, number, Occasion::Always)],
            moment(&[]),
        );
    };
    let red = || value(&metrics, "widgets{color=\"red\"}");
    tell("a", "red", 3.0);
    tell("b", "red", 4.0);
    assert_eq!(red(), Some(7.0));
    tell("a", "red", 1.0);
    assert_eq!(red(), Some(5.0));
    tell("b", "blue", 4.0);
    assert_eq!((red(), value(&metrics, "widgets{color=\"blue\"}")), (Some(1.0), Some(4.0)));
    meter.count(&manifest, &key("b"), &[], moment(&[]));
    assert_eq!(value(&metrics, "widgets{color=\"blue\"}"), None);
    meter.forget(&key("a"));
    assert_eq!(red(), None);
    // Numbers that binary fractions cannot be leave nothing behind.
    for n in 0..1000 {
        tell("a", "red", 100.0 / 3.0 * f64::from(n % 7));
        tell("b", "red", 0.1 * f64::from(n % 11));
    }
    tell("a", "red", 200.0 / 3.0);
    meter.forget(&key("b"));
    assert_eq!(red(), Some(200.0 / 3.0));
    tell("a", "red", 2.0);
    meter.clear();
    assert_eq!(red(), None);
}

#[test]
fn samples_that_make_no_sense_are_dropped_and_counted() {
    let metrics = Metrics::new(SERVER, []);
    let manifest =
        manifest(vec![spec("widgets_total", MetricKind::Counter), spec("widgets", MetricKind::Gauge)]);
    let meter = metrics.meter("widget-controller");
    meter.declare(&manifest);
    // Another module sees the metric differently: who was first keeps it.
    let other = self::manifest(vec![spec("widgets_total", MetricKind::Histogram)]);
    metrics.meter("other").declare(&other);
    metrics.meter("other").count(
        &other,
        &key("a"),
        &[sample("widgets_total", "red", 1.0, Occasion::Always)],
        moment(&[]),
    );
    let bad = [
        sample("gadgets_total", "red", 1.0, Occasion::Always),
        Sample { labels: Vec::new(), ..sample("widgets_total", "", 1.0, Occasion::Always) },
        sample("widgets_total", "red", -1.0, Occasion::Always),
        sample("widgets_total", "red", f64::NAN, Occasion::Always),
    ];
    meter.count(&manifest, &key("a"), &bad, moment(&[]));
    for (metric, too_many) in [("widgets_total", 2001), ("widgets", 20_001)] {
        let many: Vec<_> =
            (0..too_many).map(|n| sample(metric, &n.to_string(), 1.0, Occasion::Always)).collect();
        meter.count(&manifest, &key("a"), &many, moment(&[]));
    }
    let dropped = |controller: &str, reason: &str| {
        value(
            &metrics,
            &format!("coxswain_samples_dropped_total{{controller=\"{controller}\",reason=\"{reason}\"}}"),
        )
    };
    assert_eq!(dropped("other", "conflict"), Some(1.0));
    for (reason, count) in [("undeclared", 1.0), ("labels", 1.0), ("value", 2.0), ("series", 2.0)] {
        assert_eq!(dropped("widget-controller", reason), Some(count), "{reason}");
    }
}

#[test]
fn fifty_controllers_are_scraped_in_no_time() {
    let metrics = Metrics::new(SERVER, []);
    let names: Vec<String> = (0..50).map(|n| format!("controller-{n}")).collect();
    for name in &names {
        let (queue, series) = (metrics.queue(name), metrics.controller(name));
        queue.latency.observe(0.1);
        queue.work.observe(0.1);
        series.held(Duration::from_millis(3));
        for (verb, outcome) in [("create", "plan"), ("patch", "retry"), ("delete", "terminal")] {
            series.acted(verb, "done");
            series.reconciled(outcome, Duration::from_micros(20));
        }
    }
    let state = Scraped {
        controllers: names.iter().map(|name| Figures { name: name.clone(), ..Figures::default() }).collect(),
        resources: names
            .iter()
            .map(|name| ResourceFigures { resource: name.clone(), ..Default::default() })
            .collect(),
        ..Scraped::default()
    };
    let length = metrics.text(&state).len();
    let began = std::time::Instant::now();
    metrics.text(&state);
    let took = began.elapsed();
    println!("a scrape of 50 controllers: {took:?}, {length} bytes");
    assert!(length > 100_000);
    // Far from the 20 ms of an idle machine, but a mistake in the order would show.
    assert!(took < Duration::from_millis(500), "{took:?}");
}
