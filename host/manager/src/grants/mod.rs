//! What modules may do.

mod path;

pub use path::{ResourceRequest, request_of_path};
