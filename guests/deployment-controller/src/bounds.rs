//! How far a rollout may stray from the wanted number of pods.

use coxswain_sdk::intstr::IntOrString;

use crate::view::DeploymentSpec;

/// The wanted number, and how far a rollout may stray from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How many pods are wanted.
    pub replicas: i64,
    /// How many more there may be.
    pub surge: i64,
    /// How many fewer may be available.
    pub unavailable: i64,
    /// Whether the strategy is a rolling update.
    pub rolling: bool,
}

impl Bounds {
    /// The bounds of a Deployment; the error says what is wrong with them.
    pub fn of(spec: &DeploymentSpec) -> Result<Self, String> {
        let wanted = spec.replicas.unwrap_or(1);
        let replicas = i64::from(wanted);
        if spec.strategy.kind != "RollingUpdate" {
            return Ok(Self { replicas, surge: 0, unavailable: 0, rolling: false });
        }
        let update = &spec.strategy.rolling_update;
        let of = |name: &str, value: &Option<IntOrString>, round_up: bool| match value {
            Some(value) => value.scaled(wanted, round_up).map(i64::from).map_err(|e| format!("{name}: {e}")),
            None => Ok(0),
        };
        let surge = of("maxSurge", &update.max_surge, true)?;
        let mut unavailable = of("maxUnavailable", &update.max_unavailable, false)?;
        // The API server refuses two zeros, but a share may round down to one.
        // Then an old pod goes first: a new one might never fit a quota.
        if surge == 0 && unavailable == 0 {
            unavailable = 1;
        }
        Ok(Self { replicas, surge, unavailable: unavailable.min(replicas), rolling: true })
    }

    /// So many pods there may be.
    pub fn most(&self) -> i64 {
        self.replicas + self.surge
    }

    /// So many pods must be available.
    pub fn min_available(&self) -> i64 {
        self.replicas - self.unavailable
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn spec(kind: &str, replicas: i32, surge: Value, unavailable: Value) -> DeploymentSpec {
        serde_json::from_value(json!({
            "replicas": replicas,
            "strategy": {"type": kind, "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable}},
        }))
        .unwrap()
    }

    #[test]
    fn numbers_and_shares() {
        let none = Value::Null;
        for (kind, replicas, surge, unavailable, wanted) in [
            ("RollingUpdate", 10, json!(3), json!(2), (3, 2)),
            ("RollingUpdate", 10, json!("25%"), json!("25%"), (3, 2)),
            ("RollingUpdate", 7, json!("0%"), json!("10%"), (0, 1)),
            ("RollingUpdate", 7, json!(0), json!("14%"), (0, 1)),
            ("RollingUpdate", 7, json!(0), json!("15%"), (0, 1)),
            ("RollingUpdate", 3, json!("1%"), json!("1%"), (1, 0)),
            ("RollingUpdate", 3, json!("200%"), json!(5), (6, 3)),
            ("RollingUpdate", 0, json!("25%"), json!("25%"), (0, 0)),
            ("RollingUpdate", 0, json!(2), json!(2), (2, 0)),
            ("RollingUpdate", 4, none.clone(), none.clone(), (0, 1)),
            ("RollingUpdate", 4, json!(1), none.clone(), (1, 0)),
            ("Recreate", 4, none.clone(), none, (0, 0)),
        ] {
            let bounds = Bounds::of(&spec(kind, replicas, surge.clone(), unavailable.clone())).unwrap();
            assert_eq!((bounds.surge, bounds.unavailable), wanted, "{kind} {replicas} {surge} {unavailable}");
            assert_eq!(bounds.most(), i64::from(replicas) + wanted.0);
            assert_eq!(bounds.min_available(), i64::from(replicas) - wanted.1);
        }
    }

    #[test]
    fn nonsense_is_named() {
        let error = Bounds::of(&spec("RollingUpdate", 3, json!("some"), json!(1))).unwrap_err();
        assert!(error.starts_with("maxSurge: ") && error.contains("some"), "{error}");
        let error = Bounds::of(&spec("RollingUpdate", 3, json!(1), json!("x%"))).unwrap_err();
        assert!(error.starts_with("maxUnavailable: "), "{error}");
    }

    #[test]
    fn the_largest_sizes_do_not_overflow() {
        let bounds = Bounds::of(&spec("RollingUpdate", i32::MAX, json!("100%"), json!(0))).unwrap();
        assert_eq!(bounds.most(), 2 * i64::from(i32::MAX));
    }
}
