//! Reviews: POSTs that store nothing and answer a question about tokens and access.
//!
//! Access is decided by the roles in the store, as RBAC does; `system:masters` may do everything.

use serde_json::{Map, Value, json};

use super::answer::{Answer, Outcome};
use super::strategy::{Lookup, User};
use super::{Call, Rest, body, meta_text};
use crate::schema;
use crate::status::{FieldError, Status};

/// What somebody wants to do.
#[derive(Default)]
struct Attributes {
    verb: String,
    group: String,
    resource: String,
    namespace: String,
    name: String,
    /// Set for paths outside resources.
    path: Option<String>,
}

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
        let json = body::to_json(content, text, false)?;
        let decoded = schema::decode(kind, &json, call.write.validation)?;
        let mut object = decoded.object;
        if !object["metadata"].is_object() {
            object["metadata"] = json!({});
        }
        if !object["spec"].is_object() {
            object["spec"] = json!({});
        }
        object["status"] = match kind.kind.as_str() {
            "TokenReview" => self.review_token(&object["spec"])?,
            "SelfSubjectReview" => json!({"userInfo": user_info(&call.user)}),
            "SelfSubjectRulesReview" => self.rules_of(&call.user, &object["spec"]),
            "SelfSubjectAccessReview" => {
                let attributes = attributes(&object["spec"], false)?;
                self.access(&call.user, &attributes)
            }
            "LocalSubjectAccessReview" => {
                let asked = object["spec"]["resourceAttributes"]["namespace"].as_str();
                if asked.unwrap_or_default() != call.namespace {
                    return Err(invalid(vec![FieldError::invalid(
                        "spec.resourceAttributes.namespace",
                        &json!(asked.unwrap_or_default()),
                        "must match metadata.namespace",
                    )]));
                }
                object["metadata"]["namespace"] = call.namespace.clone().into();
                self.access(&subject(&object["spec"]), &attributes(&object["spec"], true)?)
            }
            _ => self.access(&subject(&object["spec"]), &attributes(&object["spec"], true)?),
        };
        super::add_type_meta(kind, &mut object);
        let answer = Answer::ok(kind, Outcome::Other(object)).with_code(201);
        Ok(Some(answer.with_warnings(decoded.warnings)))
    }

    fn review_token(&self, spec: &Value) -> Result<Value, Status> {
        let token = spec["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            return Err(Status::bad_request("token is required for TokenReview in authentication"));
        }
        let wanted = spec["audiences"].as_array().cloned().unwrap_or_default();
        let Some((user, audiences)) = self.token_user(token) else {
            return Ok(json!({
                "user": {}, "error": "[invalid bearer token, unknown]",
            }));
        };
        let has = audiences.as_array().cloned().unwrap_or_default();
        let common: Vec<_> = if wanted.is_empty() {
            has.iter().filter(|a| **a == super::tokens::AUDIENCE).cloned().collect()
        } else {
            wanted.into_iter().filter(|a| has.contains(a)).collect()
        };
        if common.is_empty() {
            return Ok(json!({"user": {}, "error": "token audiences do not match"}));
        }
        Ok(json!({"authenticated": true, "audiences": common, "user": user_info(&user)}))
    }

    fn access(&self, user: &User, asked: &Attributes) -> Value {
        if user.groups.iter().any(|g| g == "system:masters") {
            return json!({"allowed": true});
        }
        match self.allowed_by(user, asked) {
            Some(reason) => json!({"allowed": true, "reason": reason}),
            None => json!({"allowed": false}),
        }
    }

    /// The binding that allows it, in RBAC's words.
    fn allowed_by(&self, user: &User, asked: &Attributes) -> Option<String> {
        self.bindings(user, &asked.namespace).find_map(|(subject, binding, role)| {
            let rules = role["rules"].as_array()?;
            if !rules.iter().any(|rule| covers(rule, asked)) {
                return None;
            }
            let namespaced = !meta_text(&binding, "namespace").is_empty();
            let name = meta_text(&binding, "name");
            let (kind, shown) = if namespaced {
                ("RoleBinding", format!("{name}/{}", meta_text(&binding, "namespace")))
            } else {
                ("ClusterRoleBinding", name.to_owned())
            };
            Some(format!(
                "RBAC: allowed by {kind} {shown:?} of {} {:?} to {subject}",
                binding["roleRef"]["kind"].as_str().unwrap_or_default(),
                binding["roleRef"]["name"].as_str().unwrap_or_default(),
            ))
        })
    }

    /// Bindings of a user with their roles: cluster-wide ones, then those of the namespace.
    fn bindings<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (String, Value, Value)> + 'a {
        const GROUP: &str = "rbac.authorization.k8s.io";
        let cluster = Lookup::list(self, GROUP, "clusterrolebindings", "");
        let local = if namespace.is_empty() {
            Vec::new()
        } else {
            Lookup::list(self, GROUP, "rolebindings", namespace)
        };
        cluster.into_iter().chain(local).filter_map(move |binding| {
            let home = meta_text(&binding, "namespace").to_owned();
            let subjects = binding["subjects"].as_array()?;
            let subject = subjects.iter().find_map(|s| is_user(s, user, &home))?;
            let role = binding["roleRef"]["name"].as_str()?;
            let role = if binding["roleRef"]["kind"] == "Role" {
                Lookup::get(self, GROUP, "roles", &home, role)?
            } else {
                Lookup::get(self, GROUP, "clusterroles", "", role)?
            };
            Some((subject, binding, role))
        })
    }

    fn rules_of(&self, user: &User, spec: &Value) -> Value {
        let namespace = spec["namespace"].as_str().unwrap_or_default();
        let mut rules: Vec<Value> = self
            .bindings(user, namespace)
            .filter_map(|(_, _, role)| role["rules"].as_array().cloned())
            .flatten()
            .collect();
        if user.groups.iter().any(|g| g == "system:masters") {
            rules.push(json!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
            rules.push(json!({"verbs": ["*"], "nonResourceURLs": ["*"]}));
        }
        let (paths, resources): (Vec<_>, Vec<_>) =
            rules.into_iter().partition(|rule| rule["nonResourceURLs"].is_array());
        json!({"resourceRules": resources, "nonResourceRules": paths, "incomplete": false})
    }
}

fn is_user(subject: &Value, user: &User, home: &str) -> Option<String> {
    let name = subject["name"].as_str()?;
    let (matches, shown) = match subject["kind"].as_str()? {
        "User" => (user.name == name, format!("User {name:?}")),
        "Group" => (user.groups.iter().any(|g| g == name), format!("Group {name:?}")),
        "ServiceAccount" => {
            let namespace = subject["namespace"].as_str().unwrap_or(home);
            let full = format!("system:serviceaccount:{namespace}:{name}");
            (user.name == full, format!("ServiceAccount \"{name}/{namespace}\""))
        }
        _ => return None,
    };
    matches.then_some(shown)
}

fn covers(rule: &Value, asked: &Attributes) -> bool {
    let has = |key: &str, wanted: &str| {
        let list = rule[key].as_array();
        list.is_some_and(|l| l.iter().any(|v| v == "*" || v == wanted))
    };
    if !has("verbs", &asked.verb) {
        return false;
    }
    if let Some(path) = &asked.path {
        let list = rule["nonResourceURLs"].as_array();
        return list.is_some_and(|l| {
            l.iter().filter_map(Value::as_str).any(|pattern| match pattern.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => path == pattern,
            })
        });
    }
    let named = match rule["resourceNames"].as_array() {
        Some(names) if !names.is_empty() => names.iter().any(|n| *n == *asked.name),
        _ => true,
    };
    let any_sub = asked.resource.split_once('/').map(|(_, sub)| format!("*/{sub}"));
    let resource = has("resources", &asked.resource) || any_sub.is_some_and(|any| has("resources", &any));
    named && resource && has("apiGroups", &asked.group)
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
fn attributes(spec: &Value, of_somebody: bool) -> Result<Attributes, Status> {
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
    let somebody = subject(spec);
    if of_somebody && somebody.name.is_empty() && somebody.groups.is_empty() {
        errors.push(FieldError::invalid(
            "spec.user",
            &json!(""),
            "at least one of user or group must be specified",
        ));
    }
    if !errors.is_empty() {
        return Err(invalid(errors));
    }
    let text = |v: &Value, key: &str| v[key].as_str().unwrap_or_default().to_owned();
    Ok(match (resource, path) {
        (Some(r), _) => {
            let sub = text(r, "subresource");
            let plural = text(r, "resource");
            Attributes {
                verb: text(r, "verb"),
                group: text(r, "group"),
                resource: if sub.is_empty() { plural } else { format!("{plural}/{sub}") },
                namespace: text(r, "namespace"),
                name: text(r, "name"),
                path: None,
            }
        }
        (None, Some(p)) => {
            Attributes { verb: text(p, "verb"), path: Some(text(p, "path")), ..Attributes::default() }
        }
        (None, None) => Attributes::default(),
    })
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
