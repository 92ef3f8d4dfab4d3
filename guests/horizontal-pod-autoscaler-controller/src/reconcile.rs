//! One look at one autoscaler.

use std::cmp::Ordering;
use std::time::Duration;

use coxswain_sdk::contract::Level;
use coxswain_sdk::{About, Action, Ctx, Object, Plan, Query, Result, Time};
use serde_json::json;

use crate::AUTOSCALERS;
use crate::calc::Readiness;
use crate::measures::{self, Trouble};
use crate::memory::{Memory, length, millis};
use crate::metrics::{self, Judge};
use crate::rules::{self, Behavior, Bounds, Tolerances};
use crate::status::{ABLE, ACTIVE, LIMITED, SCALED_TO_ZERO, set, unset};
use crate::target::{self, Scale};
use crate::view::{Autoscaler, Pod, Status};

const SCALE: &str = "scale";

/// A look that is under way.
struct Look<'a> {
    autoscaler: &'a Object<Autoscaler>,
    about: About,
    now: Time,
    status: Status,
    memory: Memory,
    plan: Plan,
    behavior: Option<Behavior>,
    before: Before<'a>,
    trouble: Trouble,
    /// The size before and after, if it is written.
    scaled: Option<(i32, i32)>,
}

/// What became of the size that the look before found. After a failure there is
/// another look at once, which does not tell again of what the first one told.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Before<'a> {
    /// It was set, or needed no setting.
    Set,
    /// Another writer was quicker: it is set anew.
    Conflict,
    /// It was refused, for this reason: told in a status that is whole.
    Refused(&'a str),
}

impl<'a> Before<'a> {
    /// After that many conflicts in a row one counts as a refusal, as with
    /// client-go's `retry.DefaultRetry`.
    const CONFLICTS: u32 = 5;

    fn read(ctx: &Ctx<'a>, memory: &mut Memory) -> Self {
        let Some(failure) = ctx.failures(SCALE).next() else {
            memory.conflicts = 0;
            return Self::Set;
        };
        memory.not_scaled();
        if failure.status == 409 {
            memory.conflicts = memory.conflicts.saturating_add(1);
            if memory.conflicts < Self::CONFLICTS {
                return Self::Conflict;
            }
        }
        memory.conflicts = 0;
        Self::Refused(&failure.message)
    }
}

/// Looks at an autoscaler, if it is time to.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let Some(autoscaler) = ctx.primary::<Autoscaler>()? else {
        let mut plan = Plan::new();
        plan.clear();
        return Ok(plan);
    };
    let period = ctx.option_duration("horizontal-pod-autoscaler-sync-period")?;
    let period = period.max(Duration::from_millis(1));
    let mut memory = Memory::read(ctx.state());
    let now = ctx.now();
    let before = Before::read(ctx, &mut memory);
    let looked = if before != Before::Set {
        memory.last
    } else {
        let last = memory.last.max(autoscaler.metadata.creation_timestamp.map_or(0, millis));
        if millis(now) < last.saturating_add(length(period)) {
            let mut plan = Plan::new();
            plan.come_back(after(last, period));
            measures::census(&mut plan, &autoscaler, &autoscaler.status);
            return Ok(plan);
        }
        millis(now)
    };
    let mut look = Look {
        about: About::of::<Autoscaler, _>(&autoscaler.metadata),
        now,
        status: autoscaler.status.clone(),
        memory,
        plan: Plan::new(),
        behavior: autoscaler.spec.behavior.as_ref().map(Behavior::read),
        before,
        trouble: Trouble::None,
        scaled: None,
        autoscaler: &autoscaler,
    };
    look.look(ctx)?;
    Ok(look.end(looked, period))
}

fn new_size(wanted: i32, reason: &str) -> String {
    format!("New size: {wanted}; reason: {reason}")
}

fn after(last: i64, period: Duration) -> Time {
    let last = Duration::from_millis(u64::try_from(last).unwrap_or(0));
    Time::from_unix(0) + last + period
}

impl Look<'_> {
    fn end(mut self, last: i64, period: Duration) -> Plan {
        self.memory.last = last;
        self.plan.keep(self.memory.write());
        self.plan.come_back(after(last, period));
        measures::looked(&mut self.plan, self.scaled.map(|(from, to)| (SCALE, from, to)), self.trouble);
        measures::census(&mut self.plan, self.autoscaler, &self.status);
        self.plan
    }

    fn set(&mut self, kind: &str, holds: bool, reason: &str, message: impl Into<String>) {
        set(&mut self.status, &self.autoscaler.status, kind, holds, reason, message, self.now);
    }

    /// Tells of a fault, unless the look before told of it.
    fn warn(&mut self, reason: &str, message: impl Into<String>) {
        if self.before == Before::Set {
            self.plan.event(self.about.warning(reason, message));
        }
    }

    /// Writes the status as it has become.
    fn write_status(&mut self) -> Result<()> {
        let meta = &self.autoscaler.metadata;
        let write =
            Action::status(AUTOSCALERS, &meta.namespace, &meta.name, &self.autoscaler.status, &self.status)?;
        let failed = self.about.warning("FailedUpdateStatus", "{message}");
        self.plan.then(write.map(|write| write.uid(&meta.uid).on_failure(failed)));
        Ok(())
    }

    fn look(&mut self, ctx: &Ctx<'_>) -> Result<()> {
        let autoscaler = self.autoscaler;
        let meta = &autoscaler.metadata;
        let (resource, scale) = match target::scale(ctx, &meta.namespace, &autoscaler.spec.scale_target_ref)?
        {
            Ok(found) => found,
            Err(why) => {
                let is_bad = target::is_version(&autoscaler.spec.scale_target_ref).is_err();
                self.trouble = if is_bad { Trouble::Spec } else { Trouble::Internal };
                let message =
                    format!("the HPA controller was unable to get the target's current scale: {why}");
                self.warn("FailedGetScale", why);
                self.set(ABLE, false, "FailedGetScale", message);
                return self.write_status();
            }
        };
        self.set(
            ABLE,
            true,
            "SucceededGetScale",
            "the HPA controller was able to get the target's current scale",
        );
        let (current, now) = (scale.spec.replicas, millis(self.now));
        if self.memory.recommended.is_empty() {
            self.memory.recommend(current, now);
        }
        let (min, max) = (autoscaler.spec.min_replicas.unwrap_or(1), autoscaler.spec.max_replicas);
        let (wanted, reason) = if current == 0 {
            self.set(
                ACTIVE,
                false,
                measures::DISABLED,
                "scaling is disabled since the replica count of the target is zero",
            );
            unset(&mut self.status, SCALED_TO_ZERO);
            self.status.current_metrics = None;
            (0, String::new())
        } else if current > max {
            self.status.current_metrics = None;
            (max, "Current number of replicas above Spec.MaxReplicas".to_owned())
        } else if current < min {
            self.status.current_metrics = None;
            (min, "Current number of replicas below Spec.MinReplicas".to_owned())
        } else {
            match self.by_metrics(ctx, &scale, min)? {
                Some(found) => found,
                None => {
                    self.trouble = self.trouble.or_internal();
                    self.status.current_replicas = current;
                    return self.write_status();
                }
            }
        };
        self.status.current_replicas = current;
        match self.before {
            Before::Refused(why) if wanted != current => {
                self.trouble = Trouble::Internal;
                let told = format!("{}; error: {why}", new_size(wanted, &reason));
                self.plan.event(self.about.warning("FailedRescale", told));
                let message = format!("the HPA controller was unable to update the target scale: {why}");
                self.set(ABLE, false, "FailedUpdateScale", message);
            }
            _ => {
                self.status.desired_replicas = wanted;
                if wanted != current {
                    self.scale(resource, current, wanted, &reason);
                }
            }
        }
        self.write_status()
    }

    /// The size that metrics call for, and why; none if they say nothing.
    fn by_metrics(&mut self, ctx: &Ctx<'_>, scale: &Scale, min: i32) -> Result<Option<(i32, String)>> {
        let autoscaler = self.autoscaler;
        let current = scale.spec.replicas;
        let pods = match self.pods(ctx, &scale.status.selector)? {
            Ok(pods) => pods,
            Err(why) => {
                self.status.current_metrics = None;
                self.warn("FailedComputeMetricsReplicas", why);
                return Ok(None);
            }
        };
        let judge = Judge {
            namespace: &autoscaler.metadata.namespace,
            scale,
            pods: &pods,
            readiness: Readiness {
                now: self.now,
                cpu_initialization: ctx
                    .option_duration("horizontal-pod-autoscaler-cpu-initialization-period")?,
                initial_delay: ctx.option_duration("horizontal-pod-autoscaler-initial-readiness-delay")?,
            },
            tolerances: Tolerances::of(
                self.behavior.as_ref(),
                ctx.option_decimal("horizontal-pod-autoscaler-tolerance")?,
            ),
        };
        let verdict = metrics::judge(ctx, &autoscaler.spec.metrics, &judge)?;
        for metric in &verdict.computed {
            measures::computed(&mut self.plan, metric, autoscaler.status.current_replicas);
        }
        if let Some(trouble) = verdict.computed.iter().find_map(|metric| metric.size.err()) {
            self.trouble = trouble;
        }
        for fault in &verdict.faults {
            self.warn(fault.reason, fault.message.clone());
        }
        self.status.current_metrics = Some(verdict.statuses);
        let Some((wanted, metric)) = verdict.wanted else {
            if let Some(fault) = verdict.faults.first() {
                let message = format!("the HPA was unable to compute the replica count: {}", fault.message);
                self.set(ACTIVE, false, fault.reason, message);
            }
            let why = verdict.failure.unwrap_or_else(|| "no metrics are specified".to_owned());
            self.warn("FailedComputeMetricsReplicas", why);
            return Ok(None);
        };
        if let Some(failure) = verdict.failure {
            ctx.log(Level::Warn, &failure);
        }
        let wanted = wanted.max(0);
        let message = format!("the HPA was able to successfully calculate a replica count from {metric}");
        self.set(ACTIVE, true, "ValidMetricFound", message);
        // A size that is right by the metrics may still change, by what was
        // recommended before. There is no reason to give then.
        let reason = match wanted.cmp(&current) {
            Ordering::Greater => format!("{metric} above target"),
            Ordering::Less => "All metrics below target".to_owned(),
            Ordering::Equal => String::new(),
        };
        let bounds = Bounds {
            current,
            min,
            max: autoscaler.spec.max_replicas,
            now: millis(self.now),
            downscale: ctx.option_duration("horizontal-pod-autoscaler-downscale-stabilization")?,
        };
        let normalized = rules::normalize(wanted, bounds, self.behavior.as_ref(), &mut self.memory);
        for (kind, says) in [(ABLE, &normalized.able), (LIMITED, &normalized.limited)] {
            self.set(kind, says.holds, says.reason, says.message);
        }
        Ok(Some((normalized.replicas, reason)))
    }

    /// The target's pods, or why they cannot be told.
    fn pods(&mut self, ctx: &Ctx<'_>, selector: &str) -> Result<Result<Vec<Object<Pod>>, String>> {
        if selector.is_empty() {
            let why = "selector is required";
            self.warn("SelectorRequired", why);
            self.set(ACTIVE, false, "InvalidSelector", "the HPA target's scale is missing a selector");
            return Ok(Err(why.to_owned()));
        }
        let namespace = &self.autoscaler.metadata.namespace;
        let pods = ctx.list::<Pod>(Query::all().namespace(namespace).labels(selector))?;
        let rivals = self.rivals(ctx)?;
        if !pods.is_empty() && rivals.len() > 1 {
            let why = format!(
                "pods by selector {selector} are controlled by multiple HPAs: [{}]",
                rivals.iter().map(|name| format!("{namespace}/{name}")).collect::<Vec<_>>().join(" ")
            );
            self.warn("AmbiguousSelector", why.clone());
            self.set(ACTIVE, false, "AmbiguousSelector", why.clone());
            return Ok(Err(why));
        }
        Ok(Ok(pods))
    }

    /// The autoscalers of the same target, this one included. What other targets
    /// select is not asked for: that were a request for each autoscaler of the
    /// namespace by each of them.
    fn rivals(&self, ctx: &Ctx<'_>) -> Result<Vec<String>> {
        let same_group = |a: &str, b: &str| a.split_once('/').map(|p| p.0) == b.split_once('/').map(|p| p.0);
        let own = &self.autoscaler.spec.scale_target_ref;
        let all = ctx.list::<Autoscaler>(Query::all().namespace(&self.autoscaler.metadata.namespace))?;
        let rivals = all.iter().filter(|other| {
            let target = &other.spec.scale_target_ref;
            target.kind == own.kind
                && target.name == own.name
                && same_group(&target.api_version, &own.api_version)
        });
        Ok(rivals.map(|other| other.metadata.name.clone()).collect())
    }

    fn scale(&mut self, resource: u32, current: i32, wanted: i32, reason: &str) {
        let autoscaler = self.autoscaler;
        let meta = &autoscaler.metadata;
        self.scaled = Some((current, wanted));
        let write = Action::merge(
            resource,
            &meta.namespace,
            &autoscaler.spec.scale_target_ref.name,
            &json!({"spec": {"replicas": wanted}}),
        );
        self.plan.then(
            write
                .subresource("scale")
                .tag(SCALE)
                .on_success(self.about.normal("SuccessfulRescale", new_size(wanted, reason))),
        );
        let message = format!("the HPA controller was able to update the target scale to {wanted}");
        self.set(ABLE, true, "SucceededRescale", message);
        self.status.last_scale_time = Some(self.now);
        unset(&mut self.status, SCALED_TO_ZERO);
        // Only rates look back on changes.
        if let Some(behavior) = &self.behavior {
            self.memory.scaled(current, wanted, millis(self.now), behavior.longest_period());
        }
    }
}
