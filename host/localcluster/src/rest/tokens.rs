//! Credentials: the administrator's token, tokens of service accounts, and who a request comes from.
//!
//! Invariant: a token that this process did not sign, or that has expired, is nobody's, but for one that a Secret holds:
//! a controller has signed that with the key made for it, and it lasts as long as the Secret.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use http::header;
use jiff::{SignedDuration, Timestamp};
use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::clock;
use super::http::Request;
use super::strategy::{Lookup, User};
use super::{Rest, meta_text};
use crate::authorization::{AuthorizationMode, anonymous};
use crate::status::Status;

/// The audience of tokens that do not ask for another.
pub(super) const AUDIENCE: &str = "https://kubernetes.default.svc";

/// Signs and checks.
pub(super) struct Tokens {
    key: [u8; 32],
    admin: String,
    /// Verifies tokens that are kept in Secrets.
    kept_key: Vec<u8>,
}

/// Who issues tokens that are kept in Secrets.
const KEPT_ISSUER: &str = "kubernetes/serviceaccount";
/// Before the claims of such a token.
const KEPT: &str = "kubernetes.io/serviceaccount";
/// Label of a Secret whose token was not used for long, and is good no more.
const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";

/// Whose token it is.
pub(super) struct Subject<'a> {
    pub(super) namespace: &'a str,
    pub(super) name: &'a str,
    pub(super) uid: &'a str,
}

impl Tokens {
    pub(super) fn new(key: [u8; 32], admin: String, kept_key: Vec<u8>) -> Self {
        Self { key, admin, kept_key }
    }

    /// A JWT and when it expires.
    pub(super) fn issue(
        &self,
        subject: &Subject<'_>,
        audiences: &Value,
        seconds: i64,
        now: Timestamp,
        id: &str,
    ) -> (String, String) {
        let end = now.saturating_add(SignedDuration::from_secs(seconds)).unwrap_or(now);
        let claims = json!({
            "aud": audiences, "exp": end.as_second(), "iat": now.as_second(),
            "nbf": now.as_second(), "iss": AUDIENCE, "jti": id,
            "sub": format!("system:serviceaccount:{}:{}", subject.namespace, subject.name),
            "kubernetes.io": {
                "namespace": subject.namespace,
                "serviceaccount": {"name": subject.name, "uid": subject.uid},
            },
        });
        let head = URL_SAFE_NO_PAD.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
        let body = URL_SAFE_NO_PAD.encode(claims.to_string());
        let signature = URL_SAFE_NO_PAD.encode(self.sign(&format!("{head}.{body}")));
        (format!("{head}.{body}.{signature}"), clock::seconds(end))
    }

    /// HMAC with SHA-256 (RFC 2104).
    fn sign(&self, text: &str) -> [u8; 32] {
        let mut block = [0u8; 64];
        block[..32].copy_from_slice(&self.key);
        let inner =
            Sha256::new().chain_update(block.map(|b| b ^ 0x36)).chain_update(text.as_bytes()).finalize();
        Sha256::new().chain_update(block.map(|b| b ^ 0x5c)).chain_update(inner).finalize().into()
    }

    /// The claims of a token of ours that has not expired.
    fn claims(&self, token: &str, now: Timestamp) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let given = URL_SAFE_NO_PAD.decode(signature).ok()?;
        if !same(&given, &self.sign(text)) {
            return None;
        }
        let claims = body(text)?;
        (claims["exp"].as_i64()? > now.as_second()).then_some(claims)
    }

    /// The claims of a token that a Secret holds: ES256 of RFC 7518.
    fn kept_claims(&self, token: &str) -> Option<Value> {
        let (text, signature) = token.rsplit_once('.')?;
        let signature = URL_SAFE_NO_PAD.decode(signature).ok()?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, &self.kept_key);
        key.verify(text.as_bytes(), &signature).ok()?;
        body(text).filter(|claims| claims["iss"] == KEPT_ISSUER)
    }
}

/// The claims in a token without its signature.
fn body(text: &str) -> Option<Value> {
    let body = URL_SAFE_NO_PAD.decode(text.rsplit_once('.')?.1).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Compares without telling by its time where they differ.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |diff, (x, y)| diff | (x ^ y)) == 0
}

/// Name of the administrator.
pub const ADMIN: &str = "admin";

/// The administrator.
pub fn admin() -> User {
    User {
        name: ADMIN.into(),
        groups: vec!["system:masters".into(), "system:authenticated".into()],
        ..User::default()
    }
}

impl Rest {
    /// Who a request comes from: its client certificate says so, else its bearer token.
    pub(super) fn authenticate(&self, request: &Request) -> Result<User, Status> {
        let bearer = request
            .headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok())
            .and_then(|value| value.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim());
        let user = match (&request.identity, bearer) {
            (Some(user), _) => Some(user.clone()),
            (None, Some(token)) => self.token_user(token).map(|(user, _)| user),
            (None, None) if self.authorization == AuthorizationMode::Rbac => Some(anonymous()),
            (None, None) => None,
        };
        user.ok_or_else(Status::unauthorized)
    }

    /// The user of a token and its audiences.
    pub(super) fn token_user(&self, token: &str) -> Option<(User, Value)> {
        if !self.tokens.admin.is_empty() && same(token.as_bytes(), self.tokens.admin.as_bytes()) {
            return Some((admin(), json!([AUDIENCE])));
        }
        let Some(claims) = self.tokens.claims(token, self.clock.now()) else {
            return Some((self.kept_user(token)?, json!([AUDIENCE])));
        };
        let account = &claims["kubernetes.io"];
        let namespace = account["namespace"].as_str()?;
        let name = account["serviceaccount"]["name"].as_str()?;
        let uid = account["serviceaccount"]["uid"].as_str()?;
        let mut user = self.account_user(namespace, name, uid)?;
        let id = format!("JTI={}", claims["jti"].as_str().unwrap_or_default());
        user.extra = [("authentication.kubernetes.io/credential-id".to_owned(), vec![id])].into();
        Some((user, claims["aud"].clone()))
    }

    /// The user of a token that a Secret holds. It dies with the Secret.
    fn kept_user(&self, token: &str) -> Option<User> {
        let claims = self.tokens.kept_claims(token)?;
        let claim = |name: &str| claims[format!("{KEPT}/{name}")].as_str();
        let (namespace, secret) = (claim("namespace")?, claim("secret.name")?);
        let secret = self.get_object("secrets", namespace, secret)?;
        let held = STANDARD.decode(secret["data"]["token"].as_str()?).ok()?;
        let is_going = !secret["metadata"]["deletionTimestamp"].is_null();
        if !same(&held, token.as_bytes())
            || is_going
            || secret["metadata"]["labels"][INVALID_SINCE].is_string()
        {
            return None;
        }
        self.account_user(namespace, claim("service-account.name")?, claim("service-account.uid")?)
    }

    /// A service account as a user. Tokens die with their account.
    fn account_user(&self, namespace: &str, name: &str, uid: &str) -> Option<User> {
        let present = self.get_object("serviceaccounts", namespace, name)?;
        (meta_text(&present, "uid") == uid).then(|| User {
            name: format!("system:serviceaccount:{namespace}:{name}"),
            uid: uid.into(),
            groups: vec![
                "system:serviceaccounts".into(),
                format!("system:serviceaccounts:{namespace}"),
                "system:authenticated".into(),
            ],
            ..User::default()
        })
    }

    fn get_object(&self, plural: &str, namespace: &str, name: &str) -> Option<Value> {
        Lookup::get(self, "", plural, namespace, name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_agree_with_rfc_4231() {
        // Test case 2 of RFC 4231, its key padded with zeros as the algorithm does itself.
        let mut key = [0; 32];
        key[..4].copy_from_slice(b"Jefe");
        let tokens = Tokens::new(key, String::new(), Vec::new());
        let expected = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
        let hex: String =
            tokens.sign("what do ya want for nothing?").iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(hex, expected);
    }

    #[test]
    fn a_changed_or_expired_token_is_nobodys() {
        let tokens = Tokens::new([7; 32], String::new(), Vec::new());
        let subject = Subject { namespace: "n", name: "a", uid: "u" };
        let now = Timestamp::UNIX_EPOCH;
        let (token, _) = tokens.issue(&subject, &json!(["x"]), 600, now, "id");
        assert!(tokens.claims(&token, now).is_some());
        let later = now.saturating_add(SignedDuration::from_secs(600)).expect("in range");
        assert!(tokens.claims(&token, later).is_none());
        let body = URL_SAFE_NO_PAD.encode(r#"{"exp":9999999999}"#);
        let mut parts: Vec<_> = token.split('.').collect();
        parts[1] = &body;
        assert!(tokens.claims(&parts.join("."), now).is_none());
        assert!(tokens.claims("", now).is_none());
    }
}
