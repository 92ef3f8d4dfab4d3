//! Feature gates, given as Kubernetes' components take them:
//! `--feature-gates=One=true,Other=false`.
//!
//! A controller that has a gate declares the option, and asks:
//!
//! ```
//! use coxswain_sdk::gates::{Stage, is_on};
//!
//! assert!(is_on("Other=false, One=true", "One", Stage::Alpha));
//! assert!(is_on("AllBeta=true", "One", Stage::Beta));
//! assert!(!is_on("AllBeta=true,One=false", "One", Stage::Beta));
//! ```

/// Name of the option that gives them.
pub const OPTION: &str = "feature-gates";

/// How far along a feature is that is off by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// `AllAlpha` switches it as well.
    Alpha,
    /// `AllBeta` switches it as well.
    Beta,
}

/// Whether a gate that is off by default was switched on. Its own name goes
/// before that of its stage; what is no truth value switches nothing.
pub fn is_on(gates: &str, name: &str, stage: Stage) -> bool {
    let all = match stage {
        Stage::Alpha => "AllAlpha",
        Stage::Beta => "AllBeta",
    };
    value(gates, name).or_else(|| value(gates, all)).unwrap_or(false)
}

/// The last value given for a name.
fn value(gates: &str, name: &str) -> Option<bool> {
    let pairs = gates.split(',').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(gate, _)| gate.trim() == name).filter_map(|(_, value)| truth(value.trim())).next_back()
}

/// A truth value as Go reads it.
fn truth(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_read_as_kubernetes_does() {
        for (gates, on) in [
            ("", false),
            ("One=true", true),
            ("One=True,Two=x", true),
            (" One = true ", true),
            ("One=false,One=true", true),
            ("One=true,One=false", false),
            ("One", false),
            ("One=yes", false),
            ("OneMore=true", false),
            ("AllBeta=true", true),
            ("AllBeta=true,One=false", false),
            ("One=false,AllBeta=true", false),
            ("AllAlpha=true", false),
        ] {
            assert_eq!(is_on(gates, "One", Stage::Beta), on, "{gates}");
        }
        assert!(is_on("AllAlpha=1", "One", Stage::Alpha));
    }
}
