//! How many pods there should be, and how many of them healthy.

use coxswain_sdk::intstr::IntOrString;
use coxswain_sdk::{Ctx, Object, Result};

use crate::owners::{self, Unknown, Wanted};
use crate::view::{BudgetSpec, Pod};

/// What a budget asks for.
#[derive(Debug, Default, PartialEq)]
pub struct Expected {
    /// Pods there should be.
    pub pods: i32,
    /// Of them healthy.
    pub healthy: i32,
    /// Names of pods that could not be counted since nobody owns them.
    pub unmanaged: Vec<String>,
}

/// What the budget asks for, given the pods it selects.
pub fn expected(ctx: &Ctx<'_>, spec: &BudgetSpec, pods: &[Object<Pod>]) -> Result<Result<Expected, Unknown>> {
    let selected = i32::try_from(pods.len()).unwrap_or(i32::MAX);
    let wanted = match (&spec.max_unavailable, &spec.min_available) {
        (None, None) => return Ok(Ok(Expected::default())),
        // A plain number needs no owners.
        (None, Some(IntOrString::Int(least))) => {
            return Ok(Ok(Expected { pods: selected, healthy: *least, unmanaged: Vec::new() }));
        }
        (Some(_), _) | (None, Some(IntOrString::Text(_))) => match owners::wanted(ctx, pods)? {
            Ok(wanted) => wanted,
            Err(unknown) => return Ok(Err(unknown)),
        },
    };
    Ok(share(spec, wanted).map_err(|why| Unknown { why, passing: false }))
}

/// What the budget asks for, given what the owners want.
fn share(spec: &BudgetSpec, wanted: Wanted) -> Result<Expected, String> {
    let Wanted { pods, unmanaged } = wanted;
    let scaled = |value: &IntOrString| {
        value.scaled(pods, true).map_err(|why| format!("invalid value for IntOrString: {why}"))
    };
    let healthy = match (&spec.max_unavailable, &spec.min_available) {
        (Some(most), _) => pods.saturating_sub(scaled(most)?).max(0),
        (None, Some(least)) => scaled(least)?,
        (None, None) => 0,
    };
    Ok(Expected { pods, healthy, unmanaged })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_what_the_owners_want_rounded_up() {
        for (max_unavailable, min_available, wanted, expected) in [
            (r#""30%""#, "null", 5, Ok(3)),
            (r#""0%""#, "null", 5, Ok(5)),
            (r#""100%""#, "null", 5, Ok(0)),
            ("2", "null", 5, Ok(3)),
            ("7", "null", 5, Ok(0)),
            ("-2147483648", "null", 5, Ok(i32::MAX)),
            ("1", r#""100%""#, 5, Ok(4)),
            ("null", r#""30%""#, 5, Ok(2)),
            ("null", r#""28%""#, 7, Ok(2)),
            ("null", r#""100%""#, 0, Ok(0)),
            (r#""some""#, "null", 5, Err(())),
            ("null", r#""3""#, 5, Err(())),
            ("null", r#""99999999999999999999%""#, 5, Err(())),
        ] {
            let text = format!(r#"{{"maxUnavailable":{max_unavailable},"minAvailable":{min_available}}}"#);
            let spec: BudgetSpec = serde_json::from_str(&text).unwrap();
            let share = share(&spec, Wanted { pods: wanted, unmanaged: Vec::new() });
            assert_eq!(share.map(|expected| expected.healthy).map_err(drop), expected, "{text} of {wanted}");
        }
    }
}
