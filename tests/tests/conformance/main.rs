//! The conformance tests: parity with kube-controller-manager, and of the embedded API server with kube-apiserver.

mod embedded;

use std::{path::Path, process::ExitCode, sync::Arc};

use coxswain_tests::{built_controllers, conformance};

fn main() -> ExitCode {
    let data = Path::new(env!("CARGO_MANIFEST_DIR"));
    conformance::main(data, || Ok(Arc::new(embedded::Embedded::new(built_controllers())?)))
}
