//! Writing and reading, without a cluster.

use std::{ops::ControlFlow, path::Path, sync::Arc};

use super::{
    message::{Asked, Message, Round, Seen, Taken},
    text::{Reads, RoundText, put_reconcile},
    *,
};
use crate::{
    clock::SystemClock,
    contract::{
        ActionOutcome, ActionResult, Answer, ClientLimits, IndexMatch, Manifest, ObjectRef, OptionKind,
        OptionSpec, Outcome, Plan, Query, ResourceSet, StateChange, Timestamp,
    },
    key::Key,
};

fn manifest() -> Manifest {
    Manifest {
        name: "thing-controller".into(),
        aliases: vec![],
        version: "1".into(),
        state_format: 1,
        accepts_state_formats: vec![],
        sources: vec![],
        reads: vec![],
        writes: vec![],
        lookups: vec![],
        options: vec![],
        event_component: String::new(),
        concurrency: 0,
        concurrency_flag: String::new(),
        client_limits: ClientLimits { qps: 0, burst: 0 },
        metrics: Vec::new(),
    }
}

fn start(dir: &Path, max_bytes: u64) -> RecordingWriter {
    let config = RecordConfig { dir: dir.to_owned(), max_bytes, sensitive: false };
    let writer = RecordingWriter::start(config, Registry::new(), Arc::new(SystemClock)).unwrap();
    writer.shared.send(Message::Module {
        module: 1,
        hash: "abc".into(),
        manifest: Arc::new(manifest()),
        options: vec!["o".into()],
    });
    writer
}

fn object(id: u32, version: u32) -> ObjectRef {
    ObjectRef { resource: 1, id, version }
}

fn query() -> Query {
    Query {
        resources: ResourceSet::One(1),
        namespace: Some("n".into()),
        index: Some(IndexMatch { index: "controller".into(), value: vec!["u".into()] }),
        labels: None,
    }
}

fn asked(results: Vec<ActionResult>) -> Asked {
    Asked {
        now: Timestamp { seconds: 7, millis: 8 },
        seed: (1, 2),
        state: Some("s".into()),
        state_format: 1,
        results,
    }
}

/// A reconcile of key `n/NAME` that listed these.
fn reconcile(writer: &RecordingWriter, name: &str, listed: Vec<ObjectRef>, padding: usize) {
    let file = writer.shared.file.load(Ordering::Acquire);
    let objects = listed.iter().map(|object| Seen {
        object: *object,
        json: format!(r#"{{"metadata":{{"name":"o{}-{}"}}}}"#, object.id, object.version),
    });
    writer.shared.send(Message::Objects { file, module: 1, objects: objects.collect() });
    let plan = Plan {
        steps: vec![],
        events: vec![],
        not_before: None,
        quiet: 0,
        state: StateChange::Set("x".repeat(padding)),
        metrics: Vec::new(),
    };
    let mut reads = Reads::with_room();
    reads.get(1, "n", "first", &Ok(None));
    let primary = listed.first().copied();
    reads.list(&query(), &Ok(listed));
    reads.get(1, "n", "gone", &Ok(None));
    reads.get(2, "", "far", &Err("has not synced yet".into()));
    writer.shared.send(Message::Reconcile(Box::new(Taken {
        file,
        module: 1,
        key: Key { source: 0, resource: 1, namespace: "n".into(), name: name.into() },
        asked: asked(vec![]),
        rounds: vec![Round {
            primary,
            numbers: [1, 0].into(),
            resources: 3,
            answers: vec![],
            reads,
            ended: Some(format::Ended::Outcome(Outcome::Plan(plan))),
        }],
    })));
}

fn read(path: &Path) -> (Vec<Recorded>, read::Facts) {
    let mut all = Vec::new();
    let facts = Recording::open(path)
        .unwrap()
        .each(
            |_| true,
            |recorded| {
                all.push(recorded);
                ControlFlow::Continue(())
            },
        )
        .unwrap();
    (all, facts)
}

fn listed(recorded: &Recorded) -> Vec<ObjectRef> {
    recorded.rounds[0].reads.lists[0].1.as_ref().unwrap().to_vec()
}

#[test]
fn lists_that_grow_shrink_and_change_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let writer = start(dir.path(), 64 << 20);
    let many: Vec<ObjectRef> = (1..40).map(|id| object(id, 1)).collect();
    let mut lists = vec![many.clone(), many.clone()];
    let mut grown = many.clone();
    grown.insert(17, object(99, 1));
    let mut changed = grown.clone();
    changed[3].version = 2;
    changed[30].version = 9;
    lists.extend([
        grown,
        changed,
        many[..10].to_vec(),
        many[5..35].to_vec(),
        many[..2].to_vec(),
        vec![],
        many,
    ]);
    for (n, list) in lists.iter().enumerate() {
        reconcile(&writer, &n.to_string(), list.clone(), 0);
    }
    writer.finish();
    let (all, facts) = read(dir.path());
    assert!(facts.cut.is_empty());
    assert_eq!(facts.controllers["thing-controller"], lists.len() as u64);
    assert_eq!(all.iter().map(listed).collect::<Vec<_>>(), lists);
    for recorded in &all {
        assert_eq!(recorded.rounds[0].numbers, [1, 0]);
        for object in listed(recorded) {
            let content = &recorded.contents[&(1, object.id, object.version)];
            assert!(content.json.contains(&format!("o{}-{}\"", object.id, object.version)));
        }
    }
    let gets = &all[0].rounds[0].reads.gets;
    assert_eq!(gets[&(1, "n".into(), "gone".into())], Ok(None));
    assert_eq!(gets[&(2, String::new(), "far".into())], Err("has not synced yet".into()));
}

#[test]
fn lines_put_together_by_hand_are_those_that_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let writer = start(dir.path(), 64 << 20);
    for n in [0, 3, 20, 20, 21] {
        reconcile(&writer, "a \"quoted\" name", (0..n).map(|id| object(id, 1)).collect(), 3);
    }
    writer.finish();
    let mut text = String::new();
    let file = std::fs::File::open(files::list(dir.path()).unwrap().remove(0)).unwrap();
    let mut decoder = zstd::stream::read::Decoder::new(file).unwrap();
    std::io::Read::read_to_string(&mut decoder, &mut text).unwrap();
    let lines: Vec<_> = text.lines().filter(|line| line.starts_with("{\"reconcile\"")).collect();
    assert_eq!(lines.len(), 5);
    for line in lines {
        let read: format::Line = serde_json::from_str(line).unwrap();
        assert_eq!(serde_json::to_string(&read).unwrap(), line);
    }
}

#[test]
fn every_member_of_a_line_is_written() {
    let long = || Ok((0..9).map(|id| object(id, 1)).collect());
    let mut reads = Reads::with_room();
    reads.list(&query(), &long());
    reads.get(1, "n", "a", &Ok(Some(object(1, 1))));
    reads.list(&query(), &long());
    reads.list(&query(), &long());
    reads.list(&query(), &Err("no \"such\" index".into()));
    reads.refused("why");
    reads.list(&query(), &long());
    let mut last = 0;
    let numbered = |long: message::Long| {
        assert_eq!(long.found.len(), 9);
        last += 1;
        Ok((long.query, last))
    };
    let reads = reads.numbered(numbered).unwrap();
    let round = |ended| Round {
        primary: Some(object(4, 5)),
        numbers: [1, 0].into(),
        resources: 3,
        answers: vec![Answer { id: "ask".into(), result: Ok("{}".into()) }],
        reads: Reads::default(),
        ended,
    };
    let told = |ended, reads| RoundText {
        round: round(ended),
        redacted: vec!["ask".into()],
        reads,
        same_numbers: false,
    };
    let rounds = [told(Some(format::Ended::Deadline), reads), told(None, Vec::new())];
    let begun = asked(vec![ActionResult { tag: "t".into(), result: ActionOutcome::Skipped }]);
    let key = Key { source: 1, resource: 2, namespace: "n".into(), name: "x".into() };
    let mut text = Vec::new();
    put_reconcile(&mut text, 9, &key, &begun, &rounds).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line: format::Line = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&line).unwrap(), text);
    let format::Line::Reconcile(line) = line else { panic!("{text}") };
    assert_eq!((line.module, line.key.name.as_str(), line.results.len()), (9, "x", 1));
    assert_eq!((line.rounds.len(), line.rounds[0].reads.len(), line.rounds[1].reads.len()), (2, 7, 0));
    assert!(matches!(&line.rounds[0].reads[3], format::ReadLine::List(_, 3)), "{text}");
}

#[test]
fn each_file_stands_alone_and_the_oldest_make_room() {
    let dir = tempfile::tempdir().unwrap();
    let most = 1 << 20;
    let writer = start(dir.path(), most);
    let mut noise = 1u64;
    for n in 0..2000 {
        // Nothing that compresses well.
        let list = (0..40)
            .map(|id| {
                noise = noise.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                object(id, (noise >> 33) as u32)
            })
            .collect();
        reconcile(&writer, &n.to_string(), list, 10);
        // So that rotation is not outrun.
        while writer.shared.pending.load(Ordering::Acquire) > 1 << 16 {
            std::thread::yield_now();
        }
    }
    let status = writer.status();
    writer.finish();
    let files = files::list(dir.path()).unwrap();
    let bytes: u64 = files.iter().map(|path| std::fs::metadata(path).unwrap().len()).sum();
    assert!(files.len() > 2, "{files:?}");
    assert!(bytes < most * 5 / 4, "{bytes} bytes in {} files", files.len());
    assert_eq!((status.dropped, status.trouble), (0, None));
    for file in &files {
        let (all, facts) = read(file);
        assert!(facts.cut.is_empty(), "{file:?}");
        for recorded in &all {
            assert_eq!(recorded.contents.len(), 40, "{file:?} {:?}", recorded.key);
        }
    }
    let (all, _) = read(dir.path());
    assert_eq!(all.last().unwrap().key.name, "1999");
    assert!(
        all.windows(2)
            .all(|two| two[0].key.name.parse::<u32>().unwrap() + 1 == two[1].key.name.parse::<u32>().unwrap())
    );
}

#[test]
fn a_cut_anywhere_costs_what_stood_behind_it() {
    let dir = tempfile::tempdir().unwrap();
    let writer = start(dir.path(), 64 << 20);
    for n in 0..20 {
        reconcile(&writer, &n.to_string(), vec![object(n, 1)], 100);
        while writer.shared.pending.load(Ordering::Acquire) > 0 {
            std::thread::yield_now();
        }
    }
    writer.finish();
    let file = files::list(dir.path()).unwrap().remove(0);
    let bytes = std::fs::read(&file).unwrap();
    let (mut last, cut) = (0, dir.path().join("cut.jsonl.zst"));
    for end in 0..bytes.len() {
        std::fs::write(&cut, &bytes[..end]).unwrap();
        let mut count = 0;
        let facts = Recording::open(&cut).unwrap().each(
            |_| true,
            |recorded| {
                assert_eq!(recorded.key.name, count.to_string());
                assert_eq!(recorded.contents.len(), 1);
                count += 1;
                ControlFlow::Continue(())
            },
        );
        match facts {
            Err(error) => assert_eq!((count, last), (0, 0), "{error}"),
            Ok(facts) => assert!(facts.cut.len() == 1 || count == 20, "{end}: {facts:?}"),
        }
        assert!(count >= last, "more bytes, more reconciles");
        last = count;
    }
    assert_eq!(last, 20, "the end of the stream holds no reconcile");
}

#[test]
fn decimals_are_replayed_as_modules_are_given_them_now() {
    let option = |name: &str, default: &str| OptionSpec {
        name: name.into(),
        kind: OptionKind::Decimal,
        default: default.into(),
        help: String::new(),
    };
    let dir = tempfile::tempdir().unwrap();
    let writer = start(dir.path(), 64 << 20);
    let options = vec![option("share", "0.1")];
    writer.shared.send(Message::Module {
        module: 1,
        hash: "abc".into(),
        manifest: Arc::new(Manifest { options, ..manifest() }),
        options: vec!["+.5".into()],
    });
    reconcile(&writer, "x", vec![], 0);
    writer.finish();
    let later = Manifest { options: vec![option("new", "2"), option("share", "0.1")], ..manifest() };
    assert_eq!(replay::options(&later, &read(dir.path()).0[0]), ["2", "0.5"]);
}

#[test]
fn damage_is_no_cut() {
    let dir = tempfile::tempdir().unwrap();
    let writer = start(dir.path(), 64 << 20);
    for n in 0..200 {
        reconcile(&writer, &n.to_string(), vec![object(n, 1)], 100);
    }
    writer.finish();
    let file = files::list(dir.path()).unwrap().remove(0);
    let whole = std::fs::read(&file).unwrap();
    // Past the header, which a file is not read without.
    for at in (whole.len() / 2..whole.len() - 1).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        std::fs::write(&file, &bytes).unwrap();
        let facts = Recording::open(&file).unwrap().each(|_| true, |_| ControlFlow::Continue(())).unwrap();
        assert_eq!(facts.damaged.len() + facts.cut.len(), 1, "{at}");
        // Only what says how much is to come can look like a cut.
        assert!(facts.damaged.len() == 1 || at > whole.len() - 16, "{at} of {}", whole.len());
    }
}

#[test]
fn what_is_no_recording_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let said = |path: &Path| match Recording::open(path) {
        Ok(recording) => recording.each(|_| true, |_| ControlFlow::Continue(())).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(said(dir.path()).contains("record with `--record DIR`"));
    assert!(said(&dir.path().join("nowhere")).starts_with("cannot read"));
    let text = dir.path().join("x.txt");
    std::fs::write(&text, "hello").unwrap();
    assert!(said(&text).contains("is not a recording"));
    let newer = dir.path().join("newer.zst");
    let line = b"{\"header\":{\"format\":2,\"of\":\"the future\"}}\n";
    std::fs::write(&newer, zstd::encode_all(line.as_slice(), 1).unwrap()).unwrap();
    assert!(said(&newer).contains("is a recording of format 2; this host reads up to 1"), "{}", said(&newer));
}

#[test]
fn what_waits_is_bounded_and_what_is_dropped_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let writer = start(dir.path(), 64 << 20);
    assert!(writer.shared.has_room());
    writer.shared.pending.fetch_add(PENDING, Ordering::AcqRel);
    assert!(!writer.shared.has_room());
    writer.shared.counters.dropped.fetch_add(3, Ordering::Relaxed);
    reconcile(&writer, "x", vec![], 0);
    writer.finish();
    assert_eq!(read(dir.path()).1.dropped, 3);
}
