//! The integration tests: one binary.

mod architecture;
mod kubectl;
mod loading;
mod plan;
mod program;
mod recording;
mod scenarios;
mod shadow;
mod swap;
