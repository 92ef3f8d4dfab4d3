//! Update, patch and apply, on objects and through subresources that are views of them.
//!
//! Invariant: the object is computed from one version and stored only if that is still the newest; otherwise once more.

use serde_json::{Map, Value};

use super::answer::{Answer, Object, Outcome};
use super::create::{after, check_namespace, named, namespace_fits, version_required, warned};
use super::strategy::{Ctx, Kind};
use super::{Call, Rest, add_type_meta, draft_after, drop_type_meta, finalizers, meta, meta_mut, meta_text};
use crate::admission;
use crate::patch::{self, PatchOptions, PatchType};
use crate::schema;
use crate::status::Status;
use crate::storage::{Stored, WriteError};
use crate::webhook::{Admission, Operation};

/// Where the new object comes from.
pub enum Change<'a> {
    /// PUT: this is it.
    Put(Value),
    /// PATCH: type and text.
    Patch(PatchType, &'a [u8]),
    /// Server-side apply: text.
    Apply(&'a [u8]),
    /// A change of the present object, as from a binding. Its owner is recorded as for a PUT.
    Edit(&'a dyn Fn(&mut Value) -> Result<(), Status>),
}

impl Change<'_> {
    fn may_create(&self, call: &Call) -> bool {
        match self {
            Self::Put(_) => call.sub.is_empty() && call.kind.strategy.allow_create_on_update(),
            Self::Apply(_) => call.sub.is_empty(),
            Self::Patch(..) | Self::Edit(_) => false,
        }
    }
}

impl Rest {
    /// Carries out a change; `warnings` are those of the body.
    pub fn update(&self, call: &Call, change: &Change<'_>, warnings: Vec<String>) -> Result<Answer, Status> {
        after(warnings, self.update_until_done(call, change))
    }

    fn update_until_done(&self, call: &Call, change: &Change<'_>) -> Result<Answer, Status> {
        if let Change::Put(new) = change {
            check_name(call, new)?;
            namespace_fits(call, new)?;
        }
        loop {
            let current = self.table(&call.kind).get(&call.key());
            let attempt = match &current {
                Some(current) => self.update_once(call, change, current),
                None if change.may_create(call) => self.create_by(call, change).map(Some),
                None => return Err(call.kind.not_found(&call.name)),
            };
            if let Some(answer) = attempt? {
                return Ok(answer);
            }
        }
    }

    fn create_by(&self, call: &Call, change: &Change<'_>) -> Result<Answer, Status> {
        self.check_create_by_update(call)?;
        let (mut object, warnings) = match change {
            Change::Put(new) => {
                let mut object = new.clone();
                check_namespace(call, &mut object)?;
                if let Some(meta) = meta_mut(&mut object) {
                    meta.remove("resourceVersion");
                }
                call.kind.strategy.default(&call.kind, &mut object);
                let now = self.clock.seconds();
                let manager = &call.write.manager;
                patch::managed::on_write(&call.kind, None, &mut object, manager, &call.sub, &now);
                (object, Vec::new())
            }
            Change::Apply(text) => {
                let now = self.clock.seconds();
                let patched = patch::apply_ssa(&call.kind, None, text, &self.patch_options(call, &now))?;
                let mut object = patched.object;
                drop_type_meta(&mut object);
                check_name(call, &object)?;
                check_namespace(call, &mut object)?;
                if !meta_text(&object, "uid").is_empty() {
                    let text = format!(
                        "uid mismatch: the provided object specified uid {}, and no existing object was found",
                        meta_text(&object, "uid")
                    );
                    let kind = &call.kind;
                    return Err(Status::conflict(&kind.group, &kind.plural, &call.name, text));
                }
                if let Some(meta) = meta_mut(&mut object) {
                    meta.remove("resourceVersion");
                }
                (object, patched.warnings)
            }
            Change::Patch(..) | Change::Edit(_) => (named(&call.namespace, &call.name), Vec::new()),
        };
        drop_type_meta(&mut object);
        after(warnings, self.store_new(call, object))
    }

    pub(super) fn patch_options(&self, call: &Call, now: &str) -> PatchOptions {
        PatchOptions {
            sub: call.sub.clone(),
            validation: call.write.validation,
            field_manager: call.write.manager.clone(),
            force: call.write.force,
            now: now.to_owned(),
        }
    }

    /// None: the object moved on meanwhile.
    fn update_once(
        &self,
        call: &Call,
        change: &Change<'_>,
        current: &std::sync::Arc<Stored>,
    ) -> Result<Option<Answer>, Status> {
        let ctx = self.ctx(call);
        match self.update_in(&ctx, call, change, current).transpose() {
            Some(result) => warned(&ctx, result).map(Some),
            None => Ok(None),
        }
    }

    fn update_in(
        &self,
        ctx: &Ctx<'_>,
        call: &Call,
        change: &Change<'_>,
        current: &std::sync::Arc<Stored>,
    ) -> Result<Option<Answer>, Status> {
        let kind = &call.kind;
        let old = Object::Stored(current.clone()).value(kind);
        let (mut new, owned) = self.changed(call, change, &old, ctx)?;
        check_namespace(call, &mut new)?;
        if matches!(change, Change::Put(_)) {
            let uid = meta_text(&new, "uid");
            if !uid.is_empty() && uid != meta_text(&old, "uid") {
                return Err(uid_conflict(call, uid, meta_text(&old, "uid")));
            }
        }
        self.check_version(call, &mut new, current.rv)?;
        kind.strategy.default(kind, &mut new);
        if !owned && !call.write.manager.is_empty() {
            let manager = &call.write.manager;
            if call.sub == "scale" && call.write.applies {
                patch::managed::on_scale_apply(kind, &old, &mut new, manager);
            } else {
                patch::managed::on_write(kind, Some(&old), &mut new, manager, &call.sub, &ctx.now);
            }
        }
        schema::normalize(kind, &mut new);
        self.check_grant(call, Some(&old), &new)?;
        admission::mutate_update(ctx, kind, &call.sub, &old, &mut new)?;
        let asked = Admission { rest: self, ctx, call, operation: Operation::Update, sent: None };
        if asked.mutate(&old, &mut new)? {
            admission::mutate_update(ctx, kind, &call.sub, &old, &mut new)?;
        }
        keep_generation(&old, &mut new);
        kind.strategy.prepare_update(ctx, &call.sub, &old, &mut new)?;
        keep_system_fields(&old, &mut new);
        let errors = kind.strategy.validate_update(ctx, &call.sub, &old, &new);
        if !errors.is_empty() {
            return Err(kind.invalid(&call.name, errors));
        }
        if call.sub.is_empty() {
            for warning in kind.strategy.warnings(Some(&old), &new) {
                ctx.warn(warning);
            }
        }
        self.check_signer(call, &old, &new)?;
        admission::validate_update(ctx, kind, &call.sub, &old, &new)?;
        asked.validate(&old, &new)?;
        admission::count_update(ctx, kind, &call.sub, &old, &new)?;
        let last_finalizer_gone = goes_with_update(kind, &old, &new);
        if !last_finalizer_gone && same_content(&old, &new) {
            let outcome = Outcome::Object(Object::Stored(current.clone()));
            return Ok(Some(Answer::ok(kind, outcome)));
        }
        if call.write.dry_run {
            let outcome = Outcome::Object(Object::Value(new));
            return Ok(Some(Answer::ok(kind, outcome)));
        }
        let table = self.table(kind);
        let written = if last_finalizer_gone {
            let gone = table.delete(&call.key(), current.rv, draft_after(kind, &current.value(), current));
            if gone.is_ok() {
                kind.strategy.deleted(&old);
            }
            gone.map(|_| Object::Value(new))
        } else {
            self.check_storable(kind, &new)?;
            let stored_form =
                if kind.strategy.is_storage_version() { new } else { kind.strategy.to_storage(kind, new) };
            table
                .update(&call.key(), current.rv, draft_after(kind, &stored_form, current))
                .map(Object::Stored)
        };
        match written {
            Ok(object) => Ok(Some(Answer::ok(kind, Outcome::Object(object)))),
            Err(WriteError::Moved) => Ok(None),
            Err(WriteError::Missing | WriteError::Exists) => Err(kind.not_found(&call.name)),
        }
    }

    /// The new object, and whether its managedFields are done.
    fn changed(
        &self,
        call: &Call,
        change: &Change<'_>,
        old: &Value,
        ctx: &Ctx<'_>,
    ) -> Result<(Value, bool), Status> {
        let whole = || {
            let mut whole = old.clone();
            add_type_meta(&call.kind, &mut whole);
            whole
        };
        let (patched, owned) = match change {
            Change::Put(new) => return Ok((new.clone(), false)),
            Change::Edit(edit) => {
                let mut new = old.clone();
                edit(&mut new)?;
                return Ok((new, false));
            }
            Change::Patch(patch_type, text) => {
                let options = self.patch_options(call, &ctx.now);
                (patch::apply(&call.kind, *patch_type, &whole(), text, &options)?, false)
            }
            Change::Apply(text) => {
                let options = self.patch_options(call, &ctx.now);
                (patch::apply_ssa(&call.kind, Some(&whole()), text, &options)?, true)
            }
        };
        patched.warnings.into_iter().for_each(|warning| ctx.warn(warning));
        let mut new = patched.object;
        drop_type_meta(&mut new);
        check_name(call, &new)?;
        Ok((new, owned))
    }

    fn check_version(&self, call: &Call, new: &mut Value, current: u64) -> Result<(), Status> {
        let given = meta_text(new, "resourceVersion");
        let number = match given {
            "" => 0,
            text => text.parse::<u64>().map_err(|_| {
                Status::server_error(format!("strconv.ParseUint: parsing {text:?}: invalid syntax"))
            })?,
        };
        let kind = &call.kind;
        if number == 0 {
            if !kind.strategy.allow_unconditional_update() {
                return Err(version_required(call));
            }
        } else if number != current {
            return Err(Status::modified(&kind.group, &kind.plural, &call.name));
        }
        if let Some(meta) = meta_mut(new) {
            meta.insert("resourceVersion".into(), current.to_string().into());
        }
        Ok(())
    }
}

/// The name in a body must be that of the path.
pub(super) fn check_name(call: &Call, object: &Value) -> Result<(), Status> {
    let name = meta_text(object, "name");
    if name.is_empty() {
        return Err(Status::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.name
        )));
    }
    if name != call.name {
        return Err(Status::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.name
        )));
    }
    Ok(())
}

/// The uid in a body is a precondition.
pub(super) fn uid_conflict(call: &Call, wanted: &str, present: &str) -> Status {
    let kind = &call.kind;
    let text = format!(
        "StorageError: invalid object, Code: 4, Key: {}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in precondition: {wanted}, UID in object meta: {present}",
        registry_key(call),
    );
    Status::conflict(&kind.group, &kind.plural, &call.name, text)
}

/// The key under which the real server keeps the object; some messages show it.
fn registry_key(call: &Call) -> String {
    let kind = &call.kind;
    let prefix = match (kind.group.as_str(), kind.plural.as_str()) {
        ("", "nodes") => "minions".to_owned(),
        ("", "services") => "services/specs".to_owned(),
        ("", "endpoints") => "services/endpoints".to_owned(),
        ("networking.k8s.io", "ingresses") => "ingress".to_owned(),
        (group, plural) if kind.custom => format!("{group}/{plural}"),
        (_, plural) => plural.to_owned(),
    };
    format!("/registry/{prefix}/{}", call.key())
}

fn keep_generation(old: &Value, new: &mut Value) {
    let generation = meta(old).get("generation").cloned();
    if let Some(meta) = meta_mut(new) {
        match generation {
            Some(generation) => meta.insert("generation".into(), generation),
            None => meta.remove("generation"),
        };
    }
}

/// Uid, creation and deletion marks are the server's.
fn keep_system_fields(old: &Value, new: &mut Value) {
    let old = meta(old);
    let Some(new) = meta_mut(new) else { return };
    new.remove("selfLink");
    let absent =
        |new: &serde_json::Map<String, Value>, key: &str| new.get(key).is_none_or(|v| v.is_null() || v == "");
    let mut keep = |key: &str, always: bool| {
        if let Some(value) = old.get(key) {
            if always || absent(new, key) {
                new.insert(key.into(), value.clone());
            }
        }
    };
    keep("uid", false);
    keep("creationTimestamp", true);
    keep("deletionTimestamp", true);
    keep("deletionGracePeriodSeconds", false);
}

/// A marked object goes with the update that takes its last finalizer away.
pub(super) fn goes_with_update(kind: &Kind, old: &Value, new: &Value) -> bool {
    let marked = meta(old).contains_key("deletionTimestamp");
    let grace = meta(old).get("deletionGracePeriodSeconds").and_then(Value::as_i64).unwrap_or(0);
    // Namespaces have finalizers of their own in spec.
    let in_spec =
        kind.is_namespace() && new["spec"]["finalizers"].as_array().is_some_and(|list| !list.is_empty());
    marked && grace == 0 && finalizers(new).is_empty() && !in_spec
}

/// Whether there is nothing to write. When a manager wrote is no content: that
/// time is set before it is known what will be left of a change.
fn same_content(old: &Value, new: &Value) -> bool {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return false };
    same_fields(old, new, &["kind", "apiVersion"], |key, old, new| match (key, old, new) {
        ("metadata", Value::Object(old), Value::Object(new)) => {
            same_fields(old, new, &[], |key, old, new| match (key, old, new) {
                ("managedFields", Value::Array(old), Value::Array(new)) => same_managers(old, new),
                _ => old == new,
            })
        }
        _ => old == new,
    })
}

fn same_managers(old: &[Value], new: &[Value]) -> bool {
    old.len() == new.len()
        && old.iter().zip(new).all(|entries| match entries {
            (Value::Object(old), Value::Object(new)) => {
                same_fields(old, new, &["time"], |_, old, new| old == new)
            }
            (old, new) => old == new,
        })
}

fn same_fields(
    old: &Map<String, Value>,
    new: &Map<String, Value>,
    but: &[&str],
    same: impl Fn(&str, &Value, &Value) -> bool,
) -> bool {
    let counted = |key: &&String| !but.contains(&key.as_str());
    old.keys().filter(counted).count() == new.keys().filter(counted).count()
        && old
            .iter()
            .filter(|(key, _)| counted(key))
            .all(|(key, value)| new.get(key).is_some_and(|other| same(key, value, other)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_write_is_one_if_more_changes_than_its_time() {
        let object = |time: &str, fields: Value, data: &str| {
            json!({"metadata": {"name": "a", "managedFields": [{"manager": "m", "time": time, "fieldsV1": fields}]},
                "data": data})
        };
        let old = object("2026-01-01T00:00:00Z", json!({"f:data": {}}), "x");
        let mut later = object("2026-01-01T00:00:01Z", json!({"f:data": {}}), "x");
        assert!(same_content(&old, &later));
        assert!(!same_content(&old, &object("2026-01-01T00:00:00Z", json!({"f:data": {}}), "y")));
        assert!(!same_content(&old, &object("2026-01-01T00:00:00Z", json!({}), "x")));
        later["kind"] = "Thing".into();
        assert!(same_content(&old, &later), "which not every form of an object has");
        later["metadata"]["labels"] = json!({});
        assert!(!same_content(&old, &later));
    }
}
