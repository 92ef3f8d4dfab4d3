//! The integration tests: one binary.

mod architecture;
mod cluster;
mod credentials;
mod election;
mod flags;
mod gadgets;
mod grants;
mod kube_rs;
mod kubectl;
mod loading;
mod misbehave;
mod plan;
mod program;
mod promtool;
mod python;
mod rbac;
mod recording;
mod rollback;
mod scenarios;
mod serving;
mod serving_client;
mod shadow;
mod stopping;
mod swap;
mod traces;
