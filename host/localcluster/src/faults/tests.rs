use super::*;

fn request(method: http::Method, path: &str, query: &str) -> Request {
    Request { method, path: path.into(), query: query.into(), ..Request::default() }
}

fn rule(text: &str) -> Rule {
    Rule::parse(text.as_bytes()).expect("rule")
}

#[tokio::test]
async fn a_rule_meets_what_it_selects_so_often_as_it_says() {
    let faults = Faults::new(Some(1));
    faults.add(rule(
        r#"{"on": {"verbs": ["create"], "group": "", "resource": "pods"}, "count": 1,
            "action": {"type": "tooManyRequests", "retryAfterSeconds": 2}}"#,
    ));
    let other = request(http::Method::POST, "/api/v1/namespaces/a/services", "");
    assert_eq!(faults.judge(&other).await, Verdict::Pass);
    let get = request(http::Method::GET, "/api/v1/namespaces/a/pods", "");
    assert_eq!(faults.judge(&get).await, Verdict::Pass);
    let create = request(http::Method::POST, "/api/v1/namespaces/a/pods", "");
    let Verdict::Refuse(status) = faults.judge(&create).await else { panic!("not refused") };
    assert_eq!(status.code, 429);
    assert_eq!(faults.judge(&create).await, Verdict::Pass, "its count is used up");
    assert!(faults.list().is_empty());
}

#[tokio::test(start_paused = true)]
async fn latency_is_spent_and_adds_up() {
    let faults = Faults::new(Some(1));
    for _ in 0..2 {
        faults.add(rule(r#"{"action": {"type": "latency", "milliseconds": 300}}"#));
    }
    let before = tokio::time::Instant::now();
    let get = request(http::Method::GET, "/api/v1/nodes", "");
    assert_eq!(faults.judge(&get).await, Verdict::Pass);
    assert_eq!(before.elapsed(), Duration::from_millis(600));
}

#[tokio::test]
async fn the_same_seed_meets_the_same_requests() {
    let run = || async {
        let faults = Faults::new(Some(7));
        faults.add(rule(r#"{"probability": 0.5, "action": {"type": "serverError"}}"#));
        let get = request(http::Method::GET, "/api/v1/nodes", "");
        let mut met = Vec::new();
        for _ in 0..32 {
            met.push(faults.judge(&get).await != Verdict::Pass);
        }
        met
    };
    let first = run().await;
    assert_eq!(first, run().await);
    assert!(first.contains(&true) && first.contains(&false));
}

#[test]
fn signals_reach_only_watches_of_their_resource() {
    let faults = Faults::new(Some(1));
    let id = |plural: &str| StorageId { group: String::new(), plural: plural.into() };
    let pods = faults.watch_state(&id("pods"));
    let nodes = faults.watch_state(&id("nodes"));
    faults.add(rule(r#"{"on": {"group": "", "resource": "pods"}, "action": {"type": "closeWatches"}}"#));
    assert_eq!(pods.borrow().closings, 1);
    assert_eq!(nodes.borrow().closings, 0);
    assert!(faults.list().is_empty(), "a signal is over when it is given");
}

#[test]
fn an_unknown_action_or_field_is_refused() {
    assert!(Rule::parse(br#"{"action": {"type": "explode"}}"#).is_err());
    assert!(Rule::parse(br#"{"onn": {}, "action": {"type": "conflict"}}"#).is_err());
}
