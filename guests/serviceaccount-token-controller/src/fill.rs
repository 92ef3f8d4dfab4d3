//! What a token Secret lacks.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use coxswain_sdk::contract::{SignLookup, SignWhat};
use coxswain_sdk::resource::SECRETS;
use coxswain_sdk::service_account::UID;
use coxswain_sdk::{Action, Ask, Ctx, Error, Object, Result, from_json};
use serde_json::{Map, Value, json};

use crate::view::TokenSecret;
use crate::{KEY, ROOT_CA};

/// Who issues these tokens, which differ from those of the TokenRequest API.
const ISSUER: &str = "kubernetes/serviceaccount";

/// Fills in what is missing; None if nothing is.
pub(crate) fn fill(ctx: &Ctx<'_>, secret: &Object<TokenSecret>, account_uid: &str) -> Result<Option<Action>> {
    let (meta, data) = (&secret.metadata, &secret.data);
    let mut change = Map::new();
    let ca = STANDARD.encode(ctx.option(ROOT_CA)?);
    if !ca.is_empty() && data.ca != ca {
        change.insert("ca.crt".to_owned(), ca.into());
    }
    if data.namespace.is_empty() {
        change.insert("namespace".to_owned(), STANDARD.encode(&meta.namespace).into());
    }
    if data.token.is_empty() {
        let account = &meta.annotations.name;
        let claims = claims(&meta.namespace, account, account_uid, &meta.name)?;
        let sign = SignLookup { key: KEY.to_owned(), what: SignWhat::Token(claims) };
        let signed = ctx.look_up(Ask::Sign(sign))?;
        let signed =
            signed.map_err(|failure| Error::Retry(format!("cannot sign a token: {}", failure.message)))?;
        let token: String = from_json(&signed).map_err(|e| Error::Terminal(format!("not a token: {e}")))?;
        change.insert("token".to_owned(), STANDARD.encode(token).into());
    }
    if change.is_empty() {
        return Ok(None);
    }
    let mut body = json!({ "data": change });
    if meta.annotations.uid != account_uid {
        body["metadata"]["annotations"][UID] = Value::from(account_uid);
    }
    Ok(Some(Action::merge(SECRETS, &meta.namespace, &meta.name, &body).tag("fill").as_seen(secret)))
}

/// The claims of a token, sorted by name.
fn claims(namespace: &str, account: &str, uid: &str, secret: &str) -> Result<String> {
    let subject = format!("system:serviceaccount:{namespace}:{account}");
    let claims = BTreeMap::from([
        ("iss", ISSUER),
        ("kubernetes.io/serviceaccount/namespace", namespace),
        ("kubernetes.io/serviceaccount/secret.name", secret),
        ("kubernetes.io/serviceaccount/service-account.name", account),
        ("kubernetes.io/serviceaccount/service-account.uid", uid),
        ("sub", &subject),
    ]);
    serde_json::to_string(&claims).map_err(|e| Error::Terminal(format!("cannot write claims: {e}")))
}

#[cfg(test)]
mod tests {
    #[test]
    fn claims_are_those_that_the_api_server_looks_for() {
        assert_eq!(
            super::claims("ns", "bot", "u1", "bot-token").unwrap(),
            concat!(
                r#"{"iss":"kubernetes/serviceaccount","#,
                r#""kubernetes.io/serviceaccount/namespace":"ns","#,
                r#""kubernetes.io/serviceaccount/secret.name":"bot-token","#,
                r#""kubernetes.io/serviceaccount/service-account.name":"bot","#,
                r#""kubernetes.io/serviceaccount/service-account.uid":"u1","#,
                r#""sub":"system:serviceaccount:ns:bot"}"#
            )
        );
    }
}
