//! The clock is set while the manager runs.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use coxswain::clock::{Clock, SystemClock};
use coxswain_localcluster::Target;
use coxswain_tests::{Bed, LIMIT, module};
use serde_json::json;

/// The machine's clock, some seconds off.
#[derive(Default)]
struct Set(AtomicI64);

impl Clock for Set {
    fn now(&self) -> jiff::Timestamp {
        SystemClock.now() + jiff::SignedDuration::from_secs(self.0.load(Ordering::SeqCst))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_put_off_to_a_time_comes_when_the_clock_is_set_past_it() -> anyhow::Result<()> {
    let clock = Arc::new(Set::default());
    let given = clock.clone();
    let modules = vec![("ttl-after-finished-controller", module("ttl-after-finished-controller")?)];
    let bed = Bed::start_with(modules, |config| config.clock = given).await?;
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "default", "name": "done"},
        "spec": {"ttlSecondsAfterFinished": 3600,
            "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    let mut job = bed.create("jobs", &job)?;
    let now = SystemClock.now().to_string();
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": now, "lastTransitionTime": now});
    job["status"] = json!({"startTime": now, "completionTime": now, "succeeded": 1, "uncountedTerminatedPods": {},
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]});
    let target = Target::new("batch/v1", "jobs").in_namespace("default").named("done");
    bed.api().update(&target.sub("status"), &job).map_err(|s| anyhow::anyhow!("{}", s.message))?;
    bed.until("its end is put off", LIMIT, async |bed| {
        let running = bed.manager.controller("ttl-after-finished-controller");
        Ok(running.is_some_and(|one| one.status().delayed == 1))
    })
    .await?;
    // Back first: nothing comes of that but a look.
    for (seconds, jumps) in [(-7200, 1), (7200, 2)] {
        clock.0.store(seconds, Ordering::SeqCst);
        let line = format!("coxswain_clock_jumps_total {jumps}\n");
        bed.until(&line, LIMIT, async |bed| Ok(bed.manager.metrics_text().contains(&line))).await?;
        if seconds < 0 {
            let job = bed.get("batch/v1", "jobs", "default", "done").unwrap_or_default();
            assert!(
                job["metadata"]["name"] == "done" && job["metadata"]["deletionTimestamp"].is_null(),
                "{job}"
            );
        }
    }
    // Its dependents go first, and nobody is here to see to them.
    bed.until("it is deleted", LIMIT, async |bed| {
        let job = bed.get("batch/v1", "jobs", "default", "done");
        Ok(job.is_none_or(|job| job["metadata"]["deletionTimestamp"].is_string()))
    })
    .await?;
    // An hour after it was due, which is what its controller measures.
    let measured = "ttl_after_finished_controller_job_deletion_duration_seconds_sum 3";
    bed.until(measured, LIMIT, async |bed| Ok(bed.manager.metrics_text().contains(measured))).await?;
    bed.stop().await;
    Ok(())
}
