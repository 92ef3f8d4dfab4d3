//! What a manifest's view of a resource holds, outside of any store.
//!
//! For whoever has objects as one module saw them and needs them as another
//! would.

use std::sync::Arc;

use super::{
    intern::Interner,
    object::{self, Record},
    path::FieldTree,
    plan::plan_read,
    prune::{PruneError, PruneSpec},
};
use crate::{
    contract::{GroupResource, Manifest},
    registry::is_wildcard,
};

/// The fields that a module sees of a resource; none if it does not read it. A
/// manifest that cannot be served sees nothing.
pub fn fields_read(manifest: &Manifest, resource: &GroupResource) -> Option<FieldTree> {
    let tree = |named: &dyn Fn(&GroupResource) -> bool| {
        let mut reads = manifest.reads.iter().filter(|read| named(&read.resource));
        let first = plan_read(reads.next()?, 0).ok()?.tree;
        reads.try_fold(first, |mut tree, read| {
            tree.join(&plan_read(read, 0).ok()?.tree);
            Some(tree)
        })
    };
    tree(&|name| name == resource).or_else(|| Some(tree(&is_wildcard)?.metadata_part()))
}

/// What is left of an object's JSON in a view of fewer fields, in the bytes that
/// a module with that view would be given.
pub fn project_json(json: &str, tree: &FieldTree) -> Result<String, PruneError> {
    #[derive(Default, serde::Deserialize)]
    #[serde(default, rename_all = "camelCase")]
    struct TypeMeta {
        api_version: Option<String>,
        kind: Option<String>,
    }
    let types: TypeMeta = serde_json::from_str(json)?;
    let mut header = Vec::new();
    if let (Some(api_version), Some(kind)) = (types.api_version, types.kind) {
        header.extend_from_slice(b"\"apiVersion\":");
        object::text(&mut header, &api_version);
        header.extend_from_slice(b",\"kind\":");
        object::text(&mut header, &kind);
        header.push(b',');
    }
    let spec = Arc::new(PruneSpec::new(tree.clone(), 0, Arc::<Interner>::default()));
    let object = spec.prune(json.as_bytes())?;
    let record = Record {
        resource: 0,
        id: 0,
        meta: object.meta,
        content: object.content,
        versions: Default::default(),
    };
    Ok(record.render(&String::from_utf8_lossy(&header), None))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::parse_path;

    #[test]
    fn an_object_in_a_smaller_view_has_the_bytes_of_that_view() {
        let whole = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","labels":{"x":"y"},"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeName":"m","hostname":"h"},"status":{"phase":"Running"}}"#;
        let tree =
            |paths: &[&str]| FieldTree::new(paths.iter().flat_map(|p| parse_path(p).unwrap_or_default()));
        let all = tree(&["spec", "status"]);
        assert_eq!(project_json(whole, &all).unwrap(), whole, "nothing is lost or moved");
        let small = project_json(whole, &tree(&["spec.nodeName"])).unwrap();
        assert_eq!(
            small,
            r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"n","uid":"u","labels":{"x":"y"},"creationTimestamp":"2026-01-01T00:00:00Z"},"spec":{"nodeName":"m"}}"#
        );
        assert_eq!(tree(&["spec.nodeName"]).missing(&all), ["spec", "status"]);
        assert_eq!(all.missing(&tree(&["spec.nodeName", "metadata.annotations"])), ["metadata.annotations"]);
        assert!(all.missing(&tree(&["spec.nodeName"])).is_empty());
    }
}
