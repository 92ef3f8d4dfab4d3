//! The integration tests: one binary.

mod architecture;
mod gadgets;
mod kube_rs;
mod kubectl;
mod loading;
mod misbehave;
mod plan;
mod program;
mod python;
mod recording;
mod rollback;
mod scenarios;
mod shadow;
mod swap;
