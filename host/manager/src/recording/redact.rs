//! Leaving out what a manifest calls sensitive.
//!
//! In: objects, answers and outcomes of one module. Out: the same with the
//! values of sensitive paths emptied, and whether anything was. Invariant: a
//! value keeps its JSON type, so that views still read it, and nothing of its
//! content, not even a length.

use serde_json::Value;

use crate::{
    contract::{Answer, Ask, GroupResource, Manifest, Outcome, PatchKind, Plan, SignWhat, Verb},
    grants::request_of_path,
    registry::is_wildcard,
    store::{Part, Path, parse_path},
};

/// The sensitive paths of a manifest.
#[derive(Debug, Default)]
pub(super) struct Sensitive(Vec<(GroupResource, Vec<(String, Vec<Path>)>)>);

impl Sensitive {
    pub(super) fn of(manifest: &Manifest) -> Self {
        let parsed = |path: &String| (path.clone(), parse_path(path).unwrap_or_default());
        let reads = manifest.reads.iter().filter(|read| !read.sensitive.is_empty());
        Self(reads.map(|read| (read.resource.clone(), read.sensitive.iter().map(parsed).collect())).collect())
    }

    fn paths<'a>(&'a self, resource: &GroupResource) -> impl Iterator<Item = &'a (String, Vec<Path>)> {
        let named = |read: &GroupResource| {
            is_wildcard(read) || (read.group == resource.group && read.resource == resource.resource)
        };
        let found: Vec<_> =
            self.0.iter().filter(|(read, _)| named(read)).flat_map(|(_, paths)| paths).collect();
        found.into_iter()
    }

    fn concerns(&self, resource: &GroupResource) -> bool {
        self.paths(resource).next().is_some()
    }

    /// An object without what is sensitive, and the paths where something was.
    pub(super) fn object(&self, resource: &GroupResource, json: &str) -> Option<(String, Vec<String>)> {
        if !self.concerns(resource) {
            return None;
        }
        let mut value: Value = serde_json::from_str(json).ok()?;
        let found = self.empty(resource, &mut value);
        (!found.is_empty()).then(|| (value.to_string(), found))
    }

    fn empty(&self, resource: &GroupResource, value: &mut Value) -> Vec<String> {
        let mut found = Vec::new();
        for (text, paths) in self.paths(resource) {
            // No short cut: each path is to be emptied.
            if paths.iter().filter(|path| empty_at(value, path)).count() > 0 {
                found.push(text.clone());
            }
        }
        found
    }

    /// Empties what is sensitive in the writes of a plan.
    pub(super) fn outcome(&self, outcome: &mut Outcome, name: impl Fn(u32) -> Option<GroupResource>) {
        let Outcome::Plan(Plan { steps, .. }) = outcome else { return };
        if self.0.is_empty() {
            return;
        }
        for action in steps.iter_mut().flat_map(|step| &mut step.actions) {
            let Some(resource) = name(action.resource).filter(|resource| self.concerns(resource)) else {
                continue;
            };
            let (body, json_patch) = match &mut action.verb {
                Verb::Create(body) | Verb::Replace(body) => (body, false),
                Verb::Patch(patch) => (&mut patch.body, patch.kind == PatchKind::Json),
                Verb::Delete(_) | Verb::DeleteCollection(_) => continue,
            };
            // What is no JSON is refused anyway, and may hold anything.
            let Ok(mut value) = serde_json::from_str::<Value>(body) else {
                body.clear();
                continue;
            };
            let emptied = match &mut value {
                Value::Array(operations) if json_patch => self.operations(&resource, operations),
                value => !self.empty(&resource, value).is_empty(),
            };
            if emptied {
                *body = value.to_string();
            }
        }
    }

    /// Empties what is sensitive in the operations of a JSON patch.
    fn operations(&self, resource: &GroupResource, operations: &mut [Value]) -> bool {
        let mut emptied = false;
        for operation in operations {
            let Some(pointer) = operation.get("path").and_then(Value::as_str) else { continue };
            let at: Vec<String> =
                pointer.split('/').skip(1).map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
            let Some(value) = operation.get_mut("value") else { continue };
            for path in self.paths(resource).flat_map(|(_, paths)| paths) {
                let fits = at.iter().zip(path).all(|(name, part)| match part {
                    Part::Field(field) => **field == **name,
                    Part::Each => true,
                });
                if fits {
                    // Below the path all is sensitive; above it, what the rest of it leads to.
                    emptied |= empty_at(value, path.get(at.len()..).unwrap_or_default());
                }
            }
        }
        emptied
    }

    /// Empties what is sensitive in the answer to a lookup. Says whether
    /// something was.
    pub(super) fn answer(
        &self,
        ask: Option<&Ask>,
        answer: &mut Answer,
        name: impl Fn(u32) -> Option<GroupResource>,
    ) -> bool {
        let Ok(body) = &mut answer.result else { return false };
        let resource = match ask {
            // A signed token opens doors. A certificate does not.
            Some(Ask::Sign(sign)) if matches!(sign.what, SignWhat::Token(_)) => {
                body.clear();
                return true;
            }
            Some(Ask::Get(get)) => name(get.resource),
            Some(Ask::List(list)) => name(list.resource),
            Some(Ask::Raw(path)) => request_of_path(path).map(|request| request.resource),
            _ => None,
        };
        let Some(resource) = resource.filter(|resource| self.concerns(resource)) else { return false };
        let Ok(mut value) = serde_json::from_str::<Value>(body) else {
            body.clear();
            return true;
        };
        let mut emptied = !self.empty(&resource, &mut value).is_empty();
        for item in value.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten() {
            emptied |= !self.empty(&resource, item).is_empty();
        }
        if emptied {
            *body = value.to_string();
        }
        emptied
    }
}

/// Empties the values that a path leads to. Says whether there were any.
fn empty_at(value: &mut Value, path: &[Part]) -> bool {
    match path {
        [] => {
            let empty = match &*value {
                Value::Null => return false,
                Value::Bool(_) => Value::Bool(false),
                Value::Number(_) => 0.into(),
                Value::String(_) => "".into(),
                Value::Array(_) => Value::Array(Vec::new()),
                Value::Object(_) => Value::Object(serde_json::Map::new()),
            };
            *value = empty;
            true
        }
        [Part::Field(name), rest @ ..] => value.get_mut(&**name).is_some_and(|below| empty_at(below, rest)),
        [Part::Each, rest @ ..] => {
            let elements = value.as_array_mut().into_iter().flatten();
            elements.filter_map(|element| empty_at(element, rest).then_some(())).count() > 0
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::{
        Action, ClientLimits, Lookup, OnFailure, Pace, Patch, Precondition, Read, SignLookup, StateChange,
        Step,
    };

    fn vaults() -> GroupResource {
        GroupResource { group: "test.example".into(), version: "v1".into(), resource: "vaults".into() }
    }

    fn sensitive() -> Sensitive {
        Sensitive::of(&Manifest {
            name: "vault".into(),
            aliases: vec![],
            version: String::new(),
            state_format: 0,
            accepts_state_formats: vec![],
            sources: vec![],
            reads: vec![Read {
                resource: vaults(),
                optional: false,
                fields: vec![],
                whole: true,
                sensitive: vec!["data".into(), "spec.users[*].password".into()],
                indexes: vec![],
            }],
            writes: vec![],
            lookups: vec![],
            options: vec![],
            event_component: String::new(),
            concurrency: 0,
            concurrency_flag: String::new(),
            client_limits: ClientLimits { qps: 0, burst: 0 },
            metrics: Vec::new(),
        })
    }

    const OBJECT: &str = r#"{"data":{"key":"hidden"},"kind":"Vault","spec":{"users":[{"name":"a","password":"hidden"},{"name":"b"}]}}"#;
    const EMPTIED: &str =
        r#"{"data":{},"kind":"Vault","spec":{"users":[{"name":"a","password":""},{"name":"b"}]}}"#;

    #[test]
    fn objects_lose_what_is_sensitive_and_say_so() {
        let (json, paths) = sensitive().object(&vaults(), OBJECT).unwrap();
        assert_eq!(json, EMPTIED);
        assert_eq!(paths, ["data", "spec.users[*].password"]);
        assert!(
            sensitive().object(&vaults(), r#"{"kind":"Vault"}"#).is_none(),
            "there is nothing to leave out"
        );
        let other = GroupResource { resource: "doors".into(), ..vaults() };
        assert!(sensitive().object(&other, OBJECT).is_none());
    }

    fn plan(verb: Verb) -> Outcome {
        let action = Action {
            tag: String::new(),
            resource: 1,
            namespace: String::new(),
            name: "x".into(),
            subresource: String::new(),
            verb,
            precondition: Precondition::None,
            on_success: None,
            on_failure: None,
        };
        let step = Step { actions: vec![action], pace: Pace::Together, on_failure: OnFailure::Stop };
        Outcome::Plan(Plan {
            steps: vec![step],
            events: vec![],
            not_before: None,
            quiet: 0,
            state: StateChange::Keep,
            metrics: Vec::new(),
        })
    }

    #[test]
    fn writes_lose_it_whatever_their_form() {
        let patch = |kind, body: &str| {
            Verb::Patch(Patch { kind, body: body.into(), field_manager: String::new(), force: false })
        };
        let cases = [
            Verb::Create(OBJECT.into()),
            Verb::Replace(OBJECT.into()),
            patch(PatchKind::Merge, OBJECT),
            patch(PatchKind::Apply, OBJECT),
            patch(PatchKind::Json, r#"[{"op":"add","path":"/data/key","value":"hidden"}]"#),
            patch(PatchKind::Json, r#"[{"op":"add","path":"/data","value":{"key":"hidden"}}]"#),
            patch(PatchKind::Json, r#"[{"op":"add","path":"/spec/users/0/password","value":"hidden"}]"#),
            patch(
                PatchKind::Json,
                r#"[{"op":"add","path":"/spec","value":{"users":[{"password":"hidden"}]}}]"#,
            ),
            patch(PatchKind::Merge, "hidden, and no JSON"),
        ];
        for verb in cases {
            let mut outcome = plan(verb);
            sensitive().outcome(&mut outcome, |_| Some(vaults()));
            let text = serde_json::to_string(&outcome).unwrap();
            assert!(!text.contains("hidden"), "{text}");
        }
        let mut kept =
            plan(patch(PatchKind::Json, r#"[{"op":"add","path":"/spec/users/0/name","value":"kept"}]"#));
        let before = kept.clone();
        sensitive().outcome(&mut kept, |_| Some(vaults()));
        assert_eq!(kept, before);
    }

    #[test]
    fn answers_lose_it_and_a_signed_token_is_never_kept() {
        let ask = |lookup: Ask| Lookup { id: "a".into(), ask: lookup }.ask;
        let sign = |what| Ask::Sign(SignLookup { key: "k".into(), what });
        let list = format!(r#"{{"items":[{OBJECT}]}}"#);
        let cases = [
            (ask(Ask::Raw("/apis/test.example/v1/vaults/x".into())), OBJECT, true),
            (ask(Ask::Raw("/apis/test.example/v1/namespaces/n/vaults?limit=5".into())), list.as_str(), true),
            (sign(SignWhat::Token("{}".into())), "hidden", true),
            (sign(SignWhat::Certificate("{}".into())), "public", false),
        ];
        for (ask, body, redacted) in cases {
            let mut answer = Answer { id: "a".into(), result: Ok(body.into()) };
            assert_eq!(sensitive().answer(Some(&ask), &mut answer, |_| None), redacted, "{ask:?}");
            assert!(!answer.result.unwrap().contains("hidden"), "{ask:?}");
        }
    }
}
