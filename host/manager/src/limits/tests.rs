use super::*;
use crate::contract::{Ask, OnFailure, Pace, Precondition, Step};

fn rules(flags: &[&str]) -> LimitRules {
    LimitRules::new(flags.iter().map(|flag| flag.parse().unwrap()).collect())
}

#[test]
fn flags_are_read() {
    let limits = |flags: &[&str]| rules(flags).limits("web-controller", &["web".to_owned()]);
    assert_eq!(limits(&[]), Limits::default());
    let all = limits(&[
        "deadline=1m30s",
        "*.memory=64Mi",
        "plan-actions=7",
        "plan-bytes=2k",
        "lookups=0",
        "log-lines=3",
        "state-bytes=100",
    ]);
    let expected = Limits {
        deadline: Duration::from_secs(90),
        first_call: Duration::from_secs(90),
        memory: 64 << 20,
        plan_actions: 7,
        plan_bytes: 2000,
        lookups: 0,
        log_lines: 3,
        state_bytes: 100,
    };
    assert_eq!(all, expected);
    // By name or alias before all, whichever comes first; of the same the later one.
    assert_eq!(limits(&["web.lookups=1", "lookups=2", "other.lookups=3"]).lookups, 1);
    assert_eq!(limits(&["web.lookups=1", "web-controller.lookups=4"]).lookups, 4);
    assert_eq!(rules(&["a.b.lookups=9"]).limits("a.b", &[]).lookups, 9);
    let named = rules(&["web.lookups=1", "we.lookups=1", "lookups=1"]);
    assert_eq!(named.names().collect::<Vec<_>>(), ["web", "we"]);
}

#[test]
fn what_is_no_limit_says_what_one_looks_like() {
    let refusal = |flag: &str| flag.parse::<LimitRule>().unwrap_err();
    assert!(
        refusal("deadline").starts_with("expected [CONTROLLER.]KIND=VALUE with KIND one of deadline, memory")
    );
    assert!(refusal("web.speed=1").contains("KIND one of"));
    assert!(refusal(".lookups=1").contains("CONTROLLER"));
    assert_eq!(refusal("deadline=5"), "\"5\" is no duration such as 500ms, 5s or 1m30s");
    assert_eq!(refusal("deadline=-5s"), "\"-5s\" is no duration such as 500ms, 5s or 1m30s");
    for little in ["memory=0", "memory=1", "job.memory=1Mi"] {
        assert!(refusal(little).contains("give at least 2097152 (2Mi)"), "{}", refusal(little));
    }
    assert_eq!(refusal("memory=lots"), "\"lots\" is no number of bytes such as 65536, 64Ki or 256Mi");
    assert_eq!(
        refusal("memory=99999999999Gi"),
        "\"99999999999Gi\" is no number of bytes such as 65536, 64Ki or 256Mi"
    );
    assert_eq!(refusal("lookups=many"), "\"many\" is no whole number");
    assert_eq!(refusal("deadline=0s"), "a deadline of 0 would let no controller run");
    assert_eq!("web.deadline=1500ms".parse::<LimitRule>().unwrap().to_string(), "web.deadline=1.5s");
}

fn plan(actions: usize, body: &str, state: StateChange) -> Plan {
    let action = |n: usize| Action {
        tag: String::new(),
        resource: 1,
        namespace: String::new(),
        name: n.to_string(),
        subresource: String::new(),
        verb: Verb::Create(body.to_owned()),
        precondition: Precondition::None,
        on_success: None,
        on_failure: None,
    };
    let step = Step {
        actions: (0..actions).map(action).collect(),
        pace: Pace::Together,
        on_failure: OnFailure::Stop,
    };
    Plan { steps: vec![step], events: Vec::new(), not_before: None, quiet: 0, state, metrics: Vec::new() }
}

#[test]
fn what_is_too_large_is_refused_by_kind() {
    let limits = Limits { plan_actions: 3, plan_bytes: 40, lookups: 2, state_bytes: 5, ..Limits::default() };
    let kind = |plan: &Plan| limits.check_plan(plan).map_err(|exceeded| exceeded.kind);
    // Each action has a body of 10 bytes and a name of one.
    assert_eq!(kind(&plan(3, "0123456789", StateChange::Keep)), Ok(()));
    assert_eq!(kind(&plan(4, "0", StateChange::Keep)), Err(LimitKind::PlanActions));
    assert_eq!(kind(&plan(3, "0123456789012", StateChange::Keep)), Err(LimitKind::PlanBytes));
    assert_eq!(kind(&plan(0, "", StateChange::Set("12345".into()))), Ok(()));
    assert_eq!(kind(&plan(0, "", StateChange::Set("123456".into()))), Err(LimitKind::StateBytes));
    let ask = Lookup { id: String::new(), ask: Ask::Raw("/version".into()) };
    assert_eq!(limits.check_lookups(1, std::slice::from_ref(&ask)), Ok(()));
    let exceeded = limits.check_lookups(2, &[ask]).unwrap_err();
    assert_eq!(
        exceeded.to_string(),
        "the reconcile asked for 3 lookups, more than its limit of 2; raise it with --limit lookups=… if that is meant"
    );
}

#[test]
fn hits_are_counted_by_kind() {
    let hits = LimitHits::default();
    assert!(hits.by_name().is_empty());
    LimitKind::ALL.into_iter().for_each(|kind| hits.add(kind, kind as u64));
    let expected: BTreeMap<_, _> =
        LimitKind::ALL.into_iter().skip(1).map(|kind| (kind.name().to_owned(), kind as u64)).collect();
    assert_eq!(hits.by_name(), expected);
}
