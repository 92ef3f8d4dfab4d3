//! Queries over the cache.

use crate::contract::{IndexMatch, ResourceSet};
use crate::resource::ResourceId;
use crate::selector::Selector;

/// Conditions, all of which must hold. Starts with everything of the view's
/// resource.
#[derive(Clone, Debug, Default)]
pub struct Query {
    pub(crate) resources: Which,
    pub(crate) namespace: Option<String>,
    pub(crate) index: Option<IndexMatch>,
    pub(crate) labels: Option<String>,
}

/// Which resources.
#[derive(Clone, Debug, Default)]
pub(crate) enum Which {
    /// That of the view.
    #[default]
    OfView,
    /// Those named.
    These(Vec<ResourceId>),
    /// All that the module reads.
    All,
}

impl Query {
    /// Everything.
    pub fn all() -> Self {
        Self::default()
    }

    /// Only this namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// Only objects whose controller has this uid.
    pub fn controlled_by(self, uid: &str) -> Self {
        self.index("controller", &[uid])
    }

    /// Only objects one of whose owners has this uid.
    pub fn owned_by(self, uid: &str) -> Self {
        self.index("owner", &[uid])
    }

    /// Only objects without a controller.
    pub fn orphans(self) -> Self {
        self.index("orphan", &["true"])
    }

    /// Only the object of this uid.
    pub fn uid(self, uid: &str) -> Self {
        self.index("uid", &[uid])
    }

    /// Only objects with this value in an index; one part for each path.
    pub fn index(mut self, index: &str, value: &[&str]) -> Self {
        let value = value.iter().map(|part| (*part).to_owned()).collect();
        self.index = Some(IndexMatch { index: index.to_owned(), value });
        self
    }

    /// Only objects whose labels match.
    pub fn matching(mut self, selector: &Selector) -> Self {
        self.labels = Some(selector.text());
        self
    }

    /// Only objects whose labels match, in the API's string form.
    pub fn labels(mut self, labels: &str) -> Self {
        self.labels = Some(labels.to_owned());
        self
    }

    /// Another resource than the view's, or several.
    pub fn resources<R: Into<ResourceId>>(mut self, resources: impl IntoIterator<Item = R>) -> Self {
        self.resources = Which::These(resources.into_iter().map(Into::into).collect());
        self
    }

    /// All resources that the module reads; those not synced are left out.
    pub fn every_resource(mut self) -> Self {
        self.resources = Which::All;
        self
    }

    /// The contract's form of these numbers.
    pub(crate) fn set_of(numbers: Vec<u32>) -> ResourceSet {
        match numbers.as_slice() {
            [one] => ResourceSet::One(*one),
            _ => ResourceSet::Several(numbers),
        }
    }
}
