//! The integration tests: one binary.

mod architecture;
mod cluster;
mod election;
mod gadgets;
mod kube_rs;
mod grants;
mod kubectl;
mod loading;
mod misbehave;
mod plan;
mod program;
mod python;
mod rbac;
mod recording;
mod rollback;
mod scenarios;
mod shadow;
mod swap;
