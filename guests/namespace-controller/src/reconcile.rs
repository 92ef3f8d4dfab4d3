//! What is to be done about one namespace that is being deleted.

use std::rc::Rc;
use std::time::Duration;

use coxswain_sdk::contract::{ActionOutcome, CollectionOptions, Failure, Propagation};
use coxswain_sdk::resource::NAMESPACES;
use coxswain_sdk::sort::sort_by;
use coxswain_sdk::{Action, Ask, Ctx, Object, Plan, Query, Result, Step, Time};
use serde_json::json;

use crate::conditions::Findings;
use crate::content::{self, Content, Rest};
use crate::discovery;
use crate::kinds::{self, Kind, Kinds};
use crate::view::{Namespace, Pod};

/// Who we are among the finalizers of a namespace.
const TOKEN: &str = "kubernetes";
/// How long a deletion is left to get about: API servers that have not heard of
/// it yet let objects in.
const WAIT: Duration = Duration::from_secs(5);
/// How long what was asked to go may take before it is told that it is there.
const SETTLE: Duration = Duration::from_secs(10);
/// Bounds of the pause before the next try where nothing will tell when.
const PAUSE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// Changes that come within so many milliseconds are looked at together.
const QUIET: u32 = 100;

/// Decides about the namespace of the key.
pub fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
    let mut plan = Plan::new();
    let Some(namespace) = ctx.primary::<Namespace>()? else { return Ok(plan) };
    let Some(deleted_at) = namespace.deleted_at() else { return Ok(plan) };
    if namespace.finalizers().is_empty() {
        return Ok(plan);
    }
    if ctx.now() < deleted_at + WAIT {
        plan.come_back(deleted_at + WAIT);
        return Ok(plan);
    }
    let kinds = kinds::of(ctx);
    let Some(look) = look(ctx, &namespace, &kinds)? else { return Ok(plan) };
    Deletion { ctx, namespace, deleted_at, plan }.decide(look)
}

/// What was found.
struct Look<'a> {
    content: Content<'a>,
    discovery: Option<String>,
    errors: Vec<String>,
    /// Whether everything was listed, and not only looked up in the cache.
    verified: bool,
    /// Whether nothing wakes us once what is left has gone.
    unwatched: bool,
}

/// Looks at the content: at the cache, and past it where the cache does not
/// tell or shows nothing left. None if the namespace has gone.
fn look<'a>(ctx: &Ctx<'_>, namespace: &Namespace, kinds: &'a Rc<Kinds>) -> Result<Option<Look<'a>>> {
    let name = namespace.name();
    let failing = discovery::failing(ctx)?;
    let is_known = |kind: &Kind| !failing.contains(&kind.group_version());
    let mut content = content::cached(ctx, kinds, name)?;
    content.retain(|rest| is_known(rest.kind));
    let pods = content.iter().any(|rest| rest.kind.is_pods());
    let fresh = content.iter().any(|rest| !rest.fresh.is_empty());
    // What is not known holds the namespace anyway.
    let verified = content.is_empty() && failing.is_empty();
    // Pods go first, and what the cache shows before what it does not.
    let due = |kind: &Kind| !pods && (kind.is_pods() || !kind.is_cached && !fresh);
    let asked: Vec<&Kind> =
        kinds.values().filter(|kind| kind.is_listable && is_known(kind) && (verified || due(kind))).collect();
    let mut asks: Vec<Ask> = asked.iter().map(|kind| content::ask(kind, name)).collect();
    asks.push(Ask::get_metadata(NAMESPACES, "", name).expecting_uid(namespace.uid()));
    let mut lists = ctx.look_up_all(asks)?;
    match lists.pop() {
        Some(Err(failure)) if failure.status == 404 => return Ok(None),
        _ => {}
    }

    let (mut errors, mut unwatched) = (Vec::new(), !failing.is_empty());
    for (kind, answer) in asked.into_iter().zip(&lists) {
        match content::listed(kind, answer) {
            Ok(rest) if rest.count == 0 => {}
            Ok(rest) => {
                unwatched |= !kind.is_cached;
                content.push(rest);
            }
            Err(error) => {
                unwatched = true;
                errors.push(error);
            }
        }
    }
    Ok(Some(Look { content, discovery: discovery::failure(&failing), errors, verified, unwatched }))
}

struct Deletion<'a> {
    ctx: &'a Ctx<'a>,
    namespace: Object<Namespace>,
    deleted_at: Time,
    plan: Plan,
}

impl Deletion<'_> {
    fn decide(mut self, look: Look<'_>) -> Result<Plan> {
        let now = self.ctx.now();
        self.plan.quiet(QUIET);
        let Look { content, discovery, errors, verified, unwatched } = look;
        if verified && content.is_empty() && discovery.is_none() && errors.is_empty() {
            self.finalize();
            return Ok(self.plan);
        }
        let (pods, others): (Content<'_>, Content<'_>) =
            content.into_iter().partition(|rest| rest.kind.is_pods());
        let pods_first = !pods.is_empty();
        let at_hand = if pods_first { pods } else { others };

        let grace = if pods_first { self.grace()? } else { Duration::ZERO };
        let estimating = pods_first && now < self.deleted_at + grace;
        let mut findings = Findings::new(discovery, errors);
        let mut deletions = Vec::new();
        let mut refused = false;
        for rest in &at_hand {
            if let Some(failure) = self.refusal(rest.kind) {
                refused = true;
                findings.errors.push(failure.message.clone());
            } else {
                if !estimating && rest.finalizers.is_empty() {
                    findings.errors.push(self.unexpected(rest.kind));
                }
                if !pods_first {
                    findings.add(rest);
                }
            }
            if !rest.fresh.is_empty() {
                deletions.extend(self.delete(rest));
            }
        }
        if estimating {
            self.plan.come_back(self.deleted_at + grace);
        }
        if unwatched || !deletions.is_empty() {
            self.plan.come_back(now + self.pause());
        }
        let period = self.ctx.option_duration(crate::SYNC_PERIOD)?;
        if !period.is_zero() {
            self.plan.come_back(now + period);
        }
        let first = !deletions.is_empty() && !refused && now < self.deleted_at + WAIT + SETTLE;
        self.plan.then(Step::new(deletions).or_go_on());
        // What was only just asked to go is given the time.
        if first {
            self.mark_terminating();
        } else {
            self.tell(findings);
        }
        Ok(self.plan)
    }

    /// Lets the namespace go.
    fn finalize(&mut self) {
        let mut rest: Vec<&str> = self.namespace.finalizers();
        rest.retain(|finalizer| *finalizer != TOKEN);
        sort_by(&mut rest, Ord::cmp);
        rest.dedup();
        let body = self.namespace.with_finalizers(&rest);
        let stays = !rest.is_empty() || self.namespace.is_held();
        let listed = self.namespace.finalizers().contains(&TOKEN);
        if stays {
            self.tell(Findings::default());
        }
        if listed {
            let finalize = Action::replace(NAMESPACES, "", self.namespace.name(), &body)
                .subresource("finalize")
                .tag("finalize")
                .as_seen(&self.namespace);
            self.plan.then(finalize);
        }
    }

    /// How long the pods may take to go.
    fn grace(&self) -> Result<Duration> {
        let pods = self.ctx.list::<Pod>(Query::all().namespace(self.namespace.name()))?;
        Ok(Duration::from_secs(pods.iter().map(|pod| pod.grace()).max().unwrap_or(0)))
    }

    /// The longer it takes already, the longer the pause.
    fn pause(&self) -> Duration {
        (self.ctx.now().since(self.deleted_at) / 4).clamp(PAUSE.0, PAUSE.1)
    }

    fn unexpected(&self, kind: &Kind) -> String {
        format!(
            "unexpected items still remain in namespace: {} for gvr: {}/{}, Resource={}",
            self.namespace.name(),
            kind.group,
            kind.version,
            kind.resource
        )
    }

    /// How the last deletion of a resource's objects failed, if it did.
    fn refusal(&self, kind: &Kind) -> Option<&Failure> {
        let tag = tag(kind);
        let mut results = self.ctx.results().iter().filter(|result| result.tag == tag);
        results.find_map(|result| match &result.result {
            ActionOutcome::Failed(failure) if !content::is_unsupported(failure) => Some(failure),
            _ => None,
        })
    }

    fn is_unsupported(&self, kind: &Kind) -> bool {
        let tag = tag(kind);
        self.ctx.results().iter().any(|result| {
            result.tag == tag
                && matches!(&result.result, ActionOutcome::Failed(failure) if content::is_unsupported(failure))
        })
    }

    fn delete(&self, rest: &Rest<'_>) -> Vec<Action> {
        let (kind, name) = (rest.kind, self.namespace.name());
        if kind.has_collection && !self.is_unsupported(kind) {
            let options = CollectionOptions {
                propagation: Some(Propagation::Background),
                grace_seconds: None,
                labels: String::new(),
                fields: String::new(),
            };
            return vec![Action::delete_collection(kind.number, name, options).tag(&tag(kind))];
        }
        let each = |object: &String| {
            Action::delete(kind.number, name, object).propagation(Propagation::Background).tag(&tag(kind))
        };
        rest.fresh.iter().map(each).collect()
    }

    fn mark_terminating(&mut self) {
        if self.namespace.phase() != "Terminating" {
            self.patch_status(&json!({ "phase": "Terminating" }));
        }
    }

    fn tell(&mut self, findings: Findings) {
        let mut conditions = self.namespace.conditions();
        if !findings.apply(&mut conditions, self.ctx.now()) {
            self.mark_terminating();
            return;
        }
        let mut status = json!({ "conditions": conditions });
        if self.namespace.phase() != "Terminating" {
            status["phase"] = json!("Terminating");
        }
        self.patch_status(&status);
    }

    fn patch_status(&mut self, status: &serde_json::Value) {
        let body = json!({ "status": status });
        let patch = Action::merge(NAMESPACES, "", self.namespace.name(), &body)
            .subresource("status")
            .tag("status")
            .as_seen(&self.namespace);
        self.plan.then(Step::new([patch]).or_go_on());
    }
}

fn tag(kind: &Kind) -> String {
    format!("delete {}.{}", kind.resource, kind.group)
}
