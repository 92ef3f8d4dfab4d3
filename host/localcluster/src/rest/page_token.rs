//! Tokens that say where the next page of a list begins.
//!
//! In: version and first key of the page. Out: base64 of JSON, as the real server makes it; from a client, what it says
//! or the 400 of the real server.

use base64::alphabet::URL_SAFE;
use base64::engine::Engine as _;
use base64::engine::general_purpose::GeneralPurpose;
use serde_json::{Value, json};

use crate::patch::go::json_type;
use crate::schema::scalar::{NO_PAD, from_base64};
use crate::schema::syntax::{Decoder, go_error};
use crate::status::Status;

const VERSION: &str = "meta.k8s.io/v1";
const PREFIX: &str = "invalid continue token: continue key is not valid";
const BASE64: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, NO_PAD);

/// Where a page begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PageToken {
    /// The version that is listed; none for the present.
    pub version: Option<u64>,
    /// The first key, without the prefix of the resource.
    pub start: String,
}

impl PageToken {
    /// What the client is given.
    pub fn encode(&self) -> String {
        let version = self.version.map_or_else(|| json!(-1), Value::from);
        BASE64.encode(json!({"v": VERSION, "rv": version, "start": self.start}).to_string())
    }

    /// Reads what a client sent.
    pub fn decode(token: &str) -> Result<Self, Status> {
        let refuse = |why: String| Status::bad_request(format!("{PREFIX}: {why}"));
        let data = from_base64(&BASE64, token).map_err(refuse)?;
        let value: Value =
            serde_json::from_slice(&data).map_err(|e| refuse(go_error(Decoder::Standard, &e, &data)))?;
        if let Some(why) = mistyped(&value) {
            return Err(refuse(why));
        }
        let version = value["v"].as_str().unwrap_or_default();
        if version != VERSION {
            return Err(refuse(format!("server does not recognize this encoded version {version}")));
        }
        let rv = value["rv"].as_i64().unwrap_or(0);
        if rv == 0 {
            return Err(refuse(format!("incorrect encoded start resourceVersion (version {VERSION})")));
        }
        let start = value["start"].as_str().unwrap_or_default();
        if start.is_empty() {
            return Err(refuse(format!("encoded start key empty (version {VERSION})")));
        }
        let key = start.trim_start_matches('/');
        if key.split('/').any(|segment| matches!(segment, "" | "." | "..")) {
            return Err(refuse(start.into()));
        }
        Ok(Self { version: u64::try_from(rv).ok(), start: key.to_owned() })
    }
}

/// The first value that is not of its type, in the words of Go's decoder.
fn mistyped(token: &Value) -> Option<String> {
    if !token.is_object() && !token.is_null() {
        let what = json_type(token);
        return Some(format!("json: cannot unmarshal {what} into Go value of type storage.continueToken"));
    }
    let wrong = |key: &str, go: &str, fits: fn(&Value) -> bool| {
        let value = &token[key];
        let what = match value {
            Value::Number(number) if go == "int64" => format!("number {number}"),
            other => json_type(other).to_owned(),
        };
        (!value.is_null() && !fits(value)).then(|| {
            format!("json: cannot unmarshal {what} into Go struct field continueToken.{key} of type {go}")
        })
    };
    wrong("v", "string", Value::is_string)
        .or_else(|| wrong("rv", "int64", Value::is_i64))
        .or_else(|| wrong("start", "string", Value::is_string))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_tokens_come_back() {
        for version in [Some(7), None] {
            let token = PageToken { version, start: "ns/a\0".into() };
            assert_eq!(PageToken::decode(&token.encode()).expect("own token"), token);
        }
    }

    #[test]
    fn junk_is_explained() {
        let message = |token: &str| PageToken::decode(token).expect_err(token).message;
        for (token, want) in [
            ("junk", r"invalid character '\x8e' looking for beginning of value"),
            ("!!!!a", "illegal base64 data at input byte 0"),
            ("a!a!!", "illegal base64 data at input byte 1"),
            ("abcda", "illegal base64 data at input byte 4"),
        ] {
            assert_eq!(message(token), format!("{PREFIX}: {want}"));
        }
        for (json, want) in [
            ("{", "unexpected end of JSON input"),
            ("  ", "unexpected end of JSON input"),
            ("trux", "invalid character 'x' in literal true (expecting 'e')"),
            ("[]x", "invalid character 'x' after top-level value"),
            ("null", "server does not recognize this encoded version "),
            ("[]", "json: cannot unmarshal array into Go value of type storage.continueToken"),
            (
                r#"{"v":1}"#,
                "json: cannot unmarshal number into Go struct field continueToken.v of type string",
            ),
            (
                r#"{"v":"meta.k8s.io/v1","rv":1.5,"start":"a"}"#,
                "json: cannot unmarshal number 1.5 into Go struct field continueToken.rv of type int64",
            ),
            (r#"{"v":"meta.k8s.io/v1","rv":1,"start":"../x"}"#, "../x"),
        ] {
            assert_eq!(message(&BASE64.encode(json)), format!("{PREFIX}: {want}"));
        }
    }
}
