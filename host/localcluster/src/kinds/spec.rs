//! What sets one built-in kind apart from the others, and the strategy that reads it.
//!
//! In: a `Spec`, one for each kind, written in the file of its group. Out: a `Strategy`. Invariant: whatever is the
//! same for all kinds is here and nowhere else.

use serde_json::{Map, Value, json};

use super::meta;
use super::names::NameRule;
use super::pod_annotations;
use super::scale::Scale;
use super::service_ip::Allocator;
use super::value::{copy, int, remove, set};
use crate::rest::strategy::{Ctx, Kind, Propagation, Strategy};
use crate::schema;
use crate::status::{FieldError, Status};
use crate::table::Columns;

/// Which changes raise `metadata.generation`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Generation {
    /// The kind has none.
    None,
    /// A changed `spec`.
    Spec,
    /// A changed `spec`, counted from nothing on.
    SpecChanges,
    /// A changed `spec` or annotation.
    SpecAndAnnotations,
    /// Anything outside metadata and status.
    Content,
    /// The same, and the labels.
    ContentAndLabels,
}

/// What is said first of a change that is wrong in several ways.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Metadata, what is wrong with the new object, what a change may not do.
    Content,
    /// Metadata, what a change may not do, what is wrong with the new object.
    Change,
    /// All that is wrong with the new object, then the changed metadata and what a change may not do.
    New,
}

/// What a write to `/status` keeps of the old metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StatusMeta {
    /// Takes the metadata it is sent.
    Taken,
    /// Takes all but the labels.
    KeepLabels,
    /// Takes all but the owners.
    KeepOwners,
    /// Keeps labels, annotations, finalizers and owners.
    KeepAll,
}

/// A kind.
pub struct Spec {
    /// How objects may be called.
    pub name: NameRule,
    /// The kind checks changed metadata itself, besides the generic layer.
    pub checks_meta: bool,
    /// What is wrong with a change is said in this order.
    pub order: Order,
    /// Answer to a field selector with an unknown field.
    pub unknown_field: Option<fn(&str) -> String>,
    /// Warning of every answer about the kind.
    pub deprecation: Option<&'static str>,
    /// Finalizers need a domain.
    pub core_finalizers: bool,
    /// A change is also checked as if it were new, metadata included.
    pub revalidates: bool,
    /// Which changes count.
    pub generation: Generation,
    /// What `/status` keeps.
    pub status_meta: StatusMeta,
    /// Fields that a write of the main resource does not change, as dotted paths.
    pub kept: &'static [&'static str],
    /// Keeps the status a create sends.
    pub keeps_status: bool,
    /// PUT to an absent name creates.
    pub create_on_update: bool,
    /// PUT needs no resourceVersion.
    pub unconditional: bool,
    /// A finished delete answers with the object.
    pub returns_deleted: bool,
    /// Why an object of this name cannot be deleted.
    pub undeletable: fn(&str) -> Option<&'static str>,
    /// Deletes take note of dependents.
    pub has_dependents: bool,
    /// A delete without a policy orphans.
    pub orphans: bool,
    /// And warns of it.
    pub unset_propagation_warning: Option<&'static str>,
    /// Defaults of the version.
    pub default: fn(&mut Value),
    /// More to do on creation.
    pub create: fn(&Ctx<'_>, &mut Value) -> Result<(), Status>,
    /// More to do on a change, with the subresource.
    pub update: fn(&Ctx<'_>, &str, &Value, &mut Value) -> Result<(), Status>,
    /// Checks content.
    pub validate: fn(&Value) -> Vec<FieldError>,
    /// Checks a new object, besides `validate`.
    pub validate_create: fn(&Value) -> Vec<FieldError>,
    /// Checks a change of the main resource, besides `validate`.
    pub validate_update: fn(&Value, &Value) -> Vec<FieldError>,
    /// Checks a change through a subresource.
    pub validate_sub: fn(&str, &Value, &Value) -> Vec<FieldError>,
    /// Names of selectable fields.
    pub field_names: &'static [&'static str],
    /// Their values.
    pub fields: fn(&Value) -> Vec<(&'static str, String)>,
    /// Grace period of a delete.
    pub grace: Option<fn(&Value, Option<i64>) -> Option<i64>>,
    /// Warnings about an object.
    pub warnings: fn(Option<&Value>, &Value) -> Vec<String>,
    /// How the scale subresource reads and writes it.
    pub scale: Option<Scale>,
    /// Printer columns.
    pub columns: Columns,
    /// Hands out values that no two objects may share.
    pub allocator: Option<Box<dyn Allocator>>,
    /// The field whose text is kept as it was sent.
    pub raw: Option<&'static str>,
    /// Conversions, for a version that is not the stored one: from it, and to it.
    pub convert: Option<(fn(Value) -> Value, fn(Value) -> Value)>,
}

impl Spec {
    /// A kind without peculiarities.
    pub fn new() -> Self {
        Self {
            name: NameRule::Subdomain,
            checks_meta: true,
            order: Order::Content,
            unknown_field: None,
            deprecation: None,
            core_finalizers: true,
            revalidates: false,
            generation: Generation::None,
            status_meta: StatusMeta::Taken,
            kept: &[],
            keeps_status: false,
            create_on_update: false,
            unconditional: true,
            returns_deleted: false,
            undeletable: |_| None,
            has_dependents: true,
            orphans: false,
            unset_propagation_warning: None,
            default: |_| {},
            create: |_, _| Ok(()),
            update: |_, _, _, _| Ok(()),
            validate: |_| Vec::new(),
            validate_create: |_| Vec::new(),
            validate_update: |_, _| Vec::new(),
            validate_sub: |_, _, _| Vec::new(),
            field_names: &[],
            fields: |_| Vec::new(),
            grace: None,
            warnings: |_, _| Vec::new(),
            scale: None,
            columns: Columns::NameAndCreation,
            allocator: None,
            raw: None,
            convert: None,
        }
    }
}

/// Strategy of a built-in kind.
pub struct Builtin {
    spec: Spec,
    namespaced: bool,
    has_status: bool,
}

impl Builtin {
    pub(super) fn new(spec: Spec, namespaced: bool, has_status: bool) -> Self {
        Self { spec, namespaced, has_status }
    }

    /// What the kind itself says of changed metadata, besides the generic layer.
    fn meta_update(&self, old: &Value, new: &Value) -> Vec<FieldError> {
        let mut out = Vec::new();
        if self.spec.checks_meta {
            out.extend(meta::update(old, new));
            out.extend(self.core_finalizers(new));
        }
        out
    }

    fn core_finalizers(&self, object: &Value) -> Vec<FieldError> {
        if self.spec.core_finalizers { meta::core_finalizers(object) } else { Vec::new() }
    }

    /// What is wrong with the metadata of a new object.
    fn meta_new(&self, object: &Value) -> Vec<FieldError> {
        let mut out = meta::create(object, self.namespaced, self.spec.name);
        out.extend(self.core_finalizers(object));
        out
    }

    fn count_generation(&self, old: &Value, new: &mut Value) {
        let changed = match self.spec.generation {
            Generation::None => {
                copy(&old["metadata"], &mut new["metadata"], "generation");
                return;
            }
            Generation::Spec | Generation::SpecChanges => old["spec"] != new["spec"],
            Generation::SpecAndAnnotations => {
                let annotations = |v: &Value| v["metadata"]["annotations"].clone();
                old["spec"] != new["spec"] || annotations(old) != annotations(new)
            }
            Generation::Content => content(old) != content(new),
            Generation::ContentAndLabels => {
                let labels = |v: &Value| v["metadata"]["labels"].clone();
                content(old) != content(new) || labels(old) != labels(new)
            }
        };
        let generation = int(&old["metadata"], "generation") + i64::from(changed);
        set(&mut new["metadata"], "generation", generation);
    }
}

/// Everything but metadata and status.
fn content(object: &Value) -> Map<String, Value> {
    let mut map = object.as_object().cloned().unwrap_or_default();
    for key in ["metadata", "status", "kind", "apiVersion"] {
        map.remove(key);
    }
    map
}

/// Makes the metadata of `new` that of `old`, except what the server keeps itself.
fn keep_meta(old: &Value, new: &mut Value, keys: &[&str]) {
    for key in keys {
        copy(&old["metadata"], &mut new["metadata"], key);
    }
}

impl Strategy for Builtin {
    fn default(&self, kind: &Kind, object: &mut Value) {
        (self.spec.default)(object);
        schema::normalize_sent(kind, object);
    }

    fn to_storage(&self, _kind: &Kind, object: Value) -> Value {
        match self.spec.convert {
            Some((to, _)) => to(object),
            None => object,
        }
    }

    fn from_storage(&self, kind: &Kind, object: Value) -> Value {
        match self.spec.convert {
            Some((_, from)) => {
                let mut object = from(object);
                schema::normalize(kind, &mut object);
                object
            }
            None => object,
        }
    }

    fn raw_field(&self) -> Option<&'static str> {
        self.spec.raw
    }

    fn is_storage_version(&self) -> bool {
        self.spec.convert.is_none()
    }

    fn prepare_create(&self, ctx: &Ctx<'_>, object: &mut Value) -> Result<(), Status> {
        if self.has_status && !self.spec.keeps_status {
            remove(object, "status");
        }
        match self.spec.generation {
            // A new object keeps the number it is sent with.
            Generation::None | Generation::SpecChanges => {}
            _ => set(&mut object["metadata"], "generation", 1),
        }
        (self.spec.create)(ctx, object)?;
        if let Some(allocator) = &self.spec.allocator {
            allocator.create(ctx, object)?;
        }
        schema::normalize(ctx.kind, object);
        Ok(())
    }

    fn validate_create(&self, _ctx: &Ctx<'_>, object: &Value) -> Vec<FieldError> {
        let mut out = self.meta_new(object);
        out.extend((self.spec.validate)(object));
        out.extend((self.spec.validate_create)(object));
        out
    }

    fn deleted(&self, object: &Value) {
        if let Some(allocator) = &self.spec.allocator {
            allocator.release(object);
        }
    }

    fn prepare_update(&self, ctx: &Ctx<'_>, sub: &str, old: &Value, new: &mut Value) -> Result<(), Status> {
        match sub {
            "" => {
                if self.has_status {
                    copy(old, new, "status");
                }
            }
            "status" => {
                let status = remove(new, "status").unwrap_or(json!({}));
                for key in content(old).keys().chain(content(new).keys()) {
                    copy(old, new, key);
                }
                set(new, "status", status);
                match self.spec.status_meta {
                    StatusMeta::Taken => {}
                    StatusMeta::KeepLabels => keep_meta(old, new, &["labels"]),
                    StatusMeta::KeepOwners => keep_meta(old, new, &["ownerReferences"]),
                    StatusMeta::KeepAll => {
                        keep_meta(old, new, &["labels", "annotations", "finalizers", "ownerReferences"])
                    }
                }
            }
            _ => {}
        }
        (self.spec.update)(ctx, sub, old, new)?;
        if let (Some(allocator), "") = (&self.spec.allocator, sub) {
            allocator.update(ctx, old, new)?;
        }
        match sub {
            "" | "scale" | "resize" | "ephemeralcontainers" => self.count_generation(old, new),
            _ => copy(&old["metadata"], &mut new["metadata"], "generation"),
        }
        schema::normalize(ctx.kind, new);
        Ok(())
    }

    fn validate_update(&self, _ctx: &Ctx<'_>, sub: &str, old: &Value, new: &Value) -> Vec<FieldError> {
        let mut out = meta::change(old, new, self.namespaced);
        if !matches!(sub, "" | "scale") {
            out.extend(self.meta_update(old, new));
            out.extend((self.spec.validate_sub)(sub, old, new));
            return out;
        }
        let again = if self.spec.revalidates { self.meta_new(new) } else { Vec::new() };
        let (mut content, change) = ((self.spec.validate)(new), (self.spec.validate_update)(old, new));
        pod_annotations::forgive(&mut content, || (self.spec.validate)(old));
        let meta = self.meta_update(old, new);
        let parts = match self.spec.order {
            Order::Content => [meta, again, content, change],
            Order::Change => [meta, again, change, content],
            Order::New => [again, content, meta, change],
        };
        out.extend(parts.into_iter().flatten());
        out
    }

    fn allow_create_on_update(&self) -> bool {
        self.spec.create_on_update
    }

    fn allow_unconditional_update(&self) -> bool {
        self.spec.unconditional
    }

    fn fields(&self, object: &Value) -> Vec<(&str, String)> {
        (self.spec.fields)(object)
    }

    fn supports_field(&self, label: &str) -> bool {
        self.spec.field_names.contains(&label)
    }

    fn has_fields(&self) -> bool {
        !self.spec.field_names.is_empty()
    }

    fn unset_propagation_warning(&self) -> Option<&'static str> {
        self.spec.unset_propagation_warning
    }

    fn undeletable(&self, name: &str) -> Option<&'static str> {
        (self.spec.undeletable)(name)
    }

    fn has_dependents(&self) -> bool {
        self.spec.has_dependents
    }

    fn default_propagation(&self) -> Propagation {
        if self.spec.orphans { Propagation::Orphan } else { Propagation::Background }
    }

    fn returns_deleted_object(&self) -> bool {
        self.spec.returns_deleted
    }

    fn grace_period(&self, object: &Value, asked: Option<i64>) -> Option<i64> {
        self.spec.grace.and_then(|grace| grace(object, asked))
    }

    fn warnings(&self, old: Option<&Value>, new: &Value) -> Vec<String> {
        (self.spec.warnings)(old, new)
    }

    fn scale(&self, kind: &Kind, object: &Value) -> Result<Value, Status> {
        match &self.spec.scale {
            Some(scale) => Ok(scale.read(object)),
            None => Err(kind.not_found("")),
        }
    }

    fn set_scale(&self, kind: &Kind, object: &mut Value, scale: &Value) -> Result<(), Status> {
        if self.spec.scale.is_none() {
            return Err(kind.not_found(""));
        }
        set(&mut object["spec"], "replicas", int(&scale["spec"], "replicas"));
        Ok(())
    }

    fn kept(&self, sub: &str) -> &'static [&'static str] {
        if sub.is_empty() {
            return self.spec.kept;
        } else if sub != "status" {
            return &[];
        }
        match self.spec.status_meta {
            StatusMeta::Taken => &[],
            StatusMeta::KeepLabels => &["metadata.labels"],
            StatusMeta::KeepOwners => &["metadata.ownerReferences", "metadata.deletionTimestamp"],
            StatusMeta::KeepAll => &["metadata"],
        }
    }

    fn unknown_field(&self, label: &str) -> Option<String> {
        self.spec.unknown_field.map(|words| words(label))
    }

    fn deprecation(&self) -> Option<String> {
        self.spec.deprecation.map(str::to_owned)
    }

    fn columns(&self) -> &Columns {
        &self.spec.columns
    }
}
