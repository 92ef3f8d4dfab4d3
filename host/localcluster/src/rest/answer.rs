//! What a call comes to, before it is turned into bytes.

use std::sync::Arc;

use serde_json::Value;

use super::strategy::Kind;
use super::watch::Watcher;
use crate::storage::Stored;

/// An object of the call's kind.
#[derive(Clone, Debug)]
pub enum Object {
    /// As stored: sent without being parsed where the form allows it.
    Stored(Arc<Stored>),
    /// In the version of the call, without kind and apiVersion.
    Value(Value),
}

impl Object {
    /// In the version of `kind`, without kind and apiVersion.
    pub fn value(&self, kind: &Kind) -> Value {
        match self {
            Self::Stored(stored) if kind.strategy.is_storage_version() => stored.value(),
            Self::Stored(stored) => kind.strategy.from_storage(kind, stored.value()),
            Self::Value(value) => value.clone(),
        }
    }

    /// In the version that is stored, of which metadata and cells are shown: what other versions keep in annotations
    /// is not in it.
    pub fn internal(&self, kind: &Kind) -> Value {
        match self {
            _ if kind.custom || kind.strategy.is_storage_version() => self.value(kind),
            Self::Stored(stored) => stored.value(),
            Self::Value(value) => kind.strategy.to_storage(kind, value.clone()),
        }
    }

    /// What `internal` gave, in the version of `kind`.
    pub fn versioned(kind: &Kind, internal: &Value) -> Value {
        match kind.custom || kind.strategy.is_storage_version() {
            true => internal.clone(),
            false => kind.strategy.from_storage(kind, internal.clone()),
        }
    }

    /// In the version of `kind`, whole.
    pub fn whole(&self, kind: &Kind) -> Value {
        let mut value = self.value(kind);
        super::add_type_meta(kind, &mut value);
        value
    }
}

/// A list or a page of one.
#[derive(Debug, Default)]
pub struct List {
    /// In order.
    pub items: Vec<Object>,
    /// Version of the list.
    pub rv: u64,
    /// Token of the next page; empty at the end.
    pub continue_token: String,
    /// Objects behind this page, where that is known.
    pub remaining: Option<usize>,
}

/// The outcome of a call.
pub enum Outcome {
    /// One object.
    Object(Object),
    /// Objects.
    List(List),
    /// A complete object of another kind: Scale, Status, TokenReview….
    Other(Value),
    /// Plain text.
    Text(String),
    /// Nothing.
    Empty,
    /// Events until someone ends it.
    Watch(Box<Watcher>),
}

/// An outcome with its code and warnings.
pub struct Answer {
    /// HTTP code.
    pub code: u16,
    /// The kind of the objects in it.
    pub kind: Arc<Kind>,
    /// What.
    pub outcome: Outcome,
    /// `Warning` headers.
    pub warnings: Vec<String>,
}

impl Answer {
    /// 200 without warnings.
    pub fn ok(kind: &Arc<Kind>, outcome: Outcome) -> Self {
        Self { code: 200, kind: kind.clone(), outcome, warnings: Vec::new() }
    }

    /// With another code.
    pub fn with_code(mut self, code: u16) -> Self {
        self.code = code;
        self
    }

    /// With warnings.
    pub fn with_warnings(mut self, warnings: Vec<String>) -> Self {
        self.warnings = warnings;
        self
    }
}
