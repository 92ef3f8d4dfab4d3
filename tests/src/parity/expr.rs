//! Expressions over objects, in the subset of Python that scenarios are written in.
//!
//! In: text such as `all(t.key == 'x' for t in spec.taints)`. Out: whether it
//! holds for an object. Kept: a missing field equals 0, "", [] and None and is
//! false; an operation that makes no sense for its operands makes the
//! expression false; a text that is not an expression is an error when the
//! scenario is read.

mod eval;
mod parse;

use serde_json::Value;

use parse::Node;

/// Why a text is not an expression.
#[derive(Debug, thiserror::Error)]
#[error("not an expression: {text:?}: {reason} (at character {at})")]
pub struct ExprError {
    text: String,
    at: usize,
    reason: String,
}

/// One parsed expression.
#[derive(Clone, Debug)]
pub struct Expr {
    node: Node,
}

impl Expr {
    /// Reads an expression.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        Ok(Self { node: parse::parse(text)? })
    }

    /// Whether it holds for an object.
    pub fn holds(&self, object: &Value) -> bool {
        eval::holds(&self.node, object)
    }
}

/// Expressions of which all must hold; none hold always.
#[derive(Clone, Debug, Default)]
pub struct Exprs(Vec<Expr>);

impl Exprs {
    /// From a scenario: a text, a list of texts, or nothing.
    pub fn read(value: &Value) -> anyhow::Result<Self> {
        let texts = match value {
            Value::Null => Vec::new(),
            Value::Array(items) => items.iter().collect(),
            one => vec![one],
        };
        let parse = |value: &Value| match value.as_str() {
            Some(text) => anyhow::Ok(Expr::parse(text)?),
            None => anyhow::bail!("{value} is not an expression; write it as a text"),
        };
        Ok(Self(texts.into_iter().map(parse).collect::<Result<_, _>>()?))
    }

    /// Whether all hold for an object.
    pub fn hold(&self, object: &Value) -> bool {
        self.0.iter().all(|expr| expr.holds(object))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(text: &str) -> bool {
        let object = json!({
            "metadata": {"name": "web-a", "generation": 3, "labels": {"app": "web"}, "annotations": {"x/y": "1"},
                "finalizers": ["hold"], "ownerReferences": [{"kind": "ReplicaSet", "name": "rs"}]},
            "spec": {"replicas": 4, "taints": [{"key": "b"}, {"key": "a"}]},
            "status": {"observedGeneration": 3, "ready": 2, "used": {"requests.cpu": "500m"},
                "conditions": [{"type": "Ready", "status": "True", "reason": "Fine", "message": "all in 1 place"}]},
            "endpoints": [{"conditions": {"ready": true}}, {"conditions": {"ready": false}}],
        });
        Expr::parse(text).unwrap().holds(&object)
    }

    #[test]
    fn what_holds() {
        for text in [
            "current",
            "ready and not deleting and not terminal",
            "status.ready == 2 and spec.replicas != 3",
            "status.missing == 0",
            "status.missing == ''",
            "not status.missing.deeper[3].still",
            "len(status.missing) == 0",
            "status.missing < 1",
            "cond('Ready') == 'True' or cond('Other') == 'True'",
            "reason('Ready') == 'Fine'",
            "'in 1 place' in message('Ready')",
            "ann('x/y') != ''",
            "label('app') == \"web\"",
            "'hold' in finalizers",
            "len(finalizers) == 1",
            "metadata.ownerReferences[0].kind == 'ReplicaSet'",
            "metadata.ownerReferences[-1].name in ['rs', 'other']",
            "status.used['requests.cpu'] == '500m'",
            "metadata.name.endswith('-a')",
            "sorted([t.key for t in spec.taints]) == ['a', 'b']",
            "len([e for e in o.endpoints if e.conditions.ready]) == 1",
            "any(e.conditions.ready for e in o.endpoints)",
            "not all(e.conditions.ready for e in o.endpoints)",
            "1 < status.ready <= 2",
            "sum(1 for t in spec.taints) + 2 * 3 == 8",
            "max(status.ready, spec.replicas) == 4",
            "int('4') == spec.replicas",
            "set(t.key for t in spec.taints) == set(['b', 'a', 'a'])",
            "'a' if ready else ''",
            "None == status.missing and True",
            "'labels' in metadata",
            "x not in [1] if False else True",
        ] {
            assert!(check(text), "{text}");
        }
    }

    #[test]
    fn what_does_not_hold() {
        for text in [
            "status.ready == 3",
            "status.ready == '2'",
            "status.missing",
            "status.missing > 0",
            "spec.taints < 3",
            "'x' in 5",
            "unknown",
            "len(5) == 1",
            "spec.taints[9].key == 'a'",
            "cond('Other') == 'True'",
        ] {
            assert!(!check(text), "{text}");
        }
    }

    #[test]
    fn what_is_no_expression() {
        for text in ["", "a ==", "(a", "a b", "'open", "[x for in y]", "a = 1", "a.", "f(x for x in y, z)"] {
            assert!(Expr::parse(text).is_err(), "{text}");
        }
    }
}
