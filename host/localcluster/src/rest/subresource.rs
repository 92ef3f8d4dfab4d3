//! Subresources: views that are written like the object, and the few that do something else.

use std::sync::{Arc, LazyLock};

use http::{Method, header};
use serde_json::{Value, json};

use super::answer::{Answer, Object, Outcome};
use super::create::namespace_fits;
use super::http::{PatchKind, Request};
use super::options::{DeleteOptions, Query, Verb, WriteOptions};
use super::strategy::{Kind, Lookup, StorageId, Strategy};
use super::update::{Change, check_name, uid_conflict};
use super::{Call, Rest, body, draft, meta, meta_mut, meta_text};
use crate::status::{FieldError, Status};
use crate::storage::WriteError;
use crate::webhook::{Admission, Operation};
use crate::{admission, patch, schema};

struct Plain;
impl Strategy for Plain {}

/// A kind that is a body of subresources only.
fn body_kind(group: &str, version: &str, plural: &str, kind: &str) -> Kind {
    Kind {
        group: group.into(),
        version: version.into(),
        plural: plural.into(),
        singular: kind.to_lowercase(),
        kind: kind.into(),
        list_kind: format!("{kind}List"),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: true,
        verbs: Vec::new(),
        subresources: Vec::new(),
        storage: StorageId { group: group.into(), plural: plural.into() },
        storage_version_hash: String::new(),
        custom: false,
        strategy: Arc::new(Plain),
    }
}

/// The Scale that stands for an object while it is patched.
static SCALE: LazyLock<Kind> = LazyLock::new(|| body_kind("autoscaling", "v1", "scales", "Scale"));

/// What asks for a token.
static TOKEN_REQUEST: LazyLock<Kind> =
    LazyLock::new(|| body_kind("authentication.k8s.io", "v1", "tokenrequests", "TokenRequest"));

impl Rest {
    /// A request to a subresource that its kind serves.
    pub(super) async fn subresource(
        &self,
        request: &Request,
        mut call: Call,
        query: &Query,
    ) -> Result<Answer, Status> {
        let content = header_text(request, header::CONTENT_TYPE);
        let agent = header_text(request, header::USER_AGENT).unwrap_or_default();
        let verb = match request.method {
            Method::POST => Verb::Create,
            Method::PUT => Verb::Update,
            Method::PATCH if PatchKind::of(content, &call.kind)? == PatchKind::Apply => Verb::Apply,
            _ => Verb::Patch,
        };
        if request.method != Method::GET {
            call.write = WriteOptions::parse(query, agent, verb)?;
        }
        if request.method == Method::POST {
            self.check_namespace_lives(&call, &call.name)?;
        }
        let sent = |kind: &str| body::of_kind(content, &request.body, kind, false);
        let typed =
            |version: &str, kind: &str| schema::decode_as(version, kind, &sent(kind)?, call.write.validation);
        match (call.sub.as_str(), &request.method) {
            ("scale", &Method::GET) => self.read_scale(&call),
            ("scale", &Method::PUT) => {
                let scale = typed("autoscaling/v1", "Scale")?;
                check_name(&call, &scale.object)?;
                self.write_scale(&call, &|_| Ok((scale.object.clone(), scale.warnings.clone())))
            }
            ("scale", _) => {
                let patch_kind = PatchKind::of(content, &call.kind)?;
                self.patch_scale(&call, patch_kind, &request.body)
            }
            ("binding", _) => {
                let binding = typed("v1", "Binding")?.object;
                namespace_fits(&call, &binding)?;
                if meta_text(&binding, "name") != call.name {
                    return Err(Status::bad_request("name in URL does not match name in Binding object"));
                }
                self.bind(&call, &binding)
            }
            ("eviction", _) => {
                let mut sent = sent("Eviction")?;
                sent.json = older_eviction(sent.json);
                let eviction = schema::decode_as("policy/v1", "Eviction", &sent, call.write.validation)?;
                namespace_fits(&call, &eviction.object)?;
                self.evict(&call, &eviction.object)
            }
            ("token", _) => {
                let wanted = typed("authentication.k8s.io/v1", "TokenRequest")?.object;
                namespace_fits(&call, &wanted)?;
                self.request_token(&call, wanted)
            }
            ("log", &Method::GET) => self.log(&call, query),
            ("exec" | "attach" | "portforward" | "proxy", _) => self.connect(&call),
            (_, &Method::GET) => self.get(&call, query.text("resourceVersion").unwrap_or_default()).await,
            (_, &Method::PUT) => {
                let body = body::of_kind(content, &request.body, &call.kind.kind, call.kind.custom)?;
                let decoded = schema::decode(&call.kind, &body, call.write.validation)?;
                self.update(&call, &Change::Put(decoded.object), decoded.warnings)
            }
            (_, &Method::PATCH) => {
                let patch_kind = PatchKind::of(content, &call.kind)?;
                self.update(&call, &patch_kind.change(&request.body), Vec::new())
            }
            _ => Err(Status::method_not_allowed()),
        }
    }

    fn read_scale(&self, call: &Call) -> Result<Answer, Status> {
        let stored = self.table(&call.kind).get(&call.key());
        let stored = stored.ok_or_else(|| call.kind.not_found(&call.name))?;
        let object = Object::Stored(stored).value(&call.kind);
        let scale = call.kind.strategy.scale(&call.kind, &object)?;
        Ok(Answer::ok(&call.kind, Outcome::Other(scale)))
    }

    /// Writes the replicas of the Scale that `make` makes of the present one.
    fn write_scale(
        &self,
        call: &Call,
        make: &dyn Fn(&Value) -> Result<(Value, Vec<String>), Status>,
    ) -> Result<Answer, Status> {
        let kind = &call.kind;
        let warnings = std::cell::RefCell::new(Vec::new());
        let edit = |object: &mut Value| {
            let mut present = kind.strategy.present_scale(kind, object)?;
            if call.write.applies {
                present["metadata"]["managedFields"] = patch::managed::owners_of_scale(kind, object).into();
            }
            let (scale, noticed) = make(&present)?;
            *warnings.borrow_mut() = noticed;
            let uid = meta_text(&scale, "uid");
            if !uid.is_empty() && uid != meta_text(object, "uid") {
                let StorageId { group, plural } = &kind.storage;
                let folder = if kind.custom { format!("{group}/{plural}") } else { plural.clone() };
                let text = format!(
                    "StorageError: invalid object, Code: 4, Key: /registry/{folder}/{}, ResourceVersion: 0, \
                     AdditionalErrorMsg: Precondition failed: UID in precondition: {uid}, UID in object meta: {}",
                    call.key(),
                    meta_text(object, "uid")
                );
                return Err(Status::conflict(&kind.group, &kind.plural, &call.name, text));
            }
            if !kind.custom {
                // Definitions say themselves what is too little.
                check_scale(&call.name, &scale)?;
            }
            kind.strategy.set_scale(kind, object, &scale)?;
            let version = meta_text(&scale, "resourceVersion");
            if let (Some(meta), false) = (meta_mut(object), version.is_empty()) {
                meta.insert("resourceVersion".into(), version.into());
            }
            Ok(())
        };
        let mut answer = self.update(call, &Change::Edit(&edit), Vec::new())?;
        answer.warnings.splice(..0, warnings.take());
        let Outcome::Object(object) = &answer.outcome else { return Ok(answer) };
        let scale = kind.strategy.scale(kind, &object.value(kind))?;
        Ok(Answer { outcome: Outcome::Other(scale), ..answer })
    }

    fn patch_scale(&self, call: &Call, patch_kind: PatchKind, text: &[u8]) -> Result<Answer, Status> {
        let options = self.patch_options(call, &self.clock.seconds());
        self.write_scale(call, &|present| {
            let patched = match patch_kind.change(text) {
                Change::Patch(patch_type, text) => patch::apply(&SCALE, patch_type, present, text, &options)?,
                _ => patch::apply_ssa(&SCALE, Some(present), text, &options)?,
            };
            check_name(call, &patched.object)?;
            Ok((patched.object, patched.warnings))
        })
    }

    /// Binds a pod to a node.
    pub(super) fn bind(&self, call: &Call, binding: &Value) -> Result<Answer, Status> {
        let target = &binding["target"];
        let of_kind = target["kind"].as_str().unwrap_or_default();
        if !matches!(of_kind, "" | "Node") {
            return Err(Status::server_error(format!(
                "target.kind: Unsupported value: {of_kind:?}: supported values: \"Node\", \"<empty>\""
            )));
        }
        let node = target["name"].as_str().unwrap_or_default();
        if node.is_empty() {
            return Err(Status::server_error("target.name: Required value"));
        }
        let kind = self.registry.kinds().find("", "v1", "pods").cloned();
        let kind = kind.ok_or_else(Status::no_such_resource)?;
        let table = self.table(&kind);
        let key = call.key();
        loop {
            let current = table.get(&key).ok_or_else(|| kind.not_found(&call.name))?;
            let mut pod = current.value();
            let uid = meta_text(binding, "uid");
            if !uid.is_empty() && uid != meta_text(&pod, "uid") {
                let call = Call { kind: kind.clone(), ..call.clone() };
                return Err(uid_conflict(&call, uid, meta_text(&pod, "uid")));
            }
            let refuse = |text: String| Err(Status::conflict("", "pods/binding", &call.name, text));
            if meta(&pod).contains_key("deletionTimestamp") {
                return refuse(format!("pod {} is being deleted, cannot be assigned to a host", call.name));
            }
            if let Some(present) = pod["spec"]["nodeName"].as_str().filter(|n| !n.is_empty()) {
                return refuse(format!("pod {} is already assigned to node \"{present}\"", call.name));
            }
            let gates = pod["spec"]["schedulingGates"].as_array().is_some_and(|g| !g.is_empty());
            if gates {
                return refuse(format!("pod {} has non-empty .spec.schedulingGates", call.name));
            }
            pod["spec"]["nodeName"] = node.into();
            copy_metadata(binding, &mut pod);
            self.set_scheduled(&mut pod);
            self.ask_about(call, ("", "v1", "Binding"), binding)?;
            if call.write.dry_run {
                return Ok(created());
            }
            // A binding is no write of an object: who sends it comes to own nothing.
            match table.update(&key, current.rv, draft(&kind, &pod)) {
                Ok(_) => return Ok(created()),
                Err(WriteError::Moved) => {}
                Err(_) => return Err(kind.not_found(&call.name)),
            }
        }
    }

    /// Asks those who may refuse what is sent to a subresource and stored nowhere.
    fn ask_about(
        &self,
        call: &Call,
        sent: (&'static str, &'static str, &'static str),
        object: &Value,
    ) -> Result<(), Status> {
        let ctx = self.ctx(call);
        let asked = Admission { rest: self, ctx: &ctx, call, operation: Operation::Create, sent: Some(sent) };
        if !asked.is_needed() {
            return Ok(());
        }
        let mut object = object.clone();
        asked.mutate(&Value::Null, &mut object)?;
        asked.validate(&Value::Null, &object)
    }

    fn set_scheduled(&self, pod: &mut Value) {
        let wanted = json!({
            "type": "PodScheduled", "status": "True", "lastProbeTime": null,
            "lastTransitionTime": self.clock.seconds(),
        });
        if !pod["status"].is_object() {
            pod["status"] = json!({});
        }
        let conditions = &mut pod["status"]["conditions"];
        if !conditions.is_array() {
            *conditions = json!([]);
        }
        let Some(list) = conditions.as_array_mut() else { return };
        match list.iter_mut().find(|c| c["type"] == "PodScheduled") {
            Some(present) if present["status"] == "True" => {}
            Some(present) => *present = wanted,
            None => list.push(wanted),
        }
    }

    fn evict(&self, call: &Call, eviction: &Value) -> Result<Answer, Status> {
        let name = meta_text(eviction, "name");
        if name != call.name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let mut options = DeleteOptions::from_value(&eviction["deleteOptions"])?;
        options.dry_run |= call.write.dry_run;
        let table = self.table(&call.kind);
        let stored = table.get(&call.key()).ok_or_else(|| call.kind.not_found(&call.name))?;
        let pod = stored.value();
        self.ask_about(call, ("policy", "v1", "Eviction"), eviction)?;
        admission::check_eviction(&self.ctx(call), &pod, options.dry_run)?;
        if !options.dry_run {
            self.mark_evicted(call)?;
        }
        self.delete(call, &options)?;
        Ok(created())
    }

    /// An evicted pod says so before it goes, so that who owns it can tell an eviction from a failure (KEP-3329).
    fn mark_evicted(&self, call: &Call) -> Result<(), Status> {
        let condition = json!({
            "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
            "message": "Eviction API: evicting", "lastProbeTime": null,
            "lastTransitionTime": super::clock::seconds(self.clock.now()),
        });
        let mut mark = |pod: &mut Value| {
            if pod["status"]["conditions"].is_null() {
                pod["status"]["conditions"] = json!([]);
            }
            let Some(conditions) = pod["status"]["conditions"].as_array_mut() else { return Ok(false) };
            match conditions.iter_mut().find(|c| c["type"] == condition["type"]) {
                Some(old) if old["status"] == "True" => return Ok(false),
                Some(old) => *old = condition.clone(),
                None => conditions.push(condition.clone()),
            }
            Ok(true)
        };
        let StorageId { group, plural } = &call.kind.storage;
        self.modify(group, plural, &call.namespace, &call.name, &mut mark).map(drop)
    }

    fn request_token(&self, call: &Call, mut wanted: Value) -> Result<Answer, Status> {
        const DEFAULT_SECONDS: i64 = 3600;
        let stored = self.table(&call.kind).get(&call.key());
        let account = stored.ok_or_else(|| call.kind.not_found(&call.name))?.value();
        let named = meta_text(&wanted, "name");
        if !named.is_empty() && named != call.name {
            let detail = "must match the service account name if specified";
            let error = FieldError::invalid("metadata.name", &json!(named), detail);
            return Err(Status::invalid("authentication.k8s.io", "TokenRequest", &call.name, vec![error]));
        }
        let seconds = wanted["spec"]["expirationSeconds"].as_i64().unwrap_or(DEFAULT_SECONDS);
        wanted["spec"]["expirationSeconds"] = seconds.into();
        let refuse = |detail: &str| {
            let error = FieldError::invalid("spec.expirationSeconds", &json!(seconds), detail);
            Err(Status::invalid("authentication.k8s.io", "TokenRequest", "", vec![error]))
        };
        if seconds < 600 {
            return refuse("may not specify a duration less than 10 minutes");
        }
        if seconds > 1 << 32 {
            return refuse("may not specify a duration larger than 2^32 seconds");
        }
        self.check_bound(call, &wanted["spec"]["boundObjectRef"])?;
        let audiences = match wanted["spec"]["audiences"].as_array() {
            Some(list) if !list.is_empty() => json!(list),
            _ => json!([super::tokens::AUDIENCE]),
        };
        let id = self.entropy.uid();
        let subject = super::tokens::Subject {
            namespace: &call.namespace,
            name: &call.name,
            uid: meta_text(&account, "uid"),
        };
        let now = self.clock.now();
        let (token, expires) = self.tokens.issue(&subject, &audiences, seconds, now, &id);
        wanted["metadata"] = json!({
            "name": call.name, "namespace": call.namespace,
            "uid": meta_text(&account, "uid"), "creationTimestamp": super::clock::seconds(now),
        });
        if !call.write.manager.is_empty() {
            let (manager, now) = (&call.write.manager, super::clock::seconds(now));
            patch::managed::on_write(&TOKEN_REQUEST, None, &mut wanted, manager, &call.sub, &now);
        }
        wanted["kind"] = "TokenRequest".into();
        wanted["apiVersion"] = "authentication.k8s.io/v1".into();
        let bound = wanted["spec"].get("boundObjectRef").cloned().unwrap_or(Value::Null);
        wanted["spec"] = json!({
            "audiences": audiences, "expirationSeconds": seconds, "boundObjectRef": bound,
        });
        wanted["status"] = json!({"token": token, "expirationTimestamp": expires});
        Ok(Answer::ok(&call.kind, Outcome::Other(wanted)).with_code(201))
    }

    /// The object that a token is bound to is there, and is the one meant.
    fn check_bound(&self, call: &Call, bound: &Value) -> Result<(), Status> {
        if bound.is_null() {
            return Ok(());
        }
        let text = |key: &str| bound[key].as_str().unwrap_or_default();
        let (version, kind, name, uid) = (text("apiVersion"), text("kind"), text("name"), text("uid"));
        let (group, short) = version.split_once('/').unwrap_or(("", version));
        let plural = match (group, short, kind) {
            ("", "v1", "Pod") => "pods",
            ("", "v1", "Node") => "nodes",
            ("", "v1", "Secret") => "secrets",
            _ => {
                let shown = format!("{group}/{short}, Kind={kind}");
                return Err(Status::bad_request(format!("cannot bind token to object of type {shown}")));
            }
        };
        let namespace = if plural == "nodes" { "" } else { call.namespace.as_str() };
        let found = Lookup::get(self, "", plural, namespace, name);
        let object = found.ok_or_else(|| Status::not_found("", plural, name))?;
        if !uid.is_empty() && uid != meta_text(&object, "uid") {
            let why = format!(
                "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
            );
            return Err(Status::conflict("", kind, name, why));
        }
        let account = object["spec"]["serviceAccountName"].as_str().unwrap_or_default();
        if plural == "pods" && account != call.name {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                call.name
            )));
        }
        Ok(())
    }

    /// Streams into a pod, a node or a service: nothing runs there, so there is nothing to connect to.
    fn connect(&self, call: &Call) -> Result<Answer, Status> {
        let kind = &call.kind;
        let name = call.name.split(':').next().unwrap_or_default();
        let key = super::key(&call.namespace, name);
        let stored = self.table(kind).get(&key).ok_or_else(|| kind.not_found(name))?;
        let object = stored.value();
        let scheduled = object["spec"]["nodeName"].as_str().is_some_and(|n| !n.is_empty());
        if kind.plural == "pods" && !scheduled {
            return Err(Status::bad_request(format!("pod {name} does not have a host assigned")));
        }
        if kind.plural == "pods" {
            self.check_node(&object)?;
        }
        Err(Status::internal(format!(
            "error dialing backend: {} {name:?} is simulated, nothing runs behind it",
            kind.singular
        )))
    }

    /// Who talks to a pod talks to its node; one that is not there is told of as if it were the pod.
    pub(super) fn check_node(&self, pod: &Value) -> Result<(), Status> {
        let node = pod["spec"]["nodeName"].as_str().unwrap_or_default();
        match Lookup::get(self, "", "nodes", "", node) {
            Some(_) => Ok(()),
            None => Err(Status::not_found("", "pods", node)),
        }
    }
}

/// Evictions may still come in the beta version, which has the same fields.
fn older_eviction(text: std::borrow::Cow<'_, [u8]>) -> std::borrow::Cow<'_, [u8]> {
    match serde_json::from_slice::<Value>(&text) {
        Ok(mut value) if value["apiVersion"] == "policy/v1beta1" => {
            value["apiVersion"] = "policy/v1".into();
            value.to_string().into_bytes().into()
        }
        _ => text,
    }
}

fn check_scale(name: &str, scale: &Value) -> Result<(), Status> {
    let replicas = &scale["spec"]["replicas"];
    if replicas.as_i64().is_none_or(|n| n >= 0) {
        return Ok(());
    }
    let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
    Err(Status::invalid("autoscaling", "Scale", name, vec![error]))
}

/// A pod takes on the labels and annotations of its binding.
fn copy_metadata(binding: &Value, pod: &mut Value) {
    for key in ["labels", "annotations"] {
        let Some(given) = meta(binding).get(key).and_then(Value::as_object) else { continue };
        if let Some(meta) = meta_mut(pod) {
            let present = meta.entry(key).or_insert_with(|| json!({}));
            if let Some(present) = present.as_object_mut() {
                present.extend(given.iter().map(|(k, v)| (k.clone(), v.clone())));
            }
        }
    }
}

/// What actions answer with.
fn created() -> Answer {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
    });
    Answer::ok(&Arc::new(SCALE.clone()), Outcome::Other(status)).with_code(201)
}

fn header_text(request: &Request, name: header::HeaderName) -> Option<&str> {
    request.headers.get(name)?.to_str().ok()
}
