//! JSON web tokens (RFC 7519), signed as RFC 7515 and RFC 7518 have it.

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use der::{Decode, Sequence, asn1::Uint};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::{
    invalid,
    key::{Algorithm, Identity},
    unavailable,
};
use crate::contract::Failure;

/// An ECDSA signature as certificates have it.
#[derive(Sequence)]
struct Ecdsa {
    r: Uint,
    s: Uint,
}

/// A token with exactly these claims.
pub(super) fn sign(claims: &str, identity: &Identity) -> Result<String, Failure> {
    if let Err(error) = serde_json::from_str::<Map<String, Value>>(claims) {
        return Err(invalid(format!("claims are a JSON object: {error}")));
    }
    let (name, half) = match identity.algorithm {
        Algorithm::Rsa => ("RS256", None),
        Algorithm::P256 => ("ES256", Some(32)),
        Algorithm::P384 => ("ES384", Some(48)),
        Algorithm::Ed25519 => {
            return Err(unavailable(
                "tokens are signed with RSA or ECDSA keys, and the key is an Ed25519 key",
            ));
        }
    };
    let header = json!({ "alg": name, "kid": key_id(identity) }).to_string();
    let mut token = URL_SAFE_NO_PAD.encode(header);
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(claims, &mut token);
    let mut signature = identity.sign(token.as_bytes()).map_err(unavailable)?;
    if let Some(half) = half {
        signature =
            fixed(&signature, half).map_err(|e| unavailable(format!("a signature is no ECDSA: {e}")))?;
    }
    token.push('.');
    URL_SAFE_NO_PAD.encode_string(signature, &mut token);
    Ok(token)
}

/// The name of a key that tells nothing about it: what Kubernetes calls `kid`.
fn key_id(identity: &Identity) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(&identity.public_key))
}

/// The two numbers of a signature in so many bytes each.
fn fixed(signature: &[u8], half: usize) -> der::Result<Vec<u8>> {
    let Ecdsa { r, s } = Ecdsa::from_der(signature)?;
    let mut out = vec![0; 2 * half];
    for (number, place) in [r, s].iter().zip(out.chunks_exact_mut(half)) {
        let bytes = number.as_bytes();
        let from = half.checked_sub(bytes.len()).ok_or(der::ErrorKind::Overlength)?;
        place[from..].copy_from_slice(bytes);
    }
    Ok(out)
}
