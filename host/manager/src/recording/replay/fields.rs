//! What a module would see of an object that another version of it saw.
//!
//! In: two manifests. Out: for each resource the content in the new module's
//! view, or the fields that the old one did not see, so that they are not in the
//! recording.

use std::collections::HashMap;

use crate::{
    contract::{GroupResource, Manifest, ResourceInfo},
    store::{FieldTree, fields_read, project_json},
};

enum View {
    /// The same fields.
    Same,
    /// Fewer.
    Part(FieldTree),
    /// Fields that were not recorded.
    More(String),
}

/// The views of a module, by number of the resource.
pub(super) struct Fields(HashMap<u32, View>);

impl Fields {
    pub(super) fn new(recorded: &Manifest, module: &Manifest, resources: &[ResourceInfo]) -> Self {
        let view = |info: &ResourceInfo| {
            let name = GroupResource {
                group: info.group.clone(),
                version: info.version.clone(),
                resource: info.resource.clone(),
            };
            let now = fields_read(module, &name)?;
            let view = match fields_read(recorded, &name) {
                Some(then) if then == now => View::Same,
                Some(then) if then.covers(&now) => View::Part(now),
                Some(then) => View::More(then.missing(&now).join(", ")),
                None => View::More("(all)".to_owned()),
            };
            Some((info.number, view))
        };
        Self(resources.iter().filter_map(view).collect())
    }

    /// Whether the module reads a resource.
    pub(super) fn declares(&self, number: u32) -> bool {
        self.0.contains_key(&number)
    }

    /// An object as the module sees it; or the fields that are missing.
    pub(super) fn view(&self, number: u32, json: &str) -> Result<String, String> {
        match self.0.get(&number) {
            Some(View::Same) | None => Ok(json.to_owned()),
            Some(View::Part(tree)) => {
                project_json(json, tree).map_err(|error| format!("(the content is damaged: {error})"))
            }
            Some(View::More(missing)) => Err(missing.clone()),
        }
    }
}
