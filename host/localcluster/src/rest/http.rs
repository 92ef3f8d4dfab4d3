//! From HTTP requests to calls and back.
//!
//! In: a request whose body has been read. Out: a response. Invariant: every path, method and body gets an answer.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures::Stream;
use http::{HeaderMap, Method, header};
use serde_json::Value;

use super::answer::{Answer, Outcome};
use super::negotiate::{self, Accept, DiscoveryForm, Shape};
use super::options::{DeleteOptions, ListOptions, Query, Verb, WriteOptions};
use super::path::{self, ResourcePath, Route};
use super::read::Filter;
use super::render::{Form, IncludeObject};
use super::respond::{
    AGGREGATED_TYPE, Writer, cached, failure, not_found, object_response, refusal, text, unavailable, warn,
};
use super::strategy::{Kind, User};
use super::update::Change;
use super::{Call, Rest, body};
use crate::authorization::{Attributes, AuthorizationMode};
use crate::faults::Verdict;
use crate::patch::PatchType;
use crate::schema;
use crate::status::Status;
use crate::storage::raw;

/// A request whose body has been read.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// Method.
    pub method: Method,
    /// Path as sent.
    pub path: String,
    /// Query as sent, without `?`.
    pub query: String,
    /// Headers.
    pub headers: HeaderMap,
    /// Body.
    pub body: Bytes,
    /// Who the connection belongs to, by its client certificate or by the lack of any need for one.
    pub identity: Option<User>,
}

/// The body of a response.
pub enum Body {
    /// All of it.
    Full(Bytes),
    /// Pieces until the end.
    Stream(Pin<Box<dyn Stream<Item = Bytes> + Send>>),
}

/// A response.
pub type Response = http::Response<Body>;

/// The connection is to be cut instead of an answer; only faults on request ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut;

impl Request {
    pub(super) fn header(&self, name: header::HeaderName) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl Rest {
    /// Answers a request.
    pub async fn handle(self: &Arc<Self>, request: Request) -> Result<Response, Cut> {
        if let Some(witness) = self.witness.get() {
            witness(&request);
        }
        let verdict = self.faults.judge(&request).await;
        match verdict {
            Verdict::Pass => Ok(self.answer(request).await),
            Verdict::Refuse(status) => Ok(failure(&status, false)),
            Verdict::Cut => Err(Cut),
            Verdict::LoseAnswer => {
                self.answer(request).await;
                Err(Cut)
            }
        }
    }

    async fn answer(self: &Arc<Self>, request: Request) -> Response {
        let Some(route) = path::route(&request.path) else {
            return text(400, "400 Bad Request");
        };
        let user = self.admit(&request);
        if let Route::Other(segments) = &route {
            // Without RBAC these need no credential.
            if user.is_ok() || self.authorization == AuthorizationMode::AlwaysAllow {
                if let Some(response) = self.open_path(&request, segments) {
                    return response.unwrap_or_else(|status| failure(&status, false));
                }
            }
        }
        let user = match user {
            Ok(user) => user,
            Err(status) => return refusal(&status),
        };
        let yaml = negotiate::failures_in_yaml(request.header(header::ACCEPT));
        let result = match route {
            Route::Resource(path) => self.resource(&request, path, user).await,
            Route::Other(segments) if self.is_admin(&segments) => self.admin(request, &segments).await,
            other => self.discover(&request, &other),
        };
        result.unwrap_or_else(|status| failure(&status, yaml))
    }

    /// Who sends a request, if they may.
    fn admit(&self, request: &Request) -> Result<User, Status> {
        let sender = self.authenticate(request)?;
        let acts = request.headers.keys().any(|name| name.as_str().starts_with("impersonate-"));
        if self.authorization == AuthorizationMode::AlwaysAllow && !acts {
            return Ok(sender);
        }
        let asked = Attributes::of(request);
        let user = self.impersonate(sender, &request.headers, &asked)?;
        self.authorize(&user, &asked)?;
        Ok(user)
    }

    fn discover(&self, request: &Request, route: &Route) -> Result<Response, Status> {
        let accept = request.header(header::ACCEPT);
        let kinds = self.registry.kinds();
        let remote = crate::aggregation::remote_groups(self);
        let elsewhere = |group: &str| remote.iter().find(|(name, _)| name == group);
        if let Route::Version { group, version } = route {
            if elsewhere(group).is_some_and(|(_, versions)| versions.contains(version)) {
                return Ok(unavailable());
            }
        }
        let known = match route {
            Route::Core | Route::Groups => true,
            Route::Group(group) => {
                !group.is_empty() && (kinds.versions(group).is_some() || elsewhere(group).is_some())
            }
            Route::Version { group, version } => match kinds.versions(group) {
                None => false,
                Some(versions) if versions.contains(version) => true,
                Some(_) if kinds.all().iter().any(|k| k.group == *group && !k.custom) => {
                    return Err(Status::no_such_resource());
                }
                Some(_) => false,
            },
            Route::Other(segments) => return self.other_path(request, segments),
            Route::Resource(_) => false,
        };
        if !known {
            return Ok(not_found());
        }
        if request.method != Method::GET {
            return Err(Status::method_not_allowed());
        }
        let whole = matches!(route, Route::Core | Route::Groups);
        let (form, accept) = negotiate::negotiate_discovery(accept, whole)?;
        let core = matches!(route, Route::Core);
        if form == DiscoveryForm::Aggregated {
            let (bytes, etag) = self.discovery.aggregated(&kinds, &remote, core, accept.yaml);
            return Ok(cached(request, bytes, &etag, AGGREGATED_TYPE));
        }
        let document = match route {
            Route::Core => crate::discovery::core_versions(),
            Route::Groups => crate::discovery::groups(&kinds, &remote),
            Route::Group(group) => crate::discovery::group(&kinds, &remote, group),
            Route::Version { group, version } => crate::discovery::resources(&kinds, group, version),
            Route::Other(_) | Route::Resource(_) => Value::Null,
        };
        let form = self.form(accept, IncludeObject::default());
        Ok(object_response(200, form.encode(&document), accept.yaml))
    }

    fn is_elsewhere(&self, group: &str, version: &String) -> bool {
        let remote = crate::aggregation::remote_groups(self);
        remote.iter().any(|(name, versions)| name == group && versions.contains(version))
    }

    fn form(&self, accept: Accept, include: IncludeObject) -> Form {
        Form { accept, include, now: self.clock.now() }
    }

    async fn resource(
        self: &Arc<Self>,
        request: &Request,
        path: ResourcePath,
        user: User,
    ) -> Result<Response, Status> {
        let kinds = self.registry.kinds();
        // Paths that are not served look different in the groups of custom resources.
        let custom_group = || !kinds.all().iter().any(|kind| kind.group == path.group && !kind.custom);
        let kind = match kinds.find(&path.group, &path.version, &path.plural) {
            Some(kind) => kind.clone(),
            None if self.is_elsewhere(&path.group, &path.version) => return Ok(unavailable()),
            None if custom_group() => return Ok(not_found()),
            None => return Err(Status::no_such_resource()),
        };
        let target = match Target::of(&kind, &path, &request.method) {
            Err(status) if status.code == 404 && kind.custom => {
                return match (&path.name, &path.sub) {
                    (Some(name), Some(_)) if kind.namespaced == path.namespace.is_some() => {
                        Err(kind.not_found(name))
                    }
                    _ => Ok(not_found()),
                };
            }
            // Nothing is written across namespaces.
            Err(status)
                if status.code == 405
                    && kind.custom
                    && kind.namespaced
                    && path.namespace.is_none()
                    && matches!(
                        request.method,
                        Method::POST | Method::PUT | Method::PATCH | Method::DELETE
                    ) =>
            {
                return Ok(not_found());
            }
            target => target?,
        };
        let query = Query::parse(&request.query);
        let watches = path.watch || query.flag("watch").unwrap_or(false);
        if let Some(timeout) = query.text("timeout").filter(|text| !text.is_empty() && !watches) {
            super::options::check_duration(timeout).map_err(|why| {
                Status::bad_request(format!("invalid timeout specified in the request URL - {why}"))
            })?;
        }
        let streams = path.watch || target == Target::Collection;
        let accept = negotiate::negotiate(request.header(header::ACCEPT), streams)?;
        let include = match accept.shape {
            Shape::Table => IncludeObject::parse(query.text("includeObject"))?,
            _ => IncludeObject::default(),
        };
        let gzip = request
            .header(header::ACCEPT_ENCODING)
            .is_some_and(|list| list.split(',').any(|e| e.trim().starts_with("gzip")));
        let writer = Writer { form: self.form(accept, include), gzip };
        let call = Call {
            kind,
            namespace: path.namespace.clone().unwrap_or_default(),
            name: path.name.clone().unwrap_or_default(),
            sub: path.sub.clone().unwrap_or_default(),
            user,
            write: WriteOptions::default(),
        };
        check_segment(&call.name)?;
        let deprecation = call.kind.strategy.deprecation();
        match self.perform(request, &path, target, call, &query).await {
            Ok(mut answer) => {
                answer.warnings.splice(..0, deprecation);
                writer.write(answer)
            }
            Err(status) => {
                let yaml = negotiate::failures_in_yaml(request.header(header::ACCEPT));
                let mut response = failure(&status, yaml);
                deprecation.iter().chain(&status.warnings).for_each(|warning| warn(&mut response, warning));
                Ok(response)
            }
        }
    }

    async fn perform(
        self: &Arc<Self>,
        request: &Request,
        path: &ResourcePath,
        target: Target,
        mut call: Call,
        query: &Query,
    ) -> Result<Answer, Status> {
        let agent = request.header(header::USER_AGENT).unwrap_or_default();
        let content = request.header(header::CONTENT_TYPE);
        let applies = body::media_type(content) == "application/apply-patch+yaml";
        let creates = matches!(target, Target::Create | Target::Replace) || applies;
        self.check_conversion(&call, creates)?;
        match target {
            Target::Read if path.watch => self.start_watch(&call, query, true),
            Target::Collection => {
                let watch = query.flag("watch").unwrap_or(false);
                if watch {
                    return self.start_watch(&call, query, false);
                }
                self.list(&call, &ListOptions::parse(query, false)?).await
            }
            Target::Read => {
                if query.flag("export").unwrap_or(false) {
                    return Err(Status::bad_request(
                        "the export parameter, deprecated since v1.14, is no longer supported",
                    ));
                }
                let version = query.text("resourceVersion").unwrap_or_default();
                self.get(&call, version).await
            }
            Target::Create => {
                call.write = WriteOptions::parse(query, agent, Verb::Create)?;
                if let Some(answer) = self.review(&call, content, &request.body)? {
                    return Ok(answer);
                }
                if call.kind.kind == "Binding" && !call.kind.custom {
                    let body = body::of_kind(content, &request.body, &call.kind.kind, false)?;
                    let decoded = schema::decode(&call.kind, &body, call.write.validation)?;
                    call.name = super::meta_text(&decoded.object, "name").to_owned();
                    return self.bind(&call, &decoded.object);
                }
                let body = body::of_kind(content, &request.body, &call.kind.kind, call.kind.custom)?;
                let decoded = schema::decode(&call.kind, &body, call.write.validation)?;
                if let Some(field) = call.kind.strategy.raw_field() {
                    call.write.raw = raw::field(&body.json, field);
                }
                self.create(&call, decoded.object, decoded.warnings)
            }
            Target::Replace => {
                call.write = WriteOptions::parse(query, agent, Verb::Update)?;
                let body = body::of_kind(content, &request.body, &call.kind.kind, call.kind.custom)?;
                let decoded = schema::decode(&call.kind, &body, call.write.validation)?;
                self.update(&call, &Change::Put(decoded.object), decoded.warnings)
            }
            Target::Patch => {
                let patch = PatchKind::of(content, &call.kind)?;
                let verb = if patch == PatchKind::Apply { Verb::Apply } else { Verb::Patch };
                call.write = WriteOptions::parse(query, agent, verb)?;
                self.update(&call, &patch.change(&request.body), Vec::new())
            }
            Target::Delete => {
                let options = delete_options(query, content, &request.body)?;
                self.delete(&call, &options)
            }
            Target::DeleteCollection => {
                let list = ListOptions::parse(query, false)?;
                let options = delete_options(query, content, &request.body)?;
                let filter = Filter::parse(&call.kind, &list.label_selector, &list.field_selector)?;
                let page = (list.limit, list.continue_token.as_str());
                self.delete_collection(&call, &filter, page, &options)
            }
            Target::Sub => self.subresource(request, call, query).await,
        }
    }

    fn start_watch(&self, call: &Call, query: &Query, by_path: bool) -> Result<Answer, Status> {
        let options = ListOptions::parse(query, by_path)?;
        let watcher = self.watch(call, &options)?;
        Ok(Answer::ok(&call.kind, Outcome::Watch(Box::new(watcher))))
    }
}

/// Verbs of single objects.
const ITEM_VERBS: [&str; 4] = ["get", "update", "patch", "delete"];

/// What a path and a method ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Target {
    Collection,
    Read,
    Create,
    Replace,
    Patch,
    Delete,
    DeleteCollection,
    Sub,
}

impl Target {
    fn of(kind: &Kind, path: &ResourcePath, method: &Method) -> Result<Self, Status> {
        if path.namespace.is_some() && !kind.namespaced {
            return Err(Status::no_such_resource());
        }
        let everywhere = kind.namespaced && path.namespace.is_none();
        if let Some(sub) = &path.sub {
            let sub = kind.subresource(sub).ok_or_else(Status::no_such_resource)?;
            if everywhere || path.watch {
                return Err(Status::no_such_resource());
            }
            let verb = match *method {
                Method::GET => "get",
                Method::POST => "create",
                Method::PUT => "update",
                Method::PATCH => "patch",
                Method::DELETE => "delete",
                _ => "",
            };
            if !path.rest.is_empty() && sub.name != "proxy" {
                return Err(Status::no_such_resource());
            }
            if !sub.verbs.contains(&verb) {
                return Err(Status::method_not_allowed());
            }
            return Ok(Self::Sub);
        }
        let (target, verb) = match (path.name.is_some(), method) {
            (true, _) if everywhere => return Err(Status::no_such_resource()),
            // Reviews have no objects.
            (true, _) if !ITEM_VERBS.iter().any(|verb| kind.verbs.contains(verb)) => {
                return Err(Status::no_such_resource());
            }
            (false, &Method::GET) if path.watch => (Self::Read, "watch"),
            (true, &Method::GET) if path.watch => (Self::Read, "watch"),
            _ if path.watch => return Err(Status::method_not_allowed()),
            (false, &Method::GET) => (Self::Collection, "list"),
            (true, &Method::GET) => (Self::Read, "get"),
            (false, &Method::POST) if !everywhere => (Self::Create, "create"),
            // The name in the path of a new custom object is not looked at.
            (true, &Method::POST) if kind.custom => (Self::Create, "create"),
            (false, &Method::PUT | &Method::PATCH) if kind.custom && !everywhere => {
                return Err(Status::bad_request("name must be provided"));
            }
            (true, &Method::PUT) => (Self::Replace, "update"),
            (true, &Method::PATCH) => (Self::Patch, "patch"),
            (true, &Method::DELETE) => (Self::Delete, "delete"),
            (false, &Method::DELETE) if !everywhere => (Self::DeleteCollection, "deletecollection"),
            _ => return Err(Status::method_not_allowed()),
        };
        if kind.verbs.contains(&verb) { Ok(target) } else { Err(Status::method_not_allowed()) }
    }
}

/// A patch by its content type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PatchKind {
    Json,
    Merge,
    Strategic,
    Apply,
}

impl PatchKind {
    pub(super) fn of(content_type: Option<&str>, kind: &Kind) -> Result<Self, Status> {
        match body::media_type(content_type) {
            "application/json-patch+json" => Ok(Self::Json),
            "application/merge-patch+json" => Ok(Self::Merge),
            "application/strategic-merge-patch+json" if !kind.custom => Ok(Self::Strategic),
            "application/apply-patch+yaml" => Ok(Self::Apply),
            _ if kind.custom => Err(Status::unsupported_media_type(
                "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml",
            )),
            _ => Err(Status::media_type_not_routed()),
        }
    }

    pub(super) fn change(self, text: &[u8]) -> Change<'_> {
        match self {
            Self::Json => Change::Patch(PatchType::Json, text),
            Self::Merge => Change::Patch(PatchType::Merge, text),
            Self::Strategic => Change::Patch(PatchType::Strategic, text),
            Self::Apply => Change::Apply(text),
        }
    }
}

/// Names are single path segments.
fn check_segment(name: &str) -> Result<(), Status> {
    let why = match name {
        "." | ".." => format!("may not be '{name}'"),
        _ if name.contains('%') => "may not contain '%'".to_owned(),
        _ => return Ok(()),
    };
    Err(Status::bad_request(format!("Name parameter invalid: {name:?}: {why}")))
}

fn delete_options(query: &Query, content_type: Option<&str>, text: &[u8]) -> Result<DeleteOptions, Status> {
    if text.is_empty() {
        return DeleteOptions::from_query(query);
    }
    DeleteOptions::from_value(&body::delete_options(content_type, text)?)
}
