//! The process itself.

use prometheus::process_collector::ProcessCollector;

use super::family::Registered;

/// Families of the collector: CPU, descriptors and their limit, resident and
/// virtual memory, start time, threads.
const FAMILIES: u64 = 7;

pub(super) fn register(of: &mut Registered<'_>) {
    of.collector(Box::new(ProcessCollector::for_self()), FAMILIES);
    let build = of.gauge(
        "kubernetes_build_info",
        &[
            "major", "minor", "git_version", "git_commit", "git_tree_state", "build_date", "go_version", "compiler",
            "platform",
        ],
        "[BETA] A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, build date, Go version, and compiler from which Kubernetes was built, and platform on which it is running.",
    );
    let version = crate::version::version();
    build
        .with_label_values(&[
            version.major.as_str(),
            &version.minor,
            &version.git_version,
            &version.git_commit,
            &version.git_tree_state,
            &version.build_date,
            &version.go_version,
            &version.compiler,
            &version.platform,
        ])
        .set(1);
}
