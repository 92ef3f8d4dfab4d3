//! Webhooks: servers that are asked about objects.
//!
//! In: a `clientConfig` and what to send. Out: the JSON that was answered, or why there is none, in the words of the real
//! server. Invariant: no call outlives its timeout.

mod admission;
mod client;
mod matching;
mod review;

pub(crate) use admission::{Admission, Operation};
pub(crate) use client::Webhook;
pub(crate) use matching::{Attributes, matches_resources};
