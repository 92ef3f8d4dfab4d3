//! Lookups.

use std::time::Duration;

use serde_json::json;

use super::kit::*;
use crate::{
    contract::*,
    grants::{Entry, Grants, Rule},
};

fn get(kit: &Kit, name: &str) -> Ask {
    Ask::Get(GetLookup {
        resource: kit.things,
        namespace: "ns".into(),
        name: name.into(),
        subresource: String::new(),
        metadata_only: true,
        uid: String::new(),
    })
}

fn lookup(id: &str, ask: Ask) -> Lookup {
    Lookup { id: id.into(), ask }
}

#[tokio::test(start_paused = true)]
async fn answers_come_in_the_order_asked() {
    let kit = Kit::new(|asked| {
        if asked.path.ends_with("/b") { refuse(404, "NotFound") } else { ok(json!({"at": asked.path})) }
    });
    let list = Ask::List(ListLookup {
        resource: kit.things,
        namespace: String::new(),
        labels: "a=b".into(),
        fields: String::new(),
        limit: 5,
        continue_from: "next".into(),
        metadata_only: false,
    });
    let asks = vec![
        lookup("1", get(&kit, "a")),
        lookup("2", get(&kit, "b")),
        lookup("3", list),
        lookup("4", Ask::Raw("/apis/metrics.example/v1?x=y".into())),
        lookup("5", Ask::Raw("/api/v1/secrets".into())),
        lookup("6", Ask::Sign(SignLookup { key: "ca".into(), what: SignWhat::Token("{}".into()) })),
        lookup("7", get(&kit, "../x")),
    ];
    let answers = kit.executor.look_up(asks).await;
    let ids: Vec<_> = answers.iter().map(|answer| answer.id.as_str()).collect();
    assert_eq!(ids, ["1", "2", "3", "4", "5", "6", "7"]);
    let reason = |n: usize| answers[n].result.as_ref().unwrap_err().reason.as_str();
    assert!(answers[0].result.as_ref().unwrap().contains("/things/a"));
    assert_eq!(answers[1].result.as_ref().unwrap_err().status, 404);
    assert_eq!((reason(4), reason(5), reason(6)), ("Forbidden", "NotFound", "BadRequest"));
    assert!(answers[5].result.as_ref().unwrap_err().message.contains("\"ca\""));

    let asked = kit.asked.lock();
    assert_eq!(asked.len(), 4, "what is not declared is not sent");
    assert!(asked.iter().any(|asked| asked.accept.contains("PartialObjectMetadata")));
    let list = asked.iter().find(|asked| asked.path == "/apis/example.com/v1/things").unwrap();
    assert_eq!(list.query, "labelSelector=a%3Db&continue=next&limit=5");
}

#[tokio::test(start_paused = true)]
async fn only_what_is_not_sent_yet_is_shared() {
    let kit = Kit::with(|config| (config.qps, config.burst) = (1.0, 1), |_| ok(json!({})));
    // Uses the burst up, so that what follows waits.
    kit.executor.look_up(vec![lookup("0", get(&kit, "z"))]).await;
    let ask = || async {
        kit.executor.look_up(vec![lookup("x", get(&kit, "a")), lookup("y", get(&kit, "b"))]).await
    };
    let (first, second) = tokio::join!(ask(), ask());
    assert_eq!((first.len(), second.len()), (2, 2));
    assert_eq!(kit.lines().len(), 3, "two rounds shared two requests");
    ask().await;
    assert_eq!(kit.lines().len(), 5, "an answer from before is not used again");
}

#[tokio::test(start_paused = true)]
async fn what_is_under_way_is_not_shared() {
    let kit = Kit::new(|_| ok(json!({})));
    let first = kit.executor.look_up(vec![lookup("x", get(&kit, "a"))]);
    let second = async {
        // The first is with the server by now, which takes a millisecond.
        tokio::time::sleep(Duration::from_micros(500)).await;
        kit.executor.look_up(vec![lookup("x", get(&kit, "a"))]).await
    };
    tokio::join!(first, second);
    assert_eq!(kit.lines().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again() {
    let mut lost = 2;
    let kit = Kit::new(move |_| {
        lost -= 1;
        if lost >= 0 { Reply::Lost } else { ok(json!({})) }
    });
    assert!(kit.executor.look_up(vec![lookup("x", get(&kit, "a"))]).await[0].result.is_ok());
    let kit = Kit::new(|_| Reply::Lost);
    assert_eq!(
        kit.executor.look_up(vec![lookup("x", get(&kit, "a"))]).await[0].result.as_ref().unwrap_err().status,
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_get_of_a_uid_is_answered_from_memory_once_it_is_gone() {
    let kit = Kit::new(|asked| if asked.path.ends_with("/a") { ok(thing("a", "new", 5)) } else { gone("b") });
    let get = |name: &str, uid: &str| {
        Ask::Get(GetLookup {
            resource: kit.things,
            namespace: "ns".into(),
            name: name.into(),
            subresource: String::new(),
            metadata_only: true,
            uid: uid.into(),
        })
    };
    for _ in 0..2 {
        let asks = [("a", "old"), ("a", "new"), ("a", ""), ("b", "old")]
            .map(|(name, uid)| lookup(name, get(name, uid)));
        let statuses: Vec<u32> = kit
            .executor
            .look_up(asks.to_vec())
            .await
            .iter()
            .map(|answer| answer.result.as_ref().map_or_else(|f| f.status, |_| 200))
            .collect();
        assert_eq!(statuses, [404, 200, 200, 404]);
    }
    let sent: Vec<_> =
        kit.lines().iter().map(|line| line.rsplit('/').next().unwrap_or_default().to_owned()).collect();
    assert_eq!(sent, ["a", "b", "a"], "equal ones are shared, and only what lives is asked for again");
}

#[tokio::test(start_paused = true)]
async fn lookups_are_cut_by_the_operator_on_every_path() {
    let rule = |change: fn(&mut Rule)| {
        let mut rule = Rule::default();
        change(&mut rule);
        rule
    };
    let deny = vec![
        rule(|r| {
            r.resources = Some(vec!["things.example.com".into()]);
            r.namespaces = Some(vec!["closed".into()]);
        }),
        rule(|r| r.resources = Some(vec!["pods.metrics.example".into()])),
        rule(|r| r.paths = Some(vec!["/apis/metrics.example/v1".into()])),
        rule(|r| r.keys = Some(vec!["ca".into()])),
    ];
    let grants = Grants::with("thing-controller", vec![Entry { name: "*".into(), allow: None, deny }]);
    let kit = Kit::with(|config| config.grants = grants.clone(), |_| ok(json!({})));
    let things = |namespace: &str| {
        Ask::List(ListLookup {
            resource: kit.things,
            namespace: namespace.into(),
            labels: String::new(),
            fields: String::new(),
            limit: 0,
            continue_from: String::new(),
            metadata_only: false,
        })
    };
    let raw = |path: &str| Ask::Raw(path.into());
    let refused = [
        things("closed"),
        // Part of it is closed.
        things(""),
        raw("/apis/metrics.example/v1/namespaces/open/pods"),
        raw("/apis/metrics.example/v1/pods/a?x=y"),
        raw("/apis/metrics.example/v1?x=y"),
        Ask::Sign(SignLookup { key: "ca".into(), what: SignWhat::Token("{}".into()) }),
    ];
    let granted = [things("open"), get(&kit, "a"), raw("/apis/metrics.example/v1/nodes")];
    let count = refused.len();
    let asks = refused.into_iter().chain(granted).map(|ask| lookup("x", ask)).collect();
    let answers = kit.executor.look_up(asks).await;
    for (n, answer) in answers.iter().enumerate() {
        let refused = answer.result.as_ref().err().map(|failure| failure.message.as_str());
        assert_eq!(
            refused.is_some_and(|said| said.starts_with("the operator's policy does not grant")),
            n < count,
            "{n}: {refused:?}"
        );
    }
    assert_eq!(grants.counts().lookups, count as u64);
    assert_eq!(kit.lines().len(), 3);
}
