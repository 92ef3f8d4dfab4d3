//! The integration tests: one binary.

mod architecture;
mod loading;
mod swap;
