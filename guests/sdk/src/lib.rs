//! Writing a Coxswain controller in Rust.
//!
//! A controller is a pure function: it is handed a key and the cache, and gives
//! back what it wants written. Plain structs say which fields it reads; reading
//! is subscribing; the host does the writing.
//!
//! ```
//! use coxswain_sdk::{
//!     Action, Controller, Ctx, Declaration, FromJson, ObjectMeta, Plan, Query, Resource, Result, View,
//! };
//! use coxswain_sdk::resource::PODS;
//! use serde::Serialize;
//!
//! const CREWS: Resource = Resource::new("example.com", "v1", "crews", "Crew");
//!
//! #[derive(FromJson)]
//! struct Crew {
//!     metadata: ObjectMeta,
//!     #[serde(default)]
//!     status: CrewStatus,
//! }
//!
//! #[derive(Clone, Default, FromJson, Serialize, PartialEq)]
//! #[serde(default)]
//! struct CrewStatus {
//!     aboard: usize,
//! }
//!
//! impl View for Crew {
//!     const RESOURCE: Resource = CREWS;
//! }
//!
//! #[derive(FromJson)]
//! struct Pod {}
//!
//! impl View for Pod {
//!     const RESOURCE: Resource = PODS;
//! }
//!
//! struct CrewController;
//!
//! impl Controller for CrewController {
//!     fn declare() -> Declaration {
//!         Declaration::new("crew-controller")
//!             .version(env!("CARGO_PKG_VERSION"))
//!             .keys_objects("crews", &[CREWS])
//!             .read::<Crew>()
//!             .read::<Pod>()
//!             .write(CREWS, "status", &["patch"])
//!     }
//!
//!     fn reconcile(ctx: &Ctx<'_>) -> Result<Plan> {
//!         let mut plan = Plan::new();
//!         let Some(crew) = ctx.primary::<Crew>()? else { return Ok(plan) };
//!         let meta = &crew.metadata;
//!         let pods = ctx.refs::<Pod>(Query::all().namespace(&meta.namespace).controlled_by(&meta.uid))?;
//!         let wanted = CrewStatus { aboard: pods.len() };
//!         // Nothing is written if nothing changed.
//!         plan.then(Action::status(CREWS, &meta.namespace, &meta.name, &crew.status, &wanted)?);
//!         Ok(plan)
//!     }
//! }
//!
//! coxswain_sdk::export!(CrewController);
//! # assert_eq!(coxswain_sdk::manifest_of::<CrewController>().reads[0].fields, ["status.aboard"]);
//! ```
//!
//! | to | see |
//! |---|---|
//! | say what is read and written | [`Declaration`] |
//! | read the cache, time, options, results | [`Ctx`], [`Query`], [`View`] |
//! | read past the cache | [`Ctx::look_up`], [`Ctx::find_live`] |
//! | write | [`Plan`], [`Step`], [`Action`], [`About`] for events |
//! | adopt and release | [`claim`] |
//! | make pods | [`template`] |
//! | make claims for pods | [`claim_template`] |
//! | keep a history of templates | [`revisions`] |
//! | ask for feature gates | [`gates`] |
//! | keep pods at a number, whole | [`replicas`] |
//! | write where the pods behind a service are | [`endpoints`] |
//! | read certificates and requests for them | [`x509`], [`csr`] |
//! | run only where `--controllers` names it | [`Declaration::off_by_default`] |
//! | test with scenarios | `testing` (native builds only) |

// What is derived names the crate.
extern crate self as coxswain_sdk;

pub mod absent;
#[doc(hidden)]
pub mod bindings;
pub mod bootstrap;
pub mod buckets;
pub mod civil;
pub mod claim;
pub mod claim_template;
pub mod condition;
pub mod contract;
mod controller;
pub mod csr;
mod ctx;
mod cursor;
pub mod der;
pub mod duration;
pub mod endpoints;
mod error;
mod failure;
pub mod finalizer;
pub mod gates;
pub mod hash;
pub mod intstr;
pub mod job;
mod lookup;
mod manifest;
pub mod memory;
pub mod merge;
pub mod meta;
pub mod migration;
pub mod names;
pub mod namespace;
pub mod node_affinity;
pub mod paths;
mod plan;
pub mod pod;
pub mod quantity;
mod query;
pub mod ranking;
pub mod read;
mod reader;
pub mod replicas;
pub mod resource;
pub mod resource_claims;
pub mod revisions;
pub mod selector;
pub mod service_account;
pub mod snapshot;
pub mod sort;
pub mod taints;
pub mod template;
#[cfg(not(target_family = "wasm"))]
pub mod testing;
mod time;
mod view;
pub mod volumes;
pub mod x509;

#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub use controller::log_panics;
pub use controller::{Controller, declaration, manifest_of, run};
pub use ctx::Ctx;
pub use error::{Error, Result};
pub use lookup::Ask;
pub use manifest::{Declaration, ReadOptions};
pub use meta::{ObjectMeta, OwnerReference, StringMap};
pub use plan::{About, Action, Event, Plan, Step};
pub use query::Query;
pub use read::FromJson;
pub use reader::from_json;
pub use resource::{Resource, ResourceId};
pub use time::Time;
pub use view::{Object, View, forget_parsed};
