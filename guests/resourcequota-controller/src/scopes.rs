//! Scopes: which objects a quota counts.

use crate::view::ScopeRequirement;

/// Whether a scope's value fits a condition. `values` are those that the object
/// has, of which one is enough; none if it has none. A condition of an unknown
/// kind is an error.
pub fn fits(requirement: &ScopeRequirement, values: &[&str]) -> Result<bool, String> {
    let listed = |value: &&str| requirement.values.iter().any(|wanted| wanted == value);
    match requirement.operator.as_str() {
        "Exists" => Ok(!values.is_empty()),
        "DoesNotExist" => Ok(values.is_empty()),
        "In" => Ok(values.iter().any(listed)),
        "NotIn" => Ok(values.is_empty() || values.iter().any(|value| !listed(value))),
        other => Err(format!("{other:?} is not a valid scope selector operator")),
    }
}

/// The objects that all conditions hold for. One that cannot be decided ends
/// the counting.
pub fn counted<'a, T>(
    objects: impl IntoIterator<Item = &'a T>,
    requirements: &[ScopeRequirement],
    fits: impl Fn(&T, &ScopeRequirement) -> Result<bool, String>,
) -> Vec<&'a T> {
    let mut counted = Vec::new();
    for object in objects {
        let mut all = true;
        for requirement in requirements {
            match fits(object, requirement) {
                Ok(fits) => all &= fits,
                Err(_) => return counted,
            }
        }
        if all {
            counted.push(object);
        }
    }
    counted
}
