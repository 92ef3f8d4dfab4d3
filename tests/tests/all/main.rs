//! The integration tests: one binary.

mod architecture;
mod kubectl;
mod loading;
mod program;
mod swap;
