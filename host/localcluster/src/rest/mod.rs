//! The REST layer: what a request means, from its verb down to the store.
//!
//! In: calls with decoded options. Out: answers, in the form of objects and not yet of bytes. Invariant: a call that
//! fails has changed nothing.

mod admin;
pub mod answer;
mod body;
pub mod clock;
mod create;
mod delete;
mod health;
mod http;
mod inprocess;
mod logs;
mod negotiate;
pub mod options;
mod page_token;
pub mod path;
mod paths;
mod read;
pub mod registry;
mod render;
mod respond;
mod review;
pub mod strategy;
mod subresource;
mod tokens;
mod update;
mod watch;

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::authorization::{AuthorizationMode, Policies};
use crate::discovery::Discovery;
use crate::faults::Faults;
use crate::patch::go::go_number;
use crate::status::Status;
use crate::storage::{Store, Table, WriteError};
pub use admin::AdminHandler;
pub use answer::{Answer, Object};
pub use http::{Body, Cut, Request, Response};
pub(crate) use inprocess::keep_following;
pub use inprocess::{InProcess, Target, WatchEvent, Watching};
use options::WriteOptions;
use registry::Registry;
pub(crate) use render::to_yaml;
pub use respond::{failure, text_response};
use strategy::{Ctx, Kind, Lookup, User};
pub use tokens::{ADMIN, admin};

/// The API server without its sockets.
pub struct Rest {
    pub(crate) store: Arc<Store>,
    pub(crate) registry: Registry,
    pub(crate) clock: clock::Clock,
    pub(crate) entropy: clock::Entropy,
    pub(crate) faults: Faults,
    pub(crate) discovery: Discovery,
    tokens: tokens::Tokens,
    admin_endpoint: bool,
    pub(crate) authorization: AuthorizationMode,
    pub(crate) policies: Policies,
    /// Resources of few objects, parsed, each as of a version.
    few: Mutex<HashMap<strategy::StorageId, (u64, Arc<Vec<Value>>)>>,
    extra_admin: OnceLock<AdminHandler>,
    witness: OnceLock<Witness>,
}

/// Is shown each request as it arrives.
pub type Witness = Box<dyn Fn(&Request) + Send + Sync>;

/// What a [`Rest`] is made of.
pub struct RestConfig {
    /// Objects.
    pub store: Arc<Store>,
    /// Time.
    pub clock: clock::Clock,
    /// Seed of uids and generated names; none for real randomness.
    pub seed: Option<u64>,
    /// Bearer token of the administrator.
    pub admin_token: String,
    /// Public half of the key of tokens that are kept in Secrets (P-256, SEC 1); empty: there are none.
    pub service_account_key: Vec<u8>,
    /// Serve `/localcluster/`, where faults are asked for.
    pub admin_endpoint: bool,
    /// Who may do what.
    pub authorization: AuthorizationMode,
}

/// One write or read of an object.
#[derive(Clone, Debug)]
pub struct Call {
    /// What kind.
    pub kind: Arc<Kind>,
    /// Empty for cluster scope.
    pub namespace: String,
    /// Empty for a collection.
    pub name: String,
    /// Subresource; empty for the object itself.
    pub sub: String,
    /// Who asks.
    pub user: User,
    /// Options of a write.
    pub write: WriteOptions,
}

impl Rest {
    /// Serves the built-in kinds.
    pub fn new(config: RestConfig) -> Arc<Self> {
        let entropy = clock::Entropy::new(config.seed);
        let rest = Self {
            tokens: tokens::Tokens::new(entropy.bytes(), config.admin_token, config.service_account_key),
            store: config.store,
            registry: Registry::new(crate::kinds::builtin()),
            clock: config.clock,
            faults: Faults::new(config.seed),
            entropy,
            discovery: Discovery::default(),
            admin_endpoint: config.admin_endpoint,
            authorization: config.authorization,
            policies: Policies::default(),
            few: Mutex::default(),
            extra_admin: OnceLock::new(),
            witness: OnceLock::new(),
        };
        Arc::new(rest)
    }

    /// Has each request shown to a witness from now on, before anything comes of
    /// it. There can be one.
    pub fn set_witness(&self, witness: Witness) {
        if self.witness.set(witness).is_err() {
            tracing::warn!("there is a witness of the requests already; the first one stays");
        }
    }

    /// Takes an object over as another server has it, uid, times and owners included; only its resourceVersion is
    /// this one's. One that is there already stays as it is. `kind` is the one its resource is stored as.
    pub fn import(&self, kind: &Kind, object: &Value) {
        let key = key(meta_text(object, "namespace"), meta_text(object, "name"));
        if let Err(WriteError::Exists) = self.table(kind).create(&key, draft(kind, object)) {
            tracing::debug!(key, kind = kind.kind, "is there already");
        }
    }

    /// The kinds served.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// The objects.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Now, as objects show it.
    pub fn now(&self) -> jiff::Timestamp {
        self.clock.now()
    }

    /// Faults on request.
    pub fn faults(&self) -> &Faults {
        &self.faults
    }

    /// Where objects of a kind are kept.
    pub(crate) fn table(&self, kind: &Kind) -> Arc<Table> {
        if let Some(table) = self.store.existing(&kind.storage) {
            return table;
        }
        let kinds = self.registry.kinds();
        let stored = kinds.stored(&kind.storage).map_or_else(|| kind.type_meta(), |k| k.type_meta());
        self.store.table(&kind.storage, &stored)
    }

    pub(crate) fn ctx<'a>(&'a self, call: &'a Call) -> Ctx<'a> {
        Ctx {
            kind: &call.kind,
            lookup: self,
            namespace: &call.namespace,
            user: &call.user,
            now: self.clock.seconds(),
            dry_run: call.write.dry_run,
            warnings: RefCell::default(),
        }
    }

    /// Version of the last change of a resource.
    pub(crate) fn last_change(&self, group: &str, plural: &str) -> u64 {
        self.lookup_table(group, plural).map_or(0, |(_, table)| table.last_change())
    }

    fn lookup_table(&self, group: &str, plural: &str) -> Option<(Arc<Kind>, Arc<Table>)> {
        let kinds = self.registry.kinds();
        let id = strategy::StorageId { group: group.into(), plural: plural.into() };
        let kind = kinds.stored(&id)?.clone();
        let table = self.table(&kind);
        Some((kind, table))
    }
}

impl Call {
    /// Key of the object in its table.
    pub fn key(&self) -> String {
        key(&self.namespace, &self.name)
    }
}

/// `namespace/name`, or `name` for cluster scope.
pub fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

impl Lookup for Rest {
    fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        let (_, table) = self.lookup_table(group, plural)?;
        table.get(&key(namespace, name)).map(|stored| stored.value())
    }

    fn mentioning(
        &self,
        words: &str,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
    ) -> Option<Value> {
        let (_, table) = self.lookup_table(group, plural)?;
        table.get(&key(namespace, name)).filter(|stored| stored.mentions(words)).map(|stored| stored.value())
    }

    fn list(&self, group: &str, plural: &str, namespace: &str) -> Vec<Value> {
        let Some((_, table)) = self.lookup_table(group, plural) else { return Vec::new() };
        let prefix = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let range = crate::storage::Range { prefix: &prefix, ..Default::default() };
        let listing = table.list(&range, &|_, _| true).unwrap_or_default();
        listing.items.iter().map(|(_, stored)| stored.value()).collect()
    }

    fn few(&self, group: &str, plural: &str) -> Arc<Vec<Value>> {
        let version = self.last_change(group, plural);
        let id = strategy::StorageId { group: group.into(), plural: plural.into() };
        if let Some((of, objects)) = self.few.lock().get(&id) {
            if *of == version {
                return objects.clone();
            }
        }
        let objects = Arc::new(Lookup::list(self, group, plural, ""));
        self.few.lock().insert(id, (version, objects.clone()));
        objects
    }

    fn of_kind(&self, group: &str, kind: &str) -> Option<(String, bool)> {
        let kinds = self.registry.kinds();
        let found = kinds.all().iter().find(|k| k.group == group && k.kind == kind);
        found.map(|kind| (kind.storage.plural.clone(), kind.namespaced))
    }

    fn modify(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        change: &mut dyn FnMut(&mut Value) -> Result<bool, Status>,
    ) -> Result<bool, Status> {
        let Some((kind, table)) = self.lookup_table(group, plural) else { return Ok(false) };
        let key = key(namespace, name);
        loop {
            let Some(current) = table.get(&key) else { return Ok(false) };
            let mut object = current.value();
            if !change(&mut object)? {
                return Ok(true);
            }
            match table.update(&key, current.rv, draft(&kind, &object)) {
                Ok(_) => return Ok(true),
                Err(WriteError::Moved) => {}
                Err(_) => return Ok(false),
            }
        }
    }
}

/// Encodes an object in its stored form.
pub(crate) fn draft(kind: &Kind, object: &Value) -> crate::storage::Draft {
    crate::storage::Draft::new(object, &kind.strategy.fields(object))
}

/// The same for another state of a stored object: what is kept as it was sent stays.
pub(crate) fn draft_after(
    kind: &Kind,
    object: &Value,
    before: &crate::storage::Stored,
) -> crate::storage::Draft {
    draft_with(kind, object, |field| crate::storage::raw::field(&before.bare(), field))
}

/// The same with the text of the field that is kept as it was sent.
pub(crate) fn draft_with(
    kind: &Kind,
    object: &Value,
    text: impl FnOnce(&str) -> Option<Box<str>>,
) -> crate::storage::Draft {
    let whole;
    let object = if kind.custom && has_float(object) {
        whole = without_fractions(object.clone());
        &whole
    } else {
        object
    };
    let raw = kind.strategy.raw_field().and_then(|field| Some((field, text(field)?)));
    let raw = raw.as_ref().map(|(field, text)| (*field, &**text));
    crate::storage::Draft::keeping(object, &kind.strategy.fields(object), raw)
}

fn has_float(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.is_f64(),
        Value::Array(items) => items.iter().any(has_float),
        Value::Object(map) => map.values().any(has_float),
        _ => false,
    }
}

/// Numbers in it as Go writes them.
fn without_fractions(value: Value) -> Value {
    match value {
        Value::Number(number) => go_number(&number),
        Value::Array(items) => items.into_iter().map(without_fractions).collect(),
        Value::Object(map) => map.into_iter().map(|(key, value)| (key, without_fractions(value))).collect(),
        other => other,
    }
}

pub(crate) fn meta(object: &Value) -> &Map<String, Value> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    object.get("metadata").and_then(Value::as_object).unwrap_or(&EMPTY)
}

pub(crate) fn meta_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    let object = object.as_object_mut()?;
    object.entry("metadata").or_insert_with(|| Value::Object(Map::new())).as_object_mut()
}

pub(crate) fn meta_text<'a>(object: &'a Value, key: &str) -> &'a str {
    meta(object).get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Finalizers of an object.
pub(crate) fn finalizers(object: &Value) -> Vec<&str> {
    let list = meta(object).get("finalizers").and_then(Value::as_array);
    list.map(|l| l.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

pub(crate) fn drop_type_meta(object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
}

pub(crate) fn add_type_meta(kind: &Kind, object: &mut Value) {
    if let Some(map) = object.as_object_mut() {
        map.insert("kind".into(), kind.kind.clone().into());
        map.insert("apiVersion".into(), kind.api_version().into());
    }
}
