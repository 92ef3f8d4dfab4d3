//! Who sent a request.
//!
//! In order: headers of a proxy that shows its certificate, a client's own
//! certificate, a bearer token that the API server reviews. Who shows nothing is
//! anonymous; who shows something that is not good is nobody at all (401).

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use http::{HeaderMap, Method, header};
use serde::Deserialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use tokio::time::Instant;

use super::{Serving, User, authority::Authorities, listen::Presented, ttl::Remembered};
use crate::{
    api::{ApiClient, ApiError},
    manager::Manager,
};

const PATH: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const TIMEOUT: Duration = Duration::from_secs(10);
/// Longest token that is asked about: the API server's limit of a header.
const LONGEST: usize = 16 << 10;
/// How often a review is asked for that gets no answer.
pub(super) const ATTEMPTS: u32 = 3;

/// How somebody was recognised, for metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Means {
    Proxy,
    Certificate,
    Token,
    Nothing,
}

impl Means {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Proxy => "requestheader",
            Self::Certificate => "x509",
            Self::Token => "token",
            Self::Nothing => "anonymous",
        }
    }
}

/// Finds out who asks.
pub(super) struct Authenticator {
    authorities: Arc<Authorities>,
    api: ApiClient,
    manager: Arc<Manager>,
    ttl: Duration,
    tokens: Remembered<[u8; 32], Option<User>>,
}

impl Authenticator {
    pub(super) fn new(
        config: &Serving,
        authorities: Arc<Authorities>,
        api: ApiClient,
        manager: Arc<Manager>,
    ) -> Self {
        Self { authorities, api, manager, ttl: config.token_ttl, tokens: Remembered::new() }
    }

    /// Who sent a request with these certificates and headers. The error says
    /// why that is nobody.
    pub(super) async fn recognise(
        &self,
        presented: &Presented,
        headers: &HeaderMap,
    ) -> Result<(User, Means), String> {
        let mut refusal = None;
        if !presented.0.is_empty() {
            let trust = self.authorities.trust();
            let now = self.manager.now();
            let who = User::of_certificate(&presented.0[0]);
            if trust.proxy(&presented.0, now) {
                let names = &trust.headers.allowed_names;
                let name = who.as_ref().map_or("", |who| &who.name);
                let allowed = names.is_empty() || names.iter().any(|allowed| allowed == name);
                if let Some(user) = proxied(&trust.headers, headers) {
                    if allowed {
                        return Ok((user.authenticated(), Means::Proxy));
                    }
                    refusal = Some(format!(
                        "the certificate of {name:?} is not among --requestheader-allowed-names"
                    ));
                }
            }
            match trust.client(&presented.0, now) {
                Some(Ok(())) => match who {
                    Some(user) => return Ok((user.authenticated(), Means::Certificate)),
                    None => refusal = Some("the client certificate has no common name".to_owned()),
                },
                Some(Err(reason)) => refusal = refusal.or(Some(format!("client certificate: {reason}"))),
                None => {}
            }
        }
        if let Some(token) = bearer(headers) {
            return match self.token(token).await {
                Ok(Some(user)) => Ok((user.authenticated(), Means::Token)),
                Ok(None) => Err("the API server does not know the token".to_owned()),
                Err(error) => {
                    tracing::warn!(%error, "a token cannot be reviewed");
                    Err(format!("the token cannot be reviewed: {error}"))
                }
            };
        }
        match refusal {
            Some(reason) => Err(reason),
            None => Ok((User::anonymous(), Means::Nothing)),
        }
    }

    async fn token(&self, token: &str) -> Result<Option<User>, ApiError> {
        if token.len() > LONGEST {
            return Ok(None);
        }
        let question: [u8; 32] = Sha256::digest(token).into();
        if let Some(known) = self.tokens.get(&question) {
            return Ok(known);
        }
        let body = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}});
        let answer = ask(&self.api, PATH, &body, |status, took| {
            self.manager.metrics().reviews.authentication(status, took);
        })
        .await?;
        let review: Review = serde_json::from_slice(&answer)
            .map_err(|e| ApiError::no_answer(format!("the answer to a TokenReview cannot be read: {e}")))?;
        if !review.status.error.is_empty() {
            tracing::debug!(error = review.status.error, "a token was refused");
        }
        let user = review.status.authenticated.then(|| review.status.user.into());
        self.tokens.put(question, user.clone(), self.ttl);
        Ok(user)
    }
}

/// Asks for a review, again if there is no answer or a server error.
pub(super) async fn ask(
    api: &ApiClient,
    path: &str,
    body: &serde_json::Value,
    observe: impl Fn(u32, Duration),
) -> Result<bytes::Bytes, ApiError> {
    let headers = [(header::CONTENT_TYPE, "application/json"), (header::ACCEPT, "application/json")];
    let body = bytes::Bytes::from(body.to_string());
    for attempt in 1.. {
        let started = Instant::now();
        let answer = api.send(Method::POST, path, &headers, body.clone(), TIMEOUT).await;
        let status = answer.as_ref().map_or_else(|e| e.failure.status, |ok| ok.status.as_u16().into());
        observe(status, started.elapsed());
        match answer {
            Ok(answer) => return Ok(answer.body),
            Err(error) if attempt >= ATTEMPTS || !matches!(error.failure.status, 0 | 429 | 500..) => {
                return Err(error);
            }
            Err(error) => {
                let pause = Duration::from_millis(200) * attempt;
                tokio::time::sleep(error.retry_after.unwrap_or(pause).min(Duration::from_secs(2))).await;
            }
        }
    }
    Err(ApiError::no_answer("not asked"))
}

#[derive(Deserialize)]
struct Review {
    #[serde(default)]
    status: Status,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    authenticated: bool,
    user: WireUser,
    error: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireUser {
    username: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

impl From<WireUser> for User {
    fn from(wire: WireUser) -> Self {
        Self { name: wire.username, uid: wire.uid, groups: wire.groups, extra: wire.extra }
    }
}

/// The token of a request.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

/// On whose behalf a proxy asks; none if it does not say.
fn proxied(names: &super::RequestHeader, headers: &HeaderMap) -> Option<User> {
    let text = |value: &http::HeaderValue| value.to_str().ok().map(str::to_owned);
    let first = |names: &[String]| {
        let values = names.iter().filter_map(|name| headers.get(name.as_str()));
        values.filter_map(text).find(|value| !value.is_empty())
    };
    let groups = names.group_headers.iter().flat_map(|name| headers.get_all(name.as_str()));
    let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for prefix in &names.extra_headers_prefixes {
        let prefix = prefix.to_ascii_lowercase();
        for (name, value) in headers {
            let Some(rest) = name.as_str().strip_prefix(&prefix) else { continue };
            let rest = percent_encoding::percent_decode_str(rest).decode_utf8_lossy().into_owned();
            extra.entry(rest).or_default().extend(text(value));
        }
    }
    Some(User {
        name: first(&names.username_headers)?,
        uid: first(&names.uid_headers).unwrap_or_default(),
        groups: groups.filter_map(text).collect(),
        extra,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_what_follows_bearer() {
        for (value, token) in [
            ("Bearer abc", Some("abc")),
            ("bearer  abc ", Some("abc")),
            ("Basic abc", None),
            ("Bearer ", None),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::AUTHORIZATION, value.parse().unwrap());
            assert_eq!(bearer(&headers), token, "{value:?}");
        }
    }

    #[test]
    fn a_proxy_says_on_whose_behalf_it_asks() {
        let names = super::super::RequestHeader {
            username_headers: vec!["X-Remote-User".into()],
            group_headers: vec!["X-Remote-Group".into()],
            extra_headers_prefixes: vec!["X-Remote-Extra-".into()],
            ..Default::default()
        };
        let mut headers = HeaderMap::new();
        assert_eq!(proxied(&names, &headers), None);
        headers.insert("x-remote-user", "ann".parse().unwrap());
        headers.append("x-remote-group", "a".parse().unwrap());
        headers.append("x-remote-group", "b".parse().unwrap());
        headers.append("x-remote-extra-example.com%2fscope", "s".parse().unwrap());
        let user = proxied(&names, &headers).unwrap();
        assert_eq!((user.name.as_str(), user.groups), ("ann", vec!["a".to_owned(), "b".to_owned()]));
        assert_eq!(user.extra["example.com/scope"], ["s"]);
    }
}
