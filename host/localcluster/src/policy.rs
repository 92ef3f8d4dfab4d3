//! ValidatingAdmissionPolicies: checks in the Common Expression Language that a cluster's owner adds.
//!
//! In: a write and the bindings of policies. Out: a refusal, or warnings. Invariant: an expression that cannot be
//! evaluated refuses, unless the policy says to ignore failures.

use serde_json::Value;

use crate::expression::{Expression, Variables, of_json};
use crate::kinds::value::{items, text};
use crate::rest::strategy::{Ctx, Kind};
use crate::selector;
use crate::status::Status;
use crate::webhook::{Attributes, matches_resources};

const GROUP: &str = "admissionregistration.k8s.io";

/// What a policy objects to.
struct Objection {
    message: String,
    reason: String,
}

/// Whether all conditions hold; the first that cannot be evaluated is told.
pub(crate) fn conditions_hold(conditions: &[Value], variables: &Variables) -> Result<bool, String> {
    let mut failures = Vec::new();
    for condition in conditions {
        let expression = Expression::parse(text(condition, "expression"));
        match expression.holds(variables) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => failures.push(format!("expression '{}' resulted in error: {why}", expression.text())),
        }
    }
    match failures.as_slice() {
        [] => Ok(true),
        [one] => Err(one.clone()),
        several => Err(format!("[{}]", several.join(", "))),
    }
}

/// Checks a write against all policies that are bound.
pub(crate) fn check(
    ctx: &Ctx<'_>,
    kind: &Kind,
    bindings: &[Value],
    attributes: &Attributes<'_>,
    request: Value,
) -> Result<(), Status> {
    let policies = ctx.lookup.few(GROUP, "validatingadmissionpolicies");
    let namespace = match attributes.namespace {
        "" => Value::Null,
        name => ctx.lookup.get("", "namespaces", "", name).unwrap_or_default(),
    };
    let mut refusal: Option<Status> = None;
    for policy in policies.iter() {
        let name = text(&policy["metadata"], "name");
        let spec = &policy["spec"];
        if !matches_resources(ctx.lookup, &spec["matchConstraints"], "resourceRules", attributes) {
            continue;
        }
        for binding in bindings.iter().filter(|b| text(&b["spec"], "policyName") == name) {
            let narrowed = &binding["spec"]["matchResources"];
            if narrowed.is_object() && !matches_resources(ctx.lookup, narrowed, "resourceRules", attributes) {
                continue;
            }
            let write = Write { ctx, attributes, request: &request, namespace: &namespace };
            for objection in write.objections(policy, binding) {
                let by = text(&binding["metadata"], "name");
                let about = format!("ValidatingAdmissionPolicy '{name}' with binding '{by}'");
                for action in items(&binding["spec"], "validationActions").iter().filter_map(Value::as_str) {
                    match action {
                        "Deny" if refusal.is_none() => {
                            let message = format!("{about} denied request: {}", objection.message);
                            refusal = Some(refused(kind, attributes.name, &message, &objection.reason));
                        }
                        "Warn" => ctx.warn(format!("Validation failed for {about}: {}", objection.message)),
                        _ => {}
                    }
                }
            }
        }
    }
    refusal.map_or(Ok(()), Err)
}

fn refused(kind: &Kind, name: &str, message: &str, reason: &str) -> Status {
    let mut status = Status::forbidden(&kind.group, &kind.plural, name, message).with_cause("", message, "");
    let (reason, code) = match reason {
        "Unauthorized" => ("Unauthorized", 401),
        "Forbidden" => ("Forbidden", 403),
        "RequestEntityTooLarge" => ("RequestEntityTooLarge", 413),
        _ => ("Invalid", 422),
    };
    status.reason = reason.into();
    status.code = code;
    status
}

/// A write that policies look at.
struct Write<'a> {
    ctx: &'a Ctx<'a>,
    attributes: &'a Attributes<'a>,
    request: &'a Value,
    namespace: &'a Value,
}

impl Write<'_> {
    fn objections(&self, policy: &Value, binding: &Value) -> Vec<Objection> {
        let spec = &policy["spec"];
        let ignores = text(spec, "failurePolicy") == "Ignore";
        let failed = |message: String| {
            if ignores { Vec::new() } else { vec![Objection { message, reason: String::new() }] }
        };
        let base = || {
            Variables::new()
                .with("object", self.attributes.object)
                .with("oldObject", self.attributes.old)
                .with("request", self.request)
                .with("namespaceObject", self.namespace)
        };
        match conditions_hold(items(spec, "matchConditions"), &base()) {
            Ok(true) => {}
            Ok(false) => return Vec::new(),
            Err(why) => return failed(why),
        }
        let params = match self.params(&spec["paramKind"], &binding["spec"]["paramRef"]) {
            Ok(params) => params,
            Err(why) => return failed(format!("failed to configure binding: {why}")),
        };
        let each = params.iter().flat_map(|params| {
            let mut variables = base().with("params", params);
            let wrong = add_variables(items(spec, "variables"), &mut variables);
            items(spec, "validations")
                .iter()
                .filter_map(|validation| judge(validation, &variables, &wrong, ignores))
                .collect::<Vec<_>>()
        });
        each.collect()
    }

    /// The objects that are parameters of a binding; one null where it has none.
    fn params(&self, kind: &Value, reference: &Value) -> Result<Vec<Value>, String> {
        if !kind.is_object() || !reference.is_object() {
            return Ok(vec![Value::Null]);
        }
        let (group, _) = text(kind, "apiVersion").split_once('/').unwrap_or(("", ""));
        let found = self.ctx.lookup.of_kind(group, text(kind, "kind"));
        let Some((plural, namespaced)) = found else {
            return Err(format!(
                "failed to find resource referenced by paramKind: '{}, Kind={}'",
                text(kind, "apiVersion"),
                text(kind, "kind")
            ));
        };
        let namespace = match (namespaced, text(reference, "namespace")) {
            (false, _) => "",
            (true, "") if self.attributes.namespace.is_empty() => {
                return Err(
                    "cannot use namespaced paramRef in policy binding that matches cluster-scoped resources"
                        .to_owned(),
                );
            }
            (true, "") => self.attributes.namespace,
            (true, namespace) => namespace,
        };
        let params: Vec<Value> = match text(reference, "name") {
            "" => {
                let all = self.ctx.lookup.list(group, &plural, namespace);
                let chosen =
                    |o: &Value| selector::object_matches(&reference["selector"], &o["metadata"]["labels"]);
                all.into_iter().filter(chosen).collect()
            }
            name => self.ctx.lookup.get(group, &plural, namespace, name).into_iter().collect(),
        };
        if params.is_empty() && text(reference, "parameterNotFoundAction") == "Deny" {
            return Err("no params found for policy binding with `Deny` parameterNotFoundAction".to_owned());
        }
        Ok(params)
    }
}

/// Adds `variables`, each of which may use those before it. Returns those that cannot be had, with the reason.
fn add_variables(list: &[Value], variables: &mut Variables) -> Vec<(String, String)> {
    let mut known: std::collections::HashMap<String, cel::Value> = std::collections::HashMap::new();
    let mut wrong = Vec::new();
    variables.set("variables", of_json(&serde_json::json!({})));
    for variable in list {
        let name = text(variable, "name").to_owned();
        match Expression::parse(text(variable, "expression")).evaluate(variables) {
            Ok(value) => {
                known.insert(name, value);
                variables.set("variables", known.clone().into());
            }
            Err(why) => wrong.push((name, why)),
        }
    }
    wrong
}

fn judge(
    validation: &Value,
    variables: &Variables,
    wrong: &[(String, String)],
    ignores: bool,
) -> Option<Objection> {
    let expression = Expression::parse(text(validation, "expression"));
    let message = match expression.holds(variables) {
        Ok(true) => return None,
        Ok(false) => {
            let own = text(validation, "message").trim();
            let expressed = match text(validation, "messageExpression") {
                "" => None,
                text => match Expression::parse(text).evaluate(variables) {
                    Ok(cel::Value::String(text)) => Some(text.trim().to_owned()),
                    _ => None,
                },
            };
            match expressed.filter(|text| !text.is_empty() && !text.contains('\n')) {
                Some(expressed) => expressed,
                None if own.is_empty() => format!("failed expression: {}", expression.text().trim()),
                None => own.to_owned(),
            }
        }
        Err(_) if ignores => return None,
        Err(why) => {
            // A variable that cannot be had is missed by its name.
            let missed = wrong.iter().find(|(name, _)| why == format!("no such key: {name}"));
            let why = missed.map_or(why.clone(), |(name, why)| {
                format!("composited variable \"{name}\" fails to evaluate: {why}")
            });
            let text = format!("expression '{}' resulted in error: {why}", expression.text());
            return Some(Objection { message: text, reason: String::new() });
        }
    };
    Some(Objection { message, reason: text(validation, "reason").to_owned() })
}
