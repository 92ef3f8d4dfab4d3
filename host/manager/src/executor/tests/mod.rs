//! The executor against a scripted API server.

mod instead;
mod kit;
mod lookups;
mod steps;
mod unknown;
mod writes;
