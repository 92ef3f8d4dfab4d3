//! Delete: grace, finalizers, propagation, collections, and the two steps of a namespace.

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::answer::{Answer, List, Object, Outcome};
use super::clock;
use super::create::after;
use super::options::DeleteOptions;
use super::page_token::PageToken;
use super::read::Filter;
use super::strategy::{Kind, Propagation};
use super::{Call, Rest, draft_after, finalizers, meta, meta_mut, meta_text};
use crate::status::Status;
use crate::storage::{Stored, WriteError};
use crate::webhook::{Admission, Operation};

const ORPHAN: &str = "orphan";
const FOREGROUND: &str = "foregroundDeletion";
/// Keeps a definition until its instances are gone.
const INSTANCES: &str = "customresourcecleanup.apiextensions.k8s.io";

/// What becomes of the object.
enum Step {
    /// It stays as this, marked.
    Mark(Value),
    /// It is marked with no grace and goes in the same call.
    MarkAndRemove(Value),
    /// It goes.
    Remove,
    /// Nothing is left to do now.
    Pending,
}

impl Rest {
    /// DELETE of one object.
    pub fn delete(&self, call: &Call, options: &DeleteOptions) -> Result<Answer, Status> {
        let kind = &call.kind;
        if let Some(why) = kind.strategy.undeletable(&call.name) {
            return Err(Status::forbidden(&kind.group, &kind.plural, &call.name, why));
        }
        self.delete_any(call, options)
    }

    /// The same, whatever the object is called: a collection spares nobody.
    fn delete_any(&self, call: &Call, options: &DeleteOptions) -> Result<Answer, Status> {
        let kind = &call.kind;
        let table = self.table(kind);
        let result = loop {
            let Some(current) = table.get(&call.key()) else { break Err(kind.not_found(&call.name)) };
            if let Some(result) = self.delete_once(call, options, &current).transpose() {
                break result;
            }
        };
        after(unset_propagation(kind, options), result)
    }

    /// None: the object moved on meanwhile.
    fn delete_once(
        &self,
        call: &Call,
        options: &DeleteOptions,
        current: &Arc<Stored>,
    ) -> Result<Option<Answer>, Status> {
        let kind = &call.kind;
        let old = current.value();
        check_preconditions(kind, &old, current.rv, options)?;
        let mut ctx = self.ctx(call);
        ctx.dry_run |= options.dry_run;
        let asked = Admission { rest: self, ctx: &ctx, call, operation: Operation::Delete, sent: None };
        if asked.is_needed() {
            let shown = Object::Stored(current.clone()).value(kind);
            asked.mutate(&shown, &mut Value::Null)?;
            asked.validate(&shown, &Value::Null)?;
        }
        let marked = meta(&old).contains_key("deletionTimestamp");
        let step = if kind.is_namespace() {
            self.namespace_step(&old, options)
        } else if kind.is_definition() && !marked {
            Step::Mark(self.marked_definition(&old))
        } else {
            self.step(kind, &old, options)
        };
        let dry_run = options.dry_run || call.write.dry_run;
        let table = self.table(kind);
        let key = call.key();
        let mark = |object: Value| -> Result<Object, WriteError> {
            if dry_run {
                return Ok(Object::Value(object));
            }
            if object == old {
                return Ok(Object::Stored(current.clone()));
            }
            table.update(&key, current.rv, draft_after(kind, &object, current)).map(Object::Stored)
        };
        let done = match step {
            Step::Pending => Ok(if kind.strategy.returns_deleted_object() || kind.is_namespace() {
                Outcome::Object(Object::Stored(current.clone()))
            } else {
                deleted_status(kind, &old)
            }),
            Step::Mark(object) => mark(object).map(Outcome::Object),
            Step::MarkAndRemove(object) => mark(object).and_then(|marked| match marked {
                Object::Stored(stored) => {
                    let last = stored.value();
                    match table.delete(&key, stored.rv, draft_after(kind, &last, &stored)) {
                        Ok(gone) => {
                            kind.strategy.deleted(&last);
                            Ok(deleted(kind, &last, Object::Stored(gone)))
                        }
                        // Somebody saw the mark, and was quicker to remove it.
                        Err(WriteError::Missing) => Ok(deleted(kind, &last, Object::Stored(stored.clone()))),
                        Err(error) => Err(error),
                    }
                }
                Object::Value(object) => {
                    let old = object.clone();
                    Ok(deleted(kind, &old, Object::Value(object)))
                }
            }),
            Step::Remove if dry_run => Ok(deleted(kind, &old, Object::Stored(current.clone()))),
            Step::Remove => table.delete(&key, current.rv, draft_after(kind, &old, current)).map(|gone| {
                kind.strategy.deleted(&old);
                deleted(kind, &old, Object::Stored(gone))
            }),
        };
        match done {
            Ok(outcome) => Ok(Some(Answer::ok(kind, outcome).with_warnings(ctx.warnings.take()))),
            Err(WriteError::Moved) => Ok(None),
            Err(WriteError::Missing | WriteError::Exists) => Err(kind.not_found(&call.name)),
        }
    }

    fn step(&self, kind: &Kind, old: &Value, options: &DeleteOptions) -> Step {
        let asked = options.grace.map(|seconds| if seconds < 0 { 1 } else { seconds });
        let mut new = old.clone();
        let mut graceful = None;
        if let Some(period) = kind.strategy.grace_period(old, asked) {
            match meta(old).get("deletionTimestamp").and_then(Value::as_str) {
                None => {
                    mark(&mut new, &self.after(None, period), period);
                    graceful = Some(period);
                }
                Some(marked) => {
                    let present = meta(old).get("deletionGracePeriodSeconds").and_then(Value::as_i64);
                    let present = present.map(|seconds| if seconds < 0 { 1 } else { seconds });
                    match (present.unwrap_or(0), asked) {
                        (0, _) => {}
                        (present, Some(asked)) if asked < present => {
                            let (at, period) = self.shortened(marked, present, asked);
                            mark(&mut new, &at, period);
                            graceful = Some(period);
                        }
                        _ => return Step::Pending,
                    }
                }
            }
        }
        let list = gc_finalizers(kind, old, options);
        let pending = !list.is_empty();
        if let Some(meta) = meta_mut(&mut new) {
            if pending {
                meta.insert("finalizers".into(), json!(list));
            } else {
                meta.remove("finalizers");
            }
        }
        match graceful {
            None if pending => {
                self.mark_finalizing(&mut new);
                Step::Mark(new)
            }
            None => Step::Remove,
            Some(period) if pending || period > 0 => Step::Mark(new),
            Some(_) => Step::MarkAndRemove(new),
        }
    }

    /// Marks an object that waits for its finalizers only.
    fn mark_finalizing(&self, object: &mut Value) {
        let now = self.clock.seconds();
        let marked = meta_text(object, "deletionTimestamp").to_owned();
        let at = if marked.is_empty() || marked > now { now } else { marked };
        mark(object, &at, 0);
    }

    fn after(&self, from: Option<jiff::Timestamp>, seconds: i64) -> String {
        let from = from.unwrap_or_else(|| self.clock.now());
        let at = from.saturating_add(jiff::SignedDuration::from_secs(seconds));
        clock::seconds(at.unwrap_or(from))
    }

    /// The mark moved forward to a shorter period, though never into the past.
    fn shortened(&self, marked: &str, present: i64, asked: i64) -> (String, i64) {
        let start = marked
            .parse()
            .ok()
            .and_then(|at: jiff::Timestamp| at.saturating_sub(jiff::SignedDuration::from_secs(present)).ok());
        let at = self.after(start, asked);
        let now = self.clock.seconds();
        if at >= now { (at, asked) } else { (now, asked.min(1)) }
    }

    /// A namespace is marked first; it goes once nothing holds it.
    fn namespace_step(&self, old: &Value, options: &DeleteOptions) -> Step {
        if meta(old).contains_key("deletionTimestamp") {
            let held = old["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
            return if held { Step::Pending } else { self.namespace_end(old) };
        }
        let mut new = old.clone();
        let orphan =
            options.orphan_dependents == Some(true) || options.propagation == Some(Propagation::Orphan);
        let foreground = options.propagation == Some(Propagation::Foreground);
        let unset = options.orphan_dependents.is_none() && options.propagation.is_none();
        let mut list: Vec<String> = finalizers(old)
            .into_iter()
            .filter(|f| unset || !matches!(*f, ORPHAN | FOREGROUND))
            .map(str::to_owned)
            .collect();
        if orphan {
            list.push(ORPHAN.into());
        }
        if foreground {
            list.push(FOREGROUND.into());
        }
        let now = self.clock.seconds();
        if let Some(meta) = meta_mut(&mut new) {
            meta.insert("deletionTimestamp".into(), now.into());
            if !list.is_empty() {
                meta.insert("finalizers".into(), json!(list));
            }
        }
        new["status"]["phase"] = "Terminating".into();
        Step::Mark(new)
    }

    /// A definition is marked first; the loop that removes its instances lets it go.
    fn marked_definition(&self, old: &Value) -> Value {
        let now = self.clock.seconds();
        let mut new = old.clone();
        let mut list: Vec<&str> = finalizers(old);
        if !list.contains(&INSTANCES) {
            list.push(INSTANCES);
        }
        if let Some(meta) = meta_mut(&mut new) {
            meta.insert("deletionTimestamp".into(), now.clone().into());
            meta.insert("finalizers".into(), json!(list));
        }
        let condition = json!({
            "type": "Terminating", "status": "True", "lastTransitionTime": now,
            "reason": "InstanceDeletionPending",
            "message": "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon",
        });
        if !new["status"].is_object() {
            new["status"] = json!({});
        }
        match new["status"]["conditions"].as_array_mut() {
            Some(conditions) => {
                conditions.retain(|present| present["type"] != "Terminating");
                conditions.push(condition);
            }
            None => new["status"]["conditions"] = json!([condition]),
        }
        new
    }

    fn namespace_end(&self, old: &Value) -> Step {
        if finalizers(old).is_empty() { Step::Remove } else { Step::Pending }
    }

    /// DELETE of a collection: the answer is what was found.
    pub fn delete_collection(
        &self,
        call: &Call,
        filter: &Filter,
        (limit, from): (usize, &str),
        options: &DeleteOptions,
    ) -> Result<Answer, Status> {
        let (_, mut listing) = self.matching(call, filter);
        if !from.is_empty() {
            let start = format!("{}{}", super::read::prefix(call), PageToken::decode(from)?.start);
            listing.items.retain(|(key, _)| **key >= *start);
        }
        let wanted = if limit == 0 { usize::MAX } else { limit };
        let mut list = List { rv: listing.rv, ..List::default() };
        let found = listing.items.len();
        if found > wanted {
            let (last, _) = &listing.items[wanted - 1];
            let prefix = super::read::prefix(call);
            let relative = last.strip_prefix(prefix.as_str()).unwrap_or(last);
            let next = PageToken { version: Some(listing.rv), start: format!("{relative}\0") };
            list.continue_token = next.encode();
            list.remaining = filter.is_everything().then_some(found - wanted);
        }
        for (key, stored) in listing.items.into_iter().take(wanted) {
            let (namespace, name) = key.rsplit_once('/').unwrap_or(("", &key));
            let one = Call { namespace: namespace.into(), name: name.into(), ..call.clone() };
            match self.delete_any(&one, options) {
                Err(status) if status.code != 404 => return Err(status),
                _ => list.items.push(Object::Stored(stored)),
            }
        }
        Ok(Answer::ok(&call.kind, Outcome::List(list)).with_warnings(unset_propagation(&call.kind, options)))
    }
}

/// What is said of a delete that leaves it open what becomes of dependents.
fn unset_propagation(kind: &Kind, options: &DeleteOptions) -> Vec<String> {
    let unset = options.propagation.is_none() && options.orphan_dependents.is_none();
    let warning = kind.strategy.unset_propagation_warning().filter(|_| unset);
    warning.map(str::to_owned).into_iter().collect()
}

fn mark(object: &mut Value, at: &str, grace: i64) {
    if let Some(meta) = meta_mut(object) {
        let first = !meta.contains_key("deletionTimestamp");
        if let Some(generation) = meta.get("generation").and_then(Value::as_i64) {
            if first && generation > 0 {
                meta.insert("generation".into(), (generation + 1).into());
            }
        }
        meta.insert("deletionTimestamp".into(), at.into());
        meta.insert("deletionGracePeriodSeconds".into(), grace.into());
    }
}

/// Finalizers after the policy has had its say.
fn gc_finalizers(kind: &Kind, old: &Value, options: &DeleteOptions) -> Vec<String> {
    let present = finalizers(old);
    let policy = match (options.orphan_dependents, options.propagation) {
        _ if !kind.strategy.has_dependents() => Propagation::Background,
        (Some(true), _) => Propagation::Orphan,
        (Some(false), _) => Propagation::Background,
        (None, Some(policy)) => policy,
        (None, None) => present
            .iter()
            .find_map(|f| match *f {
                ORPHAN => Some(Propagation::Orphan),
                FOREGROUND => Some(Propagation::Foreground),
                _ => None,
            })
            .unwrap_or_else(|| kind.strategy.default_propagation()),
    };
    let wanted = match policy {
        Propagation::Orphan => Some(ORPHAN),
        Propagation::Foreground => Some(FOREGROUND),
        Propagation::Background => None,
    };
    let ours: Vec<&str> = present.iter().copied().filter(|f| matches!(*f, ORPHAN | FOREGROUND)).collect();
    if ours == wanted.into_iter().collect::<Vec<_>>() {
        return present.into_iter().map(str::to_owned).collect();
    }
    let others = present.into_iter().filter(|f| !matches!(*f, ORPHAN | FOREGROUND));
    others.chain(wanted).map(str::to_owned).collect()
}

fn check_preconditions(kind: &Kind, old: &Value, rv: u64, options: &DeleteOptions) -> Result<(), Status> {
    // What the server deletes in two steps it checks in other words, and names as a resource instead of as a kind.
    let own = kind.is_namespace() || kind.is_definition();
    let subject = if own { &kind.plural } else { &kind.kind };
    let name = meta_text(old, "name");
    let check = |asked: &Option<String>, present: &str, what: &str, end: &str| match asked {
        Some(asked) if asked != present => {
            let text = if own {
                format!(
                    "Precondition failed: {what} in precondition: {asked}, {what} in object meta: {present}"
                )
            } else {
                format!(
                    "the {what} in the precondition ({asked}) does not match the {what} in record ({present}). The object might have been {end}"
                )
            };
            Err(Status::conflict(&kind.group, subject, name, text))
        }
        _ => Ok(()),
    };
    check(&options.uid, meta_text(old, "uid"), "UID", "deleted and then recreated")?;
    let version = &options.resource_version;
    check(version, &rv.to_string(), "ResourceVersion", "modified")
}

fn deleted(kind: &Kind, last: &Value, object: Object) -> Outcome {
    if kind.strategy.returns_deleted_object() { Outcome::Object(object) } else { deleted_status(kind, last) }
}

fn deleted_status(kind: &Kind, last: &Value) -> Outcome {
    let mut details = Map::new();
    details.insert("name".into(), meta_text(last, "name").into());
    if !kind.group.is_empty() {
        details.insert("group".into(), kind.group.clone().into());
    }
    details.insert("kind".into(), kind.plural.clone().into());
    details.insert("uid".into(), meta_text(last, "uid").into());
    Outcome::Other(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details,
    }))
}
