use jiff::ToSpan;

use super::*;
use crate::events::Involved;

fn occurrence(name: &str, reason: &str, message: &str) -> Occurrence {
    Occurrence {
        component: "test-controller".into(),
        controller: "test".into(),
        involved: Involved {
            api_version: "v1".into(),
            kind: "Thing".into(),
            namespace: "ns".into(),
            name: name.into(),
            uid: format!("uid-{name}"),
            resource_version: String::new(),
        },
        kind: EventKind::Normal,
        reason: reason.into(),
        message: message.into(),
    }
}

fn start() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

/// Judges, and takes what is heard for written.
fn say(correlator: &mut Correlator, occurrence: &Occurrence, now: Timestamp) -> Option<Verdict> {
    let verdict = correlator.judge(occurrence, now)?;
    correlator.wrote(verdict.identity.clone(), verdict.written.clone());
    Some(verdict)
}

#[test]
fn the_same_is_counted() {
    let mut correlator = Correlator::default();
    let first = say(&mut correlator, &occurrence("a", "R", "m"), start()).unwrap();
    let second = say(&mut correlator, &occurrence("a", "R", "m"), start() + 5.seconds()).unwrap();
    assert_eq!(first.written.count, 1);
    assert_eq!(second.written, Written { count: 2, ..first.written });
}

#[test]
fn others_are_not_counted_together() {
    let mut correlator = Correlator::default();
    let said = [("a", "R", "m"), ("b", "R", "m"), ("a", "S", "m"), ("a", "R", "n")];
    let names: HashSet<String> = said
        .iter()
        .map(|(name, reason, message)| {
            let verdict = say(&mut correlator, &occurrence(name, reason, message), start()).unwrap();
            assert_eq!(verdict.written.count, 1);
            verdict.written.name
        })
        .collect();
    assert_eq!(names.len(), said.len(), "names differ even at the same time");
}

#[test]
fn the_tenth_similar_one_is_combined() {
    let mut correlator = Correlator::default();
    for n in 1..=12 {
        let verdict = say(&mut correlator, &occurrence("a", "R", &format!("m{n}")), start()).unwrap();
        if n < 10 {
            assert_eq!((verdict.message, verdict.written.count), (format!("m{n}"), 1));
        } else {
            assert_eq!((verdict.message, verdict.written.count), (format!("{COMBINED}m{n}"), n - 9));
        }
    }
    // One that was already told goes on being counted by itself.
    let again = say(&mut correlator, &occurrence("a", "R", "m3"), start()).unwrap();
    assert_eq!((again.message.as_str(), again.written.count), ("m3", 2));
}

#[test]
fn similar_ones_far_apart_are_not_combined() {
    let mut correlator = Correlator::default();
    let mut now = start();
    for n in 1..=12 {
        let verdict = say(&mut correlator, &occurrence("a", "R", &format!("m{n}")), now).unwrap();
        assert_eq!(verdict.message, format!("m{n}"));
        now += 601.seconds();
    }
}

#[test]
fn a_source_is_not_heard_past_its_burst() {
    let mut correlator = Correlator::default();
    let heard = |correlator: &mut Correlator, now| say(correlator, &occurrence("a", "R", "m"), now).is_some();
    for _ in 0..25 {
        assert!(heard(&mut correlator, start()));
    }
    assert!(!heard(&mut correlator, start()));
    assert!(!heard(&mut correlator, start() + 299.seconds()));
    assert!(heard(&mut correlator, start() + 301.seconds()));
    assert!(!heard(&mut correlator, start() + 301.seconds()));
    // Another object has its own burst.
    let other = say(&mut correlator, &occurrence("b", "R", "m"), start()).unwrap();
    assert_eq!(other.written.count, 1);
    // What was not heard was counted: 25 and 1 heard, 3 not, and this one.
    let later = say(&mut correlator, &occurrence("a", "R", "m"), start() + 610.seconds()).unwrap();
    assert_eq!(later.written.count, 30);
}

#[test]
fn names_are_valid() {
    let cases = [
        ("web-1", "web-1.ff"),
        ("a.b", "a.b.ff"),
        ("system:node:x", "system-node-x.ff"),
        ("UPPER", "event.ff"),
        ("a..b", "a--b.ff"),
        ("", "event.ff"),
    ];
    for (object, name) in cases {
        assert_eq!(event_name(object, 255), name);
    }
    assert_eq!(event_name(&"a".repeat(253), 255).len(), 253);
}
