//! Scenarios: objects in, plans out, compared with what was recorded.
//!
//! A scenario is a YAML file (see [`Scenario`]); beside it lies the golden file
//! with every plan that came of it. After each plan the writes are applied to
//! the objects in memory and the keys are reconciled again, until there is
//! nothing to do; a scenario that never gets there fails. So does a write that
//! changes nothing, a read or write that the manifest does not declare, and a
//! field that was not declared: the cache shows only what the manifest's paths
//! name. The clock stands still, except where plans ask to come back. The golden
//! file ends with what was measured in all.
//!
//! ```no_run
//! # struct CrewController;
//! # impl coxswain_sdk::Controller for CrewController {
//! #     fn declare() -> coxswain_sdk::Declaration { coxswain_sdk::Declaration::new("crew-controller") }
//! #     fn reconcile(_: &coxswain_sdk::Ctx<'_>) -> coxswain_sdk::Result<coxswain_sdk::Plan> { Ok(Default::default()) }
//! # }
//! // In the controller's crate, as a test:
//! coxswain_sdk::testing::scenarios::<CrewController>("scenarios");
//! ```
//!
//! `BLESS=1 cargo test` records the golden files; read them before committing.

mod apply;
mod files;
mod golden;
mod kinds;
mod prune;
mod reads;
mod runner;
mod scenario;
mod tally;
#[cfg(test)]
mod tests;
mod world;

pub use files::{bless_file, check_file, files, scenarios};
pub use reads::reads;
pub use runner::{Native, Reconciler, play};
pub use scenario::{FailLine, Happening, LookupLine, RefuseLine, ResourceLine, Scenario, State};
pub use world::Frozen;
