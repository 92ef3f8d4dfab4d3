//! The executor against a scripted API server.

mod kit;
mod lookups;
mod steps;
mod unknown;
mod writes;
