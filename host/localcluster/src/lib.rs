//! An embedded Kubernetes API server for demos, tests and simulation: it answers as kube-apiserver does, in one process.
//!
//! Start with [`Cluster::start`]; [`Cluster::api`] is the API without HTTP.

mod addresses;
pub mod admission;
mod aggregation;
mod authorization;
pub mod bootstrap;
pub mod cluster;
pub mod crd;
pub mod discovery;
mod endpoints;
mod expression;
pub mod faults;
pub mod kinds;
mod maintenance;
pub mod nodes;
pub mod patch;
mod policy;
mod proto;
pub mod rest;
pub mod schema;
pub mod selector;
pub mod server;
pub mod status;
pub mod storage;
pub mod table;
mod webhook;

pub use authorization::{AuthorizationMode, UnknownMode};
pub use cluster::{Cluster, ClusterConfig, ClusterError};
pub use rest::{InProcess, Target, WatchEvent, Watching};
