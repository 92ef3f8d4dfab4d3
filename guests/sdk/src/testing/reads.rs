//! What a controller declares to read, for tests to hold on to.

use crate::controller::{Controller, manifest_of};

/// What a controller reads, in the order of its declaration: a line for each
/// path that is kept of a resource, or for the resource alone where that is no
/// more than the metadata that is always kept.
pub fn reads<C: Controller>() -> Vec<String> {
    let mut lines = Vec::new();
    for read in manifest_of::<C>().reads {
        let resource = read.resource.resource;
        match (read.whole, read.fields.as_slice()) {
            (true, _) => lines.push(format!("{resource} whole")),
            (false, []) => lines.push(resource),
            (false, fields) => lines.extend(fields.iter().map(|field| format!("{resource} {field}"))),
        }
    }
    lines
}
