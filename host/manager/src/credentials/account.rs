//! One service account and its token.

use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{HeaderValue, Method, StatusCode, header};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        authentication::v1::{TokenRequest, TokenRequestSpec},
        core::v1::ServiceAccount,
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};

use super::NAMESPACE;
use crate::{
    api::{ApiClient, ApiError, Response},
    clock::SharedClock,
};

/// How long a token is asked to last, in seconds.
const LIFETIME: i64 = 3600;
/// A token that is said to end sooner is taken to last so long: the clocks
/// differ.
const SHORTEST: SignedDuration = SignedDuration::from_mins(10);
/// A token is renewed when so many hundredths of its life are left.
const LEEWAY: i32 = 20;
/// Pause after a request for a token that failed, while the old one is good.
const PAUSE: SignedDuration = SignedDuration::from_secs(10);
/// How long a request may take.
const TIMEOUT: Duration = Duration::from_secs(10);

const JSON: [(header::HeaderName, &str); 2] =
    [(header::CONTENT_TYPE, "application/json"), (header::ACCEPT, "application/json")];

/// A service account.
pub struct Account {
    name: String,
    own: ApiClient,
    clock: SharedClock,
    token: tokio::sync::Mutex<Option<Token>>,
}

struct Token {
    header: HeaderValue,
    /// When another is to be asked for.
    renew: Timestamp,
    /// When it is no good any more.
    end: Timestamp,
}

impl Account {
    pub(super) fn new(name: &str, own: ApiClient, clock: SharedClock) -> Self {
        Self { name: name.to_owned(), own, clock, token: tokio::sync::Mutex::default() }
    }

    /// The account's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Value of the `Authorization` header. Asks for a token if there is none
    /// that lasts.
    ///
    /// # Errors
    ///
    /// The API server gives no token, and there is none that is still good.
    pub fn authorization(&self) -> BoxFuture<'_, Result<HeaderValue, ApiError>> {
        // A client asks for a token, which asks by a client.
        Box::pin(self.authorize())
    }

    async fn authorize(&self) -> Result<HeaderValue, ApiError> {
        let mut held = self.token.lock().await;
        let now = self.clock.now();
        if let Some(token) = held.as_ref().filter(|token| now < token.renew) {
            return Ok(token.header.clone());
        }
        match self.request().await {
            Ok(token) => {
                let header = token.header.clone();
                *held = Some(token);
                Ok(header)
            }
            Err(error) => match held.as_mut().filter(|token| now < token.end) {
                Some(token) => {
                    tracing::warn!(account = self.name, %error, "no new token; the old one goes on");
                    token.renew = now + PAUSE;
                    Ok(token.header.clone())
                }
                None => {
                    let mut error = error;
                    error.failure.message = format!(
                        "no token for service account {NAMESPACE}/{}: {}",
                        self.name, error.failure.message
                    );
                    // Nothing was written: whoever asked knows that for sure.
                    if error.failure.status == 0 {
                        error.failure.status = StatusCode::SERVICE_UNAVAILABLE.as_u16().into();
                        error.failure.reason = "ServiceUnavailable".into();
                    }
                    Err(error)
                }
            },
        }
    }

    /// The API server did not know this token any more: the next request has
    /// another.
    pub async fn refused(&self, header: &HeaderValue) {
        let mut held = self.token.lock().await;
        if held.as_ref().is_some_and(|token| token.header == *header) {
            tracing::warn!(
                account = self.name,
                "the API server refuses the account's token; asking for another"
            );
            *held = None;
        }
    }

    async fn request(&self) -> Result<Token, ApiError> {
        let asked = match self.post_token().await {
            Err(error) if error.failure.status == 404 => {
                self.create().await?;
                self.post_token().await
            }
            asked => asked,
        };
        let unusable = |reason: String| ApiError::no_answer(format!("an unusable TokenRequest: {reason}"));
        let answer: TokenRequest =
            serde_json::from_slice(&asked?.body).map_err(|error| unusable(error.to_string()))?;
        let status = answer.status.ok_or_else(|| unusable("no status".into()))?;
        let (Some(token), Some(end)) = (status.token, status.expiration_timestamp) else {
            return Err(unusable("no token, or no end".into()));
        };
        let mut header =
            HeaderValue::from_str(&format!("Bearer {token}")).map_err(|error| unusable(error.to_string()))?;
        header.set_sensitive(true);
        let now = self.clock.now();
        let lifetime = end.0.duration_since(now).max(SHORTEST);
        tracing::debug!(account = self.name, ?lifetime, "a token");
        Ok(Token { header, renew: now + lifetime * (100 - LEEWAY) / 100, end: now + lifetime })
    }

    async fn post_token(&self) -> Result<Response, ApiError> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts/{}/token", self.name);
        let spec = TokenRequestSpec { expiration_seconds: Some(LIFETIME), ..TokenRequestSpec::default() };
        self.post(&path, &TokenRequest { spec: Some(spec), ..TokenRequest::default() }).await
    }

    async fn create(&self) -> Result<(), ApiError> {
        let path = format!("/api/v1/namespaces/{NAMESPACE}/serviceaccounts");
        let metadata = ObjectMeta {
            name: Some(self.name.clone()),
            namespace: Some(NAMESPACE.to_owned()),
            ..ObjectMeta::default()
        };
        match self.post(&path, &ServiceAccount { metadata, ..ServiceAccount::default() }).await {
            Ok(_) => {
                tracing::info!(account = self.name, "created the service account in {NAMESPACE}");
                Ok(())
            }
            // Another replica was faster.
            Err(error) if error.failure.status == 409 => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn post(&self, path: &str, object: &impl serde::Serialize) -> Result<Response, ApiError> {
        let body = serde_json::to_vec(object).map_err(|error| ApiError::no_answer(error.to_string()))?;
        self.own.send(Method::POST, path, &JSON, Bytes::from(body), TIMEOUT).await
    }
}
