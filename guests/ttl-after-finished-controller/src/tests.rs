//! What the controller does, scenario by scenario, and when a Job goes.

use coxswain_sdk::{Time, from_json, manifest_of};

use crate::reconcile::{Fate, fate};
use crate::{Job, TtlAfterFinished};

#[test]
fn scenarios() {
    let scenarios = concat!(env!("CARGO_MANIFEST_DIR"), "/scenarios");
    coxswain_sdk::testing::scenarios::<TtlAfterFinished>(scenarios);
}

#[test]
fn it_reads_no_more_than_it_uses() {
    let manifest = manifest_of::<TtlAfterFinished>();
    let expected = [
        "spec.ttlSecondsAfterFinished",
        "status.conditions[*].lastTransitionTime",
        "status.conditions[*].status",
        "status.conditions[*].type",
    ];
    assert_eq!(manifest.reads.len(), 1);
    assert_eq!(manifest.reads[0].fields, expected);
}

#[test]
fn a_job_expires_so_many_seconds_after_its_end() {
    let at = |seconds: i64| Time::from_unix(1_767_225_600 + seconds);
    let expires = |after: i64| Fate::Expires { finished: at(0), at: at(after) };
    let ended = |kind: &str| {
        format!(r#"{{"type":"{kind}","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z"}}"#)
    };
    for (about, ttl, conditions, fate_wanted) in [
        ("no TTL", "null", ended("Complete"), Fate::Stays),
        ("complete", "10", ended("Complete"), expires(10)),
        ("failed", "10", ended("Failed"), expires(10)),
        ("at once", "0", ended("Complete"), expires(0)),
        ("negative", "-5", ended("Complete"), expires(0)),
        ("a lifetime", "2147483647", ended("Complete"), expires(2_147_483_647)),
        ("no condition", "10", String::new(), Fate::Stays),
        ("only about to fail", "10", ended("FailureTarget"), Fate::Stays),
        ("suspended", "10", ended("Suspended"), Fate::Stays),
        ("not true", "10", r#"{"type":"Complete","status":"False"}"#.to_owned(), Fate::Stays),
        ("undated", "10", r#"{"type":"Complete","status":"True"}"#.to_owned(), Fate::Undated),
        (
            "others before",
            "10",
            format!("{},{}", ended("SuccessCriteriaMet"), ended("Complete")),
            expires(10),
        ),
    ] {
        let text = format!(
            r#"{{"spec":{{"ttlSecondsAfterFinished":{ttl}}},"status":{{"conditions":[{conditions}]}}}}"#
        );
        let job: Job = from_json(&text).unwrap();
        assert_eq!(fate(&job), fate_wanted, "{about}");
    }
}
