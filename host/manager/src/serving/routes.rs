//! From a request to an answer: who asks, whether they may, what there is.

use std::sync::Arc;

use axum::{
    Router,
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use http::{Method, Request, StatusCode, header, request::Parts};
use serde_json::json;

use super::{App, authz::Decision, debug, health::Kind, listen::Presented, pages, profile};
use crate::metrics;

/// All paths.
pub(super) fn router(app: Arc<App>) -> Router {
    Router::new().fallback(handle).with_state(app)
}

async fn handle(State(app): State<Arc<App>>, request: Request<Body>) -> Response {
    let (parts, _) = request.into_parts();
    let presented = parts.extensions.get::<Presented>().cloned().unwrap_or_default();
    let (means, response) = match app.authn.recognise(&presented, &parts.headers).await {
        Ok((user, means)) => (means.word(), admit(&app, &user, &parts).await),
        Err(reason) => {
            tracing::debug!(path = parts.uri.path(), reason, "a request was not recognised");
            ("refused", status(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized"))
        }
    };
    let code = response.status().as_u16().to_string();
    app.manager.metrics().reviews.requests.with_label_values(&[means, code.as_str()]).inc();
    response
}

/// Answers if the user may ask.
async fn admit(app: &App, user: &super::User, request: &Parts) -> Response {
    let path = request.uri.path();
    let verb = request.method.as_str().to_ascii_lowercase();
    if !app.authz.is_open(path) {
        match app.authz.decide(user, &verb, path).await {
            Ok(Decision::Allowed) => {}
            Ok(Decision::Denied(reason)) => {
                let name = &user.name;
                let why = if reason.is_empty() { String::new() } else { format!(": {reason}") };
                let message = format!("forbidden: User {name:?} cannot {verb} path {path:?}{why}");
                return status(StatusCode::FORBIDDEN, "Forbidden", &message);
            }
            Err(error) => {
                tracing::warn!(user = user.name, path, %error, "cannot find out whether this is allowed");
                let message = format!("cannot find out whether this is allowed: {error}");
                return status(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", &message);
            }
        }
    }
    respond(app, request).await
}

async fn respond(app: &App, request: &Parts) -> Response {
    let path = request.uri.path();
    let query = request.uri.query().unwrap_or_default();
    if !matches!(request.method, Method::GET | Method::HEAD) {
        return status(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", "only GET is served here");
    }
    for kind in [Kind::Healthz, Kind::Livez, Kind::Readyz] {
        let rest = path.strip_prefix('/').and_then(|path| path.strip_prefix(kind.word()));
        let part = match rest {
            Some("" | "/") => None,
            Some(rest) if rest.starts_with('/') => Some(&rest[1..]),
            _ => continue,
        };
        let (code, said) = app.health.answer(kind, part, query);
        return (code, [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")], said).into_response();
    }
    match path {
        "/" | "/index.html" => pages::index(app.config.profiling),
        "/metrics" => measured(app.manager.metrics_text()),
        "/metrics/slis" => measured(app.manager.metrics().health.text()),
        "/configz" => pages::json(&app.config.configz),
        "/version" => pages::json(&crate::version::version()),
        "/flagz" => pages::flagz(&app.config.flags),
        "/statusz" => pages::statusz(&app.manager),
        _ if !app.config.profiling || !path.starts_with("/debug/") => not_found(path),
        "/debug/controllers" => pages::json(&debug::all(&app.manager)),
        "/debug/pprof" | "/debug/pprof/" => profile::index(),
        "/debug/pprof/cmdline" => profile::command_line(),
        "/debug/pprof/profile" => profile::cpu(query).await,
        "/debug/pprof/heap" => profile::heap(&app.manager),
        _ => match path.strip_prefix("/debug/controllers/") {
            Some(name) => {
                debug::one(&app.manager, name, query).map_or_else(|| not_found(path), |it| pages::json(&it))
            }
            None => not_found(path),
        },
    }
}

fn measured(text: String) -> Response {
    ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response()
}

pub(super) fn not_found(path: &str) -> Response {
    status(StatusCode::NOT_FOUND, "NotFound", &format!("there is nothing at {path}"))
}

/// A refusal in the form of the API.
pub(super) fn status(code: StatusCode, reason: &str, message: &str) -> Response {
    let body = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    (code, [(header::CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}
