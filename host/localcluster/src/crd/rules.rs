//! Validation rules in the Common Expression Language (`x-kubernetes-validations`).
//!
//! In: a schema, an object and its predecessor. Out: the messages of the rules that do not hold. Invariant: a rule
//! that cannot be evaluated refuses the object, as an unanswered question must not let it pass.

use std::fmt;

use serde_json::Value;

use super::declared;
use crate::expression::{Expression, Variables};
use crate::kinds::value::{items, text};
use crate::status::{FieldError, FieldReason};

/// Rules of one node of a schema.
struct Node {
    /// Steps from the root; None steps into every item.
    path: Vec<Option<String>>,
    rules: Vec<Rule>,
    /// What the schema says of it.
    schema: Value,
}

struct Rule {
    text: String,
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: FieldReason,
    field_path: String,
    optional_old: bool,
}

/// All rules of a schema.
#[derive(Default)]
pub(super) struct Rules {
    nodes: Vec<Node>,
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rules").field("nodes", &self.nodes.len()).finish()
    }
}

impl Rules {
    pub(super) fn compile(schema: &Value) -> Self {
        let mut out = Self::default();
        out.collect(schema, &mut Vec::new());
        out
    }

    pub(super) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn collect(&mut self, schema: &Value, path: &mut Vec<Option<String>>) {
        let rules: Vec<Rule> = items(schema, "x-kubernetes-validations").iter().map(Rule::compile).collect();
        if !rules.is_empty() {
            self.nodes.push(Node { path: path.clone(), rules, schema: schema.clone() });
        }
        for (key, property) in schema["properties"].as_object().into_iter().flatten() {
            path.push(Some(key.clone()));
            self.collect(property, path);
            path.pop();
        }
        for inner in [&schema["items"], &schema["additionalProperties"]] {
            if inner.is_object() {
                path.push(None);
                self.collect(inner, path);
                path.pop();
            }
        }
    }

    /// Adds what refuses an object. Returns what would, were it not that the value was there before (KEP-4008).
    pub(super) fn check(&self, old: Option<&Value>, new: &Value, out: &mut Vec<FieldError>) -> Vec<String> {
        let mut borne = Vec::new();
        for node in &self.nodes {
            node.check(&node.path, old, new, String::new(), (&mut *out, &mut borne));
        }
        borne.iter().map(ToString::to_string).collect()
    }
}

impl Node {
    fn check(
        &self,
        path: &[Option<String>],
        old: Option<&Value>,
        new: &Value,
        at: String,
        (out, borne): (&mut Vec<FieldError>, &mut Vec<FieldError>),
    ) {
        let Some((step, rest)) = path.split_first() else {
            for rule in &self.rules {
                let stays = old == Some(new) && !rule.is_transition();
                rule.check(old, new, &at, &self.schema, if stays { &mut *borne } else { &mut *out });
            }
            return;
        };
        match (step, new) {
            (Some(key), _) => {
                if let Some(value) = new.get(key).filter(|v| !v.is_null()) {
                    let dot = if at.is_empty() { "" } else { "." };
                    let at = format!("{at}{dot}{key}");
                    self.check(rest, old.and_then(|o| o.get(key)), value, at, (out, borne));
                }
            }
            (None, Value::Array(list)) => {
                for (i, value) in list.iter().enumerate() {
                    self.check(rest, None, value, format!("{at}[{i}]"), (&mut *out, &mut *borne));
                }
            }
            (None, Value::Object(map)) => {
                for (key, value) in map {
                    let before = old.and_then(|o| o.get(key));
                    self.check(rest, before, value, format!("{at}[{key}]"), (&mut *out, &mut *borne));
                }
            }
            _ => {}
        }
    }
}

impl Rule {
    fn compile(rule: &Value) -> Self {
        let own = text(rule, "message");
        let source = text(rule, "rule");
        Self {
            text: source.to_owned(),
            expression: Expression::parse(source),
            message: if own.is_empty() { format!("failed rule: {source}") } else { own.to_owned() },
            message_expression: match text(rule, "messageExpression") {
                "" => None,
                expression => Some(Expression::parse(expression)),
            },
            reason: match text(rule, "reason") {
                "FieldValueForbidden" => FieldReason::Forbidden,
                "FieldValueRequired" => FieldReason::Required,
                "FieldValueDuplicate" => FieldReason::Duplicate,
                _ => FieldReason::Invalid,
            },
            field_path: text(rule, "fieldPath").to_owned(),
            optional_old: rule["optionalOldSelf"] == true,
        }
    }

    fn is_transition(&self) -> bool {
        self.text.contains("oldSelf")
    }

    /// As messages name the rule: by its message, if it has one.
    fn shown(&self) -> &str {
        self.message.strip_prefix("failed rule: ").unwrap_or(&self.message)
    }

    fn check(&self, old: Option<&Value>, new: &Value, at: &str, schema: &Value, out: &mut Vec<FieldError>) {
        if self.is_transition() && old.is_none() && !self.optional_old {
            return;
        }
        let field = if self.field_path.is_empty() {
            if at.is_empty() { "<nil>".to_owned() } else { at.to_owned() }
        } else {
            format!("{at}{}", self.field_path).trim_start_matches('.').to_owned()
        };
        let mut variables = Variables::new().with_value("self", declared::value(schema, new));
        if let Some(old) = old {
            variables = variables.with_value("oldSelf", declared::value(schema, old));
        }
        match self.expression.holds(&variables) {
            Ok(true) => return,
            Ok(false) => {}
            Err(why) => {
                let rule = self.shown();
                let detail = if why.starts_with("no such overload") {
                    format!(
                        "'{why}': call arguments did not match a supported operator, function or macro signature for \
                         rule: {rule}"
                    )
                } else {
                    format!("{why} evaluating rule: {rule}")
                };
                // The rule is at fault, not the field that it blames.
                let here = if at.is_empty() { "<nil>" } else { at };
                out.push(FieldError::invalid(here, &text(schema, "type").into(), &detail));
                return;
            }
        }
        let expressed = self.message_expression.as_ref().and_then(|m| match m.evaluate(&variables) {
            Ok(cel::Value::String(text)) => Some(text.trim().to_owned()),
            _ => None,
        });
        let expressed = expressed.filter(|text| !text.is_empty() && !text.contains('\n'));
        let message = expressed.unwrap_or_else(|| self.message.clone());
        let words = match self.reason {
            FieldReason::Forbidden => "Forbidden",
            FieldReason::Required => "Required value",
            FieldReason::Duplicate => "Duplicate value",
            _ => "Invalid value",
        };
        // Plain values are shown, unless the reason speaks of their absence.
        let plain = matches!(new, Value::String(_) | Value::Number(_) | Value::Bool(_));
        let shown = match self.reason {
            FieldReason::Invalid if plain => format!("{new}: "),
            _ => String::new(),
        };
        // A duplicate is told by its value alone.
        let said = match self.reason {
            FieldReason::Duplicate if plain => format!("{words}: {new}"),
            FieldReason::Duplicate => words.to_owned(),
            _ => format!("{words}: {shown}{message}"),
        };
        out.push(FieldError::raw(self.reason, field, said));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_compare_fields_and_transitions() {
        let rules = Rules::compile(&json!({"properties": {"spec": {
            "properties": {"lo": {}, "hi": {}},
            "x-kubernetes-validations": [
                {"rule": "!has(self.lo) || !has(self.hi) || self.lo <= self.hi", "message": "lo above hi"},
                {"rule": "self.lo >= oldSelf.lo"},
            ],
        }}}));
        let run = |old: Option<Value>, new: Value| {
            let mut out = Vec::new();
            rules.check(old.as_ref(), &new, &mut out);
            out.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(run(None, json!({"spec": {"lo": 1, "hi": 2}})), Vec::<String>::new());
        assert_eq!(run(None, json!({"spec": {"lo": 3, "hi": 2}})), ["spec: Invalid value: lo above hi"]);
        assert_eq!(
            run(Some(json!({"spec": {"lo": 2}})), json!({"spec": {"lo": 1}})),
            ["spec: Invalid value: failed rule: self.lo >= oldSelf.lo"]
        );
    }
}
