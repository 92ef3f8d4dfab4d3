//! Coxswain: a controller manager whose controllers are WebAssembly components.
//!
//! ```text
//!         watch                                              writes
//! API server ──► informer ──► store ──► queue ──► engine ──► executor ──► API server
//!              (one per       (shared,   (per      (wasm      (the only
//!               resource)      pruned,    con-      guests)     writer)
//!                              indexed)   troller)
//!                                │  snapshot  ▲ reads     │ plan
//!                                └────────────┴───────────┘
//! ```
//!
//! One direction, one writer, one place that decides what a key may see. The
//! host knows no kinds but Lease and Event: everything a controller is lives in
//! its module. [`contract`] has the words that host and guests share.

pub mod api;
pub mod clock;
pub mod connect;
pub mod contract;
pub mod control;
pub mod controller;
pub mod credentials;
pub mod discovery;
pub mod election;
pub mod engine;
pub mod entropy;
pub mod events;
pub mod executor;
pub mod goflag;
pub mod grants;
pub mod informer;
pub mod key;
pub mod limits;
pub mod manager;
pub mod metrics;
pub mod plans;
pub mod preview;
pub mod queue;
pub mod rbac;
pub mod recording;
pub mod registry;
pub mod residence;
pub mod scenario;
pub mod serve;
pub mod serving;
pub mod source;
pub mod store;
pub mod telemetry;
pub mod traces;
pub mod version;

/// Chooses the process's TLS implementation. Once is enough; a second call is
/// an error that means nothing.
pub fn install_crypto() -> Result<(), std::sync::Arc<rustls::crypto::CryptoProvider>> {
    rustls::crypto::ring::default_provider().install_default()
}
