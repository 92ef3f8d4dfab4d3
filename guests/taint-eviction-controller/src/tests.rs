use std::time::Duration;

use coxswain_sdk::Time;
use coxswain_sdk::taints::{NO_EXECUTE, Taint, Toleration};
use serde_json::json;

use crate::TaintEvictionController;
use crate::deadline::{Borne, Deadline, deadline};
use crate::memory::{Memory, Waiting};

#[test]
fn scenarios() {
    coxswain_sdk::testing::scenarios::<TaintEvictionController>(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/scenarios"
    ));
}

fn at(seconds: i64) -> Time {
    Time::from_unix(seconds)
}

#[test]
fn the_earliest_deadline_of_all_taints_counts() {
    let (a, b) = (Taint::new("a", NO_EXECUTE, at(0)), Taint::new("b", NO_EXECUTE, at(0)));
    let both = [Borne { taint: &a, since: at(100) }, Borne { taint: &b, since: at(200) }];
    let exists = |key: &str| json!({"key": key, "operator": "Exists"});
    let for_seconds =
        |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
    for (tolerations, bound, wanted) in [
        (json!([]), 0, Deadline::AtOnce),
        (json!([exists("a")]), 0, Deadline::AtOnce),
        (json!([exists("a"), exists("b")]), 0, Deadline::Never),
        (json!([exists("a"), for_seconds("b", 10)]), 0, Deadline::At(at(210))),
        (json!([for_seconds("a", 150), for_seconds("b", 10)]), 0, Deadline::At(at(210))),
        (json!([for_seconds("a", 50), for_seconds("b", 10)]), 0, Deadline::At(at(150))),
        (json!([for_seconds("a", 50), for_seconds("b", 10)]), 300, Deadline::At(at(310))),
        (json!([for_seconds("a", 0), exists("b")]), 0, Deadline::AtOnce),
        (json!([for_seconds("a", -5), exists("b")]), 0, Deadline::AtOnce),
        (json!([for_seconds("a", 50), exists("a"), exists("b")]), 0, Deadline::At(at(150))),
        (json!([exists("a"), for_seconds("a", 50), exists("b")]), 0, Deadline::Never),
        (json!([for_seconds("a", i64::MAX), exists("b")]), 0, Deadline::At(at(i64::MAX))),
    ] {
        let parsed: Vec<Toleration> = serde_json::from_value(tolerations.clone()).unwrap();
        assert_eq!(deadline(&both, &parsed, Some(at(bound))), wanted, "{tolerations} {bound}");
    }
    assert_eq!(deadline(&[], &[], None), Deadline::Never);
}

#[test]
fn memory_is_read_as_it_was_written() {
    let mut memory = Memory::default();
    let seen = at(5) + Duration::from_millis(250);
    memory.note(&Taint { key: "example.com/k".to_owned(), ..Taint::default() }, seen);
    memory.note(&Taint::new("k", NO_EXECUTE, at(3)), at(4));
    for (uid, going) in [("u1", true), ("u2", false)] {
        let waiting = Waiting { namespace: "default".to_owned(), name: "p".to_owned(), going };
        memory.pods.insert(uid.to_owned(), waiting);
    }
    assert_eq!(Memory::read(&memory.write()), memory);
    assert_eq!(Memory::read("taint k\nwaits a\n\nnonsense x y z\ntaint k - soon"), Memory::default());
    assert!(Memory::default().write().is_empty());
}

#[test]
fn it_reads_no_more_than_it_uses_so_no_heartbeat_wakes_it() {
    let reads = [
        "nodes spec.taints",
        "pods spec.nodeName",
        "pods spec.tolerations[*].effect",
        "pods spec.tolerations[*].key",
        "pods spec.tolerations[*].operator",
        "pods spec.tolerations[*].tolerationSeconds",
        "pods spec.tolerations[*].value",
        "pods status.conditions[*].lastTransitionTime",
        "pods status.conditions[*].reason",
        "pods status.conditions[*].status",
        "pods status.conditions[*].type",
    ];
    assert_eq!(coxswain_sdk::testing::reads::<TaintEvictionController>(), reads);
}
