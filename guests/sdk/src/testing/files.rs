//! Scenario files, and the golden files beside them.

use std::path::{Path, PathBuf};

use super::runner::{Native, Reconciler, play};
use super::scenario::Scenario;
use crate::controller::Controller;

const HOW_TO_BLESS: &str = "BLESS=1 (or `coxswain test --bless`) records it";

/// Plays a scenario file and compares with its golden file beside it.
pub fn check_file(path: &Path, reconciler: &mut dyn Reconciler) -> Result<(), String> {
    let told = tell(path, reconciler)?;
    let golden = path.with_extension("plan.yaml");
    let wanted =
        std::fs::read_to_string(&golden).map_err(|e| format!("{}: {e}; {HOW_TO_BLESS}", golden.display()))?;
    if wanted == told {
        return Ok(());
    }
    Err(format!(
        "{}: differs from {}; {HOW_TO_BLESS}\n{}",
        path.display(),
        golden.display(),
        difference(&wanted, &told)
    ))
}

/// Plays a scenario file and writes its golden file.
pub fn bless_file(path: &Path, reconciler: &mut dyn Reconciler) -> Result<(), String> {
    let golden = path.with_extension("plan.yaml");
    let told = tell(path, reconciler)?;
    std::fs::write(&golden, told).map_err(|e| format!("{}: {e}", golden.display()))
}

fn tell(path: &Path, reconciler: &mut dyn Reconciler) -> Result<String, String> {
    let told = Scenario::load(path).and_then(|scenario| play(&scenario, reconciler));
    told.map_err(|e| format!("{}: {e}", path.display()))
}

/// The lines around the first difference.
fn difference(wanted: &str, told: &str) -> String {
    let (wanted, told): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), told.lines().collect());
    let at = wanted.iter().zip(&told).take_while(|(a, b)| a == b).count();
    let from = at.saturating_sub(5);
    let side = |lines: &[&str], mark: &str| {
        let end = lines.len().min(at + 12);
        lines
            .get(at..end)
            .unwrap_or_default()
            .iter()
            .map(|line| format!("{mark} {line}\n"))
            .collect::<String>()
    };
    let before: String = wanted[from..at].iter().map(|line| format!("  {line}\n")).collect();
    format!("line {}:\n{before}{}{}", at + 1, side(&wanted, "-"), side(&told, "+"))
}

/// All scenario files of a directory, sorted.
pub fn files(directory: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(directory).map_err(|e| format!("{}: {e}", directory.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| format!("{}: {e}", directory.display()))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.ends_with(".yaml") && !name.ends_with(".plan.yaml") {
            files.push(path);
        }
    }
    files.sort();
    if files.is_empty() { Err(format!("{}: no scenarios", directory.display())) } else { Ok(files) }
}

/// Checks all scenarios of a directory against a controller in this process.
/// For a test of the controller's crate; panics with what differs. With `BLESS=1`
/// in the environment, the golden files are written instead.
pub fn scenarios<C: Controller>(directory: impl AsRef<Path>) {
    let files = files(directory.as_ref()).unwrap_or_else(|e| panic!("{e}"));
    let bless = std::env::var_os("BLESS").is_some_and(|bless| bless == "1");
    let judge = if bless { bless_file } else { check_file };
    let failures: Vec<String> =
        files.iter().filter_map(|file| judge(file, &mut Native::<C>::new()).err()).collect();
    assert!(
        failures.is_empty(),
        "{} of {} scenarios fail\n\n{}",
        failures.len(),
        files.len(),
        failures.join("\n\n")
    );
}
