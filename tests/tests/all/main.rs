//! The integration tests: one binary.

mod architecture;
mod gadgets;
mod kubectl;
mod loading;
mod misbehave;
mod plan;
mod program;
mod recording;
mod scenarios;
mod rollback;
mod shadow;
mod swap;
