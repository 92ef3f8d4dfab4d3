//! Create: from a decoded body to a stored object.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Object, Outcome};
use super::strategy::Ctx;
use super::{Call, Rest, draft_with, drop_type_meta, key, meta, meta_mut, meta_text};
use crate::status::{FieldError, Status};
use crate::storage::WriteError;
use crate::webhook::{Admission, Operation};
use crate::{admission, patch, schema};

/// Longest base of a generated name; five characters follow.
const GENERATED_BASE: usize = 58;
/// So often another name is tried when a generated one is taken.
const GENERATED_TRIES: usize = 8;

/// What the text of an object that is being deleted has in it.
const DELETED: &str = "\"deletionTimestamp\"";

impl Rest {
    /// POST of a decoded object.
    pub fn create(&self, call: &Call, mut object: Value, warnings: Vec<String>) -> Result<Answer, Status> {
        drop_type_meta(&mut object);
        check_namespace(call, &mut object)?;
        call.kind.strategy.default(&call.kind, &mut object);
        if !call.write.manager.is_empty() {
            patch::managed::on_write(
                &call.kind,
                None,
                &mut object,
                &call.write.manager,
                &call.sub,
                &self.clock.seconds(),
            );
        }
        after(warnings, self.store_new(call, object))
    }

    /// Everything behind decoding, defaults and field ownership; also for updates and applies that create.
    pub(super) fn store_new(&self, call: &Call, object: Value) -> Result<Answer, Status> {
        let ctx = self.ctx(call);
        let result = self.store_new_in(&ctx, call, object);
        warned(&ctx, result)
    }

    fn store_new_in(&self, ctx: &Ctx<'_>, call: &Call, mut object: Value) -> Result<Answer, Status> {
        let kind = &call.kind;
        schema::normalize(kind, &mut object);
        self.check_namespace_lives(call, meta_text(&object, "name"))?;
        self.check_grant(call, None, &object)?;
        let given_version = meta_text(&object, "resourceVersion").to_owned();
        let generate = meta_text(&object, "name").is_empty();
        let base = meta_text(&object, "generateName").to_owned();
        if let Some(meta) = meta_mut(&mut object) {
            for field in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion"] {
                meta.remove(field);
            }
            meta.insert("creationTimestamp".into(), ctx.now.clone().into());
            meta.insert("uid".into(), self.entropy.uid().into());
        }
        let generate = generate && !base.is_empty();
        for attempt in 1.. {
            // Only a generated name is tried again with another.
            let mut object = if generate { object.clone() } else { std::mem::take(&mut object) };
            if generate {
                let name = self.generated_name(&base);
                if let Some(meta) = meta_mut(&mut object) {
                    meta.insert("name".into(), name.into());
                }
            }
            admission::mutate_create(ctx, kind, &mut object)?;
            let asked = Admission { rest: self, ctx, call, operation: Operation::Create, sent: None };
            if mutate_unnamed(&asked, &mut object, generate)? {
                admission::mutate_create(ctx, kind, &mut object)?;
            }
            kind.strategy.prepare_create(ctx, &mut object)?;
            let name = meta_text(&object, "name").to_owned();
            let errors = kind.strategy.validate_create(ctx, &object);
            if !errors.is_empty() {
                kind.strategy.deleted(&object);
                return Err(kind.invalid(&name, errors));
            }
            for warning in kind.strategy.warnings(None, &object) {
                ctx.warn(warning);
            }
            if !given_version.is_empty() && given_version != "0" {
                return Err(Status::server_error(
                    "resourceVersion should not be set on objects to be created",
                ));
            }
            let table = self.table(kind);
            let key = key(&call.namespace, &name);
            let taken = || {
                let status = Status::already_exists(&kind.group, &kind.plural, &name);
                let deleting =
                    table.get(&key).is_some_and(|o| meta(&o.value()).contains_key("deletionTimestamp"));
                if deleting {
                    Status { message: format!("object is being deleted: {}", status.message), ..status }
                } else {
                    status
                }
            };
            if call.write.dry_run {
                if table.get(&key).is_some() {
                    return Err(taken());
                }
                admit_new(&asked, &object)?;
                let outcome = Outcome::Object(Object::Value(object));
                return Ok(Answer::ok(kind, outcome).with_code(201));
            }
            if table.get(&key).is_some() && !generate {
                return Err(taken());
            }
            if let Err(refusal) = admit_new(&asked, &object) {
                kind.strategy.deleted(&object);
                return Err(refusal);
            }
            self.check_storable(kind, &object)?;
            let stored_form = if kind.strategy.is_storage_version() {
                object
            } else {
                kind.strategy.to_storage(kind, object)
            };
            match table.create(&key, draft_with(kind, &stored_form, |_| call.write.raw.clone())) {
                Ok(stored) => {
                    let outcome = Outcome::Object(Object::Stored(stored));
                    return Ok(Answer::ok(kind, outcome).with_code(201));
                }
                Err(_) if generate && attempt < GENERATED_TRIES => {
                    kind.strategy.deleted(&stored_form);
                }
                Err(WriteError::Exists | WriteError::Missing | WriteError::Moved) => {
                    kind.strategy.deleted(&stored_form);
                    return Err(taken());
                }
            }
        }
        Err(Status::server_error("no free name was found"))
    }

    fn generated_name(&self, base: &str) -> String {
        let mut end = base.len().min(GENERATED_BASE);
        while !base.is_char_boundary(end) {
            end -= 1;
        }
        format!("{}{}", &base[..end], self.entropy.suffix())
    }

    /// Objects are created in namespaces that exist and are not going away.
    pub(super) fn check_namespace_lives(&self, call: &Call, name: &str) -> Result<(), Status> {
        if !call.kind.namespaced {
            return Ok(());
        }
        let table = self.lookup_table("", "namespaces").map(|(_, table)| table);
        let Some(stored) = table.and_then(|table| table.get(&call.namespace)) else {
            return Err(Status::not_found("", "namespaces", &call.namespace));
        };
        // Parsed for the few that may be going only.
        let going = stored.field("status.phase") == Some("Terminating") || stored.mentions(DELETED);
        if !going {
            return Ok(());
        }
        let namespace = stored.value();
        let terminating = namespace["status"]["phase"] == "Terminating"
            || meta(&namespace).contains_key("deletionTimestamp");
        if !terminating {
            return Ok(());
        }
        let text = format!(
            "unable to create new content in namespace {} because it is being terminated",
            call.namespace
        );
        let cause = format!("namespace {} is being terminated", call.namespace);
        Err(Status::forbidden(&call.kind.group, &call.kind.plural, name, text).with_cause(
            "NamespaceTerminating",
            &cause,
            "metadata.namespace",
        ))
    }
}

/// The answer with the warnings that came up on the way to it, or the failure with them.
pub(super) fn warned(ctx: &Ctx<'_>, result: Result<Answer, Status>) -> Result<Answer, Status> {
    after(ctx.warnings.take(), result)
}

/// The same with what was said of the body in front.
pub(super) fn after(mut warnings: Vec<String>, result: Result<Answer, Status>) -> Result<Answer, Status> {
    match result {
        Ok(mut answer) => {
            warnings.append(&mut answer.warnings);
            Ok(answer.with_warnings(warnings))
        }
        Err(mut status) => {
            warnings.append(&mut status.warnings);
            Err(Status { warnings, ..status })
        }
    }
}

/// Has webhooks change an object as it looks before the server has named it.
fn mutate_unnamed(asked: &Admission<'_>, object: &mut Value, generated: bool) -> Result<bool, Status> {
    let own: &[&str] =
        if generated { &["uid", "creationTimestamp", "name"] } else { &["uid", "creationTimestamp"] };
    let mut kept = Vec::new();
    if let Some(meta) = meta_mut(object) {
        kept.extend(own.iter().filter_map(|key| Some((*key, meta.remove(*key)?))));
    }
    let changed = asked.mutate(&Value::Null, object)?;
    if let Some(meta) = meta_mut(object) {
        kept.into_iter().for_each(|(key, value)| drop(meta.insert(key.into(), value)));
    }
    Ok(changed)
}

/// Asks everybody who may refuse a new object, and counts it.
fn admit_new(asked: &Admission<'_>, object: &Value) -> Result<(), Status> {
    let (ctx, kind) = (asked.ctx, &asked.call.kind);
    admission::validate_create(ctx, kind, object)?;
    asked.validate(&Value::Null, object)?;
    admission::count_create(ctx, kind, object)
}

/// The namespace in a body must be that of the path, if there is one.
pub(super) fn namespace_fits(call: &Call, object: &Value) -> Result<(), Status> {
    let given = meta_text(object, "namespace");
    // What lives in no namespace may say what it will.
    if given.is_empty() || given == call.namespace || call.namespace.is_empty() {
        return Ok(());
    }
    Err(Status::bad_request(
        "the namespace of the provided object does not match the namespace sent on the request",
    ))
}

/// The namespace in a body must be that of the path; it is filled in where absent.
pub(super) fn check_namespace(call: &Call, object: &mut Value) -> Result<(), Status> {
    if !object.is_object() {
        return Err(Status::bad_request("the body of the request is not an object"));
    }
    if object.get("metadata").is_some_and(|m| !m.is_object()) {
        return Err(Status::bad_request("metadata is not an object"));
    }
    namespace_fits(call, object)?;
    if let Some(meta) = meta_mut(object) {
        if call.namespace.is_empty() {
            meta.remove("namespace");
        } else {
            meta.insert("namespace".into(), call.namespace.clone().into());
        }
    }
    Ok(())
}

/// `metadata.resourceVersion: Invalid value: 0: must be specified for an update`; the kind shown is the plural.
pub(super) fn version_required(call: &Call) -> Status {
    let error = FieldError::invalid("metadata.resourceVersion", &json!(0), "must be specified for an update");
    Status::invalid(&call.kind.group, &call.kind.plural, &call.name, vec![error])
}

/// An object that only has a name: what a watch bookmark and deletions of nothing look like.
pub(super) fn named(namespace: &str, name: &str) -> Value {
    let mut metadata = Map::new();
    metadata.insert("name".into(), name.into());
    if !namespace.is_empty() {
        metadata.insert("namespace".into(), namespace.into());
    }
    json!({ "metadata": metadata })
}
