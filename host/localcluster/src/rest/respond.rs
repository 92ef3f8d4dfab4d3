//! Responses: from answers, documents and failures to status, headers and body.

use bytes::Bytes;
use http::{HeaderValue, header};

use super::answer::{Answer, Outcome};
use super::http::{Body, Request, Response};
use super::negotiate::{self, Shape};
use super::render::{Form, Lines};
use super::watch::Watcher;
use crate::status::Status;

/// How the answer of one request is written.
pub(super) struct Writer {
    pub(super) form: Form,
    pub(super) gzip: bool,
}

/// Answers longer than this are compressed for clients that take it.
const GZIP_FROM: usize = 128 * 1024;

impl Writer {
    /// Writes it.
    pub(super) fn write(self, answer: Answer) -> Result<Response, Status> {
        let Answer { code, kind, outcome, warnings } = answer;
        let yaml = self.form.accept.yaml;
        let mut response = match outcome {
            Outcome::Object(object) => object_response(code, self.form.object(&kind, &object)?, yaml),
            Outcome::List(list) => {
                let bytes = self.form.list(&kind, &list)?;
                self.compressed(object_response(code, bytes.clone(), yaml), &bytes)
            }
            Outcome::Other(value) => {
                object_response(code, self.form.encode(&self.form.reshaped(&kind, value)), yaml)
            }
            Outcome::Text(body) => text(code, &body),
            Outcome::Empty => {
                let mut response = http::Response::new(Body::Full(Bytes::new()));
                *response.status_mut() = status_code(code);
                response
            }
            Outcome::Watch(watcher) => {
                if yaml {
                    return Err(negotiate::no_such_stream());
                }
                if self.form.accept.shape == Shape::PartialList {
                    return Err(negotiate::not_acceptable());
                }
                stream(*watcher, self.form)
            }
        };
        warnings.iter().for_each(|warning| warn(&mut response, warning));
        Ok(response)
    }

    fn compressed(&self, mut response: Response, bytes: &[u8]) -> Response {
        if !self.gzip || bytes.len() < GZIP_FROM {
            return response;
        }
        use std::io::Write;
        let mut encoder =
            flate2::write::GzEncoder::new(Vec::with_capacity(bytes.len() / 8), flate2::Compression::fast());
        if let Ok(packed) = encoder.write_all(bytes).and_then(|()| encoder.finish()) {
            *response.body_mut() = Body::Full(packed.into());
            let headers = response.headers_mut();
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            headers.insert(header::VARY, HeaderValue::from_static("Accept-Encoding"));
        }
        response
    }
}

/// Adds a `Warning` header.
pub(super) fn warn(response: &mut Response, warning: &str) {
    let escaped = warning.replace('\\', "\\\\").replace('"', "\\\"");
    if let Ok(value) = HeaderValue::from_str(&format!("299 - \"{escaped}\"")) {
        response.headers_mut().append(header::WARNING, value);
    }
}

fn stream(watcher: Watcher, form: Form) -> Response {
    let lines = Lines::new(form);
    let batches = futures::stream::unfold((watcher, lines), |(mut watcher, mut lines)| async {
        let items = watcher.next().await?;
        let kind = watcher.kind().clone();
        let pieces: Vec<Bytes> = items.iter().map(|item| lines.line(&kind, item)).collect();
        Some((futures::stream::iter(pieces), (watcher, lines)))
    });
    let pieces = futures::StreamExt::flatten(batches);
    let mut response = http::Response::new(Body::Stream(Box::pin(pieces)));
    set_type(&mut response, "application/json");
    response
}

pub(super) const AGGREGATED_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

fn status_code(code: u16) -> http::StatusCode {
    http::StatusCode::from_u16(code).unwrap_or(http::StatusCode::INTERNAL_SERVER_ERROR)
}

fn set_type(response: &mut Response, media_type: &'static str) {
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
}

pub(super) fn object_response(code: u16, bytes: Bytes, yaml: bool) -> Response {
    let mut response = http::Response::new(Body::Full(bytes));
    *response.status_mut() = status_code(code);
    set_type(&mut response, if yaml { "application/yaml" } else { "application/json" });
    response
}

pub(super) fn text(code: u16, body: &str) -> Response {
    let mut response = http::Response::new(Body::Full(Bytes::copy_from_slice(body.as_bytes())));
    *response.status_mut() = status_code(code);
    set_type(&mut response, "text/plain; charset=utf-8");
    response
}

/// A plain text.
pub fn text_response(code: u16, body: &str) -> Response {
    text(code, body)
}

pub(super) fn not_found() -> Response {
    text(404, "404 page not found\n")
}

/// A group whose server does not answer.
pub(super) fn unavailable() -> Response {
    text(503, "service unavailable\n")
}

/// The answer of a failure.
pub fn failure(status: &Status, yaml: bool) -> Response {
    let json = status.to_value().to_string();
    let bytes = if yaml { super::to_yaml(json.as_bytes()) } else { json.into() };
    let mut response = object_response(status.code, bytes, yaml);
    let wait = status.details.as_ref().map_or(0, |details| details.retry_after_seconds);
    if wait > 0 {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(wait));
    }
    response
}

/// The answer to somebody who may not.
pub(super) fn refusal(status: &Status) -> Response {
    let mut response = failure(status, false);
    if status.code != 401 {
        response.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    }
    response
}

/// An answer that clients keep: 304 if they have it already.
pub(super) fn cached(request: &Request, bytes: Bytes, etag: &str, media_type: &'static str) -> Response {
    let quoted = format!("\"{etag}\"");
    let known = request
        .header(header::IF_NONE_MATCH)
        .is_some_and(|given| given.split(',').any(|tag| tag.trim() == quoted));
    let mut response = http::Response::new(Body::Full(if known { Bytes::new() } else { bytes }));
    if known {
        *response.status_mut() = http::StatusCode::NOT_MODIFIED;
    }
    set_type(&mut response, media_type);
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    headers.insert(header::VARY, HeaderValue::from_static("Accept"));
    if let Ok(value) = HeaderValue::from_str(&quoted) {
        headers.insert(header::ETAG, value);
    }
    response
}
