//! Reviews: POSTs that store nothing and answer a question about tokens and access.
//!
//! Access is decided by the roles in the store, whether or not requests are; `system:masters` may do everything.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Outcome};
use super::strategy::User;
use super::{Call, Rest, body};
use crate::authorization::{Attributes, Decision};
use crate::kinds::pod_validation::{label_requirement, requirement_values};
use crate::kinds::value::{items, text};
use crate::schema;
use crate::status::{FieldError, FieldReason, Status};

const AUTHORIZATION: &str = "authorization.k8s.io";
const AUTHENTICATION: &str = "authentication.k8s.io";

impl Rest {
    /// The answer of a review; none if the kind is not one.
    pub(super) fn review(
        &self,
        call: &Call,
        content: Option<&str>,
        text: &[u8],
    ) -> Result<Option<Answer>, Status> {
        let kind = &call.kind;
        if !matches!(kind.group.as_str(), AUTHORIZATION | AUTHENTICATION) {
            return Ok(None);
        }
        let body = body::of_kind(content, text, &kind.kind, false)?;
        let decoded = schema::decode(kind, &body, call.write.validation)?;
        let mut object = decoded.object;
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        if is_about_asker(&kind.kind) {
            object["metadata"] = json!({});
        }
        let mut problems = Vec::new();
        if kind.group == AUTHORIZATION {
            self.only_spec(call, &object, &mut problems);
        }
        // The reviews of the asker have no metadata of their own.
        if !is_about_asker(&kind.kind) && !call.write.manager.is_empty() {
            let now = self.clock.seconds();
            crate::patch::managed::on_write(kind, None, &mut object, &call.write.manager, "", &now);
        }
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        object["status"] = match kind.kind.as_str() {
            "TokenReview" => self.review_token(&object["spec"])?,
            "SelfSubjectReview" => {
                object["metadata"] = json!({"creationTimestamp": self.clock.seconds()});
                json!({"userInfo": user_info(&call.user)})
            }
            "SelfSubjectRulesReview" => {
                let namespace = object["spec"]["namespace"].as_str().unwrap_or_default();
                if namespace.is_empty() {
                    return Err(Status::bad_request("no namespace on request"));
                }
                let status = self.rules_of(&call.user, namespace);
                object["spec"] = json!({});
                status
            }
            "SelfSubjectAccessReview" => {
                let attributes = attributes(&object["spec"], false, problems)?;
                self.access(&call.user, &attributes)
            }
            "LocalSubjectAccessReview" => {
                let spec = &object["spec"];
                let asked = spec["resourceAttributes"]["namespace"].as_str().unwrap_or_default();
                if !spec["resourceAttributes"].is_null() && asked != call.namespace {
                    let field = "spec.resourceAttributes.namespace";
                    let detail = "must match metadata.namespace";
                    problems.push(FieldError::invalid(field, &json!(asked), detail));
                }
                if !spec["nonResourceAttributes"].is_null() {
                    let path = &spec["nonResourceAttributes"];
                    let message = format!(
                        "Invalid value: {{\"Path\":{},\"Verb\":{}}}: disallowed on this kind of request",
                        json!(path["path"].as_str().unwrap_or_default()),
                        json!(path["verb"].as_str().unwrap_or_default())
                    );
                    let reason = FieldReason::Invalid;
                    problems.push(FieldError::raw(reason, "spec.nonResourceAttributes", message));
                }
                object["metadata"]["namespace"] = call.namespace.clone().into();
                self.access(&subject(&object["spec"]), &attributes(&object["spec"], true, problems)?)
            }
            _ => self.access(&subject(&object["spec"]), &attributes(&object["spec"], true, problems)?),
        };
        if kind.kind == "SelfSubjectReview" {
            if let Some(map) = object.as_object_mut() {
                map.remove("spec");
            }
        }
        super::add_type_meta(kind, &mut object);
        let answer = Answer::ok(kind, Outcome::Other(object)).with_code(201);
        Ok(Some(answer.with_warnings(decoded.warnings)))
    }

    /// A review is a question, so nothing but its spec may be given, and the namespace where it is asked.
    fn only_spec(&self, call: &Call, object: &Value, problems: &mut Vec<FieldError>) {
        let local = call.kind.kind == "LocalSubjectAccessReview";
        if call.kind.kind == "SelfSubjectRulesReview" {
            return;
        }
        let mut given = object["metadata"].as_object().cloned().unwrap_or_default();
        given.remove("managedFields");
        if local {
            given.remove("namespace");
        }
        if given.is_empty() {
            return;
        }
        let mut shown = object.clone();
        if local {
            shown["metadata"]["namespace"] = call.namespace.clone().into();
        }
        let now = self.clock.seconds();
        crate::patch::managed::on_write(&call.kind, None, &mut shown, &call.write.manager, "", &now);
        let named = schema::schema().named("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
        let ty = named.map_or(schema::Type::Any, schema::Type::Struct);
        let detail = if local { "must be empty except for namespace" } else { "must be empty" };
        let message = format!("Invalid value: {}: {detail}", schema::show(&ty, &shown["metadata"]));
        problems.push(FieldError::raw(FieldReason::Invalid, "metadata", message));
    }

    fn review_token(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let wanted = spec["audiences"].as_array().cloned().unwrap_or_default();
        let Some((user, audiences)) = self.token_user(token) else {
            // What looks like a signed token was refused by more than one authenticator.
            let signed = token.split('.').count() == 3;
            let error = if signed { "[invalid bearer token, unknown]" } else { "invalid bearer token" };
            return Ok(json!({"user": {}, "error": error}));
        };
        let has = audiences.as_array().cloned().unwrap_or_default();
        let asked = wanted.clone();
        let common: Vec<_> = if wanted.is_empty() {
            has.iter().filter(|a| **a == super::tokens::AUDIENCE).cloned().collect()
        } else {
            wanted.into_iter().filter(|a| has.contains(a)).collect()
        };
        if common.is_empty() {
            let listed = |all: &[Value]| {
                let all: Vec<String> = all.iter().map(ToString::to_string).collect();
                format!("[{}]", all.join(" "))
            };
            let target = if asked.is_empty() { vec![json!(super::tokens::AUDIENCE)] } else { asked.clone() };
            let why = format!(
                "token audiences {} is invalid for the target audiences {}",
                listed(&has),
                listed(&target)
            );
            return Ok(json!({"user": {}, "error": format!("[invalid bearer token, {why}]")}));
        }
        Ok(json!({"authenticated": true, "audiences": common, "user": user_info(&user)}))
    }

    fn access(&self, user: &User, asked: &Attributes) -> Value {
        let Decision { allowed, reason } = self.decide(user, asked);
        if reason.is_empty() {
            json!({"allowed": allowed})
        } else {
            json!({"allowed": allowed, "reason": reason})
        }
    }
}

/// Reviews that ask about nothing but the one who asks.
fn is_about_asker(kind: &str) -> bool {
    matches!(kind, "SelfSubjectReview" | "SelfSubjectRulesReview")
}

fn subject(spec: &Value) -> User {
    let groups = spec["groups"].as_array();
    User {
        name: spec["user"].as_str().unwrap_or_default().into(),
        groups: groups
            .map(|l| l.iter().filter_map(Value::as_str).map(str::to_owned).collect())
            .unwrap_or_default(),
        ..User::default()
    }
}

/// The actual question of a review, or why it is none.
fn attributes(spec: &Value, of_somebody: bool, problems: Vec<FieldError>) -> Result<Attributes, Status> {
    let resource = spec.get("resourceAttributes").filter(|v| v.is_object());
    let path = spec.get("nonResourceAttributes").filter(|v| v.is_object());
    let mut errors = Vec::new();
    match (resource, path) {
        (Some(_), Some(path)) => {
            let shown = json!({
                "Path": path["path"].as_str().unwrap_or_default(),
                "Verb": path["verb"].as_str().unwrap_or_default(),
            });
            errors.push(FieldError::invalid(
                "spec.nonResourceAttributes",
                &shown,
                "cannot be specified in combination with resourceAttributes",
            ));
        }
        (None, None) => errors.push(FieldError::invalid(
            "spec.resourceAttributes",
            &Value::Null,
            "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        )),
        _ => {}
    }
    if let Some(resource) = resource {
        selectors(&mut errors, resource);
    }
    let somebody = subject(spec);
    if of_somebody && somebody.name.is_empty() && somebody.groups.is_empty() {
        errors.push(FieldError::invalid(
            "spec.user",
            &json!(""),
            "at least one of user or group must be specified",
        ));
    }
    errors.extend(problems);
    if !errors.is_empty() {
        return Err(invalid(errors));
    }
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
    Ok(match (resource, path) {
        (Some(r), _) => Attributes {
            verb: text(r, "verb"),
            group: text(r, "group"),
            resource: text(r, "resource"),
            sub: text(r, "subresource"),
            namespace: text(r, "namespace"),
            name: text(r, "name"),
            path: None,
        },
        (None, Some(p)) => {
            Attributes { verb: text(p, "verb"), path: Some(text(p, "path")), ..Attributes::default() }
        }
        (None, None) => Attributes::default(),
    })
}

/// Selectors that a question is narrowed by. Operators may be newer than this server.
fn selectors(errors: &mut Vec<FieldError>, resource: &Value) {
    for key in ["fieldSelector", "labelSelector"] {
        let selector = &resource[key];
        if !selector.is_object() {
            continue;
        }
        let path = format!("spec.resourceAttributes.{key}");
        let raw = selector["rawSelector"].as_str().unwrap_or_default();
        let all = items(selector, "requirements");
        if !raw.is_empty() && !all.is_empty() {
            let detail = "may not specified at the same time as requirements";
            errors.push(FieldError::invalid(format!("{path}.rawSelector"), &json!(raw), detail));
        }
        if raw.is_empty() && all.is_empty() {
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(FieldError::required(format!("{path}.requirements"), &detail));
        }
        for (i, requirement) in all.iter().enumerate() {
            let here = format!("{path}.requirements[{i}]");
            if key == "labelSelector" {
                label_requirement(errors, requirement, &here, true);
            } else {
                if text(requirement, "key").is_empty() {
                    errors.push(FieldError::required(format!("{here}.key"), "must be specified"));
                }
                requirement_values(errors, requirement, &here, true);
            }
        }
    }
}

fn invalid(errors: Vec<FieldError>) -> Status {
    Status::invalid(AUTHORIZATION, "", "", errors)
}

fn user_info(user: &User) -> Value {
    let mut info = Map::new();
    info.insert("username".into(), user.name.clone().into());
    if !user.uid.is_empty() {
        info.insert("uid".into(), user.uid.clone().into());
    }
    info.insert("groups".into(), json!(user.groups));
    if !user.extra.is_empty() {
        info.insert("extra".into(), json!(user.extra));
    }
    Value::Object(info)
}
