//! Questions past the cache. Their ids derive from what they ask, so that a
//! reconcile which asks again finds the answer.

use crate::contract;
use crate::ctx::Ctx;
use crate::error::{Error, Result};
use crate::resource::{Resource, ResourceId};

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub enum Ask {
    /// GET of an object or a subresource of it.
    Get {
        /// The resource.
        resource: ResourceId,
        /// Namespace; empty for objects of the cluster.
        namespace: String,
        /// Name.
        name: String,
        /// Subresource; empty for the object itself.
        subresource: String,
        /// Whether only metadata is wanted.
        metadata_only: bool,
        /// Uid that the object must have; empty if any will do.
        uid: String,
    },
    /// LIST of a resource.
    List {
        /// The resource.
        resource: ResourceId,
        /// Namespace; empty for all.
        namespace: String,
        /// Label selector; empty for all.
        labels: String,
        /// Field selector; empty for all.
        fields: String,
        /// Page size; 0 for everything.
        limit: u32,
        /// Continue token of the page before.
        continue_from: String,
        /// Whether only metadata is wanted.
        metadata_only: bool,
    },
    /// GET of a path, query included.
    Raw(String),
    /// POST of a review.
    Review {
        /// The kind of review.
        resource: Resource,
        /// Namespace; empty for reviews of the cluster.
        namespace: String,
        /// The review (JSON).
        body: String,
    },
    /// A signature by a key that the host holds.
    Sign(contract::SignLookup),
}

impl Ask {
    /// GET of an object.
    pub fn get(resource: impl Into<ResourceId>, namespace: &str, name: &str) -> Self {
        Self::Get {
            resource: resource.into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            metadata_only: false,
            uid: String::new(),
        }
    }

    /// GET of an object's metadata.
    pub fn get_metadata(resource: impl Into<ResourceId>, namespace: &str, name: &str) -> Self {
        Self::Get {
            resource: resource.into(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            subresource: String::new(),
            metadata_only: true,
            uid: String::new(),
        }
    }

    /// Takes an object of another uid for none (status 404). The host remembers
    /// who is gone, so that many dependents of one owner cost one request.
    pub fn expecting_uid(mut self, expected: &str) -> Self {
        if let Self::Get { uid, .. } = &mut self {
            expected.clone_into(uid);
        }
        self
    }

    /// What it asks for, in words: of an object, its resource and its name.
    pub(crate) fn subject(&self) -> String {
        match self {
            Self::Get { resource, namespace, name, .. } if namespace.is_empty() => {
                format!("{} {name}", name_of(resource))
            }
            Self::Get { resource, namespace, name, .. } => {
                format!("{} {namespace}/{name}", name_of(resource))
            }
            _ => self.id(),
        }
    }

    /// The lookup's id: the question itself.
    pub fn id(&self) -> String {
        match self {
            Self::Get { resource, namespace, name, subresource, metadata_only, uid } => {
                let what = if *metadata_only { "get metadata" } else { "get" };
                let uid = if uid.is_empty() { String::new() } else { format!(" of uid {uid}") };
                format!("{what} {} {namespace}/{name}/{subresource}{uid}", name_of(resource))
            }
            Self::List { resource, namespace, labels, fields, limit, continue_from, metadata_only } => {
                let what = if *metadata_only { "list metadata" } else { "list" };
                format!(
                    "{what} {} {namespace}/ {labels:?} {fields:?} {limit} {continue_from}",
                    name_of(resource)
                )
            }
            Self::Raw(path) => format!("raw {path}"),
            Self::Review { resource, namespace, body } => format!("review {resource} {namespace}/ {body}"),
            Self::Sign(sign) => match &sign.what {
                contract::SignWhat::Certificate(what) => format!("sign {} certificate {what}", sign.key),
                contract::SignWhat::Token(what) => format!("sign {} token {what}", sign.key),
            },
        }
    }

    /// The contract's form.
    pub(crate) fn to_wire(&self, ctx: &Ctx<'_>) -> Result<contract::Ask> {
        let number = |resource: &ResourceId| match ctx.number(*resource)? {
            0 => Err(Error::Retry(format!("the cluster does not serve what {:?} asks for", self.id()))),
            number => Ok(number),
        };
        Ok(match self.clone() {
            Self::Get { resource, namespace, name, subresource, metadata_only, uid } => {
                contract::Ask::Get(contract::GetLookup {
                    resource: number(&resource)?,
                    namespace,
                    name,
                    subresource,
                    metadata_only,
                    uid,
                })
            }
            Self::List { resource, namespace, labels, fields, limit, continue_from, metadata_only } => {
                contract::Ask::List(contract::ListLookup {
                    resource: number(&resource)?,
                    namespace,
                    labels,
                    fields,
                    limit,
                    continue_from,
                    metadata_only,
                })
            }
            Self::Raw(path) => contract::Ask::Raw(path),
            Self::Review { resource, namespace, body } => contract::Ask::Review(contract::ReviewLookup {
                resource: resource.to_wire(),
                namespace,
                body,
            }),
            Self::Sign(sign) => contract::Ask::Sign(sign),
        })
    }
}

fn name_of(resource: &ResourceId) -> String {
    match resource {
        ResourceId::Named(resource) => resource.to_string(),
        ResourceId::Number(number) => format!("#{number}"),
    }
}
