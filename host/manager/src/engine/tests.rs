//! Real modules, good and bad, in a real engine.
//!
//! They are the guests of `tests/guests`, built by
//! `cargo xtask guests --test-guests` (which `make test` does first).

use std::{
    any::Any,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use super::*;
use crate::contract::{Outcome, Plan, Request, StateChange, Timestamp, WireKey};

/// The bytes of a test guest.
fn guest(name: &str) -> Vec<u8> {
    // target/release/deps/THIS
    let exe = std::env::current_exe().unwrap();
    let target = exe.ancestors().nth(3).unwrap();
    let path = target.join("test-guests").join(format!("{name}.wasm"));
    std::fs::read(&path).unwrap_or_else(|e| {
        panic!(
            "{}: {e}\nthis test needs the test guests: run `cargo xtask guests --test-guests`",
            path.display()
        )
    })
}

fn engine(limits: Limits, cache_dir: Option<PathBuf>) -> Arc<Engine> {
    Engine::new(EngineConfig { cache_dir, compiler: Compiler::InProcess, limits }).unwrap()
}

fn load(engine: &Arc<Engine>, bytes: Vec<u8>) -> Result<Module, LoadError> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(engine.load(bytes))
}

/// A snapshot with two objects in one resource, which refuses all others.
struct Two;

const RESOURCE: u32 = 1;

impl SnapshotHost for Two {
    fn resources(&mut self) -> Vec<ResourceInfo> {
        Vec::new()
    }

    fn resources_version(&mut self) -> u32 {
        7
    }

    fn get(&mut self, resource: u32, _: &str, _: &str) -> Result<Option<ObjectRef>, String> {
        Err(format!("resource {resource} is not declared"))
    }

    fn list(&mut self, _: &Query) -> Result<Vec<ObjectRef>, String> {
        Ok((0..2).map(|id| ObjectRef { resource: RESOURCE, id, version: 1 }).collect())
    }

    fn read(&mut self, refs: &[ObjectRef]) -> Result<Vec<String>, String> {
        Ok(refs.iter().map(|r| format!(r#"{{"id":{}}}"#, r.id)).collect())
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }
}

#[derive(Default)]
struct Lines(Mutex<Vec<(Level, String)>>);

impl LogSink for Lines {
    fn log(&self, level: Level, message: &str) {
        self.0.lock().push((level, message.to_owned()));
    }
}

fn request(name: &str) -> Request {
    Request {
        key: WireKey { source: 0, resource: RESOURCE, namespace: "default".into(), name: name.into() },
        primary: None,
        resources: vec![RESOURCE, 2],
        now: Timestamp { seconds: 1_000_000, millis: 1 },
        seed: (1, 2),
        state: None,
        state_format: 0,
        results: Vec::new(),
        answers: Vec::new(),
        options: Vec::new(),
    }
}

const SMALL: Limits = Limits {
    memory: 16 << 20,
    deadline: Duration::from_millis(200),
    first_call: Duration::from_millis(300),
    plan_actions: 20_000,
    plan_bytes: 1 << 20,
    lookups: 1_000,
    log_lines: 20,
    state_bytes: 1 << 20,
};

struct Mischief {
    module: Module,
    instance: Instance,
    lines: Arc<Lines>,
}

impl Mischief {
    fn new() -> Self {
        let module = load(&engine(SMALL, None), guest("mischief-controller")).unwrap();
        let instance = module.instantiate().unwrap();
        Self { module, instance, lines: Arc::default() }
    }

    fn reconcile(&mut self, name: &str) -> Result<Outcome, Fault> {
        let (answer, snapshot) = self.instance.reconcile(&request(name), Box::new(Two), self.lines.clone());
        assert!(snapshot.into_any().is::<Two>(), "the snapshot comes back");
        if answer.is_err() {
            self.instance = self.module.instantiate().unwrap();
        }
        answer
    }

    fn nothing_to_do(&mut self) {
        let nothing = Plan {
            steps: vec![],
            events: vec![],
            not_before: None,
            quiet: 0,
            state: StateChange::Keep,
            metrics: vec![],
        };
        assert_eq!(self.reconcile("good"), Ok(Outcome::Plan(nothing)));
    }
}

#[test]
fn a_module_describes_itself_and_reconciles() {
    let mut mischief = Mischief::new();
    assert_eq!(mischief.module.manifest().name, "mischief-controller");
    assert_eq!(mischief.module.hash().len(), 64);
    mischief.nothing_to_do();
    assert_eq!(mischief.reconcile("every-read"), Ok(Outcome::Terminal("{\"id\":0}\n{\"id\":1}".into())));
    assert_eq!(mischief.reconcile("error"), Ok(Outcome::Retry("it went wrong".into())));
    assert!(mischief.instance.memory() > 0);
}

#[test]
fn an_endless_loop_meets_its_deadline() {
    let mut mischief = Mischief::new();
    let start = Instant::now();
    assert_eq!(
        mischief.reconcile("spin"),
        Err(Fault::Deadline(Duration::from_millis(500))),
        "the first call may take longer"
    );
    assert!(start.elapsed() >= Duration::from_millis(500));
    mischief.nothing_to_do();
    assert_eq!(mischief.reconcile("spin"), Err(Fault::Deadline(Duration::from_millis(200))));
    assert!(start.elapsed() < Duration::from_secs(30));
    // Rounds of one reconcile share its deadline.
    mischief.nothing_to_do();
    mischief.instance.has_spent(Duration::from_millis(150));
    let start = Instant::now();
    assert!(matches!(mischief.reconcile("spin"), Err(Fault::Deadline(_))));
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn memory_ends_at_the_limit() {
    let mut mischief = Mischief::new();
    assert_eq!(mischief.reconcile("grow"), Err(Fault::Memory { limit: 16 << 20 }));
    mischief.nothing_to_do();
}

#[test]
fn traps_cost_one_instance() {
    let mut mischief = Mischief::new();
    for conduct in ["panic", "recurse"] {
        let fault = mischief.reconcile(conduct).unwrap_err();
        assert!(matches!(fault, Fault::Trap(_)), "{conduct}: {fault:?}");
        mischief.nothing_to_do();
    }
    let said = mischief
        .lines
        .0
        .lock()
        .iter()
        .any(|(level, line)| *level == Level::Error && line.contains("as asked"));
    assert!(said, "the text of a panic is in the log");
    // Memory of a module lives as long as its instance.
    mischief.instance = mischief.module.instantiate().unwrap();
    let calls: Vec<_> = (0..7).map(|_| mischief.reconcile("every-third").is_ok()).collect();
    assert_eq!(calls, [true, true, false, true, true, false, true]);
}

#[test]
fn a_refused_read_ends_the_reconcile_even_unnoticed() {
    let mut mischief = Mischief::new();
    for conduct in ["undeclared-read", "swallowed-error"] {
        let expected = Fault::Snapshot(format!("resource {} is not declared", 1 << 30));
        assert_eq!(mischief.reconcile(conduct), Err(expected));
        mischief.nothing_to_do();
    }
}

#[test]
fn what_crosses_the_border_is_bounded() {
    let mut mischief = Mischief::new();
    // Below the memory limit it passes.
    assert!(matches!(mischief.reconcile("large-answer"), Ok(Outcome::Retry(text)) if text.len() == 8 << 20));
    mischief.reconcile("long-line").unwrap();
    let longest = mischief.lines.0.lock().iter().map(|(_, line)| line.len()).max();
    assert!(longest.is_some_and(|len| len < 20 << 10), "{longest:?}");
}

#[test]
fn a_flood_of_lines_is_dammed() {
    let mut mischief = Mischief::new();
    mischief.reconcile("flood").unwrap();
    let lines = mischief.lines.0.lock().len();
    assert!((100..200).contains(&lines), "{lines}");
}

#[test]
fn a_compiled_module_is_taken_from_the_cache() {
    let home = tempfile::tempdir().unwrap();
    let bytes = guest("gadget-controller");
    let first = load(&engine(SMALL, Some(home.path().into())), bytes.clone()).unwrap();
    let entries = || {
        std::fs::read_dir(home.path().join("modules")).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>()
    };
    assert_eq!(entries().len(), 1);
    // An engine that cannot compile must do with what is there.
    let cached_only = Engine::new(EngineConfig {
        cache_dir: Some(home.path().into()),
        compiler: Compiler::Child("/bin/false".into()),
        limits: SMALL,
    })
    .unwrap();
    let second = load(&cached_only, bytes.clone()).unwrap();
    assert_eq!(first.hash(), second.hash());
    assert_eq!(first.manifest(), second.manifest());
    assert!(second.instantiate().is_ok());
    std::fs::write(&entries()[0], b"damaged").unwrap();
    assert!(matches!(load(&cached_only, bytes.clone()), Err(LoadError::Compile(_))));
    assert!(load(&engine(SMALL, Some(home.path().into())), bytes).is_ok(), "it is compiled again");
}

#[test]
fn files_that_are_no_controllers_are_refused() {
    let engine = engine(SMALL, None);
    let refusal = |bytes: Vec<u8>| load(&engine, bytes).unwrap_err().to_string();
    assert!(refusal(b"hello".to_vec()).starts_with("not a WebAssembly file"));
    let mut cut = guest("gadget-controller");
    cut.truncate(cut.len() / 2);
    assert!(refusal(cut).starts_with("not a valid WebAssembly component"));
    // The right names, and nothing of the right type behind them.
    assert!(
        refusal(minimal_module(1)).starts_with("does not keep to the contract"),
        "{}",
        refusal(minimal_module(1))
    );
}

#[test]
fn a_module_that_cannot_describe_itself_is_refused_with_its_last_words() {
    let mut bytes = guest("gadget-variants");
    let (from, to) = (b"gadget-variant=panics    ", b"gadget-variant=undeclared");
    let places: Vec<_> = (0..bytes.len() - from.len()).filter(|at| bytes[*at..].starts_with(from)).collect();
    assert!(!places.is_empty());
    places.into_iter().for_each(|at| bytes[at..at + to.len()].copy_from_slice(to));
    let refusal = load(&engine(SMALL, None), bytes).unwrap_err();
    let said = "this version cannot say what it is";
    assert!(
        refusal.to_string().contains("its last words: ") && refusal.to_string().contains(said),
        "{refusal}"
    );
    assert!(!refusal.to_string().contains('\n'), "one line: {refusal}");
    let LoadError::Describe { fault: Fault::Trap(_), lines } = &refusal else { panic!("{refusal:?}") };
    assert!(lines.iter().any(|line| line.contains(said)), "{lines:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn all_of_a_modules_code_is_let_go_of_and_comes_back() {
    let cache = tempfile::tempdir().unwrap();
    let module = load(&engine(SMALL, Some(cache.path().into())), guest("gadget-controller")).unwrap();
    // Resident KiB of what is mapped from the cache and never written to; the images of memories are written to.
    let resident = || -> u64 {
        let smaps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let of_cache = smaps.split("VmFlags").filter(|one| one.contains(cache.path().to_str().unwrap()));
        let unwritten = of_cache.filter(|one| !one.contains(" rw-p "));
        let sizes = unwritten.map(|one| {
            let size = one.split_once("\nRss:").unwrap().1.split(" kB").next().unwrap();
            size.trim().parse::<u64>().unwrap()
        });
        sizes.sum()
    };
    assert!(resident() > 0, "it was mapped, and described itself");
    crate::residence::release(std::slice::from_ref(&module));
    assert_eq!(resident(), 0);
    module.instantiate().unwrap();
    assert!(resident() > 0);
}

#[test]
fn a_module_too_large_for_its_limit_is_not_loaded() {
    let limits = Limits { memory: 64 << 10, ..SMALL };
    let refusal = load(&engine(limits, None), guest("gadget-controller")).unwrap_err();
    assert!(
        matches!(refusal, LoadError::Describe { fault: Fault::Memory { limit }, .. } if limit == 64 << 10),
        "{refusal}"
    );
}
