//! What a pod template says, whichever release wrote it.

use serde_json::Value;

use super::defaults;
use crate::absent::reduce;
use crate::merge::take_out;

/// Takes out of a template what makes no difference.
pub(super) fn reduce_template(template: &mut Value) {
    if let Some(fields) = template.as_object_mut() {
        take_out(fields, "$patch");
    }
    reduce(template);
    defaults::fill(template);
    // Some of what is filled in says as little as its absence.
    reduce(template);
}
