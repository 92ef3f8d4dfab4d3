//! Bootstrap tokens, as far as they sign.

use coxswain_sdk::bootstrap::{TOKEN, expiration, text};
use coxswain_sdk::resource::SECRETS;
use coxswain_sdk::{FromJson, ObjectMeta, Resource, Time, View};

/// What is read of a bootstrap token.
#[derive(Debug, FromJson)]
pub struct Token {
    metadata: ObjectMeta,
    #[serde(default, rename = "type")]
    kind: String,
    #[serde(default)]
    data: Data,
}

#[derive(Debug, Default, FromJson)]
#[serde(rename_all = "kebab-case", default)]
struct Data {
    token_id: String,
    token_secret: String,
    expiration: String,
    usage_bootstrap_signing: String,
}

impl View for Token {
    const RESOURCE: Resource = SECRETS;
}

impl Token {
    /// Its id and secret, if it is whole, has not ended and may sign.
    pub(crate) fn signs(&self, now: Time) -> Option<(String, String)> {
        let id = self.metadata.name.strip_prefix("bootstrap-token-")?;
        let is_id = id.len() == 6 && id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        let may_sign = text(&self.data.usage_bootstrap_signing).as_deref() == Some("true");
        let same = text(&self.data.token_id).as_deref() == Some(id);
        let ended = self.ends().is_some_and(|end| end <= now);
        if self.kind != TOKEN || !is_id || !same || !may_sign || ended {
            return None;
        }
        Some((id.to_owned(), text(&self.data.token_secret)?))
    }

    /// When it ends.
    pub(crate) fn ends(&self) -> Option<Time> {
        expiration(&self.data.expiration)
    }
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn only_a_whole_token_signs() {
        let data = |fields: &[(&str, &str)]| -> Value {
            let mut data = json!({});
            let usual =
                [("token-id", "abcdef"), ("token-secret", "s3cret"), ("usage-bootstrap-signing", "true")];
            for (field, value) in usual.iter().chain(fields) {
                data[*field] = STANDARD.encode(value).into();
            }
            data
        };
        let signs = |name: &str, kind: &str, data: Value| {
            let token: Token =
                serde_json::from_value(json!({"metadata": {"name": name}, "type": kind, "data": data}))
                    .unwrap();
            token.signs(Time::parse("2026-01-01T00:00:00Z").unwrap()).is_some()
        };
        const NAME: &str = "bootstrap-token-abcdef";
        assert!(signs(NAME, TOKEN, data(&[])));
        assert!(signs(NAME, TOKEN, data(&[("expiration", "2026-01-01T00:00:01Z")])));
        assert!(!signs(NAME, TOKEN, data(&[("expiration", "2026-01-01T00:00:00Z")])));
        assert!(!signs(NAME, TOKEN, data(&[("expiration", "never")])));
        assert!(!signs(NAME, TOKEN, data(&[("token-id", "ghijkl")])));
        assert!(!signs(NAME, TOKEN, data(&[("token-id", "")])));
        assert!(!signs(NAME, TOKEN, data(&[("token-secret", "")])));
        assert!(!signs(NAME, TOKEN, data(&[("usage-bootstrap-signing", "True")])));
        assert!(!signs(NAME, "Opaque", data(&[])));
        assert!(!signs("token-abcdef", TOKEN, data(&[])));
        assert!(!signs("bootstrap-token-abcdefg", TOKEN, data(&[("token-id", "abcdefg")])));
        assert!(!signs("bootstrap-token-abc-ef", TOKEN, data(&[("token-id", "abc-ef")])));
        assert!(!signs(NAME, TOKEN, Value::Null));
    }
}
