//! The scenarios of all controllers once more, through their components: what a
//! component plans is to the byte what the same code plans natively.

use std::path::Path;

use coxswain::{
    engine::{Engine, EngineConfig},
    scenario::ModuleReconciler,
};
use coxswain_sdk::testing;

#[tokio::test(flavor = "multi_thread")]
async fn components_plan_what_their_scenarios_say() {
    let guests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../guests");
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let mut failures = Vec::new();
    let (mut controllers, mut scenarios) = (0, 0);
    let mut entries: Vec<_> = std::fs::read_dir(&guests).unwrap().map(|e| e.unwrap()).collect();
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().into_string().unwrap();
        let directory = entry.path().join("scenarios");
        if !name.ends_with("-controller") || !directory.is_dir() {
            continue;
        }
        let module = engine.load(coxswain_tests::module(&name).unwrap()).await.unwrap();
        controllers += 1;
        for file in testing::files(&directory).unwrap() {
            let mut reconciler = ModuleReconciler::new(module.clone()).unwrap();
            scenarios += 1;
            if let Err(why) = testing::check_file(&file, &mut reconciler) {
                failures.push(format!("{why}\n{}", reconciler.take_log().join("\n")));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {scenarios} fail\n\n{}", failures.len(), failures.join("\n\n"));
    // As many as there are guests: none was passed over.
    assert!(controllers >= 41 && scenarios > 500, "{controllers} controllers, {scenarios} scenarios");
}
