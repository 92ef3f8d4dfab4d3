//! What the REST layer asks of a kind: its names, and the hooks that make it behave as itself.
//!
//! In: objects as JSON. Out: objects made ready to store, or why not. Invariant: a strategy holds no object state.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::status::{FieldError, Status};

/// Where objects are kept; versions of one kind share it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct StorageId {
    /// Group the objects are stored under.
    pub group: String,
    /// Plural name.
    pub plural: String,
}

/// A subresource as discovery shows it.
#[derive(Clone, Debug)]
pub struct Subresource {
    /// `status`, `scale`, `log`…
    pub name: String,
    /// Group, version and kind of its body; empty group and version mean the parent's.
    pub group: String,
    /// See `group`.
    pub version: String,
    /// Kind of its body.
    pub kind: String,
    /// Verbs served, in discovery's order.
    pub verbs: Vec<&'static str>,
}

/// A served kind in one version.
#[derive(Clone)]
pub struct Kind {
    /// API group; empty for core.
    pub group: String,
    /// Version.
    pub version: String,
    /// Resource name in paths.
    pub plural: String,
    /// Name for one, as kubectl takes it.
    pub singular: String,
    /// Kind of an object.
    pub kind: String,
    /// Kind of a list.
    pub list_kind: String,
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Categories such as `all`.
    pub categories: Vec<String>,
    /// Whether objects live in namespaces.
    pub namespaced: bool,
    /// Verbs served on the main resource, in discovery's order.
    pub verbs: Vec<&'static str>,
    /// Subresources.
    pub subresources: Vec<Subresource>,
    /// Where objects are kept.
    pub storage: StorageId,
    /// Shown in the plain discovery document; empty leaves it out.
    pub storage_version_hash: String,
    /// From a CustomResourceDefinition.
    pub custom: bool,
    /// Behaviour.
    pub strategy: Arc<dyn Strategy>,
}

impl Kind {
    /// `v1` or `apps/v1`.
    pub fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `"apiVersion":"v1","kind":"Pod",`: what stands in front of an object's body.
    pub fn type_meta(&self) -> String {
        format!(r#""apiVersion":"{}","kind":"{}","#, self.api_version(), self.kind)
    }

    /// `pods` or `deployments.apps`.
    pub fn qualified(&self) -> String {
        crate::status::qualified(&self.group, &self.plural)
    }

    /// Namespaces: the one kind whose deletion the server itself spreads over two steps.
    pub fn is_namespace(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    /// Definitions of custom resources, which stay until their instances are gone.
    pub fn is_definition(&self) -> bool {
        self.group == "apiextensions.k8s.io" && self.plural == "customresourcedefinitions"
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// 404 for an object of this kind.
    pub fn not_found(&self, name: &str) -> Status {
        Status::not_found(&self.group, &self.plural, name)
    }

    /// 422 for an object of this kind.
    pub fn invalid(&self, name: &str, errors: Vec<FieldError>) -> Status {
        // Events are one kind under two groups, and known by the older one.
        Status::invalid(&self.storage.group, &self.kind, name, errors)
    }
}

impl std::fmt::Debug for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.api_version(), self.kind)
    }
}

/// What a write may look up about other objects, and the few writes admission makes itself.
pub trait Lookup: Send + Sync {
    /// One object of a resource, with kind and apiVersion left out; `namespace` is empty for cluster scope.
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value>;
    /// One object of a resource, if these words stand in its stored form: others are not parsed.
    fn mentioning(
        &self,
        words: &str,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        self.get(group, plural, namespace, name).filter(|object| object.to_string().contains(words))
    }
    /// All objects of a resource in a namespace (all namespaces if empty), ordered by key.
    fn list(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value>;
    /// All objects of a resource of which there are few; they may be parsed once for many calls.
    fn few(&self, group: &str, plural: &str) -> Arc<Vec<Value>> {
        Arc::new(self.list(group, plural, ""))
    }
    /// The plural name of a kind in a group, and whether its objects live in namespaces.
    fn of_kind(&self, _group: &str, _kind: &str) -> Option<(String, bool)> {
        None
    }
    /// Changes one object in place, atomically: `change` may be run again on a newer object.
    /// It returns false to leave the object alone. False if there is no such object.
    fn modify(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        change: &mut dyn FnMut(&mut Value) -> Result<bool, Status>,
    ) -> Result<bool, Status>;
}

/// Declares resources with their group and plural name, and the list of all of them.
macro_rules! consulted {
    ($($name:ident: $group:literal, $plural:literal;)*) => {
        /// Other resources that a write is checked against, which is all that admission and kinds ask for:
        /// whoever plays writes on a copy of a cluster has these there first.
        #[allow(missing_docs, reason = "they are called as their resources are")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Consulted {
            $($name,)*
        }

        impl Consulted {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            /// Group and plural name.
            pub const fn resource(self) -> (&'static str, &'static str) {
                match self {
                    $(Self::$name => ($group, $plural),)*
                }
            }
        }
    };
}

consulted! {
    IngressClasses: "networking.k8s.io", "ingressclasses";
    LimitRanges: "", "limitranges";
    Namespaces: "", "namespaces";
    PodDisruptionBudgets: "policy", "poddisruptionbudgets";
    PriorityClasses: "scheduling.k8s.io", "priorityclasses";
    ResourceQuotas: "", "resourcequotas";
    RuntimeClasses: "node.k8s.io", "runtimeclasses";
    ServiceCidrs: "networking.k8s.io", "servicecidrs";
    Services: "", "services";
    StorageClasses: "storage.k8s.io", "storageclasses";
}

/// Objects of a resource that a write is checked against.
pub struct Others<'a> {
    lookup: &'a dyn Lookup,
    group: &'static str,
    plural: &'static str,
}

impl Others<'_> {
    /// One of them; `namespace` is empty for cluster scope.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Value> {
        self.lookup.get(self.group, self.plural, namespace, name)
    }

    /// One of them, if these words stand in it.
    pub fn mentioning(&self, words: &str, namespace: &str, name: &str) -> Option<Value> {
        self.lookup.mentioning(words, self.group, self.plural, namespace, name)
    }

    /// All in a namespace, or in all if it is empty.
    pub fn list(&self, namespace: &str) -> Vec<Value> {
        self.lookup.list(self.group, self.plural, namespace)
    }

    /// All, where there are few.
    pub fn few(&self) -> Arc<Vec<Value>> {
        self.lookup.few(self.group, self.plural)
    }

    /// Changes one in place, as [`Lookup::modify`] does.
    ///
    /// # Errors
    ///
    /// What `change` says.
    pub fn modify(
        &self,
        namespace: &str,
        name: &str,
        change: &mut dyn FnMut(&mut Value) -> Result<bool, Status>,
    ) -> Result<bool, Status> {
        self.lookup.modify(self.group, self.plural, namespace, name, change)
    }
}

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Uid, may be empty.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// What else the credential says.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// What surrounds one write.
pub struct Ctx<'a> {
    /// The kind written.
    pub kind: &'a Kind,
    /// Other objects.
    pub lookup: &'a dyn Lookup,
    /// Namespace of the request; empty for cluster scope.
    pub namespace: &'a str,
    /// Who asks.
    pub user: &'a User,
    /// Now, as RFC 3339 in whole seconds: the form of `creationTimestamp`.
    pub now: String,
    /// Nothing is stored in the end: reserve nothing.
    pub dry_run: bool,
    /// `Warning` headers of the answer.
    pub warnings: RefCell<Vec<String>>,
}

impl Ctx<'_> {
    /// Objects that the write is checked against.
    pub fn consult(&self, others: Consulted) -> Others<'_> {
        let (group, plural) = others.resource();
        Others { lookup: self.lookup, group, plural }
    }

    /// Pods of a namespace, to warn of and for nothing else: a copy of a cluster need not have them.
    pub fn pods_to_warn_of(&self, namespace: &str) -> Vec<Value> {
        self.lookup.list("", "pods", namespace)
    }

    /// Adds a `Warning` header.
    pub fn warn(&self, text: impl Into<String>) {
        let text = text.into();
        let mut warnings = self.warnings.borrow_mut();
        if !warnings.contains(&text) {
            warnings.push(text);
        }
    }
}

/// What a delete does with dependents if the request does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Dependents go later.
    Background,
    /// Dependents go first.
    Foreground,
    /// Dependents stay.
    Orphan,
}

/// Behaviour of a kind. `sub` is the subresource written through, empty for the object itself.
pub trait Strategy: Send + Sync {
    /// Fills in defaults of this version. Runs on decoded bodies and patch results.
    fn default(&self, _kind: &Kind, _object: &mut Value) {}

    /// From this version to the stored form. Neither has kind and apiVersion.
    fn to_storage(&self, _kind: &Kind, object: Value) -> Value {
        object
    }

    /// From the stored form to this version.
    fn from_storage(&self, _kind: &Kind, object: Value) -> Value {
        object
    }

    /// True if stored bytes can be sent as they are (both conversions are identities).
    fn is_storage_version(&self) -> bool {
        true
    }

    /// Makes a new object ready: no status, first generation, allocated values.
    fn prepare_create(&self, _ctx: &Ctx<'_>, _object: &mut Value) -> Result<(), Status> {
        Ok(())
    }

    /// The webhook that would convert between this version and the stored one.
    fn conversion_webhook(&self) -> Option<&crate::crd::ConversionWebhook> {
        None
    }

    /// The field whose text is kept as it was sent.
    fn raw_field(&self) -> Option<&'static str> {
        None
    }

    /// Checks a new object, its metadata included.
    fn validate_create(&self, _ctx: &Ctx<'_>, _object: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// Runs when an object is really stored or really gone, e.g. to give back an address. Never for dry runs.
    fn deleted(&self, _object: &Value) {}

    /// Keeps what this write may not touch, counts the generation.
    fn prepare_update(
        &self,
        _ctx: &Ctx<'_>,
        _sub: &str,
        _old: &Value,
        _new: &mut Value,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Checks a change, metadata included.
    fn validate_update(&self, _ctx: &Ctx<'_>, _sub: &str, _old: &Value, _new: &Value) -> Vec<FieldError> {
        Vec::new()
    }

    /// A PUT to an absent name creates it.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// A PUT needs no resourceVersion.
    fn allow_unconditional_update(&self) -> bool {
        true
    }

    /// Values that field selectors may ask for, beyond `metadata.name` and `metadata.namespace`.
    fn fields(&self, _object: &Value) -> Vec<(&str, String)> {
        Vec::new()
    }

    /// Whether a field selector may name `label` (beyond name and namespace).
    fn supports_field(&self, _label: &str) -> bool {
        false
    }

    /// Whether it has selectable fields of its own; refusals of other fields differ by that.
    fn has_fields(&self) -> bool {
        false
    }

    /// A warning that goes with every answer, as of a deprecated version.
    fn deprecation(&self) -> Option<String> {
        None
    }

    /// What a delete without a policy does with dependents.
    fn default_propagation(&self) -> Propagation {
        Propagation::Background
    }

    /// Whether a delete takes note of dependents, whatever policy it asks for.
    fn has_dependents(&self) -> bool {
        true
    }

    /// Why an object of this name cannot be deleted, if so.
    fn undeletable(&self, _name: &str) -> Option<&'static str> {
        None
    }

    /// What to warn of when a delete does not say what to do with dependents.
    fn unset_propagation_warning(&self) -> Option<&'static str> {
        None
    }

    /// A finished delete answers with the object instead of a Status.
    fn returns_deleted_object(&self) -> bool {
        false
    }

    /// For kinds that are deleted gracefully: the grace period to use for this object, given what was asked.
    /// None: the kind knows no grace.
    fn grace_period(&self, _object: &Value, _asked: Option<i64>) -> Option<i64> {
        None
    }

    /// Warnings for a create (`old` absent) or an update.
    fn warnings(&self, _old: Option<&Value>, _new: &Value) -> Vec<String> {
        Vec::new()
    }

    /// Printer columns.
    fn columns(&self) -> &crate::table::Columns {
        &crate::table::NAME_AND_CREATION
    }

    /// Fields that a write through the subresource does not change, as dotted paths; of the main resource that is always
    /// the status, of `/status` always the spec, and these need no mention.
    fn kept(&self, _sub: &str) -> &'static [&'static str] {
        &[]
    }

    /// What a field selector with an unknown field is answered with; none for the generic words.
    fn unknown_field(&self, _label: &str) -> Option<String> {
        None
    }

    /// Path of the replicas that the scale subresource sets.
    fn replicas_path(&self) -> &str {
        "spec.replicas"
    }

    /// The schema of a custom resource.
    fn structural(&self) -> Option<&crate::crd::Structural> {
        None
    }

    /// The scale that a change of it starts from: an object may say nothing of its replicas yet.
    fn present_scale(&self, kind: &Kind, object: &Value) -> Result<Value, Status> {
        self.scale(kind, object)
    }

    /// The `Scale` of an object, complete with kind and apiVersion.
    fn scale(&self, kind: &Kind, _object: &Value) -> Result<Value, Status> {
        Err(kind.not_found(""))
    }

    /// Puts the replicas of a `Scale` into the object.
    fn set_scale(&self, kind: &Kind, _object: &mut Value, _scale: &Value) -> Result<(), Status> {
        Err(kind.not_found(""))
    }
}
